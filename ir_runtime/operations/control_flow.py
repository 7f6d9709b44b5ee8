"""Operations with bodies: If, Loop and TensorIterator.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/infrastructure/loop-5.html
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ir_runtime.errors import ExecutionError, InferenceError, ModelError
from ir_runtime.graph import (
    DYNAMIC,
    Array,
    Dimension,
    InputMap,
    Model,
    Output,
    OutputMap,
    PartialShape,
    SubGraph,
    as_dimension,
    element_types,
    infer_types,
)
from ir_runtime.graph.operation import Operation, Runner, TensorType, argument, operation
from ir_runtime.graph.reshaping import infer_again

from ..records import record

_PASSES = 3
"""The types of a loop's body are inferred this often; dimensions that still change are dynamic then."""


def body_types(body: Model, parameters: Sequence[TensorType]) -> list[TensorType]:
    """The types of a body's results where its parameters have the given ones. The body is not changed."""
    types: dict[Output, TensorType] = {}
    starts = dict(zip(body.parameters, parameters))
    for node in body.nodes():
        if node in starts:
            types[node.outputs[0]] = starts[node]
            continue
        try:
            types_of_outputs = infer_types(node.op, [types[source] for source in node.inputs])
        except ModelError as error:
            raise type(error)(f"in the body, layer '{node.name}' ({node.op.type}): {error}") from error
        types.update(zip(node.outputs, types_of_outputs))
    return [types[node.inputs[0]] for node in body.results]


def _with_parameters(body: Model, types: Sequence[TensorType]) -> Model:
    """A copy of ``body`` whose parameters have these types, and the types that follow from them."""
    copy = body.clone()
    parameters = {
        node: TensorType(tensor_type.element_type, tensor_type.shape)
        for node, tensor_type in zip(copy.parameters, types)
    }
    infer_again(copy.nodes(), parameters)
    return copy


def _declared(body: Model) -> list[TensorType]:
    return [node.outputs[0].type for node in body.parameters]


def _bound(declared: TensorType, actual: TensorType) -> TensorType:
    """The type of a body's parameter: the type of the value that is passed in, or its declared one."""
    element_type = declared.element_type if actual.element_type.is_dynamic else actual.element_type
    shape = actual.shape if actual.shape.has_rank else declared.shape
    return dataclasses.replace(actual, element_type=element_type, shape=shape)


def _plain(tensor_type: TensorType) -> TensorType:
    """The type without values."""
    return TensorType(tensor_type.element_type, tensor_type.shape)


def _union(a: TensorType, b: TensorType, subject: str) -> TensorType:
    if a.element_type.is_dynamic or b.element_type.is_dynamic:
        element_type = element_types.dynamic
    elif a.element_type is not b.element_type:
        raise InferenceError(f"{subject} is {a.element_type} at one time and {b.element_type} at another")
    else:
        element_type = a.element_type
    return TensorType(element_type, a.shape.union(b.shape))


def _external(inputs: Sequence[Any], index: int) -> Any:
    if index >= len(inputs):
        raise InferenceError(f"a port map names input {index}, but there are {len(inputs)}")
    return inputs[index]


class _WithBodies(Operation):
    """Base of the three: the bodies are arguments of the constructor."""

    inputs = (1, None)
    bodies: tuple[SubGraph, ...] = argument(default=())

    def validate(self) -> None:
        super().validate()
        if len(self.bodies) != len(self.subgraph_names):
            raise InferenceError(f"{self.type} needs {len(self.subgraph_names)} bodies, but got {len(self.bodies)}")
        for sub in self.bodies:
            _check_maps(sub)

    @property
    def subgraphs(self) -> tuple[SubGraph, ...]:
        return self.bodies

    def with_bodies(self, bodies: Sequence[Model]) -> Operation:
        subgraphs = [dataclasses.replace(sub, body=body) for sub, body in zip(self.bodies, bodies)]
        return type(self)(bodies=tuple(subgraphs))


