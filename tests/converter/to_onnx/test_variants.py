"""Calls beyond the usual ones: other types, other ranks, arguments that are computed, earlier opsets."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest

from converter import UnsupportedModelError, export_model
from converter.to_onnx.registry import REFUSALS, all_exporters, find_exporter
from ir_runtime.graph.model import Model
from ir_runtime.graph.operation import all_operations
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.inputs_outputs import Const1, Result1
from tests.converter.optimization.models import floats
from tests.converter.to_onnx.graphs import (
    IR,
    check,
    compare_outputs,
    constant,
    layer,
    model_of,
    model_of_branches,
    op,
    parameter,
    run_exported,
)
from tests.converter.to_onnx.graphs import model as one_layer
from tests.rows.layer import Layer, flags, ints, layers, normal, one, uniform, whole
from tests.rows.row import each
from tests.rows.table import layer_table


@dataclass(frozen=True)
class Row:
    call: Layer
    computed: Collection[int] = ()
    opset: int | None = None

    @property
    def label(self) -> str:
        return f"{self.call.label[:60]} {self.computed} {self.opset}"


def _rows(
    name: str, opset: int, *inputs: Any, computed: Collection[int] = (), at: int | None = None, **attributes: Any
) -> list[Row]:
    return [Row(call, computed, at) for call in layers(name, opset, *inputs, **attributes)]


_SIZES: dict[str, Any] = {"strides": (2, 1), "dilations": (1, 2), "pads_begin": (1, 0), "pads_end": (0, 1)}

_MASK = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 0, 1], [1, 1, 1], [1, 1, 1]], np.float16)
_STEPS = np.array([6, 5, 3, 4, 2], np.int32)
_LABELS = np.array(
    [[0, 0, 1, 0, 9, 9], [2, 1, 2, 2, 1, 0], [1, 1, 1, -1, -1, -1], [-1] * 6, [0, 2, 0, 0, 0, 0]], np.int32
)
_COUNTS = np.array([4, 5, 3, 0, 2], np.int32)
"""Labels: some that repeat, too many for their steps, none."""

_MATRICES = np.array(
    [[[0, 2, 1], [1, 0, 0], [0, 0, 4]], [[1, 2, 3], [2, 4, 6], [0, 1, 5]], [[2, 0, 0], [0, 3, 1], [0, 9, 1]]],
    np.float32,
)
"""One that needs rows swapped, one without an inverse, one with a larger pivot below."""
_PLACES = np.array([[3, 2], [0, 1], [3, 0], [0, 0]])
_WIDE_PLANE = uniform(0, 255, 1, 12, 4, 1, dtype=np.float64)


def _ends(kind: str) -> np.ndarray:
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    return np.array([least, most, 0, 1, most // 3, most - 1], kind)


def _in_older_opsets() -> Iterator[Row]:
    """Bits, elements that are updated several times, and shapes with zeros, which older opsets spell out."""
    for kind, at in product("bhilBHIL", (13, 17, 18)):
        for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
            yield from _rows(name, 13, _ends(kind)[:, None], _ends(kind), computed=(1,), at=at)
        yield from _rows("BitwiseNot", 13, _ends(kind), at=at)
    kinds = ((np.int32, 13), (np.int64, 13), (np.int64, 16), (np.int8, 16), (np.float16, 13), (np.int64, 18))
    for (kind, at), size, axis in product(kinds, ((5, 6), (0, 6)), (0, -1)):
        inputs = (whole(0, 5, 6, 7, dtype=kind), whole(-3, 3, *size), whole(0, 5, *size, dtype=kind), one(axis))
        how = {"reduction": each("sum", "prod", "min", "max", "mean"), "use_init_val": each(True, False)}
        yield from _rows("ScatterElementsUpdate", 12, *inputs, computed=(1, 2), at=at, **how)
    for at, axis, reduction in product((13, 18), (0, -1), ("sum", "prod", "min", "max")):
        inputs = (flags(6, 7), whole(-3, 3, 5, 6), flags(5, 6), one(axis))
        how = {"reduction": reduction, "use_init_val": each(True, False)}
        yield from _rows("ScatterElementsUpdate", 12, *inputs, computed=(1,), at=at, **how)
    for at, kind, size in product((13, 16, 18), (np.float32, np.float16, np.uint8), ((4, 1), (2, 3, 2), (2, 3), (3,))):
        updates = whole(0, 5, *size[:-1], *(3, 4, 2)[size[-1] :], dtype=kind)
        inputs = (whole(0, 5, 3, 4, 2, dtype=kind), whole(0, 2, *size), updates)
        how = {"reduction": each("sum", "sub", "prod", "min", "max"), "shaped": (1,)}
        yield from _rows("ScatterNDUpdate", 15, *inputs, computed=(1, 2), at=at, **how)
    for at, (size, target) in product((13, 14), (
        ((2, 6), [3, 4]), ((2, 6), [12]), ((2, 6), [3, -1]), ((3, 0), [0, 0]), ((3, 0), [0, 3]), ((0, 3), [5, 0]),
        ((3, 0), [2, 0, 7]), ((0, 3), [0]), ((2, 0), [0, 1, 0, 4]))):  # fmt: skip
        inputs, how = (normal(*size), ints(*target)), {"special_zero": False, "shaped": (1,)}
        yield from _rows("Reshape", 1, *inputs, computed=(1,), at=at, **how)
    for data in (normal(3, 0), whole(0, 2, 3, 0), flags(3, 0)):
        yield from _rows("Reshape", 1, data, ints(0, 4), at=13, special_zero=False)


ROWS = [
    *_in_older_opsets(),
    *_rows("DFT", 7, normal(8, 2), ints(0)),
    *_rows("DFT", 7, normal(3, 8, 2, dtype=np.float64), ints(0, 1), ints(-1, 5), computed=(2,)),
    *_rows("DFT", 7, normal(3, 8, 2, dtype=np.float16), ints(1), at=20),
    *_rows("RDFT", 9, normal(8), ints(-1)),
    *_rows("RDFT", 9, normal(3, 8), ints(0, 1), ints(5, -1), computed=(2,)),
    *_rows("IRDFT", 9, normal(5, 2), ints(0)),
    *_rows("IRDFT", 9, normal(3, 5, 2), ints(0, 1), ints(4, -1), computed=(2,)),
    *_rows("IRDFT", 9, normal(3, 5, 2), ints(1), ints(7), computed=(2,), at=20),
    *_rows("STFT", 15, normal(2, 20, dtype=np.float64), normal(5, dtype=np.float64), one(8), one(3), computed=(2, 3)),
    *_rows("ISTFT", 16, normal(5, 4, 2), normal(6), one(8), one(3), computed=(2,), center=True, normalized=True),
    *_rows("ISTFT", 16, normal(2, 5, 4, 2), normal(6), one(8), one(3), one(-1), computed=(2, 4), center=True),
    *_rows("ISTFT", 16, normal(2, 5, 4, 2), normal(6), one(8), one(3), one(40), computed=(2, 3, 4)),
    *_rows("ISTFT", 16, normal(2, 5, 4, 2, dtype=np.float64), normal(6, dtype=np.float64), one(8), one(3), at=17),
    *_rows("Col2Im", 15, normal(2, 12, 12), ints(5, 7), ints(2, 3), **_SIZES),
    *_rows("Col2Im", 15, normal(2, 12, 12, dtype=np.float64), ints(5, 7), ints(2, 3), **_SIZES),
    *_rows("Col2Im", 15, whole(-(10**9), 10**9, 12, 12, dtype=np.int32), ints(5, 7), ints(2, 3), **_SIZES),
    *_rows("Col2Im", 15, normal(2, 12, 12), ints(5, 7), ints(2, 3), computed=(1, 2), **_SIZES),
    *_rows("ExtractImagePatches", 3, whole(0, 99, 1, 2, 7, 5), sizes=(3, 2), strides=(2, 3), rates=(2, 1),
           auto_pad="valid"),
    *_rows("EmbeddingBagOffsets", 15, normal(5, 2, 3), ints(0, 2, 4, 1), ints(0, 1, 1), one(2), computed=(1, 2, 3)),
    *_rows("EmbeddingBagOffsets", 15, normal(5, 3), ints(0, 2, 4, 1), ints(0, 1, 1), one(-1), computed=(3,)),
    *_rows("EmbeddingBagOffsets", 15, normal(5, dtype=np.float16), ints(0, 2), ints(0, 1, 1), one(3), reduction="mean"),
    *_rows("EmbeddingBagOffsetsSum", 3, whole(-(2**40), 2**40, 5, 3), ints(0, 2, 4, 1), ints(0, 1, 1)),
    *_rows("EmbeddingBagPacked", 15, normal(5, 2, 3), whole(0, 5, 2, 3), normal(2, 3), reduction="mean"),
    *_rows("EmbeddingSegmentsSum", 3, normal(5, 3), ints(0, 2, 1), ints(0, 0, 2), one(4), one(1), computed=(1, 2, 3, 4)),
    *_rows("SegmentMax", 16, normal(4, 2, 2, dtype=np.float64), ints(0, 2, 2, 3), one(6), computed=(1, 2),
           fill_mode="lowest"),
    *_rows("SegmentMax", 16, normal(4, dtype=np.float16), ints(1, 2, 2, 3), computed=(1,), fill_mode="lowest"),
    *_rows("SegmentMax", 16, whole(-9, 9, 4, 2, dtype=np.int32), ints(1, 2, 2, 3), fill_mode="lowest"),
    *_rows("SegmentMax", 16, whole(-9, 9, 4, 2, dtype=np.int8), ints(1, 2, 2, 3), one(2), fill_mode="zero"),
    *_rows("GatherTree", 1, whole(0, 9, 5, 2, 3, dtype=np.int32), whole(0, 3, 5, 2, 3, dtype=np.int32),
           ints(3, 9, dtype=np.int32), one(8, np.int32), computed=(1, 2, 3)),
    *_rows("GatherTree", 1, (lambda random: random.integers(0, 9, (5, 2, 3)).astype(np.float32)),
           (lambda random: random.integers(0, 3, (5, 2, 3)).astype(np.float32)), np.array([5, 4], np.float32),
           np.array(8, np.float32)),
    *_rows("CTCGreedyDecoder", 1, normal(6, 3, 2, dtype=np.float16), _MASK, ctc_merge_repeated=True),
    *_rows("CTCGreedyDecoderSeqLen", 6, normal(3, 7, 2), ints(7, 0, 4), ints(1), computed=(1, 2)),
    *_rows("CTCLoss", 4, normal(5, 6, 4), _STEPS, _LABELS, _COUNTS, computed=(1, 2, 3), ctc_merge_repeated=True),
    *_rows("CTCLoss", 4, normal(5, 6, 4, dtype=np.float64), _STEPS, _LABELS, _COUNTS, one(3), computed=(4,)),
    *_rows("CTCLoss", 4, normal(5, 6, 4), _STEPS, _LABELS, _COUNTS, unique=True, ctc_merge_repeated=True),
    *_rows("CTCLoss", 4, normal(5, 6, 4), _STEPS, _LABELS, _COUNTS, preprocess_collapse_repeated=True),
    *_rows("CTCLoss", 4, normal(5, 6, 4, dtype=np.float16), _STEPS, _LABELS, _COUNTS, ctc_merge_repeated=True),
    *_rows("NV12toRGB", 8, _WIDE_PLANE),
    *_rows("I420toBGR", 8, _WIDE_PLANE),
    *_rows("NV12toBGR", 8, uniform(0, 255, 1, 4, 2, 1, dtype=np.float16), uniform(0, 255, 1, 2, 1, 2, dtype=np.float16)),
    *_rows("I420toRGB", 8, *[whole(0, 256, 1, size, size, 1, dtype=np.uint8) for size in (8, 4, 4)]),
    *_rows("RGBtoNV12", 17, whole(0, 256, 1, 16, 16, 3, dtype=np.uint8), single_plane=False),
    *_rows("BGRtoNV12", 17, uniform(-9, 300, 1, 2, 4, 3, dtype=np.float64), single_plane=True),
    *_rows("ErfInv", 17, np.array([-1.5, -1, -1 + 1e-7, -0.9999, -0.86, -0.0, 0.5, 0.84, 0.999, 1, np.nan], np.float32)),
    *_rows("ErfInv", 17, np.array([-1, 1e-12 - 1, -0.85, 0.1, 1 - 1e-15, 1.1])),
    *_rows("ErfInv", 17, uniform(-1, 1, 9, dtype=np.float16)),
    *_rows("Inverse", 14, _MATRICES),
    *_rows("Inverse", 14, normal(2, 1, 5, 5, dtype=np.float64), adjoint=True),
    *_rows("Inverse", 14, normal(4, 1, 1, dtype=np.float16)),
    *_rows("SparseFillEmptyRows", 16, normal(4), ints(5, 3), _PLACES, one(7, np.float32), computed=(1, 2)),
    *_rows("SparseFillEmptyRows", 16, whole(1, 9, 4), ints(4, 3, dtype=np.int32), _PLACES.astype(np.int32), one(7)),
    *_rows("StringTensorPack", 15, ints(0, 3), ints(3, 5), np.frombuffer("aäö".encode(), np.uint8), fixed=(0, 1, 2)),
    *_rows("GroupedMatMul", 17, normal(6, 4), normal(3, 5, 4), ints(0, 2, 2), computed=(2,)),
    *_rows("GroupedMatMul", 17, normal(6, 4, dtype=np.float16), normal(3, 5, 4, dtype=np.float16), ints(1, 2, 6)),
    *_rows("GroupedMatMul", 17, whole(-5, 5, 3, 2, 4), whole(-5, 5, 3, 5, 4)),
]  # fmt: skip


@pytest.mark.parametrize("form", ["static", "dynamic", "in a body"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_onnxruntime_computes_what_the_layer_computes(row: Row, form: str) -> None:
    if form == "in a body":
        model, feeds = model_of_branches(row.call, computed=row.computed)
    else:
        model, feeds = model_of(row.call, dynamic=form == "dynamic", computed=row.computed)
    exported = export_model(model, opset=row.opset)
    onnx.checker.check_model(exported, full_check=True)
    compare_outputs(row.call, run_exported(exported, feeds))


@pytest.mark.parametrize("rounding", ["ceil", "ceil_torch"])
@pytest.mark.parametrize("height", [None, 7])
@pytest.mark.parametrize(
    ("name", "opset", "options"),
    [
        ("MaxPool", 14, {"kernel": (2, 3), "strides": (3, 2), "pads_end": (1, 2)}),
        ("MaxPool", 14, {"kernel": (2, 2), "strides": (1, 2), "pads_begin": (1, 0), "dilations": (2, 1)}),
        ("AvgPool", 14, {"kernel": (3, 2), "strides": (2, 2), "pads_end": (2, 1), "exclude_pad": True}),
        ("AvgPool", 14, {"kernel": (2, 2), "strides": (2, 3), "pads_begin": (1, 1), "exclude_pad": True}),
    ],
    ids=str,
)
def test_windows_that_are_rounded_up_along_dynamic_dimensions(
    name: str, opset: int, options: dict[str, Any], height: int | None, rounding: str
) -> None:
    axes = {"pads_begin": (0, 0), "pads_end": (0, 0), "rounding_type": rounding}
    x = parameter("x", None, 2, height, None)
    ir = one_layer([x], {"y": layer(op(name, opset, **{**axes, **options}), x, name="pool")})
    for width in range(4, 10):
        check(ir, {"x": floats(1, 2, height or width - 1, width)})


def test_a_window_that_is_left_out_along_a_known_dimension_is_refused_beside_a_dynamic_one() -> None:
    """onnx infers three windows along the height, and onnxruntime computes two."""
    x = parameter("x", 1, 2, 6, None)
    sizes = {"kernel": (2, 2), "strides": (3, 3), "pads_begin": (0, 0), "pads_end": (1, 1)}
    ceil = op("MaxPool", 14, **sizes, rounding_type="ceil_torch")
    with pytest.raises(UnsupportedModelError, match="needs data whose dimensions are all known"):
        export_model(one_layer([x], {"y": layer(ceil, x, name="pool")}))


@pytest.mark.parametrize("dilations", [(1, 1), (2, 1)])
@pytest.mark.parametrize("auto_pad", ["explicit", "same_upper", "same_lower"])
@pytest.mark.parametrize("target", ["constant", "computed", "as many as strides"])
@pytest.mark.parametrize(("groups", "strides"), [(1, (2, 3)), (1, (2, 2)), (2, (2, 2))])
def test_transposed_convolutions_of_dynamic_data_to_a_shape(
    groups: int, strides: tuple[int, int], target: str, auto_pad: str, dilations: tuple[int, int]
) -> None:
    b, x, inputs = IR(), parameter("x", None, 4, None, None), []
    weights = constant(floats(*((2, 2, 3, 3, 2) if groups > 1 else (4, 3, 3, 2))))
    if target == "constant":
        shape = constant([7, 4], "i64")
    elif target == "computed":
        inputs.append(shape := parameter("shape", 2, kind="i64"))
    else:
        shape = b.Multiply(b.Gather(b.ShapeOf(x, output_type="i64"), [2, 3], 0), strides)
    begins = (1, 0) if auto_pad == "explicit" else (0, 0)
    pads = {"auto_pad": auto_pad, "pads_begin": begins, "pads_end": (0, 0)}
    name = "GroupConvolutionBackpropData" if groups > 1 else "ConvolutionBackpropData"
    transposed = op(name, 1, strides=strides, dilations=dilations, output_padding=(0, 0), **pads)
    ir = one_layer([x, *inputs], {"y": layer(transposed, x, weights, shape, name="deconvolution")})
    exported = export_model(ir)
    is_one = auto_pad != "explicit" and target != "computed" and not (target != "constant" and strides == (2, 3))
    assert ([node.op_type for node in exported.graph.node].count("Slice") == 0) == is_one
    # onnxruntime refuses an output_shape that the windows do not reach; the layers that cut at run time pad with zeros.
    for height, width in ((3, 2), (4, 3)) if target == "constant" and auto_pad != "explicit" else ((3, 2), (2, 1)):
        check(ir, {"x": floats(1, 4, height, width), **({"shape": np.array([2 * height + 1, 5])} if inputs else {})})


def test_bytes_that_are_no_text() -> None:
    (call,) = layers("StringTensorPack", 15, ints(0, 2), ints(2, 3), np.frombuffer("aä".encode(), np.uint8), fixed=(0,))
    with pytest.raises(UnsupportedModelError, match="the bytes of a text are not UTF-8"):
        export_model(model_of(call)[0])


def test_bytes_of_texts_are_refused() -> None:
    (call,) = layers("StringTensorUnpack", 15, np.array(["one"], object))
    with pytest.raises(UnsupportedModelError, match="no ONNX operator gives the bytes of a text"):
        export_model(model_of(call)[0])


def _written() -> list[Layer]:
    return [call for call in layer_table() if call.op.opset and not isinstance(find_exporter(type(call.op)), str)]


def _exported(model: Model) -> onnx.ModelProto | str:
    try:
        return export_model(model)
    except UnsupportedModelError as error:
        return str(error)


def test_every_operation_is_written_or_refused_with_a_reason() -> None:
    refused = REFUSALS.entries()
    missing = {
        operation.type
        for operation in all_operations()
        if operation.role not in ("parameter", "result")
        and isinstance(find_exporter(operation), str)
        and operation not in refused
    }
    assert not missing, (
        "write an exporter (@ir_op) or a decomposition (@decomposes) of these operations, or refuse them (REFUSALS.add)"
    )


NEED_RANK = {"ErfInv-17": "it is decomposed, which takes the number of dimensions"}
"""Elementwise operations that are not written where the rank is unknown, and why."""


def test_elementwise_layers_of_unknown_rank() -> None:
    """An exporter by decomposition refuses them, where one of its own may do without the rank."""
    calls = {
        f"{call.op.type}-{call.op.opset}": call for call in _written() if call.op.elementwise and not _by_rank(call)
    }
    refused = set()
    for name, call in calls.items():
        model, _ = model_of(call, dynamic=True)
        model.reshape({node.end_names[0]: PartialShape(None) for node in model.parameters})
        if isinstance(_exported(model), str):
            refused.add(name)
    assert not refused - NEED_RANK.keys(), (
        "write exporters (@ir_op) that need no rank, or name these operations in NEED_RANK with the reason"
    )
    assert not NEED_RANK.keys() - refused, "these are written: take them off NEED_RANK"


def _by_rank(call: Layer) -> bool:
    """True if the call aligns dimensions from the first one on, which takes their number."""
    return getattr(call.op, "auto_broadcast", "numpy") == "pdpd"


@pytest.mark.parametrize(
    "call", [call for call in layer_table() if call.op.type.startswith("PriorBox")], ids=lambda c: c.label
)
def test_priors_of_known_sizes_are_constants(call: Layer) -> None:
    sizes = [make_node(Const1(value=Tensor.from_array(array)), (), "size").outputs[0] for array in call.arrays]
    result = make_node(Result1(), make_node(call.op, sizes, "priors").outputs, "result")
    result.output_names = ["y0"]
    exported = export_model(Model("m", [], [result]))
    assert [node.op_type for node in exported.graph.node] == ["Identity"]
    compare_outputs(call, run_exported(exported, {}))


def test_exporters_say_what_they_write() -> None:
    assert all(one.function.__doc__ for one in all_exporters())
