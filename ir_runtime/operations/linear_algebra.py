"""Inverse of square matrices.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/matrix/inverse-14.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array
from ir_runtime.graph.operation import Operation, TensorType, boolean, operation


@operation("Inverse", opset=14)
class Inverse14(Operation):
    """The inverse matrices ``[..., M, M]``, with ``adjoint`` transposed; NaN where there is none."""

    inputs = (1, 1)
    adjoint: bool = boolean(default=False)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        shape = inputs[0].shape
        if shape.has_rank and (shape.rank < 2 or shape[-1].merge(shape[-2]) is None):
            raise InferenceError(f"the matrices must be square, but the shape is {shape}")
        return [TensorType(inputs[0].element_type, shape)]

    def evaluate(self, *inputs: Array) -> Array:
        matrices = inputs[0].astype(np.float64)
        if self.adjoint:
            matrices = np.swapaxes(matrices, -1, -2)
        flat = matrices.reshape(-1, *matrices.shape[-2:])
        out = np.full_like(flat, np.nan)
        for target, matrix in zip(out, flat):
            if np.linalg.det(matrix) != 0:
                target[:] = np.linalg.inv(matrix)
        return out.reshape(matrices.shape).astype(inputs[0].dtype)
