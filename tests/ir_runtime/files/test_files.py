"""Writing and reading the two files: round trips, names, determinism, all or nothing; bodies that OpenVINO wrote."""

from __future__ import annotations

import io
import mmap
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino.opset16 as ops
import pytest
from openvino import Model, Type

import converter
import ir_runtime
from ir_runtime.graph import ElementType, PartialShape, Tensor, element_types, make_node
from ir_runtime.graph.element_types import from_dtype, pack, unpack
from ir_runtime.operations.inputs_outputs import Const1, Parameter1, Result1
from tests.converter.optimization.models import parse
from tests.engines import assert_close, core, node_model, run_numpy, run_openvino, written
from tests.random_data import generator


def constant_model(*arrays: np.ndarray, names: list[str] | None = None) -> ir_runtime.Model:
    nodes = [make_node(Const1(value=Tensor.from_array(array)), (), f"c{i}") for i, array in enumerate(arrays)]
    results = []
    for i, node in enumerate(nodes):
        node.outputs[0].add_name((names or [f"t{i}" for i in range(len(arrays))])[i])
        results.append(make_node(Result1(), node.outputs, f"r{i}"))
    return ir_runtime.Model("constants", [], results)


ARRAYS = {
    "u1": np.array([1, 0, 1, 0, 1, 0, 1, 0, 1], np.uint8),
    "u2": np.array([3, 0, 1, 2, 3], np.uint8),
    "u3": np.array([5, 6, 1, 7, 4], np.uint8),
    "u6": np.array([0x1A, 0x2B, 0x3C, 0x0D, 0x3E], np.uint8),
    "u4": np.array([3, 8, 15], np.uint8),
    "i4": np.array([-8, 7, -1], np.int8),
}


@pytest.mark.parametrize(
    ("name", "packed"),
    [("u1", "aa80"), ("u2", "9303"), ("u3", "6700d8"), ("u6", "abcd6ce000c0"), ("u4", "830f"), ("i4", "780f")],
)
def test_packing_of_narrow_types(name: str, packed: str) -> None:
    """The layouts as OpenVINO has them: u1 from the top bit, u2 and u4 from the bottom, u3 and u6 split."""
    kind = element_types.element_type(name)
    values = ARRAYS[name].astype(kind.dtype)
    assert pack(values, kind).hex() == packed
    back = unpack(np.frombuffer(bytes.fromhex(packed), np.uint8), kind, values.shape)
    np.testing.assert_array_equal(back.astype(np.int16), ARRAYS[name].astype(np.int16))


@pytest.mark.parametrize("kind", [k for k in element_types.ALL if not k.is_dynamic], ids=str)
def test_every_type_survives_the_file(kind: ElementType) -> None:
    if kind is element_types.string:
        values = np.array(["a", "", "héé"], np.object_)
    elif kind is element_types.boolean:
        values = np.array([True, False, True])
    else:
        values = np.array([1, 1, 0.5, 1, 1] if kind.name == "f8e8m0" else [0, 1, 1, 0, 1]).astype(kind.dtype)
    node = make_node(Const1(value=Tensor.from_array(values, kind)), (), "c")
    model = ir_runtime.Model("m", [], [make_node(Result1(), node.outputs, "r")])
    written = ir_runtime.model_to_bytes(model)
    back = ir_runtime.read_model(*written)
    assert ir_runtime.model_to_bytes(back) == written
    assert back.outputs[0].element_type is kind
    np.testing.assert_array_equal(ir_runtime.compile_model(back)()[0], values)


def test_string_constant_has_the_documented_layout() -> None:
    packed = pack(np.array(["a", "", "héé"], np.object_), element_types.string)
    assert packed.hex() == "03000000000000000100000001000000060000006168c3a9c3a9"


def test_nf4_decodes_to_its_table() -> None:
    decoded = unpack(np.array([0x70, 0xF8], np.uint8), element_types.nf4, (4,))
    np.testing.assert_allclose(decoded, [-1, 0, 0.0795803, 1])


