"""Single operators whose plain layers OpenVINO's CPU plug-in gets wrong or refuses.

Each row is the reason for a rule: :mod:`.test_plain_layers` runs the plain layers in the real plug-in, and holds
which layers they are, and that they are right in this package's executor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.engines import node_model

Probe = tuple[onnx.ModelProto, Mapping[str, np.ndarray[Any, Any]]]


@dataclass(frozen=True)
class Row:
    """A rule with what it is there for: a model, its inputs, and the plain layers it becomes."""

    name: str
    build: Callable[[], Probe]
    layers: str
    expected: Sequence[Any] | None = None
    """What onnxruntime, which is asked otherwise, does not compute."""

    def __str__(self) -> str:
        return self.name


def single(
    op_type: str,
    opset: int,
    inputs: Mapping[str, Any],
    constants: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[Any] | None] | None = None,
    *,
    outputs: int = 1,
    order: Sequence[str] | None = None,
    domain: str = "",
    **attributes: Any,
) -> Callable[[], Probe]:
    """A model of one operator."""

    def build() -> Probe:
        model = node_model(
            op_type,
            inputs,
            opset=opset,
            outputs=outputs,
            attributes=attributes,
            constants=constants,
            order=order,
            shapes=shapes,
            domain=domain,
        )
        return model, inputs

    return build


def several(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Any],
    constants: Mapping[str, Any],
    shapes: Mapping[str, Sequence[Any]],
    opset: int = 17,
) -> Probe:
    """A model of several operators, which returns what the last one gives."""
    graph = helper.make_graph(
        nodes,
        "test",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shapes[name])
            for name, array in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in nodes[-1].output],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), inputs


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


# --- repeating and padding ---


def tile_between_poolings() -> Probe:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[1, 1]),
        helper.make_node("Tile", ["p", "r"], ["t"]),
        helper.make_node("MaxPool", ["t"], ["y"], kernel_shape=[1, 1]),
    ]
    return several(nodes, {"x": numbers(2, 1, 3, 4)}, {"r": ints(1, 2, 1, 1)}, {"x": ["b", 1, "h", "w"]})


MOVED = [
    Row(
        "tiles: several dimensions",
        single("Tile", 13, {"x": numbers(2, 1, 4, 3)}, {"r": ints(1, 2, 2, 1)}, {"x": [None, 1, 4, 3]}),
        "Tile",
    ),
    Row(
        "tiles: repeats at run time",
        single("Tile", 13, {"x": numbers(2, 3, 5, 4), "r": ints(1, 2, 2, 2)}, shapes={"x": [None] * 4}),
        "Tile",
    ),
    Row("tiles: one channel", tile_between_poolings, "MaxPool Tile MaxPool"),
    Row("empty_broadcasts", single("Expand", 13, {"x": numbers(3, 1)}, {"s": ints(3, 0)}), "Broadcast"),
    Row(
        "pads",
        single("Pad", 13, {"x": numbers(2, 3), "v": np.float32(7)}, {"p": ints(0, 1, 2, 0)}, order=["x", "p", "v"]),
        "Pad",
    ),
]

# --- types ---

U2 = numpy_helper.to_array(helper.make_tensor("", onnx.TensorProto.UINT2, [2, 3], [0, 1, 2, 3, 2, 1]))
F4 = numbers(2, 3).astype(ml_dtypes.float4_e2m1fn)
LEVELS = np.array([[0b11100100, 0b00011011], [0b10010011, 0b01101100]], np.uint8)


def there_and_back(kind: int) -> Callable[[], Probe]:
    """Integers cast to fewer bits and back."""

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
        "lowest_bits: unsigned",
        there_and_back(onnx.TensorProto.UINT4),
        "Convert Convert",
        [np.array([3, 1, 12, 8], np.float32)],
    ),
    Row(
        "lowest_bits: signed",
        there_and_back(onnx.TensorProto.INT4),
        "Convert Convert",
        [np.array([3, 1, -4, -8], np.float32)],
    ),
    Row("carried_types: f4e2m1", filled_with(F4[0, 2]), "Broadcast", [np.full((2, 3), F4[0, 2])]),
    Row("carried_types: u2 in Pad", single("Pad", 25, {"x": U2}, {"p": ints(0, 1, 0, 1)}), "Pad", [np.pad(U2, 1)[1:-1]]),
    Row("carried_types: u2 in Broadcast", filled_with(U2[0, 2]), "Broadcast", [np.full((2, 3), U2[0, 2])]),
    Row(
        "gathered_tables",
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

# --- groups ---

GROUPS = numbers(2, 4) ** 2
PER_CHANNEL = {"s": np.array([1, 2, 3, 4], np.float32), "b": np.array([0, 1, 0, 1], np.float32)}


def grouped(kind: Any) -> list[np.ndarray[Any, Any]]:
    pairs = GROUPS.reshape(2, 2, 2).astype(np.float64)
    centred = pairs - pairs.mean(2, keepdims=True)
    scaled = (centred / np.sqrt(pairs.var(2, keepdims=True) + 1)).reshape(2, 4)
    return [(scaled * PER_CHANNEL["s"] + PER_CHANNEL["b"]).astype(kind)]


def normalization_of_groups(kind: Any, extents: Sequence[str | int]) -> Callable[[], Probe]:
    constants = {name: value.astype(kind) for name, value in PER_CHANNEL.items()}
    inputs = {"x": GROUPS.astype(kind)}
    return single("GroupNormalization", 21, inputs, constants, {"x": extents}, num_groups=2, epsilon=1.0)


# --- attention ---


def attention(
    fused: bool, extents: Sequence[int] = (2, 4, 4, 9, 16), shapes: bool = True, turned: bool = False
) -> Probe:
    """Attention of doubled or of ``turned`` queries, whose output is turned; ``fused`` is ONNX's one node for it."""
    batch, heads, steps, keys, width = extents
    feeds = {
        "q": np.sin(numbers(batch, steps, heads, width) if turned else numbers(batch, heads, steps, width)),
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
        helper.make_node("Transpose", ["k"], ["turned"], perm=[0, 1, 3, 2]),
        helper.make_node("Attention", ["queries", "turned", "v"], ["a"]),
    ]
    nodes = [
        before if turned else helper.make_node("Add", ["q", "q"], ["queries"]),
        *(one if fused else plain),
        helper.make_node("Transpose", ["a"], ["y"], perm=[0, 2, 1, 3]),
    ]
    stated = {name: array.shape if shapes else [None] * 4 for name, array in feeds.items()}
    return several(nodes, feeds, {}, stated, opset=23)


