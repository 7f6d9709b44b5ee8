"""The caches of GroupQueryAttention: of keys and values in 8 or 4 bits, of a window alone, and variables of the model.

onnxruntime's operator takes positions and valid keys from ``seqlens_k``, the number of keys of each row, and so wants
rows that are padded on the right. A cache that is a variable has another contract, that of OpenVINO's runtimes of
language models: new keys stand behind those of the past, in order; ``attention_mask`` ``[b, t]`` tells which of all
keys count, wherever a row is padded; ``position_ids`` ``[b, s]`` are the positions of the new ones.

Letters in shapes: b batches, s queries, t keys (those of the past included), n heads, h numbers a head.
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupQueryAttention
"""

from __future__ import annotations

from converter.from_onnx.lowering.attention import mask_of
from converter.from_onnx.translation.context import Context
from ir_runtime.graph import Node, Output, PartialShape, TensorType, element_types
from ir_runtime.operations import activation, elementwise, matmul, movement
from ir_runtime.records import record
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import add, in_type, multiply, subtract, unsqueeze
from ir_runtime.rewriting.shape_layers import arange, dim_of


@record
class Cache:
    """How a cache ``[b, n, t, h]`` stores numbers: unchanged, or divided by a scale and rounded to ``bits``.

    A byte holds two numbers of 4 bits, the first in the lower half; 8 is added to each.
    """

    scale: Output | None = None
    bits: int = 0

    @classmethod
    def of(
        cls, ctx: Context, past: Output | None, scale: Output | None, mode: str, bits: int | None, heads: int, name: str
    ) -> Cache:
        """The cache that the attributes describe; ``name`` is ``k`` or ``v``."""
        if mode == "NONE":
            if scale is not None:
                raise ctx.invalid(f"{name}_scale is given, but {name}_quant_type is NONE")
            return cls()
        if past is None or scale is None:
            raise ctx.invalid(f"a quantised cache needs both its past and {name}_scale")
        types_by_bits = {8: element_types.i8, 4: element_types.u8}
        if past.element_type is not types_by_bits.get(bits or 0):
            raise ctx.unsupported(f"a cache of {past.element_type} with {bits} bits is not supported")
        shape = [] if mode == "PER_TENSOR" else [1, heads, 1, -1]
        wide = in_type(ctx, scale, element_types.f32)
        return cls(ctx.emit(movement.Reshape1(special_zero=False), wide, ctx.constant(shape)), bits or 0)

    def stored(self, ctx: Context, new: Output) -> Output:
        """New keys or values in the form of the cache."""
        if self.scale is None:
            return new
        ratio = layers.divide(ctx, in_type(ctx, new, element_types.f32), self.scale)
        whole = ctx.emit(elementwise.Round5(mode="half_to_even"), ratio)
        half = float(1 << (self.bits - 1))
        whole = ctx.emit(activation.Clamp1(min=-half, max=half - 1), whole)
        if self.bits == 8:
            return in_type(ctx, whole, element_types.i8)
        pairs = self._reshape(ctx, layers.add(ctx, whole, ctx.like(half, whole)), [0, 0, 0, -1, 2])
        weights = ctx.constant([[1], [16]], "f32")
        # A product with [1, 16] joins both halves, exactly in float32.
        packed = ctx.emit(matmul.MatMul1(), pairs, weights)
        return in_type(ctx, self._reshape(ctx, packed, [0, 0, 0, -1]), element_types.u8)

    def real(self, ctx: Context, held: Output, like: Output) -> Output:
        """The cache's keys or values, in the type of ``like``."""
        if self.scale is None:
            return held
        if self.bits == 8:
            whole = in_type(ctx, held, element_types.f32)
        else:
            numbers = in_type(ctx, held, element_types.i32)
            high = ctx.emit(elementwise.BitwiseRightShift15(), numbers, ctx.constant(4, "i32"))
            low = ctx.emit(elementwise.BitwiseAnd13(), numbers, ctx.constant(15, "i32"))
            last = ctx.constant([-1])
            parts = [ctx.emit(movement.Unsqueeze1(), part, last) for part in (low, high)]
            pairs = self._reshape(ctx, ctx.emit(movement.Concat1(axis=-1), *parts), [0, 0, 0, -1])
            wide = in_type(ctx, pairs, element_types.f32)
            whole = layers.subtract(ctx, wide, ctx.like(8, wide))
        return in_type(ctx, layers.multiply(ctx, whole, self.scale), like.element_type)

    @staticmethod
    def _reshape(ctx: Context, value: Output, shape: list[int]) -> Output:
        return ctx.emit(movement.Reshape1(special_zero=True), value, ctx.constant(shape))


