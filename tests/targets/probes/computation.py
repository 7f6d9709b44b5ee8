"""Layers that compute: normalisations, attention, resizing, transforms, convolutions and products."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.engines import node_model
from tests.random_data import generator
from tests.targets.test_fusion_guards import padded_and, reduced_and, shuffled

from .rows import Probe, Row, ints, numbers, several, single

# --- groups ---

GROUPS = numbers(2, 4) ** 2
PER_CHANNEL = {"s": np.array([1, 2, 3, 4], np.float32), "b": np.array([0, 1, 0, 1], np.float32)}


def grouped(kind: Any) -> list[np.ndarray[Any, Any]]:
    pairs = GROUPS.reshape(2, 2, 2).astype(np.float64)
    centred = pairs - pairs.mean(2, keepdims=True)
    scaled = (centred / np.sqrt(pairs.var(2, keepdims=True) + 1)).reshape(2, 4)
    return [(scaled * PER_CHANNEL["s"] + PER_CHANNEL["b"]).astype(kind)]


def normalization_of_groups(kind: Any, dimensions: Sequence[str | int]) -> Callable[[], Probe]:
    constants = {name: value.astype(kind) for name, value in PER_CHANNEL.items()}
    inputs = {"x": GROUPS.astype(kind)}
    return single("GroupNormalization", 21, inputs, constants, {"x": dimensions}, num_groups=2, epsilon=1.0)


# --- attention ---


def attention(
    fused: bool, dimensions: Sequence[int] = (2, 4, 4, 9, 16), shapes: bool = True, transposed: bool = False
) -> Probe:
    """Attention of doubled or of ``transposed`` queries, with a transposed output; ``fused`` is ONNX's single node."""
    batch, heads, steps, keys, width = dimensions
    feeds = {
        "q": np.sin(numbers(batch, steps, heads, width) if transposed else numbers(batch, heads, steps, width)),
        "k": np.cos(numbers(batch, heads, width, keys)),
        "v": np.sin(2 * numbers(batch, heads, keys, width)),
    }
    before = helper.make_node("Transpose", ["q"], ["queries"], perm=[0, 2, 1, 3])
    plain = [
        helper.make_node("MatMul", ["queries", "k"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"]),
        helper.make_node("MatMul", ["shares", "v"], ["a"]),
    ]
    one = [
        helper.make_node("Transpose", ["k"], ["k_transposed"], perm=[0, 1, 3, 2]),
        helper.make_node("Attention", ["queries", "k_transposed", "v"], ["a"]),
    ]
    nodes = [
        before if transposed else helper.make_node("Add", ["q", "q"], ["queries"]),
        *(one if fused else plain),
        helper.make_node("Transpose", ["a"], ["y"], perm=[0, 2, 1, 3]),
    ]
    declared = {name: array.shape if shapes else [None] * 4 for name, array in feeds.items()}
    return several(nodes, feeds, {}, declared, opset=23)


ATTENDED = [
    Row(
        "attention_transposed_in_place: one layer",
        lambda: attention(True),
        "Add Transpose ScaledDotProductAttention Transpose",
    ),
    Row("attention_transposed_in_place: products", lambda: attention(False), "Add MatMul SoftMax MatMul Transpose"),
]


# --- resizing ---


def resized(mode: str, axes: list[int], *shape: int) -> Callable[[], Probe]:
    wanted = ints(*(2 * shape[axis] - 1 for axis in axes))
    attributes = {"mode": mode, "axes": axes}
    return single("Resize", 19, {"x": numbers(*shape) ** 2}, {"s": wanted}, order=["x", "", "", "s"], **attributes)


def doubled(array: np.ndarray[Any, Any], axis: int, kernel: Callable[[float], float]) -> np.ndarray[Any, Any]:
    """``array`` from n to 2n - 1 places along ``axis``, each a sum over places weighted by their distances."""
    dimension = array.shape[axis]
    count = 2 * dimension - 1
    weights = np.zeros((count, dimension))
    for place in range(count):
        at = (place + 0.5) * dimension / count - 0.5
        for source in range(int(np.floor(at)) - 1, int(np.floor(at)) + 3):
            weights[place, min(max(source, 0), dimension - 1)] += kernel(abs(at - source))
    return np.moveaxis(np.tensordot(weights, array, (1, axis)), 0, axis)


def linear(distance: float) -> float:
    return max(0.0, 1 - distance)


def cubic(distance: float) -> float:
    a, d = -0.75, distance
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def by_hand(kernel: Callable[[float], float], axes: list[int], *shape: int) -> list[np.ndarray[Any, Any]]:
    made = (numbers(*shape) ** 2).astype(np.float64)
    for axis in axes:
        made = doubled(made, axis, kernel)
    return [made.astype(np.float32)]


RESIZED = [
    Row(
        f"interpolate_many_axes: cubic, rank {len(shape)}",
        resized("cubic", axes, *shape),
        "Interpolate",
        by_hand(cubic, axes, *shape),
    )
    for axes, shape in (([1, 2, 3], (2, 3, 4, 5)), ([0, 1], (3, 4, 5)))
]
RESIZED_IN_FRONT = [
    Row(
        f"interpolate_many_axes: {kernel.__name__} from the front",
        resized(kernel.__name__, [0, 1, 2], 2, 3, 4, 5),
        "Interpolate",
        by_hand(kernel, [0, 1, 2], 2, 3, 4, 5),
    )
    for kernel in (linear, cubic)
]


def resized_from_shapes(kind: Any, axes: Sequence[int], *shape: int) -> Callable[[], Probe]:
    """Constants scaled by what the shape of x is on average, resized to one more along some axes."""

    def build() -> Probe:
        stored = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        constants = {
            "w": np.sin(numbers(*shape)).astype(kind),
            "first": ints(0),
            "sizes": ints(*(dimension + (axis in axes) for axis, dimension in enumerate(shape))),
        }
        nodes = [
            helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Cast", ["shape"], ["dimensions"], to=stored),
            helper.make_node("ReduceMean", ["dimensions", "first"], ["mean"], keepdims=0),
            helper.make_node("Mul", ["w", "mean"], ["scaled"]),
            helper.make_node("Resize", ["scaled", "", "", "sizes"], ["y"], mode="linear"),
        ]
        return several(nodes, {"x": numbers(2, 3)}, constants, {"x": [2, 3]}, opset=18)

    return build


RESIZED_FROM_SHAPES = [
    Row(
        f"interpolate_many_axes: linear from shapes, axes {axes} of {len(shape)}",
        resized_from_shapes(np.float32, axes, *shape),
        "ShapeOf Convert ReduceMean Multiply Interpolate",
    )
    for axes, shape in (([1], (3, 4)), ([1, 2], (2, 3, 4)), ([3], (2, 3, 4, 5)), ([2, 4], (2, 3, 4, 5, 2)))
]


def resized_channels(op_type: str, *shape: int) -> Callable[[], Probe]:
    """Channels that become two more, and a constant for each of them."""

    def build() -> Probe:
        more = [dimension + 2 * (axis == 1) for axis, dimension in enumerate(shape)]
        constants = {"sizes": ints(*more), "c": numbers(more[1], *[1] * (len(shape) - 2))}
        nodes = [
            helper.make_node("Resize", ["x", "", "", "sizes"], ["resized"], mode="nearest"),
            helper.make_node(op_type, ["resized", "c"], ["y"]),
        ]
        return several(nodes, {"x": np.sin(numbers(*shape))}, constants, {"x": shape})

    return build


RESIZED_CHANNELS = [
    Row(f"fusion_guards: {op_type} of resized channels of {len(shape)}", resized_channels(op_type, *shape), layers)
    for op_type, shape, layers in (
        ("Mul", (5, 6), "Interpolate Multiply"),
        ("Add", (2, 5, 6), "Interpolate Add"),
        ("PRelu", (2, 5, 6), "Interpolate PReLU"),
    )
]

# --- signals ---

SIGNAL = np.array([[[1], [2], [0], [-1], [3], [2]]], np.float32)
SPECTRUM = np.array([[[1, 0], [2, 1], [0, -3], [-1, 2]], [[4, 1], [2, 2], [1, 1], [0, 5]]], np.float32)

SIGNALS = [
    Row(
        "dft_of_short_signals: back",
        single("DFT", 20, {"x": SPECTRUM}, {"n": np.int64(9), "a": np.int64(1)}, onesided=1, inverse=1),
        "IRDFT Unsqueeze",
        [np.fft.irfft(SPECTRUM @ [1, 1j], 9, 1)[..., None].astype(np.float32)],
    ),
    Row("lrn_fractional_bias", single("LRN", 13, {"x": numbers(2, 5, 3, 1)}, size=3, bias=1.5, alpha=0.5), "LRN"),
]

# --- convolutions ---


def strided(rank: int, *before: str, pads: int = 1, strides: int = 2) -> Callable[[], Probe]:
    """Layers, a convolution by a kernel of one element over padded data, and one more by such a kernel."""

    def build() -> Probe:
        kernel = np.cos(numbers(3, 4, *[1] * rank))
        more = np.sin(numbers(4, 4, *[3] * rank))
        constants = {"w": kernel, "w3": more, "v": np.cos(numbers(2, 3, *[1] * rank))}
        constants["p"] = ints(*[0, 0, *[1] * rank] * 2)
        made = {
            "Relu": helper.make_node("Relu", ["x"], ["a"]),
            "Conv": helper.make_node("Conv", ["x", "w3"], ["a"]),
            "Pad": helper.make_node("Pad", ["a", "p"], ["b"]),
        }
        nodes = [made[name] for name in before]
        source = nodes[-1].output[0]
        first = {"strides": [strides] * rank, "pads": [pads] * 2 * rank}
        nodes.append(helper.make_node("Conv", [source, "w"], ["c"], **first))
        nodes.append(helper.make_node("Conv", ["c", "v"], ["y"], strides=[3 - strides] * rank))
        used = {name for node in nodes for name in node.input}
        shape = [1, 4, *range(7, 7 + rank)]
        kept = {name: value for name, value in constants.items() if name in used}
        return several(nodes, {"x": np.sin(numbers(*shape))}, kept, {"x": shape})

    return build


STRIDED = [
    *(
        Row(f"padded_pointwise_convolutions: rank {rank}, {before}", strided(rank, before), layers)
        for rank in (1, 2, 3)
        for before, layers in (
            ("Relu", "ReLU Convolution Convolution"),
            ("Conv", "Convolution Convolution Convolution"),
        )
    ),
    Row(
        "padded_pointwise_convolutions: Pad",
        strided(2, "Relu", "Pad", pads=0),
        "ReLU Convolution Convolution",
    ),
    Row(
        "padded_pointwise_convolutions: strides behind",
        strided(2, "Relu", strides=1),
        "ReLU Convolution Convolution",
    ),
]


NOT_FINITE = np.array([np.nan, 1, -5, 5, np.inf, -np.inf, 0.3], np.float32)
SIGMOIDS = [
    Row("hard_sigmoid_of_nan", single("HardSigmoid", 6, {"x": NOT_FINITE}), "HardSigmoid"),
    Row(
        "hard_sigmoid_of_nan: a slope of 0",
        single("HardSigmoid", 22, {"x": NOT_FINITE}, alpha=0.0, beta=0.25),
        "HardSigmoid",
    ),
    Row(
        "hard_sigmoid_of_nan: 16 bits",
        single("HardSigmoid", 22, {"x": NOT_FINITE.astype(np.float16)}, alpha=0.5),
        "HardSigmoid",
    ),
]

# --- reductions and products ---


def constants_after_a_reduction() -> Probe:
    model, data = reduced_and("ReduceMean", 2, 1, "Add", [5, 3, 8])
    return model, {"x": data}


def reshape_after_a_reduction() -> Probe:
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["r"], axes=[0], keepdims=0),
        helper.make_node("Reshape", ["r", "target"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (4, 2, 3))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([1, 6]), "target")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, {"x": generator(1).random((4, 2, 3), np.float32)}


def product_of_integers() -> Probe:
    r = generator(2)
    feeds = {
        name: r.integers(-(2**14), 2**14, shape).astype(np.int32)
        for name, shape in {"a": (3, 200), "b": (200, 4)}.items()
    }
    return node_model("MatMul", feeds, opset=13), feeds


def compressed(
    shape: Sequence[int], scale: Sequence[int], *, reader: str = "MatMul", block: int = 0, stored: Any = ml_dtypes.uint4
) -> Callable[[], Probe]:
    """Weights of 4 or 8 bits, with a scale for each index along their first dimension, or for each of its blocks."""

    def build() -> Probe:
        r = generator(5)
        low, high = (0, 16) if stored is ml_dtypes.uint4 else (-128, 128)
        constants = {"w": r.integers(low, high, shape).astype(stored), "s": r.uniform(0.1, 1, scale).astype(np.float32)}
        axis = 1 if reader == "Gather" else 0
        blocks = {"block_size": block} if block else {}
        feeds = {"x": r.normal(size=(3, shape[0])).astype(np.float32)} if reader == "MatMul" else {"x": ints(0, 7, 5)}
        nodes = [
            helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=axis, **blocks),
            helper.make_node(reader, ["x", "d"] if reader == "MatMul" else ["d", "x"], ["y"]),
        ]
        return several(nodes, feeds, constants, {name: value.shape for name, value in feeds.items()}, opset=21)

    return build


