"""Files that ``optimize`` reads and writes: weights beside the model, whole files or none, and errors of bad input."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest

import converter
from converter import ConversionError, InvalidModelError
from ir_runtime.errors import FileError
from tests.optimization.models import assert_equal, floats, operators, parse, run

X = floats(2, 64)


def model(size: int = 64) -> onnx.ModelProto:
    text = """g (float[2,64] x, string[n] s) => (float[2,64] y, string[n] t) {
        a = MatMul(x, w)
        b = Identity(a)
        y = MatMul(b, v)
        t = Identity(s)
    }"""
    return parse(text, w=floats(64, size), v=floats(size, 64, seed=1))


def feeds() -> dict[str, np.ndarray]:
    return {"x": X, "s": np.array(["a"], object)}


@pytest.mark.parametrize("external", [True, False, None])
def test_weights_beside_the_model(external: bool | None, tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    result = converter.optimize(tmp_path / "m.onnx")
    files = result.save(tmp_path / "out.onnx", external_data=external)
    assert [path.name for path in files] == (["out.onnx", "out.onnx.data"] if external else ["out.onnx"])
    expected = run(str(tmp_path / "m.onnx"), feeds())
    for name, value in run(str(tmp_path / "out.onnx"), feeds()).items():
        assert_equal(value, expected[name])
    again = converter.optimize(tmp_path / "out.onnx")
    again.save(tmp_path / "again.onnx", external_data=external)
    assert (tmp_path / "again.onnx").stat().st_size == pytest.approx((tmp_path / "out.onnx").stat().st_size, abs=9)
    for name in ("", ".data") if external else ("",):
        if name:
            assert (tmp_path / f"again.onnx{name}").read_bytes() == (tmp_path / f"out.onnx{name}").read_bytes()


def test_weights_go_from_file_to_file(tmp_path: Path) -> None:
    """32 MB of weights take a fraction of that in memory."""
    onnx.save(model(65536), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    converter.optimize(model()).save(tmp_path / "warm.onnx", external_data=True)
    tracemalloc.start()
    try:
        converter.optimize(tmp_path / "m.onnx").save(tmp_path / "out.onnx", external_data=True)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "out.onnx.data").stat().st_size >= 1 << 25
    assert most < 1 << 23


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    result = converter.optimize(model())
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(FileError, match=r"folder\.onnx' exists and is not a regular file"):
        result.save(tmp_path / "folder.onnx")
    with pytest.raises(ConversionError, match=r"\.onnx"):
        result.save(tmp_path / "out.xml")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.onnx"]


def test_missing_weights_are_named(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(InvalidModelError, match=r"'w'.*'w\.bin' does not exist"):
        converter.optimize(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"no model at all", "not an ONNX model"),
        (onnx.ModelProto(ir_version=8).SerializeToString(), "no graph|not an ONNX model"),
    ],
)
def test_no_models(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidModelError, match=reason):
        converter.optimize(data)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"input": "nothing[1]"}, "nothing"),
        ({"input": "x[a,b,c]"}, "is not a dimension"),
        ({"target": "cpu"}, "target must be one of plain, onnxruntime"),
        ({"skip_passes": "nothing"}, "nothing"),
        ({"batch": 0}, "batch"),
        ({"compress": "int8"}, "compress"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_options_that_nothing_can_use(options: dict[str, object], reason: str) -> None:
    with pytest.raises((ConversionError, TypeError), match=reason):
        converter.optimize(model(), **options)


def test_a_model_that_contradicts_itself_is_named() -> None:
    for nodes in ("[n] y = Relu(nowhere)", "[n] nowhere = Relu(x)"):
        with pytest.raises(InvalidModelError, match=r"'nowhere'|'y'"):
            converter.optimize(parse(f"g (float[2,3] x) => (float[2,3] y) {{ {nodes} }}"))


def test_sparse_weights() -> None:
    values = onnx.numpy_helper.from_array(np.float32([1, 2]), "w")
    places = onnx.numpy_helper.from_array(np.array([0, 5]), "places")
    sparse = onnx.helper.make_sparse_tensor(values, places, [64])
    plain = parse("g (float[2,64] x) => (float[2,64] y) { i = Identity(x)  y = Add(i, w) }")
    plain.graph.sparse_initializer.append(sparse)
    result = converter.optimize(plain).to_onnx()
    assert operators(result.graph) == ["Add"]
    assert_equal(run(result, {"x": X})["y"], X + np.float32([1, *[0] * 4, 2, *[0] * 58]))
