"""The two sides of a comparison, the reference and the IR: their inputs and outputs by name, and one run of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from converter.equivalence.comparison.compare import Comparison, compare
from converter.equivalence.comparison.layers import Compared, LayerComparison
from converter.equivalence.comparison.randomness import random_values
from converter.equivalence.comparison.rounded_weights import RoundedWeights, rounding_allowances
from converter.equivalence.comparison.tolerances import Choose, Loss, gaps, widened
from converter.equivalence.inputs.processing import Processing
from converter.equivalence.reference.engines import Engine, by_names
from converter.equivalence.reference.references import OnnxReference, Reference
from converter.errors import VerificationError
from ir_runtime import Model, ModelError, Port
from ir_runtime.graph import Array

_NOTES = {
    "absent": "{count} inner tensors have no counterpart in the IR ({names}): they were compared with the layers "
    "around them",
    "defined": "{oracle} computes {names} otherwise than ONNX defines it: the IR agrees with onnx's own evaluator",
    "ties": "{names} differ by one where rounding in float32 decides between two integers",
    "limits": "{count} layers differ by known limits of OpenVINO's CPU plug-in (docs/limits.md): {first}",
    "bodies": "the bodies of {count} layers were compared as a whole",
}
"""The fields of a comparison of layers that a reader must know of."""


@dataclass
class Run:
    """One run of both sides on the same inputs."""

    description: str
    feeds: dict[str, Array]
    expected: dict[str, Array]
    actual: dict[str, Array]
    outputs: list[Comparison]

    @property
    def passed(self) -> bool:
        return all(comparison.passed for comparison in self.outputs)

    @property
    def shapes(self) -> dict[str, list[int]]:
        """The shape of each input."""
        return {name: list(value.shape) for name, value in self.feeds.items()}


@dataclass
class Sides:
    """A reference and an IR, ready to run.

    With ``default_tolerance`` ``tolerance`` is not the caller's. ``frozen`` are the values of inputs that the
    conversion made constant, ``requested_outputs`` those that it was asked for: None for those of the model. ``notes``
    collects what a reader of the report must know.
    """

    reference: Reference
    model: Model
    engine: Engine
    tolerance: Choose
    default_tolerance: bool
    frozen: Mapping[str, Array]
    requested_outputs: tuple[str, ...] | None
    unrounded: Model | None = None
    """The IR before its weights were compressed, which compressing makes the IR again, bit for bit."""
    notes: list[str] = field(default_factory=list)
    refused: str = ""
    """Shapes that one side takes, or declares, and a side refuses, in a sentence; empty for none."""

    def __post_init__(self) -> None:
        self.ports: Sequence[Port] = self.engine.inputs
        self.rounded = RoundedWeights.of(self.model) if self.default_tolerance else RoundedWeights(frozenset())
        self.processing = Processing(self.model, self.reference.processing)
        if self.unrounded is not None and RoundedWeights.of(self.unrounded):
            self.unrounded = None  # weights were compressed before, too
        self.names = {port.name: self._reference_name(port) for port in self.ports}
        """The reference's name for each input of the IR."""
        self.gaps: dict[str, float] = {}
        """The largest difference of each output between two runs of onnxruntime, optimised and plain."""
        self.onnx = self.reference if isinstance(self.reference, OnnxReference) else None
        """The reference where it is an ONNX model, whose inner tensors and weights are compared, too."""
        self.loss = Loss.of(self.onnx.graph, self.model) if self.default_tolerance and self.onnx is not None else None

    def _reference_name(self, port: Port) -> str:
        input_names = self.reference.input_names
        return next((name for name in (port.name, *port.names) if name in input_names), port.name)

    def check_inputs(self) -> None:
        """Raises :class:`VerificationError` where the reference needs an input that the IR does not have."""
        available = {*self.names.values(), *self.frozen}
        missing = [name for name in self.reference.required_inputs(self.requested_outputs) if name not in available]
        if missing:
            raise VerificationError(
                f"the IR has no inputs {missing}, which the ONNX model needs: if they were frozen, freeze them here "
                f'too, as in --input "{missing[0]}=..." or freeze={{"{missing[0]}": ...}}'
            )

    def reference_feeds(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Inputs by the names that the reference has for them."""
        ports = {port.name: port for port in self.ports}
        own = {self.names[name]: self.processing.preprocess(ports[name], value) for name, value in feeds.items()}
        return self.reference.typed({**own, **self.frozen})

    def expected(self, feeds: Mapping[str, Array], *, plain: bool = False) -> dict[str, Array]:
        """The outputs of the reference; ``plain`` is a run without onnxruntime's fusions."""
        if self.requested_outputs is None:
            inner = self.reference.inner_outputs(self.engine.outputs)
            return self.processing.returned(self.reference.run(self.reference_feeds(feeds), inner, plain=plain))
        expected = self.reference.run(self.reference_feeds(feeds), self.requested_outputs, plain=plain, only=True)
        return self.processing.returned({name: expected[name] for name in self.requested_outputs})

    def compare(
        self,
        description: str,
        feeds: dict[str, Array],
        expected: dict[str, Array],
        values: Sequence[Array] | None = None,
    ) -> Run:
        """The run of both sides on ``feeds``; ``values`` are the IR's outputs where they are known already.

        Raises :class:`VerificationError` where the IR cannot be run or lacks an output.
        """
        if values is None:
            try:
                values = self.engine.run(feeds)
            except VerificationError as error:
                raise VerificationError(f"{error}{self.first_wrong_layer(feeds)}") from error
        actual = by_names(self.engine.outputs, values)
        missing = [name for name in expected if name not in actual]
        if missing:
            raise VerificationError(
                f"the IR has no outputs {missing}; it has {[port.name for port in self.engine.outputs]}. "
                f"If the conversion was given outputs, give the same here with output (--output)"
            )
        names = by_names(self.engine.outputs, [port.name for port in self.engine.outputs])
        allowances = rounding_allowances(self.model, feeds, self.unrounded) if self.rounded else {}
        if self.loss is not None:
            plain = self.expected(feeds, plain=True)
            for name, gap in gaps(expected, plain).items():
                self.gaps[name] = max(gap, self.gaps.get(name, 0.0))
        outputs = []
        for name, value in expected.items():
            allowed = widened(self.tolerance(value), self.gaps.get(name, 0.0))
            allowed = replace(allowed, rounding=allowed.rounding + allowances.get(names[name], 0.0))
            outputs.append(compare(name, value, actual[name], allowed))
        return Run(description, feeds, expected, actual, outputs)

    def layers(self, run: Run, *, histograms: bool = False, directed: bool = False) -> Compared:
        """The inner tensors of both sides, compared on the inputs of ``run``.

        With ``directed`` layers that decide are compared on ties, bounds and the like as well.
        There are none where the reference shows none.
        """
        core = self.processing.core
        if self.onnx is None:
            return Compared()
        if core is not None and self.unrounded is not None:
            core = Processing(self.unrounded, self.reference.processing).core
        if core is None:
            return Compared(problems=[self.processing.hidden])
        reference_inputs = self.reference_feeds(run.feeds)
        before = self.feeds_of_core(run.feeds, reference_inputs)
        feeds = dict(zip(core.inputs, before))
        try:
            comparison = LayerComparison(
                self.onnx,
                core,
                feeds,
                reference_inputs,
                self.tolerance,
                RoundedWeights.of(core) if self.default_tolerance else self.rounded,
                is_chosen=not self.default_tolerance,
                histograms=histograms,
                engine=self.engine,
                directed=directed,
            ).result()
        except ModelError as error:
            # A side cannot show its inner tensors (sequences, odd types): the outputs stand alone.
            return Compared(problems=[str(error)])
        if self.engine.name != "NumPy":
            alone = f", but {len(comparison.in_numpy)} that cannot be run alone there" if comparison.in_numpy else ""
            self.notes.append(
                f"inner tensors of the whole run are computed in NumPy, layers from right inputs in "
                f"{self.engine.name}{alone}"
            )
        for name, note in _NOTES.items():
            found = getattr(comparison, name)
            if found:
                by = self.reference.name
                self.notes.append(note.format(count=len(found), names=_first(found), first=found[0], oracle=by))
        return comparison

    def random_outputs(self) -> set[str]:
        """The outputs that depend on random numbers, by all their names."""
        values = random_values(self.model)
        results = by_names(self.engine.outputs, self.model.results)
        return {name for name, result in results.items() if result.inputs[0] in values}

    def defined(self, run: Run) -> dict[str, Array]:
        """The outputs of a run as onnx's own evaluator computes them, from the operators' definitions."""
        values = self.reference.run_by_definition(self.reference_feeds(run.feeds), list(run.expected))
        return self.processing.returned(values)

    def feeds_of_core(self, feeds: Mapping[str, Array], reference_inputs: Mapping[str, Array]) -> list[Array]:
        """Return the inputs of the layers behind the preprocessing, in the order of the inputs."""
        processed = self.processing.record.inputs
        return [
            reference_inputs[self.names[port.name]]
            if any(name in processed for name in port.names)
            else feeds[port.name]
            for port in self.ports
        ]

    def first_wrong_layer(self, feeds: dict[str, Array]) -> str:
        """The end of the message about an IR that cannot be run: its first layer that is wrong from right inputs."""
        compared = self.layers(Run("", feeds, {}, {}, []))
        fault = next((layer for layer in compared.layers if not layer.local.passed), None)
        if fault is None:
            return ""
        return f"; the first layer that is wrong although its inputs are right is '{fault.layer}' ({fault.type})"


def _first(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:3]) + (" ..." if len(names) > 3 else "")
