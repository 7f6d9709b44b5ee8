"""The report of a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from converter.equivalence.comparison.compare import Comparison
from converter.equivalence.comparison.layers import LayerDifference
from converter.equivalence.derivation.contracts import AppliedContract
from converter.equivalence.derivation.rederivation import DERIVED, DIFFERENT, INAPPLICABLE, DerivationCheck
from converter.equivalence.weights.accounting import WeightAccount
from converter.equivalence.weights.checks import WeightCheck
from ir_runtime.displayed import Printed
from ir_runtime.graph.model_difference import LayerChange
from ir_runtime.records import record

EQUAL, UNPROVEN = "equal", "unproven"
VERDICTS = (DERIVED, EQUAL, UNPROVEN, DIFFERENT)
"""The verdicts of a verification; the first two pass."""
_NAMED = 3
"""Maximum number of layers, weights or outputs in a sentence."""


@record
class Sample:
    """A run of both sides: the shapes of its ``inputs``, a ``description`` of their values, whether it ``passed``."""

    description: str
    inputs: dict[str, list[int]]
    passed: bool


@record
class Report(Printed):
    """The result of :func:`verify`.

    ``verdict`` is its summary in one word, ``reason`` in one sentence; it ``passed`` if it is ``derived`` or ``equal``.
    """

    oracle: str
    """The engine of the reference."""
    seed: int | None
    """The seed of the random inputs; None for the caller's inputs."""
    inputs: dict[str, list[int]]
    """The shapes of the inputs of the first run."""
    outputs: tuple[Comparison, ...]
    """For each output the comparison of the run in which it differed most."""
    layers: tuple[LayerDifference, ...] = ()
    """Inner tensors in the order of the graph, where they were asked for, an output failed or proves nothing."""
    layers_problem: str = ""
    """Why tensors could not be compared."""
    engine: str = "NumPy"
    """The engine of the IR."""
    samples: tuple[Sample, ...] = ()
    """The runs."""
    weights: tuple[WeightCheck, ...] = ()
    """The state of every tensor that the file declares."""
    account: WeightAccount | None = None
    """The sources of the values of the IR's constants; None where weights were not compared."""
    derivation: DerivationCheck = DerivationCheck(INAPPLICABLE, "the derivation was not repeated")
    """The IR beside its derivation."""
    contracts: tuple[AppliedContract, ...] = ()
    """The contracts of the recorded passes and rules: how far each may change results."""
    against: tuple[Comparison, ...] = ()
    """The comparisons with another IR."""
    refused: str = ""
    """The shapes that one side refuses although its declaration allows them, in a sentence; empty for none."""
    limits: tuple[str, ...] = ()
    """The layers that differ in the engine by one of its known limits alone, and how."""
    notes: tuple[str, ...] = ()
    """Further notes for the reader."""
    minimised: str = ""
    """The folder that the smallest wrong part was written to."""
    unproven: tuple[str, ...] = ()
    """The outputs that prove nothing about the layers before them, and whose layers do not either."""
    shown_by_layers: tuple[str, ...] = ()
    """The outputs that prove nothing, but whose layers were all compared by themselves."""
    random: tuple[str, ...] = ()
    """The outputs that depend on random numbers: nothing but their types and shapes was compared."""
    accept_unproven: bool = False
    """True if a verdict of ``unproven`` passes."""
    unwritten: tuple[str, ...] = ()
    """The errors of writing the page or the smallest part."""
    page: str = ""
    """The path of the page that was written."""
    statement: str = ""
    """The path of the statement that was written."""
    attestation: tuple[str, ...] | None = None
    """Differences from a statement about these files; None where no statement was checked."""

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
        """True if outputs differ although every layer that was compared is right from right inputs.

        Another engine may compute several layers at once in another way, so this is false where one ran the IR.
        """
        return self._no_layer_is_wrong and self.engine == "NumPy"

    @property
    def _no_layer_is_wrong(self) -> bool:
        differ = any(not comparison.passed for comparison in self.outputs)
        return differ and bool(self.layers) and not self.layers_problem and self.first_fault is None

    @property
    def verdict(self) -> str:
        """The result in one word.

        * ``derived``: the recorded steps give this IR again, bit for bit, and the numbers agree;
        * ``equal``: numbers and weights agree, and the derivation does not apply, or is equivalent;
        * ``unproven``: nothing disagrees, but an output proves nothing, a weight is not accounted for, or a layer
          differs from its derivation without effect on the numbers;
        * ``different``: an output, a layer or a weight is wrong.
        """
        if self._difference:
            return DIFFERENT
        if self._doubt:
            return UNPROVEN
        return DERIVED if self.derivation.state == DERIVED else EQUAL

    @property
    def passed(self) -> bool:
        """True if both sides are shown to be equal, or if that is unproven and accepted, and a statement holds."""
        is_accepted = self.verdict in (DERIVED, EQUAL) or (self.verdict == UNPROVEN and self.accept_unproven)
        return is_accepted and not self.attestation

    @property
    def headline(self) -> str:
        """``PASSED``, ``FAILED`` or, where neither is shown, ``UNPROVEN``."""
        return "FAILED" if self.attestation else headline(self.verdict, self.passed)

    @property
    def reason(self) -> str:
        """Why the verdict is what it is, and what would settle it, in one sentence."""
        if self._difference:
            return self._difference
        if self._doubt:
            return f"nothing disagrees, but {self._doubt}"
        return f"outputs agree, and {self.derivation.reason}"

    @property
    def is_of_another_model(self) -> bool:
        """True if the IR has nothing of the model: none of its values, and no output or layer that computes alike."""
        has_values = self.account is not None and sum(self.account.values.values()) > 0
        return (
            has_values
            and self.account is not None
            and self.account.share == 0
            and not any(comparison.passed for comparison in self.outputs)
            and not any(layer.local.passed for layer in self.layers)
        )

    @property
    def _difference(self) -> str:
        """The reason why the sides differ; empty if they do not."""
        if self.is_of_another_model:
            return (
                "the IR is of another model: it has none of the values of the file's weights, and no output or inner "
                "tensor agrees"
            )
        fault = self.first_fault
        wrong = [check for check in self.weights if not check.passed]
        outputs = any(not comparison.passed for comparison in self.outputs)
        changes = self.derivation.of_part(() if fault is None else fault.part)
        changed = f"; from its derivation {changes_text(changes)}" if changes else ""
        if fault is not None:
            where = "" if self.engine == "NumPy" else f" in {self.engine}"
            return f"layer '{fault.layer}' is wrong{where} although its inputs are right{changed}"
        if wrong:
            where = f", in layer '{wrong[0].layers[0]}'" if wrong[0].layers else ""
            return f"weights of the file are changed, the first is '{wrong[0].name}'{where}{changed}"
        if self.refused:
            return self.refused
        if outputs and changes:
            return f"outputs differ{changed}"
        if self.derivation.state == DERIVED and any(
            comparison.tolerance.rounding for comparison in self.outputs if not comparison.passed
        ):
            return (
                "outputs differ by more than compressing weights may change them, which is half of their largest value"
            )
        if self.only_adds_up:
            return (
                "outputs differ, but no single layer is wrong: the rounding of layers adds up; real inputs (--inputs) "
                "show whether that matters"
            )
        if self._no_layer_is_wrong and self.limits:
            return (
                f"outputs differ in {self.engine} by a known limit of OpenVINO's CPU plug-in (docs/limits.md): "
                f"{self.limits[0]}; no other layer is wrong from right inputs"
            )
        if self._no_layer_is_wrong:
            return (
                f"outputs differ in {self.engine}, but no layer alone is wrong there; --engine numpy shows whether "
                f"{self.engine} alone differs"
            )
        if outputs:
            return "outputs differ; --layers shows where the difference begins"
        if any(not comparison.passed for comparison in self.against):
            return "the outputs of the other IR differ; onnx2ir diff lists the differences of both"
        return ""

    @property
    def _doubt(self) -> str:
        """The unproven part, and how to settle it; empty if everything is proven."""
        if self.derivation.state == DIFFERENT:
            return (
                f"the IR is not what its recorded steps give: {changes_text(self.derivation.differences)}; "
                f"convert the model again"
            )
        if self.account is not None and self.account.missing:
            some = _named(self.account.missing)
            return f"the values of {some} are not accounted for; an IR that records its derivation settles it"
        if set(self.unproven) & set(self.random):
            return f"{_named(self.random)} are random numbers, which differ from run to run"
        if self.unproven:
            how = "inputs for which they vary (--inputs) settle it"
            return f"outputs prove nothing: {_named(self.unproven)}; {how}"
        return ""

    @property
    def weight_states(self) -> dict[str, int]:
        """Count the file's tensors by state."""
        return dict(Counter(check.state for check in self.weights))

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, ready for JSON."""
        first, fault = self.first_divergence, self.first_fault
        return {
            "passed": self.passed,
            "verdict": self.verdict,
            "reason": self.reason,
            **asdict(self),
            "first_divergence": None if first is None else asdict(first),
            "first_fault": None if fault is None else asdict(fault),
            "weight_states": self.weight_states,
            "only_adds_up": self.only_adds_up,
        }

    def __repr__(self) -> str:
        failed = [output.name for output in self.outputs if not output.passed]
        return f"Report({self.verdict} against {self.oracle}, {len(self.outputs)} outputs, failed: {failed})"


def headline(verdict: str, passed: bool) -> str:
    """Return the word that a ``verdict`` is shown with."""
    return "PASSED" if passed else "UNPROVEN" if verdict == UNPROVEN else "FAILED"


def changes_text(changes: Sequence[LayerChange]) -> str:
    """Return the first of the ``changes`` in one line."""
    more = f" and {len(changes) - _NAMED} more" if len(changes) > _NAMED else ""
    return (
        "; ".join(f"layer '{change.layer or change.other}': {', '.join(change.what)}" for change in changes[:_NAMED])
        + more
    )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(f"'{name}'" for name in names[:_NAMED]) + more