def test_identical_constants_are_stored_once_and_aligned() -> None:
    same = np.arange(100, dtype=np.float32)
    model = constant_model(same, same.copy(), same.view(np.int32), np.arange(3))
    xml, weights = ir_runtime.model_to_bytes(model)
    offsets = [int(offset) for offset in re.findall(rb'offset="(\d+)"', xml)]
    assert offsets == [0, 0, 0, 448]
    assert all(offset % 64 == 0 for offset in offsets)
    assert len(weights) == 448 + 24


NAMES = ["a,b", "x:0", 'quote"<&>', "tab\tnew\nline", "ünïcødé", " spaced ", "a\\,b", "end\\", "model/layer.1/Add_2"]


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_survive_here_and_in_openvino(name: str) -> None:
    parameter = make_node(Parameter1(shape=[2], element_type="f32"), (), name)
    parameter.outputs[0].names = [name, "plain"]
    model = ir_runtime.Model("m", [parameter], [make_node(Result1(), parameter.outputs, "r")])
    xml, weights = ir_runtime.model_to_bytes(model)
    back = ir_runtime.read_model(xml, weights)
    assert set(back.inputs[0].names) == {name, "plain"}
    assert back.parameters[0].name == name
    theirs = core().read_model(xml)
    if "\n" not in name and "\t" not in name:  # OpenVINO's XML parser turns them into blanks
        assert theirs.inputs[0].get_names() == {name, "plain"}


@pytest.mark.parametrize("name", ["bell\x07", "nul\x00"])
def test_names_that_xml_cannot_carry_are_refused(name: str) -> None:
    parameter = make_node(Parameter1(shape=[2], element_type="f32"), (), name)
    model = ir_runtime.Model("m", [parameter], [make_node(Result1(), parameter.outputs, "r")])
    with pytest.raises(ir_runtime.ModelError, match=r"U\+000"):
        ir_runtime.model_to_bytes(model)


def test_runtime_info_survives() -> None:
    info = ir_runtime.graph.model.RuntimeInfo("info", (("name", "any text"), ("value", 'v"<')))
    model = constant_model(np.arange(3))
    model.runtime_info = (ir_runtime.graph.model.RuntimeInfo("group", (), (info,)),)
    xml, weights = ir_runtime.model_to_bytes(model)
    assert ir_runtime.read_model(xml, weights).runtime_info == model.runtime_info
    assert core().read_model(xml, weights).get_rt_info(["group", "any text"]).astype(str) == 'v"<'


def test_files_in_memory_and_on_disk_are_the_same(tmp_path: Path) -> None:
    model = constant_model(np.arange(5, dtype=np.float32))
    ir_runtime.write_model(model, tmp_path / "m.xml")
    xml, weights = io.BytesIO(), io.BytesIO()
    ir_runtime.write_model(model, xml, weights)
    assert (tmp_path / "m.xml").read_bytes() == xml.getvalue()
    assert (tmp_path / "m.bin").read_bytes() == weights.getvalue()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.bin", "m.xml"]
    xml.seek(0)
    weights.seek(0)
    assert ir_runtime.compile_model(ir_runtime.read_model(xml, weights))()[0].tolist() == [0, 1, 2, 3, 4]


def test_weights_are_mapped_not_copied(tmp_path: Path) -> None:
    ir_runtime.write_model(constant_model(np.arange(5000, dtype=np.float32)), tmp_path / "m.xml")
    model = ir_runtime.read_model(tmp_path / "m.xml")
    array = next(node.op.data for node in model.nodes() if node.op.data is not None).array()
    base = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    assert isinstance(base, memoryview)
    assert isinstance(base.obj, mmap.mmap)
    assert not array.flags.writeable


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    good = constant_model(np.arange(3))
    ir_runtime.write_model(good, tmp_path / "m.xml")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    broken = constant_model(np.arange(4))

    def fail() -> Iterator[np.ndarray]:
        raise OSError(28, "No space left on device")

    computed = Tensor.computed_in_parts(element_types.f32, (100,), fail, b"", Tensor.from_array(np.zeros(1)), "made")
    node = make_node(Const1(value=computed), (), "late")
    broken.results = (*broken.results, make_node(Result1(), node.outputs, "late/result"))
    with pytest.raises(OSError, match="No space left"):
        ir_runtime.write_model(broken, tmp_path / "m.xml")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


