"""Opening ONNX files: every kind of source, weights as views, external data kept inside the folder."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from converter.onnx_file import messages, wire_format
from converter.onnx_file.graph import OnnxGraph, operator_of
from converter.onnx_file.messages import MESSAGES, REPEATED, Message
from converter.onnx_file.model import OnnxModel
from converter.onnx_file.reader import open_model
from converter.onnx_file.skeleton import EMBEDDED, skeleton
from ir_runtime.graph.node import Edits
from tests.converter.optimization.models import parse
from tests.engines import check_node
from tests.models.sources import LIGHT, light
from tests.rows.onnx.constants import SPARSE, dense, sparse
from tests.suite.node_suite import node_cases

BIG = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)


def add_model(value: np.ndarray | TensorProto = BIG) -> onnx.ModelProto:
    model = parse("g (float[n,64] x) => (y) { [add] y = Add (x, w) }")
    model.graph.initializer.append(value if isinstance(value, TensorProto) else numpy_helper.from_array(value, "w"))
    return model


def external(location: str, **entries: object) -> onnx.ModelProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[64, 64], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return add_model(tensor)


def run(source: object) -> np.ndarray:
    model = converter.convert_model(source)  # type: ignore[arg-type]
    return ir_runtime.compile_model(model)({"x": np.zeros((1, 64), np.float32)})["y"]


def test_every_kind_of_source(tmp_path: Path) -> None:
    model = add_model()
    onnx.save(model, tmp_path / "m.onnx")
    data = model.SerializeToString()
    for source in (model, data, io.BytesIO(data), tmp_path / "m.onnx", str(tmp_path / "m.onnx")):
        np.testing.assert_array_equal(run(source), BIG)


def test_large_weights_stay_in_the_mapped_file(tmp_path: Path) -> None:
    onnx.save(add_model(), tmp_path / "m.onnx")
    file = open_model(tmp_path / "m.onnx")
    assert not file.proto.graph.initializer[0].raw_data
    array = file.tensor(file.proto.graph.initializer[0]).array()
    base: object = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    assert not isinstance(base, np.ndarray)  # the map itself, no array that owns a copy
    np.testing.assert_array_equal(array, BIG)


def everything() -> onnx.ModelProto:
    """A model with a value in every field that a conversion reads, and large tensors at several depths."""
    model, tensor, node = add_model(), helper.make_tensor, helper.make_node
    model.producer_name, model.producer_version, model.domain, model.model_version = "maker", "1.0", "org", -3
    model.metadata_props.add(key="k", value="v")
    model.doc_string = "not read"
    inner = helper.make_graph([node("Constant", [], ["c"], value=numpy_helper.from_array(BIG, "t"))], "inner", [], [])
    graph = model.graph
    graph.node.append(node("If", ["x"], ["z"], then_branch=inner, else_branch=inner, domain="d", name="i"))
    strings = tensor("s", TensorProto.STRING, [2], ["a", "\u00e9"])
    places = tensor("p", TensorProto.INT64, [1], [3])
    sparse = helper.make_sparse_tensor(tensor("v", TensorProto.FLOAT, [1], [1.5]), places, [9])
    lists = {"floats": [1.5, -2.0], "ints": [-1, 2**40], "strings": ["p", "q"], "tensors": [strings], "graphs": [inner]}
    kind = helper.make_tensor_type_proto(TensorProto.INT8, [None, "n", 2])
    kind = helper.make_optional_type_proto(helper.make_sequence_type_proto(kind))
    odd = node("Odd", ["", "x"], ["u"], f=0.5, i=-(2**63), s="text", sparse_tensor=sparse, tp=kind, **lists)
    odd.attribute.add(name="r", ref_attr_name="of", type=1)
    graph.node.append(odd)
    graph.sparse_initializer.append(sparse)
    for name, type_, values in (
        ("f", TensorProto.FLOAT, [1.0, -2.5, 3e38]), ("b", TensorProto.INT8, [-128, 0, 127]),
        ("i", TensorProto.INT64, [(-3) ** n if n < 38 else -n for n in range(100)]),
        ("d", TensorProto.DOUBLE, [1e300]), ("u", TensorProto.UINT64, [2**64 - 1, 0]),
    ):  # fmt: skip
        graph.initializer.append(tensor(name, type_, [len(values)], values))
    graph.value_info.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, None, "n"]))
    graph.value_info.append(helper.make_value_info("o", kind))
    function = helper.make_function("d", "F", ["a"], ["b"], [node("Neg", ["a"], ["b"])], model.opset_import, ["of"])
    model.functions.append(function)
    return model


def plain_values(message: Any, data: bytes, kind: Any) -> Any:
    """A message of ours and one of onnx's as the same plain values; raw data as bytes, wherever it lies."""
    if isinstance(message, Message):
        start, size = getattr(message, "raw_span", (0, 0))
        given = {name: value for name, value in vars(message).items() if name != "raw_span"}
        given |= {"raw_data": data[start : start + size]} if size else {}
    else:
        given = {field.name: value for field, value in message.ListFields()}
    names = {field.name: field for field in kind.fields.values()}
    found = {}
    for name, value in given.items():
        if name in names:
            field = names[name]
            if field.message is not None:
                one = functools.partial(plain_values, data=data, kind=field.message)
                found[name] = [one(item) for item in value] if field.wire_type == MESSAGES else one(value)
            else:
                found[name] = list(value) if field.wire_type in REPEATED else value
    return found