COMPRESSED = [
    Row(
        f"scales_of_compressed_weights: {name}",
        compressed(shape, scale, block=block, stored=stored),
        layers,
    )
    for name, shape, scale, block, stored, layers in (
        ("blocks that do not divide the rows", (40, 24), (2, 24), 32, ml_dtypes.uint4, "Convert Multiply MatMul"),
        ("blocks of 5", (40, 24), (8, 24), 5, ml_dtypes.uint4, "Convert Multiply Reshape MatMul"),
        ("columns", (40, 24), (40,), 0, np.int8, "Convert Multiply MatMul"),
        ("columns of 4 bits", (40, 24), (40,), 0, ml_dtypes.uint4, "Convert Multiply MatMul"),
    )
]
TABLE = Row(
    "scales_of_compressed_weights: columns of a table",
    compressed((24, 40), (40,), reader="Gather", stored=np.int8),
    "Convert Multiply Gather",
)

# --- comparisons of float64 ---


def tree_of_doubles() -> Probe:
    """One node, whose threshold lies between the two inputs."""
    below, above = np.nextafter(np.float32(1), np.float32(0)), np.float32(1)
    feeds = {"x": np.array([[below], [above]], np.float64)}
    lists = {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0]}
    attributes = {
        **lists,
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "nodes_values_as_tensor": numpy_helper.from_array(np.array([(feeds["x"].sum()) / 2, 0, 0]), "v"),
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights_as_tensor": numpy_helper.from_array(np.array([1.0, 2.0]), "w"),
        "n_targets": 1,
    }
    return node_model("TreeEnsembleRegressor", feeds, domain="ai.onnx.ml", opset=3, attributes=attributes), feeds


