"""onnxruntime's mixtures of experts and causal convolutions, against onnxruntime and by hand."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.rows.row import COARSE, Tolerance, by_onnxruntime, const, each, graphs, normal_by, rows

R = np.random.default_rng(12)
TOKENS, HIDDEN, INNER, EXPERTS, WIDE = 5, 8, 6, 4, 32
f = normal_by(R, 0.5)


def experts(wide: int = 1) -> dict[str, Any]:
    shapes = {"w1": (wide * INNER, HIDDEN), "b1": (wide * INNER,), "w2": (HIDDEN, INNER), "b2": (HIDDEN,)}
    return {name: const(f(EXPERTS, *shape)) for name, shape in shapes.items()}


microsoft = functools.partial(rows, opset=1, domain="com.microsoft")
mixture = functools.partial(microsoft, "MoE", x=f(1, TOKENS, HIDDEN), scores=f(TOKENS, EXPERTS) * 4)
ONE, TWO = experts(), experts(2)
GATES, LINEAR = ({name: const(TWO[name].array[:, place::2]) for name in ("w1", "b1")} for place in (0, 1))
APART = {name: const(np.concatenate([GATES[name].array, LINEAR[name].array], 1)) for name in ("w1", "b1")}
CHOSEN = each(*({"k": k, "normalize_routing_weights": is_normal} for k, is_normal in ((1, 0), (2, 0), (2, 1), (4, 1))))
SWIGLU: dict[str, Any] = {"activation_type": "swiglu", "swiglu_fusion": 1}


def by_neighbours(x: Any, scores: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any = None, **options: Any) -> Any:
    """Swiglu with gates and what they let pass as neighbours: onnxruntime's CPU kernel takes nothing else."""
    pairs = [np.split(w1, 2, 1), np.split(b1, 2, 1)] if w3 is None else [(w1, w3), (b1, np.zeros_like(b1))]
    w1, b1 = (np.stack(pair, 2).reshape(EXPERTS, 2 * INNER, *pair[0].shape[2:]) for pair in pairs)
    values = {"x": x, "scores": scores, "w1": w1, "b1": b1, "w2": w2, "b2": b2, **options, "swiglu_fusion": 1}
    return by_onnxruntime("MoE", domain="com.microsoft", **values)


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def limited(gate: np.ndarray, linear: np.ndarray) -> np.ndarray:
    return np.minimum(gate / (1 + np.exp(-1.7 * gate)), 0.2) * (np.clip(linear, -0.2, 0.2) + 0.5)


LATE = {"activation_alpha": 1.7, "activation_beta": 0.5, "swiglu_limit": 0.2, "swiglu_limit_after_activation": 1}
ACTIVATIONS: list[tuple[Any, dict[str, Any], Callable[[np.ndarray], np.ndarray]]] = [
    (ONE, {"activation_type": "relu2"}, lambda x: np.maximum(x, 0) ** 2),
    (TWO, {"activation_type": "geglu", "swiglu_fusion": 1}, lambda x: gelu(x[:, 0::2]) * x[:, 1::2]),
    (TWO, {"activation_type": "geglu", "swiglu_fusion": 2}, lambda x: gelu(x[:, :INNER]) * x[:, INNER:]),
    (TWO, {**SWIGLU, **LATE}, lambda x: limited(x[:, 0::2], x[:, 1::2])),
]
"""What onnxruntime's CPU kernel lacks, by hand."""


def one_expert(activated: Callable[[np.ndarray], np.ndarray]) -> Any:
    """What a mixture makes where one expert has the whole share."""
    return lambda x, w1, b1, w2, b2: (activated(x @ w1[0].T + b1[0]) @ w2[0].T + b2[0]).astype(np.float32)


def convolutions() -> Any:
    """Choices of data and pasts."""
    return each(*(
        {"x": f(2, 6, 5) if last else f(2, 5, 6), "w": const(f(5, 1, taps)), "b": const(f(5)), "channels_last": last,
         "past": (f(2, reach, 5) if last else f(2, 5, reach)) if past else None, "dilation": dilation}
        for last, dilation, taps, past in itertools.product((0, 1), (1, 2), (1, 4), (False, True))
        for reach in [(taps - 1) * dilation] if taps > 1 or not past
    ))  # fmt: skip


