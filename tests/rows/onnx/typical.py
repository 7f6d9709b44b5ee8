"""The layers that typical operators become, from a file that declares all dimensions and from one that declares none.

What is written here is what an IR of the operator should be, mostly one layer; a change that makes more of it shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.rows.row import COARSE, Row, const, normal_by, rows

RNG = np.random.default_rng(4)
IMAGE, MATRIX, SEQUENCE = (2, 4, 9, 8), (3, 4), (5, 2, 3)
normal = normal_by(RNG)


def weights(*shape: int) -> Any:
    return const(RNG.uniform(0.25, 0.75, shape), np.float32)


def ints(*values: int) -> Any:
    return const(values, np.int64)


def typical(
    op_type: str, opset: int, layers: str, x: Any = IMAGE, dynamic: str = "", **arguments: Any
) -> Iterator[Row]:
    """The layers in their order of execution, and those where no dimension is declared, if these are others."""
    arguments = {"x": normal(*x) if isinstance(x, tuple) else x, "tolerance": COARSE, **arguments}
    arrays = {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}
    for label, dims, found in (
        ("declared", None, layers),
        ("open", {name: [None] * array.ndim for name, array in arrays.items()}, dynamic or layers),
    ):
        yield from rows(op_type, opset, label=f"typical-{label}", dims=dims, layers=found.split(), **arguments)


OF_ALL = "ReduceMean ShapeOf Gather ReduceProd Convert Divide Add"
POOL = {"kernel_shape": [3, 3], "strides": [2, 2]}
PADDED = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
TWO = {"kernel_shape": [2, 2]}
DOUBLED = {"roi": None, "scales": const([1, 1, 2, 2], np.float32)}
CHANNELS = {"s": weights(4), "b": weights(4)}
LSTM = "Transpose ShapeOf Gather Concat Broadcast Gather Broadcast LSTMSequence Transpose Transpose Transpose"
GRU = "Transpose Transpose ShapeOf Gather Gather Broadcast GRUSequence Transpose"
PARTS = "ShapeOf Gather Add Divide Multiply Subtract Maximum Minimum VariadicSplit"
ROWS = [
    *typical("ReduceMean", 13, "ReduceMean", axes=[2, 3]),
    *typical("ReduceMean", 18, "ReduceMean", dynamic=OF_ALL, axes=ints(2, 3), keepdims=0),
    *typical("ReduceMean", 18, "ReduceMean", dynamic=OF_ALL),
    *typical("ReduceSum", 13, "ReduceSum", axes=ints(-1)),
    *typical("ReduceMax", 18, "ReduceMax", axes=ints(1)),
    *typical("ReduceMin", 13, "ReduceMin", axes=[1]),
    *typical("ReduceProd", 13, "ReduceProd", axes=[1]),
    *typical("ReduceL1", 13, "ReduceL1", axes=[1]),
    *typical("ReduceL2", 18, "ReduceL2", axes=ints(1)),
    *typical("ReduceSumSquare", 13, "Multiply ReduceSum", axes=[1]),
    *typical("ReduceLogSum", 13, "ReduceSum Log", x=np.abs(normal(*IMAGE)), axes=[1]),
    *typical("ArgMax", 13, "TopK", axis=1),
    *typical("ArgMax", 13, "TopK Squeeze", axis=1, keepdims=0),
    *typical("ArgMin", 13, "ShapeOf Gather Subtract Slice TopK Subtract", axis=1, select_last_index=1),
    *typical("AveragePool", 11, "AvgPool", **PADDED),
    *typical("AveragePool", 11, "AvgPool", **PADDED, count_include_pad=1),
    *typical("AveragePool", 11, "AvgPool", **POOL, ceil_mode=1),
    *typical("AveragePool", 11, "AvgPool", **POOL, auto_pad="SAME_UPPER"),
    *typical("AveragePool", 19, "AvgPool", **TWO, dilations=[2, 2]),
    *typical("MaxPool", 12, "MaxPool", **PADDED, strides=[2, 2]),
    *typical("MaxPool", 12, "MaxPool", **POOL, ceil_mode=1),
    *typical("MaxPool", 12, "MaxPool", **TWO, auto_pad="SAME_LOWER"),
    *typical("MaxPool", 12, "MaxPool", **TWO, dilations=[2, 2]),
    *typical("MaxPool", 12, "MaxPool", **TWO, outputs=2),
    *typical("LpPool", 18, "Abs Power AvgPool Multiply Power", **TWO, p=2),
    *typical("GlobalAveragePool", 1, "ReduceMean"),
    *typical("GlobalMaxPool", 1, "ReduceMax"),
    *typical("Conv", 11, "Convolution", w=weights(6, 4, 3, 3), pads=[1, 1, 1, 1]),
    *typical(
        "Conv", 11, "Convolution Add", w=weights(6, 4, 3, 3), b=weights(6), auto_pad="SAME_UPPER", strides=[2, 2]
    ),
    *typical("Conv", 11, "GroupConvolution", w=weights(4, 1, 3, 3), group=4),
    *typical(
        "ConvTranspose", 11, "ConvolutionBackpropData", w=weights(4, 6, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1]
    ),
    *typical(
        "ConvTranspose", 11, "ShapeOf Gather Multiply ConvolutionBackpropData", w=weights(4, 6, 3, 3), strides=[2, 2],
        auto_pad="SAME_UPPER",
    ),
    *typical("Gemm", 13, "MatMul Add", MATRIX, w=weights(4, 5), b=weights(5)),
    *typical("Gemm", 13, "MatMul", MATRIX, w=weights(5, 4), transB=1),
    *typical("MatMul", 13, "MatMul", (2, 3, 4), w=weights(4, 5)),
    *typical(
        "MatMulInteger", 10, "Convert MatMul Convert", np.arange(12, dtype=np.uint8).reshape(3, 4),
        w=const(np.ones((4, 5)), np.int8),
    ),
    *typical("Einsum", 12, "Einsum", MATRIX, y=normal(4, 5), equation="ij,jk->ik"),
    *typical("BatchNormalization", 15, "BatchNormInference", **CHANNELS, m=weights(4), v=weights(4)),
    *typical("LayerNormalization", 17, "MVN Multiply Add", (2, 3, 4), **CHANNELS),
    *typical("InstanceNormalization", 6, "MVN Multiply Add", **CHANNELS),
    *typical("GroupNormalization", 21, "GroupNormalization", **CHANNELS, num_groups=2),
    *typical("LRN", 13, "LRN", size=3),
    *typical("LpNormalization", 1, "ReduceL2 Equal Select Divide", axis=1),
    *typical("Softmax", 13, "SoftMax"),
    *typical("Softmax", 11, "SoftMax", MATRIX),
    *typical("Softmax", 11, "Reshape SoftMax ShapeOf Reshape", (2, 3, 4), axis=1),
    *typical("LogSoftmax", 13, "LogSoftmax", axis=1),
    *typical("Hardmax", 13, "TopK Squeeze ShapeOf Gather OneHot", MATRIX),
    *typical("Relu", 14, "ReLU"),
    *typical("Gelu", 20, "Gelu"),
    *typical("HardSwish", 14, "HSwish"),
    *typical("PRelu", 16, "PReLU", slope=weights(4, 1, 1)),
    *typical("Clip", 13, "Clamp", low=const(np.float32(0)), high=const(np.float32(6))),
    *typical("LSTM", 14, LSTM, SEQUENCE, w=weights(1, 16, 3), r=weights(1, 16, 4), b=weights(1, 32), hidden_size=4, outputs=3),
    *typical(
        "GRU", 14, GRU, SEQUENCE, w=weights(1, 12, 3), r=weights(1, 12, 4), b=None, lengths=None, h=normal(1, 2, 4),
        hidden_size=4,
    ),
    *typical("Flatten", 13, "Reshape"),
    *typical("Flatten", 13, "Reshape", axis=0),
    *typical(
        "Flatten", 13, "ShapeOf Split Multiply Concat Reshape", axis=2,
        dynamic="ShapeOf Split Multiply Multiply Concat Reshape",
    ),
    *typical(
        "Flatten", 13, "ShapeOf Gather Concat Reshape", axis=3,
        dynamic="ShapeOf Split Multiply Multiply Gather Concat Reshape",
    ),
    *typical("Reshape", 14, "Reshape", shape=ints(0, -1)),
    *typical("Transpose", 13, "Transpose", perm=[0, 2, 3, 1]),
    *typical("Squeeze", 13, "Squeeze", (2, 1, 3), axes=ints(1)),
    *typical("Squeeze", 13, "Squeeze", (2, 1, 3)),
    *typical("Unsqueeze", 13, "Unsqueeze", MATRIX, axes=ints(0, -1)),
    *typical("Concat", 13, "Concat", MATRIX, y=normal(3, 2), axis=1),
    *typical("Split", 13, "Split", axis=1, outputs=2),
    *typical("Split", 13, "VariadicSplit", split=ints(1, 3), axis=1, outputs=2),
    *typical("Split", 18, "Split", axis=1, num_outputs=2, outputs=2, dynamic=PARTS),
    *typical("Slice", 13, "Slice", starts=ints(1), ends=ints(3), axes=ints(2)),
    *typical("Expand", 13, "Broadcast", (3, 1), shape=ints(2, 1, 6)),
    *typical("Tile", 13, "Tile", MATRIX, repeats=ints(1, 2)),
    *typical("Pad", 13, "Pad", pads=ints(0, 0, 1, 1, 0, 0, 1, 1)),
    *typical("Pad", 18, "Pad", pads=ints(1, 1), value=None, axes=ints(2), mode="reflect"),
    *typical("Gather", 13, "Gather", indices=ints(0, 2), axis=1),
    *typical(
        "GatherElements", 13, "GatherElements", MATRIX, indices=const(np.zeros((3, 2), np.int64)), axis=1,
        dynamic="StridedSlice GatherElements",
    ),
    *typical("GatherND", 13, "GatherND", MATRIX, indices=ints(0)),
    *typical("ScatterND", 16, "ScatterNDUpdate", MATRIX, indices=const([[0]]), updates=weights(1, 4)),
    *typical("TopK", 11, "TopK", MATRIX, k=ints(2), outputs=2),
    *typical("CumSum", 14, "CumSum", MATRIX, axis=const(np.int64(1))),
    *typical("CumProd", 26, "ShapeOf ScatterUpdate Broadcast TensorIterator Multiply", MATRIX, axis=const(np.int64(1))),
    *typical("Trilu", 14, "ShapeOf Gather Range Gather Range Unsqueeze GreaterEqual Select", MATRIX),
    *typical("EyeLike", 9, "ShapeOf Gather Gather Eye", MATRIX),
    *typical("Shape", 15, "ShapeOf"),
    *typical("Shape", 15, "ShapeOf Gather", start=2),
    *typical("Size", 13, "Reshape ShapeOf Reshape"),
    *typical("ConstantOfShape", 9, "Broadcast", np.array([2, 1, 3])),
    *typical("Where", 16, "Select", np.eye(3, 4) > 0, a=normal(*MATRIX), b=normal(*MATRIX)),
    *typical("OneHot", 11, "Less Select Add OneHot", np.array([2, 0, 4]), depth=const(np.int64(5)), values=weights(2)),
    *typical("Resize", 13, "Interpolate", **DOUBLED, mode="nearest"),
    *typical("Resize", 13, "Interpolate", **DOUBLED, mode="linear"),
    *typical(
        "Resize", 13, "Interpolate Interpolate", roi=None, scales=None, sizes=ints(2, 4, 18, 16), mode="linear",
        coordinate_transformation_mode="align_corners",
    ),
    *typical("Resize", 18, "Interpolate", roi=None, scales=None, sizes=ints(18, 16), mode="cubic", axes=[2, 3]),
    *typical("Upsample", 9, "Interpolate", scales=DOUBLED["scales"], mode="nearest"),
    *typical("DepthToSpace", 13, "DepthToSpace", blocksize=2),
    *typical("GridSample", 16, "GridSample", grid=normal(2, 3, 3, 2)),
    *typical("Dropout", 13, "Convert"),
    *typical(
        "QuantizeLinear", 13, "Divide Round Add Clamp Convert", scale=const(np.float32(0.5)), zero=const(np.uint8(3))
    ),
    *typical(
        "DequantizeLinear", 13, "Convert Subtract Multiply", np.arange(12, dtype=np.uint8), scale=const(np.float32(0.5)),
        zero=const(np.uint8(3)),
    ),
    *typical("Mod", 13, "IsInf IsFinite LogicalAnd Mod Select", MATRIX, y=normal(*MATRIX), fmod=1),
    *typical("Sum", 13, "Add Add", MATRIX, y=normal(*MATRIX), z=normal(4)),
]  # fmt: skip
