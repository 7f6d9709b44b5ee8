"""Writing and reading the two files: round trips, names, determinism, all or nothing; bodies that OpenVINO wrote."""

from __future__ import annotations

import io
import mmap
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from ir_runtime import Output
from ir_runtime.graph import ElementType, InputMap, OutputMap, PartialShape, SubGraph, Tensor, element_types, make_node
from ir_runtime.graph.element_types import from_dtype, pack, unpack
from ir_runtime.operations.control_flow import TensorIterator1
from ir_runtime.operations.inputs_outputs import Const1, Parameter1, Result1
from tests.converter.optimization.models import parse
from tests.engines import assert_close, core, node_model, run_numpy, run_openvino, written
from tests.ir_runtime.execution.kernel_checks import Layers, model_of
from tests.rows.layer import Layer, layers, normal, one
from tests.rows.layers.types import OF_BODIES
from tests.rows.row import each
from tests.runtimes.layers import LayerWork


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


def halves(b: Layers, piece: Output, state: Output) -> Output:
    return b.Add(b.Multiply(state, 0.5), piece)


def iterated(part: int, backwards: bool) -> SubGraph:
    """A state to which parts of the first input are added, and its values joined."""
    ends = {"start": -1, "end": 0, "stride": -part} if backwards else {"start": 0, "end": -1, "stride": part}
    cut = {"axis": 1, "part_size": part, **ends}
    maps = (InputMap(0, 0, **cut), InputMap(1, 1)), (OutputMap(0, 0), OutputMap(1, 0, **cut))
    return SubGraph(model_of(halves, [np.zeros((2, part, 3), np.float32)] * 2), *maps, ((0, 1),))


def nested() -> tuple[SubGraph, ...]:
    """A TensorIterator within a branch of an If."""
    inputs = [np.zeros((2, length, 3), np.float32) for length in (6, 2)]
    branches = (lambda b, *x: b.emit(TensorIterator1(bodies=(iterated(2, False),)), *x), lambda b, x, y: b.Exp(y))
    return tuple(
        SubGraph(model_of(one, inputs), (InputMap(1, 0), InputMap(2, 1)), (OutputMap(0, 0),)) for one in branches
    )


PARTS, OPEN = (normal(2, 6, 3), normal(2, 2, 3)), {"dims": {0: [2, None, 3], 1: [2, 2, 3]}}
BODIES = [
    *(row for backwards in (False, True)
      for row in layers("TensorIterator", 1, *PARTS, bodies=(iterated(2, backwards),), note=f" {backwards}", **OPEN)),
    *layers("If", 8, one(each(True, False), np.bool_), *PARTS, bodies=nested(), note=" nested"),
]  # fmt: skip
"""What is not among the rows of layers, which run in OpenVINO by themselves."""


@pytest.mark.parametrize("row", [*BODIES, *OF_BODIES], ids=lambda row: row.label)
def test_bodies_that_openvino_writes(row: Layer) -> None:
    """What OpenVINO writes of our file is read here, and what is written of that is read here and in OpenVINO."""
    work = LayerWork(row)
    for ir in (work.ir, work.opened_ir):
        model = core().read_model(*filter(None, ir))
        theirs = written(model.outputs, model.get_parameters())
        ours = ir_runtime.model_to_bytes(ir_runtime.read_model(*theirs))
        assert len(core().read_model(*filter(None, ours)).outputs) == len(model.outputs)
        if row in BODIES:
            shapes = [PartialShape.parse(str(port.get_partial_shape())) for port in model.outputs]
            assert [port.shape for port in ir_runtime.read_model(*theirs).outputs] == shapes
        expected = run_openvino(theirs, work.feeds) if row in BODIES else work.expected
        for found in (theirs, ours):
            for value, want in zip(run_numpy(found, work.feeds), expected, strict=True):
                assert_close(value, want)


def test_errors_name_the_layer_in_the_body() -> None:
    xml, weights = LayerWork(BODIES[-1]).ir
    with pytest.raises(ir_runtime.ModelError, match="names input 9 of 3"):
        ir_runtime.read_model(xml.replace(b'external_port_id="2"', b'external_port_id="9"', 1), weights)
