"""If, Loop and Scan against onnxruntime, in both engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
from tests.engines import ENGINES, check_node, converted, run
from tests.random_data import generator

RNG = generator(11)
F, INT, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Names are separated by spaces; "-" is an input that is left out."""
    names = [name.replace("-", "") for name in inputs.split()]
    return helper.make_node(op_type, names, outputs.split(), **attributes)


def value(name: str, kind: int = F, shape: Sequence[Any] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def graph(
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[onnx.ValueInfoProto],
    inputs: Sequence[onnx.ValueInfoProto] = (),
    **constants: Any,
) -> onnx.GraphProto:
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    return helper.make_graph(list(nodes), "g", list(inputs), list(outputs), stored)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    *,
    opset: int = 17,
    **constants: Any,
) -> onnx.ModelProto:
    whole = graph(nodes, outputs, inputs, **constants)
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


# --- If ---


def branch(*nodes: onnx.NodeProto, kind: int = F, shape: Sequence[Any] | None = None, **constants: Any) -> Any:
    return graph(nodes, [value(nodes[-1].output[0], kind, shape)], **constants)


def choice(
    condition: Sequence[Any] | None, *, opset: int = 17, cond_constant: Any = None, shape: Sequence[Any] = (2, 3)
) -> onnx.ModelProto:
    """Negated or exponentiated: both branches take x from outside."""
    chosen = node(
        "If", "c", "y",
        then_branch=branch(node("Neg", "x", "t")), else_branch=branch(node("Exp", "x", "e")),
    )  # fmt: skip
    inputs = [value("x", F, shape)] if condition is None else [value("c", B, condition), value("x", F, shape)]
    constants = {} if condition is not None else {"c": np.array(cond_constant)}
    return model([chosen], inputs, [value("y")], opset=opset, **constants)


@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize("opset", [8, 11, 13, 17])
@pytest.mark.parametrize("shape", [(2, 3), ("n", 3), (None, None)])
def test_if(truth: bool, opset: int, shape: tuple[Any, ...]) -> None:
    check_node(choice([], opset=opset, shape=shape), {"c": np.array(truth), "x": normal(2, 3)})


@pytest.mark.parametrize("truth", [True, False])
def test_a_condition_of_rank_1(truth: bool) -> None:
    check_node(choice([1]), {"c": np.array([truth]), "x": normal(2, 3)})


@pytest.mark.parametrize("truth", [True, False])
def test_a_known_condition_leaves_one_branch(truth: bool) -> None:
    made = choice(None, cond_constant=truth)
    check_node(made, {"x": normal(2, 3)})
    kept = {layer.op.type for layer in converter.convert_model(made).nodes()}
    assert kept - {"Parameter", "Result"} == {"Negative" if truth else "Exp"}


@pytest.mark.parametrize("shape", [(2, 1), (2, 3)])
def test_a_condition_on_a_known_dimension_is_settled_while_converting(shape: tuple[int, ...]) -> None:
    """How exporters write a squeeze of a dimension that may not be 1."""
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s at", "d"),
        node("Equal", "d one", "c"),
        node(
            "If", "c", "y",
            then_branch=branch(node("Squeeze", "x axes", "t")), else_branch=branch(node("Identity", "x", "e")),
        ),
    ]  # fmt: skip
    made = model(
        nodes, [value("x", F, ["n", shape[1]])], [value("y")], at=np.array(-1), one=np.array(1), axes=np.array([1])
    )
    x = normal(*shape)
    # onnxruntime infers types of the branch that is not taken, too, and refuses it.
    check_node(made, {"x": x}, [x] if shape[1] != 1 else None)
    assert all(layer.op.type != "If" for layer in converter.convert_model(made).nodes())
    unknown = model(
        nodes, [value("x", F, ["n", "m"])], [value("y")], at=np.array(-1), one=np.array(1), axes=np.array([1])
    )
    with pytest.raises(converter.ConversionError, match=r"rank 1 in then_branch, but 2 .* 0 and 1 of the input 'x'"):
        converter.convert_model(unknown)


