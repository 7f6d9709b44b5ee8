"""How nodes are read, whose fault an error is, and the names that users look things up by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from converter.from_onnx.translation import registry
from converter.from_onnx.translation.registry import onnx_op
from ir_runtime.graph.model import Output
from ir_runtime.graph.operation import find_operation
from ir_runtime.operations import activation, pooling
from ir_runtime.operations.elementwise import Abs1
from ir_runtime.rewriting import layers
from tests.converter.optimization.models import floats, parse
from tests.engines import ENGINES, check_node, converted, core, node_model, run
from tests.rows.onnx import control_flow
from tests.rows.onnx.generous_reading import X
from tests.rows.row import Row, rows

F32 = np.float32


def test_an_operator_that_two_domains_have_is_refused() -> None:
    for domain in ("test.one", "test.two"):
        onnx_op("OfTwoDomains", domain=domain, versions=(1,))(lambda ctx, x: x)
    with pytest.raises(converter.UnsupportedModelError, match="ONNX has no operator of that name"):
        converter.convert_model(node_model("OfTwoDomains", {"x": X}, opset=17))


# --- versions that share a function ---


def scaled(ctx: Any, x: Output, offset: Output | None = None, *, factor: float = 2.0) -> Output:
    y = layers.multiply(ctx, x, ctx.like(factor, x))
    return y if offset is None else layers.add(ctx, y, offset)


def scaled_model(opset: int, offset: bool = False, **attributes: Any) -> onnx.ModelProto:
    inputs = {"constants": {"o": X[0, 0]} if offset else {}, "attributes": attributes}
    return node_model("Scaled", {"x": X}, **inputs, opset=opset, domain="test.without")


def test_a_version_has_defaults_for_parameters_that_it_lacks_and_refuses_them() -> None:
    for version, without in ((1, ("offset", "factor")), (2, ())):
        onnx_op("Scaled", domain="test.without", versions=(version,), without=without, replace=True)(scaled)
    check_node(scaled_model(1), {"x": X}, [X * F32(2)])
    check_node(scaled_model(2, True, factor=3.0), {"x": X}, [X * F32(3) + X[0, 0]])
    with pytest.raises(converter.InvalidModelError, match="takes 1 inputs, but got 2"):
        converter.convert_model(scaled_model(1, True))
    with pytest.raises(converter.InvalidModelError, match="has no attribute 'factor'"):
        converter.convert_model(scaled_model(1, factor=3.0))


WITH_DEFAULTS = "needs parameters with defaults called"


@pytest.mark.parametrize(
    ("without", "message"), [("bias", WITH_DEFAULTS), ("x", WITH_DEFAULTS), ("first", "must be the last:")]
)
def test_parameters_that_cannot_be_left_out(without: str, message: str) -> None:
    def two(ctx: Any, x: Output, first: Output | None = None, second: Output | None = None) -> Output:
        return x

    with pytest.raises(converter.ConversionError, match=rf"{message} \['{without}'\]"):
        onnx_op("Refused", domain="test.without", versions=(1,), without=(without,))(two)
    assert ("test.without", "Refused") not in registry._TRANSLATORS


@pytest.mark.parametrize("imports", [[("", 13), ("", 10)], [("", 10), ("ai.onnx", 13)], [("ai.onnx", 13), ("", 13)]])
def test_of_several_versions_of_a_domain_the_highest_counts(imports: Any, caplog: pytest.LogCaptureFixture) -> None:
    """As onnx.proto has it. ReduceSum has axes as an input from opset 13 on, and as an attribute before."""
    model = node_model("ReduceSum", {"x": X}, constants={"a": np.array([1])}, opset=13)
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(*one) for one in imports)
    check_node(model, {"x": X}, [X.sum(1, keepdims=True)])
    assert not caplog.records


def test_operators_of_the_users_own(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """They come before a form, and stay those of the model's opset."""
    registry.import_all_families()  # what is imported while the table is replaced would be missing behind
    monkeypatch.setattr(registry, "_TRANSLATORS", dict(registry._TRANSLATORS))
    onnx_op("IsFinite", versions=(1,))(lambda ctx, x: ctx.emit(Abs1(), x))
    onnx_op("EarlySwish", domain="test.early", versions=(1,))(lambda ctx, x: ctx.emit(Abs1(), x))
    try:
        for name, opset, domain in (("IsFinite", 16, ""), ("EarlySwish", 1, "test.early")):
            check_node(node_model(name, {"x": X}, opset=opset, domain=domain), {"x": X}, [np.abs(X)])
        assert not caplog.records
    finally:
        monkeypatch.undo()
        registry._forget_found()


