"""What loops carry round as exporters write it: weights that stay, placeholders, [] where [1] was meant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

import converter
from ir_runtime.graph.model import Node
from tests.converter.test_control_flow import INT, B, F, branch, graph, model, node, normal, value
from tests.engines import check_node


def the_loop(made: onnx.ModelProto) -> Node:
    (found,) = [layer for layer in converter.convert_model(made).nodes() if layer.op.type == "Loop"]
    return found


def handing_on() -> onnx.ModelProto:
    """The weights and the input w go round as they are, beside a state that changes and a joined output."""
    body = graph(
        [
            node("Identity", "go", "on"),
            node("MatMul", "s weights", "p"),
            node("Add", "p w", "s_next"),
            node("ReduceSum", "s_next", "j", keepdims=0),
        ],
        [value("on", B), value("weights"), value("s_next"), value("w"), value("j")],
        [value("i", INT, []), value("go", B, []), value("weights"), value("s"), value("w")],
    )
    inputs = [value("n", INT, []), value("x", F, [2, 3]), value("w0", F, [3])]
    outputs = [value(name) for name in ("weights_end", "s_end", "w_end", "j_all")]
    looped = node("Loop", "n - m x w0", "weights_end s_end w_end j_all", body=body)
    return model([looped], inputs, outputs, m=normal(3, 3))


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_unchanged_states_are_no_loop_states(trips: int) -> None:
    made = handing_on()
    feeds = {"n": np.array(trips), "x": normal(2, 3), "w0": normal(3)}
    if trips:
        check_node(made, feeds)
    else:  # onnxruntime gives the joined output of nothing another shape
        check_node(made, feeds, [made_of(made), feeds["x"], feeds["w0"], np.zeros(0, np.float32)])
    subgraph = the_loop(made).op.bodies[0]
    assert len(subgraph.back_edges) == 2  # the condition and s
    assert len(subgraph.body.parameters) == 4  # the iteration, the condition, s and w; the weights are a constant


def made_of(made: onnx.ModelProto) -> np.ndarray:
    return onnx.numpy_helper.to_array(made.graph.initializer[0])


def placeholders(trips: int | None) -> onnx.ModelProto:
    """The state v begins as a scalar that nobody reads, and is a matrix from the first iteration on."""
    body = graph(
        [node("Identity", "go", "on"), node("Add", "s x", "s_next"), node("Mul", "s_next x", "v_next")],
        [value("on", B), value("s_next"), value("v_next", F, ["n", 3])],
        [value("i", INT, []), value("go", B, []), value("s"), value("v", F, ["n", 3])],
    )
    after = node("Softmax", "v_end", "y", axis=-1)
    inputs = [value("x", F, ["n", 3])] + ([value("m", INT, [])] if trips is None else [])
    more = {} if trips is None else {"m": np.array(trips)}
    looped = node("Loop", "m - x nothing", "s_end v_end", body=body)
    return model([looped, after], inputs, [value("y")], nothing=np.float32(0), **more)


def test_a_placeholder_that_nobody_reads() -> None:
    x = normal(2, 3)
    check_node(placeholders(3), {"x": x}, [softmax((4 * x) * x)])


def softmax(x: np.ndarray) -> np.ndarray:
    shares = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True), np.float32)


def test_a_placeholder_of_a_loop_that_may_not_run_is_taken_as_it_is() -> None:
    with pytest.raises(converter.ConversionError, match=r"Softmax.*rank of the input must be known"):
        converter.convert_model(placeholders(None))


@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize("declared", [[], [1]], ids=["scalar", "list"])
def test_branches_that_mix_up_a_scalar_and_a_list_of_one(truth: bool, declared: list[int]) -> None:
    chosen = node(
        "If", "c", "y",
        then_branch=branch(node("Constant", "", "t", value_float=2.0), shape=declared),
        else_branch=branch(node("Unsqueeze", "x axes", "e"), shape=declared),
    )  # fmt: skip
    made = model([chosen], [value("c", B, []), value("x", F, [])], [value("y")], axes=np.array([0]))
    wanted = np.full(declared, 2.0 if truth else 5.0, np.float32)
    check_node(made, {"c": np.array(truth), "x": np.float32(5)}, [wanted])


def test_branches_whose_declarations_do_not_agree_are_refused() -> None:
    chosen = node(
        "If", "c", "y",
        then_branch=branch(node("Constant", "", "t", value_float=2.0), shape=[]),
        else_branch=branch(node("Unsqueeze", "x axes", "e"), shape=[1]),
    )  # fmt: skip
    made = model([chosen], [value("c", B, []), value("x", F, [])], [value("y")], axes=np.array([0]))
    with pytest.raises(converter.ConversionError, match=r"rank 0 in then_branch, but 1 in else_branch"):
        converter.convert_model(made)


def test_a_state_that_becomes_a_list_of_one_keeps_its_declared_rank() -> None:
    body = graph(
        [node("Identity", "go", "on"), node("Add", "s one", "s_next")],
        [value("on", B), value("s_next", F, [])],
        [value("i", INT, []), value("go", B, []), value("s", F, [])],
        one=np.ones(1, np.float32),
    )
    looped = node("Loop", "n - x", "y", body=body)
    made = model([looped], [value("n", INT, []), value("x", F, [])], [value("y")])
    check_node(made, {"n": np.array(3), "x": np.float32(2)}, [np.float32(5)])


@pytest.mark.parametrize("trips", [-1, -7])
@pytest.mark.parametrize("fixed", [True, False], ids=["constant", "at run time"])
def test_a_negative_trip_count_is_none(trips: int, fixed: bool) -> None:
    body = graph(
        [node("Identity", "go", "on"), node("Add", "s s", "s_next")],
        [value("on", B), value("s_next")],
        [value("i", INT, []), value("go", B, []), value("s")],
    )
    looped = node("Loop", "n - x", "y", body=body)
    inputs = [value("x", F, [2])] if fixed else [value("n", INT, []), value("x", F, [2])]
    made = model([looped], inputs, [value("y")], **({"n": np.array(trips)} if fixed else {}))
    feeds = {"x": normal(2)} if fixed else {"n": np.array(trips), "x": normal(2)}
    check_node(made, feeds)


# --- sequences ---


def appending(
    trips: str, then: onnx.NodeProto, inputs: list[onnx.ValueInfoProto], **constants: np.ndarray
) -> onnx.ModelProto:
    """Each iteration appends the state, doubled, as recorded lists are exported; ``then`` reads the sequence q."""
    body = graph(
        [node("Identity", "go", "on"), node("Add", "s s", "s_next"), node("SequenceInsert", "l s_next", "l_next")],
        [value("on", B), value("s_next"), onnx.ValueInfoProto(name="l_next")],
        [value("i", INT, [1]), value("go", B, []), value("s"), onnx.ValueInfoProto(name="l")],
    )
    for declared in (body.input[3], body.output[2]):
        declared.type.sequence_type.elem_type.tensor_type.elem_type = F
    nodes = [node("SequenceEmpty", "", "empty"), node("Loop", f"{trips} - x empty", "end q", body=body), then]
    return model(nodes, inputs, [value("y", INT if then.op_type == "SequenceLength" else F)], **constants)


READERS = [
    node("ConcatFromSequence", "q", "y", axis=0, new_axis=1),
    node("ConcatFromSequence", "q", "y", axis=2, new_axis=1),
    node("ConcatFromSequence", "q", "y", axis=-2, new_axis=1),
    node("ConcatFromSequence", "q", "y", axis=0),
    node("ConcatFromSequence", "q", "y", axis=-1),
    node("SequenceAt", "q two", "y"),
    node("SequenceAt", "q last", "y"),
    node("SequenceLength", "q", "y"),
]


@pytest.mark.parametrize(
    "then", READERS, ids=lambda n: f"{n.op_type}-{'-'.join(str(a.i) for a in n.attribute)}-{n.input[-1]}"
)
@pytest.mark.parametrize("fixed", [True, False], ids=["known", "at run time"])
def test_appended_sequences_become_scan_outputs(then: onnx.NodeProto, fixed: bool) -> None:
    feeds = {"x": normal(2, 3)} if fixed else {"n": np.array(3), "x": normal(2, 3)}
    inputs = [value("x", F, [2, 3])] if fixed else [value("n", INT, []), value("x", F, [2, 3])]
    constants = {"two": np.array(2), "last": np.array(-1)} | ({"n": np.array(3)} if fixed else {})
    check_node(appending("n", then, inputs, **constants), feeds)


def prefixes(kind: int, sizes: list[object], axis: int, then: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
    """The first i elements of x along ``axis`` are appended in iteration i; ``then`` reads the sequence q."""
    body = graph(
        [
            node("Identity", "go", "on"),
            node("Reshape", "i one", "stop"),
            node("Slice", "x zero stop axis", "prefix"),
            node("SequenceInsert", "l prefix", "l_next"),
        ],
        [value("on", B), onnx.ValueInfoProto(name="l_next")],
        [value("i", INT, []), value("go", B, []), onnx.ValueInfoProto(name="l")],
    )
    for declared in (body.input[2], body.output[1]):
        declared.type.sequence_type.elem_type.tensor_type.elem_type = kind
    nodes = [node("SequenceEmpty", "", "empty", dtype=kind), node("Loop", "n - empty", "q", body=body), *then]
    outputs = [value(name, INT if "Length" in made.op_type else kind) for made in then for name in made.output]
    one, zero = np.array([1]), np.array([0])
    return model(
        nodes, [value("n", INT, []), value("x", kind, sizes)], outputs, one=one, zero=zero, axis=np.array([axis])
    )


JOIN = node("ConcatFromSequence", "q", "y", axis=0)


@pytest.mark.parametrize("trips", [1, 2, 5])
@pytest.mark.parametrize(
    ("kind", "sizes", "axis", "then"),
    [
        (F, [5, 3], 0, [JOIN]),
        (F, [None, 3], 0, [JOIN]),
        (INT, [None, None], 0, [JOIN, node("SequenceLength", "q", "k")]),
        (F, [2, None], 1, [node("ConcatFromSequence", "q", "y", axis=1)]),
        (F, [None, None, None], 1, [node("ConcatFromSequence", "q", "y", axis=-2)]),
        (F, [None], 0, [JOIN, node("ConcatFromSequence", "q", "z", axis=-1)]),
    ],
    ids=["static", "rows", "whole numbers", "columns", "three dimensions", "a list, twice"],
)
def test_tensors_of_different_sizes_are_joined(
    kind: int, sizes: list[object], axis: int, then: list[onnx.NodeProto], trips: int
) -> None:
    shape = [size or length for size, length in zip(sizes, (5, 3, 2) if axis == 0 else (2, 5, 3))]
    x = normal(*shape) if kind == F else np.arange(15).reshape(shape)
    check_node(prefixes(kind, sizes, axis, then), {"n": np.array(trips), "x": x})


def test_no_tensors_are_joined_to_nothing() -> None:
    """onnxruntime refuses to join an empty sequence; without a tensor no dimension has a size."""
    made = prefixes(F, [None, None], 0, [JOIN])
    check_node(made, {"n": np.array(0), "x": normal(5, 3)}, [np.zeros((0, 0), np.float32)])


def test_a_tensor_of_a_joined_sequence_is_refused() -> None:
    made = prefixes(F, [None, 3], 0, [JOIN, node("SequenceAt", "q last", "z")])
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.array(-1), "last"))
    with pytest.raises(converter.UnsupportedModelError, match="its tensors may differ in size"):
        converter.convert_model(made)


def test_a_known_number_of_iterations_leaves_no_loop() -> None:
    made = appending("n", READERS[0], [value("x", F, [2, 3])], n=np.array(2))
    assert all(layer.op.type != "Loop" for layer in converter.convert_model(made).nodes())


def test_another_use_of_a_sequence_in_an_endless_loop_is_refused() -> None:
    made = appending("n", READERS[0], [value("n", INT, []), value("x", F, [2, 3])])
    inner = made.graph.node[1].attribute[0].g
    inner.node.append(node("SequenceLength", "l", "count"))
    with pytest.raises(converter.ConversionError, match=r"\(Loop.*the sequence 'l' is more than appended to"):
        converter.convert_model(made)


@pytest.mark.parametrize("fixed", [True, False], ids=["known", "at run time"])
def test_the_number_of_the_iteration_has_the_rank_that_the_body_declares(fixed: bool) -> None:
    """torch declares [1], and slices with it."""
    body = graph(
        [
            node("Identity", "go", "on"), node("Add", "i one", "j"), node("Slice", "x i j", "row"),
            node("ReduceSum", "row", "r", keepdims=0),
        ],
        [value("on", B), value("r")],
        [value("i", INT, [1]), value("go", B, [1])],
        one=np.array([1]),
    )  # fmt: skip
    looped = node("Loop", "n -", "y", body=body)
    inputs = [value("x", F, [4, 3])] if fixed else [value("n", INT, []), value("x", F, [4, 3])]
    made = model([looped], inputs, [value("y")], **({"n": np.array(3)} if fixed else {}))
    check_node(made, {"x": normal(4, 3)} | ({} if fixed else {"n": np.array(3)}))
