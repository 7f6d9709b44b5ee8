"""Random numbers: RandomUniform and Multinomial.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/generation/random-uniform-8.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import DYNAMIC, Array, Dimension, ElementType, PartialShape, element_types
from ir_runtime.graph.operation import Operation, TensorType, boolean, enum, integer, operation, type_of_elements
from ir_runtime.graph.value_ranges import Range, hull, positions

from .movement import target_dimensions

_WORD = np.uint64(0xFFFFFFFF)


def philox(count: int, key: int, stream: int) -> Array:
    """``count`` random numbers of 32 bits from the generator Philox 4x32 with 10 rounds.

    J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011). ``stream`` is the upper
    half of the counter, whose lower half counts blocks of four numbers.
    """
    blocks = np.arange(-(-count // 4), dtype=np.uint64)
    shift = np.uint64(32)
    full = np.full_like(blocks, stream & 0xFFFFFFFFFFFFFFFF)
    counter = [blocks & _WORD, blocks >> shift, full & _WORD, full >> shift]
    first, second = key & 0xFFFFFFFF, (key >> 32) & 0xFFFFFFFF
    for _ in range(10):
        even, odd = counter[0] * np.uint64(0xD2511F53), counter[2] * np.uint64(0xCD9E8D57)
        counter = [
            (odd >> shift) ^ counter[1] ^ np.uint64(first),
            odd & _WORD,
            (even >> shift) ^ counter[3] ^ np.uint64(second),
            even & _WORD,
        ]
        first, second = (first + 0x9E3779B9) & 0xFFFFFFFF, (second + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(counter, axis=1).reshape(-1)[:count].astype(np.uint32)


def _generator(global_seed: int, op_seed: int) -> np.random.Generator:
    if global_seed == op_seed == 0:
        return np.random.default_rng()
    return np.random.default_rng([global_seed & (2**64 - 1), op_seed & (2**64 - 1)])


@operation("RandomUniform", opset=8)
class RandomUniform8(Operation):
    """Numbers evenly distributed from min (inclusive) to max (exclusive).

    Inputs: the output's shape, min and max (of ``output_type``, one element each). Where both seeds
    are 0 every call gives other numbers; otherwise every call gives the same ones, those of the
    first inference in OpenVINO.
    """

    inputs = (3, 3)
    deterministic = False
    output_type: ElementType = type_of_elements()
    op_seed: int = integer(default=0)
    global_seed: int = integer(default=0)
    alignment: str = enum("tensorflow", "pytorch", default="tensorflow")

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        return hull(inputs[1:])

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        shape, low, high = inputs
        for name, value in (("min", low), ("max", high)):
            if value.element_type not in (self.output_type, element_types.dynamic):
                raise InferenceError(f"{name} must be {self.output_type} as the output, but is {value.element_type}")
        a, b = low.constant, high.constant
        if a is not None and b is not None and a.reshape(-1)[0] >= b.reshape(-1)[0]:
            raise InferenceError(f"min must be less than max, but they are {a} and {b}")
        dims = target_dimensions(shape)
        return [TensorType(self.output_type, PartialShape(dims))]

    def evaluate(self, *inputs: Array) -> Array:
        shape = inputs[0].reshape(-1).tolist()
        low, high = inputs[1].reshape(-1)[0], inputs[2].reshape(-1)[0]
        dtype, count = self.output_type.dtype, int(np.prod(shape, dtype=np.int64))
        global_seed, op_seed = self.global_seed, self.op_seed
        if global_seed == op_seed == 0:
            global_seed = int(np.random.default_rng().integers(1, 2**63))
        if self.output_type.is_integral:
            wide = self.output_type.bits == 64
            bits = philox(2 * count if wide else count, global_seed, op_seed).astype(np.uint64)
            if wide:
                bits = bits[0::2] | (bits[1::2] << np.uint64(32))
            span = np.uint64(int(high) - int(low))
            return ((bits % span).astype(np.int64) + int(low)).astype(dtype).reshape(shape)
        bits = philox(count, global_seed, op_seed)
        # The upper bits of a number in [1, 2) whose fraction is random.
        unit = ((bits & np.uint32(0x7FFFFF)) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)
        wide_type: Any = np.float64 if dtype == np.float64 else np.float32
        scaled = unit.astype(wide_type) * (wide_type(high) - wide_type(low)) + wide_type(low)
        return scaled.astype(dtype).reshape(shape)


@operation("Multinomial", opset=13)
class Multinomial13(Operation):
    """Class numbers drawn by their weights, ``[batch, samples]``.

    Inputs: weights ``[batch, classes]`` (with ``log_probs`` their logarithms; they need not add up
    to 1) and the number of samples (one element).
    """

    inputs = (2, 2)
    deterministic = False
    value_range = positions
    convert_type: ElementType = type_of_elements(default=element_types.dynamic)
    with_replacement: bool = boolean(default=False)
    log_probs: bool = boolean(default=False)
    global_seed: int = integer(default=0)
    op_seed: int = integer(default=0)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        weights, count = inputs
        if weights.shape.has_rank and weights.shape.rank != 2:
            raise InferenceError(f"the weights must be a matrix, but have the shape {weights.shape}")
        constant = count.constant
        samples = DYNAMIC if constant is None else Dimension(*[int(constant.reshape(-1)[0])] * 2)
        batch = weights.shape[0] if weights.shape.has_rank else DYNAMIC
        classes = weights.shape[1] if weights.shape.has_rank else DYNAMIC
        if not self.with_replacement and samples.low > classes.high:
            raise InferenceError(f"{samples} samples cannot be drawn from {classes} classes without replacement")
        return [TensorType(self.convert_type, PartialShape([batch, samples]))]

    def evaluate(self, *inputs: Array) -> Array:
        weights, samples = inputs[0].astype(np.float64), int(inputs[1].reshape(-1)[0])
        if self.log_probs:
            weights = np.exp(weights - weights.max(axis=1, keepdims=True, initial=-np.inf))
        random = _generator(self.global_seed, self.op_seed)
        if not self.with_replacement:
            # The greatest of log(weight) + Gumbel noise, one after another, are such a sample.
            with np.errstate(divide="ignore"):
                scores = np.log(weights) + random.gumbel(size=weights.shape)
            return np.argsort(-scores, axis=1)[:, :samples].astype(self.convert_type.dtype)
        sums = np.cumsum(weights, axis=1)
        drawn = random.random((len(weights), samples)) * sums[:, -1:]
        drawn_indices = [np.searchsorted(row, values, "right") for row, values in zip(sums, drawn)]
        return np.array(drawn_indices, np.int64).reshape(len(weights), samples).astype(self.convert_type.dtype)
