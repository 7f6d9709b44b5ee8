"""Layers that move, repeat, select or convert elements."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.rows.row import const

from .rows import Probe, f32, ints, numbers, probe, several, single

U2 = numpy_helper.to_array(helper.make_tensor("", onnx.TensorProto.UINT2, [2, 3], [0, 1, 2, 3, 2, 1]))
F4 = numbers(2, 3).astype(ml_dtypes.float4_e2m1fn)
LEVELS = np.array([[0b11100100, 0b00011011], [0b10010011, 0b01101100]], np.uint8)


def there_and_back(sign: str, kind: int, *expected: float) -> Probe:
    """Floats cast to integers of few bits and back."""
    row = several(
        f"n = Cast <to = {kind}> (x) y = Cast <to = 1> (n)", x=np.array([3, 17, -20, 8], np.float32), opset=25,
        expect=np.array(expected, np.float32),
    )  # fmt: skip
    return probe(f"convert_to_packed_integers: {sign}", "Convert Convert", row)


def filled_with(name: str, value: np.ndarray) -> Probe:
    stored = numpy_helper.from_array(value.reshape(1))
    row = single("ConstantOfShape", 25, s=ints(2, 3), value=stored, expect=np.full((2, 3), value))
    return probe(f"layers_of_narrow_types: {name}", "Broadcast", row)


TILED = "p = MaxPool <kernel_shape = [1, 1]> (x) t = Tile (p, r) y = MaxPool <kernel_shape = [1, 1]> (t)"
MOVED = [
    probe(
        "tile_dynamic_dimensions: several dimensions", "Tile",
        single("Tile", 13, x=numbers(2, 1, 4, 3), r=const(ints(1, 2, 2, 1)), dims={"x": [None, 1, 4, 3]}),
    ),
    probe(
        "tile_repeats_at_run_time: repeats at run time", "Tile",
        single("Tile", 13, x=numbers(2, 3, 5, 4), r=ints(1, 2, 2, 2), dims={"x": [None] * 4}),
    ),
    probe(
        "tile_dynamic_dimensions: one channel", "MaxPool Tile MaxPool",
        several(TILED, {"x": ["b", 1, "h", "w"]}, x=numbers(2, 1, 3, 4), r=const(ints(1, 2, 1, 1))),
    ),
    probe("broadcast_to_empty_shape", "Broadcast", single("Expand", 13, x=numbers(3, 1), s=const(ints(3, 0)))),
    probe(
        "pad_value_at_run_time", "Pad",
        single("Pad", 13, x=numbers(2, 3), p=const(ints(0, 1, 2, 0)), v=np.asarray(np.float32(7))),
    ),
]  # fmt: skip
TYPED = [
    there_and_back("unsigned", onnx.TensorProto.UINT4, 3, 1, 12, 8),
    there_and_back("signed", onnx.TensorProto.INT4, 3, 1, -4, -8),
    filled_with("f4e2m1", F4[0, 2]),
    probe(
        "layers_of_narrow_types: u2 in Pad", "Pad",
        single("Pad", 25, x=U2, p=const(ints(0, 1, 0, 1)), expect=np.pad(U2, 1)[1:-1]),
    ),
    filled_with("u2 in Broadcast", U2[0, 2]),
    probe(
        "gather_from_2_bit_tables", "Gather Convert Subtract Gather Multiply",
        single(
            "GatherBlockQuantized", 1, d=const(LEVELS), i=ints(1, 0), s=f32([[1], [1]]), domain="com.microsoft",
            bits=2, block_size=16,
            expect=np.array([[1, -2, -1, 0, -2, 1, 0, -1], [-2, -1, 0, 1, 1, 0, -1, -2]], np.float32),
        ),
    ),
]  # fmt: skip
UNSORTED = np.array([2, 1, 1, 3, 4, 3])
SELECTED = [
    probe(
        "unique_of_slices", "Unique",
        single("Unique", 11, x=np.array([[0, 1, 0, 0], [2, 1, 1, 1]], np.float32), axis=1, outputs=4),
    ),
    probe("unique_of_nothing: in order of appearance", "Unique", single("Unique", 11, x=UNSORTED, sorted=0)),
    probe(
        "unique_of_nothing: in order of appearance, with indices", "Unique",
        single("Unique", 11, x=UNSORTED, sorted=0, outputs=2),
    ),
    probe(
        "convert_to_boolean", "Convert",
        single(
            "Cast", 13, x=np.array([0, 0.5, np.nan, -2], np.float32), to=9, expect=np.array([False, True, True, True])
        ),
    ),
    probe(
        "convert_to_boolean: whole numbers", "Convert",
        single("Cast", 13, x=np.array([0, 1, -(2**31), 256], np.int32), to=9),
    ),
    probe("range_backwards", "Range", single("Range", 11, a=np.array(5), b=np.array(2), d=const(np.int64(1)))),
]  # fmt: skip


def empty(name: str, nodes: str, layer: str) -> Probe:
    """Arithmetic of a number that is broadcast to no rows, and of another number."""
    row = several(
        f"b = Expand (c, shape) y = {nodes}", shape=ints(0, 8), c=f32(1.5), k=const(np.arange(1, 9, dtype=np.float32))
    )
    return probe(f"broadcasts_of_dynamic_length{name}", f"Broadcast {layer}", row)


EMPTY = [empty("", "Mul (b, k)", "Multiply"), empty(": second operand", "Sub (k, b)", "Subtract")]
STRINGS = np.array([["a", "a string that is too long for a pointer"], ["", "b"]], object)
OTHERS = np.array(["c", "another string that is too long for a pointer"], object)
OPEN = {"x": ["n", 2]}
SPLIT = single("Split", 13, x=STRINGS, sizes=const(ints(1, 1)), dims=OPEN, outputs=2, axis=1)
CUT = single("Slice", 13, x=STRINGS, start=const(ints(0)), end=const(ints(1)), axis=const(ints(1)), dims=OPEN)
CONDITIONS = np.array([[True, False], [False, True]])
STRINGS_MOVED = [
    probe("strings_by_position: Identity", "Identity", single("Identity", 13, x=STRINGS, dims=OPEN)),
    probe("strings_by_position: Slice", "Slice", CUT),
    probe("strings_by_position: Split", "VariadicSplit", SPLIT),
]
STRINGS_SELECTED = [
    probe("strings_by_position: Tile", "Tile", single("Tile", 13, x=STRINGS, n=const(ints(1, 2)), dims=OPEN)),
    probe(
        "strings_by_position: Expand", "Broadcast", single("Expand", 13, x=OTHERS, s=const(ints(3, 1)), dims={"x": ["n"]})
    ),
    probe("strings_by_position: Where", "Select", single("Where", 16, c=CONDITIONS, x=STRINGS, z=OTHERS)),
]  # fmt: skip


def extremes(name: str, first: str, last: str, layers: str) -> Probe:
    """One extreme with NaN, the other with a number."""
    x = np.array([-1, 5, np.inf, np.nan], np.float32)
    nodes = f"m = {first} (x, nan) y = {last} (m, c)"
    return probe(f"extremes_with_nan: {name}", layers, several(nodes, {"x": "n"}, x=x, nan=f32(np.nan), c=f32(3)))


BOXES = np.array([[[0, 0, 2, 2], [0, 0, 2, 1.9], [3, 3, 4, 4], [0, 0, 1, 1]]], np.float32)
SCORES = np.array([[[0.5, 0.9, 0.7, 0.8]]], np.float32)
WRONG = [*MOVED, *TYPED, *SELECTED, *EMPTY]
REFUSED = [
    *STRINGS_SELECTED,
    extremes("lower", "Max", "Min", "Maximum Minimum"),
    extremes("upper", "Min", "Max", "Minimum Maximum"),
    probe(
        "nms_dynamic_boxes", "NonMaxSuppression",
        single(
            "NonMaxSuppression", 11, boxes=BOXES, scores=SCORES, limit=const(ints(2)), overlap=f32([0.5]),
            dims={"boxes": [1, 4, "four"]},
        ),
    ),
    probe("unique_of_nothing", "Unique", single("Unique", 11, x=ints(), dims={"x": ["n"]}, outputs=4)),
    probe("top_k_of_nothing", "TopK", single("TopK", 11, x=numbers(3, 4), k=const(ints(0)), outputs=2)),
    probe(
        "top_k_of_nothing: dynamic dimensions", "TopK",
        single("TopK", 11, x=numbers(3, 4), k=const(ints(0)), dims={"x": ["n", "m"]}, outputs=2),
    ),
    probe(
        "one_hot_of_a_scalar", "TopK Squeeze ShapeOf Gather OneHot",
        single("Hardmax", 13, x=numbers(4), dims={"x": ["n"]}),
    ),
]  # fmt: skip
CRASHING = [
    *STRINGS_MOVED,
    probe(
        "slice_axes_at_run_time", "Slice",
        single("Slice", 13, x=numbers(2, 3, 4), s=const(ints(1)), e=const(ints(3)), a=ints(2)),
    ),
    probe("gather_of_nothing", "Gather", single("Gather", 13, x=numbers(2, 3, 4), i=const(ints()), axis=2)),
    probe(
        "gather_of_nothing: indices of rank 2", "Gather",
        single("Gather", 13, x=numbers(2, 3, 4), i=const(np.zeros((0, 2), np.int64)), axis=1),
    ),
]  # fmt: skip