ATTENDED = [
    Row("attention_outputs: one layer", lambda: attention(True), "Add Transpose ScaledDotProductAttention Transpose"),
    Row("attention_outputs: products", lambda: attention(False), "Add MatMul SoftMax MatMul Transpose"),
]


# --- resizing ---


def resized(mode: str, axes: list[int], *shape: int) -> Callable[[], Probe]:
    wanted = ints(*(2 * shape[axis] - 1 for axis in axes))
    attributes = {"mode": mode, "axes": axes}
    return single("Resize", 19, {"x": numbers(*shape) ** 2}, {"s": wanted}, order=["x", "", "", "s"], **attributes)


def doubled(array: np.ndarray[Any, Any], axis: int, kernel: Callable[[float], float]) -> np.ndarray[Any, Any]:
    """``array`` from n to 2n - 1 places along ``axis``, each a sum over places weighted by their distances."""
    extent = array.shape[axis]
    count = 2 * extent - 1
    weights = np.zeros((count, extent))
    for place in range(count):
        at = (place + 0.5) * extent / count - 0.5
        for source in range(int(np.floor(at)) - 1, int(np.floor(at)) + 3):
            weights[place, min(max(source, 0), extent - 1)] += kernel(abs(at - source))
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
        f"interpolations: cubic, rank {len(shape)}",
        resized("cubic", axes, *shape),
        "Interpolate",
        by_hand(cubic, axes, *shape),
    )
    for axes, shape in (([1, 2, 3], (2, 3, 4, 5)), ([0, 1], (3, 4, 5)))
]
RESIZED_IN_FRONT = [
    Row(
        f"interpolations: {kernel.__name__} from the front",
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
            "sizes": ints(*(extent + (axis in axes) for axis, extent in enumerate(shape))),
        }
        nodes = [
            helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Cast", ["shape"], ["extents"], to=stored),
            helper.make_node("ReduceMean", ["extents", "first"], ["mean"], keepdims=0),
            helper.make_node("Mul", ["w", "mean"], ["scaled"]),
            helper.make_node("Resize", ["scaled", "", "", "sizes"], ["y"], mode="linear"),
        ]
        return several(nodes, {"x": numbers(2, 3)}, constants, {"x": [2, 3]}, opset=18)

    return build


RESIZED_FROM_SHAPES = [
    Row(
        f"interpolations: linear from shapes, axes {axes} of {len(shape)}",
        resized_from_shapes(np.float32, axes, *shape),
        "ShapeOf Convert ReduceMean Multiply Interpolate",
    )
    for axes, shape in (([1], (3, 4)), ([1, 2], (2, 3, 4)), ([3], (2, 3, 4, 5)), ([2, 4], (2, 3, 4, 5, 2)))
]


def resized_channels(op_type: str, *shape: int) -> Callable[[], Probe]:
    """Channels that become two more, and a constant for each of them."""

    def build() -> Probe:
        more = [extent + 2 * (axis == 1) for axis, extent in enumerate(shape)]
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

# --- others ---

SIGNAL = np.array([[[1], [2], [0], [-1], [3], [2]]], np.float32)
SPECTRUM = np.array([[[1, 0], [2, 1], [0, -3], [-1, 2]], [[4, 1], [2, 2], [1, 1], [0, 5]]], np.float32)

OTHERS = [
    Row(
        "distinct_slices",
        single("Unique", 11, {"x": np.array([[0, 1, 0, 0], [2, 1, 1, 1]], np.float32)}, axis=1, outputs=4),
        "Unique",
    ),
    Row(
        "truths",
        single("Cast", 13, {"x": np.array([0, 0.5, np.nan, -2], np.float32)}, to=onnx.TensorProto.BOOL),
        "Convert",
        [np.array([False, True, True, True])],
    ),
    Row(
        "truths: whole numbers",
        single("Cast", 13, {"x": np.array([0, 1, -(2**31), 256], np.int32)}, to=onnx.TensorProto.BOOL),
        "Convert",
    ),
    Row(
        "ranges",
        single("Range", 11, {"a": np.int64(5), "b": np.int64(2)}, {"d": np.int64(1)}),
        "Range",
    ),
    Row(
        "transforms: back",
        single("DFT", 20, {"x": SPECTRUM}, {"n": np.int64(9), "a": np.int64(1)}, onesided=1, inverse=1),
        "IRDFT Unsqueeze",
        [np.fft.irfft(SPECTRUM @ [1, 1j], 9, 1)[..., None].astype(np.float32)],
    ),
    Row("responses", single("LRN", 13, {"x": numbers(2, 5, 3, 1)}, size=3, bias=1.5, alpha=0.5), "LRN"),
]

# --- loops ---


def scanned(
    nodes: Sequence[onnx.NodeProto], states: Sequence[str], following: Sequence[str], kind: Any = np.float32
) -> Callable[[], Probe]:
    """A Scan over the rows of x, which carries ``states`` round and returns what they end as."""

    def value(name: str, shape: Sequence[int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)

    def build() -> Probe:
        body = helper.make_graph(
            nodes,
            "body",
            [*(value(name, [2, 3]) for name in states), value("row", [2, 3])],
            [value(name, [2, 3]) for name in following],
        )
        inputs = {f"{name}0": (numbers(2, 3) * (i + 1)).astype(kind) for i, name in enumerate(states)}
        ends = [f"{name}_end" for name in states]
        node = helper.make_node("Scan", [*inputs, "x"], ends, num_scan_inputs=1, body=body)
        feeds = {**inputs, "x": numbers(4, 2, 3).astype(kind)}
        return several([node], feeds, {}, {name: array.shape for name, array in feeds.items()}, opset=25)

    return build


LOOPED = [
    Row(
        "narrow_states: a state that stays",
        scanned(
            [helper.make_node("Identity", ["s"], ["t"]), helper.make_node("Identity", ["row"], ["r"])],
            ["s"],
            ["t"],
            ml_dtypes.bfloat16,
        ),
        "TensorIterator",
        [numbers(2, 3).astype(ml_dtypes.bfloat16)],
    ),
    Row(
        "loop_states: a sum in the memory of a slice",
        scanned([helper.make_node("Add", ["row", "s"], ["t"])], ["s"], ["t"]),
        "TensorIterator Squeeze Add",
    ),
    Row(
        "loop_states: a slice handed on",
        scanned(
            [helper.make_node("Add", ["r", "s"], ["t"]), helper.make_node("Identity", ["row"], ["u"])],
            ["r", "s"],
            ["t", "u"],
        ),
        "TensorIterator Add Squeeze",
    ),
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
        "ReLU Pad Convolution Convolution",
    ),
    Row(
        "padded_pointwise_convolutions: strides behind",
        strided(2, "Relu", strides=1),
        "ReLU Convolution Convolution",
    ),
]


def counted(rows: Sequence[Any], backwards: int = 0) -> Callable[[], Probe]:
    """A Scan over rows that its body does not look at: it doubles a state, and returns every one."""

    def build() -> Probe:
        one = helper.make_tensor_value_info("s", onnx.TensorProto.FLOAT, [2])
        others = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("row", "t", "u")]
        nodes = [helper.make_node("Add", ["s", "s"], ["t"]), helper.make_node("Neg", ["t"], ["u"])]
        body = helper.make_graph(nodes, "body", [one, others[0]], others[1:])
        scan = helper.make_node(
            "Scan", ["s0", "x"], ["end", "all"], num_scan_inputs=1, body=body, scan_output_directions=[backwards]
        )
        inputs = {"s0": numbers(2), "x": numbers(4, 3)}
        return several([scan], inputs, {}, {"s0": [2], "x": rows})

    return build


