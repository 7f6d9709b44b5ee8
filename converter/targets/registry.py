"""Targets by name, and the rules that belong to each.

``cpu`` is OpenVINO's CPU plug-in, ``cpu@2024.6`` the one of a release, which knows no later operations; ``any``
is the plain IR.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from converter.errors import ConversionError, UnsupportedModelError
from ir_runtime.boundary import boundary
from ir_runtime.graph import Model, element_types
from ir_runtime.records import record
from ir_runtime.rewriting.pipeline import Pipeline, Release
from ir_runtime.rewriting.trace import Trace

from .below_opset15 import order as below_opset15_order
from .openvino_cpu import order as openvino_cpu_order
from .openvino_cpu.limits import refused_layers

openvino_cpu = Pipeline("converter.targets.openvino_cpu", openvino_cpu_order.ORDER)
"""Rules for layers that OpenVINO's CPU plug-in computes wrongly, slowly or not at all."""
below_opset15 = Pipeline("converter.targets.below_opset15", below_opset15_order.ORDER)
"""Operations that releases before opset 15 do not have, expressed by older ones."""
RULES = (openvino_cpu, below_opset15)
"""Every rule, in the order of the target ``cpu``. Each rule has the releases that need it."""

DEFAULT = "cpu"
_NAME = re.compile(r"(?P<runtime>cpu|any)(@(?P<year>\d{4})\.(?P<number>\d+)(\.\d+)?)?")
_LAST_OPSETS = {(2023, 3): 13, (2024, 6): 15, (2025, 4): 16}
"""The last opset that is complete in the CPU plug-in of a release, from the first one that has it on."""


@record
class Target:
    """A runtime, and the last opset whose operations may be written."""

    name: str
    runtime: str
    release: Release | None = None
    """None stands for the newest one."""
    last_opset: int | None = None
    """None where there is no limit."""

    @classmethod
    @boundary("the target", reads=ConversionError)
    def parse(cls, name: str) -> Target:
        """Read ``cpu``, ``any`` or ``cpu@2024.6``; raises :class:`ConversionError` for anything else."""
        match = _NAME.fullmatch(name) if isinstance(name, str) else None
        if match is None:
            raise ConversionError(f"there is no target {name!r}; there are cpu, any, and releases such as cpu@2024.6")
        if match["year"] is None:
            return cls(name, match["runtime"])
        release = int(match["year"]), int(match["number"])
        opsets = [opset for since, opset in _LAST_OPSETS.items() if since <= release]
        if not opsets:
            oldest = ".".join(map(str, min(_LAST_OPSETS)))
            raise ConversionError(f"the target '{name}' is older than {oldest}, the oldest release that is known")
        return cls(name, match["runtime"], release, max(opsets))

    def apply(self, model: Model, trace: Trace | None = None, *, exact: bool = False) -> dict[str, int]:
        """Change ``model`` by the rules that the release needs; how often each applied, of those that did.

        ``trace`` collects which layers each rule looked at, and why it left them. With ``exact``
        every constant stays as it is. Raises :class:`ConversionError` for operations that the release does not have.
        """
        counts: dict[str, int] = {}
        if self.runtime == "cpu":
            counts.update(openvino_cpu.run(model, release=self.release, exact=exact, trace=trace))
            _refuse_comparisons_of_strings(model)
        counts.update(below_opset15.run(model, release=self.release, exact=exact, trace=trace))
        if self.last_opset is None:
            return counts
        counts.update(_decompose_newer(model, self.last_opset, trace))
        later = Counter(
            f"{node.op.type}-{node.op.opset} ({node.where})"
            for part in model.all_models()
            for node in part.nodes()
            if node.op.opset > self.last_opset
        )
        if later:
            raise UnsupportedModelError(
                f"{self.name} has operations up to opset {self.last_opset}, but the model needs {', '.join(later)}"
            )
        return counts

    def refusals(self, model: Model) -> Iterable[str]:
        """A sentence for each layer of a finished model that the runtime refuses."""
        return refused_layers(model) if self.runtime == "cpu" else ()


def _decompose_newer(model: Model, last_opset: int, trace: Trace | None) -> dict[str, int]:
    """Decompose operations of opsets that a release does not have; how many layers, by the name of the pass."""
    if all(node.op.opset <= last_opset for part in model.parts() for node in part.nodes):
        return {}
    from converter.passes.decomposition.registry import DECOMPOSITIONS, decompose_layers  # few models need it

    newer = tuple(entry for entry in DECOMPOSITIONS.entries() if entry.opset > last_opset)
    count = decompose_layers(model, newer, None if trace is None else trace.of("decomposition"))
    return {"decomposition": count} if count else {}


def _refuse_comparisons_of_strings(model: Model) -> None:
    """Raise :class:`UnsupportedModelError` for layers that no rule can express, as the plug-in compares no strings."""
    compared = [
        f"{node.op.type} ({node.where})"
        for part in model.all_models()
        for node in part.nodes()
        if node.op.type in ("Equal", "NotEqual") and node.inputs[0].element_type is element_types.string
    ]
    if compared:
        raise UnsupportedModelError(
            f"OpenVINO's CPU plug-in does not compare strings, which the model needs: {', '.join(compared)}; "
            "the target 'any' writes these layers for other runtimes"
        )
