"""The inputs and outputs of a model as callers see them: by name, with a type, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ir_runtime.records import record

from ..boundary import boundary
from ..displayed import Displayed
from ..errors import ExecutionError, UnknownOutputError
from ..graph import Array, ElementType, Model, Node, Output, PartialShape
from ..graph.operation import TensorType


@record
class Port:
    """An input, output or variable of a compiled model.

    ``name`` is the first of its tensor ``names`` (or the layer's name where it has none), ``shape`` has None for
    every dimension that is only known at run time, and is None where the rank is unknown; ``partial_shape`` has the
    limits of such dimensions. ``element_type`` is the type of the numbers.
    """

    name: str
    names: tuple[str, ...]
    shape: tuple[int | None, ...] | None
    element_type: ElementType
    partial_shape: PartialShape

    def __str__(self) -> str:
        return f"{self.name}: {self.element_type}{self.partial_shape}"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the arrays that go through this port."""
        return self.element_type.dtype


class InferenceResult(Displayed, Mapping[Any, Array]):
    """The outputs of one call: by any tensor name, or by position."""

    def __init__(self, ports: Sequence[Port], values: Sequence[Array]) -> None:
        self._ports = ports
        self._values = list(values)

    def __getitem__(self, key: str | int) -> Array:
        if isinstance(key, (int, np.integer)):
            if not -len(self._values) <= key < len(self._values):
                raise UnknownOutputError(f"there is no output {int(key)}; there are {len(self._values)} outputs")
            return self._values[int(key)]
        for port, value in zip(self._ports, self._values):
            if key in port.names or key == port.name:
                return value
        raise UnknownOutputError(f"there is no output {key!r}; the outputs are {[port.name for port in self._ports]}")

    def __iter__(self) -> Any:
        return iter([port.name for port in self._ports])

    def __len__(self) -> int:
        return len(self._ports)

    def __repr__(self) -> str:
        outputs_text = [
            f"{port.name!r}: {value.dtype}{list(value.shape)}" for port, value in zip(self._ports, self._values)
        ]
        return f"<InferenceResult {', '.join(outputs_text)}>"

    def to_list(self) -> list[Array]:
        """The values in the model's order."""
        return list(self._values)


def ports_of(model: Model) -> tuple[list[Port], list[Port]]:
    """The inputs and the outputs of ``model``."""
    inputs = [_port(node.outputs[0], node.outputs[0].names, node) for node in model.parameters]
    sources = [(node, node.inputs[0]) for node in model.results]
    return inputs, [_port(source, node.output_names or source.names, source.node) for node, source in sources]


def _port(output: Output, names: Sequence[str], node: Node) -> Port:
    return port_of(names, node.name, output.type)


def port_of(names: Sequence[str], name: str, type: TensorType) -> Port:
    """The port of a value of this type; it has this ``name`` where there are no ``names``."""
    shape = tuple(d.value if d.is_static else None for d in type.shape) if type.shape.has_rank else None
    return Port(names[0] if names else name, tuple(names), shape, type.element_type, type.shape)


@boundary("the inputs", reads=ExecutionError)
def arguments_in_order(ports: Sequence[Port], inputs: Any) -> list[Array]:
    """One array for each of the input ``ports``, from the ``inputs`` of a call: see :meth:`CompiledModel.__call__`.

    Raises :class:`ExecutionError` for an input that is missing or unknown, and for a wrong dtype or shape.
    """
    if inputs is None:
        inputs = {}
    if isinstance(inputs, np.ndarray):
        inputs = [inputs]
    if not isinstance(inputs, Mapping):
        if not isinstance(inputs, Iterable) or isinstance(inputs, (str, bytes)):
            raise ExecutionError(
                f"the inputs must map names to arrays, or list arrays, but are a {type(inputs).__name__}"
            )
        # One more than there are ports, so that a list that is too long is refused.
        inputs = dict(zip(range(len(ports) + 1), inputs))
    values: dict[int, Any] = {}
    for key, value in inputs.items():
        values[_position(ports, key)] = value
    missing = [port.name for i, port in enumerate(ports) if i not in values]
    if missing:
        raise ExecutionError(f"no value was given for the inputs {missing}")
    return [as_array(port, values[i]) for i, port in enumerate(ports)]


def _position(ports: Sequence[Port], key: Any) -> int:
    for index, port in enumerate(ports):
        if key in port.names or key == port.name:
            return index
    if isinstance(key, int) and 0 <= key < len(ports):
        return key
    raise ExecutionError(f"the model has no input {key!r}; its inputs are {[port.name for port in ports]}")


def as_array(port: Port, value: Any, category: str = "input") -> Array:
    """``value`` as an array of the port's dtype and shape; only what is no array yet is converted."""
    with boundary(f"the {category} '{port.name}'", reads=ExecutionError):
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        if not isinstance(value, (np.ndarray, np.generic)) and array.dtype != port.dtype:
            array = array.astype(port.dtype)
    if array.dtype.kind in "UT":
        array = array.astype(np.object_)
    if not port.element_type.is_dynamic and array.dtype != port.dtype:
        raise ExecutionError(
            f"{category} '{port.name}' must have dtype {port.dtype} ({port.element_type}), but has {array.dtype}"
        )
    if not port.partial_shape.accepts(array.shape):
        raise ExecutionError(
            f"{category} '{port.name}' must have the shape {port.partial_shape}, but has {list(array.shape)}"
        )
    return array