@pytest.mark.parametrize("suffix", [".xml", ".bin"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "link to a pipe"])
def test_only_regular_files_are_written_over(kind: str, suffix: str, tmp_path: Path) -> None:
    target = (tmp_path / "m.xml").with_suffix(suffix)
    place = tmp_path / "pipe" if kind.startswith("link") else target
    if kind == "folder":
        place.mkdir()
    else:
        os.mkfifo(place)
    if place != target:
        target.symlink_to(place)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError, match="is not a regular file"):
        ir_runtime.write_model(ir_runtime.Model(), tmp_path / "m.xml")
    assert sorted(tmp_path.iterdir()) == before
    assert not place.is_file()


def test_dtype_and_element_type_know_each_other() -> None:
    for kind in element_types.ALL:
        if kind.name not in ("dynamic", "nf4", "u6", "u3", "u1"):
            assert from_dtype(kind.dtype) is kind
    with pytest.raises(ir_runtime.ModelError, match="complex64"):
        from_dtype(np.complex64)


@pytest.mark.parametrize("name", ["source.onnx", "model", "model.bin", "model.xml.gz"])
def test_an_ir_is_called_xml(tmp_path: Path, name: str) -> None:
    """A path that ends otherwise may be that of another file, such as the ONNX model."""
    path = tmp_path / name
    path.write_bytes(b"something else")
    for write in (ir_runtime.write_model, converter.save_model):
        with pytest.raises(ir_runtime.ModelError, match=r"must end in \.xml|that is the weights' name"):
            write(constant_model(np.arange(9)), path)
    assert path.read_bytes() == b"something else"
    assert os.listdir(tmp_path) == [name]


def product_model() -> onnx.ModelProto:
    """The cpu target stores its weights transposed: a view of the file with gaps."""
    weights = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    return node_model("MatMul", {"x": weights[:2]}, constants={"w": weights}, opset=13)


def scaled_convolution_model() -> onnx.ModelProto:
    """Its weights are multiplied by the factors: computed from the file each time that they are read."""
    random = np.random.default_rng(0)
    weights = random.standard_normal((64, 32, 3, 3)).astype(np.float32)
    factors = random.uniform(1, 2, (64, 1, 1)).astype(np.float32)
    return parse(
        "g (float[1,32,8,8] x) => (float[a,b,c,d] y) { k = Conv (x, w)  y = Mul (k, f) }", w=weights, f=factors
    )


@pytest.mark.parametrize("make", [product_model, scaled_convolution_model])
@pytest.mark.parametrize("compress", [None, "int8"])
def test_weights_do_not_replace_what_the_model_was_made_from(
    tmp_path: Path, compress: str | None, make: Callable[[], onnx.ModelProto]
) -> None:
    proto = make()
    external = {"save_as_external_data": True, "location": "model.bin", "size_threshold": 0}
    onnx.save_model(proto, tmp_path / "source.onnx", **external)
    before = (tmp_path / "model.bin").read_bytes()
    model = converter.convert_model(tmp_path / "source.onnx")
    with pytest.raises(
        ir_runtime.ModelError, match=r"the weights would overwrite .*model\.bin, which the model was made"
    ):
        converter.save_model(model, tmp_path / "model.xml", compress=compress)
    assert (tmp_path / "model.bin").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["model.bin", "source.onnx"]
    converter.save_model(model, tmp_path / "other.xml", compress=compress)
    # An IR may be written over itself.
    converter.save_model(ir_runtime.read_model(tmp_path / "other.xml"), tmp_path / "other.xml")
    assert converter.verify(tmp_path / "source.onnx", tmp_path / "other.xml").passed


