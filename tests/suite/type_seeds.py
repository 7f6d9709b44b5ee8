"""Seeds for the operators that ONNX's node suite has no single node of, or none that suits every type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ir_runtime.graph.element_types import ElementType, from_dtype
from tests.suite.type_values import Value, fitted

Graphs = Callable[[Sequence[int], Mapping[str, ElementType]], dict[str, onnx.GraphProto]]


@dataclass(frozen=True)
class Seed:
    """A node with values for its inputs.

    ``graphs`` makes the attributes that are graphs, from the inputs' ONNX types and the type parameters.
    ``stored`` are the outputs, where the node suite has them. ``shapes`` are those of the outputs for
    versions whose inference does not give them. ``appended`` is inserted into the sequence that comes
    out, where that would be empty. ``formula`` computes the output of a dtype from the inputs,
    for operators that onnxruntime does not have.
    """

    name: str
    node: onnx.NodeProto
    values: tuple[Value, ...]
    graphs: Graphs | None = None
    stored: tuple[Any, ...] | None = None
    shapes: tuple[tuple[int, ...], ...] | None = None
    appended: np.ndarray | None = None
    formula: Callable[..., np.ndarray] | None = None


_FLOATS = np.array([[-2.0, -0.5, 1.0], [0.0, 3.0, 4.0]], np.float32)
_COUNT = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
_FRACTIONS = np.array([[0, 1, 2.5], [3, 5.75, 7]], np.float32)
_ONE = np.array(1, np.int64)


def _seed(
    op_type: str,
    *values: Value,
    outputs: int = 1,
    graphs: Graphs | None = None,
    shapes: tuple[tuple[int, ...], ...] | None = None,
    appended: np.ndarray | None = None,
    formula: Callable[..., np.ndarray] | None = None,
    **attributes: Any,
) -> Seed:
    names = [f"x{index}" if value is not None else "" for index, value in enumerate(values)]
    node = helper.make_node(op_type, names, [f"y{index}" for index in range(outputs)], **attributes)
    return Seed(f"{op_type} written by hand", node, values, graphs, shapes=shapes, appended=appended, formula=formula)


def _info(name: str, kind: int, shape: Sequence[int] | None = (2, 3)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _loop_body(kinds: Sequence[int], types: Mapping[str, ElementType]) -> dict[str, onnx.GraphProto]:
    """Carries a tensor on and collects it."""
    kind = kinds[2]
    nodes = [
        helper.make_node("Identity", ["condition"], ["condition_out"]),
        helper.make_node("Identity", ["carried"], ["carried_out"]),
        helper.make_node("Identity", ["carried"], ["collected"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [_info("number", TensorProto.INT64, ()), _info("condition", TensorProto.BOOL, ()), _info("carried", kind)],
        [_info("condition_out", TensorProto.BOOL, ()), _info("carried_out", kind), _info("collected", kind)],
    )
    return {"body": body}


def _scan_body(kinds: Sequence[int], types: Mapping[str, ElementType]) -> dict[str, onnx.GraphProto]:
    """The state becomes the slice, and what it was before is collected."""
    kinds = kinds[-2:]
    nodes = [
        helper.make_node("Identity", ["slice"], ["state_out"]),
        helper.make_node("Identity", ["state"], ["collected"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [_info("state", kinds[0], (3,)), _info("slice", kinds[1], (3,))],
        [_info("state_out", kinds[1], (3,)), _info("collected", kinds[0], (3,))],
    )
    return {"body": body}


def _map_body(kinds: Sequence[int], types: Mapping[str, ElementType]) -> dict[str, onnx.GraphProto]:
    body = helper.make_graph(
        [helper.make_node("Identity", ["item"], ["item_out"])],
        "body",
        [_info("item", kinds[0]), *(_info(f"further_{i}", kind) for i, kind in enumerate(kinds[1:]))],
        [_info("item_out", kinds[0])],
    )
    return {"body": body}


def _branches(kinds: Sequence[int], types: Mapping[str, ElementType]) -> dict[str, onnx.GraphProto]:
    def branch(name: str, values: np.ndarray) -> onnx.GraphProto:
        tensor = numpy_helper.from_array(fitted(values, types["V"]) if "V" in types else values)
        node = helper.make_node("Constant", [], [f"{name}_out"], value=tensor)
        return helper.make_graph([node], name, [], [_info(f"{name}_out", tensor.data_type)])

    return {"then_branch": branch("then", _COUNT), "else_branch": branch("else", _FLOATS)}


_GRID_DATA = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
_GRID = np.array([[[[-1, -1], [-0.25, 0.5]], [[0.25, 0.75], [1.5, 0.125]]]], np.float32)

# A type of every width.
_WIDTHS = (
    (ml_dtypes.uint2, TensorProto.UINT2),
    (ml_dtypes.uint4, TensorProto.UINT4),
    (np.uint8, TensorProto.UINT8),
    (np.int16, TensorProto.INT16),
    (np.int32, TensorProto.INT32),
    (np.int64, TensorProto.INT64),
)

_SEQUENCE = [_COUNT, _FLOATS, _COUNT + 3]


def _same_bits(dtype: np.dtype[Any], x: np.ndarray) -> np.ndarray:
    target = from_dtype(dtype)
    if target.bits >= 8:
        return x.view(dtype)
    codes = x.view(np.uint8) & ((1 << target.bits) - 1)
    if target.is_real:
        return codes.view(dtype)
    sign = 1 << (target.bits - 1) if target.is_signed else 0
    return ((codes ^ sign).astype(np.int8) - sign).astype(dtype)


def _product(dtype: np.dtype[Any], *values: np.ndarray) -> np.ndarray:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (value.astype(np.float64) for value in values)
    exact = ((a - a_zero) * a_scale) @ ((b - b_zero) * b_scale) / scale
    if dtype.kind not in "iu":
        return exact
    limits = np.iinfo(dtype)
    return np.clip(np.rint(exact) + zero, limits.min, limits.max)


_WRITTEN: dict[str, list[Seed]] = {
    "BitCast": [
        _seed("BitCast", np.arange(6).reshape(2, 3).astype(dtype), to=kind, formula=_same_bits)
        for dtype, kind in _WIDTHS
    ],
    "Cast": [_seed("Cast", values, to=TensorProto.FLOAT, shapes=((2, 3),)) for values in (_FRACTIONS, _COUNT)],
    "CastLike": [_seed("CastLike", values, np.zeros(1, np.float32)) for values in (_FRACTIONS, _COUNT)],
    "ConcatFromSequence": [_seed("ConcatFromSequence", _SEQUENCE, axis=1)],
    "GlobalLpPool": [
        _seed("GlobalLpPool", np.arange(12, dtype=np.float32).reshape(1, 2, 3, 2) / 4 - 1, shapes=((1, 2, 1, 1),))
    ],
    "GridSample": [_seed("GridSample", _GRID_DATA, _GRID), _seed("GridSample", _GRID_DATA, _GRID, mode="nearest")],
    "If": [_seed("If", np.array(True), graphs=_branches)],
    "Loop": [
        _seed("Loop", np.array(3), np.array(True), _COUNT, outputs=2, graphs=_loop_body, shapes=((2, 3), (3, 2, 3)))
    ],
    "MaxRoiPool": [
        _seed(
            "MaxRoiPool",
            np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6),
            np.array([[0, 0, 0, 3, 3], [0, 1, 2, 5, 5]], np.float32),
            pooled_shape=[2, 2],
        )
    ],
    "Multinomial": [_seed("Multinomial", np.log(_COUNT), sample_size=4, seed=1.0)],
    "Optional": [_seed("Optional", _COUNT)],
    "QLinearMatMul": [
        _seed(
            "QLinearMatMul",
            np.array([[1, 2, 3], [4, 0, 6]], np.uint8),
            np.array(0.5, np.float32),
            np.array(2, np.uint8),
            np.array([[2, 1], [5, 3], [1, 7]], np.uint8),
            np.array(0.25, np.float32),
            np.array(1, np.uint8),
            np.array(0.375, np.float32),
            np.array(3, np.uint8),
            formula=_product,
        )
    ],
    "RandomNormal": [_seed("RandomNormal", shape=[2, 3], seed=1.0)],
    "RandomNormalLike": [_seed("RandomNormalLike", _COUNT, seed=1.0, dtype=TensorProto.FLOAT)],
    "RandomUniform": [_seed("RandomUniform", shape=[2, 3], seed=1.0)],
    "RandomUniformLike": [_seed("RandomUniformLike", _COUNT, seed=1.0, dtype=TensorProto.FLOAT)],
    "Scan": [_seed("Scan", _COUNT[0], _FLOATS, outputs=2, graphs=_scan_body, num_scan_inputs=1)],
    "SequenceAt": [_seed("SequenceAt", _SEQUENCE, _ONE)],
    "SequenceConstruct": [_seed("SequenceConstruct", _COUNT, _FLOATS)],
    "SequenceEmpty": [_seed("SequenceEmpty", dtype=TensorProto.FLOAT, appended=_COUNT, shapes=((2, 3), ()))],
    "SequenceErase": [_seed("SequenceErase", _SEQUENCE, _ONE)],
    "SequenceInsert": [_seed("SequenceInsert", _SEQUENCE, _FLOATS + 1, _ONE)],
    "SequenceLength": [_seed("SequenceLength", _SEQUENCE)],
    "SequenceMap": [
        _seed("SequenceMap", _SEQUENCE, graphs=_map_body),
        _seed("SequenceMap", _SEQUENCE, _COUNT, graphs=_map_body),
    ],
}

_IMAGE = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4) / 4 - 1
_BOXES = np.array([[0, 0, 2, 2], [1, 0, 3, 2]], np.float32)
_STEPS = np.arange(-6, 6, dtype=np.float32).reshape(3, 2, 2) / 8
_LENGTHS = np.array([2, 3], np.int32)


def _weights(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 7 - 3) / 8


def _recurrent(op_type: str, gates: int) -> Seed:
    """Three steps of two sequences, of which one is shorter."""
    return _seed(
        op_type,
        _STEPS,
        _weights(1, gates * 3, 2),
        _weights(1, gates * 3, 3),
        None,
        _LENGTHS,
        outputs=2,
        hidden_size=3,
        shapes=((3, 1, 2, 3), (1, 2, 3)),
    )


def _normalized(dtype: np.dtype[Any], x: np.ndarray, *parameters: np.ndarray) -> np.ndarray:
    scale, bias, mean, variance = (p.astype(np.float64).reshape(-1, 1, 1) for p in parameters)
    return scale * (x - mean) / np.sqrt(variance + 1e-5) + bias


def _doubled(dtype: np.dtype[Any], x: np.ndarray) -> np.ndarray:
    return x.repeat(2, axis=2).repeat(2, axis=3)


def _tiled(dtype: np.dtype[Any], x: np.ndarray, tiles: np.ndarray, axis: np.ndarray) -> np.ndarray:
    return np.concatenate([x] * int(tiles), axis=int(axis))


# Seeds for what no case of the suite has: optional inputs, and forms of old versions.
_FURTHER: dict[str, list[Seed]] = {
    "BatchNormalization": [
        _seed(
            "BatchNormalization", _IMAGE, *(np.array([1, 2], np.float32),) * 4, consumed_inputs=[0, 0, 0, 1, 1],
            shapes=(_IMAGE.shape,), formula=_normalized,
        ),
    ],
    "DFT": [_seed("DFT", _COUNT.reshape(1, 6, 1), np.array(4), inverse=0, shapes=((1, 4, 2),))],
    "DepthToSpace": [_seed("DepthToSpace", np.arange(16, dtype=np.float32).reshape(1, 4, 2, 2), blocksize=2)],
    "DequantizeLinear": [
        _seed("DequantizeLinear", _COUNT.astype(np.int8), np.array(0.5, np.float32), output_dtype=TensorProto.FLOAT),
    ],
    "Dropout": [_seed("Dropout", _FLOATS, outputs=2)],
    "GRU": [_recurrent("GRU", 3)], "LSTM": [_recurrent("LSTM", 4)],
    "LpPool": [_seed("LpPool", _IMAGE, kernel_shape=[2, 2], p=2.0, shapes=((1, 2, 2, 3),))],
    "Pad": [_seed("Pad", _FLOATS, paddings=[0, 1, 1, 0], shapes=((3, 4),))],
    "QLinearConv": [
        _seed(
            "QLinearConv", np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4), np.array(0.5, np.float32),
            np.array(3, np.uint8), np.array([[[[1, 2], [3, 4]]]], np.uint8), np.array(0.25, np.float32),
            np.array(2, np.uint8), np.array(1.5, np.float32), np.array(1, np.uint8), np.array([8], np.int32),
        ),
    ],
    "RNN": [_recurrent("RNN", 1)],
    "Resize": [_seed("Resize", _IMAGE, np.array([1, 1, 2, 2], np.float32), shapes=((1, 2, 6, 8),))],
    "RoiAlign": [_seed("RoiAlign", _IMAGE, _BOXES, np.zeros(2, np.int64), output_height=2, output_width=2)],
    "Scan": [
        _seed(
            "Scan", None, _COUNT[:1], _FLOATS.reshape(1, 2, 3), outputs=2, graphs=_scan_body, num_scan_inputs=1,
            shapes=((1, 3), (1, 2, 3)),
        ),
        _seed(
            "Scan", np.array([2]), _COUNT[:1], _FLOATS.reshape(1, 2, 3), outputs=2, graphs=_scan_body,
            num_scan_inputs=1, shapes=((1, 3), (1, 2, 3)),
        ),
    ],
    "Tile": [_seed("Tile", _COUNT, np.array(2, np.float32), np.array(1, np.float32), shapes=((2, 6),), formula=_tiled)],
    "TopK": [_seed("TopK", _FLOATS, outputs=2, k=2, shapes=((2, 2), (2, 2)))],
    "Upsample": [
        _seed("Upsample", _IMAGE, height_scale=2.0, width_scale=2.0, shapes=((1, 2, 6, 8),), formula=_doubled),
    ],
}  # fmt: skip


def written(operator: str) -> list[Seed]:
    """The operator's seeds that take the place of the suite's."""
    return _WRITTEN.get(operator, [])


def further(operator: str) -> list[Seed]:
    """The operator's seeds that come after the suite's."""
    return _FURTHER.get(operator, [])
