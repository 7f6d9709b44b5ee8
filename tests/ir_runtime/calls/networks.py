"""Calls of the layers of networks: convolutions, poolings, products, reductions, normalisations, recurrence."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ir_runtime.graph.element_types import u1
from tests.ir_runtime.calls.base import Call, calls, flags, ints, normal, one, uniform, whole

WINDOWS: list[dict[str, Any]] = [
    {},
    {"strides": (2, 3), "pads_begin": (1, 0), "pads_end": (0, 2)},
    {"dilations": (2, 1)},
    {"auto_pad": "same_upper", "strides": (2, 1)},
    {"auto_pad": "same_lower", "dilations": (1, 2)},
    {"auto_pad": "valid", "strides": (3, 2)},
]


def _convolutions() -> list[Call]:
    found = []
    for window in WINDOWS:
        found += calls("Convolution", 1, normal(2, 3, 7, 9), normal(4, 3, 3, 2), **window)
        found += calls("GroupConvolution", 1, normal(2, 6, 7, 9), normal(3, 4, 2, 3, 3), **window)
        bits = (np.random.default_rng(3).integers(0, 2, (4, 3, 3, 2)).astype(np.uint8), u1)
        found += calls("BinaryConvolution", 1, normal(2, 3, 7, 9), bits, **window)
        found += calls("ConvolutionBackpropData", 1, normal(2, 3, 4, 5), normal(3, 4, 3, 2), **window)
        more = {} if window.get("strides", (1, 1)) == (1, 1) else {"output_padding": (1, 0)}
        weights = normal(3, 2, 4, 3, 3)
        found += calls("GroupConvolutionBackpropData", 1, normal(2, 6, 4, 5), weights, **window, **more)
    for pad in ("same_upper", "same_lower", "explicit"):
        target, shape = {"auto_pad": pad, "strides": (2, 2)}, ints(7, 10)
        found += calls("ConvolutionBackpropData", 1, normal(2, 3, 4, 5), normal(3, 4, 3, 2), shape, **target)
        weights = normal(3, 2, 4, 3, 3)
        found += calls("GroupConvolutionBackpropData", 1, normal(2, 6, 4, 5), weights, shape, **target)
    flat: dict[str, Any] = {"strides": (2,), "pads_begin": (1,), "pads_end": (1,), "dilations": (1,)}
    found += calls("Convolution", 1, normal(1, 3, 8), normal(4, 3, 3), **flat)
    found += calls("ConvolutionBackpropData", 1, normal(1, 3, 8), normal(3, 4, 3), **flat)
    grid: dict[str, Any] = {"group": 2, "deformable_group": 2}
    for window in WINDOWS[:2]:
        rows, columns = (5, 8) if not window else (3, 4)
        offsets, mask = normal(2, 24, rows, columns), uniform(0, 1, 2, 12, rows, columns)
        found += calls(
            "DeformableConvolution", (1, 8), normal(2, 4, 7, 9), offsets, normal(6, 2, 3, 2), **grid, **window
        )
        for pads in (False, True):
            rest = [normal(6, 2, 3, 2), mask]
            more = {"bilinear_interpolation_pad": pads}
            found += calls("DeformableConvolution", 8, normal(2, 4, 7, 9), offsets, *rest, **grid, **window, **more)
    return found


def _poolings() -> list[Call]:
    found = []
    plain: dict[str, Any] = {"kernel": (3, 2), "strides": (1, 1)}
    for window, rounding in itertools.product(WINDOWS, ("floor", "ceil", "ceil_torch")):
        given = {**plain, **window, "rounding_type": rounding}
        dilations = given.pop("dilations", None)
        for name, opset in (
            ("AvgPool", 1),
            ("AvgPool", 14),
            ("AvgPool", 16),
            ("MaxPool", 1),
            ("MaxPool", 8),
            ("MaxPool", 14),
        ):
            if (rounding == "ceil_torch" and opset < 14) or (dilations and opset in (1, 14) and name == "AvgPool"):
                continue
            more = {"dilations": dilations or (1, 1)} if (name, opset) == ("AvgPool", 16) else {}
            if name == "MaxPool" and opset > 1:
                more = {"dilations": dilations or (1, 1)}
            elif dilations and not more:
                continue
            found += calls(name, opset, normal(2, 3, 7, 9), **given, **more)
    for opset in (1, 14, 16):
        more = {"dilations": (1, 1)} if opset == 16 else {}
        found += calls("AvgPool", opset, normal(1, 2, 5, 5), **plain, exclude_pad=False, pads_end=(1, 1), **more)
    for opset in (8, 14):
        found += calls("MaxPool", opset, normal(1, 2, 5, 5), **plain, axis=2, index_element_type="i32")
        found += calls("MaxPool", opset, normal(1, 2, 5), kernel=(2,), strides=(2,), pads_begin=(0,), pads_end=(1,))
    for target in ((2, 3), (1, 1), (7, 9)):
        found += calls("AdaptiveAvgPool", 8, normal(2, 3, 7, 9), ints(*target))
        found += calls("AdaptiveMaxPool", 8, normal(2, 3, 7, 9), ints(*target), index_element_type="i32")
    found += calls("AdaptiveAvgPool", 8, normal(2, 3, 7), ints(3)) + calls(
        "AdaptiveMaxPool", 8, normal(2, 3, 7), ints(3)
    )
    return found


def _products() -> list[Call]:
    found = []
    for a, b, flip_a, flip_b in [
        ((2, 3), (3, 4), False, False),
        ((5, 3, 2), (3, 4), True, False),
        ((5, 1, 2, 3), (6, 4, 3), False, True),
        ((3,), (3, 4), True, False),
        ((2, 3), (3,), False, True),
        ((3,), (3,), False, False),
        ((0, 3), (3, 4), False, False),
        ((1, 2, 3), (0, 3, 2), False, False),
    ]:
        found += calls("MatMul", 1, normal(*a), normal(*b), transpose_a=flip_a, transpose_b=flip_b)
        found += calls("MatMul", 1, whole(-5, 5, *a), whole(-5, 5, *b), transpose_a=flip_a, transpose_b=flip_b)
    for equation, *shapes in [
        ("ij,jk->ik", (2, 3), (3, 4)),
        ("ij,jk", (2, 3), (3, 4)),
        ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
        ("bij,bjk->bik", (5, 2, 3), (1, 3, 4)),
        ("...ij,...jk->...ik", (5, 1, 2, 3), (6, 3, 4)),
        ("ii->i", (3, 3)),
        ("ij->", (3, 2)),
        ("i,j->ji", (3,), (2,)),
        ("...i->...", (2, 3, 4)),
    ]:
        found += calls("Einsum", 7, *[normal(*shape) for shape in shapes], equation=equation)
    found += calls("GroupedMatMul", 17, normal(3, 2, 4), normal(3, 5, 4))
    found += calls("GroupedMatMul", 17, normal(6, 4), normal(3, 5, 4), ints(2, 2, 5, dtype=np.int32))
    found += calls("Inverse", 14, normal(2, 3, 3)) + calls("Inverse", 14, normal(3, 3), adjoint=True)
    sdpa = [normal(2, 4, 5, 6), normal(2, 4, 7, 6), normal(2, 4, 7, 3)]
    found += calls("ScaledDotProductAttention", 13, *sdpa) + calls("ScaledDotProductAttention", 13, *sdpa, causal=True)
    found += calls("ScaledDotProductAttention", 13, *sdpa, flags(5, 7))
    found += calls("ScaledDotProductAttention", 13, *sdpa, normal(2, 1, 5, 7), normal())
    found += calls("ScaledDotProductAttention", 13, *sdpa, normal(), normal(1), normal(1, 4, 1, 1))
    found += calls("ScaledDotProductAttention", 13, normal(2, 1, 5, 6), normal(3, 7, 6), normal(1, 3, 7, 3))
    found += calls("ScaledDotProductAttention", 13, normal(5, 6), normal(7, 6), normal(7, 3))
    cache = [normal(2, 4, 3, 8), *(normal(2, 2, n, 8) for n in (3, 3, 5, 5)), ints(7, 7, dtype=np.int32), ints(8)]
    found += calls("GroupQueryAttention", 0, *cache, num_heads=4, kv_num_heads=2)
    return found


def _reductions() -> list[Call]:
    found = []
    names = [("ReduceMean", 1), ("ReduceSum", 1), ("ReduceProd", 1), ("ReduceMax", 1), ("ReduceMin", 1)]
    for name, opset in [*names, ("ReduceL1", 4), ("ReduceL2", 4), ("ReduceLogicalAnd", 1), ("ReduceLogicalOr", 1)]:
        for axes, keep in itertools.product([ints(1), ints(-1, 0), one(-2), ints(), ints(0, 1, 2)], (False, True)):
            if "Logical" in name:
                found += calls(name, opset, flags(2, 3, 4), axes, keep_dims=keep)
            else:
                found += calls(name, opset, normal(2, 3, 4), axes, keep_dims=keep)
                found += calls(name, opset, whole(1, 9, 2, 3, 2), axes, keep_dims=keep)
    found += calls("ReduceSum", 1, normal(0, 3), ints(0)) + calls(
        "ReduceProd", 1, whole(1, 5, 3), ints(0), keep_dims=True
    )
    return found


def _normalizations() -> list[Call]:
    found = []
    per_channel = [normal(3), normal(3), normal(3), uniform(0.5, 2, 3)]
    for shape in ((2, 3, 4, 5), (2, 3)):
        found += calls("BatchNormInference", 5, normal(*shape), *per_channel, epsilon=1e-3)
        found += calls("BatchNormInference", 1, *per_channel[:2], normal(*shape), *per_channel[2:], epsilon=1e-3)
    for across, variance in itertools.product((False, True), (False, True)):
        given = {"across_channels": across, "normalize_variance": variance, "eps": 1e-3}
        found += calls("MVN", 2, normal(2, 3, 4, 5), **given)
    for axes in (ints(1, 2), ints(-1), ints()):
        found += calls("MVN", 6, normal(2, 3, 4), axes, normalize_variance=True, eps=1e-3, eps_mode="OUTSIDE_SQRT")
        found += calls("MVN", 6, normal(2, 3, 4), axes)
        found += calls("LRN", 1, normal(2, 3, 4), axes, size=3, bias=1.0, alpha=0.5, beta=0.75)
        for mode in ("add", "max"):
            found += calls("NormalizeL2", 1, normal(2, 3, 4), axes, eps=1e-3, eps_mode=mode)
    found += calls("GRN", 1, normal(2, 3, 4), bias=0.5)
    found += calls("GroupNormalization", 12, normal(2, 6, 4), normal(6), normal(6), num_groups=3, epsilon=1e-3)
    found += calls("GroupNormalization", 12, normal(0, 6), normal(6), normal(6), num_groups=2, epsilon=1e-3)
    return found


def _recurrence() -> list[Call]:
    found = []
    batch, steps, width, hidden = 2, 4, 3, 5
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}
    for name, opset in (("RNNCell", 1), ("GRUCell", 3), ("LSTMCell", 1), ("LSTMCell", 4)):
        kind = name.removesuffix("Cell")
        rows = gates[kind] * hidden
        states = [normal(batch, hidden)] * (2 if kind == "LSTM" else 1)
        inputs = [normal(batch, width), *states, normal(rows, width), normal(rows, hidden)]
        found += calls(name, opset, *inputs, hidden_size=hidden)
        found += calls(name, opset, *inputs, normal(rows), hidden_size=hidden, clip=0.5)
    cell = [normal(2, 3), normal(2, 5), normal(2, 5), normal(20, 3), normal(20, 5), normal(20)]
    found += calls("LSTMCell", 1, *cell, np.zeros(15, np.float32), fixed=(6,), hidden_size=5, weights_format="icof")
    linear: dict[str, Any] = {"hidden_size": hidden, "linear_before_reset": True}
    found += calls("GRUCell", 3, normal(2, 3), normal(2, 5), normal(15, 3), normal(15, 5), normal(20), **linear)
    for kind, direction in itertools.product(gates, ("forward", "reverse", "bidirectional")):
        count, rows = 2 if direction == "bidirectional" else 1, gates[kind] * hidden
        states = [normal(batch, count, hidden)] * (2 if kind == "LSTM" else 1)
        activations = {"RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}[kind]
        given: dict[str, Any] = {"hidden_size": hidden, "direction": direction, "activations": activations}
        inputs = [
            normal(batch, steps, width),
            *states,
            ints(3, 4),
            normal(count, rows, width),
            normal(count, rows, hidden),
        ]
        found += calls(f"{kind}Sequence", 5, *inputs, normal(count, rows), **given)
        if kind == "GRU":
            found += calls("GRUSequence", 5, *inputs, normal(count, 4 * hidden), **given, linear_before_reset=True)
    return found


def _images() -> list[Call]:
    found = []
    data = normal(2, 3, 4, 6)
    image = np.random.default_rng(5).integers(0, 256, (2, 3, 4, 6)).astype(np.uint8)
    for mode, (sizes, axes) in itertools.product(("nearest", "linear", "cubic"), [((8, 3), (2, 3)), ((5,), (3,))]):
        wanted, along = ints(*sizes), ints(*axes)
        scales = np.array([1.5, 0.7][: len(sizes)], np.float32)
        pads = {"pads_begin": (0, 0, 1, 0), "pads_end": (0, 0, 0, 2)}
        found += calls("Interpolate", 4, data, wanted, scales, along, mode=mode, **pads)
        found += calls("Interpolate", 4, data, wanted, scales, along, mode=mode, shape_calculation_mode="scales")
        found += calls("Interpolate", 11, data, wanted, along, mode=mode, **pads)
        found += calls("Interpolate", 11, data, scales, along, mode=mode, shape_calculation_mode="scales", **pads)
        found += calls("Interpolate", 1, data, wanted, mode=mode, axes=tuple(axis % 4 for axis in axes))
    found += calls("Interpolate", 11, data, ints(5, 2), ints(-1, -2))
    found += calls("Interpolate", 4, data, ints(5), np.array([0.9], np.float32), ints(-1))
    whole_scales = np.array([1, 1, 2, 0.5], np.float32)
    found += calls("Interpolate", 4, data, ints(2, 3, 8, 3), whole_scales, shape_calculation_mode="scales")
    found += calls("Interpolate", 11, data, whole_scales, shape_calculation_mode="scales", mode="linear_onnx")
    found += calls("Interpolate", 11, data, ints(2, 3, 8, 3), coordinate_transformation_mode="align_corners")
    for mode in ("bilinear_pillow", "bicubic_pillow"):
        found += calls("Interpolate", 11, data, ints(8, 3), ints(2, 3), mode=mode)
        found += calls("Interpolate", 11, image, ints(8, 3), ints(2, 3), mode=mode, cube_coeff=-0.5)
    found += calls("GridSample", 9, data, uniform(-1.2, 1.2, 2, 5, 7, 2), padding_mode="border")
    found += calls("GridSample", 9, data, uniform(-1.2, 1.2, 2, 5, 7, 2), align_corners=True, mode="bicubic")
    blocks: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}
    found += calls("Col2Im", 15, normal(2, 12, 12), ints(4, 5), ints(2, 2), **blocks)
    found += calls("Col2Im", 15, normal(12, 12), ints(4, 5), ints(2, 2), **blocks)
    wide: dict[str, Any] = {"strides": (2, 1), "dilations": (1, 2), "pads_begin": (1, 0), "pads_end": (0, 1)}
    found += calls(
        "Col2Im", 15, normal(2, 6, 8), ints(4, 5), ints(2, 3), **{**wide, "dilations": (1, 1), "pads_begin": (0, 0)}
    )
    for pad in ("same_lower", "same_upper", "valid"):
        given: dict[str, Any] = {"sizes": (2, 3), "strides": (2, 1), "rates": (1, 2), "auto_pad": pad}
        found += calls("ExtractImagePatches", 3, normal(2, 3, 6, 7), **given)
    return found


CALLS = [
    *(*_convolutions(), *_poolings(), *_products(), *_reductions()),
    *(*_normalizations(), *_recurrence(), *_images()),
]
