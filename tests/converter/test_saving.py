"""Files that are written: complete or as they were, whatever happens, by how many threads; refusals name the path."""

from __future__ import annotations

import errno
import itertools
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.folders.tokenizers import Tokenizers
from converter.stages import watched
from ir_runtime import ModelError, threads
from ir_runtime.errors import FileError
from ir_runtime.files import whole_files
from ir_runtime.files.weights import WeightsLayout
from ir_runtime.files.whole_files import whole_folder
from ir_runtime.graph import Tensor
from tests.converter.equivalence.models import in_a_row
from tests.converter.optimization.models import floats, parse
from tests.converter.pipelines.images import write_diffusion_folder

MB = 4


def model(value: float) -> onnx.ModelProto:
    """y = x + weights of some MB, all of them ``value``."""
    count = MB << 18
    text = f"of_{value:g} (float[{count}] x) => (float[{count}] y) {{ y = Add (x, w) }}"
    return parse(text, w=np.full(count, value, np.float32))


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "converter", *map(str, arguments)]


def holds(folder: Path) -> str:
    """Which pair there is: the whole of one, or nothing. Fails for anything between."""
    xml, weights = folder / "m.xml", folder / "m.bin"
    if not xml.exists():
        return "nothing"
    found = ir_runtime.read_model(xml)
    data = np.frombuffer(weights.read_bytes(), np.float32)
    assert data.size == MB << 18
    assert found.name == f"of_{float(data[0]):g}"
    assert (data == data[0]).all()
    return found.name


def old_and_new(folder: Path) -> None:
    """Two models, and the pair of the old one."""
    for number, name in ((1, "old"), (2, "new")):
        onnx.save(model(number), folder / f"{name}.onnx")
    converter.save_model(converter.convert_model(folder / "old.onnx"), folder / "m.xml")


@pytest.mark.parametrize("count", [12, pytest.param(200, marks=pytest.mark.weekly)])
def test_kills_leave_a_whole_pair_or_nothing(count: int, tmp_path: Path) -> None:
    words, rng, outcomes = command("convert", tmp_path / "new.onnx", "-o", tmp_path / "m.xml"), random.Random(4), set()
    old_and_new(tmp_path)
    begin = time.monotonic()
    subprocess.run(words, check=True, capture_output=True)
    longest = (time.monotonic() - begin) * 1.1
    for _ in range(count):
        converter.save_model(converter.convert_model(tmp_path / "old.onnx"), tmp_path / "m.xml")
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0, longest))
        process.kill()
        process.wait()
        outcomes.add(holds(tmp_path))
    assert outcomes <= {"of_1", "of_2", "nothing"}
    assert count < 200 or {"of_1", "of_2"} <= outcomes


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("weights.WeightsLayout.write = die", "of_1"), ("os.fsync = die", "of_1"), ("os.replace = die", "nothing"),
        ("os.replace = die_later", "nothing"), ("whole_files._sync_folder = die", "of_2"),
    ],
)  # fmt: skip
def test_a_kill_at_each_step_of_writing(step: str, expected: str, tmp_path: Path) -> None:
    """The steps one by one, which kills at random moments seldom meet."""
    old_and_new(tmp_path)
    code = f"""
import os, converter
from ir_runtime.files import weights, whole_files
model = converter.convert_model({str(tmp_path / "new.onnx")!r})
replace = os.replace
def die(*_, **__): os.kill(os.getpid(), 9)
def die_later(*names):
    replace(*names)
    os.replace = die
{step}
converter.save_model(model, {str(tmp_path / "m.xml")!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert holds(tmp_path) == expected


def test_two_conversions_to_one_name_leave_one_pair(tmp_path: Path) -> None:
    """The second one begins and would end between the two renames of the first one."""
    old_and_new(tmp_path)
    code = """
import os, sys, time, converter
os.chdir(sys.argv[1])
model = converter.convert_model(sys.argv[2] + ".onnx")
replace = os.replace
def slowly(*names):
    replace(*names)
    if not os.path.exists("between"):
        open("between", "w").close()
        time.sleep(3)
if sys.argv[2] == "old":
    os.replace = slowly
while sys.argv[2] == "new" and not os.path.exists("between"):
    time.sleep(0.01)