HIDDEN, NOTHING_KNOWN = floats(2, 3, 4), {"x": None, "w": None, "s": None, "b": None}


@pytest.mark.parametrize("row", [
    *rows("ConvTranspose", 11, x=floats(1, 4, 3, 3), w=floats(4, 2, 3, 3), group=2, dims={"w": None}),
    *rows("Conv", 11, x=floats(1, 4, 3, 3), w=floats(4, 2, 2, 2), group=2, dims={"w": None}),
    *rows("SkipLayerNormalization", 1, domain="com.microsoft", x=HIDDEN, s=HIDDEN + 1, w=floats(4), dims=NOTHING_KNOWN),
    *rows("Attention", 1, domain="com.microsoft", x=HIDDEN, w=floats(4, 12), b=floats(12), num_heads=2,
          dims=NOTHING_KNOWN),
], ids=lambda row: row.name)  # fmt: skip
def test_unknown_ranks(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    """What the schema fixes need not be declared; convolutions find their rank in the data or in the weights."""
    expected = replace(row, dims=None).expected
    check_node(row.model, row.feeds, expected, engines=["numpy"], atol=1e-4)
    assert not [message for message in caplog.messages if "takes no tensors of unknown rank" not in message]


def test_an_input_with_the_name_of_a_constant_node(caplog: pytest.LogCaptureFixture) -> None:
    """As one that has an initializer; ONNX has no second name for it."""
    model = node_model("Squeeze", {"x": X[:1], "a": np.array([1])}, opset=13)
    model.graph.node.insert(0, helper.make_node("Constant", [], ["a"], value=numpy_helper.from_array(np.array([0]))))
    check_node(model, {"x": X[:1]}, [X[0]])
    assert "'a' is declared as an input" in "".join(caplog.messages)
    model.graph.node[0].CopyFrom(helper.make_node("Identity", ["x"], ["a"]))
    with pytest.raises(converter.InvalidModelError, match="which already has a value"):
        converter.convert_model(model)


# --- whose fault an error is ---


def test_a_fault_of_ours_is_no_fault_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate(self: Any, *inputs: Any) -> Any:
        raise TypeError("a mistake in evaluate")

    onnx_op("Faulty", domain="test.faults", versions=(1,))(lambda ctx, x: x.no_such_attribute)
    with pytest.raises(converter.InternalError, match=r"node 'node' .*no_such_attribute.*please report it") as caught:
        converter.convert_model(node_model("Faulty", {"x": X}, opset=1, domain="test.faults"))
    assert isinstance(caught.value.__cause__, AttributeError)
    assert not isinstance(caught.value, converter.InvalidModelError)
    monkeypatch.setattr(find_operation("Floor", 1), "evaluate", evaluate)
    with pytest.raises(converter.InternalError, match=r"node 'node' \(Floor.*a mistake in evaluate"):
        converter.convert_model(node_model("Floor", {}, constants={"x": X}, opset=13))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (
            lambda low: activation.Clamp1(minimum=0),
            converter.InternalError,
        ),  # an attribute that the layer does not have
        (lambda low: pooling.AvgPool1(), converter.InternalError),  # one that is missing
        (lambda low: activation.Clamp1(min="low", max=1.0), converter.InternalError),  # a value of the translator's own
        (lambda low: activation.Clamp1(min=low, max=1.0), converter.InvalidModelError),  # a value of the model's
    ],
)
def test_blame_follows_who_made_an_attribute(make: Any, error: type[converter.ConversionError]) -> None:
    @onnx_op("Blamed", domain="test.blame", versions=(1,), replace=True)
    def translate(ctx: Any, x: Any, *, low: str = "") -> Any:
        return ctx.emit(make(low), x)

    model = node_model("Blamed", {"x": X}, attributes={"low": "none"}, opset=1, domain="test.blame")
    with pytest.raises(converter.ConversionError, match=r"Clamp|AvgPool") as caught:
        converter.convert_model(model)
    assert type(caught.value) is error


