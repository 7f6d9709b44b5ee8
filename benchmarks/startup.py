"""How long the package takes until it works: whole processes, the least that any could take beside them.

    python benchmarks/startup.py [--rounds 15]

Each row is the median over rounds that take turns, so that a busy machine slows all rows alike. What
the package adds is the difference to the row that it is measured against.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onnx
from onnx import TensorProto, helper

ROOT = Path(__file__).parent.parent

PYTHON, CLICK, FLOOR = "python -c pass", "import click", "import click, numpy"


def tiny_model(folder: Path) -> Path:
    """A model of one layer."""
    shape = [1, 3]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    path = folder / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def rows(folder: Path) -> dict[str, tuple[list[str], str]]:
    """Name -> what is run, and the row that it is measured against."""
    model = tiny_model(folder)
    command = ["-m", "converter"]
    return {
        PYTHON: (["-c", "pass"], PYTHON),
        CLICK: (["-c", "import click"], PYTHON),
        FLOOR: (["-c", FLOOR], PYTHON),
        "import ir_runtime": (["-c", "import ir_runtime"], PYTHON),
        "import converter": (["-c", "import click, numpy, converter"], FLOOR),
        "converter.convert_model": (["-c", "import click, numpy, converter; converter.convert_model"], FLOOR),
        "onnx2ir --help": ([*command, "--help"], CLICK),
        "onnx2ir --version": ([*command, "--version"], CLICK),
        "onnx2ir convert": ([*command, "convert", str(model), "-o", str(folder / "tiny.xml")], FLOOR),
    }


def seconds(arguments: list[str]) -> float:
    started = time.perf_counter()
    # The folder that a process starts in comes first among its modules: it is this copy that is measured.
    subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=True)
    return time.perf_counter() - started


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        measured = rows(Path(folder))
        for arguments, _ in measured.values():
            seconds(arguments)  # writes compiled modules and fills the disk's cache
        times: dict[str, list[float]] = {name: [] for name in measured}
        for _ in range(rounds):
            for name, (arguments, _) in measured.items():
                times[name].append(seconds(arguments))
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"{'process':<26}{'seconds':>9}{'added':>9}{'times':>8}  against")
    for name, (_, against) in measured.items():
        added, ratio = medians[name] - medians[against], medians[name] / medians[against]
        print(f"{name:<26}{medians[name]:>9.3f}{added:>9.3f}{ratio:>8.2f}  {against}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=15)
    main(arguments.parse_args().rounds)
