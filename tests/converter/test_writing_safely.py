"""Files that are written: complete or as they were, whatever happens; what the disk refuses names the path."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime

MB = 4


def model(value: float) -> onnx.ModelProto:
    """y = x + weights of some MB, all of them ``value``."""
    count = MB << 18
    weights = [numpy_helper.from_array(np.full(count, value, np.float32), "w")]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [count]) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], f"of_{value:g}", ports[:1], ports[1:], weights
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


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


def killed(folder: Path, rng: random.Random, longest: float) -> str:
    process = subprocess.Popen(
        command("convert", folder / "new.onnx", "-o", folder / "m.xml"), stderr=subprocess.DEVNULL
    )
    time.sleep(rng.uniform(0, longest))
    process.send_signal(signal.SIGKILL)
    process.wait()
    return holds(folder)


def kills(folder: Path, count: int) -> set[str]:
    onnx.save(model(1), folder / "old.onnx")
    onnx.save(model(2), folder / "new.onnx")
    begin = time.monotonic()
    subprocess.run(command("convert", folder / "new.onnx", "-o", folder / "m.xml"), check=True, capture_output=True)
    longest = (time.monotonic() - begin) * 1.1
    rng = random.Random(4)
    outcomes = set()
    for _ in range(count):
        converter.save_model(converter.convert_model(folder / "old.onnx"), folder / "m.xml")
        outcomes.add(killed(folder, rng, longest))
    return outcomes


def test_kills_leave_a_whole_pair_or_nothing(tmp_path: Path) -> None:
    assert kills(tmp_path, 12) <= {"of_1", "of_2", "nothing"}


@pytest.mark.weekly
def test_200_kills_leave_a_whole_pair_or_nothing(tmp_path: Path) -> None:
    outcomes = kills(tmp_path, 200)
    assert {"of_1", "of_2"} <= outcomes <= {"of_1", "of_2", "nothing"}


@pytest.mark.parametrize("between", ["weights", "sync", "before the first rename", "before the second", "after"])
def test_a_kill_at_each_step_of_writing(between: str, tmp_path: Path) -> None:
    """The steps one by one, which kills at random moments seldom meet."""
    onnx.save(model(1), tmp_path / "old.onnx")
    onnx.save(model(2), tmp_path / "new.onnx")
    converter.save_model(converter.convert_model(tmp_path / "old.onnx"), tmp_path / "m.xml")
    code = f"""
import os, converter
import ir_runtime.files.whole_files as writer
import ir_runtime.files.weights as weights
model = converter.convert_model({str(tmp_path / "new.onnx")!r})
step = {between!r}
calls = []
def die(*_, **__): os.kill(os.getpid(), 9)
replace = os.replace
def replacing(*arguments):
    if len(calls) == (step == "before the second"): die()
    calls.append(1)
    replace(*arguments)
if step == "weights": weights.WeightsLayout.write = die
if step == "sync": os.fsync = die
if step.startswith("before"): os.replace = replacing
if step == "after": writer._sync_folder = die
converter.save_model(model, {str(tmp_path / "m.xml")!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    expected = {"weights": "of_1", "sync": "of_1", "after": "of_2"}.get(between, "nothing")
    assert holds(tmp_path) == expected


def test_two_conversions_to_one_name_leave_one_pair(tmp_path: Path) -> None:
    """The second one begins and would end between the two renames of the first one."""
    for number in (1, 2):
        onnx.save(model(number), tmp_path / f"{number}.onnx")
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
if sys.argv[2] == "1":
    os.replace = slowly
while sys.argv[2] == "2" and not os.path.exists("between"):
    time.sleep(0.01)
converter.save_model(model, "m.xml")
"""
    both = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(number)]) for number in (1, 2)]
    assert [process.wait() for process in both] == [0, 0]
    assert holds(tmp_path) == "of_2"
    assert not list(tmp_path.glob(".*.part"))


def limited(bytes_: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))


def run_limited(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command in a process that can write no more than 1 MiB into a file."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, preexec_fn=lambda: limited(1 << 20), check=False
    )


def test_a_full_disk_names_the_file_and_leaves_the_old_pair(tmp_path: Path) -> None:
    onnx.save(model(1), tmp_path / "old.onnx")
    onnx.save(model(2), tmp_path / "new.onnx")
    converter.save_model(converter.convert_model(tmp_path / "old.onnx"), tmp_path / "m.xml")
    done = run_limited("convert", tmp_path / "new.onnx", "-o", tmp_path / "m.xml")
    assert done.returncode == 1
    assert f"error: '{tmp_path / 'm.bin'}' cannot be written: {os.strerror(errno.EFBIG)}" in done.stderr
    assert done.stderr.count("\n") == 2
    assert holds(tmp_path) == "of_1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.bin", "m.xml", "new.onnx", "old.onnx"]


def test_results_that_do_not_fit_name_the_file(tmp_path: Path) -> None:
    onnx.save(model(1), tmp_path / "m.onnx")
    converter.save_model(converter.convert_model(tmp_path / "m.onnx"), tmp_path / "m.xml")
    done = run_limited("run", tmp_path / "m.xml", "-o", tmp_path / "y.npz")
    assert done.returncode == 1
    assert f"'{tmp_path / 'y.npz'}' cannot be written" in done.stderr
    assert not (tmp_path / "y.npz").exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("x" * 300 + ".xml", os.strerror(errno.ENAMETOOLONG)),
        ("none/m.xml", os.strerror(errno.ENOENT)),
        ("file/m.xml", os.strerror(errno.ENOTDIR)),
        ("/proc/m.xml", ""),
    ],
)
def test_places_that_cannot_be_written(name: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ir_runtime.FileError) as caught:
        converter.save_model(ir_runtime.Model(), tmp_path / name)
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value, ir_runtime.ModelError)
    assert caught.value.errno
    assert "cannot be written" in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is refused to root")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ir_runtime.FileError, match=os.strerror(errno.EACCES)):
        converter.save_model(ir_runtime.Model(), tmp_path / "m.xml")


def test_names_as_long_as_they_may_be(tmp_path: Path) -> None:
    """What is written first, beside the file, is not longer than it."""
    converter.save_model(ir_runtime.Model(), tmp_path / ("x" * 251 + ".xml"))
    assert len(list(tmp_path.iterdir())) == 2