# --- what bad input gets: every root cause at once, each with its node ---


def refusal(model: onnx.ModelProto) -> converter.ConversionError:
    with pytest.raises(converter.ConversionError) as caught:
        converter.convert_model(model)
    return caught.value


def test_every_unsupported_node_is_listed_with_its_reason() -> None:
    error = refusal(parse("""g (float[2,3] x) => (y) { [first] a = nobody.Foo (x) [second] b = NoSuchOp (x)
                          [third] c = StringConcat (x, x) [sum] y = Add (a, b) }""",
                          header=', "nobody" : 1'))  # fmt: skip
    assert isinstance(error, converter.UnsupportedModelError)
    assert [(p.node, p.op_type, p.domain, p.opset) for p in error.problems] == [
        ("first", "Foo", "nobody", 1), ("second", "NoSuchOp", "", 17), ("third", "StringConcat", "", 17),
    ]  # fmt: skip
    for part in (
        "'first' (nobody.Foo, opset 1): the operator is not supported", "'third' (StringConcat, opset 17)",
        "'second' (NoSuchOp, opset 17): ONNX has no operator of that name",
    ):  # fmt: skip
        assert f"node {part}" in str(error)
    # Of what follows from another problem nothing is said.
    error = refusal(parse("""g (float[2,3] x) => (y) { [reshape] a = Reshape (x, bad) [relu] b = Relu (a)
                          [mean] c = ReduceMean <axes = [7]> (x) [sum] y = Add (b, c) }""", bad=[5]))  # fmt: skip
    assert [problem.node for problem in error.problems] == ["reshape", "mean"]


@pytest.mark.parametrize(("domain", "hint"), [("nobody", True), ("", True), ("com.microsoft", False)])
def test_an_operator_of_ones_own_names_the_way_to_add_it(domain: str, hint: bool) -> None:
    header = f', "{domain}" : 1' if domain else ""
    text = f"g (float[2] x) => (float[2] y) {{ y = {domain}{'.' * bool(domain)}MyOwn (x) }}"
    assert ("--extension FILE.py" in str(refusal(parse(text, header=header)))) == hint