@record
class Window:
    """A cache with room for ``capacity`` keys, which holds the newest ones from its start on, in order.

    After ``T`` keys it holds ``L(T)``: all of them while there is room. Later the oldest are dropped,
    ``capacity - size + 1`` at a time. Every number is ``[b, 1]`` or a scalar.
    """

    size: int
    capacity: Output
    behind: Output
    """The number of keys before this step's."""
    old: Output
    """The number of those in the cache."""
    total: Output
    left: Output
    """The number of keys in the cache after this step."""

    @classmethod
    def of(cls, ctx: Context, past: Output, behind: Output, total: Output, size: int) -> Window:
        declared = ctx.declared(past).shape
        if size < 1 or declared[2].high < size:
            raise ctx.invalid(f"a window of {size} keys needs a cache with room for them, but its shape is {declared}")
        capacity = dim_of(ctx, past, 2)
        return cls(
            size, capacity, behind, cls._left(ctx, behind, capacity, size), total, cls._left(ctx, total, capacity, size)
        )

    @staticmethod
    def _left(ctx: Context, total: Output, capacity: Output, size: int) -> Output:
        """``T - G ceil((T - C) / G)`` with ``G = C - W + 1`` where the keys do not fit."""
        group = subtract(ctx, capacity, ctx.constant(size - 1))
        surplus = layers.maximum(ctx, subtract(ctx, total, capacity), ctx.constant(0))
        up = subtract(ctx, add(ctx, surplus, group), ctx.constant(1))
        groups = ctx.emit(elementwise.Divide1(m_pythondiv=False), up, group)
        return subtract(ctx, total, multiply(ctx, groups, group))

    def positions(self, ctx: Context, keys: Output) -> tuple[Output, Output]:
        """For the cache followed by the new keys: the position of each in the text, and whether it holds a key."""
        row = unsqueeze(ctx, arange(ctx, dim_of(ctx, keys, 2)), 0)
        is_new = layers.greater_equal(ctx, row, self.capacity)
        shift = subtract(ctx, self.behind, layers.select(ctx, is_new, self.capacity, self.old))
        held = layers.logical_or(ctx, is_new, layers.less(ctx, row, self.old))
        return add(ctx, row, shift), held

    def kept(self, ctx: Context, keys: Output) -> Output:
        """For each position of the new cache its index in the old cache followed by the new keys."""
        row = unsqueeze(ctx, arange(ctx, self.capacity), 0)
        place = add(ctx, row, subtract(ctx, self.total, self.left))
        is_new = layers.greater_equal(ctx, place, self.behind)
        start = layers.select(ctx, is_new, self.capacity, self.old)
        index = add(ctx, subtract(ctx, place, self.behind), start)
        # Behind the keys the cache may hold any values.
        last = subtract(ctx, dim_of(ctx, keys, 2), ctx.constant(1))
        return layers.maximum(ctx, layers.minimum(ctx, index, last), ctx.constant(0))


_POSITIONS = "position_ids"


def positions_of_input(ctx: Context, queries: Output) -> Output:
    """The positions of the queries ``[b, n, s, h]``: an input of the model, ``[b, s]``."""
    dims = PartialShape([queries.shape[0], queries.shape[2]])
    return ctx.graphs.model_input(_POSITIONS, TensorType(element_types.i64, dims))


def mask_of_input(
    ctx: Context, queries: Output, places: Output | None, lengths: Output, causal: bool, window: int
) -> Output:
    """The numbers that are added to the scores, ``[b, 1, s, t]``: 0, or the lowest finite number for hidden keys.

    A row without any key gets the mean of all values: a position of padding, which nobody reads, but whose NaN would
    spread. ``lengths`` is ``seqlens_k``, which leads to the mask that it counts. ``places`` are the positions of the
    queries ``[b, s]``, where there are any.
    """
    valid = _attention_mask(ctx, lengths)
    # Counted at the input, all layers have one mask.
    count = dim_of(ctx, queries, 2) if places is None or places.shape.rank != 2 else dim_of(ctx, places, 1)
    total = dim_of(ctx, valid, 1)
    keys = arange(ctx, total)
    rows = unsqueeze(ctx, add(ctx, arange(ctx, count), subtract(ctx, total, count)), 1)
    seen = unsqueeze(ctx, layers.not_equal(ctx, valid, ctx.like(0, valid)), 1, 2)
    if causal:
        seen = layers.logical_and(ctx, layers.less_equal(ctx, keys, rows), seen)
    if window > 0:
        near = layers.greater(ctx, keys, subtract(ctx, rows, ctx.constant(window)))
        seen = layers.logical_and(ctx, near, seen)
    return mask_of(ctx, seen, queries)


def _attention_mask(ctx: Context, lengths: Output) -> Output:
    """The input ``[b, t]`` that ``lengths`` is computed from."""
    mask_inputs: dict[Node, None] = {}
    seen: set[Node] = set()
    pending = [lengths.node]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        pending.extend(source.node for source in node.inputs)
        if node.op.role == "parameter":
            mask_inputs[node] = None
    masks = [node.outputs[0] for node in mask_inputs]
    if len(masks) == 1 and masks[0].element_type.is_integral and ctx.rank(masks[0], "the attention mask") == 2:
        return masks[0]
    inputs = ", ".join(f"'{node.name}' {node.outputs[0].type}" for node in mask_inputs) or "no input"
    raise ctx.unsupported(
        "a cache that becomes a variable needs an attention mask [batch, keys] among the inputs, which seqlens_k "
        f"counts; but it is computed from {inputs}"
    )
