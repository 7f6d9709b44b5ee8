"""Seeds for the operators that ONNX's node suite has no single node of, or none that suits every type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from converter.onnx_file.types import onnx_number
from ir_runtime.graph import Array, ElementType, element_types
from ir_runtime.graph.element_types import from_dtype

Value = Array | list[Array] | None
"""An input: a tensor, a sequence of tensors, or nothing."""
Graphs = Callable[[Sequence[int], Mapping[str, ElementType]], dict[str, onnx.GraphProto]]


@dataclass(frozen=True)
class Seed:
    """A node with values for its inputs."""

    name: str
    node: onnx.NodeProto
    values: tuple[Value, ...]
    graphs: Graphs | None = None
    """Makes the attributes that are graphs, from the inputs' ONNX types and the type parameters."""
    stored: tuple[Any, ...] | None = None
    """The outputs, where the node suite has them."""
    shapes: tuple[tuple[int, ...], ...] | None = None
    """Those of the outputs for versions whose inference does not give them."""
    appended: Array | None = None
    """What is inserted into the sequence that comes out, where that would be empty."""
    formula: Callable[..., Array] | None = None
    """Computes the output of a dtype from the inputs, for operators that onnxruntime does not have."""


# --- values of a tensor turned into those of another element type ---


def fitted(values: Array, kind: ElementType) -> Array:
    """Return values like these that the type has without overflow, and as different from each other."""
    if kind is from_dtype(values.dtype):
        return values
    if kind is element_types.string:
        return np.vectorize(lambda value: value if isinstance(value, str) else f"{value:g}", otypes="O")(values)
    if values.dtype.kind in "OU":
        return fitted(np.arange(values.size).reshape(values.shape), kind)
    numbers = np.nan_to_num(values.astype(np.float64), nan=1.0, posinf=8.0, neginf=-8.0)
    is_whole = bool((numbers == np.rint(numbers)).all())
    if kind is element_types.boolean:
        if (numbers < 0).any():
            return numbers > 0
        return np.rint(numbers) % 2 == 1 if is_whole else numbers > np.median(numbers)
    if kind.is_integral:
        if values.dtype.kind in "iu" and kind.bits >= 16 and (numbers == numbers.astype(kind.dtype)).all():
            return values.astype(kind.dtype)
        whole = np.rint(numbers if is_whole else 3 * numbers)
        # Few enough bits for sums and products of a few values.
        limit = {2: 4, 4: 8 if kind.is_signed else 16, 8: 32}.get(kind.bits, 1024)
        return np.fmod(whole if kind.is_signed else np.abs(whole), limit).astype(np.int64).astype(kind.dtype)
    if kind is element_types.f8e8m0:
        return np.exp2(np.clip(np.rint(np.log2(np.abs(numbers) + 2.0**-9)), -8, 7)).astype(kind.dtype)
    limit = {4: 6.0, 8: 16.0, 16: 2048.0}.get(kind.bits, np.inf)
    greatest = np.abs(numbers).max(initial=0.0)
    return (numbers * (limit / greatest) if greatest > limit else numbers).astype(kind.dtype)


def retyped(value: Value, kind: ElementType) -> Value:
    if isinstance(value, list):
        return [np.asarray(fitted(item, kind)) for item in value]
    return None if value is None else np.asarray(fitted(value, kind))


def number_of(value: Value) -> int:
    """ONNX's number for the value's type; of a sequence that of its elements, 0 of nothing."""
    first = value[0] if isinstance(value, list) else value
    return 0 if first is None else onnx_number(from_dtype(first.dtype))


# --- seeds ---


def _seed(op_type: str, *values: Value, outputs: int = 1, **more: Any) -> Seed:
    of_seed = {name: more.pop(name) for name in ("graphs", "shapes", "appended", "formula") if name in more}
    names = [f"x{index}" if value is not None else "" for index, value in enumerate(values)]
    node = helper.make_node(op_type, names, [f"y{index}" for index in range(outputs)], **more)
    return Seed(f"{op_type} written by hand", node, values, **of_seed)


def _body(moved: str, **inputs: tuple[int, tuple[int, ...]]) -> dict[str, onnx.GraphProto]:
    """A body that hands its inputs on: ``a>b`` is input a under the name b."""
    pairs = [pair.split(">") for pair in moved.split()]
    nodes = [helper.make_node("Identity", [before], [after]) for before, after in pairs]
    infos = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
    outputs = [helper.make_tensor_value_info(after, *inputs[before]) for before, after in pairs]
    return {"body": helper.make_graph(nodes, "body", infos, outputs)}