UNREAD = [
    Row("unread_slices", counted([4, 3]), "TensorIterator Add Negative Unsqueeze"),
    Row("unread_slices: a dynamic count", counted(["n", 3]), "TensorIterator Add Negative Unsqueeze"),
    Row("unread_slices: joined backwards", counted([4, 3], 1), "TensorIterator Add Negative Unsqueeze"),
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

WRONG: list[Row] = [*MOVED, *TYPED, *RESIZED, *ATTENDED, *OTHERS, *LOOPED, *STRIDED, *UNREAD, *SIGMOIDS]
"""Other numbers than they should be."""

BOXES = np.array([[[0, 0, 2, 2], [0, 0, 2, 1.9], [3, 3, 4, 4], [0, 0, 1, 1]]], np.float32)
SCORES = np.array([[[0.5, 0.9, 0.7, 0.8]]], np.float32)


REFUSED: list[Row] = [
    Row(
        "narrow_states: a slice handed on",
        scanned([helper.make_node("Identity", ["row"], ["t"])], ["s"], ["t"], ml_dtypes.float4_e2m1fn),
        "TensorIterator Squeeze",
        [numbers(4, 2, 3)[-1].astype(ml_dtypes.float4_e2m1fn)],
    ),
    Row(
        "batched_weights",
        single("MatMul", 13, {"x": numbers(1, 2, 3)}, {"w": numbers(4, 3, 5)}, {"x": ["b", "t", "i"]}),
        "MatMul",
    ),
    Row(
        "suppressions",
        single(
            "NonMaxSuppression",
            11,
            {"boxes": BOXES, "scores": SCORES},
            {"limit": ints(2), "overlap": np.array([0.5], np.float32)},
            {"boxes": [1, 4, "four"]},
        ),
        "NonMaxSuppression",
    ),
    Row("top_of_none", single("TopK", 11, {"x": numbers(3, 4)}, {"k": ints(0)}, outputs=2), "TopK"),
    *RESIZED_IN_FRONT,
    *RESIZED_FROM_SHAPES,
    *RESIZED_CHANNELS,
    Row(
        "single_marks",
        single("Hardmax", 13, {"x": numbers(4)}, shapes={"x": ["n"]}),
        "TopK Squeeze ShapeOf Gather OneHot",
    ),
    Row(
        "transforms",
        single("DFT", 20, {"x": SIGNAL}, {"n": np.int64(9), "a": np.int64(1)}, onesided=1),
        "Squeeze RDFT",
        [np.fft.rfft(SIGNAL[..., 0], 9, 1).astype(np.complex64).view(np.float32).reshape(1, 5, 2)],
    ),
    Row(
        "group_normalizations",
        normalization_of_groups(np.float32, ["n", "c"]),
        "GroupNormalization",
        grouped(np.float32),
    ),
    Row(
        "carried_types: bf16 in groups",
        normalization_of_groups(ml_dtypes.bfloat16, [2, 4]),
        "GroupNormalization",
        grouped(ml_dtypes.bfloat16),
    ),
]
"""What the plug-in does not compile or run."""

CRASHING: list[Row] = [
    Row(
        "slices",
        single(
            "Slice", 13, {"x": numbers(2, 3, 4), "a": ints(2)}, {"s": ints(1), "e": ints(3)}, order=["x", "s", "e", "a"]
        ),
        "Slice",
    ),
]
"""What kills the process."""
