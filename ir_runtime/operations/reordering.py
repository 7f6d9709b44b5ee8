"""The same elements in another order: Reverse, ReverseSequence, Roll.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/movement/reverse-sequence-1.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, normalize_axes, normalize_axis
from ir_runtime.graph.operation import Operation, TensorType, enum, integer, operation


class _SameShape(Operation):
    """The output has the type and shape of the first input."""

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return [TensorType(inputs[0].element_type, inputs[0].shape)]


@operation("Reverse", opset=1)
class Reverse1(_SameShape):
    """The dimensions named by a list of axes (index), or marked in a list of booleans (mask), backwards."""

    inputs = (2, 2)
    mode: str = enum("index", "mask", default="index")
    movement = True

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        constant = inputs[1].constant
        if constant is not None and self.mode == "index" and inputs[0].shape.has_rank:
            normalize_axes(constant.reshape(-1).tolist(), inputs[0].shape.rank)
        return super().infer(inputs)

    def evaluate(self, *inputs: Array) -> Array:
        data, axes = inputs
        chosen = np.flatnonzero(axes) if self.mode == "mask" else axes.reshape(-1)
        return np.flip(data, normalize_axes(chosen.tolist(), data.ndim))


@operation("ReverseSequence", opset=1)
class ReverseSequence1(_SameShape):
    """The first ``seq_lengths[i]`` elements along ``seq_axis`` backwards, for each batch i."""

    inputs = (2, 2)
    movement = True
    batch_axis: int = integer(default=0)
    seq_axis: int = integer(default=1)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, lengths = inputs
        if data.shape.has_rank:
            batch = data.shape[normalize_axis(self.batch_axis, data.shape.rank, "batch_axis")]
            normalize_axis(self.seq_axis, data.shape.rank, "seq_axis")
            merged = batch.merge(lengths.shape.element_count())
            if merged is None:
                raise InferenceError(f"{lengths.shape} lengths are given for {batch} sequences")
            return [TensorType(data.element_type, data.shape.replace(self.batch_axis, merged))]
        return super().infer(inputs)

    def evaluate(self, *inputs: Array) -> Array:
        data, lengths = inputs
        moved = np.moveaxis(data, (self.batch_axis, self.seq_axis), (0, 1))
        steps = np.arange(moved.shape[1])
        ends = lengths.reshape(-1, 1).astype(np.int64)
        order = np.where(steps < ends, ends - 1 - steps, steps)
        out = moved[np.arange(len(moved)).reshape(-1, 1), order]
        return np.moveaxis(out, (0, 1), (self.batch_axis, self.seq_axis))


@operation("Roll", opset=7)
class Roll7(_SameShape):
    """Elements shifted along ``axes`` by ``shift``; those that leave at one end come back at the other."""

    inputs = (3, 3)
    movement = True

    def evaluate(self, *inputs: Array) -> Array:
        data, shift, axes = inputs
        places = [normalize_axis(axis, data.ndim) for axis in axes.reshape(-1).tolist()]
        shifts = np.broadcast_to(shift.reshape(-1), (len(places),)).tolist()
        return np.roll(data, shifts, places)
