"""Caches of GroupQueryAttention: in 8 and 4 bits, of a window, filled by another layer; against onnxruntime."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.rows.row import by_onnxruntime, const, defined, each, normal_by, rows

R = np.random.default_rng(67)
HEADS, SHARED, WIDTH = 4, 2, 8
ALL = HEADS + 2 * SHARED

BARE = {"c": None, "s": None, "at": None, "e": None, "sink": None}
"""The inputs between those of a step and the scales."""
f = normal_by(R)


def step(steps: int, totals: list[int], room: int, bits: int = 32, width: int = WIDTH) -> dict[str, Any]:
    """Packed queries, keys and values, and a cache with room for some keys; the totals count those of the step."""
    shape = (len(totals), SHARED, room, width // 2 if bits == 4 else width)
    data = {n: R.integers(0, 256, shape).astype(np.uint8) if bits < 32 else f(*shape) for n in ("pk", "pv")}
    past = {name: value.view(np.int8) if bits == 8 else value for name, value in data.items()}
    return {"q": f(len(totals), steps, ALL * width), "k": None, "v": None, **past,
            "lengths": np.array(totals, np.int32) - 1, "total": np.array(max(totals), np.int32)}  # fmt: skip


def in_bits(bits: int, mode: str = "PER_TENSOR", width: int = WIDTH) -> dict[str, Any]:
    """Scales of a cache, and its attributes."""
    shape = 1 if mode == "PER_TENSOR" else SHARED * width
    scales = {name: const(R.uniform(0.02, 0.3, shape), np.float32) for name in ("ks", "vs")}
    return {**BARE, **scales, "k_quant_type": mode, "v_quant_type": mode, "kv_cache_bit_width": bits}


def as_far_as_defined(**arguments: Any) -> Any:
    """onnxruntime's outputs without those of queries that only fill up, and without what is no key in the caches."""
    y, *caches = by_onnxruntime("GroupQueryAttention", domain="com.microsoft", outputs=3, **arguments)
    keys = arguments["lengths"] + 1
    if "sliding_window_cache" in arguments:
        capacity = caches[0].shape[2]
        group = capacity - arguments["local_window_size"] + 1
        keys = keys - group * -(-np.maximum(keys - capacity, 0) // group)
    return [defined(y, arguments.get("valid", y.shape[1]), 1), *(defined(cache, keys, 2) for cache in caches)]


def normalized(epsilon: float, other: float) -> Any:
    """onnxruntime's CPU kernel does not normalize: it gets what is normalized by hand."""

    def expect(q: np.ndarray, nq: np.ndarray, nk: np.ndarray, **arguments: Any) -> Any:
        heads = q.reshape(*q.shape[:2], -1, WIDTH).astype(np.float64)
        for part, scale, value in ((slice(0, HEADS), nq, epsilon), (slice(HEADS, -SHARED), nk, other)):
            heads[:, :, part] *= scale / np.sqrt(np.mean(heads[:, :, part] ** 2, -1, keepdims=True) + value)
        ready = heads.reshape(q.shape).astype(np.float32)
        return by_onnxruntime("GroupQueryAttention", domain="com.microsoft", outputs=3, q=ready, **arguments)

    return expect


def opened(width: int, cached: int, batch: Any = 1) -> Any:
    past = [batch, SHARED, "p", cached]
    return {"q": [batch, "s", ALL * width], "pk": past, "pv": past}


TURNED = {"c": f(32, 8), "s": f(32, 8), "do_rotary": 1}
NORMS = {**BARE, "ks": None, "vs": None, "nq": const(f(WIDTH)), "nk": const(f(WIDTH)), "qk_norm_epsilon": 0.1}
FILLED = {**BARE, **TURNED, "ks": None, "vs": None, "nq": None, "nk": None}
group = functools.partial(
    rows, "GroupQueryAttention", 1, domain="com.microsoft", num_heads=HEADS, kv_num_heads=SHARED, outputs=3
)
window = functools.partial(group, sliding_window_cache=1, expect=as_far_as_defined)
chunk = functools.partial(group, label="filled_up", expect=as_far_as_defined)
WINDOWS = [
    *((4, 4, total, 1) for total in (1, 3, 4, 5, 9)), *((6, 4, total, 1) for total in (5, 6, 7, 8, 9, 10)),
    (4, 2, 3, 3), (4, 2, 6, 6), (5, 3, 9, 3), (8, 3, 12, 5), (1, 1, 4, 1),
]  # fmt: skip
"""Capacities, windows, totals and steps."""
OF_ANOTHER = {
    "q": f(1, 1, HEADS * WIDTH), "k": f(1, 0, SHARED * WIDTH), "v": f(1, 0, SHARED * WIDTH),
    **{name: f(1, SHARED, 4, WIDTH) for name in ("pk", "pv")}, "lengths": np.array([3], np.int32),
    "total": np.array(4, np.int32),
}  # fmt: skip
"""No keys come with the queries: they stand in the cache already."""


def chunks(*valid: int, totals: Any = (4, 7, 3), room: int = 12) -> dict[str, Any]:
    """Steps of three rows in which some queries only fill up, and as many keys as each row has after them."""
    return {**step(4, list(totals), room, width=16), **FILLED, "valid": np.array(valid, np.int32)}


ROWS = [
    *(row for bits in (8, 4) for mode in ("PER_TENSOR", "PER_CHANNEL") for steps in (1, 3) for row in group(
        label="quantized", **step(steps, [5 + steps], 5, bits), **in_bits(bits, mode),
        dims=each(None, opened(WIDTH, bits)))),
    *(row for bits in (8, 4) for row in group(
        label="room", **step(1, [4], 7, bits), **in_bits(bits), local_window_size=2, expect=as_far_as_defined)),
    *group(label="of_another_layer", **OF_ANOTHER,
           dims=each(None, opened(WIDTH, WIDTH) | {"q": [1, "s", HEADS * WIDTH]})),
    *group(**step(1, [4], 3, 8), **in_bits(8) | {"k_quant_type": "PER_ROW"}, refused="k_quant_type must be NONE,"),
    *group(**step(1, [4], 3, 8), **BARE, ks=const([0.1], "f4"), vs=const([0.1], "f4"), refused="k_scale is given"),
    *group(**step(1, [4], 3, 8), **in_bits(8) | {"ks": None, "vs": None}, refused="needs both"),
    *group(**step(1, [4], 3, 4), **in_bits(8), refused="u8 with 8 bits"),
    *(row for capacity, width, total, steps in WINDOWS for row in (
        *window(label="window", **step(steps, [total], capacity), local_window_size=width,
                dims=each(None, opened(WIDTH, WIDTH))),
        *window(label="rotary_window", **step(steps, [total], capacity, width=16), **TURNED, local_window_size=width),
        *window(label="quantized_window", **step(steps, [total], capacity, 8, 16), **in_bits(8, width=16),
                local_window_size=width))),
    *window(label="window_of_a_batch", **step(1, [3, 5, 8], 4), local_window_size=3),
    *(row for width in (-1, 0, 5) for row in group(
        **step(1, [5], 4), local_window_size=width, sliding_window_cache=1, refused="a cache with room")),
    *group(label="norms", **step(3, [3], 0), **NORMS, expect=normalized(0.1, 0.1)),
    *group(label="norms", **step(3, [3], 0), **NORMS, q_norm_epsilon=1e-3, expect=normalized(1e-3, 0.1)),
    *group(label="norms", **step(3, [3], 0), **NORMS, q_norm_epsilon=0.5, k_norm_epsilon=1e-4,
           expect=normalized(0.5, 1e-4)),
    *chunk(**chunks(4, 2, 1, totals=(4, 2, 1))),
    *chunk(**chunks(4, 2, 0), dims=each(None, opened(16, 16, "b"))),
    *chunk(**chunks(4, 2, 0), local_window_size=2),
    *chunk(**chunks(4, 2, 0, room=5), local_window_size=3, sliding_window_cache=1),
    *group(**chunks(4, 2, 0), causal=0, refused="query_seqlens goes with causal attention"),
]  # fmt: skip
