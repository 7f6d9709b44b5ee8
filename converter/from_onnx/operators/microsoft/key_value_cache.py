"""The caches of onnxruntime's attention: keys and values in 8 or 4 bits, or those of a window alone.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupQueryAttention
"""

from __future__ import annotations

from converter.from_onnx.translation.context import Context
from ir_runtime.graph import Output, element_types
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
