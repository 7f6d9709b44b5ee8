"""Layers that compute: normalisations, attention, resizing, transforms, convolutions and products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from onnx import helper, numpy_helper

from tests.random_data import generator
from tests.rows.onnx.fused_by_the_plug_in import WINDOWS, padded_and, reduced_and, shuffled
from tests.rows.row import REFERENCE, const

from .rows import Probe, f32, ints, numbers, probe, several, single

# --- arithmetic ---

BOUND = 1 << 30


def whole(dtype: Any, *shape: int, low: int = -BOUND, high: int = BOUND, seed: int = 5) -> np.ndarray[Any, Any]:
    return generator(seed).integers(low, high, shape).astype(dtype)


def arithmetic(rule: str, op_type: str, opset: int, layer: str, what: str = "", **arguments: Any) -> Probe:
    return probe(f"{rule}: {op_type}{what}", layer, single(op_type, opset, **arguments))


def reduced(op_type: str, opset: int, x: Any, rule: str = "integer_reductions", **more: Any) -> Probe:
    return arithmetic(rule, op_type, opset, op_type, f" of {x.dtype}{list(x.shape)}", x=x, axes=const(ints(1)), **more)


INTEGERS = "integer_arithmetic"
FIFTY = whole(np.int32, 3, 50)
NEAR = {"a": np.array([1 << 26, 7], np.int32), "b": np.array([(1 << 26) + 1, 7], np.int32)}
FAR = {"a": np.array([3_000_000_000, 5], np.uint32), "b": np.array([7, 4_000_000_000], np.uint32)}
PAIR = {"a": whole(np.int32, 40), "b": whole(np.int32, 40, seed=6)}
ENDLESS = {"a": np.float32([5, -7, 3, np.inf, -np.inf, np.nan]), "b": np.float32([np.inf, -np.inf, 2, *[np.inf] * 3])}
NAN = {"a": np.array([np.nan, 2], np.float32), "b": np.array([1, 1], np.float32)}
BYTES = {name: whole(np.uint8, 40, low=1, high=256, seed=seed) for seed, name in enumerate("ab")}
TRUTH = np.array([[True, False], [False, False]])
ARITHMETIC: list[Probe] = [
    reduced("ReduceSum", 13, np.array([[3_000_000_000, 5], [1, 4_000_000_000]], np.uint32), expect=REFERENCE),
    reduced("ReduceSum", 13, FIFTY >> 6),
    reduced("ReduceL1", 18, FIFTY >> 6),
    reduced("ReduceMean", 18, np.abs(FIFTY[:, 1:])),
    reduced("ReduceMean", 18, np.array([[250, 251, 255], [1, 3, 5]], np.uint8), expect=np.uint8([[252], [3]])),
    reduced("ReduceMax", 18, FIFTY),
    arithmetic(INTEGERS, "Div", 14, "Divide", a=PAIR["a"], n=const(np.int32(3))),
    arithmetic(INTEGERS, "Mod", 13, "Mod", " of C", **PAIR, fmod=1),
    arithmetic(INTEGERS, "Mod", 13, "FloorMod", **PAIR),
    arithmetic(INTEGERS, "Pow", 15, "Power", a=PAIR["a"] % 1800 - 900, n=const(np.int32(3))),
    arithmetic(INTEGERS, "Equal", 19, "Equal", **NEAR),
    arithmetic(INTEGERS, "Less", 13, "Less", **NEAR),
    arithmetic(INTEGERS, "LessOrEqual", 16, "LessEqual", **FAR),
    arithmetic(INTEGERS, "Max", 13, "Maximum", **FAR),
    arithmetic("saturated_8_bit_integers", "Add", 14, "Add", **BYTES),
    arithmetic("saturated_8_bit_integers", "Div", 14, "Divide", **BYTES, dims={"a": "n", "b": "n"}),
    arithmetic("right_shift_of_unsigned", "BitShift", 11, "BitwiseRightShift", a=np.uint32([4_000_000_000, 9]),
        n=const([3, 1], np.uint32), direction="RIGHT"),
    arithmetic("mod_by_infinity", "Mod", 13, "Mod", **ENDLESS, fmod=1),
    arithmetic("comparisons_with_nan", "Greater", 13, "Greater", **NAN),
    arithmetic("comparisons_with_nan", "GreaterOrEqual", 16, "GreaterEqual", **NAN),
    # onnxruntime's mean of nothing is 0.
    reduced("ReduceMean", 18, np.zeros((2, 0), np.float32), "dynamic_reductions", dims={"x": (2, "n")},
            expect=np.float32([[np.nan], [np.nan]])),
]  # fmt: skip
ARITHMETIC_REFUSED = [arithmetic("dynamic_reductions", "ReduceMax", 20, "ReduceLogicalOr", x=TRUTH, axes=ints(1))]

# --- groups ---

GROUPS = numbers(2, 4) ** 2
SCALE, BIAS = np.array([1, 2, 3, 4], np.float32), np.array([0, 1, 0, 1], np.float32)


def groups(name: str, kind: Any, *dims: str | int) -> Probe:
    row = single("GroupNormalization", 21, x=GROUPS.astype(kind), s=const(SCALE, kind), b=const(BIAS, kind),
                 num_groups=2, epsilon=1.0, dims={"x": dims})  # fmt: skip
    return probe(name, "GroupNormalization", row)


# --- attention ---


def attention(
    is_fused: bool, dimensions: Sequence[int] = (2, 4, 4, 9, 16), shapes: bool = True, transposed: bool = False
) -> Any:
    """Attention of doubled or of ``transposed`` queries, with a transposed output; ``is_fused`` is ONNX's single node."""
    batch, heads, steps, keys, width = dimensions
    before = "p = Transpose <perm = [0, 2, 1, 3]> (q)" if transposed else "p = Add (q, q)"
    one = "t = Transpose <perm = [0, 1, 3, 2]> (k) a = Attention (p, t, v)"
    plain = "scores = MatMul (p, k) shares = Softmax (scores) a = MatMul (shares, v)"
    feeds = {
        "q": np.sin(numbers(batch, steps, heads, width) if transposed else numbers(batch, heads, steps, width)),
        "k": np.cos(numbers(batch, heads, width, keys)),
        "v": np.sin(2 * numbers(batch, heads, keys, width)),
    }
    nodes = f"{before} {one if is_fused else plain} y = Transpose <perm = [0, 2, 1, 3]> (a)"
    dims = None if shapes else {name: [f"{name}{axis}" for axis in range(4)] for name in feeds}
    return several(nodes, dims, opset=23, **feeds)