@pytest.mark.skipif(os.name != "posix", reason="only there files have modes that a umask changes")
def test_the_umask_holds_and_is_never_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to the whole process: other threads may create files meanwhile."""
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the process's umask was changed"))
        ir_runtime.write_model(constant_model(np.arange(9)), tmp_path / "m.xml")
        monkeypatch.undo()
        assert {oct((tmp_path / name).stat().st_mode & 0o777) for name in ("m.xml", "m.bin")} == {"0o640"}
    finally:
        os.umask(before)


def test_weights_that_are_all_empty_are_a_file_of_one_byte(tmp_path: Path) -> None:
    empty = np.zeros((0, 3), np.float32)
    ir_runtime.write_model(constant_model(empty), tmp_path / "m.xml")
    assert (tmp_path / "m.bin").read_bytes() == b"\0"
    assert core().compile_model(tmp_path / "m.xml", "CPU")()["t0"].shape == (0, 3)
    assert ir_runtime.compile_model(ir_runtime.read_model(tmp_path / "m.xml"))()["t0"].shape == (0, 3)


def test_a_model_without_constants_has_no_weights(tmp_path: Path) -> None:
    node = make_node(Parameter1(shape=PartialShape([2]), element_type="f32"), (), "x")
    result = make_node(Result1(), node.outputs, "y")
    ir_runtime.write_model(ir_runtime.Model("m", [node], [result]), tmp_path / "m.xml")
    assert (tmp_path / "m.bin").read_bytes() == b""


# --- If, Loop and TensorIterator: files that OpenVINO wrote, and its results ---


RNG = generator(17)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def check(outputs: list[Any], parameters: list[Any], feeds: list[np.ndarray]) -> tuple[bytes, bytes]:
    """Read what OpenVINO wrote, write it again, and compare both engines; return OpenVINO's file."""
    theirs = written(outputs, parameters)
    ours = ir_runtime.model_to_bytes(ir_runtime.read_model(*theirs))
    named: Any = dict(enumerate(feeds))
    expected = run_openvino(theirs, named)
    for actual in (run_numpy(theirs, named), run_numpy(ours, named), run_openvino(ours, named)):
        for value, want in zip(actual, expected, strict=True):
            assert_close(value, want)
    return theirs


def conditional(then_shape: list[int], else_shape: list[int]) -> tuple[list[Any], list[Any]]:
    c = ops.parameter([], Type.boolean)
    x, y = ops.parameter(then_shape, Type.f32), ops.parameter(else_shape, Type.f32)
    tx, ex = ops.parameter(then_shape, Type.f32), ops.parameter(else_shape, Type.f32)
    then_result, else_result = ops.result(ops.negative(tx)), ops.result(ops.exp(ex))
    node = ops.if_op(c.output(0))
    node.set_then_body(Model([then_result], [tx], "then"))
    node.set_else_body(Model([else_result], [ex], "else"))
    node.set_input(x.output(0), tx, None)
    node.set_input(y.output(0), None, ex)
    return [node.set_output(then_result, else_result)], [c, x, y]


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("shapes", [([2, 3], [2, 3]), ([2, 3], [4, 3]), ([-1, 3], [2, -1])])
def test_if(condition: bool, shapes: tuple[list[int], list[int]]) -> None:
    outputs, parameters = conditional(*shapes)
    sizes = [[abs(n) if n > 0 else 2 for n in shape] for shape in shapes]
    check(outputs, parameters, [np.array(condition), normal(*sizes[0]), normal(*sizes[1])])


def loop(
    trips: int | None, limit: float, join: bool, part: int = 1, shape: tuple[int, ...] = (1, 2)
) -> tuple[list[Any], list[Any]]:
    """v doubles and gains the counter, while its greatest element is below ``limit``.

    Parameters: v, the condition to start with, and the trip count unless ``trips`` is it.
    """
    start = ops.parameter([], Type.boolean)
    x = ops.parameter(list(shape), Type.f32)
    count = ops.parameter([], Type.i64) if trips is None else ops.constant(np.array(trips))
    i, v = ops.parameter([], Type.i64), ops.parameter(list(shape), Type.f32)
    step = ops.add(ops.add(v, v), ops.convert(i, "f32"))
    going = ops.less(ops.reduce_max(step, np.array([0, 1]), False), np.float32(limit))
    state, condition = ops.result(step), ops.result(going)
    node = ops.loop(count.output(0), start.output(0))
    node.set_function(Model([condition, state], [i, v], "body"))
    node.set_special_body_ports([0, 0])
    node.set_merged_input(v, x.output(0), state.output(0))
    outputs = [node.get_iter_value(state.output(0), -1)]
    if join:
        outputs.append(node.get_concatenated_slices(state.output(0), 0, 1, part, -1, 0))
    return outputs, [x, start] if trips is not None else [x, start, count]


