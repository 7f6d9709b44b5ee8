"""Loops: their states, slices and numbers of iterations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from .rows import Probe, Row, numbers, several, single


def scanned(
    nodes: Sequence[onnx.NodeProto], states: Sequence[str], following: Sequence[str], kind: Any = np.float32
) -> Callable[[], Probe]:
    """A Scan over the rows of x, which returns the last values of ``states``."""

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


def exchanged() -> Probe:
    """A Loop whose two states exchange their places, each transposed."""
    body = onnx.parser.parse_graph(
        """body (int64 i, bool c, float[1, 3] s, float[3, 1] t) => (bool d, float[1, 3] u, float[3, 1] v)
        { d = Identity (c) u = Transpose <perm = [1, 0]> (t) v = Transpose <perm = [1, 0]> (s) }"""
    )
    feeds = {"s0": numbers(1, 3), "t0": numbers(3, 1) + 1}
    node = helper.make_node("Loop", ["n", "", *feeds], ["s_end", "t_end"], body=body)
    return several([node], feeds, {"n": np.array(3)}, {name: array.shape for name, array in feeds.items()})


def chosen(following: str) -> Callable[[], Probe]:
    """An If with outputs of dynamic dimensions, and layers that read them and compute y."""

    def build() -> Probe:
        model = onnx.parser.parse_model(
            f"""<ir_version: 9, opset_import: ["" : 17]>
            g (float[n] x, bool c) => (y) {{
              p, q = If (c) <then_branch = a () => (float[n] t, float[n] u) {{ t = Abs (x) u = Sin (x) }},
                             else_branch = b () => (float[n] v, float[n] w) {{ v = Neg (x) w = Cos (x) }}>
              {following}
            }}"""
        )
        return model, {"x": numbers(7), "c": np.array(True)}

    return build


NESTED = """y = If (c) <then_branch = d () => (float[m] e) {
  f = If (c) <then_branch = g () => (float[n] h) { h = Abs (x) }, else_branch = i () => (float[n] j) { j = Neg (x) }>
  k = Concat <axis = 0> (f, f, f) l = Softmax (k) e = Relu (l) }, else_branch = s () => (float[n] r) { r = Neg (x) }>"""
LOOPED = [
    Row(
        "if_outputs_in_reused_memory: both outputs",
        chosen("k = Concat <axis = 0> (p, q, p) s = Softmax (k) y = Relu (s)"),
        "If Concat SoftMax ReLU Negative Cos Abs Sin",
    ),
    Row(
        "if_outputs_in_reused_memory: in a body",
        chosen(NESTED),
        "If Negative If Concat SoftMax ReLU Negative Abs",
    ),
    Row(
        "loop_states_in_shared_memory: a sum in the memory of a slice",
        scanned([helper.make_node("Add", ["row", "s"], ["t"])], ["s"], ["t"]),
        "TensorIterator Squeeze Add",
    ),
    Row(
        "loop_states_in_shared_memory: a slice handed on",
        scanned(
            [helper.make_node("Add", ["r", "s"], ["t"]), helper.make_node("Identity", ["row"], ["u"])],
            ["r", "s"],
            ["t", "u"],
        ),
        "TensorIterator Add Squeeze",
    ),
    Row(
        "loop_states_in_shared_memory: a view that moves a dimension of 1",
        exchanged,
        "Loop Transpose Transpose",
    ),
]


def captured(nodes: Sequence[onnx.NodeProto]) -> Callable[[], Probe]:
    """A Scan over rows, whose body also reads x, a value of the graph around it."""

    def build() -> Probe:
        own, outer = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in ("row", "sum"))
        body = helper.make_graph([*nodes, helper.make_node("Add", ["row", "s"], ["sum"])], "body", [own], [outer])
        node = helper.make_node("Scan", ["rows"], ["sums"], num_scan_inputs=1, body=body)
        feeds = {"rows": numbers(4, 2, 3), "x": numbers(2, 3)}
        shapes = {name: array.shape for name, array in feeds.items()}
        return several(
            [node], feeds, {"front": np.array([0]), "scale": numbers(3), "shape": np.array([2, 3])}, shapes, opset=25
        )

    return build


VIEWS = [
    helper.make_node("Unsqueeze", ["x", "front"], ["v"]),
    helper.make_node("Exp", ["v"], ["e"]),
    helper.make_node("Reshape", ["v", "shape"], ["w"]),
    helper.make_node("Reshape", ["e", "shape"], ["f"]),
    helper.make_node("Add", ["w", "f"], ["s"]),
]
IN_PLACE = [
    Row(
        "loop_inputs_in_place: a sum behind two views",
        captured(VIEWS),
        "TensorIterator Squeeze Unsqueeze Reshape Exp Reshape Add Add Unsqueeze",
    ),
    Row(
        "loop_inputs_in_place: a normalization",
        captured([helper.make_node("LayerNormalization", ["x", "scale"], ["s"])]),
        "TensorIterator Squeeze MVN Multiply Add Unsqueeze",
    ),
    Row(
        "loop_inputs_in_place: Softmax of a value of the graph around it",
        captured([helper.make_node("Softmax", ["x"], ["s"])]),
        "TensorIterator Squeeze SoftMax Add Unsqueeze",
    ),
    Row(
        "loop_inputs_in_place: Softmax of a view of it",
        captured(
            [
                helper.make_node("Unsqueeze", ["x", "front"], ["v"]),
                helper.make_node("Softmax", ["v"], ["u"]),
                helper.make_node("Squeeze", ["u", "front"], ["s"]),
            ]
        ),
        "TensorIterator Squeeze Unsqueeze SoftMax Squeeze Add Unsqueeze",
    ),
]


def counted(rows: Sequence[Any], backwards: int = 0) -> Callable[[], Probe]:
    """A Scan over rows that its body does not read: it doubles a state, and returns every value of it."""

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
    Row("iterator_over_unread_slices", counted([4, 3]), "TensorIterator Add Negative Unsqueeze"),
    Row("iterator_over_unread_slices: a dynamic count", counted(["n", 3]), "TensorIterator Add Negative Unsqueeze"),
    Row("iterator_over_unread_slices: joined backwards", counted([4, 3], 1), "TensorIterator Add Negative Unsqueeze"),
]


def nested() -> Probe:
    """A Loop around one whose number of iterations is an element of ``counts``."""
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        g (float[2] x, int64[3] counts) => (y) <float[1, 2] row = {1, 2}, int64 n = {3}, int64[1] first = {0}> {
          y = Loop (n, "") <body = b (int64 i, bool c) => (bool d, float[2] o) {
            k = Gather (counts, i)
            p = Loop (k, "") <body = a (int64 j, bool e) => (bool f, float[2] q) { f = Identity (e) q = Exp (x) }>
            t = Concat <axis = 0> (p, row)  o = ReduceSum <keepdims = 0> (t, first)  d = Identity (c) }>
        }"""
    )
    return model, {"x": numbers(2), "counts": np.array([2, 0, 1])}


