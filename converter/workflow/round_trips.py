"""There and back: a model converted, exported and converted again, until nothing changes any more."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import ConversionError
from converter.options.conversion import ConversionOptions
from converter.to_onnx.export import save_onnx
from converter.workflow.single_model import Work
from ir_runtime import read_model
from ir_runtime.boundary import boundary
from ir_runtime.displayed import Printed
from ir_runtime.files.file_kinds import IR, kind_of_path
from ir_runtime.graph.model_difference import ModelDifference, compare_models
from ir_runtime.records import record

if TYPE_CHECKING:
    from converter.equivalence.verdict.report import Report

_MOST_PASSES = 4
"""A round trip that has not come to rest after so many passes does not."""


@record
class RoundTrip(Printed):
    """Result of a round trip: the comparison of numbers at each stage, and the pass that changed nothing."""

    reports: Mapping[str, Report]
    """By stage, such as ``"model.onnx -> IR"``."""
    settled: int | None
    """The first pass after which the IR is the one of the pass before; None where there was none."""
    difference: ModelDifference
    """The last two IRs."""

    @property
    def passed(self) -> bool:
        """True if the numbers are equal at each stage, and from the second pass on nothing changes."""
        return self.settled is not None and self.settled <= 2 and all(report.passed for report in self.reports.values())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "passed": self.passed,
            "settled": self.settled,
            "stages": {name: report.to_dict() for name, report in self.reports.items()},
            "difference": self.difference.to_dict(),
        }

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        different = [name for name, report in self.reports.items() if not report.passed]
        if different:
            return f"failed: numbers differ at {', '.join(different)}"
        if self.settled is None:
            return "failed: the passes do not come to rest"
        return "passed" if self.passed else f"failed: only pass {self.settled} changed nothing"

    def __repr__(self) -> str:
        return f"RoundTrip({self.verdict}, {len(self.reports)} stages)"


@boundary(error=ConversionError)
def round_trip(
    model: str | os.PathLike[str],
    *,
    opset: int | None = None,
    contrib: bool = False,
    target: str = "any",
    seed: int = 0,
) -> RoundTrip:
    """Convert or export ``model`` (``.onnx`` or ``.xml``), take it back, and again, comparing the numbers each time.

    Each pass goes from an IR to ONNX and back. From the second pass on layers, attributes and weights must stay.
    ``opset`` and ``contrib`` are those of :func:`converter.export_model`, ``target`` is that of
    :func:`converter.convert_model`, ``seed`` that of the random inputs.

    Raises :class:`ConversionError` where a stage cannot be done, and :class:`converter.VerificationError` where one
    cannot be run.
    """
    from converter.equivalence.verdict.verification import verify

    path, options = Path(model), ConversionOptions(target=target)
    # Only differences matter: an output that proves nothing proves nothing against the round trip, either.
    checks: dict[str, Any] = {"seed": seed, "layers": False, "accept_unproven": True}
    reports: dict[str, Report] = {}
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "pass_0.xml"
        if kind_of_path(path) is IR:
            current = read_model(path)
            before = path
        else:
            current = Work(path, before, options).run("convert", "write").conversion.model
            reports[f"{path.name} -> IR"] = verify(path, before, **checks)
        difference = compare_models(current, current)
        for number in range(1, _MOST_PASSES + 1):
            exported, after = (Path(folder) / f"pass_{number}{suffix}" for suffix in (".onnx", ".xml"))
            save_onnx(before, exported, opset=opset, contrib=contrib)
            reports[f"pass {number}: IR -> ONNX"] = verify(exported, before, weights=False, **checks)
            Work(exported, after, options).run("convert", "write")
            reports[f"pass {number}: ONNX -> IR"] = verify(exported, after, **checks)
            changed = read_model(after)
            difference = compare_models(current, changed)
            if difference.same:
                return RoundTrip(reports, number, difference)
            current, before = changed, after
    return RoundTrip(reports, None, difference)