converter.save_model(model, "m.xml")
"""
    both = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in ("old", "new")]
    assert [process.wait() for process in both] == [0, 0]
    assert holds(tmp_path) == "of_2"
    assert not list(tmp_path.glob(".*.part"))


def limit() -> None:
    """Let this process write no more than 1 MiB into a file."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def test_a_full_disk_names_the_file_and_leaves_the_old_pair(tmp_path: Path) -> None:
    old_and_new(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    for words, name in ((["convert", tmp_path / "new.onnx", "-o", tmp_path / "m.xml"], "m.bin"),
                        (["run", tmp_path / "m.xml", "-o", tmp_path / "y.npz"], "y.npz")):  # fmt: skip
        done = subprocess.run(command(*words), capture_output=True, text=True, preexec_fn=limit, check=False)
        assert done.returncode == 1
        assert f"error: '{tmp_path / name}' cannot be written: {os.strerror(errno.EFBIG)}" in done.stderr
        assert holds(tmp_path) == "of_1"
        assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize(("name", "error"), [
    ("x" * 300 + ".xml", errno.ENAMETOOLONG), ("none/m.xml", errno.ENOENT), ("file/m.xml", errno.ENOTDIR),
    ("/proc/m.xml", 0), pytest.param("closed/m.xml", errno.EACCES, marks=pytest.mark.skipif(os.geteuid() == 0,
     reason="root may")),
    ("x" * 251 + ".xml", None),  # what is written first, beside the file, is not longer than it
])  # fmt: skip
def test_places_that_cannot_be_written(name: str, error: int | None, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "closed").mkdir(0o500)
    if error is None:
        converter.save_model(ir_runtime.Model(), tmp_path / name)
        assert len(list(tmp_path.iterdir())) == 4
        return
    with pytest.raises(FileError, match="cannot be written") as caught:
        converter.save_model(ir_runtime.Model(), tmp_path / name)
    assert issubclass(FileError, OSError)
    assert issubclass(FileError, ModelError)
    assert caught.value.errno
    assert not error or os.strerror(error) in str(caught.value)


# --- by several threads: the same files, errors and progress as by one ---


@pytest.fixture
def many_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything counts as large, and there are processors."""
    if getattr(request, "param", True):
        monkeypatch.setattr(threads, "LARGE", 0)
        monkeypatch.setattr(threads, "processors", lambda: 3)


by_one_and_by_several = pytest.mark.parametrize("many_threads", [False, True], indirect=True)


@pytest.fixture
def products(tmp_path: Path) -> Path:
    """Products whose weights are transposed when they are written, one of them twice, and a table."""
    weights = {f"w{at}": floats(96, 96, seed=at % 7) for at in range(8)}
    nodes = f"first = Gather (table, places) {in_a_row(8, 'x{n} = MatMul ({x}, w{n})', 'x', 'first')}"
    model = parse(f"products (int64[3] places) => (x7) {{ {nodes} }}", **weights, table=floats(50, 96))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="data", size_threshold=0)
    return tmp_path / "m.onnx"


def _files(path: Path, **saving: Any) -> list[bytes]:
    """The IR, or what of it is written as ONNX with external data."""
    model, names = converter.convert_model(path), ("m.xml", "m.bin")
    if "external_data" in saving:
        names = ("again.onnx", "again.onnx.data")
        converter.save_onnx(model, path.with_name(names[0]), **saving)
    else:
        converter.save_model(model, path.with_name(names[0]), **saving)
    return [path.with_name(name).read_bytes() for name in names]


@pytest.mark.parametrize(
    "saving",
    [
        {}, {"compress_to_fp16": True}, {"compress": "int8"}, {"compress": "int4", "group_size": 32},
        {"external_data": True},
    ],
)  # fmt: skip
def test_threads_write_the_files_of_one(
    saving: dict[str, Any], products: Path, monkeypatch: pytest.MonkeyPatch, many_threads: None
) -> None:
    writers, original = set(), Tensor.write_to

    def write_to(self: Tensor, *arguments: Any) -> None:
        writers.add(threading.current_thread())
        time.sleep(0.01)  # so that no thread takes all weights before another begins
        original(self, *arguments)

    monkeypatch.setattr(Tensor, "write_to", write_to)
    by_several = _files(products, **saving)
    assert len(writers) > 1
    writers.clear()
    monkeypatch.setattr(threads, "LARGE", 1 << 40)
    assert _files(products, **saving) == by_several
    assert len(writers) == 1
    assert "external_data" not in saving or len(by_several[1]) > 7 * 96 * 96 * 4, "equal weights are one"


def test_an_error_of_a_thread_names_the_file_and_leaves_the_old_pair(products: Path, many_threads: None) -> None:
    _files(products)
    model, data = converter.convert_model(products), products.with_name("data")
    data.write_bytes(data.read_bytes()[:5000])
    before = contents(products.parent)
    with pytest.raises(ModelError, match=r"data' has (changed|lost)"):
        converter.save_model(model, products.with_suffix(".xml"))
    assert contents(products.parent) == before


def test_results_come_in_order_and_errors_in_their_place(many_threads: None) -> None:
    both = threading.Barrier(2, timeout=10)
    begun = []

    def work(number: int) -> int:
        begun.append(number)
        if number < 2:
            both.wait()  # passes if two threads work at a time
        if number == 3:
            raise ValueError("three")
        time.sleep(0.05 / (number + 1))
        return number

    results = threads.map_in_order(work, range(100), byte_count=1)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)
    assert len(begun) < 100, "what no thread has begun is left out"


@by_one_and_by_several
def test_progress_rises_to_the_whole(products: Path, many_threads: None) -> None:
    shown: list[tuple[str, float]] = []
    with watched(lambda task, share: shown.append((task, share))):
        _files(products, compress="int8")
    for task in ("Compressing weights", "Writing m.xml"):
        shares = [share for name, share in shown if name == task]
        assert shares == sorted(shares)
        assert len(shares) > 8
        assert shares[-1] == 1


@by_one_and_by_several
def test_an_interruption_stops_the_threads_and_leaves_nothing(
    products: Path, monkeypatch: pytest.MonkeyPatch, many_threads: None
) -> None:
    model = converter.convert_model(products)
    written, original = [], Tensor.write_to

    def write_to(self: Tensor, *arguments: Any) -> None:
        time.sleep(0.05)
        original(self, *arguments)
        written.append(self)

    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Tensor, "write_to", write_to)
    monkeypatch.setattr(whole_files, "_sync_data", interrupt)
    with pytest.raises(KeyboardInterrupt):
        converter.save_model(model, products.with_suffix(".xml"))
    assert len(written) < 3
    assert {path.name for path in products.parent.iterdir()} == {"m.onnx", "data"}


# --- output folders get all files of a pipeline, or stay as they were ---

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diffusion") / "onnx"
    write_diffusion_folder(folder, "sd")
    return folder


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def write_old_files(folder: Path) -> None:
    (folder / "unet").mkdir(parents=True)
    for name in ("unet/openvino_model.xml", "unet/openvino_model.bin", "model_index.json", "notes.txt"):
        (folder / name).write_text(f"old {name}")


FAILING = {
    "weights": (WeightsLayout, "write", 4),
    "copies": (shutil, "copyfile", 2),
    # Eight renames write the parts, three move old files aside, and those after these move new ones.
    "renames": (os, "replace", 14),
}


@pytest.mark.parametrize("has_old", [False, True])
@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["disk full", "interrupted"])
@pytest.mark.parametrize("fails", FAILING)
def test_a_failure_leaves_the_folder_as_it_was(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, error: BaseException, has_old: bool
) -> None:
    owner, name, count = FAILING[fails]
    function, calls = getattr(owner, name), itertools.count(1)

    def call(*arguments: Any, **keywords: Any) -> Any:
        if next(calls) == count:
            raise error
        return function(*arguments, **keywords)

    if has_old:
        write_old_files(tmp_path / "out")
    before = contents(tmp_path)
    monkeypatch.setattr(owner, name, call)
    with pytest.raises(FileError if error is FULL else KeyboardInterrupt) as caught:
        converter.convert_folder(source, tmp_path / "out/")
    assert contents(tmp_path) == before
    if error is FULL:
        assert ".part" not in str(caught.value)
        assert caught.value.errno == errno.ENOSPC
        assert str(tmp_path / "out") in str(caught.value)
        assert fails != "weights" or str(tmp_path / "out/vae_encoder/openvino_model.bin") in str(caught.value)


def test_files_are_replaced(source: Path, tmp_path: Path) -> None:
    write_old_files(tmp_path / "out")
    written = converter.convert_folder(source, tmp_path / "out")
    assert not list((tmp_path / "out").glob(".*"))
    old = {path for path in (tmp_path / "out").rglob("*.*") if path.is_file() and path.read_bytes().startswith(b"old")}
    assert old == {tmp_path / "out/notes.txt"}
    assert {*written.models, *written.files} >= {
        tmp_path / "out/unet/openvino_model.xml",
        tmp_path / "out/model_index.json",
    }


def test_a_folder_in_the_place_of_a_file(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out/model_index.json").mkdir(parents=True)
    before = contents(tmp_path)
    with pytest.raises(FileError, match=r"model_index\.json' exists and is not a regular file"):
        converter.convert_folder(source, tmp_path / "out")
    assert contents(tmp_path) == before


def test_the_command_for_tokenizers_names_the_output(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(source: Path, target: Path, *, pads_left: bool) -> Tokenizers:
        return Tokenizers(False, "not installed", f"convert_tokenizer {source} -o {target}")

    monkeypatch.setattr("converter.folders.convert.write_tokenizers", write)
    (tokenizers,) = converter.convert_folder(source, tmp_path / "out").tokenizers
    assert tokenizers.command.endswith(f" -o {tmp_path / 'out/tokenizer'}")


def test_old_files_that_cannot_be_moved_back_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("old")
    replace = os.replace

    def refuse(*_: Any) -> None:
        raise FULL

    def move_once(*names: Any) -> None:
        monkeypatch.setattr(os, "replace", refuse)
        replace(*names)

    monkeypatch.setattr(os, "replace", move_once)
    with pytest.raises(FileError), whole_folder(tmp_path) as folder:
        (folder / "file").write_text("new")
    assert [path.read_text() for path in tmp_path.rglob("*") if path.is_file()] == ["old"]