FUSED = "Add Transpose ScaledDotProductAttention Transpose"
ATTENDED = [
    probe("attention_transposed_in_place: one layer", FUSED, attention(True)),
    probe("attention_transposed_in_place: products", "Add MatMul SoftMax MatMul Transpose", attention(False)),
]

# --- resizing ---


def resized(what: str, mode: str, axes: list[int], *shape: int) -> Probe:
    """From n to 2n - 1 places along each axis."""
    sizes = const([2 * shape[axis] - 1 for axis in axes])
    row = single("Resize", 19, x=np.sin(numbers(*shape)), roi=None, scales=None, s=sizes, mode=mode, axes=axes,
                 expect=REFERENCE)  # fmt: skip
    return probe(f"interpolate_many_axes: {mode}{what}", "Interpolate", row)


def resized_from_shapes(kind: Any, axes: Sequence[int], *shape: int) -> Any:
    """Constants scaled by what the shape of x is on average, resized to one more along some axes."""
    nodes = f"""shape = Shape (x) dimensions = Cast <to = {helper.np_dtype_to_tensor_dtype(np.dtype(kind))}> (shape)
        mean = ReduceMean <keepdims = 0> (dimensions, first) scaled = Mul (w, mean)
        y = Resize <mode = "linear"> (scaled, , , sizes)"""
    sizes = [dimension + (axis in axes) for axis, dimension in enumerate(shape)]
    constants = {"w": const(np.sin(numbers(*shape)), kind), "first": const(ints(0)), "sizes": const(sizes)}
    return several(nodes, opset=18, x=numbers(2, 3), **constants)