def _loop(kinds: Sequence[int], types: Mapping[str, ElementType]) -> dict[str, onnx.GraphProto]:
    """Carries a tensor on and collects it."""
    moved = "condition>condition_out carried>carried_out carried>collected"
    return _body(moved, number=(TensorProto.INT64, ()), condition=(TensorProto.BOOL, ()), carried=(kinds[2], (2, 3)))


def _scan(kinds: Sequence[int], types: Mapping[str, ElementType]) -> dict[str, onnx.GraphProto]:
    """The state becomes the slice, and what it was before is collected."""
    return _body("slice>state_out state>collected", state=(kinds[-2], (3,)), slice=(kinds[-1], (3,)))


def _map(kinds: Sequence[int], types: Mapping[str, ElementType]) -> dict[str, onnx.GraphProto]:
    others = {f"further_{index}": (kind, (2, 3)) for index, kind in enumerate(kinds[1:])}
    return _body("item>item_out", item=(kinds[0], (2, 3)), **others)


def _branches(kinds: Sequence[int], types: Mapping[str, ElementType]) -> dict[str, onnx.GraphProto]:
    def branch(name: str, values: Array) -> onnx.GraphProto:
        tensor = numpy_helper.from_array(fitted(values, types["V"]) if "V" in types else values)
        node = helper.make_node("Constant", [], [f"{name}_out"], value=tensor)
        output = helper.make_tensor_value_info(f"{name}_out", tensor.data_type, (2, 3))
        return helper.make_graph([node], name, [], [output])

    return {"then_branch": branch("then", _COUNT), "else_branch": branch("else", _FLOATS)}


def _product(dtype: np.dtype[Any], *values: Array) -> Array:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (value.astype(np.float64) for value in values)
    exact = ((a - a_zero) * a_scale) @ ((b - b_zero) * b_scale) / scale
    if dtype.kind not in "iu":
        return exact
    limits = np.iinfo(dtype)
    return np.clip(np.rint(exact) + zero, limits.min, limits.max)


def _normalized(dtype: np.dtype[Any], x: Array, *parameters: Array) -> Array:
    scale, bias, mean, variance = (p.astype(np.float64).reshape(-1, 1, 1) for p in parameters)
    return scale * (x - mean) / np.sqrt(variance + 1e-5) + bias


def _tiled(dtype: np.dtype[Any], x: Array, tiles: Array, axis: Array) -> Array:
    return np.concatenate([x] * int(tiles), axis=int(axis))


def _recurrent(op_type: str, gates: int) -> Seed:
    """Three steps of two sequences, of which one is shorter."""
    weights = [np.arange(gates * 3 * size, dtype=np.float32).reshape(1, -1, size) % 7 / 8 - 0.375 for size in (2, 3)]
    steps, shapes = np.arange(-6, 6, dtype=np.float32).reshape(3, 2, 2) / 8, ((3, 1, 2, 3), (1, 2, 3))
    return _seed(op_type, steps, *weights, None, np.array([2, 3], np.int32), outputs=2, hidden_size=3, shapes=shapes)


_FLOATS = np.array([[-2.0, -0.5, 1.0], [0.0, 3.0, 4.0]], np.float32)
_COUNT = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
_FRACTIONS = np.array([[0, 1, 2.5], [3, 5.75, 7]], np.float32)
_SEQUENCE = [_COUNT, _FLOATS, _COUNT + 3]
_ONE, _HALF, _QUARTER = np.array(1, np.int64), np.array(0.5, np.float32), np.array(0.25, np.float32)
_IMAGE = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4) / 4 - 1
_GRIDS = (np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4),
          np.array([[[[-1, -1], [-0.25, 0.5]], [[0.25, 0.75], [1.5, 0.125]]]], np.float32))  # fmt: skip
_BATCH = (_COUNT[:1], _FLOATS.reshape(1, 2, 3))
_SCANNED: dict[str, Any] = {"outputs": 2, "graphs": _scan, "num_scan_inputs": 1}
_WIDTHS = ("uint2", "uint4", "uint8", "int16", "int32", "int64")


def bytes_(*values: int) -> Array:
    return np.array(values, np.uint8)


