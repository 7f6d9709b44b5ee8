"""Files of other kinds in the place of an IR, and files that change while they are read."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from ir_runtime.files.file_kinds import kind_of_bytes
from tests.commands import onnx2ir, two_inputs
from tests.converter.optimization.models import parse


class Trap:
    """Unpickled it would leave a trace."""

    def __reduce__(self) -> tuple:
        return Path.touch, (Path("sprung"),)


def zipped(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, pickle.dumps(Trap()))
    return file.getvalue()


def torch_legacy() -> bytes:
    return b"".join(pickle.dumps(part, protocol=2) for part in (0x1950A86A20F9469CFC6C, 1001, Trap()))


def npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, a=np.zeros(3))
    return file.getvalue()


def npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


def tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("model.onnx"))
    return file.getvalue()


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return len(header).to_bytes(8, "little") + header + b"\0" * 4


def field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2, len(payload)]) + payload


def tensorflow_graph() -> bytes:
    return field(1, field(1, b"input") + field(2, b"Placeholder"))


ROWS: list[tuple[str, Callable[[], bytes], str]] = [
    ("m.onnx.gz", lambda: gzip.compress(two_inputs().SerializeToString()), "a gzip archive: unpack it"),
    ("m.zip", lambda: zipped("model.onnx"), "a zip archive: unpack it"),
    ("m.tar", tar, "a tar archive: unpack it"),
    (
        "m.onnx",
        lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
        "a Git LFS pointer, not the file itself: run 'git lfs pull'",
    ),
    ("m.pt", lambda: zipped("archive/data.pkl", "archive/version"), "a PyTorch file (a zip of pickles): export"),
    ("m.pth", torch_legacy, "a PyTorch file (pickled): export the model from PyTorch with torch.onnx.export"),
    ("m.pkl", lambda: pickle.dumps(Trap()), "a Python pickle, which is not opened"),
    ("m.safetensors", safetensors, "a safetensors file, which holds weights alone"),
    ("m.tflite", lambda: b"\x1c\0\0\0TFL3" + b"\0" * 40, "a TFLite model: convert it with tf2onnx"),
    ("m.ort", lambda: b"\x1c\0\0\0ORTM" + b"\0" * 40, "a model in onnxruntime's own format"),
    ("m.h5", lambda: b"\x89HDF\r\n\x1a\n" + b"\0" * 40, "an HDF5 file, such as Keras writes"),
    ("m.keras", lambda: zipped("metadata.json", "config.json", "model.weights.h5"), "a Keras file"),
    ("saved_model.pb", lambda: b"\x08\x01" + field(2, field(1, b"\x12\x05serve")), "a TensorFlow SavedModel"),
    ("frozen.pb", tensorflow_graph, "a frozen TensorFlow graph"),
    ("m.gguf", lambda: b"GGUF\x03\0\0\0" + b"\0" * 40, "a GGUF file"),
    ("m.npz", npz, "an archive of NumPy arrays"),
    ("m.npy", npy, "a NumPy array"),
    ("m.html", lambda: b"\n<!DOCTYPE html>\n<html><body>Sign in</body></html>", "an HTML page, not the file itself"),
    ("m.json", lambda: b'{"model": "x"}', "a JSON document"),
    ("m.txt", lambda: "Größe und so weiter\n".encode(), "plain text"),
    ("m.svg", lambda: b"<svg></svg>", "an XML document"),
    ("m.onnx.data", lambda: np.linspace(0, 1, 500, dtype=np.float32).tobytes(), "external data of an ONNX model"),
    ("empty.onnx", lambda: b"", "empty: the download or the export that made it has failed"),
    ("m.png", lambda: b"\x89PNG\r\n\x1a\n" + b"\0" * 20, "an image"),
    ("lib.so", lambda: b"\x7fELF" + b"\0" * 20, "a program or a library"),
]


@pytest.mark.parametrize(("name", "content", "message"), ROWS, ids=[row[0] for row in ROWS])
def test_other_files_in_the_place_of_either(
    name: str, content: Callable[[], bytes], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    path.write_bytes(content())
    with pytest.raises(converter.ConversionError) as refused:
        converter.convert_model(path)
    assert message in str(refused.value)
    if name != "m.svg":
        with pytest.raises(ir_runtime.ModelError) as refused_ir:
            ir_runtime.read_model(path)
        assert message in str(refused_ir.value)
    for command in ("convert", "inspect", "run", "ops") if name != "m.svg" else ("convert", "inspect"):
        code, _, messages = onnx2ir(command, name)
        assert code == 1
        assert message in messages
        assert messages.count("\n") <= 2
    assert [found.name for found in tmp_path.iterdir()] == [name]


def test_models_and_irs_are_told_from_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(two_inputs(), tmp_path / "m.onnx")
    assert onnx2ir("convert", "m.onnx")[0] == 0
    assert "m.xml is an IR itself: -o PATH says where to write the new one" in onnx2ir("convert", "m.xml")[2]
    assert "m.onnx is not OpenVINO IR, but an ONNX model: convert it first" in onnx2ir("run", "m.onnx")[2]
    with pytest.raises(ir_runtime.ModelError, match="but an ONNX model: convert it first"):
        ir_runtime.read_model(tmp_path / "m.onnx")
    with pytest.raises(ir_runtime.ModelError, match="but an ONNX model: convert it first"):
        ir_runtime.read_model((tmp_path / "m.onnx").read_bytes())
    with pytest.raises(converter.ConversionError, match="OpenVINO IR already: there is nothing to convert"):
        converter.convert_model((tmp_path / "m.xml").read_bytes())
    (tmp_path / "w.bin").write_bytes(bytes(range(256)))
    (tmp_path / "w.xml").write_text("<net/>")
    assert "the weights of an IR, it seems: give w.xml" in onnx2ir("convert", "w.bin", "-o", "x")[2]


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"")
    onnx.save(two_inputs(), tmp_path / "m.onnx")
    assert "saved is not an ONNX model, but a TensorFlow SavedModel" in onnx2ir("convert", "saved")[2]
    for command in ("convert", "inspect", "run"):
        assert "give a file in it: m.onnx" in onnx2ir(command, ".")[2]


def test_every_onnx_file_counts_as_one() -> None:
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    known = [kind_of_bytes(path.read_bytes()[:4096]) for path in sorted(folder.rglob("*.onnx"))]
    assert len(known) > 20
    assert {kind.description for kind in known if kind is not None} == {"an ONNX model"}


COUNT = 1 << 20

PREPARE = """
import os, sys, pickle, copy, numpy as np, converter, ir_runtime
folder, file, how = sys.argv[1:4]
os.chdir(folder)
x = np.ones(1 << 20, np.float32)

