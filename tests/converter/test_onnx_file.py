"""Opening ONNX files: every kind of source, weights as views, external data kept inside the folder."""

from __future__ import annotations

import io
import os
import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from converter.onnx_file.reader import open_model
from converter.onnx_file.wire_format import skeleton

BIG = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)


def add_model(value: np.ndarray | TensorProto = BIG) -> onnx.ModelProto:
    tensor = value if isinstance(value, TensorProto) else numpy_helper.from_array(value, "w")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"], name="add")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [tensor],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


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
    assert len(file.proto.SerializeToString()) < 500
    array = file.tensor(file.proto.graph.initializer[0]).array()
    base: object = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    assert not isinstance(base, np.ndarray)  # the map itself, no array that owns a copy
    np.testing.assert_array_equal(array, BIG)


def test_the_skeleton_keeps_everything_else() -> None:
    model = add_model()
    model.metadata_props.add(key="k", value="v")
    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(BIG, "t"))], "inner", [], []
    )
    model.graph.node.append(helper.make_node("If", ["x"], ["z"], then_branch=inner, else_branch=inner))
    small = onnx.ModelProto.FromString(skeleton(model.SerializeToString()))
    for graph in (small.graph.node[1].attribute[0].g, model.graph.node[1].attribute[0].g):
        graph.node[0].attribute[0].t.ClearField("external_data")
        graph.node[0].attribute[0].t.ClearField("raw_data")
    for one in (small, model):
        one.graph.node[1].attribute[1].g.node[0].attribute[0].t.Clear()
        one.graph.initializer[0].ClearField("external_data")
        one.graph.initializer[0].ClearField("raw_data")
    assert small == model


@pytest.mark.parametrize("offset", [0, 64])
def test_external_data(tmp_path: Path, offset: int) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(b"\0" * offset + BIG.tobytes() + b"rest")
    model = external("data/w.bin", offset=offset, length=BIG.nbytes)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    np.testing.assert_array_equal(run(tmp_path / "m.onnx"), BIG)


def test_external_data_of_a_symlinked_model_as_in_a_hub_cache(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "aaa").write_bytes(external("m.onnx_data").SerializeToString())
    (blobs / "bbb").write_bytes(BIG.tobytes())
    os.symlink("../../blobs/aaa", snapshot / "m.onnx")
    os.symlink("../../blobs/bbb", snapshot / "m.onnx_data")
    np.testing.assert_array_equal(run(snapshot / "m.onnx"), BIG)


def test_external_data_beside_the_real_file_of_a_symlinked_model(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.mkdir()
    (real / "m.onnx").write_bytes(external("w.bin").SerializeToString())
    (real / "w.bin").write_bytes(BIG.tobytes())
    os.symlink(real / "m.onnx", link / "m.onnx")
    np.testing.assert_array_equal(run(link / "m.onnx"), BIG)


@pytest.mark.parametrize(
    ("location", "entries", "message"),
    [
        ("../secret.bin", {}, "may not lie at"),
        ("a/../../secret.bin", {}, "may not lie at"),
        ("/etc/passwd", {}, "may not lie at"),
        ("C:/secret.bin", {}, "may not lie at"),
        ("", {}, "may not lie at"),
        ("\0embedded", {}, "may not lie at"),
        ("none.bin", {}, "does not exist beside the model"),
        ("folder", {}, "is not a file"),
        ("out.bin", {}, "leads out of the model's folder"),
        ("w.bin", {"offset": 4}, "needs 16384 bytes of data, but there are 16380"),
        ("w.bin", {"offset": 4, "length": 16384}, "ends at byte 16388, but the file has 16384"),
        ("w.bin", {"offset": -4}, "the offset of its data must be a number"),
        ("w.bin", {"offset": 10**25}, "the offset of its data must be a number"),
        ("w.bin", {"length": 16}, "needs 16384 bytes of data, but there are 16"),
    ],
)
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
    ("change", "message"),
    [
        (lambda t: t.dims.append(2), "needs 32768 bytes of data, but there are 16384"),
        (
            lambda t: t.__setattr__("data_type", TensorProto.COMPLEX64),
            "the IR has no element type for ONNX's COMPLEX64",
        ),
        (lambda t: t.__setattr__("data_type", 99), "the IR has no element type for ONNX's 99"),
        (lambda t: t.dims.__setitem__(0, -64), "negative dimension"),
        (lambda t: t.dims.__setitem__(0, 2**62), "bytes of data, but there are"),
        (lambda t: (t.ClearField("raw_data"), t.float_data.extend([1, 2])), "needs 4096 values, but has 2"),
        (lambda t: t.ClearField("raw_data"), "needs 4096 values, but has 0"),
    ],
)
def test_tensors_that_contradict_themselves(change: object, message: str) -> None:
    model = add_model()
    change(model.graph.initializer[0])  # type: ignore[operator]
    with pytest.raises(converter.ConversionError, match="'w'") as caught:
        converter.convert_model(model)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"\0", b"not a model at all", b"PK\x03\x04" * 10, b"\x0a" * 1000, b"\xff" * 64]
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(converter.ConversionError):
        converter.convert_model(tmp_path / "m.onnx")


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(converter.ConversionError, match="cannot be read: No such file"):
        converter.convert_model(tmp_path / "none.onnx")
    with pytest.raises(converter.ConversionError):
        converter.convert_model(tmp_path)


def test_every_truncation_is_an_error_of_ours() -> None:
    data = add_model(np.arange(64, dtype=np.float32)).SerializeToString()
    for length in range(len(data)):
        with pytest.raises(converter.ConversionError):
            converter.convert_model(data[:length])


def test_random_damage_never_raises_anything_else() -> None:
    data = add_model(np.arange(64, dtype=np.float32)).SerializeToString()
    refused = 0
    for seed in range(1500):
        rng = random.Random(seed)
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            ir_runtime.model_to_bytes(converter.convert_model(bytes(damaged)))
        except (converter.ConversionError, ir_runtime.ModelError):
            refused += 1
    assert refused > 300