def resized_channels(op_type: str, layer: str, *shape: int) -> Probe:
    more = [dimension + 2 * (axis == 1) for axis, dimension in enumerate(shape)]
    constants = {"sizes": const(more), "c": const(numbers(more[1], *[1] * (len(shape) - 2)))}
    nodes = f'r = Resize <mode = "nearest"> (x, , , sizes) y = {op_type} (r, c)'
    row = several(nodes, x=np.sin(numbers(*shape)), **constants)
    return probe(f"fusion_guards: {op_type} of resized channels of {len(shape)}", f"Interpolate {layer}", row)


RESIZED = [resized(", rank 4", "cubic", [1, 2, 3], 2, 3, 4, 5), resized(", rank 3", "cubic", [0, 1], 3, 4, 5)]
RESIZED_REFUSED = [
    *(resized(" from the front", mode, [0, 1, 2], 2, 3, 4, 5) for mode in ("linear", "cubic")),
    *(
        probe(f"interpolate_many_axes: linear from shapes, axes {axes} of {len(shape)}",
              "ShapeOf Convert ReduceMean Multiply Interpolate", resized_from_shapes(np.float32, axes, *shape))
        for axes, shape in (([1], (3, 4)), ([1, 2], (2, 3, 4)), ([3], (2, 3, 4, 5)), ([2, 4], (2, 3, 4, 5, 2)))
    ),
    resized_channels("Mul", "Multiply", 5, 6),
    resized_channels("Add", "Add", 2, 5, 6),
    resized_channels("PRelu", "PReLU", 2, 5, 6),
]  # fmt: skip

# --- signals ---

SIGNAL = np.array([[[1], [2], [0], [-1], [3], [2]]], np.float32)
SPECTRUM = np.array([[[1, 0], [2, 1], [0, -3], [-1, 2]], [[4, 1], [2, 2], [1, 1], [0, 5]]], np.float32)
NINE = {"n": const(np.int64(9)), "a": const(np.int64(1)), "onesided": 1}
SIGNALS = [
    probe("dft_of_short_signals: back", "IRDFT Unsqueeze", single("DFT", 20, x=SPECTRUM, **NINE, inverse=1)),
    probe("lrn_fractional_bias", "LRN", single("LRN", 13, x=numbers(2, 5, 3, 1), size=3, bias=1.5, alpha=0.5)),
]

# --- convolutions ---


def strided(what: str, rank: int, nodes: str, layers: str, pads: int = 1, strides: int = 2) -> Probe:
    """Layers, a convolution by a kernel of one element over padded data, and one more by such a kernel."""
    constants = {"w": np.cos(numbers(3, 4, *[1] * rank)), "w3": np.sin(numbers(4, 4, *[3] * rank))}
    constants |= {"v": np.cos(numbers(2, 3, *[1] * rank)), "p": ints(*[0, 0, *[1] * rank] * 2)}
    first = f"<strides = {[strides] * rank}, pads = {[pads] * 2 * rank}>"
    nodes = f"{nodes} c = Conv {first} (d, w) y = Conv <strides = {[3 - strides] * rank}> (c, v)"
    used = {name: const(value) for name, value in constants.items() if f", {name})" in nodes}
    row = several(nodes, x=np.sin(numbers(1, 4, *range(7, 7 + rank))), **used)
    return probe(f"padded_pointwise_convolutions: {what}", f"{layers} Convolution Convolution", row)


