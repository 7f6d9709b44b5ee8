"""Edits that meet bodies, functions, each other and mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import converter
import ir_runtime
from tests.commands import onnx2ir
from tests.converter.editing.models import (
    BRANCHES,
    PRE,
    W,
    branches,
    classifier,
    ends,
    floats,
    shape_of,
    weight,
    write_files,
)
from tests.converter.optimization.models import parse, run


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


X = np.array([[1, -2, 3, -4], [-1, 2, -3, 4]], np.float32)
FUNCTION = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
net (float[2] x) => (float[2] y) { a = own.twice (x) y = own.twice (a) }
<domain: "own", opset_import: ["" : 17]> twice (v) => (w) { w = Add (v, v) }
"""


def functions(operator: str = "Add") -> onnx.ModelProto:
    return onnx.parser.parse_model(FUNCTION.replace("Add", operator))


def both_branches(model: onnx.ModelProto, **names: str) -> list[Any]:
    """Return y for either branch, whatever the names of inputs and output are."""
    x, flag, y = (names.get(name, name) for name in ("x", "flag", "y"))
    return [run(model, {x: X, flag: np.array(value)})[y] for value in (True, False)]


def test_what_bodies_read_from_around_them_is_renamed() -> None:
    source, names = branches(), {"x": "x2", "a": "a:1", "w": "weight", "y": "out"}
    model = converter.edit(source, rename=names).to_onnx()
    assert ends(model) == (["x2", "flag"], ["out"])
    np.testing.assert_array_equal(both_branches(model, **names), both_branches(source))
    then = next(one for one in model.graph.node[1].attribute if one.name == "then_branch").g
    assert [list(node.input) for node in then.node] == [["a:1"], ["inner", "weight"]]


def test_a_name_that_a_body_has_for_itself_is_another_tensor() -> None:
    """``a`` of a body hides the one around it."""
    source = parse("""net (float[n,4] x, bool flag) => (float[n,4] y, float[n,4] a) {
        a = Neg (x)
        y = If (flag) <
            then_branch = g () => (float[n,4] t) { a = Relu (x) t = Identity (a) },
            else_branch = h () => (float[n,4] e) { e = Identity (a) }
        >
    }""")
    model = converter.edit(source, rename={"a": "b"}).to_onnx()
    assert [list(one.g.node[-1].input) for one in model.graph.node[1].attribute] == [["a"], ["b"]]


def test_a_cut_keeps_what_only_bodies_read() -> None:
    source = branches()
    tail = converter.edit(source, cut="a,x,flag:y").to_onnx()
    assert ends(tail)[0] == ["a", "x", "flag"]
    expected = both_branches(source)
    a = X * weight(source, "w")
    for value, wanted in zip((True, False), expected):
        np.testing.assert_array_equal(run(tail, {"a": a, "x": X, "flag": np.array(value)})["y"], wanted)
    with pytest.raises(converter.ConversionError, match=r"also needs 'x', 'flag' of the model.*\"a,x,flag:y\""):
        converter.edit(source, cut="a:y")


def test_an_operator_behind_what_bodies_read() -> None:
    source = branches()
    w = weight(source, "w")
    expected = {"a": [np.maximum(-X * w, 0) + w, np.maximum(-X, 0) + X * w]}
    expected["x"] = [run(source, {"x": -X, "flag": np.array(value)})["y"] for value in (True, False)]
    for name, values in expected.items():
        model = converter.edit(source, insert_after={name: "Neg()"}).to_onnx()
        np.testing.assert_allclose(both_branches(model), values)


def test_shapes_that_bodies_declare_follow_from_an_input() -> None:
    fixed = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {BRANCHES.replace("[n,4]", "[1,4]")}')
    fixed.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "w"))
    model = converter.edit(fixed, set_dim={"x:0": "n"}).to_onnx()
    assert shape_of(model, "y")[1:] == [4]
    for value, expected in zip(both_branches(model), (np.maximum(X, 0) + 1, np.maximum(-X, 0) - X)):
        np.testing.assert_array_equal(value, expected)


