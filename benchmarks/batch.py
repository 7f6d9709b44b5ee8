"""Many small models with `onnx2ir batch`: one at a time, and several.

    python benchmarks/batch.py [--models 200] [--jobs 2] [--rounds 3] [--no-verify]

Whole runs take turns, so that a busy machine slows both alike. Beside the times stands the processor time, with which a
run cannot be faster than the processors allow.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).parent.parent


def write_models(folder: Path, count: int) -> None:
    """Small networks of convolutions, each with other widths, depths and weights."""
    folder.mkdir(parents=True)
    for number in range(count):
        rng = np.random.default_rng(number)
        width, depth = 4 + number % 13, 2 + number % 5
        nodes, weights = [], []
        for layer in range(depth):
            shape = (width, 3 if layer == 0 else width, 3, 3)
            weights.append(numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) / 6, f"w{layer}"))
            nodes.append(helper.make_node("Conv", [f"h{layer}", f"w{layer}"], [f"c{layer}"], pads=[1, 1, 1, 1]))
            nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"h{layer + 1}"]))
        inputs = [helper.make_tensor_value_info("h0", TensorProto.FLOAT, [1, 3, 32, 32])]
        outputs = [helper.make_tensor_value_info(f"h{depth}", TensorProto.FLOAT, None)]
        graph = helper.make_graph(nodes, f"network{number}", inputs, outputs, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(model, folder / f"{number:04}.onnx")


def run(models: Path, output: Path, jobs: int, verify: bool) -> tuple[float, float]:
    """Seconds of the clock and of the processors that a run takes."""
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "converter", "batch", str(models), "-o", str(output), "--jobs", str(jobs), "-q"]
    started, before = time.perf_counter(), os.times()
    subprocess.run([*command, *(["--verify"] if verify else [])], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - started, spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-verify", dest="verify", action="store_false")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder, "models")
        write_models(models, given.models)
        times: dict[int, list[tuple[float, float]]] = {1: [], given.jobs: []}
        for _ in range(given.rounds):
            for jobs, spent in times.items():
                spent.append(run(models, Path(folder, "ir"), jobs, given.verify))
    ratios = [one[0] / several[0] for one, several in zip(times[1], times[given.jobs])]
    print("| jobs | seconds | of the processors | seconds a model |\n| ---: | ---: | ---: | ---: |")
    for jobs, spent in times.items():
        seconds, processors = (statistics.median(column) for column in zip(*spent))
        print(f"| {jobs} | {seconds:.1f} | {processors:.1f} | {seconds / given.models:.3f} |")
    each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(
        f"\n{given.models} models: {given.jobs} jobs are {statistics.median(ratios):.2f} times as fast as one ({each})"
    )


if __name__ == "__main__":
    main()
