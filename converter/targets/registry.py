"""Targets by name, and the rules that belong to each.

``cpu`` is OpenVINO's CPU plug-in, ``cpu@2024.6`` the one of a release, which knows no later operations; ``any``
is the plain IR.
"""

from __future__ import annotations

import re
from collections import Counter

from converter.errors import ConversionError, UnsupportedModelError
from converter.passes.pipeline import Pipeline
from ir_runtime.graph import Model
from ir_runtime.records import record

openvino_cpu = Pipeline("converter.targets.openvino_cpu")
"""The rules for OpenVINO's CPU plug-in."""
below_opset15 = Pipeline("converter.targets.below_opset15")
"""What releases before opset 15 need said with older operations."""

DEFAULT = "cpu"
_NAME = re.compile(r"(?P<runtime>cpu|any)(@(?P<year>\d{4})\.(?P<number>\d+)(\.\d+)?)?")
_LAST_OPSETS = {(2023, 3): 13, (2024, 6): 15, (2025, 4): 16}
"""The last opset that is complete in the CPU plug-in of a release, from the first one that has it on."""


@record
class Target:
    """A runtime, and the last opset whose operations may be written."""

    name: str
    runtime: str
    last_opset: int | None
    """None where there is no limit."""

    @classmethod
    def parse(cls, name: str) -> Target:
        """Read ``cpu``, ``any`` or ``cpu@2024.6``; raises :class:`ConversionError` for anything else."""
        found = _NAME.fullmatch(name) if isinstance(name, str) else None
        if found is None:
            raise ConversionError(f"there is no target {name!r}; there are cpu, any, and releases such as cpu@2024.6")
        if found["year"] is None:
            return cls(name, found["runtime"], None)
        release = int(found["year"]), int(found["number"])
        known = [opset for since, opset in _LAST_OPSETS.items() if since <= release]
        if not known:
            oldest = ".".join(map(str, min(_LAST_OPSETS)))
            raise ConversionError(f"the target '{name}' is older than {oldest}, the oldest release that is known")
        return cls(name, found["runtime"], max(known))

    def apply(self, model: Model) -> dict[str, int]:
        """Change ``model`` by the target's rules; how often each acted, of those that did.

        Raises :class:`ConversionError` for operations that the release does not have.
        """
        counts: dict[str, int] = {}
        if self.runtime == "cpu":
            counts.update(openvino_cpu.run(model))
        if self.last_opset is None:
            return counts
        if self.last_opset < 15:
            counts.update(below_opset15.run(model))
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