SQUEEZED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[{dims}] x, float[n] v) => (float[a,b] y{outputs}) <int64[1] last = {{-1}}, int64 one = {{1}}, int64 two = {{2}}> {{
    s = Shape (x)
    d = Gather (s, last)
    is_one = Equal (d, one)
    q = If (is_one) <then_branch = g1 () => (t) {{ t = Squeeze (x, last) }},
                     else_branch = g2 () => (e) {{ e = Identity (x) }}>
    {nodes}
}}
"""
UNSQUEEZED = """r = Shape (q)
    size = Size (r)
    is_flat = Equal (size, one)
    u = If (is_flat) <then_branch = g3 () => (t2) { t2 = Unsqueeze (q, last) },
                      else_branch = g4 () => (e2) { e2 = Identity (q) }>
    """
"""What PyTorch's squeeze of a dimension becomes, and what reads the rank of its result."""


@pytest.mark.parametrize(
    ("dims", "shape"),
    [
        *(("n,m", (3, 1)), ("n,m", (3, 4)), ("n,m", (1, 1))),
        *(("n,1", (3, 1)), ("3,m", (3, 4)), ("3,1", (3, 1))),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        (UNSQUEEZED + "y = Relu (u)", ""),
        (UNSQUEEZED + "w = Neg (q)  z = ReduceSum <keepdims = 0> (w)  y = Add (u, z)", ""),
        (UNSQUEEZED + "y = Relu (u)  z = ReduceMax <keepdims = 0> (q)", ", float z"),
        (UNSQUEEZED + "p = Exp (v)  k = Size (q)  k2 = Add (k, k)  f = Cast <to = 1> (k2)  y = Mul (u, f)", ""),
        ("a = Neg (q)  b = Exp (a)  y = Reshape (b, column)", ""),
        (
            "p = Abs (x)  a = Mul (q, q)  b = Reshape (a, column)  h = Add (p, p)  k = Reshape (h, column)  y = Sub (b, k)",
            "",
        ),
        ("y = Identity (x)  z = Size (q)", ", int64 z"),
    ],
    ids=["rank", "second_reader", "two_outputs", "node_between", "reshape", "other_input", "size"],
)
def test_readers_of_outputs_of_different_ranks(nodes: str, outputs: str, dims: str, shape: tuple[int, ...]) -> None:
    """They become part of both branches, in which the rank is known, until one rank is returned."""
    if "column" in nodes:
        nodes = "column = Constant <value = int64[2] {-1, 1}> ()\n    " + nodes
    made = onnx.parser.parse_model(SQUEEZED.format(dims=dims, nodes=nodes, outputs=outputs))
    check_node(made, {"x": normal(*shape), "v": normal(shape[0])})


def test_an_output_of_the_graph_keeps_its_ranks() -> None:
    made = onnx.parser.parse_model(SQUEEZED.format(dims="n,m", nodes="y = Identity (x)", outputs=", float z"))
    made.graph.output[1].name = "q"
    with pytest.raises(converter.ConversionError, match=r"node 'q' .*rank 1 in then_branch, but 2 in else_branch"):
        converter.convert_model(made)


@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("inner", [True, False])
def test_nested_branches_see_everything_around_them(outer: bool, inner: bool) -> None:
    nested = node(
        "If", "d", "n",
        then_branch=branch(node("Add", "x w", "nt")), else_branch=branch(node("Mul", "m k", "ne")),
    )  # fmt: skip
    chosen = node(
        "If", "c", "y",
        then_branch=branch(node("Sub", "x k", "m"), nested), else_branch=branch(node("Mul", "x x", "e")),
    )  # fmt: skip
    made = model(
        [chosen], [value("c", B, []), value("d", B, []), value("x", F, [2, 3]), value("w", F, [3])],
        [value("y")], k=np.float32(0.5),
    )  # fmt: skip
    check_node(made, {"c": np.array(outer), "d": np.array(inner), "x": normal(2, 3), "w": normal(3)})


