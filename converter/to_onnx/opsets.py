"""The opset of an exported model: the caller's, or the lowest one that expresses the model compactly."""

from __future__ import annotations

import onnx
from onnx import helper

from converter.onnx_file.graph import operator_of
from ir_runtime.graph import Model

from .graph import written_operators

FORMS = 13
"""The opset whose forms of operators exporters write, and the lowest that is chosen without the caller.

:mod:`converter.to_onnx.older_forms` translates these forms for lower opsets of the caller.
"""
RELEASED = 25
"""The last opset that is chosen without the caller: released runtimes read it."""


class OpsetTooLow(Exception):
    """A layer needs a later opset than the caller's."""

    def __init__(self, needed: int, feature: str) -> None:
        super().__init__(f"{feature} needs opset {needed}")
        self.needed = needed


class Opsets:
    """The opset to write, and the opsets that layers required.

    Where the caller did not choose one, :meth:`at_least` is always true, and ``needed`` becomes the highest opset that
    was required: the export is then repeated with it.
    """

    def __init__(self, version: int, *, is_chosen: bool) -> None:
        self.version = version
        self.is_chosen = is_chosen
        self.needed = version
        self.most = RELEASED
        """The last opset in which the runtime has every operator that was used; ignored where the caller chose one."""

    @classmethod
    def of(cls, opset: int | None) -> Opsets:
        """Return the state for the ``opset`` of the caller; None leaves the choice to the export."""
        return cls(FORMS, is_chosen=False) if opset is None else cls(opset, is_chosen=True)

    @classmethod
    def from_declared(cls, version: int) -> Opsets:
        """Return the state for the opset of the ONNX file that the IR was made from: the lowest one to be used."""
        return cls(min(max(version, FORMS), RELEASED), is_chosen=False)

    def at_least(self, version: int) -> bool:
        """True if operators of that opset may be used: always, unless the caller chose an earlier one."""
        if version <= self.version:
            return True
        if self.is_chosen:
            return False
        self.needed = max(self.needed, version)
        return True

    def at_most(self, version: int) -> None:
        """Note that the runtime has an operator up to that opset only."""
        self.most = min(self.most, version)

    def require(self, version: int, feature: str) -> None:
        """Raise :class:`OpsetTooLow` where ``feature`` needs a later opset than the caller's."""
        if not self.at_least(version):
            raise OpsetTooLow(version, feature)


def imported_opsets(graph: Model, opset: int) -> list[onnx.OperatorSetIdProto]:
    """Return the versions of the domains that the nodes of a graph and its bodies are from."""
    domains = {operator_of(node).domain for node in written_operators(graph)} - {""}
    return [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in sorted(domains))]