@pytest.mark.parametrize("trips", [0, 1, 4, -1])
@pytest.mark.parametrize("start", [True, False])
@pytest.mark.parametrize("limit", [40.0, 1e9])
def test_loop(trips: int, start: bool, limit: float) -> None:
    limit = min(limit, 1e4) if trips < 0 else limit
    check(*loop(trips, limit, join=True), [np.array([[1.0, 3.0]], np.float32), np.array(start)])


def test_loop_whose_trips_are_given() -> None:
    outputs, parameters = loop(None, 1e9, join=True)
    check(outputs, parameters, [normal(1, 2), np.array(True), np.array(3)])


def test_loop_over_slices_with_an_invariant() -> None:
    x, k = ops.parameter([3, 2], Type.f32), ops.parameter([1, 2], Type.f32)
    row, factor = ops.parameter([1, 2], Type.f32), ops.parameter([1, 2], Type.f32)
    made = ops.result(ops.multiply(row, factor))
    condition = ops.result(ops.constant(np.array(True)))
    node = ops.loop(ops.constant(np.array(3)).output(0), ops.constant(np.array(True)).output(0))
    node.set_function(Model([condition, made], [row, factor], "body"))
    node.set_special_body_ports([-1, 0])
    node.set_sliced_input(row, x.output(0), 0, 1, 1, -1, 0)
    node.set_invariant_input(factor, k.output(0))
    check([node.get_concatenated_slices(made.output(0), 0, 1, 1, -1, 0)], [x, k], [normal(3, 2), normal(1, 2)])


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("part", [1, 2])
@pytest.mark.parametrize("static", [True, False])
def test_tensor_iterator(backwards: bool, part: int, static: bool) -> None:
    x, s = ops.parameter([2, 6 if static else -1, 3], Type.f32), ops.parameter([2, part, 3], Type.f32)
    piece, state = ops.parameter([2, part, 3], Type.f32), ops.parameter([2, part, 3], Type.f32)
    total = ops.result(ops.add(ops.multiply(state, np.float32(0.5)), piece))
    stride, start, end = (-part, -1, 0) if backwards else (part, 0, -1)
    node = ops.tensor_iterator()
    node.set_function(Model([total], [piece, state], "body"))
    node.set_sliced_input(piece, x.output(0), start, stride, part, end, 1)
    node.set_merged_input(state, s.output(0), total.output(0))
    outputs = [
        node.get_iter_value(total.output(0), -1),
        node.get_concatenated_slices(total.output(0), start, stride, part, end, 1),
    ]
    model = ir_runtime.read_model(*check(outputs, [x, s], [normal(2, 6, 3), normal(2, part, 3)]))
    for found, wanted in zip(model.outputs, outputs, strict=True):
        assert str(found.element_type) == wanted.get_element_type().get_type_name()
        assert found.shape == PartialShape.parse(str(wanted.get_partial_shape()))


def test_nested_bodies() -> None:
    """A Loop within a branch of an If."""
    c, x = ops.parameter([], Type.boolean), ops.parameter([1, 2], Type.f32)
    inner, parameters = loop(3, 1e9, join=False)
    then_result = ops.result(inner[0])
    ex = ops.parameter([1, 2], Type.f32)
    else_result = ops.result(ops.sqrt(ops.abs(ex)))
    node = ops.if_op(c.output(0))
    node.set_then_body(Model([then_result], parameters, "then"))
    node.set_else_body(Model([else_result], [ex], "else"))
    node.set_input(x.output(0), parameters[0], ex)
    node.set_input(c.output(0), parameters[1], None)
    out = node.set_output(then_result, else_result)
    for condition in (True, False):
        check([out], [c, x], [np.array(condition), normal(1, 2)])


def test_errors_name_the_layer_in_the_body() -> None:
    theirs = written(*conditional([2, 3], [2, 3]))
    broken = theirs[0].replace(b'external_port_id="2"', b'external_port_id="9"', 1)
    with pytest.raises(ir_runtime.ModelError, match="names input 9 of 3"):
        ir_runtime.read_model(broken, theirs[1])
