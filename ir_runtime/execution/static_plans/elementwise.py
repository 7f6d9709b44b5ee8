"""Elementwise layers in a static plan.

Chains of float32 are computed block by block, layers of other types one by one.

All arrays are seen in the shape of the output, with its axes in the order of memory and joined where they can be. A
vector along the channels is repeated so that NumPy's inner loops, which run along the last axis, are long.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ir_runtime.execution.kernels.elementwise_chains import Layer, allocated, blocks_of, read_by
from ir_runtime.execution.kernels.formulas import ufunc_of
from ir_runtime.graph import Array, Node, Output
from ir_runtime.operations.elementwise import Arithmetic, Binary, Predicate, Select1, Unary

from .binding import Binding, Call, binder

_MAX_REPEATED_ROW = 1 << 12
"""Vectors along the last axis are repeated up to this many elements."""
_MIN_ROW_LENGTH = 1 << 10
"""Rows of at least this many elements are not lengthened."""


_CALLING_ONE_FUNCTION = (Binary.evaluate, Arithmetic.evaluate, Unary.evaluate, Predicate.evaluate)
"""The ``evaluate`` of operations whose ``kernel`` does all the work."""


def bind_function(node: Node, b: Binding) -> list[Call] | None:
    """A layer that is one function of NumPy, of any type: called with the array of the output."""
    op: Any = node.op
    function = getattr(type(op), "kernel", None)
    if not isinstance(function, np.ufunc) or type(op).evaluate not in _CALLING_ONE_FUNCTION:
        return None
    arrays = b.all_arrays(node.inputs)
    output = node.outputs[0]
    if arrays is None or not b.is_bindable(output) or not _broadcasts_as_in_numpy(op):
        return None
    try:
        types = function.resolve_dtypes((*[array.dtype for array in arrays], None))
    except TypeError:  # there is no such function for the type
        return None
    if types[-1] != output.element_type.dtype:
        return None
    return [partial(function, *arrays, out=b.new(output))]


def _broadcasts_as_in_numpy(op: Any) -> bool:
    return getattr(op, "auto_broadcast", "numpy") != "pdpd"


@binder(Select1)
def select(node: Node, b: Binding) -> list[Call] | None:
    arrays = b.all_arrays(node.inputs)
    if arrays is None or not _broadcasts_as_in_numpy(node.op):
        return None
    condition, then, otherwise = arrays
    out = b.new(node.outputs[0])
    return [partial(np.copyto, out, otherwise), partial(np.copyto, out, then, where=condition)]


def bind_chain(root: Output, layers: list[Layer], b: Binding, dead: Collection[Output]) -> list[Call] | None:
    """A chain, in the memory of an input of its size where that is one of ``dead``, which nothing else reads."""
    reads = read_by(layers)
    arrays = b.all_arrays(reads)
    if arrays is None:
        return None
    shape = root.shape.static()
    operands = dict(zip(reads, arrays))
    of_size = [source for source, array in operands.items() if array.shape == shape]
    freed = None
    if root not in b.homes:
        freed = next((source for source in of_size if source in dead and b.is_alone(source)), None)
    if freed is not None:
        out = operands[freed]
        b.alias(root, out, freed)
    else:
        # The output has the order in memory of the first input of its size.
        out = b.new(root, order_of(operands[of_size[0]]) if of_size else None)
    calls, operands, inner = _whole_layers(layers, operands, shape, b)
    return calls + chain_calls(inner, operands, out, b, freed)


def order_of(array: Array) -> tuple[int, ...]:
    """The axes of an array from the outermost to the innermost one in memory."""
    return tuple(sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis])))


def _whole_layers(
    layers: list[Layer], operands: dict[Output, Array], shape: tuple[int, ...], b: Binding
) -> tuple[list[Call], dict[Output, Array], list[Layer]]:
    """Layers whose outputs are smaller than the chain's, computed before anything else; and the others."""
    shapes = {key: array.shape for key, array in operands.items()}
    calls: list[Call] = []
    inner = []
    arrays_of = dict(operands)
    for layer in layers:
        layer_shape = shapes[layer.output] = np.broadcast_shapes(*[shapes[source] for source in layer.inputs])
        if layer_shape == shape:
            inner.append(layer)
            continue
        out = arrays_of[layer.output] = b.scratch(layer_shape)
        calls += chain_calls([layer], {source: arrays_of[source] for source in layer.inputs}, out, b)
    used = {source for layer in inner for source in layer.inputs}
    return calls, {key: array for key, array in arrays_of.items() if key in used}, inner