@pytest.mark.parametrize("truth", [True, False])
def test_several_outputs_of_different_dimensions(truth: bool) -> None:
    """The branches take different values, return constants and what they took, and differ in a dimension."""
    then = graph([node("Identity", "a", "t0"), node("Neg", "b", "t1")], [value("t0"), value("t1")])
    other = graph([node("Concat", "a a", "e0", axis=0)], [value("e0"), value("k")], k=np.ones((2, 2), np.float32))
    made = model(
        [node("If", "c", "y z", then_branch=then, else_branch=other)],
        [value("c", B, []), value("a", F, [2, 3]), value("b", F, [2, 2])], [value("y"), value("z")],
    )  # fmt: skip
    check_node(made, {"c": np.array(truth), "a": normal(2, 3), "b": normal(2, 2)})


@pytest.mark.parametrize(
    ("then", "other", "wanted"),
    [
        (
            branch(node("Neg", "x", "t")),
            branch(node("Cast", "x", "e", to=INT), kind=INT),
            "f32 in then_branch, but i64",
        ),
        (
            branch(node("ReduceSum", "x", "t", keepdims=0)),
            branch(node("Neg", "x", "e")),
            "rank 0 in then_branch, but 2 in else_branch.*depends on the value of the input 'c': freeze it",
        ),
        (
            graph([node("Neg", "x", "t"), node("Abs", "x", "u")], [value("t"), value("u")]),
            branch(node("Neg", "x", "e")),
            "then_branch has 2 outputs, but else_branch has 1",
        ),
        (branch(node("Add", "x w", "t")), branch(node("Add", "w x", "e")), "neither branch fits.*"),
    ],
)
def test_branches_that_do_not_fit(then: Any, other: Any, wanted: str) -> None:
    chosen = node("If", "c", "y", then_branch=then, else_branch=other)
    made = model([chosen], [value("c", B, []), value("x", F, [2, 3]), value("w", F, [4])], [value("y")])
    with pytest.raises(converter.ConversionError, match=wanted):
        converter.convert_model(made)


@pytest.mark.parametrize("kind", [F, INT, B])
@pytest.mark.parametrize("rows", [2, "n"])
@pytest.mark.parametrize("in_then", [True, False])
def test_a_branch_at_odds_with_the_shapes_fails_when_it_is_taken(kind: int, rows: Any, in_then: bool) -> None:
    """The other one works; onnxruntime does not get past its type inference, so it is computed by hand."""
    odd = branch(node("Add", "x w", "o"), node("Cast", "o", "oc", to=kind), kind=kind)
    good = branch(node("Neg", "x", "g"), node("Cast", "g", "gc", to=kind), kind=kind)
    chosen = node("If", "c", "y", then_branch=odd if in_then else good, else_branch=good if in_then else odd)
    inputs = [value("c", B, []), value("x", F, [rows, 3]), value("w", F, [4])]
    made = model([chosen], inputs, [value("y", kind)])
    feeds = {"c": np.array(not in_then), "x": np.array([[1, 0, 3], [-4, 5, 6]], np.float32), "w": normal(4)}
    check_node(made, feeds, [(-feeds["x"]).astype(helper.tensor_dtype_to_np_dtype(kind))])
    ir = converted(made)
    for engine in ENGINES:
        with pytest.raises(Exception, match="contradicts the shapes around it"):
            run(engine, ir, {**feeds, "c": np.array(in_then)})


# --- Loop ---


def loop(
    body: onnx.GraphProto, inputs: str, outputs: str, graph_inputs: Sequence[onnx.ValueInfoProto], **more: Any
) -> onnx.ModelProto:
    outs = [value(name) for name in outputs.split()]
    return model([node("Loop", inputs, outputs, body=body)], graph_inputs, outs, **more)


