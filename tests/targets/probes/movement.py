"""Layers that move, repeat, select or convert elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.engines import node_model

from .rows import Probe, Row, ints, numbers, several, single


def tile_between_poolings() -> Probe:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[1, 1]),
        helper.make_node("Tile", ["p", "r"], ["t"]),
        helper.make_node("MaxPool", ["t"], ["y"], kernel_shape=[1, 1]),
    ]
    return several(nodes, {"x": numbers(2, 1, 3, 4)}, {"r": ints(1, 2, 1, 1)}, {"x": ["b", 1, "h", "w"]})


MOVED = [
    Row(
        "tile_dynamic_dimensions: several dimensions",
        single("Tile", 13, {"x": numbers(2, 1, 4, 3)}, {"r": ints(1, 2, 2, 1)}, {"x": [None, 1, 4, 3]}),
        "Tile",
    ),
    Row(
        "tile_repeats_at_run_time: repeats at run time",
        single("Tile", 13, {"x": numbers(2, 3, 5, 4), "r": ints(1, 2, 2, 2)}, shapes={"x": [None] * 4}),
        "Tile",
    ),
    Row("tile_dynamic_dimensions: one channel", tile_between_poolings, "MaxPool Tile MaxPool"),
    Row("broadcast_to_empty_shape", single("Expand", 13, {"x": numbers(3, 1)}, {"s": ints(3, 0)}), "Broadcast"),
    Row(
        "pad_value_at_run_time",
        single("Pad", 13, {"x": numbers(2, 3), "v": np.float32(7)}, {"p": ints(0, 1, 2, 0)}, order=["x", "p", "v"]),
        "Pad",
    ),
]

# --- types ---

U2 = numpy_helper.to_array(helper.make_tensor("", onnx.TensorProto.UINT2, [2, 3], [0, 1, 2, 3, 2, 1]))
F4 = numbers(2, 3).astype(ml_dtypes.float4_e2m1fn)
LEVELS = np.array([[0b11100100, 0b00011011], [0b10010011, 0b01101100]], np.uint8)


def there_and_back(kind: int) -> Callable[[], Probe]:
    """Floats cast to integers of few bits and back."""

    def build() -> Probe:
        nodes = [helper.make_node("Cast", ["x"], ["n"], to=kind), helper.make_node("Cast", ["n"], ["y"], to=1)]
        return several(nodes, {"x": np.array([3, 17, -20, 8], np.float32)}, {}, {"x": [4]}, opset=25)

    return build


def filled_with(value: np.ndarray[Any, Any]) -> Callable[[], Probe]:
    def build() -> Probe:
        stored = numpy_helper.from_array(value.reshape(1))
        return node_model("ConstantOfShape", {"s": ints(2, 3)}, opset=25, attributes={"value": stored}), {
            "s": ints(2, 3)
        }

    return build


TYPED = [
    Row(
        "convert_to_packed_integers: unsigned",
        there_and_back(onnx.TensorProto.UINT4),
        "Convert Convert",
        [np.array([3, 1, 12, 8], np.float32)],
    ),
    Row(
        "convert_to_packed_integers: signed",
        there_and_back(onnx.TensorProto.INT4),
        "Convert Convert",
        [np.array([3, 1, -4, -8], np.float32)],
    ),
    Row("layers_of_narrow_types: f4e2m1", filled_with(F4[0, 2]), "Broadcast", [np.full((2, 3), F4[0, 2])]),
    Row("layers_of_narrow_types: u2 in Pad", single("Pad", 25, {"x": U2}, {"p": ints(0, 1, 0, 1)}), "Pad", [np.pad(U2, 1)[1:-1]]),
    Row("layers_of_narrow_types: u2 in Broadcast", filled_with(U2[0, 2]), "Broadcast", [np.full((2, 3), U2[0, 2])]),
    Row(
        "gather_from_2_bit_tables",
        single(
            "GatherBlockQuantized",
            1,
            {"i": ints(1, 0)},
            {"d": LEVELS, "s": np.ones((2, 1), np.float32)},
            order=["d", "i", "s"],
            domain="com.microsoft",
            bits=2,
            block_size=16,
        ),
        "Gather Convert Subtract Gather Multiply",
        [np.array([[1, -2, -1, 0, -2, 1, 0, -1], [-2, -1, 0, 1, 1, 0, -1, -2]], np.float32)],
    ),
]  # fmt: skip

# --- selecting ---

UNSORTED = {"x": np.array([2, 1, 1, 3, 4, 3])}
SELECTED = [
    Row(
        "unique_of_slices",
        single("Unique", 11, {"x": np.array([[0, 1, 0, 0], [2, 1, 1, 1]], np.float32)}, axis=1, outputs=4),
        "Unique",
    ),
    Row("unique_of_nothing: in order of appearance", single("Unique", 11, UNSORTED, sorted=0), "Unique"),
    Row(
        "unique_of_nothing: in order of appearance, with indices",
        single("Unique", 11, UNSORTED, sorted=0, outputs=2),
        "Unique",
    ),
    Row(
        "convert_to_boolean",
        single("Cast", 13, {"x": np.array([0, 0.5, np.nan, -2], np.float32)}, to=onnx.TensorProto.BOOL),
        "Convert",
        [np.array([False, True, True, True])],
    ),
    Row(
        "convert_to_boolean: whole numbers",
        single("Cast", 13, {"x": np.array([0, 1, -(2**31), 256], np.int32)}, to=onnx.TensorProto.BOOL),
        "Convert",
    ),
    Row(
        "range_backwards",
        single("Range", 11, {"a": np.int64(5), "b": np.int64(2)}, {"d": np.int64(1)}),
        "Range",
    ),
]


def empty_broadcast(op_type: str, scalar_first: bool) -> Callable[[], Probe]:
    """Arithmetic of a number that is broadcast to no rows, and of another number."""

    def build() -> Probe:
        names = ["b", "k"] if scalar_first else ["k", "b"]
        nodes = [helper.make_node("Expand", ["c", "shape"], ["b"]), helper.make_node(op_type, names, ["y"])]
        constants = {"c": np.float32(1.5), "k": np.arange(1, 9, dtype=np.float32)}
        return several(nodes, {"shape": ints(0, 8)}, constants, {"shape": [2]})

    return build


EMPTY = [
    Row("broadcasts_of_dynamic_length", empty_broadcast("Mul", True), "Broadcast Multiply"),
    Row("broadcasts_of_dynamic_length: second operand", empty_broadcast("Sub", False), "Broadcast Subtract"),
]

# --- strings ---

STRINGS = np.array([["a", "a string that is too long for a pointer"], ["", "b"]], object)
OTHERS = np.array(["c", "another string that is too long for a pointer"], object)
STRINGS_MOVED = [
    Row(f"strings_by_position: {op_type}", single(op_type, 13, {"x": STRINGS}, constants, {"x": ["n", 2]}), layer)
    for op_type, constants, layer in (
        ("Identity", {}, "Identity"),
        ("Slice", {"start": ints(0), "end": ints(1), "axis": ints(1)}, "Slice"),
    )
] + [
    Row(
        "strings_by_position: Split",
        single("Split", 13, {"x": STRINGS}, {"sizes": ints(1, 1)}, {"x": ["n", 2]}, outputs=2, axis=1),
        "VariadicSplit",
    )
]
STRINGS_SELECTED = [
    Row("strings_by_position: Tile", single("Tile", 13, {"x": STRINGS}, {"n": ints(1, 2)}, {"x": ["n", 2]}), "Tile"),
    Row(
        "strings_by_position: Expand",
        single("Expand", 13, {"x": OTHERS}, {"s": ints(3, 1)}, {"x": ["n"]}),
        "Broadcast",
    ),
    Row(
        "strings_by_position: Where",
        single("Where", 16, {"c": np.array([[True, False], [False, True]]), "x": STRINGS, "z": OTHERS}),
        "Select",
    ),
]


def extreme_with_nan(*op_types: str) -> Callable[[], Probe]:
    """One extreme with NaN, the other with a number."""

    def build() -> Probe:
        nodes = [helper.make_node(op_types[0], ["x", "nan"], ["m"]), helper.make_node(op_types[1], ["m", "c"], ["y"])]
        x = np.array([-1, 5, np.inf, np.nan], np.float32)
        return several(nodes, {"x": x}, {"nan": np.float32(np.nan), "c": np.float32(3)}, {"x": ["n"]})

    return build


EXTREMES = [
    Row("extremes_with_nan: lower", extreme_with_nan("Max", "Min"), "Maximum Minimum"),
    Row("extremes_with_nan: upper", extreme_with_nan("Min", "Max"), "Minimum Maximum"),
]

BOXES = np.array([[[0, 0, 2, 2], [0, 0, 2, 1.9], [3, 3, 4, 4], [0, 0, 1, 1]]], np.float32)
SCORES = np.array([[[0.5, 0.9, 0.7, 0.8]]], np.float32)

WRONG = [*MOVED, *TYPED, *SELECTED, *EMPTY]
REFUSED = [
    *STRINGS_SELECTED,
    *EXTREMES,
    Row(
        "nms_dynamic_boxes",
        single(
            "NonMaxSuppression",
            11,
            {"boxes": BOXES, "scores": SCORES},
            {"limit": ints(2), "overlap": np.array([0.5], np.float32)},
            {"boxes": [1, 4, "four"]},
        ),
        "NonMaxSuppression",
    ),
    Row("unique_of_nothing", single("Unique", 11, {"x": ints()}, shapes={"x": ["n"]}, outputs=4), "Unique"),
    Row("top_k_of_nothing", single("TopK", 11, {"x": numbers(3, 4)}, {"k": ints(0)}, outputs=2), "TopK"),
    Row(
        "top_k_of_nothing: dynamic dimensions",
        single("TopK", 11, {"x": numbers(3, 4)}, {"k": ints(0)}, {"x": ["n", "m"]}, outputs=2),
        "TopK",
    ),
    Row(
        "one_hot_of_a_scalar",
        single("Hardmax", 13, {"x": numbers(4)}, shapes={"x": ["n"]}),
        "TopK Squeeze ShapeOf Gather OneHot",
    ),
]

CRASHING = [
    *STRINGS_MOVED,
    Row(
        "slice_axes_at_run_time",
        single(
            "Slice", 13, {"x": numbers(2, 3, 4), "a": ints(2)}, {"s": ints(1), "e": ints(3)}, order=["x", "s", "e", "a"]
        ),
        "Slice",
    ),
    Row(
        "gather_of_nothing",
        single("Gather", 13, {"x": numbers(2, 3, 4)}, {"i": np.zeros(0, np.int64)}, axis=2),
        "Gather",
    ),
    Row(
        "gather_of_nothing: indices of rank 2",
        single("Gather", 13, {"x": numbers(2, 3, 4)}, {"i": np.zeros((0, 2), np.int64)}, axis=1),
        "Gather",
    ),
]
