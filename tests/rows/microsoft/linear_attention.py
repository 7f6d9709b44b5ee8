"""Linear attention of onnxruntime's language models, against onnxruntime."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.rows.row import const, each, graphs, rows

R = np.random.default_rng(57)
BATCH, KEY, VALUE = 2, 3, 4
HALF = np.float16


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


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
microsoft = functools.partial(rows, opset=1, domain="com.microsoft")
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
ROWS = [
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
    *linear(**inputs("squared"), refused="update_rule must be one of linear, gated, delta, gated_delta"),
    *linear(**inputs("linear") | {"q_num_heads": 5}, refused="q_num_heads must divide the last dimension"),
    *linear(**inputs("linear"), state_window=2, refused="state_window"),
    *linear(**inputs("linear") | {"update_rule": "gated"}, refused="requires the input decay"),
    *named(NAMED.format(""), label="kernel_before_function", **GATED),
    *named(NAMED.format(", state_window=2"), label="function_where_refused", **GATED, layers=["Negative-1"] * 2,
           expect=lambda v, state: [-v, -state]),
    *named(WITHOUT_KERNEL, label="function_without_kernel", a=np.ones(3, np.int8), b=np.ones(3, np.int8),
           expect=lambda a, b: [a + b, -a]),
    *(row for options in NETS for row in net(**delta_net(**options))),
    *net(**delta_net(left_out="state"), refused="without cu_seqlens the input initial_state is required"),
    *net(**delta_net(left_out="state", packed=True), refused="require the input initial_state"),
    *net(**delta_net(gate_activation="relu"), refused="gate_activation must be none, softplus or sigmoid"),
    *net(**delta_net(gate_activation="softplus", left_out="bias"), refused="requires the inputs a_log and dt_bias"),
    *net(**delta_net(beta_activation="relu"), refused="beta_activation must be none or sigmoid"),
    *net(**delta_net(state_update_capacity=4, left_out="count active"), refused="requires the input capture_count"),
]  # fmt: skip