def in_other_ways(model: onnx.ModelProto) -> bytes:
    """The same model as bytes that protobuf writes differently: numbers one by one, the graph in two parts."""
    (place,) = (place for place, one in enumerate(model.graph.initializer) if one.name == "i")
    ints = model.graph.initializer[place].int64_data
    single = b"".join(b"\x38" + _varint(value % 2**64) for value in ints)
    packed = onnx.TensorProto(int64_data=ints).SerializeToString()
    data = model.SerializeToString()
    rest = onnx.ModelProto(graph=onnx.GraphProto(doc_string="twice")).SerializeToString()
    assert packed in data
    graph = model.graph.SerializeToString()
    tensor = model.graph.initializer[place].SerializeToString()
    longer = tensor.replace(packed, single)
    changed = graph.replace(b"\x2a" + _varint(len(tensor)) + tensor, b"\x2a" + _varint(len(longer)) + longer)
    return data.replace(b"\x3a" + _varint(len(graph)) + graph, b"\x3a" + _varint(len(changed)) + changed) + rest


def _varint(value: int) -> bytes:
    made = b""
    while value > 127:
        made, value = made + bytes([value & 127 | 128]), value >> 7
    return made + bytes([value])


@pytest.mark.parametrize("window", [1 << 16, 4096, 200, 40])
@pytest.mark.parametrize("write", [onnx.ModelProto.SerializeToString, in_other_ways], ids=["protobuf", "otherwise"])
def test_files_are_read_as_onnx_reads_them(monkeypatch: pytest.MonkeyPatch, window: int, write: Any) -> None:
    monkeypatch.setattr(wire_format, "_WINDOW", window)
    monkeypatch.setattr(wire_format, "_LEAST_AHEAD", min(window, 30))
    model = everything()
    data = write(model)
    ours = wire_format.parse_bytes(messages.ModelProto, data)
    assert ours.graph.initializer[0].raw_span[1] == BIG.nbytes
    plain = functools.partial(plain_values, kind=messages.ModelProto)
    assert plain(ours, data) == plain(onnx.ModelProto.FromString(data), data)
    assert plain(messages.from_onnx(model, messages.ModelProto), b"") == plain(model, b"")


def test_nodes_are_handed_back_to_onnx() -> None:
    for node in everything().graph.node:
        ours = messages.from_onnx(node, messages.NodeProto)
        assert messages.to_onnx(ours, onnx.NodeProto()) == node


