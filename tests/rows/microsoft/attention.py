"""onnxruntime's attention and its rotary embeddings, against onnxruntime."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.oracles.by_onnxruntime import by_onnxruntime, defined
from tests.rows.row import const, each, rows

R = np.random.default_rng(11)
computed = functools.partial(by_onnxruntime, domain="com.microsoft")
microsoft = functools.partial(rows, opset=1, domain="com.microsoft")


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def i(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def with_zeros(x: np.ndarray, w: np.ndarray) -> Any:
    """onnxruntime's CPU kernel crashes without a bias, although its schema allows for that."""
    return computed("Attention", x=x, w=w, b=np.zeros(24, np.float32), num_heads=2)


def taken_apart(q: np.ndarray, k: np.ndarray | None) -> Any:
    """onnxruntime unpacks keys on other processors only, so it gets them apart."""
    parts = np.moveaxis(q, 3, 0) if k is None else [q, *np.moveaxis(k, 3, 0)]
    return computed("MultiHeadAttention", num_heads=2, **{n: part.reshape(2, 3, 8) for n, part in zip("qkv", parts)})


def grouped(steps: int, past: int, room: int | None = None, packed: bool = False, batches: int = 1) -> dict[str, Any]:
    """Inputs of a step: 4 heads that share 2, of 16 numbers each; the cache has ``room`` keys, or the past's."""
    cache, total = (batches, 2, past if room is None else room, 16), past + steps
    keys = {"k": None, "v": None} if packed else {"k": f(batches, steps, 32), "v": f(batches, steps, 32)}
    return {"q": f(batches, steps, 128 if packed else 64), **keys, "pk": f(*cache), "pv": f(*cache),
            "lengths": np.full(batches, total - 1, np.int32), "total": np.array(total, np.int32)}  # fmt: skip


def with_room(**arguments: Any) -> Any:
    """What stands behind the keys in a cache with room for more is not defined."""
    y, *caches = computed("GroupQueryAttention", outputs=3, **arguments)
    return [y, *(defined(cache, arguments["total"], 2) for cache in caches)]


def normalized(**arguments: Any) -> Any:
    """onnxruntime's CPU kernel leaves normalizations to others, so it gets what NumPy has normalized."""
    for name in "qk":
        heads, scale = arguments[name].reshape(1, 2, -1, 16).astype(np.float64), arguments.pop(f"n{name}")
        heads = heads / np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-6) * scale
        arguments[name] = heads.astype(np.float32).reshape(1, 2, -1)
    return computed("GroupQueryAttention", outputs=3, **arguments)


def masked(length: int) -> Any:
    return each(None, i([1] * (length + 1), [0] * length + [1]))


X, W, B = f(2, 3, 8), f(8, 24), f(24)
PAST, CACHE = f(2, 2, 2, 4, 4), {"pk": f(2, 2, 4, 4), "pv": f(2, 2, 4, 4)}
Q, K, V, LONG = f(2, 3, 8), f(2, 5, 8), f(2, 5, 8), i([1, 1, 0, 1, 0], [0, 1, 1, 1, 1])
OPEN_HEADS, OPEN_PAST = {"q": ["b", "s", 8], "k": ["b", "t", 8], "v": ["b", "t", 8]}, ["b", 2, "p", 4]
GROUPED = {"q": ["b", "s", 64], "k": ["b", "s", 32], "v": ["b", "s", 32],
           "pk": ["b", 2, "p", 16], "pv": ["b", 2, "p", 16]}  # fmt: skip