STRIDED = [
    *(
        strided(f"rank {rank}, {before}", rank, nodes, layer)
        for rank in (1, 2, 3)
        for before, nodes, layer in (("Relu", "d = Relu (x)", "ReLU"), ("Conv", "d = Conv (x, w3)", "Convolution"))
    ),
    strided("Pad", 2, "a = Relu (x) d = Pad (a, p)", "ReLU", pads=0),
    strided("strides behind", 2, "d = Relu (x)", "ReLU", strides=1),
]  # fmt: skip
NOT_FINITE = np.array([np.nan, 1, -5, 5, np.inf, -np.inf, 0.3], np.float32)
SIGMOIDS = [
    probe(f"hard_sigmoid_of_nan{what}", "HardSigmoid", single("HardSigmoid", opset, x=x, **attributes))
    for what, opset, x, attributes in (
        ("", 6, NOT_FINITE, {}),
        (": a slope of 0", 22, NOT_FINITE, {"alpha": 0.0, "beta": 0.25}),
        (": 16 bits", 22, NOT_FINITE.astype(np.float16), {"alpha": 0.5}),
    )
]

# --- reductions and products ---


def product_of_integers() -> Any:
    r = generator(2)
    a, b = (r.integers(-(2**14), 2**14, shape).astype(np.int32) for shape in ((3, 200), (200, 4)))
    return single("MatMul", 13, a=a, b=b)


def compressed(
    name: str, shape: Sequence[int], scale: Sequence[int], block: int, stored: Any, layers: str, reader: str = "MatMul"
) -> Probe:
    """Weights of 4 or 8 bits, with a scale for each index along their first dimension, or for each of its blocks."""
    r = generator(5)
    low, high = (0, 16) if stored is ml_dtypes.uint4 else (-128, 128)
    constants = {"w": const(r.integers(low, high, shape), stored), "s": f32(r.uniform(0.1, 1, scale))}
    is_product = reader == "MatMul"
    x = r.normal(size=(3, shape[0])).astype(np.float32) if is_product else ints(0, 7, 5)
    blocks = f", block_size = {block}" if block else ""
    nodes = f"""d = DequantizeLinear <axis = {0 if is_product else 1}{blocks}> (w, s)
        y = {reader} ({"x, d" if is_product else "d, x"})"""
    return probe(f"scales_of_compressed_weights: {name}", layers, several(nodes, opset=21, x=x, **constants))


U4, BY_COLUMN = ml_dtypes.uint4, "Convert Multiply MatMul"
COMPRESSED = [
    compressed("blocks that do not divide the rows", (40, 24), (2, 24), 32, U4, BY_COLUMN),
    compressed("blocks of 5", (40, 24), (8, 24), 5, U4, "Convert Multiply Reshape MatMul"),
    compressed("columns", (40, 24), (40,), 0, np.int8, BY_COLUMN),
    compressed("columns of 4 bits", (40, 24), (40,), 0, U4, BY_COLUMN),
]
TABLE = compressed("columns of a table", (24, 40), (40,), 0, np.int8, "Convert Multiply Gather", "Gather")

# --- comparisons of float64 ---