NESTED_LOOPS = [Row("loops_of_no_iterations", nested, "Loop Gather Maximum Loop Concat ReduceSum Exp Unsqueeze")]


def constant_states(op_type: str, gates: int) -> Callable[[], Probe]:
    """A network with states of batch 1, and data of any batch."""
    weights = {"w": np.sin(numbers(1, gates * 2, 3)), "r": np.cos(numbers(1, gates * 2, 2))}
    constants = {**weights, "h": numbers(1, 1, 2) / 3, **({"c": numbers(1, 1, 2) / 5} if op_type == "LSTM" else {})}
    order = ["x", "w", "r", "", "", *list(constants)[2:]]
    feeds = {"x": np.sin(numbers(4, 1, 3))}
    return single(op_type, 14, feeds, constants, {"x": ["t", "n", 3]}, outputs=2, order=order, hidden_size=2)


RECURRENT = [
    Row(
        f"sequences_of_known_batch: {op_type}",
        constant_states(op_type, gates),
        f"Transpose ShapeOf Gather Gather Broadcast {op_type}Sequence Transpose Transpose",
    )
    for op_type, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))
]

WRONG = [*LOOPED, *IN_PLACE, *UNREAD, *NESTED_LOOPS]
REFUSED = [
    *RECURRENT,
    *(
        Row(
            f"loop_states_of_narrow_types: a slice of {kind.__name__} handed on",
            scanned([helper.make_node("Identity", ["row"], ["t"])], ["s"], ["t"], kind),
            "TensorIterator Squeeze",
            [numbers(4, 2, 3)[-1].astype(kind)],
        )
        for kind in (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu)
    ),
]