def test_messages_have_the_fields_and_numbers_of_onnx() -> None:
    for name, ours in vars(messages).items():
        theirs = getattr(onnx, name, None)
        if not name.endswith("Proto") or theirs is None:
            continue
        numbers = {field.name: field.number for field in theirs.DESCRIPTOR.fields}
        assert {field.name: tag >> 3 for tag, field in ours.fields.items()}.items() <= numbers.items()
        assert all(hasattr(ours(), field.name) for field in ours.fields.values())
    assert dict(onnx.TensorProto.DataType.items()) == messages.DATA_TYPES
    numbers = {number: name for name, number in onnx.AttributeProto.AttributeType.items() if number}
    assert numbers == messages.ATTRIBUTE_TYPES


def test_little_is_read_of_a_file_with_large_weights() -> None:
    model = add_model(np.zeros((512, 1024), np.float32))
    data, read = model.SerializeToString(), []

    def some(start: int, count: int) -> bytes:
        read.append(count)
        return data[start : start + count]

    wire_format.parse(messages.ModelProto, some, len(data))
    assert sum(read) < 5 * 2**16


def tensors_of(message: Any) -> Iterator[onnx.TensorProto]:
    """Every tensor that a message of onnx holds, at any depth."""
    if isinstance(message, onnx.TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for item in [value] if hasattr(value, "DESCRIPTOR") else value:
                yield from tensors_of(item)


@pytest.mark.parametrize("write", [onnx.ModelProto.SerializeToString, in_other_ways], ids=["protobuf", "otherwise"])
def test_a_skeleton_is_the_model_with_the_places_of_large_data(write: Any) -> None:
    data = write(everything())
    whole, without = onnx.ModelProto.FromString(data), onnx.ModelProto.FromString(skeleton(data))
    large = [tensor for tensor in tensors_of(whole) if len(tensor.raw_data) >= 1024]
    cut = [tensor for tensor in tensors_of(without) if tensor.external_data and not tensor.raw_data]
    cut = [tensor for tensor in cut if tensor.external_data[0].value == EMBEDDED]
    assert [tensor.name for tensor in cut] == [tensor.name for tensor in large] != []
    for tensor in cut:
        place = {entry.key: entry.value for entry in tensor.external_data}
        start, length = int(place["offset"]), int(place["length"])
        tensor.raw_data = data[start : start + length]
        del tensor.external_data[:]
    assert without == whole


@pytest.mark.parametrize("size", [*range(1, 200, 7), -1, -5000])
def test_a_truncated_file_has_no_skeleton(size: int) -> None:
    data = everything().SerializeToString()[:size]
    try:
        onnx.ModelProto.FromString(data)
    except Exception:
        with pytest.raises(converter.InvalidModelError, match=r"corrupt|protobuf"):
            skeleton(data)
    else:
        assert onnx.ModelProto.FromString(skeleton(data)) == onnx.ModelProto.FromString(data)


def test_the_places_of_fields() -> None:
    data = b"\x08\x01" + b"\x12\x02ab" + b"\x1d1234" + b"\x3a\x00" + b"\x12\x01c"
    spans = wire_format.field_spans(memoryview(data), 0, len(data), [2, 3, 7])
    assert spans == [(2, 2, 4, 6), (7, 11, 13, 13), (2, 13, 15, 16)]


@pytest.mark.parametrize("offset", [0, 64])
def test_external_data(tmp_path: Path, offset: int) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(b"\0" * offset + BIG.tobytes() + b"rest")
    model = external("data/w.bin", offset=offset, length=BIG.nbytes)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    np.testing.assert_array_equal(run(tmp_path / "m.onnx"), BIG)


@pytest.mark.parametrize(("model", "data"), [("../blobs/aaa", "../blobs/bbb"), ("../blobs/aaa", "")])
def test_external_data_of_a_symlinked_model(tmp_path: Path, model: str, data: str) -> None:
    """As in a hub's cache; or the data lie beside the real file alone."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    (blobs / "aaa").write_bytes(external("m.onnx_data").SerializeToString())
    (blobs / ("bbb" if data else "m.onnx_data")).write_bytes(BIG.tobytes())
    os.symlink(model, snapshot / "m.onnx")
    if data:
        os.symlink(data, snapshot / "m.onnx_data")
    np.testing.assert_array_equal(run(snapshot / "m.onnx"), BIG)


@pytest.mark.parametrize(
    ("location", "entries", "message"),
    [
        *((location, {}, "may not lie at")
          for location in ("../secret.bin", "a/../../secret.bin", "/etc/passwd", "C:/secret.bin", "", "\0embedded")),
        ("none.bin", {}, "does not exist beside the model"),
        ("folder", {}, "is not a file"),
        ("out.bin", {}, "leads out of the model's folder"),
        ("w.bin", {"offset": 4}, "needs 16384 bytes of data, but there are 16380"),
        ("w.bin", {"offset": 4, "length": 16384}, "ends at byte 16388, but the file has 16384"),
        ("w.bin", {"offset": -4}, "the offset of its data must be a number"),
        ("w.bin", {"offset": 10**25}, "the offset of its data must be a number"),
        ("w.bin", {"length": 16}, "needs 16384 bytes of data, but there are 16"),
    ],
)  # fmt: skip
def test_external_data_is_confined_and_checked(tmp_path: Path, location: str, entries: dict, message: str) -> None:
    folder = tmp_path / "model"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "secret.bin").write_bytes(BIG.tobytes())
    (folder / "w.bin").write_bytes(BIG.tobytes())
    os.symlink(tmp_path / "secret.bin", folder / "out.bin")
    (folder / "m.onnx").write_bytes(external(location, **entries).SerializeToString())
    with pytest.raises(converter.ConversionError, match="'w'") as caught:
        converter.convert_model(folder / "m.onnx")
    assert message in str(caught.value)


def test_external_data_needs_a_path() -> None:
    with pytest.raises(converter.ConversionError, match="the model was not given as a path"):
        converter.convert_model(external("w.bin").SerializeToString())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dims": [64, 64, 2]}, "needs 32768 bytes of data, but there are 16384"),
        ({"data_type": TensorProto.COMPLEX64}, "the IR has no element type for ONNX's COMPLEX64"),
        ({"data_type": 99}, "the IR has no element type for ONNX's 99"), ({"dims": [-64, 64]}, "negative dimension"),
        ({"dims": [2**62, 64]}, "bytes of data, but there are"),
        ({"raw_data": [], "float_data": [1, 2]}, "needs 4096 values, but has 2"),
        ({"raw_data": []}, "needs 4096 values, but has 0"),
    ],
)  # fmt: skip
def test_tensors_that_contradict_themselves(fields: dict[str, Any], message: str) -> None:
    model = add_model()
    for name, value in fields.items():
        model.graph.initializer[0].ClearField(name)
        model.graph.initializer[0].MergeFrom(TensorProto(**({name: value} if value != [] else {})))
    with pytest.raises(converter.ConversionError, match=rf"'w'.*{message}"):
        converter.convert_model(model)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    for content in (b"", b"\0", b"not a model at all", b"PK\x03\x04" * 10, b"\x0a" * 1000, b"\xff" * 64):
        path.write_bytes(content)
        with pytest.raises(converter.ConversionError):
            converter.convert_model(path)
    with pytest.raises(converter.ConversionError, match="cannot be read: No such file"):
        converter.convert_model(tmp_path / "none.onnx")
    with pytest.raises(converter.ConversionError):
        converter.convert_model(tmp_path)


def test_every_truncation_is_an_error_of_ours() -> None:
    data = add_model(np.arange(64, dtype=np.float32)).SerializeToString()
    for length in range(len(data)):
        with pytest.raises(converter.ConversionError):
            converter.convert_model(data[:length])


@pytest.mark.parametrize("number", [1 << 32, (1 << 63) - 1])
def test_numbers_that_onnx_cannot_hold_are_the_models_fault(number: int) -> None:
    """A function of a schema is asked for with the node as onnx's own message, whose types have 32 bits."""
    attribute = messages.AttributeProto(name="reduction", type=number)
    node = messages.NodeProto(op_type="NegativeLogLikelihoodLoss", attribute=[attribute])
    with pytest.raises(converter.ConversionError, match="the field 'type' cannot be"):
        messages.to_onnx(node, onnx.NodeProto())


@pytest.mark.parametrize(("values", "places", "shape"), SPARSE[:3], ids=range(3))
@pytest.mark.parametrize("inside", [False, True])
def test_sparse_initializer(values: Any, places: Any, shape: list[int], inside: bool) -> None:
    add = "y = Add (x, s)"
    branches = f"then_branch = a () => (y) {{ {add} }}, else_branch = b () => (y) {{ {add} }}"
    nodes = f"z = If (c) <{branches}>" if inside else f"{add}  z = Where (c, y, y)"
    model = parse(f"g (float{shape} x, bool c) => (z) {{ {nodes} }}", 13)
    typed = np.asarray(values, np.float32)
    for graph in [attribute.g for attribute in model.graph.node[0].attribute] if inside else [model.graph]:
        graph.sparse_initializer.append(sparse(typed, places, shape))
    x = np.ones(shape, np.float32)
    check_node(model, {"x": x, "c": np.array(True)}, [x + dense(typed, places, shape)])


# --- ONNX operators as a graph ---


def rewritten(source: onnx.ModelProto) -> onnx.ModelProto:
    """Read a model, make each of its nodes anew from its operator and its edges, and write it."""
    model = OnnxModel(source)
    for graph in (model.graph, *model.functions):
        for part in graph.parts():
            assert isinstance(part.model, OnnxGraph)
            for node in part.nodes:
                node.op = operator_of(node).replace()
                node.inputs = tuple(node.inputs)
    return model.with_weights()


def assert_same(source: onnx.ModelProto, name: str) -> None:
    written = rewritten(source)
    assert written.SerializeToString(deterministic=True) == source.SerializeToString(deterministic=True), name


def test_cases_of_onnx_are_written_as_they_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Edits, "guard", None)
    for case in node_cases():
        assert_same(case.model, case.name)


