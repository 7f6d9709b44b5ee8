"""Files of other kinds in the place of an IR, files that change, and files that tensors are views of."""

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
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from ir_runtime import Tensor
from ir_runtime.files.file_kinds import kind_of_bytes
from ir_runtime.graph import tensor as tensor_module
from ir_runtime.graph.element_types import f32, u4
from ir_runtime.graph.mapped_file import CAN_READ_APART, FileSpan, MappedFile, forget_pages
from tests.commands import PEAK, onnx2ir, two_inputs
from tests.converter.optimization.models import parse
from tests.random_data import generator


class Trap:
    """Unpickled it would leave a trace."""

    def __reduce__(self) -> tuple:
        return Path.touch, (Path("sprung"),)


def made_by(write: Callable[[io.BytesIO], object]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def zipped(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, pickle.dumps(Trap()))
    return file.getvalue()


def torch_legacy() -> bytes:
    return b"".join(pickle.dumps(part, protocol=2) for part in (0x1950A86A20F9469CFC6C, 1001, Trap()))


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return len(header).to_bytes(8, "little") + header + b"\0" * 4


def field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2, len(payload)]) + payload


ROWS: list[tuple[str, Callable[[], bytes], str]] = [
    ("m.onnx.gz", lambda: gzip.compress(two_inputs().SerializeToString()), "a gzip archive: unpack it"),
    ("m.zip", lambda: zipped("model.onnx"), "a zip archive: unpack it"),
    ("m.tar", lambda: tarfile.TarInfo("model.onnx").tobuf(), "a tar archive: unpack it"),
    ("m.onnx", lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
     "a Git LFS pointer, not the file itself: run 'git lfs pull'"),
    ("m.pt", lambda: zipped("archive/data.pkl", "archive/version"), "a PyTorch file (a zip of pickles): export"),
    ("m.pth", torch_legacy, "a PyTorch file (pickled): export the model from PyTorch with torch.onnx.export"),
    ("m.pkl", lambda: pickle.dumps(Trap()), "a Python pickle, which is not opened"),
    ("m.safetensors", safetensors, "a safetensors file, which holds weights alone"),
    ("m.tflite", lambda: b"\x1c\0\0\0TFL3" + b"\0" * 40, "a TFLite model: convert it with tf2onnx"),
    ("m.ort", lambda: b"\x1c\0\0\0ORTM" + b"\0" * 40, "a model in onnxruntime's own format"),
    ("m.h5", lambda: b"\x89HDF\r\n\x1a\n" + b"\0" * 40, "an HDF5 file, such as Keras writes"),
    ("m.keras", lambda: zipped("metadata.json", "config.json", "model.weights.h5"), "a Keras file"),
    ("saved_model.pb", lambda: b"\x08\x01" + field(2, field(1, b"\x12\x05serve")), "a TensorFlow SavedModel"),
    ("frozen.pb", lambda: field(1, field(1, b"input") + field(2, b"Placeholder")), "a frozen TensorFlow graph"),
    ("m.gguf", lambda: b"GGUF\x03\0\0\0" + b"\0" * 40, "a GGUF file"),
    ("m.npz", lambda: made_by(lambda file: np.savez(file, a=np.zeros(3))), "an archive of NumPy arrays"),
    ("m.npy", lambda: made_by(lambda file: np.save(file, np.zeros(3))), "a NumPy array"),
    ("m.html", lambda: b"\n<!DOCTYPE html>\n<html><body>Sign in</body></html>", "an HTML page, not the file itself"),
    ("m.json", lambda: b'{"model": "x"}', "a JSON document"),
    ("m.txt", lambda: "Größe und so weiter\n".encode(), "plain text"),
    ("m.svg", lambda: b"<svg></svg>", "an XML document"),
    ("m.onnx.data", lambda: np.linspace(0, 1, 500, dtype=np.float32).tobytes(), "external data of an ONNX model"),
    ("empty.onnx", lambda: b"", "empty: the download or the export that made it has failed"),
    ("m.png", lambda: b"\x89PNG\r\n\x1a\n" + b"\0" * 20, "an image"),
    ("lib.so", lambda: b"\x7fELF" + b"\0" * 20, "a program or a library"),
]  # fmt: skip


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


def test_models_and_irs_are_told_from_each_other(tmp_path: Path) -> None:
    onnx.save(two_inputs(), tmp_path / "m.onnx")
    for model in (tmp_path / "m.onnx", (tmp_path / "m.onnx").read_bytes()):
        with pytest.raises(ir_runtime.ModelError, match="but an ONNX model: convert it first"):
            ir_runtime.read_model(model)
    xml, _ = ir_runtime.model_to_bytes(converter.convert_model(two_inputs()))
    with pytest.raises(converter.ConversionError, match="OpenVINO IR already: there is nothing to convert"):
        converter.convert_model(xml)


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

