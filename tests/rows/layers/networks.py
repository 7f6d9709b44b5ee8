"""The layers of networks: convolutions, poolings, products, reductions, normalizations, attention, recurrence."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ir_runtime.graph.element_types import u1
from tests.rows.layer import Layer, flags, ints, layers, normal, one, uniform, whole
from tests.rows.row import COARSE, Tolerance, each

WINDOWS: list[dict[str, Any]] = [
    {},
    {"strides": (2, 3), "pads_begin": (1, 0), "pads_end": (0, 2)},
    {"dilations": (2, 1)},
    {"auto_pad": "same_upper", "strides": (2, 1)},
    {"auto_pad": "same_lower", "dilations": (1, 2)},
    {"auto_pad": "valid", "strides": (3, 2)},
]
FLAT: dict[str, Any] = {"strides": (2,), "pads_begin": (1,), "pads_end": (1,), "dilations": (1,)}
SHIFTED: dict[str, Any] = {"strides": (2, 1), "pads_begin": (1, 2), "pads_end": (0, 1), "dilations": (1, 2)}
BITS = (np.random.default_rng(3).integers(0, 2, (4, 3, 3, 2)).astype(np.uint8), u1)
PADDINGS = each("explicit", "same_upper", "same_lower", "valid")
FILTERS = [
    ("ConvolutionBackpropData", (2, 3, 4, 5), (3, 4, 3, 2)),
    ("GroupConvolutionBackpropData", (2, 6, 4, 5), (3, 2, 4, 3, 3)),
]
# The plug-in knows the channels.
OPEN_SPACE = {0: (None, 3, None, None)}


def deformed(window: dict[str, Any]) -> list[Layer]:
    space = (5, 8) if not window else (3, 4)
    offsets, mask = normal(2, 24, *space), uniform(0, 1, 2, 12, *space)
    grid: dict[str, Any] = {"group": 2, "deformable_group": 2, **window}
    sources = (normal(2, 4, 7, 9), offsets, normal(6, 2, 3, 2))
    return [
        *layers("DeformableConvolution", each(1, 8), *sources, fixed=(2,), **grid),
        *layers("DeformableConvolution", 8, *sources, fixed=(2,), bilinear_interpolation_pad=True, **grid),
        *layers(
            "DeformableConvolution", 8, *sources, mask, fixed=(2,), bilinear_interpolation_pad=each(False, True), **grid
        ),
    ]


def pooled(name: str, opset: int, window: dict[str, Any], rounding: str) -> list[Layer]:
    """Poolings of revisions that have the rounding, and dilations where the window has some."""
    options: dict[str, Any] = {"kernel": (3, 2), "strides": (1, 1), **window, "rounding_type": rounding}
    dilations = options.pop("dilations", None)
    if (name, opset) == ("AvgPool", 16) or (name == "MaxPool" and opset > 1):
        options["dilations"] = dilations or (1, 1)
    elif dilations:
        return []
    return [] if rounding == "ceil_torch" and opset < 14 else list(layers(name, opset, normal(2, 3, 7, 9), **options))


def padded_indices(axis: int) -> np.ndarray:
    """Indices of windows of one element, of which the first row and the first column lie in the padding."""
    of_channel = np.array([[0, 0, 0, 0], [0, 0, 1, 2], [0, 3, 4, 5]])
    return of_channel + (np.arange(0, 24, 6).reshape(2, 2, 1, 1) if axis == 0 else np.zeros((2, 2, 1, 1), np.int64))


def recurrent(
    kind: str, direction: str, lengths: Any, linear: bool = False, hidden: int = 5, **more: Any
) -> list[Layer]:
    """Sequences of four steps, as many as there are lengths."""
    batch, steps, width, gates = len(lengths), 4, 3, {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    count, rows = 2 if direction == "bidirectional" else 1, gates * hidden
    states = [normal(batch, count, hidden)] * (2 if kind == "LSTM" else 1)
    weights = [normal(count, rows, width), normal(count, rows, hidden), normal(count, rows + linear * hidden)]
    activations = {"RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}[kind]
    inputs = [normal(batch, steps, width), *states, lengths, *weights]
    more |= {"linear_before_reset": True} if linear else {}
    numbers = range(2 + len(states), len(inputs))
    return list(layers(f"{kind}Sequence", 5, *inputs, fixed=numbers, hidden_size=hidden, direction=direction,
                       activations=activations, tolerance=Tolerance(1e-4, 1e-4), **more))  # fmt: skip


def cells(name: str, opset: int, gates: int) -> list[Layer]:
    states = [normal(2, 5)] * (2 if gates == 4 else 1)
    inputs = [normal(2, 3), *states, normal(gates * 5, 3), normal(gates * 5, 5)]
    return [
        *layers(name, opset, *inputs, hidden_size=5),
        *layers(name, opset, *inputs, normal(gates * 5), hidden_size=5, clip=each(0.0, 0.3, 0.5)),
    ]


SEEN = np.array([[1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1], [0, 1, 0, 1, 0]], np.bool_)
SCORES = np.where(SEEN, np.random.default_rng(3).standard_normal((4, 5)), -np.inf).astype(np.float32)
NOBODY = np.where(np.arange(4)[:, None] == 2, False, SEEN)
SDPA = (normal(2, 4, 5, 6), normal(2, 4, 7, 6), normal(2, 4, 7, 3))
QUERIES = (normal(2, 3, 4, 8), normal(2, 3, 5, 8), normal(2, 3, 5, 6))
AXES = each(ints(1), ints(-1, 0), one(-2), ints(), ints(0, 1, 2))
REDUCED = [("ReduceMean", 1), ("ReduceSum", 1), ("ReduceProd", 1), ("ReduceMax", 1), ("ReduceMin", 1), ("ReduceL1", 4),
           ("ReduceL2", 4)]  # fmt: skip
CHANNELS = [normal(3), normal(3), normal(3), uniform(0.5, 2, 3)]
PER_CHANNEL = [normal(4), normal(4), normal(4), uniform(0.1, 9, 4)]
IMAGE = (np.random.default_rng(3).standard_normal((2, 3, 4, 5)) * 3 + 1).astype(np.float32)
IMAGE[0, :, 0] = 0
A, B = np.random.default_rng(16).integers(-9, 10, (7, 5)), np.random.default_rng(17).integers(-9, 10, (3, 2, 5))


def grouped(a: np.ndarray, b: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Each row by the matrix of its group; nothing behind the last group."""
    groups = [int((ends <= row).sum()) for row in range(len(a))]
    found = [b[group] @ row if group < len(b) else np.zeros(b.shape[1]) for row, group in zip(a, groups)]
    return np.array(found, a.dtype)