LOOP = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, int64 n) => (float[2] y, float[k,2] rows) {
    base = Relu (x)
    count = Identity (n)
    y, rows = Loop (count, , x) <body = step (int64 i, bool go, float[2] s) => (bool go_on, float[2] next, float[2] row) {
        go_on = Identity (go)
        number = CastLike (i, s)
        moved = Add (s, base)
        next = Add (moved, number)
        row = Identity (next)
    }>
}
"""


@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("edit", [
    {"set_dim": {"x:0": "m"}},
    {"insert_after": {"base": "Neg()"}},
    {"insert_after": {"count": "Abs()"}},
    {"merge": "loop"},
], ids=["set_dim", "insert_after", "insert_after_scalar", "merge"])  # fmt: skip
def test_bodies_of_loops_that_read_what_is_edited(edit: dict[str, Any], steps: int) -> None:
    """The iteration number and the condition stay scalars, without which onnxruntime loads no Loop."""
    source = onnx.parser.parse_model(LOOP)
    x = np.float32([1, -2])
    if "merge" in edit:
        first = parse("g (float[2] z) => (float[2] half) { half = Neg (z) }")
        model = converter.edit(first, merge=source, connect={"half": "x"}).to_onnx()
        values = run(model, {"z": -x, "n": np.array(steps)})
    else:
        model = converter.edit(source, **edit).to_onnx()
        values = run(model, {"x": x, "n": np.array(steps)})
    base = np.maximum(x, 0) * (-1 if "base" in edit.get("insert_after", {}) else 1)
    rows = [np.float32(x + step * base + step * (step - 1) / 2) for step in range(1, steps + 1)]
    assert len(values["rows"]) == steps  # of no rows onnxruntime knows the length only where it is declared
    for value, expected in zip(values["rows"], rows):
        np.testing.assert_array_equal(value, expected)
    np.testing.assert_array_equal(values["y"], rows[-1] if steps else x)


def test_weights_of_bodies_and_of_constant_nodes() -> None:
    value = np.arange(4, dtype=np.float32)
    source = parse("""net (float[4] x, bool flag) => (float[4] y) {
        y = If (flag) <
            then_branch = g () => (float[4] t) <float[4] own = {0, 0, 0, 0}> { t = Add (x, own) },
            else_branch = h () => (float[4] e) { c = Constant <value = float[4] {1, 1, 1, 1}> () e = Add (x, c) }
        >
    }""")
    model = converter.edit(source, replace_weight={"own": value, "c": 2 * value}).to_onnx()
    for flag, factor in ((True, 1), (False, 2)):
        outputs = run(model, {"x": np.zeros(4, np.float32), "flag": np.array(flag)})
        np.testing.assert_array_equal(outputs["y"], factor * value)


@pytest.mark.parametrize(("operator", "count", "expected"), [("Add", 1, 16.0), ("Mul", 2, 256.0)])
def test_functions_of_one_name_are_told_apart(operator: str, count: int, expected: float, tmp_path: Path) -> None:
    """x -> 4 x, then once more; or (4 x) ** 4."""
    onnx.save(functions(operator), tmp_path / "m.onnx")
    result = converter.edit(functions(), merge=tmp_path / "m.onnx", connect={"y": "x"})
    model = result.to_onnx()
    assert len(model.functions) == count
    assert any("prefix 'm/'" in note for note in result.notes)
    (value,) = run(model, {"x": np.ones(2, np.float32)}).values()
    np.testing.assert_array_equal(value, np.full(2, expected))
    source = functions()
    source.graph.node[1].CopyFrom(onnx.helper.make_node("Neg", ["x"], ["y"]))
    assert not converter.edit(source, cut=":y").to_onnx().functions  # which nothing calls any more
    assert not converter.edit(parse("net (float[2] x) => (float[2] y, float[2] z) { y = Neg (x) z = Neg (y) }")).notes


def test_inputs_with_defaults_and_outputs_returned_twice() -> None:
    source = parse("net (float[2,3] x, float[3] b) => (float[2,3] y, float[2,3] z) { m = Neg (x) y = Add (m, b) z = Abs (m) }",
                   b=np.ones(3, np.float32))  # fmt: skip
    model = converter.edit(source, cut="m:y").to_onnx()
    assert (ends(model), len(model.graph.initializer)) == ((["m", "b"], ["y"]), 1)
    assert not model.graph.value_info
    assert shape_of(converter.edit(source, set_dim={"b:0": "k"}).to_onnx(), "b") == ["k"]
    source.graph.output.append(source.graph.output[0])
    assert ends(converter.edit(source, remove_output="y").to_onnx())[1] == ["z"]


def test_options_in_their_order() -> None:
    """The output is cut, doubled, renamed; the new weight is of the first names."""
    options = {"cut": ":logits", "add_output": ["embedding"], "insert_after": {"logits": "Mul(2.0)"}}
    options |= {"replace_weight": {"head_weight": W * 2}, "rename": {"logits": "y", "head_weight": "w"}}
    options |= {"set_dim": {"image:0": "n"}, "strip": "docs", "metadata": {"labels": "", "by": "a=b,c"}}
    source = classifier()
    before = source.SerializeToString(deterministic=True)
    model = converter.edit(source, **options).to_onnx()
    assert source.SerializeToString(deterministic=True) == before
    image = floats(2, 3, 8, 8)
    assert ends(model) == (["image"], ["y", "embedding"])
    source.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    for output in source.graph.output:
        output.type.tensor_type.shape.dim[0].dim_param = "n"
    np.testing.assert_allclose(
        run(model, {"image": image})["y"], 4 * run(source, {"image": image})["logits"], rtol=1e-4
    )
    assert {entry.key: entry.value for entry in model.metadata_props} == {"owner": "cat,dog", "by": "a=b,c"}


@pytest.mark.parametrize("external", [True, False])
def test_large_tensors_go_from_file_to_file(external: bool, tmp_path: Path) -> None:
    """Those of attributes, and a weight whose name and description have the words by which its data is found."""
    values = floats(400)
    model = parse("net (float[400] x) => (float[400] y) { s = Add (x, c) y = Add (s, offset) }", offset=values)
    model.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(values)))
    model.graph.initializer[0].doc_string = "\0embedded offset"
    model.graph.node[1].name = "\0embedded"
    onnx.save(model, tmp_path / "m.onnx")
    converter.edit(tmp_path / "m.onnx", rename={"x": "z"}).save(tmp_path / "n.onnx", external_data=external)
    y = run(str(tmp_path / "n.onnx"), {"z": np.zeros(400, np.float32)})["y"]
    np.testing.assert_array_equal(y, values + values)


def foreign() -> onnx.ModelProto:
    """x -> a -> b by operators that nobody knows; Neg tells the type of b, and nothing its rank."""
    text = "net (float[2] x) => (float[2] y) { a = own.foo (x) b = own.bar (a) y = Neg (b) }"
    return parse(text, header=', "own" : 1')


def test_operators_that_nobody_knows_are_in_no_way() -> None:
    model = converter.edit(foreign(), insert_after={"a": "own.baz(k=1, mode='x')"}, rename={"b": "c"}).to_onnx()
    assert [node.op_type for node in model.graph.node] == ["foo", "baz", "bar", "Neg"]
    assert model.graph.node[3].input[0] == "c"


def test_inputs_that_follow_from_schemas() -> None:
    """A list is of the type of the tensor, or of int64 where the schema wants that."""
    image = floats(1, 3, 8, 8)
    expected = run(classifier(), {"image": image})
    outputs = run(
        converter.edit(classifier(), insert_after={"logits": "Reshape([2, 5])", "aux": "Mul([3])"}).to_onnx(),
        {"image": image},
    )
    np.testing.assert_allclose(outputs["logits"], expected["logits"].reshape(2, 5), rtol=1e-5)
    np.testing.assert_allclose(outputs["aux"], expected["aux"] * 3, rtol=1e-5)


@pytest.mark.parametrize("location", [0, 1])
def test_references_in_a_file_are_no_trust(location: int, tmp_path: Path) -> None:
    model = parse("net (float[2] x) => (float[2] y) { y = Add (x, w) }", w=np.ones(2, np.float32))
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = location
    tensor.external_data.add(key="location", value="\0embedded")
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(converter.InvalidModelError, match="tensor 'w'"):
        converter.edit(tmp_path / "m.onnx")


MISTAKES: list[tuple[Callable[[], Any], dict[str, Any], str]] = [
    (classifier, {"cut": ":embeding"}, "no tensor 'embeding'; near are 'embedding'"),
    (classifier, {"cut": "aux:logits"}, "'logits' does not follow from 'aux'"),
    (classifier, {"cut": "logits:"}, "no output follows from 'logits'"),
    (classifier, {"cut": ":image"}, "'image' is an input or a weight"),
    (classifier, {"cut": "image:image"}, "'image' on both sides"),
    (classifier, {"cut": "a:b:c"}, r"one ':', but .* has 2; write \\: in a name"),
    (classifier, {"cut": ":"}, "on one side at least"),
    (classifier, {"cut": "a,,b:c"}, "empty name"),
    (branches, {"cut": ":inner"}, "'inner' is inside the .*_branch of node 'y' .If"),
    (branches, {"add_output": "then_y"}, "'then_y' is inside the then_branch"),
    (branches, {"rename": {"inner": "b"}}, "'inner' is inside"),
    (branches, {"rename": {"a": "inner"}}, "'a' cannot become 'inner', which the model has"),
    (classifier, {"rename": "a=b=c"}, r"one '=', but"),
    (classifier, {"rename": {"image": ""}}, "must be OLD=NEW, but has the value ''"),
    (classifier, {"rename": "image"}, "must be OLD=NEW"),
    (classifier, {"rename": {"image": "logits"}}, "cannot become 'logits'"),
    (classifier, {"rename": "image=a,logits=a"}, "'logits' cannot become 'a'"),
    (classifier, {"rename": "image=a,image=b"}, "'image' twice"),
    (classifier, {"remove_output": "logits,aux"}, "no output would be left"),
    (classifier, {"remove_output": "embedding"}, "no output 'embedding'"),
    (classifier, {"add_output": "logits"}, "an output already"),
    (classifier, {"add_output": "head_weight"}, "an input or a weight"),
    (classifier, {"insert_after": {"logits": "Softmx()"}}, "no operator Softmx; near are 'Softmax'"),
    (classifier, {"insert_after": {"logits": "Softmax(axes=1)"}}, "no attribute 'axes'; near are 'axis'"),
    (classifier, {"insert_after": {"logits": "Softmax(axis='x')"}}, "'axis' of Softmax must be INT, but is 'x'"),
    (classifier, {"insert_after": {"logits": "Softmax(axis=open(1))"}}, "must be a number, a list or a name"),
    (classifier, {"insert_after": {"logits": "Softmax("}}, "an operator such as"),
    (classifier, {"insert_after": {"logits": "Mul()"}}, "takes 2 to 2 inputs, but has 1"),
    (classifier, {"insert_after": {"features": "Mul(logits)"}}, "'logits' follows from 'features'"),
    (classifier, {"insert_after": {"features": "Mul(no)"}}, "no tensor 'no'"),
    (classifier, {"insert_after": {"logits": "Not()"}}, r"Not takes tensor\(bool\), but the tensor is tensor\(float\)"),
    (classifier, {"insert_after": {"logits": "Gelu()"}}, "Gelu needs opset 20, the file has opset 17"),
    (classifier, {"insert_after": {"logits": "Transpose(perm=[0, 1, 2])"}}, "would be invalid"),
    (classifier, {"insert_after": {"logits": "TopK(3)"}}, "TopK has 2 outputs"),
    (classifier, {"insert_after": {"image": "Cast(to=float16)"}}, "would be invalid: .*inconsistent type"),
    (lambda: parse(PRE), {"insert_after": {"pixels": "Div(2.5)"}}, "the input 2.5 must be of the type u8"),
    (
        lambda: parse(PRE),
        {"insert_after": {"pixels": "Cast(to=float33)"}},
        "'to' of Cast must be INT, but is 'float33'",
    ),
    (foreign, {"cut": "a:y"}, "the type of the tensor 'a' is not known"),
    (foreign, {"cut": "b:y"}, "the rank of the tensor 'b' is not known"),
    (foreign, {"add_output": "b"}, "the rank of the tensor 'b' is not known"),
    (foreign, {"insert_after": {"a": "Mul(2)"}}, "the type of the input 2 is not known"),
    (classifier, {"insert_after": "logits"}, "must be TENSOR=OPERATOR"),
    (classifier, {"replace_weight": {"head": W}}, "no weight 'head'; near are 'head_"),
    (classifier, {"replace_weight": {"head_weight": W.T}}, r"shape \[32, 10\], but the value \[10, 32\]"),
    (
        classifier,
        {"replace_weight": {"head_weight": W.astype(np.float16)}},
        "is f32, but the value float16: cast_weights",
    ),
    (classifier, {"replace_weight": {"head_weight": "no.npy"}}, "cannot be read as .npy"),
    (classifier, {"replace_weight": {"head_weight": 3}}, "must be an array or the path of an .npy file"),
    (classifier, {"cast_weights": True}, "needs replace_weight"),
    (classifier, {"set_dim": "image:4=1"}, "has 4 dimensions, but 4 is asked for"),
    (classifier, {"set_dim": "imag:0=1"}, "no input 'imag'; near are 'image'"),
    (classifier, {"set_dim": "image=1"}, "for the input write 'image:AXIS'"),
    (classifier, {"set_dim": "batch=1"}, "no dimension 'batch'"),
    (classifier, {"set_dim": "image:0=1..8"}, "a number, a name or"),
    (classifier, {"cut": "embedding:logits", "set_dim": "embedding:1=33"}, "would be invalid"),
    (classifier, {"strip": "everything"}, "must be of names, docs, metadata"),
    (classifier, {"metadata": "label="}, "no property 'label'; near are 'labels'"),
    (classifier, {"metadata": "label"}, "must be KEY=VALUE"),
    (classifier, {"connect": "a=b"}, "connect needs merge"),
    (classifier, {"merge": "model.onnx"}, "merge needs connect"),
    (classifier, {"merge": "model.onnx", "connect": "logit=image"}, "no output 'logit'; near are 'logits'"),
    (classifier, {"merge": "model.onnx", "connect": "logits=imag"}, "no input of the other model 'imag'"),
    (classifier, {"merge": "model.onnx", "connect": "logits=image"}, r"shape \[1, 10\], but 'image' needs"),
    (classifier, {"merge": "text.onnx", "connect": "logits=ids"}, "is FLOAT, but 'ids' is INT64"),
    (lambda: parse(PRE, 13), {"merge": "model.onnx", "connect": "ready=image"}, "opsets 13 and 17.*--opset 17"),
    (classifier, {"merge": "model.xml", "connect": "logits=image"}, "is not an ONNX model"),
    (onnx.ModelProto, {}, "no graph"),
    (classifier, {"strip": 3}, "strip must be a text"),
    (classifier, {"colour": 1}, "edit"),
]

MISTAKES += [
    (lambda: converter.convert_model(classifier()), options, message)
    for options, message in (
        ({"cut": ":embeding"}, "no tensor 'embeding'; near are 'embedding'"),
        ({"cut": "aux:logits"}, "'logits' does not follow from 'aux'"),
        ({"cut": ":image"}, "an input or a weight"),
        ({"rename": {"image": "logits"}}, "cannot become 'logits'"),
        ({"remove_output": "logits,aux"}, "no output would be left"),
        ({"insert_after": {"features": "Mul(logits)"}}, "'logits' follows from 'features'"),
        ({"insert_after": {"logits": "Not()"}}, "Not takes"),
        ({"replace_weight": {"head_weight": W[:1]}}, "has the shape"),
        ({"set_dim": "batch=1"}, "dimensions of an IR have no names"),
        ({"set_dim": "image:7=1"}, "has 4 dimensions"),
        ({"merge": "model.onnx", "connect": "logits=image"}, "the model is an IR"),
        ({"metadata": {"a b": "c"}}, "cannot be an element of rt_info"),
        ({"add_output": "aux"}, "an output already"),
    )
]


@pytest.mark.parametrize(("source", "options", "message"), MISTAKES)
def test_mistakes(source: Callable[[], Any], options: dict[str, Any], message: str, files: Path) -> None:
    with pytest.raises(converter.ConversionError, match=message) as caught:
        converter.edit(source(), **options)
    assert not isinstance(caught.value, converter.InternalError)


def test_edits_of_an_ir_in_one_go(files: Path) -> None:
    pre = converter.convert_model(parse(PRE))
    options = {"merge": "model.xml", "connect": {"ready": "image"}, "remove_output": "aux"}
    options |= {"add_output": "embedding", "insert_after": {"logits": "Mul(2.0)"}}
    options |= {"replace_weight": {"head_weight": W.T * 2}, "rename": {"pixels": "x"}, "metadata": {"by": "me"}}
    model = converter.edit(pre, **options).to_ir()
    pixels = np.random.default_rng(1).integers(0, 9, (1, 8, 8, 3)).astype(np.uint8)
    expected = run(classifier(), {"image": pixels.transpose(0, 3, 1, 2).astype(np.float32)})
    outputs = ir_runtime.compile_model(model)({"x": pixels})
    np.testing.assert_allclose(outputs["logits"], 4 * expected["logits"], rtol=1e-4)
    assert [node.end_names[0] for node in model.results] == ["logits", "embedding"]
    assert model.parameters[0].outputs[0].names == ["x"]
    bare = converter.edit(model, strip="names,docs,metadata").to_ir()
    assert not bare.runtime_info
    np.testing.assert_array_equal(ir_runtime.compile_model(bare)({"x": pixels})["logits"], outputs["logits"])


def test_a_recorded_edit_is_derived_again(tmp_path: Path) -> None:
    onnx.save(classifier(), tmp_path / "m.onnx")
    converter.save_model(converter.convert_model(tmp_path / "m.onnx"), tmp_path / "m.xml")
    converter.edit(tmp_path / "m.xml", cut=":embedding", rename={"image": "x"}).save(tmp_path / "n.xml")
    assert converter.derive(tmp_path / "n.xml", tmp_path / "m.onnx").same
    converter.edit(tmp_path / "m.xml", replace_weight={"head_weight": W.T}).save(tmp_path / "n.xml")
    with pytest.raises(converter.VerificationError, match="replace_weight, which cannot be repeated"):
        converter.derive(tmp_path / "n.xml", tmp_path / "m.onnx")


@pytest.mark.parametrize(("words", "message"), [
    ("model.onnx --cut :nothing -o out.onnx", "no tensor 'nothing'"),
    ("model.onnx -o model.onnx", "is the model that is read"),
    ("external.onnx -o e.onnx --external-data --split-size 1XB", "must be a size such as 1GB"),
    ("model.onnx --no-external-data --split-size 1GB -o out.onnx", "split_size needs external data"),
    ("model.onnx -o out.xml", "must end in .onnx"),
    ("model.xml -o out.onnx", "must end in .xml"),
    ("model.xml -o out.xml --external-data", "are for ONNX"),
    ("model.onnx -o nowhere/out.onnx", "there is no folder"),
])  # fmt: skip
def test_nothing_is_written_on_failure(words: str, message: str, files: Path) -> None:
    before = {path: path.read_bytes() for path in files.iterdir()}
    code, _, errors = onnx2ir("edit", *words.split())
    assert code == 1
    assert message in errors
    assert {path: path.read_bytes() for path in files.iterdir()} == before


def test_external_data_is_not_written_over(files: Path) -> None:
    (files / "e.bin").rename("out.onnx.data")
    model = onnx.load("external.onnx", load_external_data=False)
    for tensor in model.graph.initializer:
        tensor.external_data[0].value = "out.onnx.data"
    (files / "external.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(converter.ConversionError, match="belongs to the model that is read"):
        converter.edit("external.onnx").save("out.onnx")


def test_an_invalid_file_is_edited_with_a_note() -> None:
    model = classifier()
    model.ir_version = 3  # in which initializers have to be inputs
    result = converter.edit(model, rename={"image": "x"})
    assert any("the file itself is invalid" in note for note in result.notes)