def tree_of_doubles() -> Any:
    """One node, whose threshold lies between the two inputs."""
    x = np.array([[np.nextafter(np.float32(1), np.float32(0))], [1]], np.float64)
    lists = {f"nodes_{name}": [0, 0, 0] for name in ("treeids", "featureids")} | {"nodes_nodeids": [0, 1, 2]}
    targets = {"target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "n_targets": 1}
    return single(
        "TreeEnsembleRegressor", 3, domain="ai.onnx.ml", x=x, **lists, **targets,
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        nodes_values_as_tensor=numpy_helper.from_array(np.array([x.sum() / 2, 0, 0]), "v"),
        target_weights_as_tensor=numpy_helper.from_array(np.array([1.0, 2.0]), "w"),
    )  # fmt: skip


def compared(op_type: str, layer: str, is_swapped: bool) -> Probe:
    """Numbers of float32 on both sides of thresholds that float32 does not have."""
    low, high = np.float32([1, 3, 5]), np.nextafter(np.float32([1, 3, 5]), np.float32(9))
    high = np.where([True, False, True], high, np.nextafter(low, np.float32(0)))
    both = {"x": np.stack([low, high]).astype(np.float64), "t": const((low.astype(np.float64) + high) / 2)}
    row = single(op_type, 16, **dict(reversed(both.items()) if is_swapped else both))
    return probe(f"float64_thresholds: {op_type}{', swapped' * is_swapped}", layer, row)


THRESHOLDS = [
    probe("float64_thresholds: tree", "Gather LessEqual Select Gather ReduceSum Convert", tree_of_doubles()),
    *(
        compared(op_type, layer, is_swapped)
        for op_type, layer in {"Less": "Less", "LessOrEqual": "LessEqual", "Greater": "Greater",
                               "GreaterOrEqual": "GreaterEqual"}.items()
        for is_swapped in (False, True)
    ),
]  # fmt: skip

# --- what is fused ---

DATA = numbers(2, 3, 8)
ROWS_OF_8 = {"x": ["n", 3, 8]}
FOUR = f32(np.ones((1, 1, 1, 1)))
RMS = """squares = Mul (x, x) mean = ReduceMean <axes = [-1]> (squares) sum = Add (mean, epsilon) root = Sqrt (sum)
    normalized = Div (x, root) scaled = Mul (normalized, scale) largest = ReduceMax <keepdims = 0> (root)
    y = Add (scaled, largest)"""
"""An RMS normalization whose root something else reads, too."""


def higher_rank(name: str, nodes: str, layers: str, **constants: Any) -> Probe:
    """Constants of four dimensions where data have three."""
    return probe(f"constants_of_higher_rank: {name}", layers, several(nodes, ROWS_OF_8, x=DATA, **constants))


def two_branches(op_type: str, x: np.ndarray[Any, Any], slopes: np.ndarray[Any, Any]) -> Any:
    """PReLU as the ReLU of the data beside that of the negative data times slopes."""
    nodes = f"above = Relu (x) n = Neg (x) below = Relu (n) scaled = Mul (slopes, below) y = {op_type} (above, scaled)"
    return several(nodes, x=x - x.mean(), slopes=const(slopes))


BRANCHES = "ReLU Negative ReLU Multiply"
HIGHER = [
    higher_rank("Clamp", "t = Max (x, c) y = Min (t, d)", "Maximum Minimum", c=f32([[[[-1]]]]), d=f32(0.5)),
    higher_rank(
        "Swish", "t = Mul (x, c) s = Sigmoid (t) y = Mul (x, s)", "Multiply Sigmoid Multiply", c=f32([[[[1.5]]]])
    ),
    higher_rank("SoftPlus", "e = Exp (x) t = Add (c, e) y = Log (t)", "Exp Add Log", c=FOUR),
    higher_rank(
        "bias", "t = MatMul (x, w) y = Add (t, b)", "MatMul Add", w=const(numbers(8, 5)), b=const(numbers(1, 1, 1, 5))
    ),
    probe("constants_of_higher_rank: one number", "ReduceMean Subtract Power ReduceMean Add Sqrt Divide",
          several("""m = ReduceMean <axes = [-1]> (x) d = Sub (x, m) p = Pow (d, two)
          v = ReduceMean <axes = [-1]> (p) a = Add (v, c) s = Sqrt (a) y = Div (d, s)""", {"x": [1, 2, "s", 8]},
          x=numbers(1, 2, 3, 8), two=f32(2), c=f32(np.full((2, 1, 1, 1, 1), 1e-3)))),
    probe("constants_of_higher_rank: epsilon", "Multiply ReduceMean Add Sqrt Divide Multiply ReduceMax Add",
          several(RMS, x=DATA, epsilon=f32([[[[1e-5]]]]), scale=const(numbers(8)))),
    *(
        probe(f"slopes_of_columns: {op_type} of rank {len(shape)}", f"{BRANCHES} {layer}",
              two_branches(op_type, numbers(*shape), numbers(8)))
        for op_type, layer in (("Sub", "Subtract"), ("Add", "Add"))
        for shape in ((2, 8, 8), (2, 8, 3, 8))
    ),
    probe("fusion_guards: constants", "ReduceMean Add", reduced_and("ReduceMean", 2, 1, "Add")),
    probe("fusion_guards: reshape", "ReduceMax Reshape",
          several("r = ReduceMax <axes = [0], keepdims = 0> (x) y = Reshape (r, target)",
          x=generator(1).random((4, 2, 3), np.float32), target=const([1, 6]))),
    *(
        probe(f"fusion_guards: a pad before {window}, {auto_pad}", f"Pad {WINDOWS[window][2]}",
              padded_and(window, auto_pad, strides, 2, ["n", 4, "h", "w"]))
        for auto_pad, strides in (("SAME_UPPER", 1), ("SAME_LOWER", 2))
        for window in ("Conv", "Group", "AveragePool", "Counting")
    ),
]  # fmt: skip

ANGLES = np.tile(numbers(5, 4), 2)
"""Those of rotary embeddings, for rotated parts of three and five columns."""
UNEVEN = several(
    """a = Slice (x, begin, place, last) b = Slice (x, place, end, last) n = Neg (b) r = Concat <axis = -1> (n, a)
    p = Mul (x, cos) q = Mul (r, sin) y = Add (p, q)""",
    x=numbers(2, 3, 5, 8), cos=const(np.cos(ANGLES)), sin=const(np.sin(ANGLES)),
    begin=const([0]), place=const([3]), end=const([8]), last=const([-1]),
)  # fmt: skip
ROTATED = probe("uneven_rotations", "Multiply Slice Negative Slice Concat Multiply Add", UNEVEN)
MAGIC = np.float32(3 << 22)
"""A number to which float32 adds whole numbers alone."""
ROUNDED = [
    probe(f"sums_that_round: {last}", f"Add {layer}", several(f"t = Add (x, c) y = {last} (t, d)",
          x=numbers(4) * np.float32(0.3), c=f32(MAGIC), d=f32(sign * MAGIC)))
    for last, layer, sign in (("Sub", "Subtract", 1), ("Add", "Add", -1))
]  # fmt: skip
SWISH = "t = Mul (x, b) s = Sigmoid (t) y = Mul (x, s)"
SWISHED = "Multiply Sigmoid Multiply"
SINES = np.sin(DATA)
CHANNELS, KERNELS = const(numbers(4, 1, 1)), const(np.sin(numbers(4, 4, 3, 3)))
WIDENED = [
    probe("widening_factors: a beta that widens", SWISHED,
          several(SWISH, x=SINES[:1], b=f32(1.5 * np.ones((2, 3, 8))))),
    *(
        probe(f"widening_factors: slopes of shape {list(slopes)} beside data of {list(data)}", f"{BRANCHES} Subtract",
              two_branches("Sub", numbers(*data), numbers(*slopes)))
        for data, slopes in (((2, 3, 8), (2, 1, 1, 1)), ((2, 3, 1), (1, 1, 8)), ((3,), (2, 3)))
    ),
]  # fmt: skip
WIDENED_REFUSED = [
    probe("widening_factors: a computed beta", SWISHED, several(SWISH, x=SINES, b=np.full(1, 1.5, np.float32))),
    probe("widening_factors: a vector", "MatMul Multiply", several("t = MatMul (x, w) y = Mul (t, c)", x=DATA,
          w=const(numbers(8)), c=f32(0.5))),
    *(
        probe(f"widening_factors: {op_type} of channels that a {before} adds", f"{layer_before} {layer}",
              several(f"t = {before} (x, c) y = {op_type} (t, w)", x=numbers(2, 1, 6, 6), c=CHANNELS, w=KERNELS))
        for op_type, layer in (("Conv", "Convolution"), ("ConvTranspose", "ConvolutionBackpropData"))
        for before, layer_before in (("Mul", "Multiply"), ("Div", "Divide"))
    ),
]  # fmt: skip
F, B = np.array([1, 60, 2, 70], np.float32), np.array([True, False, False, True])
LARGE = np.array([(1 << 24) + 1, -(1 << 25) - 1, 7, (1 << 30) + 5], np.int32)
LOW, HIGH = const(np.int32(-(1 << 25) - 1)), const(np.int32((1 << 29) + 1))
OPEN = dict.fromkeys("fib", "n")
SELECTED = [
    *(
        probe(f"selected_integers: {name}", f"{layers} Select", several(f"{nodes} y = Where (c, i, high)", OPEN, f=F,
              i=LARGE, b=B, high=HIGH, **constants))
        for name, nodes, layers, constants in (
            ("a comparison of floats", "c = Less (f, fifty)", "Less", {"fifty": f32(50)}),
            ("a conjunction", "d = Less (f, fifty) c = And (d, b)", "Less LogicalAnd", {"fifty": f32(50)}),
            ("a disjunction", "d = IsNaN (f) c = Or (d, b)", "IsNaN LogicalOr", {}),
        )
    ),
    *(
        probe(f"fusion_guards: {layers.replace(' ', ' and ')}", layers, several(nodes, i=LARGE, low=LOW, high=HIGH))
        for layers, nodes in (
            ("Maximum Minimum", "t = Max (i, low) y = Min (t, high)"),
            ("Minimum Maximum", "t = Min (high, i) y = Max (t, low)"),
        )
    ),
]  # fmt: skip
PRODUCTS = probe("integer_products", "MatMul", product_of_integers())
LOWER_RANK = several("scores = MatMul (q, k) weights = Softmax <axis = -1> (scores) y = MatMul (weights, v)",
                     q=numbers(2, 5, 8) / 80, k=numbers(2, 8, 6) / 96, v=numbers(1, 2, 6, 7))  # fmt: skip
"""Scores of three dimensions, values of four."""
STACKED = single("MatMul", 13, x=numbers(1, 2, 3), w=const(numbers(4, 3, 5)), dims={"x": ["b", "t", "i"]})
WRONG = [
    *RESIZED, *ATTENDED, *SIGNALS, *STRIDED, *SIGMOIDS, *HIGHER, ROTATED, *ROUNDED, *WIDENED, PRODUCTS, *SELECTED,
    *COMPRESSED, *THRESHOLDS,
]  # fmt: skip
REFUSED = [
    *(
        probe(f"fusion_guards: {name}", "Reshape Transpose Reshape ReLU", shuffled(name, ["n", 12, 4, 5]))
        for name in ("a group of any number", "rows of any number", "another order")
    ),
    probe("attention_of_lower_rank", "MatMul SoftMax MatMul", LOWER_RANK),
    *WIDENED_REFUSED,
    *RESIZED_REFUSED,
    probe("matmul_by_stacked_weights", "MatMul", STACKED),
    probe("dft_of_short_signals", "Squeeze RDFT", single("DFT", 20, x=SIGNAL, **NINE)),
    groups("group_normalization_of_rank_2", np.float32, "n", "c"),
    groups("layers_of_narrow_types: bf16 in groups", ml_dtypes.bfloat16, 2, 4),
]
SEVEN = numbers(1, 1, 1, 1, 1, 1, 8)
CRASHING = [TABLE, probe("constants_of_higher_rank: slopes", f"{BRANCHES} Subtract", two_branches("Sub", DATA, SEVEN))]
