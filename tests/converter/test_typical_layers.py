"""The layers that typical operators become, from a file that declares all dimensions and from one that declares none.

What is written here is what an IR of the operator should be, mostly one layer; a change that makes more of it
shows. Constants, parameters and results are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import node_model

IMAGE = (2, 4, 9, 8)
MATRIX = (3, 4)
SEQUENCE = (5, 2, 3)


def weights(*shape: int) -> np.ndarray[Any, Any]:
    return np.full(shape, 0.5, np.float32)


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


@dataclass(frozen=True)
class Row:
    """An operator with its inputs' shapes, its constants, and the layers of it in their order of execution."""

    op_type: str
    opset: int
    layers: str
    shape: tuple[int, ...] = IMAGE
    constants: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Further inputs of float32."""
    order: tuple[str, ...] | None = None
    outputs: int = 1
    kind: Any = np.float32
    dynamic: str | None = None
    """The layers where no dimension is declared, if these are others."""

    def __str__(self) -> str:
        attributes = "-".join(f"{key}={value}" for key, value in self.attributes.items())
        return f"{self.op_type}-{self.opset}{'-' if attributes else ''}{attributes}"


ROWS: list[Row] = [
    Row("ReduceMean", 13, "ReduceMean", attributes={"axes": [2, 3]}),
    Row(
        "ReduceMean",
        18,
        "ReduceMean",
        constants={"axes": ints(2, 3)},
        attributes={"keepdims": 0},
        dynamic="ReduceMean ShapeOf Gather ReduceProd Convert Divide Add",
    ),
    Row("ReduceMean", 18, "ReduceMean", dynamic="ReduceMean ShapeOf Gather ReduceProd Convert Divide Add"),
    Row("ReduceSum", 13, "ReduceSum", constants={"axes": ints(-1)}),
    Row("ReduceMax", 18, "ReduceMax", constants={"axes": ints(1)}),
    Row("ReduceMin", 13, "ReduceMin", attributes={"axes": [1]}),
    Row("ReduceProd", 13, "ReduceProd", attributes={"axes": [1]}),
    Row("ReduceL1", 13, "ReduceL1", attributes={"axes": [1]}),
    Row("ReduceL2", 18, "ReduceL2", constants={"axes": ints(1)}),
    Row("ReduceSumSquare", 13, "Multiply ReduceSum", attributes={"axes": [1]}),
    Row("ReduceLogSum", 13, "ReduceSum Log", attributes={"axes": [1]}),
    Row("ArgMax", 13, "TopK", attributes={"axis": 1}),
    Row("ArgMax", 13, "TopK Squeeze", attributes={"axis": 1, "keepdims": 0}),
    Row("ArgMin", 13, "ShapeOf Gather Subtract Slice TopK Subtract", attributes={"axis": 1, "select_last_index": 1}),
    Row("AveragePool", 11, "AvgPool", attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    Row(
        "AveragePool", 11, "AvgPool", attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    ),
    Row("AveragePool", 11, "AvgPool", attributes={"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    Row("AveragePool", 11, "AvgPool", attributes={"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    Row("AveragePool", 19, "AvgPool", attributes={"kernel_shape": [2, 2], "dilations": [2, 2]}),
    Row("MaxPool", 12, "MaxPool", attributes={"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    Row("MaxPool", 12, "MaxPool", attributes={"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    Row("MaxPool", 12, "MaxPool", attributes={"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER"}),
    Row("MaxPool", 12, "MaxPool", attributes={"kernel_shape": [2, 2], "dilations": [2, 2]}),
    Row("MaxPool", 12, "MaxPool", attributes={"kernel_shape": [2, 2]}, outputs=2),
    Row("LpPool", 18, "Abs Power AvgPool Multiply Power", attributes={"kernel_shape": [2, 2], "p": 2}),
    Row("GlobalAveragePool", 1, "ReduceMean"),
    Row("GlobalMaxPool", 1, "ReduceMax"),
    Row("Conv", 11, "Convolution", constants={"w": weights(6, 4, 3, 3)}, attributes={"pads": [1, 1, 1, 1]}),
    Row(
        "Conv",
        11,
        "Convolution Add",
        constants={"w": weights(6, 4, 3, 3), "b": weights(6)},
        attributes={"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ),
    Row("Conv", 11, "GroupConvolution", constants={"w": weights(4, 1, 3, 3)}, attributes={"group": 4}),
    Row(
        "ConvTranspose",
        11,
        "ConvolutionBackpropData",
        constants={"w": weights(4, 6, 3, 3)},
        attributes={"strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
    Row(
        "ConvTranspose",
        11,
        "ShapeOf Gather Multiply ConvolutionBackpropData",
        constants={"w": weights(4, 6, 3, 3)},
        attributes={"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    ),
    Row("Gemm", 13, "MatMul Add", MATRIX, constants={"w": weights(4, 5), "b": weights(5)}),
    Row("Gemm", 13, "MatMul", MATRIX, constants={"w": weights(5, 4)}, attributes={"transB": 1}),
    Row("MatMul", 13, "MatMul", (2, 3, 4), constants={"w": weights(4, 5)}),
    Row(
        "MatMulInteger",
        10,
        "Convert MatMul Convert",
        MATRIX,
        constants={"w": np.ones((4, 5), np.int8)},
        kind=np.uint8,
    ),
    Row("Einsum", 12, "Einsum", MATRIX, more={"y": (4, 5)}, attributes={"equation": "ij,jk->ik"}),
    Row(
        "BatchNormalization",
        15,
        "BatchNormInference",
        constants={"s": weights(4), "b": weights(4), "m": weights(4), "v": weights(4)},
    ),
    Row("LayerNormalization", 17, "MVN Multiply Add", (2, 3, 4), constants={"s": weights(4), "b": weights(4)}),
    Row("InstanceNormalization", 6, "MVN Multiply Add", constants={"s": weights(4), "b": weights(4)}),
    Row(
        "GroupNormalization",
        21,
        "GroupNormalization",
        constants={"s": weights(4), "b": weights(4)},
        attributes={"num_groups": 2},
    ),
    Row("LRN", 13, "LRN", attributes={"size": 3}),
    Row("LpNormalization", 1, "ReduceL2 Equal Select Divide", attributes={"axis": 1}),
    Row("Softmax", 13, "SoftMax"),
    Row("Softmax", 11, "SoftMax", MATRIX),
    Row("Softmax", 11, "Reshape SoftMax ShapeOf Reshape", (2, 3, 4), attributes={"axis": 1}),
    Row("LogSoftmax", 13, "LogSoftmax", attributes={"axis": 1}),
    Row("Hardmax", 13, "TopK Squeeze ShapeOf Gather OneHot", MATRIX),
    Row("Relu", 14, "ReLU"),
    Row("Gelu", 20, "Gelu"),
    Row("HardSwish", 14, "HSwish"),
    Row("PRelu", 16, "PReLU", constants={"slope": weights(4, 1, 1)}),
    Row("Clip", 13, "Clamp", constants={"low": np.float32(0), "high": np.float32(6)}),
    Row(
        "LSTM",
        14,
        "Transpose ShapeOf Gather Concat Broadcast Gather Broadcast LSTMSequence Transpose Transpose Transpose",
        SEQUENCE,
        constants={"w": weights(1, 16, 3), "r": weights(1, 16, 4), "b": weights(1, 32)},
        attributes={"hidden_size": 4},
        outputs=3,
    ),
    Row(
        "GRU",
        14,
        "Transpose Transpose ShapeOf Gather Gather Broadcast GRUSequence Transpose",
        SEQUENCE,
        constants={"w": weights(1, 12, 3), "r": weights(1, 12, 4)},
        more={"h": (1, 2, 4)},
        attributes={"hidden_size": 4},
        order=("x", "w", "r", "", "", "h"),
    ),
    Row("Flatten", 13, "Reshape"),
    Row("Flatten", 13, "Reshape", attributes={"axis": 0}),
    Row(
        "Flatten",
        13,
        "ShapeOf Split Multiply Concat Reshape",
        attributes={"axis": 2},
        dynamic="ShapeOf Split Multiply Multiply Concat Reshape",
    ),
    Row(
        "Flatten",
        13,
        "ShapeOf Gather Concat Reshape",
        attributes={"axis": 3},
        dynamic="ShapeOf Split Multiply Multiply Gather Concat Reshape",
    ),
    Row("Reshape", 14, "Reshape", constants={"shape": ints(0, -1)}),
    Row("Transpose", 13, "Transpose", attributes={"perm": [0, 2, 3, 1]}),
    Row("Squeeze", 13, "Squeeze", (2, 1, 3), constants={"axes": ints(1)}),
    Row("Squeeze", 13, "Squeeze", (2, 1, 3)),
    Row("Unsqueeze", 13, "Unsqueeze", MATRIX, constants={"axes": ints(0, -1)}),
    Row("Concat", 13, "Concat", MATRIX, more={"y": (3, 2)}, attributes={"axis": 1}),
    Row("Split", 13, "Split", attributes={"axis": 1}, outputs=2),
    Row("Split", 13, "VariadicSplit", constants={"split": ints(1, 3)}, attributes={"axis": 1}, outputs=2),
    Row(
        "Split",
        18,
        "Split",
        attributes={"axis": 1, "num_outputs": 2},
        outputs=2,
        dynamic="ShapeOf Gather Add Divide Multiply Subtract Maximum Minimum VariadicSplit",
    ),
    Row("Slice", 13, "Slice", constants={"starts": ints(1), "ends": ints(3), "axes": ints(2)}),
    Row("Expand", 13, "Broadcast", (3, 1), constants={"shape": ints(2, 1, 6)}),
    Row("Tile", 13, "Tile", MATRIX, constants={"repeats": ints(1, 2)}),
    Row("Pad", 13, "Pad", constants={"pads": ints(0, 0, 1, 1, 0, 0, 1, 1)}),
    Row(
        "Pad",
        18,
        "Pad",
        constants={"pads": ints(1, 1), "value": np.float32(0), "axes": ints(2)},
        attributes={"mode": "reflect"},
        order=("x", "pads", "", "axes"),
    ),
    Row("Gather", 13, "Gather", constants={"indices": ints(0, 2)}, attributes={"axis": 1}),
    Row(
        "GatherElements",
        13,
        "GatherElements",
        MATRIX,
        constants={"indices": np.zeros((3, 2), np.int64)},
        attributes={"axis": 1},
        dynamic="StridedSlice GatherElements",
    ),
    Row("GatherND", 13, "GatherND", MATRIX, constants={"indices": ints(0)}),
    Row(
        "ScatterND",
        16,
        "ScatterNDUpdate",
        MATRIX,
        constants={"indices": np.zeros((1, 1), np.int64), "updates": weights(1, 4)},
    ),
    Row("TopK", 11, "TopK", MATRIX, constants={"k": ints(2)}, outputs=2),
    Row("CumSum", 14, "CumSum", MATRIX, constants={"axis": ints(1)[0]}),
    Row("CumProd", 26, "ShapeOf ScatterUpdate Broadcast TensorIterator", MATRIX, constants={"axis": ints(1)[0]}),
    Row("Trilu", 14, "ShapeOf Gather Range Gather Range Unsqueeze GreaterEqual Select", MATRIX),
    Row("EyeLike", 9, "ShapeOf Gather Gather Eye", MATRIX),
    Row("Shape", 15, "ShapeOf"),
    Row("Shape", 15, "ShapeOf Gather", attributes={"start": 2}),
    Row("Size", 13, "Reshape ShapeOf Reshape"),
    Row("ConstantOfShape", 9, "Broadcast", (3,), kind=np.int64),
    Row("Where", 16, "Select", MATRIX, kind=np.bool_, more={"a": MATRIX, "b": MATRIX}),
    Row(
        "OneHot",
        11,
        "Less Select Add OneHot",
        (3,),
        constants={"depth": ints(5)[0], "values": weights(2)},
        kind=np.int64,
    ),
    Row(
        "Resize",
        13,
        "Interpolate",
        constants={"roi": weights(0), "scales": np.array([1, 1, 2, 2], np.float32)},
        attributes={"mode": "nearest"},
    ),
    Row(
        "Resize",
        13,
        "Interpolate",
        constants={"roi": weights(0), "scales": np.array([1, 1, 2, 2], np.float32)},
        attributes={"mode": "linear"},
    ),
    Row(
        "Resize",
        13,
        "Interpolate Interpolate",
        constants={"sizes": ints(2, 4, 18, 16)},
        attributes={"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        order=("x", "", "", "sizes"),
    ),
    Row(
        "Resize",
        18,
        "Interpolate",
        constants={"sizes": ints(18, 16)},
        attributes={"mode": "cubic", "axes": [2, 3]},
        order=("x", "", "", "sizes"),
    ),
    Row(
        "Upsample",
        9,
        "Interpolate",
        constants={"scales": np.array([1, 1, 2, 2], np.float32)},
        attributes={"mode": "nearest"},
    ),
    Row("DepthToSpace", 13, "DepthToSpace", attributes={"blocksize": 2}),
    Row("GridSample", 16, "GridSample", more={"grid": (2, 3, 3, 2)}),
    Row("Dropout", 13, "Convert"),
    Row(
        "QuantizeLinear",
        13,
        "Divide Round Add Clamp Convert",
        constants={"scale": np.float32(0.5), "zero": np.uint8(3)},
    ),
    Row(
        "DequantizeLinear",
        13,
        "Convert Subtract Multiply",
        constants={"scale": np.float32(0.5), "zero": np.uint8(3)},
        kind=np.uint8,
    ),
    Row("Mod", 13, "IsInf IsFinite LogicalAnd Mod Select", MATRIX, more={"y": MATRIX}, attributes={"fmod": 1}),
    Row("Sum", 13, "Add Add", MATRIX, more={"y": MATRIX, "z": (4,)}),
]


def layers_of(row: Row, dynamic: bool) -> str:
    feeds = {
        "x": np.zeros(row.shape, row.kind),
        **{name: np.zeros(shape, np.float32) for name, shape in row.more.items()},
    }
    shapes = {name: [None] * np.ndim(value) for name, value in feeds.items()} if dynamic else None
    model = converter.convert_model(
        node_model(
            row.op_type,
            feeds,
            opset=row.opset,
            outputs=row.outputs,
            attributes=row.attributes,
            constants=row.constants,
            order=row.order,
            shapes=shapes,
        )
    )
    return " ".join(node.op.type for node in model.nodes() if node.op.role not in ("constant", "parameter", "result"))


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_layers_of_declared_dimensions(row: Row) -> None:
    assert layers_of(row, dynamic=False) == row.layers


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_layers_of_dynamic_dimensions(row: Row) -> None:
    assert layers_of(row, dynamic=True) == (row.layers if row.dynamic is None else row.dynamic)