def change():
    if how == "cut off": os.truncate(file, 100)
    elif how == "emptied": open(file, "w").close()
    elif how == "rewritten":
        size = os.path.getsize(file)
        with open(file, "r+b") as f: f.write(b"x" * 10)
        os.utime(file, ns=(1, 1))

def attempt(function):
    change()
    try:
        function()
    except (converter.ConversionError, ir_runtime.ModelError) as error:
        assert "has changed" in str(error), error
        print("refused")
"""

STEPS = {
    "save": "m = converter.convert_model('m.onnx'); attempt(lambda: converter.save_model(m, 'out.xml'))",
    "save as FP16": "m = converter.convert_model('m.onnx'); "
    "attempt(lambda: converter.save_model(m, 'out.xml', compress_to_fp16=True))",
    "save in 8 bits": "m = converter.convert_model('m.onnx'); "
    "attempt(lambda: converter.save_model(m, 'out.xml', compress='int8'))",
    "compile": "m = converter.convert_model('m.onnx'); attempt(lambda: ir_runtime.compile_model(m))",
    "run": "c = ir_runtime.compile_model(converter.convert_model('m.onnx')); attempt(lambda: c([x]))",
    "run plainly": "c = ir_runtime.compile_model(converter.convert_model('m.onnx'), optimize=False); "
    "attempt(lambda: c([x]))",
    "pickle": "m = converter.convert_model('m.onnx'); attempt(lambda: pickle.dumps(m))",
    "read and compile": "m = ir_runtime.read_model('ir.xml'); attempt(lambda: ir_runtime.compile_model(m))",
    "read and run": "c = ir_runtime.compile_model(ir_runtime.read_model('ir.xml')); attempt(lambda: c([x]))",
    "read and write": "m = ir_runtime.read_model('ir.xml'); attempt(lambda: ir_runtime.write_model(m, 'o.xml'))",
    "read and reshape": "m = ir_runtime.read_model('ir.xml'); "
    "attempt(lambda: (m.reshape([1 << 20]), ir_runtime.compile_model(m)))",
    "verify": "m = ir_runtime.read_model('ir.xml'); attempt(lambda: converter.verify('other.onnx', m))",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    folder = tmp_path_factory.mktemp("models")
    weights = np.arange(COUNT, dtype=np.float32)
    proto = parse("g (float[n] x) => (float[n] y) { y = Add (x, w) }", w=weights)
    return proto.SerializeToString(), folder


@pytest.mark.parametrize("how", ["cut off", "emptied", "rewritten"])
@pytest.mark.parametrize("step", STEPS)
def test_a_file_changes_before_a_step(step: str, how: str, models: tuple[bytes, Path], tmp_path: Path) -> None:
    data = models[0]
    for name in ("m.onnx", "other.onnx"):
        (tmp_path / name).write_bytes(data)
    if "ir" in STEPS[step]:
        converter.save_model(converter.convert_model(tmp_path / "m.onnx"), tmp_path / "ir.xml")
    file = "ir.bin" if "ir.xml" in STEPS[step] else "m.onnx"
    command = [sys.executable, "-c", PREPARE + STEPS[step], str(tmp_path), file, how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr or f"signal {-done.returncode}"
    assert done.stdout == "refused\n"


def test_bytes_do_not_change(tmp_path: Path, models: tuple[bytes, Path]) -> None:
    (tmp_path / "m.onnx").write_bytes(models[0])
    model = converter.convert_model(tmp_path / "m.onnx", share_weights=False)
    (tmp_path / "m.onnx").write_bytes(b"")
    result = ir_runtime.compile_model(model)([np.ones(COUNT, np.float32)])[0]
    np.testing.assert_array_equal(result, np.arange(COUNT, dtype=np.float32) + 1)
