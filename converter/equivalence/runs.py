"""Both sides of a comparison, run again and again: on random, given and special inputs, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Union

from converter.equivalence import stress as stress_values
from converter.equivalence.compare import Comparison, compare
from converter.equivalence.engines import Engine
from converter.equivalence.evidence import convincing, faint, scaled, unproven
from converter.equivalence.extents import Open, Shapes, is_open
from converter.equivalence.input_values import MASK, Values, parse_values, values_of
from converter.equivalence.inputs import random_inputs
from converter.equivalence.layers import Compared, compare_layers, worst_of
from converter.equivalence.minimise import minimise as minimised_to
from converter.equivalence.onnx_graph import OnnxGraph, typed
from converter.equivalence.references import IrReference, OnnxReference
from converter.equivalence.report import Report, Sample, WeightCheck
from converter.equivalence.rounded_weights import RoundedWeights, rounding_allowances
from converter.equivalence.suspects import names, suspects
from converter.equivalence.tolerances import Choose, Loss, furthest, gaps, widened
from converter.equivalence.weights import check_weights
from converter.errors import ConversionError, VerificationError
from converter.onnx_file.reader import ModelSource
from ir_runtime import CompiledModel, Model, ModelError, Port, compile_model
from ir_runtime.element_types import Array
from ir_runtime.shapes import PartialShape

_MORE_SEEDS = 2
ValuesOf = Mapping[str, Union[str, Values]]


@dataclass
class Ran:
    """One run of both sides."""

    description: str
    feeds: dict[str, Array]
    expected: dict[str, Array]
    actual: dict[str, Array]
    outputs: list[Comparison]

    @property
    def passed(self) -> bool:
        return all(one.passed for one in self.outputs)

    @property
    def shapes(self) -> dict[str, list[int]]:
        return {name: list(value.shape) for name, value in self.feeds.items()}


@dataclass
class Runs:
    """Both sides made ready, and what has been found of them."""

    source: ModelSource
    options: Mapping[str, Any]
    reference: OnnxReference | IrReference
    model: Model
    engine: Engine
    tolerance: Choose
    default_tolerance: bool
    frozen: Mapping[str, Array]
    wanted: tuple[str, ...] | None
    runs: list[Ran] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ports: Sequence[Port] = self.engine.inputs
        self.rounded = RoundedWeights.of(self.model) if self.default_tolerance else RoundedWeights(frozenset())
        self._values: dict[str, Values] = {}
        self._chosen: set[str] = set()
        self._names = {port.name: self._reference_name(port) for port in self.ports}
        self._gaps: dict[str, float] = {}
        self._loss: Loss | None = None
        if self.default_tolerance and isinstance(self.reference, OnnxReference):
            self._loss = Loss.of(self.reference.graph, self.model)

    def _reference_name(self, port: Port) -> str:
        known = self.reference.input_names
        return next((name for name in (port.name, *port.names) if name in known), port.name)

    def check_inputs(self) -> None:
        """Every input that the reference needs has a value."""
        given = {*self._names.values(), *self.frozen}
        missing = [name for name in self.reference.required_inputs(self.wanted) if name not in given]
        if missing:
            raise VerificationError(
                f"the IR has no inputs {missing}, which the ONNX model needs: if they were frozen, say the same again, "
                f'as in --input "{missing[0]}=..." or freeze={{"{missing[0]}": ...}}'
            )

    def set_values(self, chosen: ValuesOf) -> None:
        """What the inputs are filled with: as the graph shows, or as the caller says."""
        seen = values_of(self.reference.graph) if isinstance(self.reference, OnnxReference) else {}
        self._values = {port: seen[name] for port, name in self._names.items() if name in seen}
        by_name = {alias: port.name for port in self.ports for alias in (port.name, *port.names)}
        for name, value in chosen.items():
            if name not in by_name:
                raise VerificationError(f"values are given for '{name}', but the IR's inputs are {list(self._names)}")
            self._values[by_name[name]] = parse_values(value) if isinstance(value, str) else value
            self._chosen.add(by_name[name])

    def random(self, seed: int, samples: int, stated: Mapping[str, PartialShape], batch: int | None) -> None:
        """Random inputs, in extents that the reference takes; then in others, where the IR leaves them open."""
        ports = [_narrowed(port, self._stated(port, stated, batch)) for port in self.ports]
        shapes = self._first(ports, seed)
        for number in range(1, samples):
            self.compare(f"random, seed {seed + number}", self._random(seed + number, shapes))
        if is_open(ports) and samples > 1:
            self._other_extents(ports, seed, shapes)
        self._stronger(ports, seed + samples, shapes)

    def _stronger(self, ports: Sequence[Port], seed: int, shapes: Shapes) -> None:
        """Other inputs where an output is so small that the absolute tolerance lets everything pass.

        The reference alone tries them; both sides are compared where one more output is large enough.
        """
        left = set.intersection(*(faint(run.expected, self.tolerance) for run in self.runs))
        for description, feeds in self._other_inputs(ports, seed, shapes) if left and self.default_tolerance else ():
            try:
                expected = self._expected(feeds)
                shown = convincing(expected, left, self.tolerance)
                if not shown:
                    continue
                values = self.engine.run(feeds)
            except VerificationError:
                continue
            self._compared(description, feeds, expected, values)
            left -= shown
            if not left:
                return

    def _other_inputs(self, ports: Sequence[Port], seed: int, shapes: Shapes) -> Iterator[tuple[str, dict[str, Array]]]:
        """Other seeds, larger numbers, larger images, both."""
        fixed = [*self._chosen, *(name for name, values in self._values.items() if values is MASK)]
        for number in range(seed, seed + _MORE_SEEDS):
            yield f"random, seed {number}", self._random(number, shapes)
        larger = (
            list(self._open(ports, self.reference.graph).larger(shapes))
            if isinstance(self.reference, OnnxReference)
            else []
        )
        for chosen in (shapes, *larger):
            feeds = self._random(seed, chosen)
            if chosen is not shapes:
                yield f"random, seed {seed}, larger", feeds
            for how, made in scaled(feeds, fixed):
                yield f"random, seed {seed}, {how}", made

    def _stated(self, port: Port, stated: Mapping[str, PartialShape], batch: int | None) -> PartialShape | None:
        for name in (port.name, *port.names, self._names[port.name]):
            if name in stated:
                return stated[name]
        shape = port.partial_shape
        if batch is None or not shape.has_rank or shape.rank == 0 or shape[0].is_static:
            return None
        return shape.replace(0, batch)

    def _random(self, seed: int, shapes: Shapes) -> dict[str, Array]:
        return random_inputs(self.ports, seed, self._values, shapes)

    def _first(self, ports: Sequence[Port], seed: int) -> Shapes:
        """The first extents that both sides take.

        The IR is asked first, because it refuses what does not fit in a sentence; onnxruntime has ended the process
        on windows that do not fit.
        """
        refused: list[tuple[Shapes, VerificationError]] = []
        by_ir: list[Shapes] = []
        for shapes in self._candidates(ports):
            feeds = self._random(seed, shapes)
            try:
                values = self.engine.run(feeds)
            except VerificationError as error:
                refused.append((shapes, error))
                by_ir.append(shapes)
                continue
            try:
                expected = self._expected(feeds)
            except VerificationError as error:
                refused.append((shapes, error))
                continue
            if refused:
                who = "the IR" if refused[0][0] in by_ir else "the ONNX model"
                self.notes.append(
                    f"{who} does not take {_said(refused[0][0])} ({len(refused)} shapes were tried), "
                    f"but {_said(shapes)}: {refused[0][1]}"
                )
            self._compared(f"random, seed {seed}", feeds, expected, values)
            return shapes
        shapes, first = refused[0]
        said = str(first)
        if len(by_ir) == len(refused):
            said += self._culprit(self._random(seed, shapes))
        if len(refused) > 1:
            said = (
                f"no extents were found that both sides take; with {_said(shapes)}: {said}; "
                f"{len(refused)} were tried: say the shapes with --input, or give inputs"
            )
        raise VerificationError(said) from first

    def _candidates(self, ports: Sequence[Port]) -> Iterable[Shapes]:
        if isinstance(self.reference, OnnxReference):
            return self._open(ports, self.reference.graph).candidates()
        return [{}]

    def _open(self, ports: Sequence[Port], graph: OnnxGraph) -> Open:
        masks = {name for name, values in self._values.items() if values is MASK}
        return Open(ports, graph, self._names, masks)

    def _other_extents(self, ports: Sequence[Port], seed: int, used: Shapes) -> None:
        if not isinstance(self.reference, OnnxReference):
            return
        for shapes in self._open(ports, self.reference.graph).others(used):
            feeds = self._random(seed, shapes)
            try:
                values = self.engine.run(feeds)
                expected = self._expected(feeds)
            except VerificationError:
                continue
            self._compared(f"random, seed {seed}, other extents", feeds, expected, values)
            return
        self.notes.append(f"no other extents than {_said(used)} were found that both sides take")

    def stress(self, seed: int) -> None:
        """Runs of special values, in the extents of the first run."""
        first = self.runs[0]
        for name, feeds in stress_values.feeds(first.feeds, self._values, seed):
            if self.rounded and name == stress_values.INFINITIES:
                self.notes.append(f"{name} are left out: they become NaN where a weight was rounded to 0")
                continue
            try:
                expected = self._expected(feeds)
            except VerificationError as error:
                self.notes.append(f"{name}: the reference refuses, {error}")
                continue
            self._compared(f"stress: {name}", feeds, expected)
            if name in stress_values.NOT_FINITE and not self.runs[-1].passed:
                self._look_again(name)

    def _look_again(self, name: str) -> None:
        """The last run, of values that are not finite, differs: does ONNX define what onnxruntime computed there?"""
        run = self.runs[-1]
        if not isinstance(self.reference, OnnxReference):
            return
        given = self._given(run.feeds)
        why = stress_values.undefined(self.reference.graph, self.reference.oracle, given)
        if why:
            self.runs.pop()
            self.notes.append(f"{name} were not compared: {why}")
            return
        try:
            defined = self.reference.run_by_definition(given, list(run.expected))
        except VerificationError:
            return
        outputs = [compare(one.name, defined[one.name], run.actual[one.name], one.tolerance) for one in run.outputs]
        if all(one.passed for one in outputs):
            self.runs[-1] = Ran(run.description, run.feeds, defined, run.actual, outputs)
            self.notes.append(f"{name}: the IR has what onnx's own evaluator computes, and onnxruntime has not")

    def compare(self, description: str, feeds: dict[str, Array]) -> None:
        """Run both sides on ``feeds``."""
        values = self.engine.run(feeds)  # first, because it says best what does not fit
        self._compared(description, feeds, self._expected(feeds), values)

    def _given(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Inputs by the names that the reference has for them."""
        given = {**{self._names[port]: value for port, value in feeds.items()}, **self.frozen}
        if isinstance(self.reference, OnnxReference):
            return {name: typed(self.reference.graph, name, value) for name, value in given.items()}
        return given

    def _expected(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        return self._run_reference(feeds, plain=False)

    def _run_reference(self, feeds: Mapping[str, Array], *, plain: bool) -> dict[str, Array]:
        if self.wanted is None:
            return self.reference.run(self._given(feeds), self._inner_outputs(), plain=plain)
        expected = self.reference.run(self._given(feeds), self.wanted, plain=plain, only=True)
        return {name: expected[name] for name in self.wanted}

    def _inner_outputs(self) -> tuple[str, ...]:
        """What the IR returns besides the model's outputs."""
        if not isinstance(self.reference, OnnxReference):
            return ()
        graph = self.reference.graph
        return tuple(
            next(name for name in port.names if name in graph.producer)
            for port in self.engine.outputs
            if not any(name in graph.outputs for name in (port.name, *port.names))
            and any(name in graph.producer for name in port.names)
        )

    def _compared(
        self,
        description: str,
        feeds: dict[str, Array],
        expected: dict[str, Array],
        values: Sequence[Array] | None = None,
    ) -> None:
        if values is None:
            try:
                values = self.engine.run(feeds)
            except VerificationError as error:
                raise VerificationError(f"{error}{self._culprit(feeds)}") from error
        actual = {
            alias: value for port, value in zip(self.engine.outputs, values) for alias in (port.name, *port.names)
        }
        missing = [name for name in expected if name not in actual]
        if missing:
            raise VerificationError(
                f"the IR has no outputs {missing}; it has {[port.name for port in self.engine.outputs]}. "
                f"Where the conversion was told its outputs, say the same again with output (--output)"
            )
        names = {alias: port.name for port in self.engine.outputs for alias in (port.name, *port.names)}
        allowances = rounding_allowances(self.model, feeds) if self.rounded else {}
        if self._loss is not None:
            plain = self._run_reference(feeds, plain=True)
            for name, gap in gaps(expected, plain).items():
                self._gaps[name] = max(gap, self._gaps.get(name, 0.0))
        outputs = []
        for name, value in expected.items():
            allowed = widened(self.tolerance(value), self._gaps.get(name, 0.0))
            allowed = replace(allowed, rounding=allowed.rounding + allowances.get(names[name], 0.0))
            outputs.append(compare(name, value, actual[name], allowed))
        self.runs.append(Ran(description, feeds, expected, actual, outputs))

    def report(
        self,
        seed: int | None,
        *,
        layers: bool | None,
        weights: bool,
        against: Engine | None,
        folder: Path | None,
        histograms: bool = False,
    ) -> Report:
        """Everything that was found; layers, weights and another IR are looked at now."""
        silent = unproven([run.expected for run in self.runs], self.tolerance, has_inputs=bool(self.ports))
        self.notes += [
            f"output '{name}' {why}: it says nothing about the layers before it" for name, why in silent.items()
        ]
        if self._gaps:
            widest = max(self._gaps.values())
            self.notes.append(f"onnxruntime's own optimised and plain runs are up to {widest:.3g} apart")
        shown = next((run for run in self.runs if not run.passed), self.runs[0])
        compared, problem = Compared(), ""
        at_fault = shown
        wants_layers = layers or (layers is None and (not shown.passed or bool(silent) or folder is not None))
        if wants_layers and isinstance(self.reference, OnnxReference):
            compared, problem = self._layers(shown, histograms)
            # Layers may be wrong at some sizes alone.
            for run in self._other_sizes(shown) if layers or silent else ():
                at_fault = shown if _is_faulty(compared) else run
                more, also = self._layers(run, histograms)
                compared, problem = worst_of(compared, more), problem or also
        faulty = _is_faulty(compared)
        if self._loss is not None and not shown.passed and compared.layers and not faulty and not problem:
            self._allow(self._loss)
        checks = self._weights() if weights else ()
        others = self._against(against) if against is not None else ()
        outputs = tuple(furthest([run.outputs[i] for run in self.runs]) for i in range(len(self.runs[0].outputs)))
        found = Report(
            passed=all(run.passed for run in self.runs)
            and not faulty
            and all(check.passed for check in checks)
            and all(one.passed for one in others),
            oracle=self.reference.name,
            seed=seed,
            inputs=self.runs[0].shapes,
            outputs=outputs,
            layers=tuple(compared.layers),
            layers_problem=problem,
            engine=self.engine.name,
            samples=tuple(Sample(run.description, run.shapes, run.passed) for run in self.runs),
            weights=checks,
            against=others,
            notes=tuple(dict.fromkeys(self.notes)),
            unproven=tuple(silent),
        )
        if not isinstance(self.reference, OnnxReference):
            return found
        fault = found.first_fault
        if fault is not None or not RoundedWeights.of(self.model):  # a conversion now does not round weights
            part = () if fault is None else fault.part
            found = replace(found, suspects=names(suspects(self.source, self.options, self.model), part))
        if folder is None or fault is None:
            return found
        try:
            made = minimised_to(self.reference.oracle, self.model, fault, self._given(at_fault.feeds), folder)
        except (ConversionError, ModelError, OSError) as error:  # what was found is not lost with it
            return replace(found, unwritten=(f"the smallest part could not be written to {folder}: {error}",))
        return replace(found, minimised=made)

    def _other_sizes(self, shown: Ran) -> list[Ran]:
        """One run for each of the shapes that ``shown`` does not have."""
        by_shapes = {str(run.shapes): run for run in reversed(self.runs)}
        by_shapes.pop(str(shown.shapes), None)
        return list(by_shapes.values())

    def _layers(self, run: Ran, histograms: bool = False) -> tuple[Compared, str]:
        assert isinstance(self.reference, OnnxReference)
        feeds = {output: run.feeds[port.name] for output, port in zip(self.model.inputs, self.ports)}
        try:
            found = compare_layers(
                self.reference.oracle,
                self.model,
                feeds,
                self._given(run.feeds),
                self.tolerance,
                self.rounded,
                is_chosen=not self.default_tolerance,
                histograms=histograms,
            )
        except (VerificationError, ModelError) as error:
            # A side cannot show its inner tensors (sequences, odd types): the outputs stand alone.
            return Compared(), str(error)
        if self.engine.name != "NumPy":
            self.notes.append("inner tensors are computed in NumPy, and say nothing of the engine")
        if found.absent:
            some = ", ".join(f"'{name}'" for name in found.absent[:3]) + (" ..." if len(found.absent) > 3 else "")
            self.notes.append(
                f"{len(found.absent)} inner tensors have no counterpart in the IR ({some}): "
                f"they were compared with the layers around them"
            )
        if found.bodies:
            self.notes.append(f"the bodies of {len(found.bodies)} layers were compared as a whole")
        return found, "; ".join(found.problems[:3]) + ("" if len(found.problems) <= 3 else " ...")

    def _culprit(self, feeds: dict[str, Array]) -> str:
        """For the message of an IR that cannot be run: the first layer that is wrong from right inputs."""
        if not isinstance(self.reference, OnnxReference):
            return ""
        compared, _ = self._layers(Ran("", feeds, {}, {}, []))
        fault = next((layer for layer in compared.layers if not layer.local.passed), None)
        if fault is None:
            return ""
        return f"; the first layer that is wrong although its inputs are right is '{fault.layer}' ({fault.type})"

    def _allow(self, loss: Loss) -> None:
        """Every layer is right from right inputs: what the outputs differ by is what the model itself loses."""
        plain = compile_model(self.model, optimize=False) if loss.is_rounding else None
        for run in self.runs:
            lost = {} if plain is None else self._lost(run, plain)
            for number, one in enumerate(run.outputs):
                if not one.passed:
                    allowed = widened(loss.tolerance, lost.get(one.name, 0.0))
                    run.outputs[number] = compare(one.name, run.expected[one.name], run.actual[one.name], allowed)
        if all(run.passed for run in self.runs):
            self.notes.append(
                f"outputs differ by more than rounding, but no layer is wrong from right inputs: {loss.reason}"
            )

    def _lost(self, run: Ran, plain: CompiledModel) -> dict[str, float]:
        """How far the outputs are from those of ``plain``, in which each layer rounds."""
        values = plain([run.feeds[port.name] for port in self.ports]).to_list()
        rounded = {name: value for port, value in zip(self.engine.outputs, values) for name in (port.name, *port.names)}
        return gaps({name: run.actual[name] for name in run.expected}, rounded)

    def _weights(self) -> tuple[WeightCheck, ...]:
        if not isinstance(self.reference, OnnxReference):
            return ()
        returned = list(self.runs[0].expected)
        return check_weights(self.reference.graph, self.model, returned)

    def _against(self, other: Engine) -> tuple[Comparison, ...]:
        run = self.runs[0]
        by_name = {alias: port.name for port in other.inputs for alias in (port.name, *port.names)}
        feeds: dict[str, Array] = {}
        for port in self.ports:
            known = next((by_name[name] for name in (port.name, *port.names) if name in by_name), None)
            if known is not None:
                feeds[known] = run.feeds[port.name]
        missing = [port.name for port in other.inputs if port.name not in feeds]
        if missing:
            raise VerificationError(f"the other IR has inputs {missing}, which this one does not have")
        values = list(zip(other.outputs, other.run(feeds)))
        theirs = {alias: value for port, value in values for alias in (port.name, *port.names)}
        found = []
        for name in run.expected:
            if name not in theirs:
                raise VerificationError(f"the other IR has no output '{name}'; it has {list(theirs)}")
            allowed = next(one.tolerance for one in run.outputs if one.name == name)
            found.append(compare(name, run.actual[name], theirs[name], allowed))
        if self._loss is None or self._loss.is_rounding or all(one.passed for one in found):
            return tuple(found)
        if not self._is_right(other, {name: feeds[known] for name, known in by_name.items() if known in feeds}, run):
            return tuple(found)
        self.notes.append(
            f"the other IR differs by more than rounding, but no layer of it is wrong: {self._loss.reason}"
        )
        return tuple(compare(one.name, run.actual[one.name], theirs[one.name], self._loss.tolerance) for one in found)

    def _is_right(self, other: Engine, feeds: Mapping[str, Array], run: Ran) -> bool:
        """Whether every layer of another IR, given right inputs, is right."""
        assert isinstance(self.reference, OnnxReference)
        given = {output: feeds[port.name] for output, port in zip(other.model.inputs, other.inputs)}
        rounded = RoundedWeights.of(other.model)
        try:
            compared = compare_layers(
                self.reference.oracle, other.model, given, self._given(run.feeds), self.tolerance, rounded
            )
        except (VerificationError, ModelError):
            return False
        return bool(compared.layers) and not compared.problems and not _is_faulty(compared)


def _is_faulty(compared: Compared) -> bool:
    return any(not layer.local.passed for layer in compared.layers)


def _narrowed(port: Port, stated: PartialShape | None) -> Port:
    """``port`` with the extents that the caller states; those of the IR where they contradict each other."""
    if stated is None:
        return port
    return replace(port, partial_shape=stated)


def _said(shapes: Shapes) -> str:
    return ", ".join(f"{name}{list(shape)}" for name, shape in shapes.items())