def doubling(*joined: onnx.NodeProto, limit: float = 1e9, start: Sequence[int] = ()) -> onnx.GraphProto:
    """v becomes 2v + i, while its sum is below the limit; every further node's output is joined."""
    nodes = [
        node("Cast", "i", "fi", to=F),
        node("Add", "v v", "vv"),
        node("Add", "vv fi", "v_next"),
        node("ReduceSum", "v_next", "sum", keepdims=0),
        node("Less", "sum limit", "go_on"),
        *joined,
    ]
    outputs = [value("go_on", B), value("v_next")]
    outputs += [value(n.output[0]) for n in joined]
    return graph(nodes, outputs, [value("i", INT, []), value("go", B, start), value("v")], limit=np.float32(limit))


@pytest.mark.parametrize("trips", [0, 1, 4])
@pytest.mark.parametrize("limit", [30.0, 1e9])
@pytest.mark.parametrize("opset", [11, 13, 17])
def test_trips_at_execution_and_early_stops(trips: int, limit: float, opset: int) -> None:
    made = loop(
        doubling(limit=limit), "n c x", "y", [value("n", INT, []), value("c", B, []), value("x", F, [2])], opset=opset
    )
    check_node(made, {"n": np.array(trips), "c": np.array(True), "x": np.array([1, 2], np.float32)})


@pytest.mark.parametrize("start", [True, False])
def test_a_condition_to_start_with(start: bool) -> None:
    made = loop(doubling(start=[1]), "n c x", "y", [value("n", INT, [1]), value("c", B, [1]), value("x", F, [2])])
    check_node(made, {"n": np.array([3]), "c": np.array([start]), "x": np.array([1, 2], np.float32)})


@pytest.mark.parametrize(
    ("inputs", "constants"),
    [
        ("- c x", {"c": np.array(True)}),
        ("n - x", {"n": np.array(3)}),
        ("- - x", {}),
        ("n c x", {"n": np.array(0), "c": np.array(True)}),
        ("n c x", {"n": np.array(2**63 - 1), "c": np.array(True)}),
    ],
    ids=["no M", "no cond", "neither", "no trips", "endless"],
)
def test_loop_by_trip_count_and_condition(inputs: str, constants: dict[str, Any]) -> None:
    made = loop(doubling(limit=50), inputs, "y", [value("x", F, [2])], **constants)
    check_node(made, {"x": np.array([1, 2], np.float32)})


@pytest.mark.parametrize("trips", [1, 3])
@pytest.mark.parametrize("fixed", [True, False], ids=["constant", "at run time"])
def test_joined_outputs_of_every_rank(trips: int, fixed: bool) -> None:
    body = doubling(
        node("ReduceMax", "v_next", "r0", keepdims=0),
        node("Identity", "v_next", "r1"),
        node("Unsqueeze", "v_next axes", "r2"),
    )
    body.initializer.append(numpy_helper.from_array(np.array([0]), "axes"))
    inputs = [value("x", F, [2])] if fixed else [value("n", INT, []), value("x", F, [2])]
    more = {"n": np.array(trips)} if fixed else {}
    made = loop(body, "n - x", "y a b c", inputs, **more)
    feeds = {"x": np.array([1, 2], np.float32)}
    check_node(made, feeds if fixed else {"n": np.array(trips), **feeds})


def test_scan_outputs_of_no_iterations() -> None:
    """There are no iterations, but their shape is known; onnxruntime gives [0] where the file declares none."""
    body = doubling(node("Identity", "v_next", "r1"))
    made = loop(body, "n - x", "y a", [value("n", INT, []), value("x", F, [2])])
    x = np.array([1, 2], np.float32)
    check_node(made, {"n": np.array(0), "x": x}, [x, np.zeros((0, 2), np.float32)])


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_a_state_that_grows(trips: int) -> None:
    """The plug-in takes the dimension after an iteration for the least that the output can have."""
    body = graph(
        [node("Identity", "go", "on"), node("Concat", "v w", "v_next", axis=0)],
        [value("on", B), value("v_next")],
        [value("i", INT, []), value("go", B, []), value("v")],
    )
    made = loop(body, "n - x", "y", [value("n", INT, []), value("x", F, [1, 2]), value("w", F, [2, 2])])
    feeds = {"n": np.array(trips), "x": normal(1, 2), "w": normal(2, 2)}
    check_node(made, feeds, engines=ENGINES if trips else ("numpy",))