CONVERTED, READ = "converter.convert_model('m.onnx')", "ir_runtime.read_model('ir.xml')"
STEPS = {
    "save": (CONVERTED, "converter.save_model(m, 'out.xml')"),
    "save as FP16": (CONVERTED, "converter.save_model(m, 'out.xml', compress_to_fp16=True)"),
    "save in 8 bits": (CONVERTED, "converter.save_model(m, 'out.xml', compress='int8')"),
    "compile": (CONVERTED, "ir_runtime.compile_model(m)"),
    "run": (f"ir_runtime.compile_model({CONVERTED})", "m([x])"),
    "run plainly": (f"ir_runtime.compile_model({CONVERTED}, optimize=False)", "m([x])"),
    "pickle": (CONVERTED, "pickle.dumps(m)"),
    "read and compile": (READ, "ir_runtime.compile_model(m)"),
    "read and run": (f"ir_runtime.compile_model({READ})", "m([x])"),
    "read and write": (READ, "ir_runtime.write_model(m, 'o.xml')"),
    "read and reshape": (READ, "(m.reshape([1 << 20]), ir_runtime.compile_model(m))"),
    "verify": (READ, "converter.verify('other.onnx', m)"),
}


@pytest.fixture(scope="module")
def model() -> bytes:
    weights = np.arange(COUNT, dtype=np.float32)
    return parse("g (float[n] x) => (float[n] y) { y = Add (x, w) }", w=weights).SerializeToString()


