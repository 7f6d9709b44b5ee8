"""Rules for the weights of products, their scales, and thresholds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Array, Model, Node, Output, element_types, make_node
from ir_runtime.operations.elementwise import Convert1, Greater1, LessEqual1, Multiply1, Subtract1
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Reshape1, Transpose1
from ir_runtime.records import record
from ir_runtime.rewriting import Builder, NotMatched, PassTrace, Replacement, fail

from .opaque_identity import opaque_identity

_DOWN_ON_THE_RIGHT = (LessEqual1, Greater1)
"""Operations whose second input is rounded down if it is a threshold; a first one is rounded up."""


@openvino_cpu.replaces("float64_thresholds", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def float64_thresholds(builder: Builder, node: Node) -> Replacement:
    """Round thresholds of float64 to the side on which comparisons keep their results.

    The plug-in computes float64 in float32. A threshold that float32 does not have is rounded to the nearest number,
    which may be the very input that it separates from smaller ones: trees have thresholds halfway between two values of
    the data. So a threshold is rounded down where equal values are on the lower side, and up where they are on the
    upper one:

        x <= t, x > t      become      x <= t', x > t'        t' is the greatest float32 that is not above t
        x < t,  x >= t     become      x < t',  x >= t'       t' is the least float32 that is not below t

    Every input that float32 has keeps its result. Others are rounded before the plug-in compares them. A short decimal
    such as 1.2 stands for the float32 of that decimal, which an equal input becomes: it stays. The threshold may be
    looked up in a table, as those of trees are.
    """
    if node.inputs[0].element_type is not element_types.f64:
        return fail("it does not compare float64")
    is_down = isinstance(node.op, _DOWN_ON_THE_RIGHT)
    sides = [
        _round(builder, side, is_down == (place == 1)) if _table(side) is not None else side
        for place, side in enumerate(node.inputs)
    ]
    if sides == list(node.inputs):
        return fail("no input is a constant, or looked up in one, that float32 does not have")
    return builder.emit(node.op, *sides)


def _table(value: Output) -> Output | None:
    """The constant that ``value`` is, or that it is looked up in."""
    if isinstance(value.node.op, Gather8):
        value = value.node.inputs[0]
    return None if value.tensor is None else value


def _round(builder: Builder, value: Output, is_down: bool) -> Output:
    """``value`` from a table of rounded numbers; itself where float32 has all of them."""
    if isinstance(value.node.op, Gather8):
        table, *others = value.node.inputs
        rounded = _round(builder, table, is_down)
        return value if rounded is table else builder.emit(value.node.op, rounded, *others)
    assert value.tensor is not None
    exact = value.tensor.array()
    near = _to_float32(exact, is_down)
    if np.array_equal(near, exact, equal_nan=True):
        return value
    return builder.computed("rounded to float32", near, element_types.f64, [value])


def _to_float32(values: Array, is_down: bool) -> Array:
    """The greatest numbers of float32 that are not above ``values``, or the least that are not below.

    Shortest decimals of float32 stay as they are.
    """
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    is_beyond = near > values if is_down else near < values
    rounded = np.where(is_beyond, np.nextafter(near, np.float32(-np.inf if is_down else np.inf)), near)
    decimals = np.array([float(str(value)) for value in near.reshape(-1)]).reshape(near.shape)
    return np.where(decimals == values, values, rounded.astype(np.float64))


@record
class _Weights:
    """Stored weights, and the shapes of their scale and of their zero point, of as many dimensions."""

    stored: tuple[int, ...]
    factors: Sequence[tuple[int, ...]]
    is_reshaped: bool
    is_transposed: bool


@openvino_cpu.replaces("scales_of_compressed_weights", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def scales_of_compressed_weights(builder: Builder, node: Node) -> Replacement:
    """Have the plug-in decompress weights whose scales or zero points it would read wrongly.

    The plug-in keeps weights of 8 bits or fewer compressed where a product or Gather reads them. It reads their scales
    and zero points as one number, one for each row, or one for each group of columns of a row, whatever their shapes
    are. So it multiplies by the wrong numbers, and Gather also writes behind the end of its memory.

        w (u4 [n, k]) -> Convert -> Multiply(scale [1, k]) -> MatMul

    becomes

        w (u4 [n, k]) -> Convert -> Multiply(scale [1, k]) -> Maximum(a, a) -> MatMul

    Maximum of a value and itself changes nothing. The plug-in computes the weights while it compiles the model then,
    and stores them as floats. Weights whose scales it reads correctly stay compressed: those of one scale, those of one
    for each row (of the product, or of the table), and those in groups of a usual size. A block that does not divide
    the rows of DequantizeLinear's input gives a scale for each weight.
    """
    place = 1 if isinstance(node.op, MatMul1) else 0
    inputs = list(node.inputs)
    weights = _weights_of(inputs[place])
    if _are_read_by_product(node, weights) if isinstance(node.op, MatMul1) else _are_of_rows(weights):
        return fail("the plug-in reads scales and zero points of these shapes correctly")
    inputs[place] = builder.emit(opaque_identity(inputs[place].element_type), inputs[place], inputs[place])
    return builder.emit(node.op, *inputs)


def _weights_of(value: Output) -> _Weights:
    """Follow ``value`` back over changes of its type and shape to constant weights of at most 8 bits."""
    node, changes = value.node, list[Node]()
    while isinstance(node.op, (Convert1, Reshape1, Transpose1)):
        changes.append(node)
        node = node.inputs[0].node
    for data, scale in node.orders if isinstance(node.op, Multiply1) else ():
        factors = [scale]
        if isinstance(data.node.op, Subtract1):
            data, zero = data.node.inputs
            factors.append(zero.node.inputs[0] if isinstance(zero.node.op, Convert1) else zero)
        stored = data.node.inputs[0] if isinstance(data.node.op, Convert1) else data
        if stored.element_type.bits > 8 or any(part.tensor is None for part in (stored, *factors)):
            continue
        rank = stored.shape.rank
        shapes = [(1,) * (rank - factor.shape.rank) + factor.shape.static() for factor in factors]
        is_transposed = sum(isinstance(change.op, Transpose1) for change in changes) % 2 == 1
        is_reshaped = any(isinstance(change.op, Reshape1) for change in changes)
        return _Weights(stored.shape.static(), shapes, is_reshaped, is_transposed)
    raise fail(f"input '{value.node.name}' is not made of compressed weights")


def _are_of_rows(weights: _Weights) -> bool:
    """True if each factor belongs to weights that are stored in a row: it has their first dimensions, then 1."""
    stored = weights.stored
    shapes = [(*stored[:count], *[1] * (len(stored) - count)) for count in range(len(stored) + 1)]
    return all(factor in shapes for factor in weights.factors)


def _are_read_by_product(node: Node, weights: _Weights) -> bool:
    """True if the factors are one number, or one for each row or each group of a row, as the plug-in reads them."""
    assert isinstance(node.op, MatMul1)
    if all(set(factor) <= {1} for factor in weights.factors):
        return True
    matrix = node.inputs[1].shape
    if not matrix.is_static or matrix.rank < 2:
        return False
    *stack, _, _ = matrix.static()
    if any(size != 1 for size in stack):
        return True  # It decompresses these by layers of their own.
    shapes = [weights.stored, *weights.factors]
    if not weights.is_reshaped:
        shapes = [shape[-2:] for shape in shapes]
    if node.op.transpose_b == weights.is_transposed:
        shapes = [(shape[-1], *shape[:-1]) for shape in shapes]
    stored, *factors = shapes
    if len(stored) not in (2, 3) or stored[0] != matrix.static()[-2 if node.op.transpose_b else -1]:
        return False
    if any(factor[-1] != 1 for factor in factors) or not _are_of_rows(_Weights(stored, factors, False, False)):
        return False
    return all(set(factor[1:]) == {1} for factor in factors) or _is_usual_group(stored[-1])


def _is_usual_group(size: int) -> bool:
    """True if the plug-in reads groups of this size correctly, or decompresses them by layers of their own."""
    return size < 4 or size & (size - 1) == 0 or size % 32 == 0


@openvino_cpu.register("transposed_weights", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def transposed_weights(model: Model, trace: PassTrace) -> int:
    """Store the weights of products in the order in which the plug-in packs them.

    The plug-in computes a product with constant weights from weights [n, k], a row for each output, as PyTorch stores
    them in its own files. Weights [k, n] are transposed each time that the model is compiled.

        x -> MatMul(weights [k, n])      becomes      x -> MatMul(weights [n, k], transpose_b)

    The transposed weights are a view of those of the model: bytes move once, when the IR is written. OpenVINO's
    converter stores them in this order, too. Weights that any other layer reads stay.
    """
    count = 0
    for part in model.parts():
        factors = [product.inputs[1].node for product in part.nodes_of((MatMul1,))]
        for node in dict.fromkeys(factors):
            why_not = _why_not(node)
            for reader in node.outputs[0].uses:
                if why_not is not None:
                    trace.not_matched(reader, why_not)
                else:
                    trace.matched(reader)
                    count += 1
            if why_not is None:
                _transpose(node)
    return count


def _why_not(node: Node) -> NotMatched | None:
    tensor = node.op.data
    if tensor is None or not tensor.element_type.is_real or tensor.element_type.is_packed:
        return fail("the second input is not a constant of floats")
    if len(tensor.shape) < 2 or any(dimension != 1 for dimension in tensor.shape[:-2]):
        return fail("the weights are no single matrix")
    for reader in node.outputs[0].uses:
        if not isinstance(reader.op, MatMul1) or reader.inputs[0] is node.outputs[0]:
            return fail("another layer reads the weights, too")
        if reader.op.transpose_b:
            return fail("the weights are transposed already")
    return None


def _transpose(node: Node) -> None:
    """Replace ``node`` by the transposed constant, under its name; the tensor of the model is gone."""
    assert node.op.data is not None
    transposed = make_node(Const1(value=node.op.data.transposed()), (), node.name)
    transposed.origin, transposed.runtime_info = node.origin, node.runtime_info
    for reader in node.outputs[0].uses:
        assert isinstance(reader.op, MatMul1)
        reader.op = MatMul1(transpose_a=reader.op.transpose_a, transpose_b=True)
        reader.replace_input(1, transposed.outputs[0])
