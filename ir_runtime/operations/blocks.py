"""Blocks of space, batch and channels traded for each other: DepthToSpace, SpaceToBatch and relatives.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/movement/depth-to-space-1.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import INFINITY, Array, Dimension, PartialShape, normalize_axis
from ir_runtime.graph.operation import Operation, TensorType, enum, integer, operation
from ir_runtime.graph.value_ranges import values_and_zeros


def divide_dimension(dimension: Dimension, by: int, subject: str) -> Dimension:
    if by < 1:
        raise InferenceError(f"the block size must be positive, but is {by}")
    if dimension.is_static and dimension.value % by:
        raise InferenceError(f"{subject} has {dimension} elements, which {by} does not divide")
    return Dimension(-(-dimension.low // by), dimension.high if dimension.high == INFINITY else dimension.high // by)


def _times(dimension: Dimension, by: int) -> Dimension:
    return dimension * by


def _check_spatial(op: str, shape: PartialShape) -> None:
    if shape.has_rank and shape.rank < 3:
        raise InferenceError(f"{op} needs a batch, channels and space, but the data have the shape {shape}")


class _DepthAndSpace(Operation):
    """Data ``[N, C, D1, ..., Dk]``.

    In a channel's number the position inside the block is the outer part with ``mode`` ``blocks_first``, the inner
    part with ``depth_first``.
    """

    inputs = (1, 1)
    movement = True
    block_size: int = integer()
    mode: str = enum("blocks_first", "depth_first", default="blocks_first")


@operation("DepthToSpace", opset=1)
class DepthToSpace1(_DepthAndSpace):
    """Channels become blocks of ``block_size`` elements along every dimension of space."""

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        shape = inputs[0].shape
        _check_spatial(self.type, shape)
        if not shape.has_rank:
            return [TensorType(inputs[0].element_type, shape)]
        block = self.block_size
        depth = divide_dimension(shape[1], block ** (shape.rank - 2), "dimension 1")
        space = [_times(dimension, block) for dimension in shape.dims[2:]]
        return [TensorType(inputs[0].element_type, PartialShape([shape[0], depth, *space]))]

    def evaluate(self, *inputs: Array) -> Array:
        data, block = inputs[0], self.block_size
        batch, channels, *space = data.shape
        number = len(space)
        depth = channels // block**number
        blocks = (block,) * number
        if self.mode == "blocks_first":
            split = data.reshape(batch, *blocks, depth, *space)
            order = [0, 1 + number]
            first_block = 1
        else:
            split = data.reshape(batch, depth, *blocks, *space)
            order = [0, 1]
            first_block = 2
        for axis in range(number):
            order += [2 + number + axis, first_block + axis]
        return split.transpose(order).reshape(batch, depth, *[n * block for n in space])


@operation("SpaceToDepth", opset=1)
class SpaceToDepth1(_DepthAndSpace):
    """Blocks of ``block_size`` elements along every dimension of space become channels."""

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        shape = inputs[0].shape
        _check_spatial(self.type, shape)
        if not shape.has_rank:
            return [TensorType(inputs[0].element_type, shape)]
        block = self.block_size
        space = [divide_dimension(dimension, block, f"dimension {i}") for i, dimension in enumerate(shape.dims[2:], 2)]
        depth = _times(shape[1], block ** (shape.rank - 2))
        return [TensorType(inputs[0].element_type, PartialShape([shape[0], depth, *space]))]

    def evaluate(self, *inputs: Array) -> Array:
        data, block = inputs[0], self.block_size
        batch, channels, *space = data.shape
        split = data.reshape(batch, channels, *[part for n in space for part in (n // block, block)])
        outer = [2 + 2 * axis for axis in range(len(space))]
        inner = [axis + 1 for axis in outer]
        order = [0, *inner, 1, *outer] if self.mode == "blocks_first" else [0, 1, *inner, *outer]
        depth = channels * block ** len(space)
        return split.transpose(order).reshape(batch, depth, *[n // block for n in space])


def _numbers(value: TensorType, rank: int, least: int) -> list[Dimension]:
    """The numbers of a list, one a dimension, none of which is below ``least``."""
    bounds = value.known_bounds
    if bounds is None:
        return [Dimension(least)] * rank
    lower, upper = bounds.lower.reshape(-1).tolist(), bounds.upper.reshape(-1).tolist()
    return [Dimension(max(low, least), max(high, least)) for low, high in zip(lower, upper)]


def _parts(dimension: Dimension, by: Dimension, subject: str) -> Dimension:
    """``dimension`` divided by a number that divides it."""
    if by.is_static:
        return divide_dimension(dimension, by.value, subject)
    high = INFINITY if dimension.high == INFINITY else dimension.high // by.low
    return Dimension(0 if by.high == INFINITY else -(-dimension.low // by.high), high)


def _product(numbers: Sequence[Dimension]) -> Dimension:
    return PartialShape(numbers).element_count()


class _BatchAndSpace(Operation):
    """Inputs: data, block_shape, and two lists with the elements added to or cut from each dimension.

    Every list has one number a dimension; block_shape[0] is 1.
    """

    inputs = (4, 4)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data = inputs[0]
        if not data.shape.has_rank:
            return [TensorType(data.element_type, data.shape)]
        rank = data.shape.rank
        for name, value in zip(("block_shape", "begin", "end"), inputs[1:]):
            if not value.shape.element_count().contains(rank):
                raise InferenceError(f"{name} must hold {rank} numbers, but has the shape {value.shape}")
        block, begin, end = (_numbers(value, rank, least) for value, least in zip(inputs[1:], (1, 0, 0)))
        return [TensorType(data.element_type, PartialShape(self.dims(data.shape, block, begin, end)))]

    def dims(
        self, shape: PartialShape, block: list[Dimension], begin: list[Dimension], end: list[Dimension]
    ) -> list[Dimension]:
        """The dimensions of the output."""
        raise InferenceError(f"{self.type} has no shape")


@operation("SpaceToBatch", opset=2)
class SpaceToBatch2(_BatchAndSpace):
    """Zeros are added around the data, and the places inside each block become batches."""

    value_range = values_and_zeros

    def dims(
        self, shape: PartialShape, block: list[Dimension], begin: list[Dimension], end: list[Dimension]
    ) -> list[Dimension]:
        padded = [dimension + a + b for dimension, a, b in zip(shape, begin, end)]
        spatial = [_parts(n, by, f"padded dimension {i}") for i, (n, by) in enumerate(zip(padded, block)) if i]
        return [shape[0] * _product(block), *spatial]

    def evaluate(self, *inputs: Array) -> Array:
        data, block, begin, end = inputs[0], *(value.reshape(-1).tolist() for value in inputs[1:])
        padded = np.pad(data, list(zip(begin, end)))
        pieces = [part for n, by in zip(padded.shape, block) for part in (n // by, by)]
        rank = data.ndim
        inner = [1 + 2 * axis for axis in range(rank)]
        outer = [2 * axis for axis in range(rank)]
        moved = padded.reshape(pieces).transpose(inner + outer)
        shape = [n // by for n, by in zip(padded.shape, block)]
        return moved.reshape(int(np.prod(block)) * shape[0], *shape[1:])


@operation("BatchToSpace", opset=2)
class BatchToSpace2(_BatchAndSpace):
    """The outer part of the batch becomes blocks of space, from which the ends are cut off."""

    movement = True

    def dims(
        self, shape: PartialShape, block: list[Dimension], begin: list[Dimension], end: list[Dimension]
    ) -> list[Dimension]:
        dims = [_parts(shape[0], _product(block), "dimension 0")]
        for dimension, by, first, last in list(zip(shape, block, begin, end))[1:]:
            cut, whole = first + last, dimension * by
            if whole.high < cut.low:
                raise InferenceError(f"{cut} elements cannot be cut from {whole}")
            high = INFINITY if whole.high == INFINITY else whole.high - cut.low
            dims.append(Dimension(max(0, whole.low - cut.high), high))
        return dims

    def evaluate(self, *inputs: Array) -> Array:
        data, block, begin, end = inputs[0], *(value.reshape(-1).tolist() for value in inputs[1:])
        rank = data.ndim
        batch = data.shape[0] // int(np.prod(block))
        split = data.reshape(*block, batch, *data.shape[1:])
        order = [part for axis in range(rank) for part in (rank + axis, axis)]
        shape = [batch * block[0], *[n * by for n, by in zip(data.shape[1:], block[1:])]]
        whole = split.transpose(order).reshape(shape)
        return whole[tuple(slice(a, n - b) for n, a, b in zip(shape, begin, end))]


@operation("ShuffleChannels", opset=1)
class ShuffleChannels1(Operation):
    """Dimension ``axis`` seen as ``group`` rows of columns, and read column by column."""

    inputs = (1, 1)
    movement = True
    axis: int = integer(default=1)
    group: int = integer(default=1)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        shape = inputs[0].shape
        if shape.has_rank:
            divide_dimension(shape[normalize_axis(self.axis, shape.rank)], self.group, f"dimension {self.axis}")
        return [TensorType(inputs[0].element_type, shape)]

    def evaluate(self, *inputs: Array) -> Array:
        data = inputs[0]
        at = normalize_axis(self.axis, data.ndim)
        lead, dimension, rest = data.shape[:at], data.shape[at], data.shape[at + 1 :]
        grouped = data.reshape(*lead, self.group, dimension // self.group, *rest)
        return np.swapaxes(grouped, at, at + 1).reshape(data.shape)