SEQUENCE = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
INVALID: list[tuple[Any, str]] = [
    # the outputs and nodes of a graph, or a change of a good one
    *((lambda m, v=version: setattr(m.opset_import[0], "version", v), f"opset {version} is out of range")
      for version in (0, 99)),
    (lambda m: m.graph.input[0].type.tensor_type.ClearField("elem_type"), "'x': the IR has no element type for"),
    (lambda m: m.graph.input.append(m.graph.input[0]), "two inputs of the graph are called 'x'"),
    (lambda m: m.graph.initializer.append(m.graph.initializer[0]), "two initializers are called 'wide'"),
    (lambda m: m.graph.input[0].CopyFrom(SEQUENCE), "input 'x' is not a tensor"),
    ("(a) { [p] a = Add (x, b) [q] b = Relu (a) }", "is part of a cycle"),
    ("(c) { [behind] c = Relu (b) [around] b = Relu (b) }", "node 'around' (Relu) is part of a cycle"),
    ("(y) { [n] y = Relu (nowhere) }", "node 'n' (Relu, opset 17): its input 'nowhere' is computed by no node"),
    ("(y) { z = Relu (x) }", "output 'y' is computed by no node"),
    ("(y) { y = Relu (x) [q] y = Relu (x) }", "node 'q' (Relu) writes the tensor 'y', which already has a value"),
    ("(x) { [p] x = Relu (x) }", "node 'p' (Relu) writes the tensor 'x'"),
    ("(y) { y = Relu (x, x) }", "takes 1 inputs, but got 2"),
    ("(y) { y = Add (x) }", "takes 2 inputs, but got 1"),
    ('(y) { y = Add (x, "") }', "input 1 is required, but missing"),
    ('(y) { y = Concat <axis = 0> (x, "") }', "input 1 is required, but missing"),
    ("(y) { [n] y = Add (x, wide) }", "node 'n' (Add, opset 17)"),
    ("(y) { y = Add (x, double) }", "must have the same type, but are f32 and f64"),
    ("(y) { y = Relu <beta = 1.0> (x) }", "has no attribute 'beta'"),
    ("(y) { [n] y = Transpose <perm = [0, 0]> (x) }", "node 'n' (Transpose, opset 17)"),
    ("(y) { [n] y = Softmax <axis = 5> (x) }", "node 'n' (Softmax, opset 17)"),
    ("(y) { y = Cast (x) }", "attribute 'to' is required, but missing"),
    ("(y) { y = nobody.Relu (x) }", "does not import the domain 'nobody'"),
]  # fmt: skip


@pytest.mark.parametrize(("invalid", "message"), INVALID)
def test_invalid_graphs_are_named(invalid: Any, message: str) -> None:
    text = "(y) { y = Relu (x) }" if callable(invalid) else invalid
    stored = {"wide": np.zeros((4, 4), F32), "double": np.zeros(3)}
    model = parse(f"g (float[2,3] x) => {text}", **stored)
    if callable(invalid):
        invalid(model)
    assert message in str(refusal(model))


def test_nodes_out_of_order_are_sorted() -> None:
    model = parse("g (float[2,3] x) => (y) { [second] y = Relu (a) [first] a = Neg (x) }")
    assert [n.name for n in converter.convert_model(model).nodes()] == ["x", "first", "second", "y/result"]


def test_bounds_of_many_dimensions_are_not_looked_for() -> None:
    """NumPy has at most 64 dimensions, some of its functions 32."""
    ones = np.ones((1,) * 50, np.int64)
    model = converter.convert_model(node_model("Div", {"x": ones}, constants={"y": ones}, opset=14), target="any")
    np.testing.assert_array_equal(ir_runtime.compile_model(model)([ones])[0], ones)


@pytest.mark.parametrize("static", [False, True])
def test_constants_that_contradict_a_shape_are_the_models_fault(static: bool) -> None:
    """Only the pass that folds the computed target meets the contradiction, which holds for every batch."""
    model = parse("""g (float[n,70,64,774] x) => (y) { dims = Shape (x) batch = Gather (dims, first)
                  [join] target = Concat <axis = 0> (batch, rest) [windows] y = Reshape (x, target) }""",
                  first=[0], rest=[5, 14, 5, 14, 768])  # fmt: skip
    with pytest.raises(converter.InvalidModelError, match=r"'windows' of Reshape: the elements of \[\?,70,64,774\]"):
        converter.convert_model(model, static=static)


@pytest.mark.parametrize(
    ("mode", "message"),
    [("edge", "array is too big"), ("reflect", "does not fit into memory"), ("wrap", "array is too big")],
)
def test_pads_beyond_memory_are_refused(mode: str, message: str) -> None:
    """Types are inferred without making the positions; what needs them is an error of the model."""
    x, pads = np.zeros((1, 2), F32), np.array([0, 0, 0, 1 << 61])
    model = node_model("Pad", {"x": x}, opset=19, constants={"p": pads}, attributes={"mode": mode})
    with pytest.raises(ir_runtime.ModelError, match=message):
        ir_runtime.compile_model(converter.convert_model(model))({"x": x})


