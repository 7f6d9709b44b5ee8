"""Runs a model in NumPy: a plan made once, values freed after their last use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .constant_folding import as_tuple, fold
from .element_types import Array, ElementType
from .errors import ExecutionError, ModelError
from .graph import Model, Node, Output
from .operation import Operation, Runner, TensorType
from .shapes import PartialShape
from .tensor import Tensor


@dataclass(frozen=True)
class Port:
    """An input or output of a compiled model.

    ``name`` is the first of its tensor ``names`` (or the layer's name where it has none), ``shape``
    has None for every extent that is only known at run time, and is None where the rank is unknown.
    """

    name: str
    names: tuple[str, ...]
    shape: tuple[int | None, ...] | None
    element_type: ElementType
    partial_shape: PartialShape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the arrays that go through this port."""
        return self.element_type.dtype


class InferenceResult(Mapping[Any, Array]):
    """The outputs of one call: by any tensor name, or by position."""

    def __init__(self, ports: Sequence[Port], values: Sequence[Array]) -> None:
        self._ports = ports
        self._values = list(values)

    def __getitem__(self, key: str | int) -> Array:
        if isinstance(key, (int, np.integer)):
            return self._values[int(key)]
        for port, value in zip(self._ports, self._values):
            if key in port.names or key == port.name:
                return value
        raise KeyError(key)

    def __iter__(self) -> Any:
        return iter([port.name for port in self._ports])

    def __len__(self) -> int:
        return len(self._ports)

    def to_list(self) -> list[Array]:
        """The values in the model's order."""
        return list(self._values)


@dataclass
class _Step:
    """One operation of the plan: slots it reads, slots it fills, slots that are free afterwards."""

    name: str
    op: Operation
    run: Callable[..., Array | tuple[Array, ...]]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    frees: tuple[int, ...]


class _Plan:
    """A graph made ready to run: slots for values, steps in order."""

    def __init__(self, model: Model) -> None:
        nodes = model.nodes()
        parameters = set(model.parameters)
        slots: dict[Output, int] = {}
        types: dict[Output, TensorType] = {}
        self._initial: list[Array | None] = []

        def slot(output: Output, tensor: Tensor | None = None) -> int:
            slots[output] = len(self._initial)
            types[output] = output.type if tensor is None else replace(output.type, tensor=tensor)
            self._initial.append(None if tensor is None else tensor.array())
            return slots[output]

        self.inputs = [slot(node.outputs[0]) for node in model.parameters]
        pending: list[Node] = []
        for node in nodes:
            if node in parameters or not node.outputs:
                continue
            constants = _constants(node, [types[source] for source in node.inputs])
            for index, output in enumerate(node.outputs):
                slot(output, constants[index] if constants else None)
            if constants is None:
                pending.append(node)
        self.outputs = [slots[node.inputs[0]] for node in model.results]
        last: dict[int, int] = {}
        for position, node in enumerate(pending):
            for output in [*node.inputs, *node.outputs]:
                last[slots[output]] = position
        kept = {*self.outputs, *(i for i, value in enumerate(self._initial) if value is not None)}
        self.steps: list[_Step] = []
        for position, node in enumerate(pending):
            reads = tuple(slots[source] for source in node.inputs)
            writes = tuple(slots[output] for output in node.outputs)
            frees = tuple(s for s in dict.fromkeys(reads + writes) if last[s] == position and s not in kept)
            self.steps.append(_Step(node.name, node.op, _runner(node.op), reads, writes, frees))
        self._forget_unread(pending, slots)

    def _forget_unread(self, pending: Sequence[Node], slots: Mapping[Output, int]) -> None:
        """Drop intermediate constants that only other constants were made from."""
        read = {slots[source] for node in pending for source in node.inputs} | set(self.outputs)
        for index in range(len(self._initial)):
            if index not in read:
                self._initial[index] = None

    def run(self, arguments: Sequence[Array]) -> list[Array]:
        values: list[Any] = list(self._initial)
        for index, value in zip(self.inputs, arguments):
            values[index] = value
        for step in self.steps:
            try:
                results = step.run(*[values[i] for i in step.reads])
            except ModelError as error:
                raise type(error)(_at(step, error)) from error
            except (ValueError, IndexError, TypeError, OverflowError, MemoryError) as error:
                raise ExecutionError(_at(step, error)) from error
            for index, value in zip(step.writes, as_tuple(results)):
                values[index] = value
            for index in step.frees:
                values[index] = None
        return [values[index] for index in self.outputs]


def _at(step: _Step, error: Exception) -> str:
    return f"layer '{step.name}' ({step.op.type}, opset{step.op.opset}): {error or type(error).__name__}"


def _constants(node: Node, inputs: Sequence[TensorType]) -> list[Tensor] | None:
    """The node's outputs, where they follow from constants and from the extents that are known."""
    if node.op.data is not None:
        return [node.op.data]
    try:
        return fold(node.op, inputs, [output.type for output in node.outputs], limited=False)
    except (ModelError, MemoryError) as error:
        raise ExecutionError(f"layer '{node.name}' ({node.op.type}): {error}") from error


def _runner(op: Operation) -> Callable[..., Array | tuple[Array, ...]]:
    if not op.subgraphs:
        return op.evaluate
    runners: list[Runner] = [_Plan(sub.body).run for sub in op.subgraphs]
    return lambda *inputs: op.execute(runners, inputs)


class CompiledModel:
    """A model that can be called. Made by :func:`compile_model`."""

    def __init__(self, model: Model) -> None:
        self._plan = _Plan(model)
        self.inputs, self.outputs = ports_of(model)

    @property
    def input_names(self) -> list[str]:
        """The name of each input, in order."""
        return [port.name for port in self.inputs]

    @property
    def output_names(self) -> list[str]:
        """The name of each output, in order."""
        return [port.name for port in self.outputs]

    def __call__(self, inputs: Any = None) -> InferenceResult:
        """Execute the model.

        ``inputs`` maps tensor names (or positions) to arrays, or lists the arrays in order; a single
        array serves a model of one input. Arrays must have the port's dtype and shape; plain Python
        numbers and lists are converted. Raises :class:`ExecutionError` for anything else.
        """
        arguments = self._arguments(inputs)
        arrays = [_accept(port, value) for port, value in zip(self.inputs, arguments)]
        with np.errstate(all="ignore"):
            values = self._plan.run(arrays)
        return InferenceResult(self.outputs, [_own(value, arrays) for value in values])

    def _arguments(self, inputs: Any) -> list[Any]:
        if inputs is None:
            inputs = {}
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if not isinstance(inputs, Mapping):
            inputs = dict(enumerate(inputs))
        given: dict[int, Any] = {}
        for key, value in inputs.items():
            given[self._position(key)] = value
        missing = [port.name for i, port in enumerate(self.inputs) if i not in given]
        if missing:
            raise ExecutionError(f"no value was given for the inputs {missing}")
        return [given[i] for i in range(len(self.inputs))]

    def _position(self, key: Any) -> int:
        for index, port in enumerate(self.inputs):
            if key in port.names or key == port.name:
                return index
        if isinstance(key, int) and 0 <= key < len(self.inputs):
            return key
        raise ExecutionError(f"the model has no input {key!r}; its inputs are {self.input_names}")


def compile_model(model: Model) -> CompiledModel:
    """Make ``model`` ready to run in NumPy: order the work, compute what is constant."""
    return CompiledModel(model)


def ports_of(model: Model) -> tuple[list[Port], list[Port]]:
    """The inputs and outputs of ``model`` as a caller sees them."""
    inputs = [_port(node.outputs[0], node.outputs[0].names, node) for node in model.parameters]
    sources = [(node, node.inputs[0]) for node in model.results]
    return inputs, [_port(source, node.output_names or source.names, source.node) for node, source in sources]


def _port(output: Output, names: Sequence[str], node: Node) -> Port:
    shape = tuple(d.value if d.is_static else None for d in output.shape) if output.shape.has_rank else None
    return Port(names[0] if names else node.name, tuple(names), shape, output.element_type, output.shape)


def _accept(port: Port, value: Any) -> Array:
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if not isinstance(value, (np.ndarray, np.generic)) and array.dtype != port.dtype:
        array = array.astype(port.dtype)
    if array.dtype.kind in "UT":
        array = array.astype(np.object_)
    if not port.element_type.is_dynamic and array.dtype != port.dtype:
        raise ExecutionError(
            f"input '{port.name}' must have dtype {port.dtype} ({port.element_type}), but has {array.dtype}"
        )
    if not port.partial_shape.accepts(array.shape):
        raise ExecutionError(
            f"input '{port.name}' must have the shape {port.partial_shape}, but has {list(array.shape)}"
        )
    return array


def _own(value: Array, arguments: Sequence[Array]) -> Array:
    """A result the caller may write to: never a view of an input or a constant."""
    value = np.asarray(value)
    if value.base is not None or not value.flags.writeable or any(value is a for a in arguments):
        return value.copy()
    return value
