"""Layers that move, repeat, select or convert elements, and loops: their states, slices and numbers of iterations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.rows.row import REFERENCE, const

from .rows import Probe, f32, ints, numbers, probe, several, single

U2 = numpy_helper.to_array(helper.make_tensor("", onnx.TensorProto.UINT2, [2, 3], [0, 1, 2, 3, 2, 1]))
F4 = numbers(2, 3).astype(ml_dtypes.float4_e2m1fn)
LEVELS = np.array([[0b11100100, 0b00011011], [0b10010011, 0b01101100]], np.uint8)


def there_and_back(sign: str, kind: int) -> Probe:
    row = several(f"n = Cast <to = {kind}> (x) y = Cast <to = 1> (n)", x=np.float32([3, 17, -20, 8]), opset=25)
    return probe(f"convert_to_packed_integers: {sign}", "Convert Convert", row)


def filled_with(name: str, value: np.ndarray) -> Probe:
    stored = numpy_helper.from_array(value.reshape(1))
    row = single("ConstantOfShape", 25, s=ints(2, 3), value=stored, expect=REFERENCE)
    return probe(f"layers_of_narrow_types: {name}", "Broadcast", row)


TILED = "p = MaxPool <kernel_shape = [1, 1]> (x) t = Tile (p, r) y = MaxPool <kernel_shape = [1, 1]> (t)"
MOVED = [
    probe("tile_dynamic_dimensions: several dimensions", "Tile", single("Tile", 13, x=numbers(2, 1, 4, 3),
          r=const(ints(1, 2, 2, 1)), dims={"x": [None, 1, 4, 3]})),
    probe("tile_repeats_at_run_time: repeats at run time", "Tile", single("Tile", 13, x=numbers(2, 3, 5, 4),
          r=ints(1, 2, 2, 2), dims={"x": [None] * 4})),
    probe("tile_dynamic_dimensions: one channel", "MaxPool Tile MaxPool",
          several(TILED, {"x": ["b", 1, "h", "w"]}, x=numbers(2, 1, 3, 4), r=const(ints(1, 2, 1, 1)))),
    probe("broadcast_to_empty_shape", "Broadcast", single("Expand", 13, x=numbers(3, 1), s=const(ints(3, 0)))),
    probe("pad_value_at_run_time", "Pad", single("Pad", 13, x=numbers(2, 3), p=const(ints(0, 1, 2, 0)),
          v=np.asarray(np.float32(7)))),
]  # fmt: skip
TYPED = [
    there_and_back("unsigned", onnx.TensorProto.UINT4),
    there_and_back("signed", onnx.TensorProto.INT4),
    filled_with("f4e2m1", F4[0, 2]),
    probe("layers_of_narrow_types: u2 in Pad", "Pad", single("Pad", 25, x=U2, p=const(ints(0, 1, 0, 1)),
          expect=REFERENCE)),
    filled_with("u2 in Broadcast", U2[0, 2]),
    probe("gather_from_2_bit_tables", "Gather Convert Subtract Gather Multiply",
          single("GatherBlockQuantized", 1, d=const(LEVELS), i=ints(1, 0), s=f32([[1], [1]]), domain="com.microsoft",
          bits=2, block_size=16)),
]  # fmt: skip
UNSORTED = np.array([2, 1, 1, 3, 4, 3])
SELECTED = [
    probe("unique_of_slices", "Unique", single("Unique", 11, x=np.array([[0, 1, 0, 0], [2, 1, 1, 1]], np.float32),
          axis=1, outputs=4)),
    probe("unique_of_nothing: in order of appearance", "Unique", single("Unique", 11, x=UNSORTED, sorted=0)),
    probe("unique_of_nothing: in order of appearance, with indices", "Unique",
          single("Unique", 11, x=UNSORTED, sorted=0, outputs=2)),
    probe("convert_to_boolean", "Convert", single("Cast", 13, x=np.float32([0, 0.5, np.nan, -2]), to=9)),
    probe("convert_to_boolean: whole numbers", "Convert", single("Cast", 13,
          x=np.array([0, 1, -(2**31), 256], np.int32), to=9)),
    probe("range_backwards", "Range", single("Range", 11, a=np.array(5), b=np.array(2), d=const(np.int64(1)))),
]  # fmt: skip


def empty(name: str, nodes: str, layer: str) -> Probe:
    """Arithmetic of a number that is broadcast to no rows, and of another number."""
    nodes = f"b = Expand (c, shape) y = {nodes}"
    row = several(nodes, shape=ints(0, 8), c=f32(1.5), k=const(np.arange(1, 9, dtype=np.float32)))
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
    probe("strings_by_position: Expand", "Broadcast", single("Expand", 13, x=OTHERS, s=const(ints(3, 1)),
          dims={"x": ["n"]})),
    probe("strings_by_position: Where", "Select", single("Where", 16, c=CONDITIONS, x=STRINGS, z=OTHERS)),
]  # fmt: skip


def extremes(name: str, first: str, last: str, layers: str) -> Probe:
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
    probe("nms_dynamic_boxes", "NonMaxSuppression", single("NonMaxSuppression", 11, boxes=BOXES, scores=SCORES,
          limit=const(ints(2)), overlap=f32([0.5]), dims={"boxes": [1, 4, "four"]})),
    probe("unique_of_nothing", "Unique", single("Unique", 11, x=ints(), dims={"x": ["n"]}, outputs=4)),
    probe("top_k_of_nothing", "TopK", single("TopK", 11, x=numbers(3, 4), k=const(ints(0)), outputs=2)),
    probe("top_k_of_nothing: dynamic dimensions", "TopK", single("TopK", 11, x=numbers(3, 4), k=const(ints(0)),
          dims={"x": ["n", "m"]}, outputs=2)),
    probe("one_hot_of_a_scalar", "TopK Squeeze ShapeOf Gather OneHot",
          single("Hardmax", 13, x=numbers(4), dims={"x": ["n"]})),
]  # fmt: skip
CRASHING = [
    *STRINGS_MOVED,
    probe("slice_axes_at_run_time", "Slice", single("Slice", 13, x=numbers(2, 3, 4), s=const(ints(1)), e=const(ints(3)),
          a=ints(2))),
    probe("gather_of_nothing", "Gather", single("Gather", 13, x=numbers(2, 3, 4), i=const(ints()), axis=2)),
    probe("gather_of_nothing: indices of rank 2", "Gather", single("Gather", 13, x=numbers(2, 3, 4),
          i=const(np.zeros((0, 2), np.int64)), axis=1)),
]  # fmt: skip


# --- loops: their states, slices and numbers of iterations ---


def scanned(name: str, nodes: str, layers: str, states: str = "s", kind: Any = np.float32, **what: Any) -> Probe:
    """A Scan over the rows of x, whose states get the values ``t``, ``u``, and which returns the last ones."""
    text = (
        "float" if kind is np.float32 else np.dtype(kind).name.replace("_", "").removesuffix("fn").removesuffix("fnu")
    )
    inputs = {f"{state}0": (numbers(2, 3) * (i + 1)).astype(kind) for i, state in enumerate(states)}
    following = "tu"[: len(states)]
    taken, given = (", ".join(f"{text}[2, 3] {value}" for value in values) for values in ([*states, "row"], following))
    loop = f"""{", ".join(f"y{state}" for state in states)} = Scan <num_scan_inputs = 1, body = b ({taken}) => ({given}) {{
        {nodes} }}> ({", ".join(inputs)}, x)"""
    outputs = ", ".join(f"y{state}" for state in states)
    row = several(loop, outputs=outputs, opset=25, **inputs, x=numbers(4, 2, 3).astype(kind), **what)
    return probe(name, layers, row)


def chosen(name: str, following: str, layers: str) -> Probe:
    """An If with outputs of dynamic dimensions, and layers that read them and compute y."""
    nodes = f"""p, q = If (c) <then_branch = a () => (float[n] t, float[n] u) {{ t = Abs (x) u = Sin (x) }},
                     else_branch = b () => (float[n] v, float[n] w) {{ v = Neg (x) w = Cos (x) }}> {following}"""
    row = several(nodes, {"x": "n"}, x=numbers(7), c=np.array(True))
    return probe(f"if_outputs_in_reused_memory: {name}", layers, row)


NESTED = """y = If (c) <then_branch = d () => (float[m] e) {
  f = If (c) <then_branch = g () => (float[n] h) { h = Abs (x) }, else_branch = i () => (float[n] j) { j = Neg (x) }>
  k = Concat <axis = 0> (f, f, f) l = Softmax (k) e = Relu (l) }, else_branch = s () => (float[n] r) { r = Neg (x) }>"""
EXCHANGED = """s1, t1 = Loop (n, "", s0, t0)
    <body = b (int64 i, bool c, float[1, 3] s, float[3, 1] t) => (bool d, float[1, 3] u, float[3, 1] v)
    { d = Identity (c) u = Transpose <perm = [1, 0]> (t) v = Transpose <perm = [1, 0]> (s) }>"""
BOTH = "k = Concat <axis = 0> (p, q, p) s = Softmax (k) y = Relu (s)"
SHARED = "loop_states_in_shared_memory"
LOOPED = [
    chosen("both outputs", BOTH, "If Concat SoftMax ReLU Negative Cos Abs Sin"),
    chosen("in a body", NESTED, "If Negative If Concat SoftMax ReLU Negative Abs"),
    scanned(f"{SHARED}: a sum in the memory of a slice", "t = Add (row, s)", "TensorIterator Squeeze Add"),
    scanned(
        f"{SHARED}: a slice handed on", "t = Add (r, s) u = Identity (row)", "TensorIterator Add Squeeze", "rs"
    ),
    probe(f"{SHARED}: a view that moves a dimension of 1", "Loop Transpose Transpose",
          several(EXCHANGED, outputs="s1, t1", n=const(3), s0=numbers(1, 3), t0=numbers(3, 1) + 1)),
]  # fmt: skip


def captured(name: str, nodes: str, layers: str) -> Probe:
    """A Scan over rows, whose body also reads x, a value of the graph around it."""
    loop = f"""y = Scan <num_scan_inputs = 1, body = b (float[2, 3] row) => (float[2, 3] sum) {{
        {nodes} sum = Add (row, s) }}> (rows)"""
    constants = {"front": const([0]), "scale": const(numbers(3)), "shape": const([2, 3])}
    used = {key: value for key, value in constants.items() if f"{key})" in nodes}
    row = several(loop, opset=25, rows=numbers(4, 2, 3), x=numbers(2, 3), **used)
    return probe(f"loop_inputs_in_place: {name}", f"TensorIterator Squeeze {layers} Add Unsqueeze", row)


VIEWS = "v = Unsqueeze (x, front) e = Exp (v) w = Reshape (v, shape) f = Reshape (e, shape) s = Add (w, f)"
VIEWED = "v = Unsqueeze (x, front) u = Softmax (v) s = Squeeze (u, front)"
IN_PLACE = [
    captured("a sum behind two views", VIEWS, "Unsqueeze Reshape Exp Reshape Add"),
    captured("a normalization", "s = LayerNormalization (x, scale)", "MVN Multiply"),
    captured("Softmax of a value of the graph around it", "s = Softmax (x)", "SoftMax"),
    captured("Softmax of a view of it", VIEWED, "Unsqueeze SoftMax Squeeze"),
]


def counted(name: str, rows: Sequence[Any], backwards: int = 0) -> Probe:
    """A Scan over rows that its body does not read: it doubles a state, and returns every value of it."""
    loop = f"""end, all = Scan <num_scan_inputs = 1, scan_output_directions = [{backwards}],
        body = b (float[2] s, float row) => (float t, float u) {{ t = Add (s, s) u = Neg (t) }}> (s0, x)"""
    loop = loop.replace("float row", "row").replace("float t, float u", "t, u")
    row = several(loop, {"x": rows}, "end, all", s0=numbers(2), x=numbers(4, 3))
    return probe(f"iterator_over_unread_slices{name}", "TensorIterator Add Negative Unsqueeze", row)


UNREAD = [counted("", [4, 3]), counted(": a dynamic count", ["n", 3]), counted(": joined backwards", [4, 3], 1)]
NESTED_LOOPS = """y = Loop (n, "") <body = b (int64 i, bool c) => (bool d, float[2] o) {
    k = Gather (counts, i)
    p = Loop (k, "") <body = a (int64 j, bool e) => (bool f, float[2] q) { f = Identity (e) q = Exp (x) }>
    t = Concat <axis = 0> (p, row)  o = ReduceSum <keepdims = 0> (t, first)  d = Identity (c) }>"""
"""A Loop around one whose number of iterations is an element of ``counts``."""
NONE = probe("loops_of_no_iterations", "Loop Gather Maximum Loop Concat ReduceSum Exp Unsqueeze",
             several(NESTED_LOOPS, x=numbers(2), counts=np.array([2, 0, 1]), row=const(numbers(1, 2)), n=const(3),
             first=const([0])))  # fmt: skip


def constant_states(op_type: str, gates: int) -> Probe:
    """A network with states of batch 1, and data of any batch."""
    states = {"h": const(numbers(1, 1, 2) / 3), **({"c": const(numbers(1, 1, 2) / 5)} if op_type == "LSTM" else {})}
    weights = {"w": const(np.sin(numbers(1, gates * 2, 3))), "r": const(np.cos(numbers(1, gates * 2, 2)))}
    row = single(op_type, 14, x=np.sin(numbers(4, 1, 3)), **weights, b=None, lengths=None, **states,
                 dims={"x": ["t", "n", 3]}, outputs=2, hidden_size=2)  # fmt: skip
    layers = f"Transpose ShapeOf Gather Gather Broadcast {op_type}Sequence Transpose Transpose"
    return probe(f"sequences_of_known_batch: {op_type}", layers, row)


WRONG += [*LOOPED, *IN_PLACE, *UNREAD, NONE]
REFUSED += [
    *(constant_states(op_type, gates) for op_type, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))),
    *(
        scanned(
            f"loop_states_of_narrow_types: a slice of {kind.__name__} handed on", "t = Identity (row)",
            "TensorIterator Squeeze", kind=kind, expect=numbers(4, 2, 3)[-1].astype(kind),
        )
        for kind in (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu)
    ),
]  # fmt: skip