def quantized(bits: int = 4, block: int | None = 16, zero_points: bool = False) -> dict[str, Any]:
    """Weights of QMoE, and how they are stored."""
    blocks = WIDE // block if block else 1
    result: dict[str, Any] = {"expert_weight_bits": bits, "x": f(TOKENS, WIDE), "scores": f(TOKENS, EXPERTS)}
    zeros: dict[str, Any] = {}
    for name, count in (("1", 2 * WIDE), ("2", WIDE)):
        scales = np.abs(f(EXPERTS, count, blocks)) * 0.1
        result[f"w{name}"] = const(R.integers(0, 256, (EXPERTS, count, WIDE * bits // 8)), np.uint8)
        result[f"s{name}"] = const(scales if block else scales[..., 0])
        result[f"b{name}"] = const(f(EXPERTS, 2 * WIDE)) if name == "1" else None
        shape = (EXPERTS, count, -(-blocks * bits // 8)) if block else (EXPERTS, -(-count * bits // 8))
        zeros[f"z{name}"] = const(R.integers(0, 256, shape), np.uint8) if zero_points else None
    result |= {"w3": None, "s3": None, "b3": None, **zeros, "z3": None}
    return {**result, "block_size": block} if block else result


def in_float32(w1: Any, s1: Any, b1: Any, w2: Any, s2: Any, z1: Any, z2: Any, **options: Any) -> Any:
    """MoE with weights of 8 bits in blocks of 16 as numbers: onnxruntime's QMoE rounds the data to 8 bits as well."""
    weights = [
        ((w - (np.float32(128) if z is None else np.repeat(z, 16, 2).astype("f4"))) * np.repeat(s, 16, 2)).astype("f4")
        for w, s, z in ((w1, s1, z1), (w2, s2, z2))
    ]
    names = ("k", "activation_type", "swiglu_fusion", "swiglu_limit", "activation_alpha")
    values = {"x": options["x"], "scores": options["scores"], "w1": weights[0], "b1": b1, "w2": weights[1]}
    values |= {name: options[name] for name in names}
    return by_onnxruntime("MoE", domain="com.microsoft", **values, normalize_routing_weights=1)


def packed(starts: list[int], dilation: int) -> dict[str, Any]:
    return {"x": f(7, 4), "w": const(f(4, 1, 3)), "starts": np.array(starts, np.int32), "b": const(f(4)),
            "state": f(len(starts) - 1, 4, 2 * dilation), "dilation": dilation}  # fmt: skip


router = functools.partial(microsoft, "MoEGroupRouter", logits=each(f(6, 8), f(6, 8).astype(np.float16)), bias=f(8))
GROUPS = [(1, 1, 2, 2), (2, 1, 2, 2), (4, 2, 2, 3), (4, 4, 1, 1), (2, 2, 9, 4), (4, 2, 1, 4)]
ROUTED = "(p, q) { , p, q = com.microsoft.MoEGroupRouter <top_k=2>"
STORED = [(bits, block, zero) for bits in (2, 4, 8) for block in (None, 16) for zero in (False, True)]
stored = functools.partial(microsoft, "QMoE", k=2, weights_prepacked=0, **SWIGLU)
convolution = functools.partial(microsoft, "CausalConvWithState", outputs=2)
PLAIN = {"x": f(2, 5, 6), "w": const(f(5, 1, 3))}
ROWS = [
    *mixture(**ONE, activation_type=each("relu", "gelu", "silu", "identity"), also=CHOSEN),
    *mixture(**TWO, **SWIGLU, activation_alpha=1.7, activation_beta=0.5, swiglu_limit=0.8, also=CHOSEN),
    *mixture(label="flat", x=f(TOKENS, HIDDEN), w1=ONE["w1"], b1=None, w2=ONE["w2"], k=2),
    *mixture(label="halves", **{**TWO, **APART}, **SWIGLU | {"swiglu_fusion": 2}, k=2, expect=by_neighbours),
    *mixture(label="two_weights", **{**TWO, **GATES}, w3=LINEAR["w1"], **SWIGLU | {"swiglu_fusion": 0}, k=2,
             expect=by_neighbours),
    *(row for weights, options, activated in ACTIVATIONS for row in mixture(
        label="one_expert", x=f(TOKENS, HIDDEN) * 3, scores=np.tile(np.eye(EXPERTS, dtype="f4")[0] * 5, (TOKENS, 1)),
        **weights, **options, k=1, normalize_routing_weights=1, expect=one_expert(activated))),
    *mixture(**ONE, activation_type="geglu", refused="geglu needs its two halves"),
    *mixture(**ONE, use_sparse_mixer=1, refused="sparse mixer"),
    *mixture(**ONE, activation_type="swiglu", refused="needs fc3_experts_weights"),
    *mixture(**ONE, activation_type="elu", refused="activation_type must be"),
    *mixture(**ONE, w3=const(f(EXPERTS, INNER, HIDDEN)), activation_type="silu", refused="not supported with the act"),
    *convolution(activation=each("none", "silu", "swish"), also=convolutions()),
    *rows("CausalConvWithState", 27, x=f(2, 5, 6), w=const(f(5, 1, 4)), b=const(f(5)), activation="silu", outputs=2,
          layers=["ShapeOf-3", "Gather-8", "Concat-1", "Broadcast-3", "Concat-1", "GroupConvolution-1", "Add-1",
                  "Swish-4", "Slice-8"]),
    *rows("CausalConvWithState", 27, x=f(2, 5, 6), w=const(f(5, 1, 4)), b=const(f(5)), past=f(2, 5, 3), outputs=2,
          activation="silu", layers=["Concat-1", "GroupConvolution-1", "Add-1", "Swish-4", "Slice-8"]),
    *convolution(**PLAIN, state_length=7, refused="states of another length than"),
    *convolution(**PLAIN, state_update_capacity=2, refused="updates of them"),
    *convolution(**PLAIN, input_channels=2, refused="a part of the input's channels"),
    *convolution(**PLAIN, state_channels_last=1, refused="another layout"),
    *convolution(**PLAIN, state_window=3, refused="states of another length than"),
    *(row for dilation in (1, 2) for starts in ([0, 2, 7], [0, 3, 4, 7]) for count, options in (
        (None, {"outputs": 2}),
        (np.arange(1, len(starts)).astype(np.int32), {"outputs": 3, "state_update_capacity": 3}))
      for row in microsoft("VarlenCausalConvWithState", **packed(starts, dilation), count=count, **options,
                           activation=each("none", "silu"))),
    *(row for way in STORED for row in stored(
        label=f"bits{way[0]}_block{way[1] or 0}_zero{way[2]:d}", **quantized(*way), swiglu_limit=2.0,
        activation_alpha=1.7, expect=in_float32 if way[:2] == (8, 16) else None, tolerance=Tolerance(1e-4, 1e-4))),
    *stored(label="shares", **quantized(4, 16, True), shares=each(None, np.abs(f(TOKENS, EXPERTS))), k=each(1, 3),
            normalize_routing_weights=each(0, 1), tolerance=COARSE),
    *stored(**quantized(), quant_type="fp8", refused="weights of the type 'fp8' are not supported"),
    *stored(**quantized(), weights_prepacked=1, refused="packed for one kind of processor"),
    *stored(**quantized() | {"expert_weight_bits": 3}, refused="may have 2, 4 or 8 bits, but have 3"),
    *stored(**quantized(), swiglu_fusion=5, refused="swiglu_fusion must be 0, 1 or 2, but is 5"),
    *router(also=each(*(dict(zip(("n_group", "topk_group", "group_topk", "top_k"), sizes)) for sizes in GROUPS))),
    *graphs(f"g (float[6,8] logits, float[8] bias) => {ROUTED} (logits, bias) }}", label="MoEGroupRouter",
            domain="com.microsoft", logits=f(6, 8), bias=f(8)),
    *graphs(f"g (float[6,256] x, float[8] bias, float[8,256] w) => {ROUTED} (x, bias, w) }}", label="MoEGroupRouter",
            domain="com.microsoft", x=f(6, 256), bias=f(8), w=f(8, 256) * 0.1),
]  # fmt: skip
