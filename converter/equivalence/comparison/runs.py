"""Runs of both sides of a comparison: on random inputs, in several dimensions, on given and on special values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Union

import numpy as np

from converter.equivalence.comparison.compare import compare
from converter.equivalence.comparison.evidence import convincing, faint, scaled
from converter.equivalence.comparison.sides import Run, Sides
from converter.equivalence.inputs import input_values
from converter.equivalence.inputs import stress as stress_values
from converter.equivalence.inputs.arrays import random_inputs
from converter.equivalence.inputs.cost import Cost, types_for_shapes
from converter.equivalence.inputs.dimensions import ShapeCandidates, Shapes, has_dynamic_dimensions
from converter.equivalence.inputs.grids import Grid, grids
from converter.equivalence.inputs.required_dimensions import with_required_dimensions
from converter.equivalence.inputs.required_values import RequiredValues
from converter.equivalence.reference.deviations import is_known_refusal
from converter.equivalence.reference.engines import by_names
from converter.errors import VerificationError
from ir_runtime import Port
from ir_runtime.graph import Array, Output, PartialShape, TensorType
from ir_runtime.records import record

_MORE_SEEDS = 2
_MOST_JUDGED = 4
"""Refused shapes for which it is found out whether they are a difference of both sides."""
_MANY_ELEMENTS = 1 << 22
"""Shapes of inputs with more elements are tried last where the cost of a run does not follow from them."""
_SHAPES_OF_GRIDS = 2
ValuesOf = Mapping[str, Union[str, input_values.Values]]


@record
class _Refusal:
    """Shapes that a side refused with an error: the IR, or the reference."""

    shapes: Shapes
    by_ir: bool
    error: VerificationError


class Runs:
    """The runs of two sides, in order."""

    def __init__(self, sides: Sides) -> None:
        self.sides = sides
        self._graph = None if sides.onnx is None else sides.onnx.graph
        self.runs: list[Run] = []
        self._values: dict[str, input_values.Values] = {}
        self._chosen: set[str] = set()
        """The inputs whose values the caller chose."""
        self._grid: Grid | None = None
        self._required = RequiredValues(sides.model)
        self._types: dict[str, Mapping[Output, TensorType] | None] = {}

    def set_values(self, chosen: ValuesOf) -> None:
        """What the inputs are filled with: what ``chosen`` gives by name, else what the graph shows.

        Raises :class:`VerificationError` for an unknown input or unknown values.
        """
        by_graph = {} if self._graph is None else input_values.values_of(self._graph)
        self._values = {
            port: by_graph[name]
            for position, (port, name) in enumerate(self.sides.names.items())
            # What is cast to real numbers is a mask, unless it chooses rows, too.
            if name in by_graph and not (by_graph[name] is input_values.MASK and position in self._required.positions)
        }
        self._values.update(self.sides.processing.values(self.sides.ports))
        by_name = by_names(self.sides.ports, self.sides.names)
        for name, value in chosen.items():
            if name not in by_name:
                raise VerificationError(
                    f"values are given for '{name}', but the IR's inputs are {list(self.sides.names)}"
                )
            self._values[by_name[name]] = input_values.parse_values(value) if isinstance(value, str) else value
            self._chosen.add(by_name[name])

    def random(self, seed: int, samples: int, declared: Mapping[str, PartialShape], batch: int | None) -> None:
        """Random inputs, in dimensions that both sides take; and in other ones, where the IR's are dynamic."""
        ports = [_with_shape(port, self._declared(port, declared, batch)) for port in self.sides.ports]
        shapes = self._first(ports, seed)
        for number in range(1, samples):
            self.compare(f"random, seed {seed + number}", self._random(seed + number, shapes))
        if has_dynamic_dimensions(ports) and samples > 1:
            self._other_dimensions(ports, seed, shapes)
        self._try_larger_values(ports, seed + samples, shapes)

    def _try_larger_values(self, ports: Sequence[Port], seed: int, shapes: Shapes) -> None:
        """Other inputs where an output is so small that every difference is below the absolute tolerance.

        The reference alone runs first; both sides are compared where one more output is large enough.
        """
        left = set.intersection(*(faint(run.expected, self.sides.tolerance) for run in self.runs))
        for description, feeds in (
            self._other_inputs(ports, seed, shapes) if left and self.sides.default_tolerance else ()
        ):
            try:
                expected = self.sides.expected(feeds)
                larger = convincing(expected, left, self.sides.tolerance)
                if not larger:
                    continue
                values = self.sides.engine.run(feeds)
            except VerificationError:
                continue
            self._add(description, feeds, expected, values)
            left -= larger
            if not left:
                return

    def _other_inputs(self, ports: Sequence[Port], seed: int, shapes: Shapes) -> Iterator[tuple[str, dict[str, Array]]]:
        """Other seeds, larger numbers, larger images, both."""
        fixed = [*self._chosen, *(name for name, values in self._values.items() if values is input_values.MASK)]
        for number in range(seed, seed + _MORE_SEEDS):
            yield f"random, seed {number}", self._random(number, shapes)
        candidates = self._candidates(ports)
        larger = [] if candidates is None else list(filter(self._is_small, candidates.larger(shapes)))
        for chosen in (shapes, *larger):
            feeds = self._random(seed, chosen)
            if chosen is not shapes:
                yield f"random, seed {seed}, larger", feeds
            for how, multiplied in scaled(feeds, fixed):
                yield f"random, seed {seed}, {how}", multiplied

    def _declared(self, port: Port, declared: Mapping[str, PartialShape], batch: int | None) -> PartialShape | None:
        for name in (port.name, *port.names, self.sides.names[port.name]):
            if name not in declared:
                continue
            # The shape of an input with steps in front may be the model's, which the steps change.
            if not self.sides.processing.is_given(port) or declared[name].merge(port.partial_shape) == declared[name]:
                return declared[name]
        shape = port.partial_shape
        if batch is None or not shape.has_rank or shape.rank == 0:
            return None
        if not shape[0].contains(batch):
            raise VerificationError(f"batch is {batch}, but the input '{port.name}' of the IR has the shape {shape}")
        return shape.replace(0, batch)

    def _random(self, seed: int, shapes: Shapes) -> dict[str, Array]:
        values = {**self._values, **self._fitting(shapes)}
        if self._grid is not None:
            values[self._grid.grid] = self._grid.values
        values.update((name, self._values[name]) for name in self._chosen)
        return random_inputs(self.sides.ports, seed, values, shapes)

    def _fitting(self, shapes: Shapes) -> dict[str, input_values.Values]:
        """Values for the inputs of which layers require something in ``shapes``, such as indices."""
        types = self._types_in(shapes) if self._required.positions else None
        required = {} if types is None else self._required.of(types)
        values = {
            self.sides.ports[position].name: input_values.fitting(of_input) for position, of_input in required.items()
        }
        totals = {} if self._graph is None else input_values.totals_of(self._graph)
        types = types or (self._types_in(shapes) if totals else None) or {}
        shapes_by_name = {name: of_value.shape for value, of_value in types.items() for name in value.names}
        for port, name in self.sides.names.items():
            number, added = totals.get(name, (0, []))
            sizes = [shapes_by_name[tensor][axis] for tensor, axis in added if tensor in shapes_by_name]
            if sizes and len(sizes) == len(added) and all(dimension.is_static for dimension in sizes):
                total = number + sum(dimension.value for dimension in sizes)
                values[port] = input_values.whole_numbers(total, total)
        return values

    def _types_in(self, shapes: Shapes) -> Mapping[Output, TensorType] | None:
        """The types of the IR's values for inputs of ``shapes``; None where they do not follow from these."""
        key = _shapes_text(shapes)
        if key not in self._types:
            shapes_by_number = {
                number: shapes[port.name] for number, port in enumerate(self.sides.ports) if port.name in shapes
            }
            is_known = len(shapes_by_number) == len(self.sides.ports) or not has_dynamic_dimensions(self.sides.ports)
            self._types = {key: types_for_shapes(self.sides.model, shapes_by_number) if is_known else None}
        return self._types[key]

    def _first(self, ports: Sequence[Port], seed: int) -> Shapes:
        """The first dimensions that both sides take."""
        refused: list[_Refusal] = []
        for shapes in self._shapes_to_try(ports):
            refusal = self._try(f"random, seed {seed}", seed, shapes)
            if refusal is not None:
                refused.append(refusal)
                continue
            if refused:
                who = "the IR" if refused[0].by_ir else "the ONNX model"
                self.sides.notes.append(
                    f"{who} does not take {_shapes_text(refused[0].shapes)} ({len(refused)} shapes were tried), "
                    f"but {_shapes_text(shapes)}: {refused[0].error}"
                )
            if self._grid is not None:
                self.sides.notes.append(
                    f"input '{self._grid.grid}' has {self._grid.values.meaning}, whose products count the rows of "
                    f"'{self._grid.counted}'"
                )
            else:  # else the inputs did not fit each other
                self._judge(refused, shapes, seed)
            return shapes
        self._grid = None
        raise self._refused_all(refused, seed) from refused[0].error

    def _refused_all(self, refused: Sequence[_Refusal], seed: int) -> VerificationError:
        """The error about shapes that were all refused, by either side."""
        first = refused[0]
        message = str(first.error)
        if all(refusal.by_ir for refusal in refused):
            message += self.sides.first_wrong_layer(self._random(seed, first.shapes))
        if len(refused) == 1:
            return VerificationError(message)
        arrays = ", ".join(f"{port.name} ({port.element_type}{port.partial_shape})" for port in self.sides.ports)
        return VerificationError(
            f"no dimensions were found that both sides take; with {_shapes_text(first.shapes)}: {message}; "
            f"{len(refused)} were tried: give the shapes with --input, or give inputs that fit each other: "
            f"--inputs with an .npz that holds {arrays}"
        )

    def _shapes_to_try(self, ports: Sequence[Port]) -> Iterator[Shapes]:
        """Shapes that need little memory and work first, in their order; then the others, the cheapest first."""
        candidates = self._candidates(ports)
        if candidates is None:
            yield {}
            return
        left: list[tuple[Cost, Shapes]] = []
        large: list[Shapes] = []
        count = 0
        for shapes in candidates.usual():
            count += 1
            cost = self._cost(shapes)
            if cost is None and sum(map(math.prod, shapes.values())) > _MANY_ELEMENTS:
                large.append(shapes)  # mostly refused by inference, and costly to draw
            elif cost is None or cost.is_small:
                yield shapes
            else:
                left.append((cost, shapes))
        left.sort(key=lambda candidate: (candidate[0].operations, candidate[0].peak))
        yield from (shapes for cost, shapes in left if cost.fits)
        yield from self._rarer_shapes(ports, candidates)
        yield from large
        if len(left) == count and not any(cost.fits for cost, _ in left):
            cost, shapes = left[0]
            raise VerificationError(
                f"there is not enough memory to compare: {_shapes_text(shapes)} need {cost.peak / 2**30:.1f} GiB: "
                f"give smaller shapes with --input, or give inputs"
            )

    def _rarer_shapes(self, ports: Sequence[Port], candidates: ShapeCandidates) -> Iterator[Shapes]:
        """Shapes that the file declares, those of models of a single length, and those of inputs that count rows."""
        plain = self._candidates(ports, plain=True)
        if plain is not None and plain.ports != candidates.ports:
            yield from filter(self._is_small, plain.usual())
        yield from filter(self._is_small, candidates.declared())
        for shapes in candidates.fixed_by_weights():
            cost = self._cost(shapes)
            if cost is not None and cost.is_small:  # others are refused already by inference
                yield shapes
        usual = list(itertools.islice(candidates.usual(), _SHAPES_OF_GRIDS))
        for grid in grids(ports):
            self._grid = grid
            yield from map(grid.shapes, usual)

    def _cost(self, shapes: Shapes) -> Cost | None:
        """Return the cost of a run of the IR; None where it does not follow from the shapes."""
        types = self._types_in(shapes)
        return None if types is None else Cost.of(self.sides.model, types)

    def _is_small(self, shapes: Shapes) -> bool:
        cost = self._cost(shapes)
        return cost is None or cost.is_small

    def _candidates(self, ports: Sequence[Port], *, plain: bool = False) -> ShapeCandidates | None:
        """Shapes to try, with the dimensions that weights determine; without these if ``plain``."""
        if self._graph is None:
            return None
        masks = {name for name, values in self._values.items() if values is input_values.MASK}
        if not plain and has_dynamic_dimensions(ports):
            names = {port.name for port in ports}
            required = with_required_dimensions(self.sides.model, self.sides.ports)
            ports = [port for port in required if port.name in names]
        return ShapeCandidates(ports, self._graph, self.sides.names, masks)

    def _try(self, description: str, seed: int, shapes: Shapes) -> _Refusal | None:
        """Run both sides on random inputs of ``shapes``; return the refusal where a side does not take them.

        The IR runs first: its errors are clear, where onnxruntime has ended the process (on windows larger than
        their data).
        """
        feeds = self._random(seed, shapes)
        by_ir = True
        try:
            values = self.sides.engine.run(feeds)
            by_ir = False
            expected = self._expected(feeds)
        except VerificationError as error:
            return _Refusal(shapes, by_ir, error)
        self._add(description, feeds, expected, values)
        return None

    def _expected(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of the reference; those of onnx's own evaluator where onnxruntime refuses what the IR takes."""
        try:
            return self.sides.expected(feeds)
        except VerificationError as refused:
            onnx = self.sides.onnx
            if self.runs or onnx is None or onnx.by_definition:
                raise
            onnx.by_definition = True
            try:
                expected = self.sides.expected(feeds)
            except VerificationError:
                onnx.by_definition = False
                raise refused from None
            self.sides.notes.append(f"onnx's own evaluator ran the model, because {refused}")
            return expected

    def _other_dimensions(self, ports: Sequence[Port], seed: int, used: Shapes) -> None:
        candidates = self._candidates(ports)
        if candidates is None:
            return
        others = candidates.others(used)
        refused: list[_Refusal] = []
        description = f"random, seed {seed}, other dimensions"
        count = len(self.runs)
        for shapes in filter(self._is_small, others if self._grid is None else map(self._grid.shapes, others)):
            refusal = self._try(description, seed, shapes)
            if refusal is None:
                break
            refused.append(refusal)
        else:
            self.sides.notes.append(f"no other dimensions than {_shapes_text(used)} were found that both sides take")
        is_only_size = len(self.runs) == count
        if self._grid is None:
            beyond = (self._try(description, seed, shapes) for shapes in candidates.beyond(used, ports))
            refused += [refusal for refusal in beyond if refusal is not None and refusal.by_ir]
            self._judge(refused, used, seed, is_only_size=is_only_size)

    def _judge(self, refused: Sequence[_Refusal], used: Shapes, seed: int, *, is_only_size: bool = False) -> None:
        """Look for shapes that are a difference: those that a side refuses although its declaration allows them.

        What both sides refuse is none, unless the IR alone declares such shapes: another batch than that of ``used``
        or, where ``used`` ``is_only_size`` that runs, any other shapes.
        """
        reference, names = self.sides.reference, self.sides.names
        allowed = {port.name: port.partial_shape for port in self.sides.ports}
        for refusal in itertools.islice(refused, 0 if self.sides.refused else _MOST_JUDGED):
            shapes, text = refusal.shapes, _shapes_text(refusal.shapes)
            if not all(_allows(allowed[name], shape) for name, shape in shapes.items()):
                continue
            declared = {name: reference.declared(names[name]) for name in shapes}
            if not refusal.by_ir:
                if not is_known_refusal(str(refusal.error)) and all(
                    _allows(declared[name], shape) for name, shape in shapes.items()
                ):
                    self.sides.refused = f"the IR takes {text}, and the reference does not: {refusal.error}"
            elif self._reference_takes(shapes, seed):
                self.sides.refused = f"the reference takes {text}, and the IR does not: {refusal.error}"
            elif _are_wider(declared, shapes, used, any_axis=is_only_size):
                wide = ", ".join(f"{name}{allowed[name]}" for name in shapes)
                self.sides.refused = f"the IR declares {wide}, but does not take {text}: {refusal.error}"

    def _reference_takes(self, shapes: Shapes, seed: int) -> bool:
        """True if onnxruntime has values for these shapes, and not only empty outputs.

        onnx's own evaluator checks too little: it takes grids of three coordinates for images.
        """
        if not self.sides.reference.name.startswith("onnxruntime"):
            return False
        try:
            return any(value.size for value in self.sides.expected(self._random(seed, shapes)).values())
        except VerificationError:
            return False

    def stress(self, seed: int) -> None:
        """Runs of special values, in the dimensions of the first run."""
        first = self.runs[0]
        for name, feeds in stress_values.feeds(first.feeds, self._values, seed):
            if self.sides.rounded and name == stress_values.INFINITIES:
                self.sides.notes.append(f"{name} are left out: they become NaN where a weight was rounded to 0")
                continue
            try:
                expected = self.sides.expected(feeds)
            except VerificationError as error:
                self.sides.notes.append(f"{name}: the reference refuses, {error}")
                continue
            self._add(f"stress: {name}", feeds, expected)
            if self.sides.rounded and name != stress_values.NAN:
                self._leave_out_overflow(name)
            if name in stress_values.NOT_FINITE and not self.runs[-1].passed:
                self._check_definition(name)

    def _leave_out_overflow(self, name: str) -> None:
        """The last run is dropped if it failed and results overflow: where they do depends on rounded weights."""
        run = self.runs[-1]
        if not run.passed and not _are_finite(run.expected):
            self.runs.pop()
            self.sides.notes.append(f"{name} are left out: results overflow, and where depends on rounded weights")

    def _check_definition(self, name: str) -> None:
        """The last run failed on values that are not finite: find out whether ONNX defines the expected values.

        The run is dropped where a node's result is not defined, or where onnx's own evaluator has yet other results
        or refuses the values alone. It passes where that agrees with the IR.
        """
        run = self.runs[-1]
        feeds = self.sides.reference_feeds(run.feeds)
        why = "" if self.sides.onnx is None else stress_values.undefined(self.sides.onnx, feeds)
        if why:
            self.runs.pop()
            self.sides.notes.append(f"{name} were not compared: {why}")
            return
        defined = self._defined(run)
        if defined is None:
            if len(self.runs) > 1 and self._defined(self.runs[0]) is not None:
                self.runs.pop()
                self.sides.notes.append(f"{name} were not compared: onnx's own evaluator refuses them")
            return
        outputs = [
            compare(comparison.name, defined[comparison.name], run.actual[comparison.name], comparison.tolerance)
            for comparison in run.outputs
        ]
        failed = [output for output in outputs if not output.passed]
        if not failed:
            self.runs[-1] = Run(run.description, run.feeds, defined, run.actual, outputs)
            self.sides.notes.append(f"{name}: the IR computes what onnx's own evaluator does, and onnxruntime does not")
        elif not all(compare(x.name, run.expected[x.name], defined[x.name], x.tolerance).passed for x in failed):
            self.runs.pop()
            self.sides.notes.append(f"{name} were not compared: onnxruntime and onnx's own evaluator do not agree")

    def _defined(self, run: Run) -> dict[str, Array] | None:
        """The outputs as onnx's own evaluator computes them; None where it refuses the model or the values."""
        try:
            return self.sides.defined(run)
        except VerificationError:
            return None

    def compare(self, description: str, feeds: dict[str, Array]) -> None:
        """Run both sides on ``feeds``."""
        values = self.sides.engine.run(feeds)  # first, because its errors are the clearest
        self._add(description, feeds, self._expected(feeds), values)

    def _add(
        self,
        description: str,
        feeds: dict[str, Array],
        expected: dict[str, Array],
        values: Sequence[Array] | None = None,
    ) -> None:
        self.runs.append(self.sides.compare(description, feeds, expected, values))


def _are_finite(values: Mapping[str, Array]) -> bool:
    """True if no float is NaN or infinite."""
    return all(np.isfinite(value).all() for value in values.values() if value.dtype.kind == "f")


def _with_shape(port: Port, declared: PartialShape | None) -> Port:
    """``port`` in the shape that the caller gave, if there is one."""
    return port if declared is None else replace(port, partial_shape=declared)


def _allows(declared: PartialShape, shape: Sequence[int]) -> bool:
    return declared.merge(PartialShape(list(shape))) is not None


def _are_wider(declared: Mapping[str, PartialShape], shapes: Shapes, used: Shapes, *, any_axis: bool) -> bool:
    """True if ``shapes`` differ from ``used`` in each input, only where ``declared`` is static, and in the batch.

    An input that stays as it is, such as a state, may have the dimension that the others must have.
    """
    for name, shape in shapes.items():
        axes = [axis for axis, (size, usual) in enumerate(zip(shape, used[name])) if size != usual]
        if shape and not axes:
            return False
        if not all(declared[name].has_rank and declared[name][axis].is_static for axis in axes):
            return False
        if not any_axis and (axes not in ([], [0]) or len(shape) == 1):
            return False
    return True


def _shapes_text(shapes: Shapes) -> str:
    return ", ".join(f"{name}{list(shape)}" for name, shape in shapes.items())