def chain_calls(
    layers: Sequence[Layer], operands: Mapping[Output, Array], out: Array, b: Binding, in_place: Output | None = None
) -> list[Call]:
    """Calls that compute ``layers`` from ``operands``, which may be broadcast to ``out``'s shape.

    ``in_place`` is an operand that lies where ``out`` does.
    """
    if not out.size:
        return []
    keys = list(operands)
    calls: list[Call] = []
    fixed = [b.constant(key) is not None for key in keys]
    arrays = _join([np.broadcast_to(operands[key], out.shape) for key in keys] + [out], fixed, b, calls)
    # The output's memory serves as a temporary, too: formulas write with their last step only.
    numbers = {key: number for number, key in enumerate(keys)}
    own, leaving = ((-1,), {}) if in_place is None else ((), {in_place: -1})
    instructions, count = allocated(layers, numbers, own, leaving)
    buffers_by_shape: dict[tuple[int, ...], list[Array]] = {}
    for dimensions, index in blocks_of(arrays[-1].shape):
        buffers = buffers_by_shape.get(dimensions)
        if buffers is None:
            # The last two are the formulas' own.
            held = b.reused("chain", count + 2, *dimensions)
            buffers = buffers_by_shape[dimensions] = [held[number, ...] for number in range(count + 2)]
        # With the ellipsis an array of no dimensions stays one.
        registers = [array[(*index, ...)] for array in arrays]
        registers = [*registers[:-1], *buffers[:-2], registers[-1]]
        for layer, reads, target in instructions:
            inputs = [registers[at] for at in reads]
            ufunc = ufunc_of(layer.formula)
            if ufunc is None:
                calls.append(partial(layer.formula, *inputs, registers[target], buffers[-2:]))
            else:
                calls.append(partial(ufunc, *inputs, out=registers[target]))
    return calls


def _join(arrays: list[Array], fixed: list[bool], b: Binding, calls: list[Call]) -> list[Array]:
    """The arrays, of one shape, with axes in the order of the last one's memory, joined where all of them allow it."""
    out = arrays[-1]
    dimensions: list[int] = []
    strides: list[tuple[int, ...]] = []
    for axis in order_of(out):
        dimension = out.shape[axis]
        if dimension == 1:
            continue
        here = tuple([array.strides[axis] for array in arrays])
        if dimensions and all(outer == inner * dimension for outer, inner in zip(strides[-1], here)):
            dimensions[-1] *= dimension
            strides[-1] = here
        else:
            dimensions.append(dimension)
            strides.append(here)
    views = [
        np.lib.stride_tricks.as_strided(array, dimensions, [stride[number] for stride in strides])
        for number, array in enumerate(arrays)
    ]
    if len(dimensions) == 2 and dimensions[1] < _MIN_ROW_LENGTH:
        return _with_longer_rows(views, fixed, b, calls)
    return views


def _with_longer_rows(views: list[Array], fixed: list[bool], b: Binding, calls: list[Call]) -> list[Array]:
    rows, columns = views[-1].shape
    width = views[-1].itemsize
    vectors = [view.strides == (0, width) for view in views]
    plain = [view.strides == (columns * width, width) or view.strides == (0, 0) for view in views]
    if not all(vector or other for vector, other in zip(vectors, plain)) or not any(vectors):
        return views
    count = max(n for n in range(1, max(2, _MAX_REPEATED_ROW // columns + 1)) if rows % n == 0)
    if count == 1:
        return views
    shape = (rows // count, columns * count)
    rows_of_views = []
    for view, is_vector, is_fixed in zip(views, vectors, [*fixed, False]):
        if view.strides == (0, 0):
            rows_of_views.append(np.broadcast_to(view[:1, :1], shape))
        elif not is_vector:
            rows_of_views.append(view.reshape(shape))
        elif not is_fixed:
            repeated = b.scratch((count, columns))
            calls.append(partial(np.copyto, repeated, view[:1]))
            rows_of_views.append(np.broadcast_to(repeated.reshape(-1), shape))
        else:
            tiled = b.site.packed(view[0], count, partial(np.broadcast_to, view[0], (count, columns)))
            rows_of_views.append(np.broadcast_to(tiled.reshape(-1), shape))
    return rows_of_views