def test_captured_values_and_two_states() -> None:
    body = graph(
        [
            node("Identity", "go", "on"),
            node("Gather", "rows i", "row"),
            node("Add", "a row", "a_next"),
            node("Mul", "b scale", "b_next"),
            node("Add", "a_next b_next", "both"),
        ],
        [value("on", B), value("a_next"), value("b_next"), value("both")],
        [value("i", INT, []), value("go", B, []), value("a"), value("b")],
        scale=np.float32(0.5),
    )
    made = loop(body, "n - x z", "p q r", [value("n", INT, []), *(value(v, F, s) for v, s in SHAPES.items())])
    check_node(made, {"n": np.array(3), **{name: normal(*shape) for name, shape in SHAPES.items()}})


SHAPES = {"x": (2,), "z": (2,), "rows": (4, 2)}


def test_an_if_inside_a_loop() -> None:
    chosen = node(
        "If", "odd", "v_next",
        then_branch=branch(node("Add", "v w", "t")), else_branch=branch(node("Mul", "v w", "e")),
    )  # fmt: skip
    body = graph(
        [node("Identity", "go", "on"), node("Mod", "i two", "rest"), node("Cast", "rest", "odd", to=B), chosen],
        [value("on", B), value("v_next")],
        [value("i", INT, []), value("go", B, []), value("v", F, [2])],
        two=np.array(2),
    )
    made = loop(body, "n - x", "y", [value("n", INT, []), value("x", F, [2]), value("w", F, [2])])
    check_node(made, {"n": np.array(5), "x": normal(2), "w": normal(2)})


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (graph([node("Identity", "go", "on")], [value("on", B)], [value("i", INT), value("go", B)]), "does not fit 1"),
        (
            graph(
                [node("Identity", "go", "on"), node("Cast", "v", "w", to=INT)],
                [value("on", B), value("w", INT)],
                [value("i", INT), value("go", B), value("v")],
            ),
            "is f32, but becomes i64",
        ),
    ],
)
def test_bodies_that_do_not_fit(body: Any, wanted: str) -> None:
    with pytest.raises(converter.ConversionError, match=wanted):
        converter.convert_model(loop(body, "n - x", "y", [value("n", INT, []), value("x", F, [2])]))


# --- Scan ---


def sums(rank: int) -> onnx.GraphProto:
    """The running sum of slices of a, times the slices of b."""
    shape = ["d"] * rank
    return graph(
        [node("Add", "s a", "s_next"), node("Mul", "s_next b", "out")],
        [value("s_next", F, shape), value("out", F, shape)],
        [value("s", F, shape), value("a", F, shape), value("b", F, shape)],
    )


@pytest.mark.parametrize("opset", [9, 11, 17])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"scan_input_directions": [1, 0]},
        {"scan_output_directions": [1]},
        {"scan_input_axes": [1, 0], "scan_output_axes": [1]},
        {"scan_input_axes": [1, 1], "scan_output_axes": [1], "scan_input_directions": [0, 1]},
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_scan(opset: int, attributes: dict[str, Any], dynamic: bool) -> None:
    axes = attributes.get("scan_input_axes", [0, 0])
    feeds = {"x": normal(3), "p": normal(4, 3), "q": normal(4, 3)}
    for name, axis in zip("pq", axes):
        feeds[name] = np.ascontiguousarray(feeds[name].T) if axis else feeds[name]
    inputs = [value(n, F, [f"{n}{i}" for i in range(a.ndim)] if dynamic else a.shape) for n, a in feeds.items()]
    scanned = node("Scan", "x p q", "y z", body=sums(1), num_scan_inputs=2, **attributes)
    check_node(model([scanned], inputs, [value("y"), value("z")], opset=opset), feeds)