# --- names ---


def model(nodes: str = "y = Relu (x)", outputs: str = "y") -> onnx.ModelProto:
    return parse(f"g (float[2] x) => ({', '.join(outputs.split())}) {{ {nodes} }}")


def in_openvino(ir: tuple[bytes, bytes]) -> Any:
    return core().read_model(*ir) if ir[1] else core().read_model(ir[0])


def test_metadata_goes_to_runtime_info() -> None:
    proto = model()
    proto.graph.name = "the graph"
    proto.producer_name, proto.producer_version, proto.model_version = "maker", "1.2", 7
    proto.metadata_props.add(key="author name", value='<"me" & you>')
    xml, weights = converted(proto)
    theirs = core().read_model(xml)
    for path, value in (
        ("producer_name", "maker"), ("producer_version", "1.2"), ("model_version", "7"), ("opset_import/ai.onnx", "17"),
        ("metadata_props/author name", '<"me" & you>'),
    ):  # fmt: skip
        assert theirs.get_rt_info(["onnx", *path.split("/")]).astype(str) == value
    assert ir_runtime.read_model(xml, weights).name == "the graph"


@pytest.mark.parametrize("name", ["a,b", "scope/x:0", "ünï", "with space", 'q"<&>', "back\\slash,comma"])
def test_tensor_and_node_names_survive(name: str) -> None:
    proto = model()
    proto.graph.input[0].name = proto.graph.node[0].input[0] = name
    proto.graph.output[0].name = proto.graph.node[0].output[0] = f"{name}/out"
    proto.graph.node[0].name = f"{name}/node"
    ir = converted(proto)
    for engine in ENGINES:
        assert run(engine, ir, {name: F32([-1, 2])}, [f"{name}/out"])[0].tolist() == [0, 2]
    theirs = in_openvino(ir)
    assert theirs.outputs[0].get_names() == {f"{name}/out"}
    assert f"{name}/node" in {op.get_friendly_name() for op in theirs.get_ops()}
    assert ir_runtime.compile_model(ir_runtime.read_model(*ir)).input_names == [name]


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        ("y = Identity (x)", "y"), ("", "x"), ("y = Identity (x) z = Identity (x)", "y z x"),
        ("y = Neg (x) z = Identity (y)", "z y"), ("y = Dropout (x)", "y"), ("y = Neg (x)", "y y"),
    ],
)  # fmt: skip
def test_tensors_of_several_names(nodes: str, outputs: str) -> None:
    """Inputs that are outputs, outputs that are one tensor: every name leads to the right value."""
    ir, names = converted(model(nodes, outputs)), outputs.split()
    x = np.array([-1, 2], np.float32)
    expected = [(-x if "Neg" in nodes and name != "x" else x).tolist() for name in names]
    for engine in ENGINES:
        assert [value.tolist() for value in run(engine, ir, {"x": x})] == expected
    assert ir_runtime.compile_model(ir_runtime.read_model(*ir)).output_names == names
    if "x" not in names and len(set(names)) == len(names):
        for port, name in zip(in_openvino(ir).outputs, names):
            assert name in port.get_names()


def test_unnamed_and_equally_named_nodes_get_layers_of_their_own() -> None:
    proto = model("a = Neg (x) [n] b = Abs (a) [n] y = Relu (b)")
    proto.graph.node[0].name = ""
    names = [node.name for node in converter.convert_model(proto).nodes()]
    assert names == ["x", "a", "n", "n_1", "y/result"]


def test_layers_in_functions_are_named_by_the_calls() -> None:
    proto = next(row.model for row in control_flow.ROWS if row.name == "nested")
    names = {node.name for node in converter.convert_model(proto).nodes()}
    assert {"call/first/inner", "call/second/inner"} <= names