def matrices(kind: Any) -> list[Layer]:
    a, b = A.astype(kind), B.astype(kind)
    batches = np.stack([a[:4], a[1:5], a[3:7]])
    return [
        *layers("GroupedMatMul", 17, a, b, each(*(ints(*ends, dtype=np.int32) for ends in (
            (2, 5, 7), (0, 7, 7), (3, 3, 5), (0, 0, 0)))), expect=grouped),
        *layers("GroupedMatMul", 17, batches, b, expect=lambda x, y: x @ y.swapaxes(1, 2)),
    ]  # fmt: skip


ROWS = [
    # Convolutions.
    *(row for window in WINDOWS for row in [
        *layers("Convolution", 1, normal(2, 3, 7, 9), normal(4, 3, 3, 2), fixed=(1,), dims=OPEN_SPACE, **window),
        *layers("GroupConvolution", 1, normal(2, 6, 7, 9), normal(3, 4, 2, 3, 3), fixed=(1,),
                dims={0: (None, 6, None, None)}, **window),
        *layers("BinaryConvolution", 1, normal(2, 3, 7, 9), BITS, dims=OPEN_SPACE, **window),
        *layers("ConvolutionBackpropData", 1, normal(2, 3, 4, 5), normal(3, 4, 3, 2), fixed=(1,), dims=OPEN_SPACE,
                **window),
        *layers("GroupConvolutionBackpropData", 1, normal(2, 6, 4, 5), normal(3, 2, 4, 3, 3), fixed=(1,),
                dims={0: (None, 6, None, None)}, **window,
                **({} if window.get("strides", (1, 1)) == (1, 1) else {"output_padding": (1, 0)})),
    ]),
    *(row for name, x, w in FILTERS for row in layers(
        name, 1, normal(*x), normal(*w), ints(7, 10), fixed=(1,), dims={0: (None, x[1], None, None)},
        auto_pad=each("same_upper", "same_lower", "explicit"), strides=(2, 2))),
    *layers("Convolution", 1, normal(2, 3, 8, 9), normal(4, 3, 3, 4), fixed=(1,), auto_pad=PADDINGS, dims=OPEN_SPACE,
            **SHIFTED),
    *(row for shape in ([], [ints(7, 8)], [ints(8, 9)], [ints(10, 12)]) for row in layers(
        "ConvolutionBackpropData", 1, normal(1, 3, 4, 5), normal(3, 2, 3, 2), *shape, fixed=(1,), dims=OPEN_SPACE,
        strides=(2, 2), pads_begin=(1, 0), pads_end=(0, 1), auto_pad=PADDINGS, output_padding=each((0, 0), (1, 0)))),
    *layers("GroupConvolutionBackpropData", 1, normal(1, 4, 4, 5), normal(2, 2, 3, 3, 2), fixed=(1,), strides=(2, 1),
            dilations=(1, 2), dims={0: (None, 4, None, None)}),
    *layers("Convolution", 1, normal(1, 3, 8), normal(4, 3, 3), fixed=(1,), dims={0: (None, 3, None)}, **FLAT),
    *layers("ConvolutionBackpropData", 1, normal(1, 3, 8), normal(3, 4, 3), fixed=(1,), dims={0: (None, 3, None)},
            output_padding=(0,), **FLAT),
    *(row for window in WINDOWS[:2] for row in deformed(window)),
    # Poolings.
    *(row for window, rounding in product(WINDOWS, ("floor", "ceil", "ceil_torch"))
      for name, opset in (("AvgPool", 1), ("AvgPool", 14), ("AvgPool", 16), ("MaxPool", 1), ("MaxPool", 8),
          ("MaxPool", 14)) for row in pooled(name, opset, window, rounding)),
    *layers("AvgPool", each(1, 14), normal(1, 2, 5, 5), kernel=(3, 2), strides=(1, 1), exclude_pad=False,
            pads_end=(1, 1)),
    *layers("AvgPool", 16, normal(1, 2, 5, 5), kernel=(3, 2), strides=(1, 1), exclude_pad=False, pads_end=(1, 1),
            dilations=(1, 1)),
    *layers("MaxPool", each(8, 14), normal(1, 2, 5, 5), kernel=(3, 2), strides=(1, 1), pads_begin=(0, 0),
            pads_end=(0, 0), dilations=(1, 1), axis=2, index_element_type="i32"),
    *layers("MaxPool", each(8, 14), normal(1, 2, 5), kernel=(2,), strides=(2,), pads_begin=(0,), pads_end=(1,),
            dilations=(1,)),
    *(row for axis in (0, 2) for row in layers(
        "MaxPool", 14, normal(2, 2, 2, 3), kernel=(1, 1), strides=(1, 1), pads_begin=(1, 1), pads_end=(0, 0),
            dilations=(1, 1), axis=axis, expect=[np.ma.masked_all((2, 2, 3, 4), np.float32), padded_indices(axis)])),
    *layers("AdaptiveAvgPool", 8, normal(2, 3, 7, 9), each(ints(2, 3), ints(1, 1), ints(7, 9))),
    *layers("AdaptiveMaxPool", 8, normal(2, 3, 7, 9), each(ints(2, 3), ints(1, 1), ints(7, 9)),
            index_element_type="i32"),
    *layers("AdaptiveAvgPool", 8, normal(2, 3, 7), ints(3)),
    *layers("AdaptiveMaxPool", 8, normal(2, 3, 7), ints(3), index_element_type=each("i32", "i64")),
    # Products.
    *(row for a, b, flip_a, flip_b in [
        ((2, 3), (3, 4), False, False), ((5, 3, 2), (3, 4), True, False), ((5, 1, 2, 3), (6, 4, 3), False, True),
        ((3,), (3, 4), True, False), ((2, 3), (3,), False, True), ((3,), (3,), False, False),
        ((0, 3), (3, 4), False, False), ((1, 2, 3), (0, 3, 2), False, False),
    ] for draw in (normal, lambda *shape: whole(-5, 5, *shape))
      for row in layers("MatMul", 1, draw(*a), draw(*b), transpose_a=flip_a, transpose_b=flip_b)),
    *(row for equation, *shapes in [
        ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
        ("bij,bjk->bik", (5, 2, 3), (1, 3, 4)), ("...ij,...jk->...ik", (5, 1, 2, 3), (6, 3, 4)), ("ii->i", (3, 3)),
        ("ij->", (3, 2)), ("i,j->ji", (3,), (2,)), ("...i->...", (2, 3, 4)),
    ] for row in layers("Einsum", 7, *[normal(*shape) for shape in shapes], equation=equation)),
    *layers("GroupedMatMul", 17, normal(3, 2, 4), normal(3, 5, 4)),
    *layers("GroupedMatMul", 17, normal(6, 4), normal(3, 5, 4), ints(2, 2, 5, dtype=np.int32)),
    *(row for kind in (np.float32, np.float16, np.int32) for row in matrices(kind)),
    *layers("Inverse", 14, each(normal(3, 3), normal(2, 3, 4, 4)), adjoint=each(False, True), tolerance=COARSE),
    # Attention.
    *layers("ScaledDotProductAttention", 13, *SDPA, causal=each(False, True)),
    *layers("GroupQueryAttention", 0, normal(2, 4, 3, 8), *(normal(2, 2, n, 8) for n in (3, 3, 5, 5)),
            np.array([7, 7], np.int32), np.array([8]), num_heads=4, kv_num_heads=2),
    *layers("ScaledDotProductAttention", 13, *SDPA, flags(5, 7)),
    *layers("ScaledDotProductAttention", 13, *SDPA, normal(2, 1, 5, 7), normal()),
    *layers("ScaledDotProductAttention", 13, *SDPA, normal(), normal(1), normal(1, 4, 1, 1)),
    *layers("ScaledDotProductAttention", 13, normal(2, 1, 5, 6), normal(3, 7, 6), normal(1, 3, 7, 3)),
    *layers("ScaledDotProductAttention", 13, normal(5, 6), normal(7, 6), normal(7, 3)),
    *(row for note, more in {
        "seen": (SEEN,), "scores": (SCORES,), "rank4": (SCORES[None, None],), "nobody": (NOBODY,),
        "none": (np.float32(0),), "scale": (SEEN, np.float32(0.3)),
    }.items() for row in layers("ScaledDotProductAttention", 13, *QUERIES, *more, causal=each(False, True),
        note=f" {note}")),
    *layers("ScaledDotProductAttention", 13, normal(1, 3, 1, 8), normal(1, 3, 5, 8), normal(1, 3, 5, 6),
            normal(2, 1, 4, 5), shaped=(3,), note=" widened by its mask"),
    # Two equal scores and a sink as great: a third each.
    *layers("ScaledDotProductAttention", 13, np.zeros((1, 1, 1, 4), np.float32), np.zeros((1, 1, 2, 4), np.float32),
            np.array([[[[3.0], [6.0]]]], np.float32), *np.zeros((1,), np.float32), *np.ones((1,), np.float32),
            np.zeros((1, 1, 1, 1), np.float32), expect=np.array([[[[3.0]]]], np.float32), note=" with a sink"),
    # Reductions.
    *(row for name, opset in REDUCED for data in (normal(2, 3, 4), whole(1, 9, 2, 3, 2))
      for row in layers(name, opset, data, AXES, keep_dims=each(False, True))),
    *layers(each("ReduceLogicalAnd", "ReduceLogicalOr"), 1, flags(2, 3, 4), AXES, keep_dims=each(False, True)),
    *layers("ReduceSum", 1, normal(0, 3), ints(0)),
    *layers("ReduceProd", 1, whole(1, 5, 3), ints(0), keep_dims=True),
    # Normalizations.
    *(row for shape in ((2, 3, 4, 5), (2, 3)) for row in [
        *layers("BatchNormInference", 5, normal(*shape), *CHANNELS, epsilon=1e-3),
        *layers("BatchNormInference", 1, *CHANNELS[:2], normal(*shape), *CHANNELS[2:], epsilon=1e-3),
    ]),
    *(row for shape in ((2, 4), (2, 4, 5), (2, 4, 5, 6), (0, 4, 3)) for row in [
        *layers("BatchNormInference", 5, normal(*shape), *PER_CHANNEL, fixed=(1, 2, 3, 4), epsilon=1e-3),
        *layers("BatchNormInference", 1, *PER_CHANNEL[:2], normal(*shape), *PER_CHANNEL[2:], fixed=(0, 1, 3, 4),
                epsilon=1e-3),
    ]),
    *layers("MVN", 2, normal(2, 3, 4, 5), normalize_variance=each(False, True), eps=1e-3, also=each(
        {"across_channels": False, "reduction_axes": (2, 3)}, {"across_channels": True, "reduction_axes": (1, 2, 3)})),
    *layers("MVN", 6, normal(2, 3, 4), each(ints(1, 2), ints(-1), ints()), normalize_variance=True, eps=1e-3,
            eps_mode="OUTSIDE_SQRT"),
    *layers("MVN", 6, normal(2, 3, 4), each(ints(1, 2), ints(-1), ints())),
    *layers("MVN", 6, IMAGE, each(ints(2, 3), ints(1, 2, 3), ints(0, 2, 3), ints(-1), ints(1)), eps=0.1,
            eps_mode=each("INSIDE_SQRT", "OUTSIDE_SQRT"), normalize_variance=each(False, True)),
    *layers("LRN", 1, normal(2, 3, 4), each(ints(1, 2), ints(-1), ints()), size=3, bias=1.0, alpha=0.5, beta=0.75),
    # With a whole bias, as the plug-in drops the fraction.
    *layers("LRN", 1, normal(2, 7, 5, 6), each(ints(1), ints(2, 3)), alpha=0.3, beta=0.75, bias=2.0,
            size=each(1, 3, 4, 5, 9), dims={0: (None, 7, None, None)}),
    *layers("LRN", 1, np.array([[1, 2, 3, 4]], np.float32), ints(1), alpha=0.6, beta=0.5, bias=0.5, size=3,
            expect=lambda x, _: x / np.sqrt(0.5 + 0.2 * np.array([[5, 14, 29, 25]], np.float32))),
    *layers("NormalizeL2", 1, normal(2, 3, 4), each(ints(1, 2), ints(-1), ints()), eps=1e-3,
            eps_mode=each("add", "max")),
    *layers("NormalizeL2", 1, IMAGE, each(ints(1), ints(1, 2, 3), ints(2, 3), ints(-1)), eps=0.1,
            eps_mode=each("add", "max")),
    *layers("GRN", 1, each(normal(2, 3, 4), normal(2, 3, 4, 5)), bias=each(0.5, 1.0, 0.01)),
    *layers("GroupNormalization", 12, each(normal(0, 6), normal(0, 6, 3)), normal(6), normal(6), num_groups=2,
            epsilon=1e-3),
    *layers("GroupNormalization", 12, each(normal(2, 6, 5), normal(2, 6, 4, 5)), normal(6), normal(6), fixed=(1, 2),
            num_groups=each(1, 2, 6), epsilon=1e-3, tolerance=Tolerance(1e-3, 1e-4)),
    # Recurrence.
    *(row for name, opset, gates in (("RNNCell", 1, 1), ("GRUCell", 3, 3), ("LSTMCell", 1, 4), ("LSTMCell", 4, 4))
      for row in cells(name, opset, gates)),
    *layers("LSTMCell", 1, normal(2, 3), *[normal(2, 5)] * 2, normal(20, 3), normal(20, 5), normal(20),
            np.zeros(15, np.float32), fixed=(6,), hidden_size=5, weights_format="icof"),
    *layers("GRUCell", 3, normal(2, 3), normal(2, 5), normal(15, 3), normal(15, 5), normal(20), hidden_size=5,
            linear_before_reset=True, clip=each(0.0, 0.3)),
    *(row for kind, direction, lengths in product(("RNN", "GRU", "LSTM"), ("forward", "reverse", "bidirectional"),
                                                  (ints(3, 4), ints(4, 4)))
      for row in recurrent(kind, direction, lengths)),
    *(row for direction, lengths in product(("forward", "reverse", "bidirectional"), (ints(3, 4), ints(4, 4)))
      for row in recurrent("GRU", direction, lengths, linear=True)),
]  # fmt: skip
