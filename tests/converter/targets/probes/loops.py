"""Loops: their states, slices and numbers of iterations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tests.rows.row import const

from .rows import Probe, numbers, probe, several, single


def scanned(name: str, nodes: str, layers: str, states: str = "s", kind: Any = np.float32, **what: Any) -> Probe:
    """A Scan over the rows of x, whose states get the values ``t``, ``u``, and which returns the last ones."""
    text = {
        np.float32: "float",
        ml_dtypes.bfloat16: "bfloat16",
        ml_dtypes.float4_e2m1fn: "float4e2m1",
        ml_dtypes.float8_e8m0fnu: "float8e8m0",
    }[kind]
    following, inputs = (
        "tu"[: len(states)],
        {f"{state}0": (numbers(2, 3) * (i + 1)).astype(kind) for i, state in enumerate(states)},
    )
    taken, given = (", ".join(f"{text}[2, 3] {value}" for value in values) for values in ([*states, "row"], following))
    loop = f"""{", ".join(f"y{state}" for state in states)} = Scan <num_scan_inputs = 1, body = b ({taken}) => ({given}) {{
        {nodes} }}> ({", ".join(inputs)}, x)"""
    outputs = ", ".join(f"y{state}" for state in states)
    return probe(
        name, layers, several(loop, outputs=outputs, opset=25, **inputs, x=numbers(4, 2, 3).astype(kind), **what)
    )


def chosen(name: str, following: str, layers: str) -> Probe:
    """An If with outputs of dynamic dimensions, and layers that read them and compute y."""
    nodes = f"""p, q = If (c) <then_branch = a () => (float[n] t, float[n] u) {{ t = Abs (x) u = Sin (x) }},
                     else_branch = b () => (float[n] v, float[n] w) {{ v = Neg (x) w = Cos (x) }}> {following}"""
    row = several(nodes, {"x": "n"}, x=numbers(7), c=np.array(True))
    return probe(f"if_outputs_in_reused_memory: {name}", layers, row)


NESTED = """y = If (c) <then_branch = d () => (float[m] e) {
  f = If (c) <then_branch = g () => (float[n] h) { h = Abs (x) }, else_branch = i () => (float[n] j) { j = Neg (x) }>
  k = Concat <axis = 0> (f, f, f) l = Softmax (k) e = Relu (l) }, else_branch = s () => (float[n] r) { r = Neg (x) }>"""
EXCHANGED = """s1, t1 = Loop (n, "", s0, t0)
    <body = b (int64 i, bool c, float[1, 3] s, float[3, 1] t) => (bool d, float[1, 3] u, float[3, 1] v)
    { d = Identity (c) u = Transpose <perm = [1, 0]> (t) v = Transpose <perm = [1, 0]> (s) }>"""
BOTH = "k = Concat <axis = 0> (p, q, p) s = Softmax (k) y = Relu (s)"
SHARED = "loop_states_in_shared_memory"
LOOPED = [
    chosen("both outputs", BOTH, "If Concat SoftMax ReLU Negative Cos Abs Sin"),
    chosen("in a body", NESTED, "If Negative If Concat SoftMax ReLU Negative Abs"),
    scanned(f"{SHARED}: a sum in the memory of a slice", "t = Add (row, s)", "TensorIterator Squeeze Add"),
    scanned(
        f"{SHARED}: a slice handed on", "t = Add (r, s) u = Identity (row)", "TensorIterator Add Squeeze", "rs"
    ),
    probe(
        f"{SHARED}: a view that moves a dimension of 1", "Loop Transpose Transpose",
        several(EXCHANGED, outputs="s1, t1", n=const(3), s0=numbers(1, 3), t0=numbers(3, 1) + 1),
    ),
]  # fmt: skip


def captured(name: str, nodes: str, layers: str) -> Probe:
    """A Scan over rows, whose body also reads x, a value of the graph around it."""
    loop = f"""y = Scan <num_scan_inputs = 1, body = b (float[2, 3] row) => (float[2, 3] sum) {{
        {nodes} sum = Add (row, s) }}> (rows)"""
    constants = {"front": const([0]), "scale": const(numbers(3)), "shape": const([2, 3])}
    used = {key: value for key, value in constants.items() if f"{key})" in nodes}
    row = several(loop, opset=25, rows=numbers(4, 2, 3), x=numbers(2, 3), **used)
    return probe(f"loop_inputs_in_place: {name}", f"TensorIterator Squeeze {layers} Add Unsqueeze", row)


VIEWS = "v = Unsqueeze (x, front) e = Exp (v) w = Reshape (v, shape) f = Reshape (e, shape) s = Add (w, f)"
VIEWED = "v = Unsqueeze (x, front) u = Softmax (v) s = Squeeze (u, front)"
IN_PLACE = [
    captured("a sum behind two views", VIEWS, "Unsqueeze Reshape Exp Reshape Add"),
    captured("a normalization", "s = LayerNormalization (x, scale)", "MVN Multiply"),
    captured("Softmax of a value of the graph around it", "s = Softmax (x)", "SoftMax"),
    captured("Softmax of a view of it", VIEWED, "Unsqueeze SoftMax Squeeze"),
]


def counted(name: str, rows: Sequence[Any], backwards: int = 0) -> Probe:
    """A Scan over rows that its body does not read: it doubles a state, and returns every value of it."""
    loop = f"""end, all = Scan <num_scan_inputs = 1, scan_output_directions = [{backwards}],
        body = b (float[2] s, float row) => (float t, float u) {{ t = Add (s, s) u = Neg (t) }}> (s0, x)"""
    row = several(
        loop.replace("float row", "row").replace("float t, float u", "t, u"),
        {"x": rows},
        "end, all",
        s0=numbers(2),
        x=numbers(4, 3),
    )
    return probe(f"iterator_over_unread_slices{name}", "TensorIterator Add Negative Unsqueeze", row)


UNREAD = [counted("", [4, 3]), counted(": a dynamic count", ["n", 3]), counted(": joined backwards", [4, 3], 1)]
NESTED_LOOPS = """y = Loop (n, "") <body = b (int64 i, bool c) => (bool d, float[2] o) {
    k = Gather (counts, i)
    p = Loop (k, "") <body = a (int64 j, bool e) => (bool f, float[2] q) { f = Identity (e) q = Exp (x) }>
    t = Concat <axis = 0> (p, row)  o = ReduceSum <keepdims = 0> (t, first)  d = Identity (c) }>"""
"""A Loop around one whose number of iterations is an element of ``counts``."""
NONE = probe(
    "loops_of_no_iterations", "Loop Gather Maximum Loop Concat ReduceSum Exp Unsqueeze",
    several(
        NESTED_LOOPS, x=numbers(2), counts=np.array([2, 0, 1]), row=const(numbers(1, 2)), n=const(3), first=const([0])
    ),
)  # fmt: skip


def constant_states(op_type: str, gates: int) -> Probe:
    """A network with states of batch 1, and data of any batch."""
    states = {"h": const(numbers(1, 1, 2) / 3), **({"c": const(numbers(1, 1, 2) / 5)} if op_type == "LSTM" else {})}
    weights = {"w": const(np.sin(numbers(1, gates * 2, 3))), "r": const(np.cos(numbers(1, gates * 2, 2)))}
    row = single(
        op_type, 14, x=np.sin(numbers(4, 1, 3)), **weights, b=None, lengths=None, **states, dims={"x": ["t", "n", 3]},
        outputs=2, hidden_size=2,
    )  # fmt: skip
    layers = f"Transpose ShapeOf Gather Gather Broadcast {op_type}Sequence Transpose Transpose"
    return probe(f"sequences_of_known_batch: {op_type}", layers, row)


WRONG = [*LOOPED, *IN_PLACE, *UNREAD, NONE]
REFUSED = [
    *(constant_states(op_type, gates) for op_type, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))),
    *(
        scanned(
            f"loop_states_of_narrow_types: a slice of {kind.__name__} handed on", "t = Identity (row)",
            "TensorIterator Squeeze", kind=kind, expect=numbers(4, 2, 3)[-1].astype(kind),
        )
        for kind in (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu)
    ),
]  # fmt: skip