_INSTEAD = [
    *(_seed("BitCast", np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, kind, kind)),
            to=getattr(TensorProto, kind.upper())) for kind in _WIDTHS),
    *(_seed("Cast", values, to=TensorProto.FLOAT, shapes=((2, 3),)) for values in (_FRACTIONS, _COUNT)),
    *(_seed("CastLike", values, np.zeros(1, np.float32)) for values in (_FRACTIONS, _COUNT)),
    _seed("ConcatFromSequence", _SEQUENCE, axis=1),
    _seed("GlobalLpPool", np.arange(12, dtype=np.float32).reshape(1, 2, 3, 2) / 4 - 1, shapes=((1, 2, 1, 1),)),
    _seed("GridSample", *_GRIDS), _seed("GridSample", *_GRIDS, mode="nearest"),
    _seed("If", np.array(True), graphs=_branches),
    _seed("Loop", np.array(3), np.array(True), _COUNT, outputs=2, graphs=_loop, shapes=((2, 3), (3, 2, 3))),
    _seed("MaxRoiPool", np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6),
          np.array([[0, 0, 0, 3, 3], [0, 1, 2, 5, 5]], np.float32), pooled_shape=[2, 2]),
    _seed("Multinomial", np.log(_COUNT), sample_size=4, seed=1.0),
    _seed("Optional", _COUNT),
    _seed("QLinearMatMul", bytes_(1, 2, 3, 4, 0, 6).reshape(2, 3), _HALF, np.array(2, np.uint8),
          bytes_(2, 1, 5, 3, 1, 7).reshape(3, 2), _QUARTER, np.array(1, np.uint8), np.array(0.375, np.float32),
          np.array(3, np.uint8), formula=_product),
    *(_seed(name, shape=[2, 3], seed=1.0) for name in ("RandomNormal", "RandomUniform")),
    *(_seed(f"{name}Like", _COUNT, seed=1.0, dtype=TensorProto.FLOAT) for name in ("RandomNormal", "RandomUniform")),
    _seed("Scan", _COUNT[0], _FLOATS, **_SCANNED),
    _seed("SequenceAt", _SEQUENCE, _ONE),
    _seed("SequenceConstruct", _COUNT, _FLOATS),
    _seed("SequenceEmpty", dtype=TensorProto.FLOAT, appended=_COUNT, shapes=((2, 3), ())),
    _seed("SequenceErase", _SEQUENCE, _ONE),
    _seed("SequenceInsert", _SEQUENCE, _FLOATS + 1, _ONE),
    _seed("SequenceLength", _SEQUENCE),
    _seed("SequenceMap", _SEQUENCE, graphs=_map), _seed("SequenceMap", _SEQUENCE, _COUNT, graphs=_map),
]  # fmt: skip
_FURTHER = [
    _seed("BatchNormalization", _IMAGE, *(np.array([1, 2], np.float32),) * 4, consumed_inputs=[0, 0, 0, 1, 1],
          shapes=(_IMAGE.shape,), formula=_normalized),
    _seed("DFT", _COUNT.reshape(1, 6, 1), np.array(4), inverse=0, shapes=((1, 4, 2),)),
    _seed("DepthToSpace", np.arange(16, dtype=np.float32).reshape(1, 4, 2, 2), blocksize=2),
    _seed("DequantizeLinear", _COUNT.astype(np.int8), _HALF, output_dtype=TensorProto.FLOAT),
    _seed("Dropout", _FLOATS, outputs=2),
    _recurrent("GRU", 3), _recurrent("LSTM", 4), _recurrent("RNN", 1),
    _seed("LpPool", _IMAGE, kernel_shape=[2, 2], p=2.0, shapes=((1, 2, 2, 3),)),
    _seed("Pad", _FLOATS, paddings=[0, 1, 1, 0], shapes=((3, 4),)),
    _seed("QLinearConv", np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4), _HALF, np.array(3, np.uint8),
          bytes_(1, 2, 3, 4).reshape(1, 1, 2, 2), _QUARTER, np.array(2, np.uint8), np.array(1.5, np.float32),
          np.array(1, np.uint8), np.array([8], np.int32)),
    _seed("Resize", _IMAGE, np.array([1, 1, 2, 2], np.float32), shapes=((1, 2, 6, 8),)),
    _seed("RoiAlign", _IMAGE, np.array([[0, 0, 2, 2], [1, 0, 3, 2]], np.float32), np.zeros(2, np.int64),
          output_height=2, output_width=2),
    *(_seed("Scan", lengths, *_BATCH, **_SCANNED, shapes=((1, 3), (1, 2, 3))) for lengths in (None, np.array([2]))),
    _seed("Tile", _COUNT, np.array(2, np.float32), np.array(1, np.float32), shapes=((2, 6),), formula=_tiled),
    _seed("TopK", _FLOATS, outputs=2, k=2, shapes=((2, 2), (2, 2))),
    _seed("Upsample", _IMAGE, height_scale=2.0, width_scale=2.0, shapes=((1, 2, 6, 8),),
          formula=lambda dtype, x: x.repeat(2, axis=2).repeat(2, axis=3)),
]  # fmt: skip
"""Seeds for what no case of the suite has: optional inputs, and forms of old versions."""


def around(operator: str, of_suite: Sequence[Seed]) -> list[Seed]:
    """The operator's seeds, the most suitable ones first."""
    before, after = ([seed for seed in seeds if seed.node.op_type == operator] for seeds in (_INSTEAD, _FURTHER))
    return [*before, *of_suite, *after]
