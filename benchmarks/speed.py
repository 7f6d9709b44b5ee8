"""Time and memory of converting and running, side by side with OpenVINO and onnxruntime in one run.

    python benchmarks/speed.py [--models NAME ...] [--rounds 5] [--mebibytes 512]

Prints a Markdown table of ratios; absolute times are for orientation only, machines are noisy.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parent.parent))

import quiet_peers  # noqa: F401

import converter
import ir_runtime
from tests.models.sources import MODELS


def best(action: Callable[[], object], rounds: int) -> float:
    """The shortest of several rounds, in seconds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def importer(path: Path, target: Path, rounds: int) -> float | None:
    """OpenVINO's own way; None where it refuses the model, or crashes, which another process finds out."""
    trial = [sys.executable, "-c", "import openvino, sys; openvino.convert_model(sys.argv[1])", str(path)]
    if subprocess.run(trial, capture_output=True, check=False).returncode:
        return None
    return best(lambda: openvino.save_model(openvino.convert_model(path), target, compress_to_fp16=False), rounds)


def speed(names: Sequence[str], rounds: int) -> None:
    print("| model | convert + save, s | OpenVINO's importer, s | ratio | run in NumPy, s | onnxruntime, s | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "m.xml"
        for name in names:
            find, make = MODELS[name]
            path = find()
            ours = best(lambda path=path: converter.save_model(converter.convert_model(path), target), rounds)
            theirs = importer(path, target, rounds)
            converter.save_model(converter.convert_model(path), target)
            compiled = ir_runtime.compile_model(ir_runtime.read_model(target))
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            feeds = {port.name: make(port.name) for port in session.get_inputs()}
            run = best(lambda compiled=compiled, feeds=feeds: compiled(feeds), rounds)
            oracle = best(lambda session=session, feeds=feeds: session.run(None, feeds), rounds)
            print(
                f"| {name} | {ours:.3f} | {f'{theirs:.3f} | {ours / theirs:.2f}' if theirs else 'fails | -'} "
                f"| {run:.3f} | {oracle:.3f} | {run / oracle:.1f} |",
                flush=True,
            )


CHILD = """
import re, sys
from pathlib import Path
def peak():  # of this program alone: getrusage would count what its parent had, too
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
tool, source, target = sys.argv[1:]
if tool == "onnx2ir":
    import converter
    start = peak()
    converter.save_model(converter.convert_model(source), target)
else:
    import openvino
    start = peak()
    openvino.save_model(openvino.convert_model(source), target, compress_to_fp16=False)
print(peak() - start)
"""


def memory(mebibytes: int) -> None:
    """Peak memory above the imports for a model of so many MiB of weights; mapped pages count, too."""
    size = math.isqrt(mebibytes << 17)
    weights = [np.random.default_rng(i).random((size, size), np.float32) for i in range(2)]
    nodes = [helper.make_node("MatMul", [f"t{i}", f"w{i}"], [f"t{i + 1}"], name=f"n{i}") for i in range(2)]
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("t0", TensorProto.FLOAT, [1, size])],
        [helper.make_tensor_value_info("t2", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
    )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "m.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), source)
        del graph, weights
        figures = {}
        for tool in ("onnx2ir", "OpenVINO"):
            command = [sys.executable, "-c", CHILD, tool, str(source), str(Path(folder) / "m.xml")]
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            figures[tool] = int(out.split()[-1]) / 1024
    ratio = figures["onnx2ir"] / figures["OpenVINO"]
    print(f"\npeak memory for {mebibytes} MiB of weights: onnx2ir {figures['onnx2ir']:.0f} MiB, ", end="")
    print(f"OpenVINO's importer {figures['OpenVINO']:.0f} MiB, ratio {ratio:.2f}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--models", nargs="+", choices=sorted(MODELS), default=list(MODELS))
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--mebibytes", type=int, default=512, help="weights of the model whose memory is measured")
    given = arguments.parse_args()
    speed(given.models, given.rounds)
    memory(given.mebibytes)
