"""Files that tensors are views of: their bytes pass from file to file, and memory stays small."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from ir_runtime.graph import tensor as tensor_module
from ir_runtime.graph.element_types import f32, u4
from ir_runtime.graph.mapped_file import CAN_READ_APART, FileSpan, MappedFile, forget_pages
from ir_runtime.graph.tensor import Tensor
from tests.converter.optimization.models import parse
from tests.engines import node_model
from tests.peak_memory import PEAK
from tests.random_data import generator


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


def test_bytes_pass_into_memory(mapped: MappedFile, tmp_path: Path) -> None:
    span = FileSpan.of(mapped.bytes())
    assert span is not None
    target = io.BytesIO()
    target.write(b"12")
    span.copy_to(target, 2)
    assert target.getvalue() == b"12" + (tmp_path / "data").read_bytes()


def test_arrays_that_are_no_views_of_a_file_have_no_place_in_one(mapped: MappedFile) -> None:
    assert FileSpan.of(np.zeros(4, np.uint8)) is None
    assert FileSpan.of(mapped.bytes()[::2]) is None
    assert FileSpan.of(mapped.bytes().copy()) is None


def test_a_file_that_has_changed_is_an_error(mapped: MappedFile, tmp_path: Path) -> None:
    tensor = Tensor.from_packed(mapped.bytes()[:4096], f32, (1024,))
    with open(tmp_path / "data", "r+b") as file:
        file.truncate(100)
    with pytest.raises(ir_runtime.ModelError, match=r"data' has changed since it was opened; read or convert it again"):
        list(tensor.chunks())


def test_a_model_that_changes_before_it_is_saved_is_an_error(tmp_path: Path) -> None:
    model = node_model(
        "MatMul", {"x": np.ones((2, 64), np.float32)}, opset=17, constants={"w": np.ones((64, 64), "f4")}
    )
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    made = converter.convert_model(path)
    os.truncate(path, 200)
    with pytest.raises(ir_runtime.ModelError, match="has changed since it was opened"):
        converter.save_model(made, tmp_path / "m.xml")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.onnx"]


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
        ((37, 21), (1, 0)),
        ((1, 37, 21), (0, 2, 1)),
        ((300, 1), (1, 0)),
        ((5, 37, 21), (0, 2, 1)),
        ((5, 37, 21), (2, 1, 0)),
        ((0, 7), (1, 0)),
        ((), ()),
    ],
)
@pytest.mark.parametrize("chunk", [1, 500, 1 << 22])
def test_arrays_with_strides_are_read_in_the_order_of_their_elements(
    mapped: MappedFile,
    dtype: type,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    chunk: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("_CHUNK_BYTES", "_COPIED_BYTES", "_MAX_READ_BYTES", "_MAX_STRIP_BYTES"):
        monkeypatch.setattr(tensor_module, name, chunk)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    for step in (1, -1):
        array = np.frombuffer(mapped, np.uint8)[:size].view(dtype).reshape(shape).transpose(axes)[::step or ...]             if shape else np.frombuffer(mapped, np.uint8)[:size].view(dtype).reshape(())  # fmt: skip
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
    outputs, products = (
        ", ".join(f"float[1,n{i}] y{i}" for i in range(6)),
        " ".join(f"y{i} = MatMul (x, w{i})" for i in range(6)),
    )
    onnx.save(parse(f"g (float[1,1024] x) => ({outputs}) {{ {products} }}", **weights), tmp_path / "m.onnx")
    script = (
        f"{PEAK}\nimport sys, converter\n"
        "from converter.conversion import convert, compressed\n"
        "import ir_runtime.files.xml_writer\n"
        "before = peak()\n"
        f"converter.save_model(converter.convert_model(sys.argv[1]), sys.argv[2], compress_to_fp16={half})\n"
        "print((peak() - before) / 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "m.onnx", tmp_path / "m.xml"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
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