TURNED, NONE = {"c": f(32, 8), "s": f(32, 8)}, {"c": None, "s": None, "at": None}
MASKS = [i(2, 1), i(2, 3, 0, 3, 6, 0, 2, 5), i([1, 0, 1], [0, 1, 1])]
attention = functools.partial(microsoft, "Attention", x=X, w=W, b=B, num_heads=2)
multi = functools.partial(microsoft, "MultiHeadAttention", q=Q, k=K, v=V, num_heads=2)
past = functools.partial(multi, b=None, m=None, e=None, **CACHE, outputs=3)
group = functools.partial(microsoft, "GroupQueryAttention", num_heads=4, kv_num_heads=2, outputs=3)
rotary = functools.partial(microsoft, "RotaryEmbedding")
partial_rotary = {"c": f(16, 2), "s": f(16, 2), "rotary_embedding_dim": 4, "num_heads": 3}
TABLES = {"c": f(16, 4), "s": f(16, 4)}
multimodal = functools.partial(microsoft, "MRotaryEmbedding", x=f(2, 5, 24), places=R.integers(0, 9, (3, 2, 5)),
                               cos=f(10, 4), sin=f(10, 4), num_heads=3, rotary_embedding_dim=8)  # fmt: skip
decoder = functools.partial(microsoft, "DecoderMaskedMultiHeadAttention", query=f(2, 1, 8), num_heads=2)
STEP = {"key": f(2, 1, 8), "value": f(2, 1, 8)}
ROWS = [
    *attention(also=each({}, {"scale": 0.3}, {"unidirectional": 1})),
    *attention(m=each(i(2, 3), i(3, 2, 1, 0), R.integers(0, 2, (2, 3, 3)).astype(np.int32))),
    *attention(m=i([1, 1, 0], [1, 1, 1]), mask_filter_value=-50.0),
    *attention(m=i([1, 1, 0], [0, 1, 1]), unidirectional=1),
    *attention(label="past", m=None, past=PAST, unidirectional=1, outputs=2),
    *attention(label="past", m=np.ones((2, 7), np.int32), past=PAST, outputs=2,
               dims={"x": ["b", "s", 8], "m": ["b", "t"], "past": [2, "b", 2, "p", 4]}),
    *attention(m=None, past=None, e=f(1, 2, 3, 3)),
    *attention(w=f(8, 28), b=f(28), qkv_hidden_sizes=[8, 8, 12]),
    *attention(b=None, expect=with_zeros),
    *(row for m in [*MASKS, i(3, 2, 1, 0)] for row in attention(
        label="mask", w=const(W), b=const(B), m=m, dims=each(None, {"x": ["b", "s", 8], "m": [None] * m.ndim}))),
    *attention(num_heads=3, refused="cannot be split into 3 heads"),
    *attention(m=np.ones((2, 1, 3, 3), np.int32), refused="masks of the shape"),
    *attention(m=i(1, 2, 3), refused="a mask of 3 lengths does not fit 2 batches"),
    *attention(do_rotary=1, refused="'do_rotary' is not supported"),
    *multi(b=each(None, f(24))),
    *multi(v=f(2, 5, 12), scale=0.7),
    *multi(b=None, m=i([1, 1, 0, 1, 0], [1] * 5)),
    *(row for m in MASKS for row in multi(
        label="mask", k=X, v=X * 2, b=None, m=m, dims=each(None, {**OPEN_HEADS, "m": [None] * m.ndim}))),
    *multi(b=None, m=LONG, unidirectional=1, dims=each(None, OPEN_HEADS)),
    *multi(unidirectional=1, also=each({}, {"k": Q, "v": Q}, {"q": K, "k": Q, "v": Q}, {"q": f(2, 1, 8)})),
    *past(unidirectional=1, also=each({"k": X, "v": X}, {"q": K, "k": Q, "v": Q}, {"v": K})),
    *past(label="past_of_any_length", v=K, unidirectional=1, dims={**OPEN_HEADS, "pk": OPEN_PAST}),
    *past(label="past_of_any_length", k=Q, v=Q, dims={"q": ["b", "s", 8], "pk": OPEN_PAST, "pv": OPEN_PAST}),
    *multi(b=None, m=None, e=f(2, 1, 3, 5)),
    *multi(label="ready", k=f(2, 2, 5, 4), v=f(2, 2, 5, 4)),
    *multi(label="packed", k=np.stack([X.reshape(2, 3, 2, 4), f(2, 3, 2, 4)], 3), v=None, expect=taken_apart),
    *multi(label="packed", q=f(2, 3, 2, 3, 4), k=None, v=None, expect=taken_apart),
    *multi(k=None, v=None, refused="input 'key' is required"),
    *rotary(x=f(2, 3, 5, 8), p=each(np.arange(10).reshape(2, 5), np.array([3])), **TABLES,
            dims=each(None, {"x": ["b", 3, "s", 8]})),
    *rotary(x=f(2, 5, 24), p=np.array([3]), **TABLES, interleaved=each(0, 1), dims=each(None, {"x": ["b", "s", 24]})),
    *rotary(x=f(2, 5, 24), p=np.array([3]), **partial_rotary, interleaved=each(0, 1)),
    *rotary(x=f(4, 4), p=np.array([1]), c=f(4, 2), s=f(4, 2), refused="must have 3 or 4 dim"),
    *group(also=each(grouped(5, 0), grouped(1, 6), grouped(3, 0, packed=True))),
    *group(**grouped(3, 6), dims=each(None, GROUPED)),
    *group(**grouped(3, 6), **TURNED, do_rotary=1),
    *group(**grouped(3, 0), **TURNED, do_rotary=1, dims=GROUPED),
    *group(**grouped(1, 6, batches=2), **TURNED, do_rotary=1, rotary_interleaved=1),
    *group(also=each(grouped(4, 6), grouped(1, 6)), local_window_size=3),
    *group(**grouped(2, 6), softcap=2.0, scale=0.5),
    *group(**grouped(2, 6), smooth_softmax=1),
    *group(**grouped(4, 0), causal=0),
    *group(**grouped(2, 6, room=12), expect=with_room),
    *group(**grouped(4, 0, room=12, batches=2), dims=GROUPED, expect=with_room),
    *group(**grouped(2, 6, room=9), **NONE, e=f(1, 1, 2, 8), expect=with_room),
    *group(**grouped(2, 6), **TURNED, at=np.array([[6, 7]]), do_rotary=1),
    *group(**grouped(2, 6), **NONE, e=f(1, 4, 2, 8)),
    *group(**grouped(2, 6), **NONE, e=None, sink=f(4)),
    *group(**grouped(2, 6), **NONE, e=None, sink=None, ks=None, vs=None, nq=f(16), nk=f(16), expect=normalized),
    *group(**grouped(1, 2), num_heads=3, refused="must be a multiple of kv_num_heads"),
    *group(**grouped(1, 2), qk_output=1, refused="'qk_output' is not supported"),
    *multimodal(mrope_section=(2, 1, 1), mrope_layout=each(0, 1), interleaved=each(0, 1)),
    *multimodal(x=f(2, 3, 5, 16), mrope_section=(1, 1, 2), mrope_layout=each(0, 1), interleaved=each(0, 1)),
    *multimodal(mrope_section=[2, 2], refused="must be three numbers of 0 or more"),
    *multimodal(mrope_section=[2, 1, 2], refused="has 5 angles, but cos_cache has 4"),
    *multimodal(mrope_section=[2, 1, 1], mrope_layout=2, refused="mrope_layout must be 0 or 1, but is 2"),
    *multimodal(mrope_section=[2, 1, 1], scale=2.0, refused="scale, which onnxruntime's CPU kernel ignores"),
    *(row for length in (0, 3, 5) for row in decoder(
        **STEP, mask=masked(length), _=None, past_key=f(2, 2, 6, 4), past_value=f(2, 2, 6, 4), length=i(length), i=None,
        beam=None, bias=each(None, f(24)), past_present_share_buffer=1, scale=0.3, outputs=3)),
    *decoder(label="another_sequence", key=f(2, 2, 3, 4), value=f(2, 2, 3, 4)),
    *decoder(**STEP, output_qk=1, refused="'output_qk' is not supported"),
]  # fmt: skip