@pytest.mark.parametrize("name", LIGHT)
def test_models_are_written_as_they_were_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Edits, "guard", None)
    assert_same(onnx.load(light(name)), name)


def test_what_a_graph_does_not_say_is_carried_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptions, metadata, annotations, unread nodes and weights, defaults, an order that is none, empty names."""
    monkeypatch.setattr(Edits, "guard", None)
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17, "own" : 1]>
    g (float[2] x, float[2] d, bool c) => (float[2] y) <float[2] d = {1, 2}, float[2] unread = {3, 4}, float s = {0.5}> {
        y = Add (t, d)
        dead = Neg (x)
        t = If (c) <then_branch = a () => (float[2] p) { q = own.f (x) p = Clip (q, , s) },
                    else_branch = b () => (float[2] x) {}>
        again, = Split (x)
    }
    <domain: "own", opset_import: ["" : 17]> f <k: int = 3> (v) => (w) { w = Add (v, v) }""")
    graph = model.graph
    graph.doc_string = model.doc_string = graph.node[0].doc_string = graph.input[0].doc_string = "described"
    graph.node[1].metadata_props.add(key="a", value="b")
    graph.node[3].input.append("")
    graph.value_info.append(helper.make_tensor_value_info("nowhere", 1, ["n"]))
    graph.value_info.append(helper.make_tensor_value_info("t", 1, ["n"]))
    graph.value_info.append(helper.make_tensor_value_info("s", 1, []))
    annotation = graph.quantization_annotation.add(tensor_name="t")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    model.training_info.add().initialization.name = "start"
    model.functions[0].metadata_props.add(key="c", value="d")
    assert_same(model, "g")
    renamed = converter.edit(model, rename={"t": "t2", "s": "scale"}).to_onnx().graph
    (annotation,) = renamed.quantization_annotation
    assert (annotation.tensor_name, annotation.quant_parameter_tensor_names[0].value) == ("t2", "scale")
    assert [value.name for value in renamed.value_info] == ["nowhere", "t2", "scale"]