def _check_maps(sub: SubGraph) -> None:
    parameters, results = len(sub.body.parameters), len(sub.body.results)
    named = [entry.parameter for entry in sub.inputs] + [parameter for _, parameter in sub.back_edges]
    mapped = [entry.result for entry in sub.outputs] + [result for result, _ in sub.back_edges]
    if any(not 0 <= index < parameters for index in named) or any(not 0 <= index < results for index in mapped):
        raise InferenceError("a port map names a parameter or a result that the body does not have")
    fed = [entry.parameter for entry in sub.inputs]
    if len(set(fed)) != len(fed):
        raise InferenceError("a port map feeds a parameter of the body twice")
    numbers = sorted({entry.external for entry in sub.outputs if entry.external is not None})
    if numbers != list(range(len(numbers))):
        raise InferenceError(f"the outputs of a port map must be numbered without gaps, but are {numbers}")


@operation("If", opset=8)
class If8(_WithBodies):
    """Runs one of two bodies: the first where the condition (input 0) holds, else the second."""

    subgraph_names = (("then_body", "then_port_map"), ("else_body", "else_port_map"))

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        counts = [len(sub.outputs) for sub in self.bodies]
        if counts[0] != counts[1]:
            raise InferenceError(f"one body has {counts[0]} outputs, the other {counts[1]}")
        taken = self._known_branch(inputs)
        if taken is not None:
            return [_plain(tensor_type) for tensor_type in self._branch(self.bodies[taken], inputs)]
        branches = [self._branch(sub, inputs) for sub in self.bodies]
        return [_union(a, b, f"output {i}") for i, (a, b) in enumerate(zip(*branches))]

    @staticmethod
    def _known_branch(inputs: Sequence[TensorType]) -> int | None:
        """The number of the body that runs, where the condition is known."""
        condition = inputs[0].constant
        return None if condition is None or condition.size != 1 else (0 if condition.reshape(-1)[0] else 1)

    def specialized(self, inputs: Sequence[TensorType]) -> Operation:
        taken = self._known_branch(inputs)
        bodies = []
        for index, sub in enumerate(self.bodies):
            # A branch that never runs may contradict the types.
            runs = taken is None or taken == index
            bodies.append(_with_parameters(sub.body, self._parameter_types(sub, inputs)) if runs else sub.body)
        return self.with_bodies(bodies)

    @staticmethod
    def _parameter_types(sub: SubGraph, inputs: Sequence[TensorType]) -> list[TensorType]:
        parameters = _declared(sub.body)
        for entry in sub.inputs:
            tensor_type = _external(inputs, entry.external or 0)
            parameters[entry.parameter] = _bound(parameters[entry.parameter], tensor_type)
        return parameters

    def _branch(self, sub: SubGraph, inputs: Sequence[TensorType]) -> list[TensorType]:
        results = body_types(sub.body, self._parameter_types(sub, inputs))
        outputs = {entry.external or 0: results[entry.result] for entry in sub.outputs}
        return [outputs[index] for index in range(len(outputs))]

    def execute(self, runners: Sequence[Runner], inputs: Sequence[Array]) -> tuple[Array, ...]:
        condition = inputs[0]
        if condition.size != 1:
            raise ExecutionError(f"the condition must be one value, but has the shape {list(condition.shape)}")
        chosen = 0 if bool(condition.reshape(-1)[0]) else 1
        sub = self.bodies[chosen]
        arguments = _unfed(sub)
        for entry in sub.inputs:
            arguments[entry.parameter] = inputs[entry.external or 0]
        results = runners[chosen](_complete(arguments, sub))
        outputs = {entry.external or 0: results[entry.result] for entry in sub.outputs}
        return tuple(outputs[index] for index in range(len(outputs)))


def _unfed(sub: SubGraph) -> list[Array | None]:
    return [None] * len(sub.body.parameters)


def _complete(arguments: Sequence[Array | None], sub: SubGraph) -> list[Array]:
    """Parameters that nothing feeds are zero, as in OpenVINO."""
    done = []
    for value, node in zip(arguments, sub.body.parameters):
        if value is None:
            output = node.outputs[0]
            if not output.shape.is_static:
                raise ExecutionError(f"nothing feeds the parameter '{node.name}' of the body")
            value = np.zeros(output.shape.static(), output.element_type.dtype)
        done.append(value)
    return done


# --- loops ---