def compared(op_type: str, is_swapped: bool) -> Callable[[], Probe]:
    """Numbers of float32 on both sides of thresholds that float32 does not have."""
    low, high = np.float32([1, 3, 5]), np.nextafter(np.float32([1, 3, 5]), np.float32(9))
    high = np.where([True, False, True], high, np.nextafter(low, np.float32(0)))
    halfway = (low.astype(np.float64) + high) / 2
    feeds = {"x": np.stack([low, high]).astype(np.float64)}
    return single(op_type, 16, feeds, {"t": halfway}, order=["t", "x"] if is_swapped else ["x", "t"])


THRESHOLDS = [
    Row(
        "float64_thresholds: tree",
        tree_of_doubles,
        "Gather LessEqual Select Gather ReduceSum Convert",
    ),
    *(
        Row(f"float64_thresholds: {op_type}{', swapped' * is_swapped}", compared(op_type, is_swapped), layer)
        for op_type, layer in (
            ("Less", "Less"),
            ("LessOrEqual", "LessEqual"),
            ("Greater", "Greater"),
            ("GreaterOrEqual", "GreaterEqual"),
        )
        for is_swapped in (False, True)
    ),
]

MAGIC = np.float32(3 << 22)
"""A number to which float32 adds whole numbers alone."""
CHANNELS, KERNELS = numbers(4, 1, 1), np.sin(numbers(4, 4, 3, 3))
HIGHER_RANKS = {
    "Clamp": ([("Max", ["x", "c"], -1.0), ("Min", ["t0", "d"], 0.5)], "Maximum Minimum"),
    "Swish": (
        [("Mul", ["x", "c"], 1.5), ("Sigmoid", ["t0"], None), ("Mul", ["x", "t1"], None)],
        "Multiply Sigmoid Multiply",
    ),
    "SoftPlus": ([("Exp", ["x"], None), ("Add", ["c", "t0"], 1.0), ("Log", ["t1"], None)], "Exp Add Log"),
}