def test_negative_axes() -> None:
    attributes = {"scan_input_axes": [-1, -2], "scan_output_axes": [-1]}
    scanned = node("Scan", "x p q", "y z", body=sums(1), num_scan_inputs=2, **attributes)
    feeds = {"x": normal(3), "p": normal(3, 4), "q": normal(4, 3)}
    check_node(model([scanned], [value(n, F, a.shape) for n, a in feeds.items()], [value("y"), value("z")]), feeds)


def test_scan_with_a_batch() -> None:
    scanned = node("Scan", "- x p q", "y z", body=sums(1), num_scan_inputs=2)
    feeds = {"x": normal(1, 3), "p": normal(1, 4, 3), "q": normal(1, 4, 3)}
    inputs = [value(n, F, a.shape) for n, a in feeds.items()]
    check_node(model([scanned], inputs, [value("y"), value("z")], opset=8), feeds)


def test_scan_without_states_and_with_captures() -> None:
    body = graph(
        [node("MatMul", "a w", "m"), node("ReduceSum", "m", "total", keepdims=0)],
        [value("m", F, [2]), value("total", F, [])],
        [value("a", F, [3])],
    )
    scanned = node("Scan", "p", "y z", body=body, num_scan_inputs=1)
    feeds = {"p": normal(4, 3), "w": normal(3, 2)}
    check_node(model([scanned], [value(n, F, a.shape) for n, a in feeds.items()], [value("y"), value("z")]), feeds)


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ({"num_scan_inputs": 4}, "num_scan_inputs must be from 1 to 3, but is 4"),
        ({"num_scan_inputs": 2, "scan_input_axes": [0]}, "scan_input_axes must have 2 entries"),
        ({"num_scan_inputs": 2, "scan_input_axes": [0, 2]}, "scan_input_axes"),
        ({"num_scan_inputs": 2, "scan_output_axes": [2]}, "scan_output_axes"),
    ],
)
def test_scans_that_do_not_fit(attributes: dict[str, Any], wanted: str) -> None:
    scanned = node("Scan", "x p q", "y z", body=sums(1), **attributes)
    inputs = [value("x", F, [3]), value("p", F, [4, 3]), value("q", F, [4, 3])]
    with pytest.raises(converter.ConversionError, match=wanted):
        converter.convert_model(model([scanned], inputs, [value("y"), value("z")]))


@pytest.mark.parametrize("trips", [1, 2, 5])
@pytest.mark.parametrize("kind", [F, INT, B, TensorProto.FLOAT16])
def test_states_that_change_places(trips: int, kind: int) -> None:
    body = graph(
        [node("Identity", source, to) for source, to in (("go", "on"), ("b", "a2"), ("a", "b2"), ("a", "joined"))],
        [value("on", B), *(value(name, kind, [2]) for name in ("a2", "b2", "joined"))],
        [value("i", INT, []), value("go", B, []), value("a", kind, [2]), value("b", kind, [2])],
    )
    inputs = [value("n", INT, []), value("x", kind, [2]), value("y", kind, [2])]
    made = model([node("Loop", "n - x y", "p q r", body=body)], inputs, [value(name, kind) for name in "pqr"])
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    feeds = {"n": np.array(trips), "x": np.array([1, 0], dtype), "y": np.array([0, 1], dtype)}
    check_node(made, feeds)


@pytest.mark.parametrize("through", ["Identity", "Split", "Reshape"])
def test_a_state_that_is_the_previous_slice(through: str) -> None:
    steps = {
        "Identity": node("Identity", "p", "x2"),
        "Split": node("Split", "p", "x2 rest", axis=0),
        "Reshape": node("Reshape", "p shape", "x2"),
    }
    size = 2 if through == "Split" else 4
    body = graph(
        [steps[through], node("Identity", "x", "joined")],
        [value("x2", F, [size]), value("joined", F, [size])],
        [value("x", F, [size]), value("p", F, [4])],
        shape=np.array([4]),
    )
    inputs = [value("x", F, [size]), value("p", F, [5, 4])]
    made = model([node("Scan", "x p", "y z", body=body, num_scan_inputs=1)], inputs, [value("y"), value("z")])
    check_node(made, {"x": normal(size), "p": normal(5, 4)})
