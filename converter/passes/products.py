"""Change what stands in front of products and behind them."""

from __future__ import annotations

from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Node, Output
from ir_runtime.operations.elementwise import Binary
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Reshape1, Transpose1
from ir_runtime.operations.quantization import FakeQuantize1
from ir_runtime.rewriting import Builder, Replacement, fail

from .registry import passes

_Steps = list[tuple[Node, int]]
"""Layers from the last to the first, each with the place of the input that comes from the layer before."""


@passes.replaces("flattened_products")
def flattened_product(builder: Builder, node: Node) -> Replacement:
    """Let a product with weights keep the dimensions that are made one in front of it.

        x [b, s, k] -> Reshape [-1, k] -> MatMul [k, n] -> Add bias -> Reshape [b, s, n]

    becomes

        x -> MatMul -> Add bias

    PyTorch's addmm takes matrices alone, so that GPT-2 and others are exported in this form. Between the Reshapes there
    may be layers that treat every number, or every column, by itself. Dimensions are those of ``x`` for whatever
    shapes.
    """
    flat, steps = _between(node.inputs[0])
    x, width = flat.node.inputs[0], flat.shape[-1]
    dims, before = symbolic_shapes().dims(node.outputs[0]), symbolic_shapes().dims(x)
    if dims is None or before is None or len(dims) < 3:
        return fail("a rank is not known, or less than 3")
    if before[: len(dims) - 1] != dims[:-1]:
        return fail("dimensions are not known to be those of the input")
    if dims[-1] != symbolic_shapes().polynomial(steps[0][0].outputs[0].shape[-1]):
        return fail("the last dimension is not known to be that of the product")
    value = x
    if len(before) != len(dims):
        value = builder.emit(Reshape1(special_zero=True), x, builder.constant([*[0] * (len(dims) - 1), width.value]))
    for step, place in reversed(steps):
        inputs = [value if at == place else source for at, source in enumerate(step.inputs)]
        value = builder.emit(step.op, *inputs)
    return value


def _between(value: Output) -> tuple[Output, _Steps]:
    """Return the output of the first Reshape, and the layers between both, which nothing else reads."""
    steps: _Steps = []
    has_product = False
    while True:
        node = value.node
        if value.only_user is None and not (has_product and isinstance(node.op, Reshape1)):
            raise fail("something else reads what is between the Reshapes")
        if not value.shape.has_rank or value.shape.rank != 2 or not value.shape[-1].is_static:
            raise fail("what is between the Reshapes is no matrix of a known width")
        if has_product and isinstance(node.op, Reshape1):
            return value, steps
        place = _place_of_rows(node)
        if place is None:
            raise fail("a layer in front does not treat every row by itself")
        has_product = has_product or isinstance(node.op, MatMul1)
        steps.append((node, place))
        value = node.inputs[place]


def _place_of_rows(node: Node) -> int | None:
    """Return the index of the input whose rows the layer treats one by one; the others are the same for all rows."""
    op = node.op
    if op.elementwise and len(node.inputs) == 1:
        return 0
    if isinstance(op, MatMul1):
        weights = node.inputs[1].shape
        return 0 if not op.transpose_a and weights.has_rank and weights.rank == 2 else None
    if isinstance(op, FakeQuantize1):
        return 0 if op.auto_broadcast == "numpy" and all(map(_is_row, node.inputs[1:])) else None
    if isinstance(op, Binary) and op.auto_broadcast == "numpy":
        places = [place for place in (0, 1) if _is_row(node.inputs[1 - place])]
        return places[0] if len(places) == 1 else None
    return None


def _is_row(value: Output) -> bool:
    """True if a tensor has at most one row."""
    shape = value.shape
    return shape.is_static and len(shape.static()) < 3 and all(size == 1 for size in shape.static()[:-1])


@passes.replaces("transposes_in_products")
def transpose_in_product(builder: Builder, node: Node) -> Replacement:
    """Make a Transpose of the last two dimensions in front of a product its attribute.

        a, b -> Transpose(0, 1, 3, 2) -> MatMul      becomes      a, b -> MatMul(transpose_b)

    A Transpose that anything else reads stays.
    """
    assert isinstance(node.op, MatMul1)
    inputs, flags = list(node.inputs), [node.op.transpose_a, node.op.transpose_b]
    for index, value in enumerate(node.inputs):
        if _swaps_the_last_two(value) and value.only_user is node:
            inputs[index], flags[index] = value.node.inputs[0], not flags[index]
    if tuple(inputs) == node.inputs:
        return fail("no input is a Transpose of the last two dimensions that nothing else reads")
    return builder.emit(MatMul1(transpose_a=flags[0], transpose_b=flags[1]), *inputs)


def _swaps_the_last_two(value: Output) -> bool:
    if not isinstance(value.node.op, Transpose1):
        return False
    x, order = value.node.inputs
    constant = order.type.constant
    if constant is None:
        return False
    axes = constant.reshape(-1).tolist()
    if not axes:
        return x.shape.has_rank and x.shape.rank == 2
    rank = len(axes)
    return rank > 1 and axes == [*range(rank - 2), rank - 1, rank - 2]
