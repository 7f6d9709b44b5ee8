"""Texts as bytes: StringTensorPack and StringTensorUnpack.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/type/string-tensor-unpack-15.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import DYNAMIC, Array, PartialShape, element_types
from ir_runtime.graph.operation import Operation, TensorType, operation
from ir_runtime.graph.shapes import require_rank

from .elementwise import merge_types


@operation("StringTensorPack", opset=15)
class StringTensorPack15(Operation):
    """Texts out of bytes.

    Inputs: where each text begins and ends (of any shape, i32 or i64, in ascending order), and the
    bytes ``[k]`` of them all (u8), which are UTF-8. The output has the shape of the first two.
    """

    inputs = (3, 3)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        begins, ends, symbols = inputs
        element_type = merge_types([begins, ends])
        if element_type not in (element_types.i32, element_types.i64, element_types.dynamic):
            raise InferenceError(f"begins and ends must be i32 or i64, but are {element_type}")
        if symbols.element_type not in (element_types.u8, element_types.dynamic):
            raise InferenceError(f"the bytes must be u8, but are {symbols.element_type}")
        require_rank("the bytes", symbols.shape, 1)
        shape = begins.shape.merge(ends.shape)
        if shape is None:
            raise InferenceError(f"begins and ends must have one shape, but have {begins.shape} and {ends.shape}")
        if begins.constant is not None and ends.constant is not None and symbols.shape.element_count().is_static:
            _check_places(begins.constant, ends.constant, symbols.shape.element_count().value)
        return [TensorType(element_types.string, shape)]

    def evaluate(self, *inputs: Array) -> Array:
        begins, ends, symbols = inputs
        _check_places(begins, ends, symbols.size)
        data = symbols.tobytes()
        texts = np.empty(begins.shape, np.object_)
        places = zip(begins.reshape(-1).tolist(), ends.reshape(-1).tolist())
        texts.reshape(-1)[:] = [data[begin:end].decode() for begin, end in places]
        return texts


def _check_places(begins: Array, ends: Array, size: int) -> None:
    first, last = begins.reshape(-1), ends.reshape(-1)
    rising = (first[1:] >= first[:-1]).all() and (last[1:] >= last[:-1]).all()
    if not rising or (first < 0).any() or (last < first).any() or (last > size).any():
        raise InferenceError(
            f"the texts must lie in {size} bytes in ascending order, but begin at {first[:8].tolist()} "
            f"and end at {last[:8].tolist()}"
        )


@operation("StringTensorUnpack", opset=15)
class StringTensorUnpack15(Operation):
    """Bytes out of texts: where each begins and ends (i32, in the texts' shape), and the bytes (u8) of all."""

    inputs = (1, 1)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        (texts,) = inputs
        if texts.element_type not in (element_types.string, element_types.dynamic):
            raise InferenceError(f"the input must hold texts, but is {texts.element_type}")
        places = TensorType(element_types.i32, texts.shape)
        return [places, places, TensorType(element_types.u8, PartialShape([DYNAMIC]))]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        parts = [text if isinstance(text, bytes) else str(text).encode() for text in inputs[0].reshape(-1).tolist()]
        edges = np.cumsum([0, *map(len, parts)]).astype(np.int32)
        shape = inputs[0].shape
        return edges[:-1].reshape(shape), edges[1:].reshape(shape), np.frombuffer(b"".join(parts), np.uint8)
