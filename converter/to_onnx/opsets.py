"""The opset of a model that is exported: the caller's, or the lowest one that says the model compactly."""

from __future__ import annotations

from converter.errors import ConversionError

OLDEST = 7
"""The first opset that can be written: from it on operands are broadcast as today."""
FORMS = 13
"""The opset in whose forms exporters write; see :mod:`converter.to_onnx.older_forms`. The lowest that is chosen."""
NEWEST = 28
"""The last one that can be written."""
RELEASED = 25
"""The last one that is chosen where the caller does not: released runtimes read it."""


class OpsetTooLow(Exception):
    """A layer needs a later opset than the caller's."""

    def __init__(self, needed: int, feature: str) -> None:
        super().__init__(f"{feature} needs opset {needed}")
        self.needed = needed


class Opsets:
    """The opset to write, and the opsets that layers required.

    Where the caller did not choose one, every question is answered with yes and remembered: the export is repeated
    with the highest opset that was asked for.
    """

    def __init__(self, version: int, *, is_chosen: bool) -> None:
        self.version = version
        self.is_chosen = is_chosen
        self.needed = version
        self.most = RELEASED
        """The last opset in which the runtime has every operator that was used, if the caller leaves it open."""

    @classmethod
    def of(cls, opset: int | None) -> Opsets:
        """``opset`` is the caller's. Raises :class:`ConversionError` for one that cannot be written."""
        if opset is None:
            return cls(FORMS, is_chosen=False)
        if isinstance(opset, bool) or not isinstance(opset, int) or not OLDEST <= opset <= NEWEST:
            raise ConversionError(f"the opset must be a number from {OLDEST} to {NEWEST}, but is {opset!r}")
        return cls(opset, is_chosen=True)

    @classmethod
    def from_declared(cls, version: int) -> Opsets:
        """That of the ONNX file that the IR was made from is the lowest one to be used."""
        return cls(min(max(version, FORMS), RELEASED), is_chosen=False)

    def at_least(self, version: int) -> bool:
        """True if operators of that opset may be used; where the caller did not choose, they may."""
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
        """Raises :class:`OpsetTooLow` where ``feature`` needs a later opset than the caller's."""
        if not self.at_least(version):
            raise OpsetTooLow(version, feature)