@record
class Slices:
    """The slices of an input or output along an axis of a known dimension."""

    start: int
    step: int
    size: int
    backwards: bool
    count: int

    @classmethod
    def of(cls, entry: InputMap | OutputMap, dimension: int) -> Slices:
        start = entry.start + (dimension + 1 if entry.start < 0 else 0)
        end = entry.end + (dimension + 1 if entry.end < 0 else 0)
        step = abs(entry.stride)
        low, high = (end, start) if entry.stride < 0 else (start, end)
        if step == 0 or low < 0 or high > dimension or low > high or (high - low) % step:
            raise InferenceError(
                f"{dimension} elements cannot be cut from {entry.start} to {entry.end} in steps of {entry.stride}"
            )
        return cls(start, step, entry.part_size, entry.stride < 0, (high - low) // step)

    def cut(self, data: Array, axis: int, iteration: int) -> Array:
        offset = iteration * self.step
        begin = self.start - offset - self.size if self.backwards else self.start + offset
        index: list[slice] = [slice(None)] * data.ndim
        index[axis] = slice(begin, begin + self.size)
        return data[tuple(index)]


class _Looping(_WithBodies):
    """Base of Loop and TensorIterator: sliced inputs, values carried between iterations, concatenated outputs."""

    subgraph_names = (("body", "port_map"),)
    first_data: ClassVar[int] = 0

    @property
    def sub(self) -> SubGraph:
        return self.bodies[0]

    def limit(self, inputs: Sequence[TensorType]) -> Dimension | None:
        """The limit of iterations; None where the sliced inputs alone give their number."""
        return None

    def stops_early(self, inputs: Sequence[TensorType], results: Sequence[TensorType]) -> bool:
        """True if a condition may end the loop early."""
        return False

    def carried(self) -> dict[int, int]:
        """For each parameter the result that becomes its value in the next iteration."""
        return {parameter: result for result, parameter in self.sub.back_edges}

    def specialized(self, inputs: Sequence[TensorType]) -> Operation:
        return self.with_bodies([_with_parameters(self.sub.body, self._lasting_types(inputs)[0])])

    def _lasting_types(self, inputs: Sequence[TensorType]) -> tuple[list[TensorType], list[TensorType]]:
        """The types of the body's parameters and results that hold in every iteration."""
        parameters = self._parameter_types(inputs)
        carried = self.carried()
        starts = {parameter: _plain(parameters[parameter]) for parameter in carried}
        parameters = [starts.get(index, tensor_type) for index, tensor_type in enumerate(parameters)]
        for round_ in range(_PASSES + 1):
            results = body_types(self.sub.body, parameters)
            settled = True
            for parameter, result in carried.items():
                before = parameters[parameter]
                after = _union(before, results[result], "a loop-carried value")
                if after.shape != before.shape or after.element_type is not before.element_type:
                    settled = False
                    # A dimension that grows in every iteration is unbounded: more rounds would not find a bound.
                    widened = after.shape if round_ < _PASSES else PartialShape.dynamic()
                    parameters[parameter] = TensorType(after.element_type, _widen(before.shape, widened))
            if settled:
                break
        return parameters, results

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        _, results = self._lasting_types(inputs)
        count = self._count(inputs, results)
        outputs: dict[int, TensorType] = {}
        for entry in self.sub.outputs:
            if entry.external is not None:
                outputs[entry.external] = self._output_type(entry, results[entry.result], inputs, count)
        return [outputs[index] for index in range(len(outputs))]

    def _parameter_types(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        parameters = _declared(self.sub.body)
        for entry in self.sub.inputs:
            if entry.external is None:
                continue
            tensor_type = _external(inputs, entry.external)
            if entry.axis is not None:
                shape = tensor_type.shape
                if shape.has_rank:
                    if not 0 <= entry.axis < shape.rank:
                        raise InferenceError(f"axis {entry.axis} lies outside the rank of {shape}")
                    shape = shape.replace(entry.axis, entry.part_size)
                tensor_type = TensorType(tensor_type.element_type, shape)
            parameters[entry.parameter] = _bound(parameters[entry.parameter], tensor_type)
        return parameters

    def _count(self, inputs: Sequence[TensorType], results: Sequence[TensorType]) -> Dimension:
        count = self.limit(inputs)
        for entry in self.sub.inputs:
            if entry.external is not None and entry.axis is not None:
                shape = _external(inputs, entry.external).shape
                dimension = shape[entry.axis] if shape.has_rank else DYNAMIC
                number = Slices.of(entry, dimension.value).count if dimension.is_static else None
                cuts = as_dimension(number)
                if count is None:
                    count = cuts
                elif self.first_data:
                    count = Dimension(min(count.low, cuts.low), min(count.high, cuts.high))
                else:
                    count = count.merge(cuts) or count
        count = DYNAMIC if count is None else count
        if self.stops_early(inputs, results):
            return Dimension(0, count.high)
        return count

    def _output_type(
        self, entry: OutputMap, tensor_type: TensorType, inputs: Sequence[TensorType], count: Dimension
    ) -> TensorType:
        if entry.axis is not None:
            if not tensor_type.shape.has_rank:
                return _plain(tensor_type)
            if not 0 <= entry.axis < max(tensor_type.shape.rank, 1) or tensor_type.shape.rank == 0:
                raise InferenceError(
                    f"iterations of the shape {tensor_type.shape} cannot be joined along axis {entry.axis}"
                )
            part = tensor_type.shape[entry.axis]
            if part.merge(as_dimension(entry.part_size)) is None:
                raise InferenceError(_wrong_part(entry, part))
            return TensorType(tensor_type.element_type, tensor_type.shape.replace(entry.axis, count * entry.part_size))
        if count.low > 0:
            return _plain(tensor_type)
        parameter = next((p for p, result in self.carried().items() if result == entry.result), None)
        source = next((e.external for e in self.sub.inputs if e.parameter == parameter), None)
        if source is None:
            return _plain(tensor_type)
        return _union(_plain(inputs[source]), tensor_type, "a loop-carried value")

    # --- execution ---

    def run(
        self, runner: Runner, inputs: Sequence[Array], count: int | None, condition: int | None
    ) -> tuple[Array, ...]:
        """``count`` iterations (no bound where None), or until result ``condition`` is false."""
        sub = self.sub
        cuts = {
            entry.parameter: Slices.of(entry, inputs[entry.external].shape[entry.axis])
            for entry in sub.inputs
            if entry.external is not None and entry.axis is not None
        }
        for slices in cuts.values():
            count = slices.count if count is None or not self.first_data else min(count, slices.count)
        arguments = _unfed(sub)
        for entry in sub.inputs:
            if entry.external is not None and entry.axis is None:
                arguments[entry.parameter] = inputs[entry.external]
        parts: dict[int, list[Array]] = {result: [] for result in range(len(sub.body.results))}
        joined = {entry.result for entry in sub.outputs if entry.axis is not None}
        results: list[Array] | None = None
        iteration = 0
        while count is None or iteration < count:
            for entry in sub.inputs:
                if entry.external is None:
                    arguments[entry.parameter] = _counter(sub, entry.parameter, iteration)
                elif entry.axis is not None:
                    data = inputs[entry.external]
                    arguments[entry.parameter] = cuts[entry.parameter].cut(data, entry.axis, iteration)
            results = runner(_complete(arguments, sub))
            for result in joined:
                parts[result].append(results[result])
            for result, parameter in sub.back_edges:
                arguments[parameter] = results[result]
            iteration += 1
            if condition is not None and not bool(np.asarray(results[condition]).reshape(-1)[0]):
                break
        return self._gather(inputs, results, parts)

    def _gather(
        self, inputs: Sequence[Array], results: list[Array] | None, parts: Mapping[int, list[Array]]
    ) -> tuple[Array, ...]:
        outputs: dict[int, Array] = {}
        carried = {result: parameter for parameter, result in self.carried().items()}
        sources = {entry.parameter: entry.external for entry in self.sub.inputs}
        for entry in self.sub.outputs:
            if entry.external is None:
                continue
            if entry.axis is not None:
                pieces = parts[entry.result]
                if not pieces:
                    outputs[entry.external] = self._nothing(inputs, entry)
                else:
                    for piece in pieces:
                        if piece.shape[entry.axis] != entry.part_size:
                            raise ExecutionError(_wrong_part(entry, piece.shape[entry.axis]))
                    ordered = pieces[::-1] if entry.stride < 0 else pieces
                    outputs[entry.external] = np.concatenate(ordered, entry.axis)
            elif results is not None:
                outputs[entry.external] = results[entry.result]
            else:
                source = sources.get(carried.get(entry.result, -1))
                if source is None:
                    raise ExecutionError("a loop without iterations has no last value to return")
                outputs[entry.external] = inputs[source]
        return tuple(outputs[index] for index in range(len(outputs)))

    def _nothing(self, inputs: Sequence[Array], entry: OutputMap) -> Array:
        """The concatenation of no iterations: empty, with the dimensions that an iteration would have."""
        types = [TensorType(element_types.from_dtype(array.dtype), PartialShape(array.shape)) for array in inputs]
        tensor_type = self.infer(types)[entry.external or 0]
        dimensions = (
            [d.value if d.is_static else d.low for d in tensor_type.shape] if tensor_type.shape.has_rank else [0]
        )
        if entry.axis is not None and entry.axis < len(dimensions):
            dimensions[entry.axis] = 0
        return np.zeros(dimensions, tensor_type.element_type.dtype)


def _widen(before: PartialShape, after: PartialShape) -> PartialShape:
    """``after`` with every dimension dynamic that differs from ``before``."""
    if not before.has_rank or not after.has_rank or before.rank != after.rank:
        return after
    return PartialShape([a if a == b else DYNAMIC for a, b in zip(after, before)])


def _wrong_part(entry: OutputMap, part: Dimension | int) -> str:
    return f"an iteration adds {part} elements along axis {entry.axis}, where part_size is {entry.part_size}"


def _counter(sub: SubGraph, parameter: int, iteration: int) -> Array:
    output = sub.body.parameters[parameter].outputs[0]
    shape: Iterable[int] = output.shape.static() if output.shape.is_static else ()
    return np.full(tuple(shape), iteration, output.element_type.dtype)


@operation("TensorIterator", opset=1)
class TensorIterator1(_Looping):
    """Runs its body once for each slice of the sliced inputs."""

    inputs = (1, None)

    def execute(self, runners: Sequence[Runner], inputs: Sequence[Array]) -> tuple[Array, ...]:
        sliced = any(entry.axis is not None for entry in self.sub.inputs)
        return self.run(runners[0], inputs, None if sliced else 1, None)

    def limit(self, inputs: Sequence[TensorType]) -> Dimension | None:
        sliced = any(entry.axis is not None for entry in self.sub.inputs)
        return None if sliced else Dimension(1, 1)


@operation("Loop", opset=5)
class Loop5(_Looping):
    """Runs its body at most as often as input 0 (-1: without a limit), while a condition holds.

    Input 1 is the condition before the first iteration; the body's result that the port map marks
    is the condition for the next one.
    """

    inputs = (2, None)
    first_data = 2

    def condition(self) -> int | None:
        """The body's result that holds the condition."""
        return next((entry.result for entry in self.sub.outputs if entry.external is None), None)

    def limit(self, inputs: Sequence[TensorType]) -> Dimension | None:
        bounds = inputs[0].known_bounds
        if bounds is None or bounds.lower.size != 1:
            return DYNAMIC
        low, high = int(bounds.lower.reshape(-1)[0]), int(bounds.upper.reshape(-1)[0])
        if high < 0:
            return None
        return DYNAMIC if low < 0 else Dimension(low, high)

    def stops_early(self, inputs: Sequence[TensorType], results: Sequence[TensorType]) -> bool:
        marked = self.condition()
        for tensor_type in [inputs[1], *([] if marked is None else [results[marked]])]:
            constant = tensor_type.constant
            if constant is None or not constant.all():
                return True
        return False

    def execute(self, runners: Sequence[Runner], inputs: Sequence[Array]) -> tuple[Array, ...]:
        if inputs[0].size != 1 or inputs[1].size != 1:
            raise ExecutionError("the trip count and the condition of a loop must be one value each")
        trips = int(inputs[0].reshape(-1)[0])
        count = None if trips < 0 else trips
        if not bool(inputs[1].reshape(-1)[0]):
            count = 0
        marked = self.condition()
        if count is None and marked is None:
            raise ExecutionError("a loop without a trip count needs a condition to end it")
        return self.run(runners[0], inputs, count, marked)
