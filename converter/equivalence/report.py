"""What a comparison found."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from converter.equivalence.compare import Comparison
from ir_runtime.displayed import Printed
from ir_runtime.records import record

Histogram = tuple[float, float, list[int], list[int]]
"""The least and the greatest value, and how many values lie in each bin between them: expected, and the IR's."""


@record
class LayerDifference:
    """An inner tensor that both sides have, compared: ``layer`` and ``type`` are the IR's.

    ``comparison`` is of the whole run, and includes the differences of earlier layers. ``local`` is of this part of
    the graph alone: the layers behind the nearest tensors that both sides have are computed from the oracle's values,
    and may differ by no more than their own rounding. ``part`` names these layers, the last of which is ``layer``;
    ``node`` is the ONNX node that makes the tensor, ``histogram`` counts the values of both sides for a page.
    """

    layer: str
    type: str
    comparison: Comparison
    local: Comparison
    node: str
    part: tuple[str, ...]
    histogram: Histogram | None = None


@record
class WeightCheck:
    """What the IR has of the tensor ``name`` that the ONNX file declares; ``reason`` tells what differs.

    ``state`` is one of

    * ``identical``: a constant of the IR has the same values, bit by bit (``form`` names another layout);
    * ``converted``: every value is the nearest one of a narrower type, which ``form`` names;
    * ``compressed``: whole numbers with scales, ``error`` the greatest difference, which is at most one step;
    * ``scaled``: each output channel has the tensor's values times one factor, rounded once;
    * ``folded``: not a constant by itself, but part of what ``layers`` compute or hold;
    * ``unused``: no output depends on it;
    * ``changed``: the IR has other values in its place, with the greatest difference ``error``, and fails.
    """

    name: str
    state: str
    layers: tuple[str, ...] = ()
    form: str = ""
    error: float = 0.0
    reason: str = ""

    @property
    def passed(self) -> bool:
        """Whether the IR holds the tensor's values."""
        return self.state != "changed"


@record
class Sample:
    """A run of both sides: the shapes of its ``inputs``, a ``description`` of their values, whether it ``passed``."""

    description: str
    inputs: dict[str, list[int]]
    passed: bool


@record
class Report(Printed):
    """The result of :func:`verify`.

    ``passed`` is true where outputs and weights agree. ``oracle`` names what ran the reference, ``engine`` what ran the
    IR, ``seed`` is that of the random inputs, None for the caller's. ``samples`` lists the runs; ``inputs`` are
    the shapes of the first. ``outputs`` has for each output the comparison of the run in which it differed most.
    ``layers`` lists inner tensors in the order of the graph, where they were asked for, an output failed or proves
    nothing; ``first_fault`` is the first that is wrong although its inputs were right, ``first_divergence`` the
    first that is beyond its tolerance in the whole run. ``layers_problem`` tells why tensors could not be compared.
    ``suspects`` name layers that differ from those of a conversion now: those near the fault, if there is one.
    ``unproven`` are the outputs that prove nothing about the layers before them. ``verdict`` is one sentence;
    ``only_adds_up`` means that outputs differ and no single layer is wrong, which fails, too. ``unwritten`` has the
    errors of writing the page or the smallest part; ``page`` is the path of the page that was written. ``weights`` has
    the state of every tensor that the file declares, ``against`` the comparisons with another IR. ``minimised`` is the
    folder that the smallest wrong part was written to. ``notes`` are what else a reader must know.
    """

    passed: bool
    oracle: str
    seed: int | None
    inputs: dict[str, list[int]]
    outputs: tuple[Comparison, ...]
    layers: tuple[LayerDifference, ...] = ()
    layers_problem: str = ""
    engine: str = "NumPy"
    samples: tuple[Sample, ...] = ()
    weights: tuple[WeightCheck, ...] = ()
    against: tuple[Comparison, ...] = ()
    notes: tuple[str, ...] = ()
    minimised: str = ""
    suspects: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    unwritten: tuple[str, ...] = ()
    page: str = ""

    @property
    def first_divergence(self) -> LayerDifference | None:
        """The first tensor that is beyond its tolerance in the whole run; None where none is."""
        return next((layer for layer in self.layers if not layer.comparison.passed), None)

    @property
    def first_fault(self) -> LayerDifference | None:
        """The first tensor that is wrong although its inputs were right; None where none is."""
        return next((layer for layer in self.layers if not layer.local.passed), None)

    @property
    def only_adds_up(self) -> bool:
        """Whether outputs differ although every layer that was compared is right from right inputs.

        Another engine may compute several layers at once in another way, so this is false where one ran the IR.
        """
        return self._no_layer_is_wrong and self.engine == "NumPy"

    @property
    def _no_layer_is_wrong(self) -> bool:
        differ = any(not one.passed for one in self.outputs)
        return differ and bool(self.layers) and not self.layers_problem and self.first_fault is None

    @property
    def verdict(self) -> str:
        """What was found, in one sentence."""
        if self.passed:
            proofless = ", ".join(f"'{name}'" for name in self.unproven)
            return f"passed, but outputs prove nothing: {proofless}" if self.unproven else "passed"
        fault = self.first_fault
        wrong = [check.name for check in self.weights if not check.passed]
        if fault is not None:
            where = "" if self.engine == "NumPy" else f" in {self.engine}"
            return f"failed: layer '{fault.layer}' is wrong{where} although its inputs are right"
        if wrong:
            return f"failed: weights of the file are changed, the first is '{wrong[0]}'"
        if self.only_adds_up:
            return "failed: outputs differ, but no single layer is wrong: the rounding of layers adds up"
        if self._no_layer_is_wrong:
            return f"failed: outputs differ in {self.engine}, but no layer alone is wrong there"
        if any(not one.passed for one in self.outputs):
            return "failed: outputs differ"
        return "failed: the outputs of the other IR differ"

    @property
    def weight_states(self) -> dict[str, int]:
        """How many of the file's tensors are in which state."""
        return dict(Counter(check.state for check in self.weights))

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, ready for JSON."""
        first, fault = self.first_divergence, self.first_fault
        return {
            **asdict(self),
            "first_divergence": None if first is None else asdict(first),
            "first_fault": None if fault is None else asdict(fault),
            "weight_states": self.weight_states,
            "verdict": self.verdict,
            "only_adds_up": self.only_adds_up,
        }

    def __repr__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        failed = [output.name for output in self.outputs if not output.passed]
        return f"Report({verdict} against {self.oracle}, {len(self.outputs)} outputs, failed: {failed})"
