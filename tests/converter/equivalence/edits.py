"""Edits of an IR: layers and constants are chosen by a name, or by what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ir_runtime.graph.model import Model, Node
from ir_runtime.graph.operation import find_operation
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.inputs_outputs import Const1

Edit = Callable[[Model], None]
Key = Any
"""A name of a layer or of its tensor, a type; of constants also the number of elements, the shape, a rank (``[4]``)."""


def layer(model: Model, key: str) -> Node:
    return next(node for node in model.nodes() if key in (node.name, node.op.type))


def constant(model: Model, key: Key) -> Node:
    def fits(node: Node) -> bool:
        data = node.op.data
        if isinstance(key, list):
            return data.array().ndim == key[0]
        return key in (node.name, *node.outputs[0].names, data.size, data.shape)

    return [node for node in model.nodes() if node.op.data is not None and fits(node)][-1]


def array_of(model: Model, key: Key) -> np.ndarray:
    return constant(model, key).op.data.array().copy()


def overwrite(model: Model, key: Key, change: Any) -> None:
    """Put other values into a constant: an array, or what a function returns of its array, or makes in it.

    Where a constant is stored transposed, so are values of the tensor's shape.
    """
    node, array = constant(model, key), array_of(model, key)
    changed = change
    if callable(change):
        result = change(array)
        changed = array if result is None else result
    if changed.shape != array.shape and changed.shape == array.shape[::-1]:
        changed = changed.T
    kind = node.op.data.element_type
    node.op = Const1(value=Tensor.from_array(np.ascontiguousarray(changed, array.dtype), kind))


def values(key: Key, change: Any) -> Edit:
    return lambda model: overwrite(model, key, change)


def added(key: Key, amount: Any, index: Any = ...) -> Edit:
    def change(array: np.ndarray) -> None:
        array[index] += array.dtype.type(amount)

    return values(key, change)


def scaled(key: Key, factor: float) -> Edit:
    return values(key, lambda array: array * np.float32(factor))


def rolled(key: Key) -> Edit:
    return values(key, lambda array: np.roll(array, 1))


def damaged(key: Key = "k") -> Edit:
    """Add 1 to the first four elements."""
    return values(key, lambda array: array + (np.arange(array.size) < 4).reshape(array.shape).astype(array.dtype))


def bit(key: Key, index: int, number: int) -> Edit:
    def change(array: np.ndarray) -> None:
        flat = array.reshape(-1).view(f"u{array.itemsize}")
        flat[index] ^= flat.dtype.type(1 << number)

    return values(key, change)


def attributes(key: str, **changed: Any) -> Edit:
    """Set attributes of a layer: to values, or to what functions return of the present ones."""

    def edit(model: Model) -> None:
        node = layer(model, key)
        new = {name: value(getattr(node.op, name)) if callable(value) else value for name, value in changed.items()}
        node.op = node.op.with_attributes(**new)

    return edit


def operation(key: str, other: str, **given: Any) -> Edit:
    def edit(model: Model) -> None:
        layer(model, key).op = find_operation(other, 1)(**given)

    return edit


def all_of(*edits: Edit) -> Edit:
    def edit(model: Model) -> None:
        for one in edits:
            one(model)

    return edit


def names_of_ends(inputs: dict[str, str], outputs: dict[str, str]) -> Edit:
    """Give inputs and outputs other names, as another program does."""

    def edit(model: Model) -> None:
        for node in (*model.parameters, *model.results):
            names = inputs if node.op.role == "parameter" else outputs
            value = (node.inputs or node.outputs)[0]
            value.names = [names.get(name, name) for name in value.names]
            node.output_names = [names.get(name, name) for name in node.output_names]

    return edit


def reversed_results(model: Model) -> None:
    model.results = model.results[::-1]


def exchanged_names(model: Model) -> None:
    names_of_ends({}, {"y": "z", "z": "y"})(model)