def constant_of_higher_rank(layers: Sequence[tuple[str, list[str], float | None]]) -> Callable[[], Probe]:
    """An activation in which the constant ``c`` has four dimensions, and the data three."""

    def build() -> Probe:
        nodes, constants = [], {}
        for index, (op_type, inputs, value) in enumerate(layers):
            nodes.append(helper.make_node(op_type, inputs, [f"t{index}"]))
            for name in {"c", "d"} & set(inputs):
                constants[name] = np.full((1, 1, 1, 1) if name == "c" else (), value, np.float32)
        return several(nodes, {"x": numbers(2, 3, 8)}, constants, {"x": ["n", 3, 8]})

    return build


def bias_of_higher_rank() -> Probe:
    """A matrix multiplication of rank 3, and a bias of rank 4."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Add", ["t", "b"], ["y"])]
    constants = {"w": numbers(8, 5), "b": numbers(1, 1, 1, 5)}
    return several(nodes, {"x": numbers(2, 3, 8)}, constants, {"x": ["n", 3, 8]})


def epsilon_of_higher_rank() -> Probe:
    """An RMS normalization of rank 3 with an epsilon of rank 4, whose root something else reads, too."""
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["squares"]),
        helper.make_node("ReduceMean", ["squares"], ["mean"], axes=[-1]),
        helper.make_node("Add", ["mean", "epsilon"], ["sum"]),
        helper.make_node("Sqrt", ["sum"], ["root"]),
        helper.make_node("Div", ["x", "root"], ["normalized"]),
        helper.make_node("Mul", ["normalized", "scale"], ["scaled"]),
        helper.make_node("ReduceMax", ["root"], ["largest"], keepdims=0),
        helper.make_node("Add", ["scaled", "largest"], ["y"]),
    ]
    constants = {"epsilon": np.full((1, 1, 1, 1), 1e-5, np.float32), "scale": numbers(8)}
    return several(nodes, {"x": numbers(2, 3, 8)}, constants, {"x": [2, 3, 8]})


def slopes_of_higher_rank() -> Probe:
    """A PReLU in two branches, with slopes of more dimensions than the data."""
    return two_branches("Sub", numbers(2, 3, 8), numbers(1, 1, 1, 1, 1, 1, 8))


def two_branches(op_type: str, x: np.ndarray[Any, Any], slopes: np.ndarray[Any, Any]) -> Probe:
    """PReLU as the ReLU of the data beside that of the negative data times slopes."""
    nodes = [
        helper.make_node("Relu", ["x"], ["above"]),
        helper.make_node("Neg", ["x"], ["negative"]),
        helper.make_node("Relu", ["negative"], ["below"]),
        helper.make_node("Mul", ["slopes", "below"], ["scaled"]),
        helper.make_node(op_type, ["above", "scaled"], ["y"]),
    ]
    return several(nodes, {"x": x - x.mean()}, {"slopes": slopes}, {"x": x.shape})


FUSED = [
    *(
        Row(f"constants_of_higher_rank: {name}", constant_of_higher_rank(layers), plain)
        for name, (layers, plain) in HIGHER_RANKS.items()
    ),
    Row("constants_of_higher_rank: bias", bias_of_higher_rank, "MatMul Add"),
    Row(
        "constants_of_higher_rank: epsilon",
        epsilon_of_higher_rank,
        "Multiply ReduceMean Add Sqrt Divide Multiply ReduceMax Add",
    ),
    *(
        Row(
            f"slopes_of_columns: {op_type} of rank {len(shape)}",
            functools.partial(two_branches, op_type, numbers(*shape), numbers(8)),
            f"ReLU Negative ReLU Multiply {layer}",
        )
        for op_type, layer in (("Sub", "Subtract"), ("Add", "Add"))
        for shape in ((2, 8, 8), (2, 8, 3, 8))
    ),
    Row("fusion_guards: constants", constants_after_a_reduction, "ReduceMean Add"),
    Row("fusion_guards: reshape", reshape_after_a_reduction, "ReduceMax Reshape"),
    *(
        Row(
            f"fusion_guards: a pad before {op_type}, {auto_pad}",
            functools.partial(padded_and, op_type, auto_pad, strides, 2, ["n", 4, "h", "w"]),
            f"Pad {layer}",
        )
        for auto_pad, strides in (("SAME_UPPER", 1), ("SAME_LOWER", 2))
        for op_type, layer in (
            ("Conv", "Convolution"),
            ("Group", "GroupConvolution"),
            ("AveragePool", "AvgPool"),
            ("Counting", "AvgPool"),
        )
    ),
]


def formula(
    steps: str, inputs: Mapping[str, Any], constants: Mapping[str, Any], is_open: bool = False
) -> Callable[[], Probe]:
    """A model of steps such as ``t = Mul x c; y = Relu t``; with ``is_open`` of any dimensions."""

    def build() -> Probe:
        nodes = []
        for step in steps.split("; "):
            result, _, call = step.partition(" = ")
            op_type, *names = call.split()
            nodes.append(helper.make_node(op_type, names, [result]))
        shapes = {name: [None] * array.ndim if is_open else array.shape for name, array in inputs.items()}
        return several(nodes, inputs, constants, shapes)

    return build


def uneven_rotation() -> Probe:
    """Rotated parts of three and five columns, with angles as those of rotary embeddings."""
    nodes = [
        helper.make_node("Slice", ["x", "begin", "place", "last"], ["a"]),
        helper.make_node("Slice", ["x", "place", "end", "last"], ["b"]),
        helper.make_node("Neg", ["b"], ["n"]),
        helper.make_node("Concat", ["n", "a"], ["r"], axis=-1),
        helper.make_node("Mul", ["x", "cos"], ["p"]),
        helper.make_node("Mul", ["r", "sin"], ["q"]),
        helper.make_node("Add", ["p", "q"], ["y"]),
    ]
    angles = np.tile(numbers(5, 4), 2)
    places = {"begin": 0, "place": 3, "end": 8, "last": -1}
    constants = {"cos": np.cos(angles), "sin": np.sin(angles), **{name: np.array([at]) for name, at in places.items()}}
    return several(nodes, {"x": numbers(2, 3, 5, 8)}, constants, {"x": [2, 3, 5, 8]})


ROTATED = [
    Row("uneven_rotations", uneven_rotation, "Multiply Slice Negative Slice Concat Multiply Add"),
]
ROUNDED = [
    Row(
        f"sums_that_round: {last}",
        formula(f"t = Add x c; y = {last} t d", {"x": numbers(4) * np.float32(0.3)}, {"c": MAGIC, "d": sign * MAGIC}),
        f"Add {layer}",
    )
    for last, layer, sign in (("Sub", "Subtract", 1), ("Add", "Add", -1))
]
BETA = {"x": np.sin(numbers(2, 3, 8)), "b": np.full(1, 1.5, np.float32)}
SWISH = "t = Mul x b; s = Sigmoid t; y = Mul x s"
WIDENED = [
    Row(
        "widening_factors: a beta that widens",
        formula(SWISH, {"x": BETA["x"]}, {"b": np.full((2, 1, 1, 1), 1.5, np.float32)}),
        "Multiply Sigmoid Multiply",
    )
]
WIDENED += [
    Row(
        f"widening_factors: slopes of shape {list(slopes)} beside data of {list(data)}",
        functools.partial(two_branches, "Sub", numbers(*data), numbers(*slopes)),
        "ReLU Negative ReLU Multiply Subtract",
    )
    for data, slopes in (((2, 3, 8), (2, 1, 1, 1)), ((2, 3, 1), (1, 1, 8)), ((3,), (2, 3)))
]
WIDENED_REFUSED = [
    Row("widening_factors: a computed beta", formula(SWISH, BETA, {}), "Multiply Sigmoid Multiply"),
    Row(
        "widening_factors: a vector",
        formula("t = MatMul x w; y = Mul t c", {"x": numbers(2, 3, 8)}, {"w": numbers(8), "c": np.float32(0.5)}),
        "MatMul Multiply",
    ),
    *(
        Row(
            f"widening_factors: {op_type} of channels that a {before} adds",
            formula(f"t = {before} x c; y = {op_type} t w", {"x": numbers(2, 1, 6, 6)}, {"c": CHANNELS, "w": KERNELS}),
            f"{layer_before} {layer}",
        )
        for op_type, layer in (("Conv", "Convolution"), ("ConvTranspose", "ConvolutionBackpropData"))
        for before, layer_before in (("Mul", "Multiply"), ("Div", "Divide"))
    ),
]
FIFTY = {"fifty": np.float32(50)}
LARGE = {
    "f": np.array([1, 60, 2, 70], np.float32),
    "i": np.array([(1 << 24) + 1, -(1 << 25) - 1, 7, (1 << 30) + 5], np.int32),
    "b": np.array([True, False, False, True]),
}
LOW, HIGH = np.int32(-(1 << 25) - 1), np.int32((1 << 29) + 1)
SELECTED = [
    *(
        Row(
            f"selected_integers: {name}",
            formula(f"{steps}; y = Where c i high", LARGE, {"high": HIGH, **constants}, is_open=True),
            f"{layers} Select",
        )
        for name, steps, layers, constants in (
            ("a comparison of floats", "c = Less f fifty", "Less", FIFTY),
            ("a conjunction", "d = Less f fifty; c = And d b", "Less LogicalAnd", FIFTY),
            ("a disjunction", "d = IsNaN f; c = Or d b", "IsNaN LogicalOr", {}),
        )
    ),
    *(
        Row(f"fusion_guards: {first} and {second}", formula(steps, {"i": LARGE["i"]}, constants), f"{first} {second}")
        for first, second, steps, constants in (
            ("Maximum", "Minimum", "t = Max i low; y = Min t high", {"low": LOW, "high": HIGH}),
            ("Minimum", "Maximum", "t = Min high i; y = Max t low", {"low": LOW, "high": HIGH}),
        )
    ),
]
PRODUCTS = [Row("integer_products", product_of_integers, "MatMul")]

WRONG = [
    *RESIZED,
    *ATTENDED,
    *SIGNALS,
    *STRIDED,
    *SIGMOIDS,
    *FUSED,
    *ROTATED,
    *ROUNDED,
    *WIDENED,
    *PRODUCTS,
    *SELECTED,
    *COMPRESSED,
    *THRESHOLDS,
]


def attention_of_lower_rank() -> Probe:
    """Scores of three dimensions, values of four."""
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["y"]),
    ]
    feeds = {"q": numbers(2, 5, 8) / 80, "k": numbers(2, 8, 6) / 96, "v": numbers(1, 2, 6, 7)}
    return several(nodes, feeds, {}, {name: value.shape for name, value in feeds.items()})


REFUSED = [
    *(
        Row(
            f"fusion_guards: {name}",
            functools.partial(shuffled, name, ["n", 12, 4, 5]),
            "Reshape Transpose Reshape ReLU",
        )
        for name in ("a group of any number", "rows of any number", "another order")
    ),
    Row("attention_of_lower_rank", attention_of_lower_rank, "MatMul SoftMax MatMul"),
    *WIDENED_REFUSED,
    *RESIZED_IN_FRONT,
    *RESIZED_FROM_SHAPES,
    *RESIZED_CHANNELS,
    Row(
        "matmul_by_stacked_weights",
        single("MatMul", 13, {"x": numbers(1, 2, 3)}, {"w": numbers(4, 3, 5)}, {"x": ["b", "t", "i"]}),
        "MatMul",
    ),
    Row(
        "dft_of_short_signals",
        single("DFT", 20, {"x": SIGNAL}, {"n": np.int64(9), "a": np.int64(1)}, onesided=1),
        "Squeeze RDFT",
        [np.fft.rfft(SIGNAL[..., 0], 9, 1).astype(np.complex64).view(np.float32).reshape(1, 5, 2)],
    ),
    Row(
        "group_normalization_of_rank_2",
        normalization_of_groups(np.float32, ["n", "c"]),
        "GroupNormalization",
        grouped(np.float32),
    ),
    Row(
        "layers_of_narrow_types: bf16 in groups",
        normalization_of_groups(ml_dtypes.bfloat16, [2, 4]),
        "GroupNormalization",
        grouped(ml_dtypes.bfloat16),
    ),
]
CRASHING = [
    TABLE,
    Row("constants_of_higher_rank: slopes", slopes_of_higher_rank, "ReLU Negative ReLU Multiply Subtract"),
]
