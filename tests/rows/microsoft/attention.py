"""onnxruntime's attention: with masks, sparse, linear, and behind an LSTM."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime

from tests.rows.row import Row, by_onnxruntime, const, defined, each, graphs, normal_by, rows

R = np.random.default_rng(11)
computed = functools.partial(by_onnxruntime, domain="com.microsoft")
microsoft = functools.partial(rows, opset=1, domain="com.microsoft")
f = normal_by(R)


def i(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


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
    *attention(b=None),
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

HEADS, SHARED, WIDTH, ROOM, BLOCK = 4, 2, 16, 64, 16
FIRST = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]]
SECOND = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1]]
sparse = functools.partial(
    rows, "SparseAttention", 1, domain="com.microsoft", num_heads=HEADS, kv_num_heads=SHARED, sparse_block_size=BLOCK,
    outputs=3,
)  # fmt: skip


def lists(patterns: list[list[list[int]]]) -> dict[str, Any]:
    """The blocks of each row, one row behind the other, and where each starts."""
    columns = [[place for row in one for place in np.flatnonzero(row).tolist()] for one in patterns]
    padded = [one + [-1] * (max(map(len, columns)) - len(one)) for one in columns]
    starts = [[0, *np.cumsum(np.sum(one, axis=1))] for one in patterns]
    return {"rows": const(starts, np.int32), "columns": const(padded, np.int32)}


def data(steps: int, totals: list[int], patterns: Any, packed: bool = False) -> dict[str, Any]:
    batch = len(totals)
    return {
        "query": f(batch, steps, (HEADS + 2 * SHARED * packed) * WIDTH),
        **{name: None if packed else f(batch, steps, SHARED * WIDTH) for name in ("key", "value")},
        **{name: f(batch, SHARED, ROOM, WIDTH) for name in ("past_key", "past_value")}, **lists(patterns),
        "total": np.array([max(totals)], np.int32), "totals": np.array(totals, np.int32),
    }  # fmt: skip


def alone(index: int, **arguments: Any) -> list[np.ndarray]:
    """What onnxruntime computes of one row of a batch, with the caches as inputs and outputs.

    It computes something else for the shorter rows of a batch.
    """
    total, steps = arguments["totals"][index], arguments["query"].shape[1]
    for name in ("query", "key", "value", "past_key", "past_value", "totals"):
        arguments[name] = None if arguments[name] is None else arguments[name][index : index + 1]
        if name in ("query", "key", "value") and arguments[name] is not None and steps > 1:
            arguments[name] = arguments[name][:, :total]
    [row] = sparse(**arguments | {"total": np.array([total], np.int32)})
    session = onnxruntime.InferenceSession(row.model.SerializeToString(), providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value.copy()) for name, value in row.feeds.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y0")
    for name, past in (("y1", "past_key"), ("y2", "past_value")):
        binding.bind_ortvalue_output(name, values[past])
    session.run_with_iobinding(binding)
    y, *caches = (value.numpy().copy() for value in binding.get_outputs())
    return [np.pad(y, ((0, 0), (0, steps - y.shape[1]), (0, 0))), *caches]


def of_each_row(**arguments: Any) -> Any:
    """The outputs before the padding, and the caches as far as there are keys."""
    totals, steps = arguments["totals"], arguments["query"].shape[1]
    y, *caches = map(np.concatenate, zip(*(alone(index, **arguments) for index in range(len(totals)))))
    return [defined(y, totals if steps > 1 else 1, 1), *(defined(cache, totals, 2) for cache in caches)]


ANGLES = {"cos": const(np.cos(f(ROOM, WIDTH // 2))), "sin": const(np.sin(f(ROOM, WIDTH // 2)))}
ROTARY = each({"do_rotary": 0}, {**ANGLES, "do_rotary": 1})
ROWS += [
    *(row for steps, total in ((40, 40), (1, 50), (1, 17), (3, 3)) for patterns in ([FIRST], [FIRST, SECOND])
      for packed in (False, True)
      for row in sparse(**data(steps, [total, total], patterns, packed), also=ROTARY, expect=of_each_row)),
    *sparse(label="lengths", **data(40, [40, 30], [FIRST, SECOND]), do_rotary=0, expect=of_each_row),
    *sparse(label="lengths", **data(1, [50, 33], [FIRST, SECOND]), do_rotary=0, expect=of_each_row),
    *sparse(**data(1, [5], [FIRST, SECOND]) | {"columns": const(np.full((2, 9), 7), np.int32)},
            refused="row 0 of pattern 0 lists no blocks of 4"),
]  # fmt: skip

BATCH, KEY, VALUE = 2, 3, 4
HALF = np.float16


def inputs(rule: str, queries: int = 2, heads: int = 2, per_key: bool = False, keys: int = 0, steps: int = 5) -> Any:
    """Inputs of a recurrence, and its attributes; the keys are of as many heads as the values, or of ``keys``."""
    of_one = [heads * KEY, heads] if per_key else [heads, 1]
    return {
        "q": f(BATCH, steps, queries * KEY), "k": f(BATCH, steps, (keys or heads) * KEY),
        "v": f(BATCH, steps, heads * VALUE), "state": f(BATCH, heads, KEY, VALUE),
        "decay": -np.abs(f(BATCH, steps, of_one[0])) if "gated" in rule else None,
        "beta": 1 / (1 + np.exp(f(BATCH, steps, of_one[1]))) if "delta" in rule else None,
        "update_rule": rule, "q_num_heads": queries, "kv_num_heads": heads, "outputs": 2,
    }  # fmt: skip


def delta_net(
    heads: tuple[int, int] = (2, 4), starts: Any = None, rank: int = 3, packed: bool = False, per_key: bool = False,
    left_out: str = "", dtype: Any = np.float32, **attributes: Any,
) -> Any:  # fmt: skip
    lead, (shared, own) = (BATCH, 3) if rank == 4 else (6,), heads
    values = {
        "q": f(*lead, 2 * shared * KEY + own * VALUE) if packed else f(*lead, shared, KEY).astype(dtype),
        "k": f(*lead, shared, KEY).astype(dtype),
        "v": f(*lead, own, VALUE).astype(dtype),
        "starts": np.array(starts or [], np.int32),
        "decay": -np.abs(f(*lead, own, KEY) if per_key else f(*lead, own)),
        "beta": 1 / (1 + np.exp(f(*lead, own))),
        "state": f(BATCH, own, VALUE, KEY),
        "a_log": f(own),
        "bias": f(own, KEY) if per_key else f(own),
        "count": np.array([1, 3], np.int32),
        "active": np.array([0], np.int32),
    }
    captures = "state_update_capacity" in attributes
    unused = left_out.split() + ["k", "v"] * packed + ["starts"] * (starts is None)
    unused += ["count", "active"] * (not captures) + ["a_log", "bias"] * ("gate_activation" not in attributes)
    return {**values, **dict.fromkeys(unused), **attributes, "outputs": 2 + captures}


# Softplus of 100 and more is its argument, that of -100 nearly nothing.
A = np.concatenate([f(2, 3, 4) * 3, np.array([-100, 0, 30, 200], np.float32) * np.ones((2, 1, 4), np.float32)], 1)
PER_HEAD = {"dt_bias": f(4), "decay_scale": -np.exp(f(4))}
STORED = {name: const(value) for name, value in PER_HEAD.items()}
OPEN = each(None, {"a": ["n", "t", 4], "b": ["n", "t", 4]})
RULES, SIZES = ("linear", "gated", "delta", "gated_delta"), ((2, 2), (4, 2), (2, 4))
gate = functools.partial(microsoft, "LinearAttentionGate")
linear = functools.partial(microsoft, "LinearAttention")
net = functools.partial(microsoft, "GatedDeltaNet")
NETS: list[dict[str, Any]] = [
    {}, {"dtype": HALF}, {"rank": 4}, {"packed": True}, {"heads": (4, 4)}, {"starts": [0, 2, 6]}, {"starts": [0, 0, 6]},
    {"starts": [0, 6, 6]}, {"starts": [0, 2, 6], "left_out": "state"}, {"per_key": True}, {"qk_l2_norm": 1},
    {"scale": 0.3}, {"scale": 3**-0.5}, {"beta_activation": "sigmoid"},
    {"update_rule": "gated", "left_out": "beta", "scale": 0.3}, {"update_rule": "delta", "left_out": "decay"},
    {"update_rule": "linear", "left_out": "decay beta"}, {"gate_activation": "softplus"},
    {"gate_activation": "qwen", "per_key": True}, {"gate_activation": "sigmoid", "gate_lower_bound": -2.0},
    {"gate_activation": "kda", "per_key": True}, {"state_update_capacity": 4, "left_out": "active"},
    {"state_update_capacity": 4}, {"state_update_capacity": 2, "left_out": "active", "starts": [0, 2, 6]},
]  # fmt: skip
# A function of the model that has the operator's name, as builders of models add them.
NAMED = """g (float[2,5,6] q, float[2,5,6] k, float[2,5,8] v, float[2,2,3,4] state, float[2,5,2] decay,
           float[2,5,1] beta) => (y, z) {{
    y, z = com.microsoft.LinearAttention
        <update_rule="gated_delta", q_num_heads=2, kv_num_heads=2{}> (q, k, v, state, decay, beta)
}}
<domain: "com.microsoft", opset_import: ["" : 17]>
LinearAttention <update_rule, q_num_heads, kv_num_heads,
state_window> (a, b, c, d, e, f) => (y, z) {{ y = Neg(c) z = Neg(d) }}"""
WITHOUT_KERNEL = """g (int8[3] a, int8[3] b) => (y, z) { y, z = com.microsoft.MulInteger (a, b) }
<domain: "com.microsoft", opset_import: ["" : 17]> MulInteger (a, b) => (y, z) { y = Add(a, b) z = Neg(a) }"""
named = functools.partial(graphs, domain="com.microsoft")
GATED = {name: value for name, value in inputs("gated_delta").items() if isinstance(value, np.ndarray)}
ROWS += [
    *(row for kind in (np.float32, HALF) for row in gate(a=A.astype(kind), **PER_HEAD, dims=OPEN)),
    *(row for kind in (np.float32, HALF)
      for row in gate(a=A.astype(kind), **PER_HEAD, b=(A[::-1] / 2).astype(kind), dims=OPEN, outputs=2)),
    *gate(label="constants", a=A, **STORED, b=A + 1, outputs=2),
    *gate(label="first_output", a=A, **PER_HEAD, b=A),
    *gate(a=A, **PER_HEAD, outputs=2, refused="beta requires the input b"),
    *(row for rule in RULES for size in SIZES for per_key in (False, True) for values in [inputs(rule, *size, per_key)]
      for row in linear(label=rule, **values | {"state": each(None, values["state"])})),
    *(row for rule in RULES for row in rows("LinearAttention", 27, **inputs(rule))),
    *(row for steps in (0, 1) for row in linear(label=f"of_{steps}_steps", **inputs("gated_delta", steps=steps))),
    *(row for rule in ("gated", "gated_delta") for keys in (1, 2, 4)
      for row in linear(label="shared_keys", **inputs(rule, 2, 4, keys=keys))),
    *linear(**inputs("squared"), refused="update_rule must be linear, gated, delta or gated_delta"),
    *linear(**inputs("linear") | {"q_num_heads": 5}, refused="q_num_heads must divide the last dimension"),
    *linear(**inputs("linear"), state_window=2, refused="state_window"),
    *linear(**inputs("linear") | {"update_rule": "gated"}, refused="requires the input decay"),
    *named(NAMED.format(""), label="kernel_before_function", **GATED),
    *named(NAMED.format(", state_window=2"), label="function_where_refused", **GATED, layers=["Negative-1"] * 2),
    *named(WITHOUT_KERNEL, label="function_without_kernel", a=np.ones(3, np.int8), b=np.ones(3, np.int8)),
    *(row for options in NETS for row in net(**delta_net(**options))),
    *net(**delta_net(left_out="state"), refused="without cu_seqlens the input initial_state is required"),
    *net(**delta_net(left_out="state", packed=True), refused="require the input initial_state"),
    *net(**delta_net(gate_activation="relu"), refused="gate_activation must be none, softplus, qwen"),
    *net(**delta_net(gate_activation="softplus", left_out="bias"), refused="requires the inputs a_log and dt_bias"),
    *net(**delta_net(beta_activation="relu"), refused="beta_activation must be none or sigmoid"),
    *net(**delta_net(state_update_capacity=4, left_out="count active"), refused="requires the input capture_count"),
]  # fmt: skip

STEPS, BATCH_ATTENTION_LSTM, WIDTH_ATTENTION_LSTM, HIDDEN, MEMORY, DEPTH, ATTENTION, LAYER = 4, 3, 5, 6, 7, 4, 3, 2
NEEDED = "x w r qw mw v m "


def halved(*shape: int) -> np.ndarray:
    return (R.standard_normal(shape) * 0.5).astype(np.float32)


def attention_lstm(options: str = "", direction: str = "forward", **more: Any) -> Iterator[Row]:
    """Yield rows with some of the inputs that may be left out."""
    count = 2 if direction == "bidirectional" else 1
    values = {
        "x": halved(STEPS, BATCH_ATTENTION_LSTM, WIDTH_ATTENTION_LSTM), "w": halved(count, 4 * HIDDEN, WIDTH_ATTENTION_LSTM + (LAYER if "aw" in options.split() else DEPTH)),
        "r": halved(count, 4 * HIDDEN, HIDDEN), "b": halved(count, 8 * HIDDEN), "lengths": np.array([4, 2, 3], np.int32),
        "h": halved(count, BATCH_ATTENTION_LSTM, HIDDEN), "c": halved(count, BATCH_ATTENTION_LSTM, HIDDEN), "p": halved(count, 3 * HIDDEN),
        "qw": halved(count, HIDDEN, ATTENTION), "mw": halved(count, DEPTH, ATTENTION), "v": halved(count, ATTENTION),
        "m": halved(BATCH_ATTENTION_LSTM, MEMORY, DEPTH), "memory_lengths": np.array([7, 3, 5], np.int32),
        "aw": halved(count, DEPTH + HIDDEN, LAYER),
    }  # fmt: skip
    inputs = {name: value if name in (NEEDED + options).split() else None for name, value in values.items()}
    attributes = {"activations": ["sigmoid", "tanh", "tanh"] * count, "direction": direction, "hidden_size": HIDDEN}
    return rows("AttnLSTM", 1, domain="com.microsoft", outputs=3, **{**inputs, **attributes, **more})


ROWS += [
    *(row for direction in ("forward", "reverse", "bidirectional")
      for options in ("", "b lengths h c p", "b memory_lengths aw", "lengths h c p memory_lengths aw")
      for row in attention_lstm(options, direction, input_forget=each(0, 1))),
    *attention_lstm(direction="sideways", refused="direction must be forward, reverse or"),
    *attention_lstm(clip=1.0, refused="and clip, are not supported"),
    *attention_lstm(activations=["tanh"] * 3, refused="activations other than"),
]  # fmt: skip