@pytest.mark.parametrize("how", ["cut off", "emptied", "rewritten"])
@pytest.mark.parametrize("step", STEPS)
def test_a_file_changes_before_a_step(step: str, how: str, model: bytes, tmp_path: Path) -> None:
    for name in ("m.onnx", "other.onnx"):
        (tmp_path / name).write_bytes(model)
    converter.save_model(converter.convert_model(tmp_path / "m.onnx"), tmp_path / "ir.xml")
    made, action = STEPS[step]
    code = f"{PREPARE}\nm = {made}; attempt(lambda: {action})"
    command = [sys.executable, "-c", code, str(tmp_path), "ir.bin" if READ in made else "m.onnx", how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr or f"signal {-done.returncode}"
    assert done.stdout == "refused\n"


# --- tensors as views of files: bytes pass from file to file, and memory stays small ---


@pytest.fixture
def mapped(tmp_path: Path) -> MappedFile:
    (tmp_path / "data").write_bytes(generator(1).bytes(300_000))
    made = MappedFile.open(tmp_path / "data")
    assert made is not None
    return made


@pytest.mark.parametrize("part", [slice(0, 300_000), slice(64, 200_001), slice(5, 90), slice(299_999, 300_000)])
def test_bytes_pass_from_file_to_file(mapped: MappedFile, tmp_path: Path, part: slice) -> None:
    span = FileSpan.of(mapped.bytes()[part])
    assert span is not None
    assert (span.offset, span.size) == (part.start, part.stop - part.start)
    with open(tmp_path / "copy", "wb") as file:
        file.write(b"before")
        span.copy_to(file, 6)
        file.write(b"behind")
    wanted = (tmp_path / "data").read_bytes()[part]
    assert (tmp_path / "copy").read_bytes() == b"before" + wanted + b"behind"
    memory = io.BytesIO()
    memory.write(b"12")
    span.copy_to(memory, 2)
    assert memory.getvalue() == b"12" + wanted


def test_arrays_that_are_no_views_of_a_file_have_no_place_in_one(mapped: MappedFile) -> None:
    assert FileSpan.of(np.zeros(4, np.uint8)) is None
    assert FileSpan.of(mapped.bytes()[::2]) is None
    assert FileSpan.of(mapped.bytes().copy()) is None


@pytest.mark.parametrize("shape", [(5, 7), (300, 1000), (1,)])
def test_equal_data_looks_the_same_however_it_is_stored(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = generator(2).random(shape, np.float32)
    (tmp_path / "w").write_bytes(values.tobytes())
    mapped = MappedFile.open(tmp_path / "w")
    assert mapped is not None
    stored = Tensor.from_packed(mapped.bytes(), f32, shape)
    turned = Tensor.from_array(np.asfortranarray(values))
    assert stored.sample() == Tensor.from_array(values).sample() == turned.sample()
    assert np.concatenate(list(stored.parts())).tolist() == values.reshape(-1).tolist()
    other = values.copy()
    other.reshape(-1)[0] += 1
    assert Tensor.from_array(other).sample() != stored.sample()


def test_packed_types_are_not_sampled() -> None:
    packed = Tensor.from_packed(np.array([0x21, 0x43], np.uint8), u4, (4,))
    assert packed.sample() == Tensor.from_array(np.array([1, 2, 3, 4]).astype(u4.dtype), u4).sample()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.bool_])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((37, 21), (1, 0)), ((1, 37, 21), (0, 2, 1)), ((300, 1), (1, 0)), ((5, 37, 21), (0, 2, 1)),
        ((5, 37, 21), (2, 1, 0)), ((0, 7), (1, 0)), ((), ()),
    ],
)  # fmt: skip
@pytest.mark.parametrize("chunk", [1, 500, 1 << 22])
def test_arrays_with_strides_are_read_in_the_order_of_their_elements(
    mapped: MappedFile, dtype: type, shape: Any, axes: Any, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_CHUNK_BYTES", "_COPIED_BYTES", "_MAX_READ_BYTES", "_MAX_STRIP_BYTES"):
        monkeypatch.setattr(tensor_module, name, chunk)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    whole = np.frombuffer(mapped, np.uint8)[:size].view(dtype).reshape(shape).transpose(axes)
    for array in (whole, whole[::-1]) if shape else (whole,):
        wanted = array.tobytes()
        tensor = Tensor.from_array(array)
        assert b"".join(tensor.chunks()) == wanted
        assert b"".join(part.tobytes() for part in tensor.parts()) == wanted
        file = io.BytesIO()
        tensor.write_to(file, 3)
        assert file.getvalue() == wanted
        assert b"".join(tensor.chunks()) == wanted, "pages that were given back are read again"


@pytest.mark.skipif(not CAN_READ_APART, reason="memory is bounded where files can be read apart")
@pytest.mark.parametrize("half", [False, True], ids=["float32", "float16"])
def test_weights_of_any_size_pass_through_little_memory(tmp_path: Path, half: bool) -> None:
    weights = {f"w{i}": np.full((1024, 4096 + i), i, np.float32) for i in range(6)}
    outputs = ", ".join(f"float[1,n{i}] y{i}" for i in range(6))
    products = " ".join(f"y{i} = MatMul (x, w{i})" for i in range(6))
    onnx.save(parse(f"g (float[1,1024] x) => ({outputs}) {{ {products} }}", **weights), tmp_path / "m.onnx")
    script = f"""{PEAK}
import sys, converter, ir_runtime.files.xml_writer
from converter.conversion.convert import convert, compressed
before = peak()
converter.save_model(converter.convert_model(sys.argv[1]), sys.argv[2], compress_to_fp16={half})
print((peak() - before) / 1024)
"""
    command = [sys.executable, "-c", script, tmp_path / "m.onnx", tmp_path / "m.xml"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    assert (tmp_path / "m.bin").stat().st_size > 96e6 / (1 + half)
    assert float(done.stdout) < 40, f"{done.stdout} MiB for 96 MiB of weights"


_MAX_OTHER_MIB = 45
"""The limit for modules, arrays between layers and pages around read bytes. A second copy of the weights exceeds it."""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory use from /proc")
def test_weights_are_held_once_by_a_compiled_model(tmp_path: Path) -> None:
    """What is packed for products is no longer held where the file is mapped, aligned there or not; tables never are."""
    r = generator(4)
    weights = {name: r.standard_normal((2048, 2048)).astype(np.float32) for name in "abc"}
    table = r.standard_normal((9000, 2048)).astype(np.float32)
    layers = "x0 = Gather (table, places) x1 = MatMul (x0, a) x2 = MatMul (x1, b) x3 = MatMul (x2, c)"
    model = parse(f"g (int64[7] places) => (float[7,2048] x3) {{ {layers} }}", **weights, table=table)
    onnx.save(model, tmp_path / "m.onnx")
    converted = converter.convert_model(tmp_path / "m.onnx")
    converter.save_model(converted, tmp_path / "m.xml")
    converter.save_model(converted, tmp_path / "half.xml", compress_to_fp16=True)
    packed = sum(value.nbytes for value in weights.values()) >> 20
    read = {
        "m.xml": ("ir_runtime.compile_model(ir_runtime.read_model(path))", packed),
        "m.onnx": ("ir_runtime.compile_model(converter.convert_model(path))", packed),
        # What is stored in 16 bits is worked out, the table, too.
        "half.xml": ("ir_runtime.compile_model(ir_runtime.read_model(path))", packed + (table.nbytes >> 20)),
    }
    for name, (text, held) in read.items():
        script = f"""
import sys, pathlib, numpy, converter, ir_runtime
path = {str(tmp_path / name)!r}
def status(key):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) >> 10 for line in lines if line.startswith(key))
before = status("VmRSS")
compiled = {text}
for _ in range(2):
    result = compiled([numpy.arange(7) * 1200 - 7])
print(status("VmRSS") - before, status("VmHWM") - before)
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        now, peak = map(int, done.stdout.split())
        # At its peak one matrix is being packed.
        assert held <= now <= held + _MAX_OTHER_MIB, (name, now, held)
        assert peak <= held + _MAX_OTHER_MIB + 16, (name, peak, held)


def test_pages_that_were_given_back_are_there_again(mapped: MappedFile) -> None:
    wanted = bytes(mapped.bytes())
    for part in (mapped.bytes(), mapped.bytes()[9:], mapped.bytes()[100_000:1000:-1], mapped.bytes()[:0]):
        forget_pages(part)
        assert bytes(mapped.bytes()) == wanted
    forget_pages(np.zeros(4))
