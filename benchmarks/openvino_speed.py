"""Our IR and that of OpenVINO's own importer in OpenVINO's CPU plug-in: time, layers, precisions, file sizes.

Both are compiled in one process and called in turn, so that a busy machine slows both alike. How many layers
ran in 8 bits is counted in the executed graph.

    python benchmarks/openvino_speed.py MODEL.onnx ... [--target cpu] [--seconds 2] [--threads 2] [--static]
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any

import openvino
import quiet_peers  # noqa: F401

import converter
import ir_runtime
from converter.equivalence.inputs.arrays import random_inputs


def main() -> None:
    """One line for each model, and the geometric mean of the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", nargs="+", type=Path)
    arguments.add_argument("--target", default="cpu")
    arguments.add_argument("--seconds", type=float, default=2.0, help="how long each model is measured")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--static", action="store_true", help="convert_model(static=True)")
    given = arguments.parse_args()
    core = openvino.Core()
    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": given.threads}
    ratios = []
    print(f"{'model':40} {'ours ms':>9} {'theirs ms':>9} {'ratio':>6}  layers  in 8 bits  executed")
    for path in given.models:
        made = ir_runtime.model_to_bytes(converter.convert_model(path, target=given.target, static=given.static))
        ours = core.compile_model(core.read_model(*made), "CPU", options)
        feeds = random_inputs(ir_runtime.compile_model(ir_runtime.read_model(*made)).inputs, 0)
        try:
            theirs = core.compile_model(core.read_model(path), "CPU", options)
        except RuntimeError as error:
            theirs, refusal = None, str(error).strip().splitlines()[-1]
        times = _interleaved([one for one in (ours, theirs) if one is not None], feeds, given.seconds)
        mine = f"{path.stem:40} {times[0]:9.3f}"
        if theirs is None:
            print(f"{mine}   refused  {_precisions(ours)}: {refusal}", flush=True)
            continue
        ratios.append(times[0] / times[1])
        ran = [_precisions(one) for one in (ours, theirs)]
        print(f"{mine} {times[1]:9.3f} {ratios[-1]:6.2f}  {ran[0]} against {ran[1]}", flush=True)
    if ratios:
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
        print(f"geometric mean {mean:.2f}, worst {max(ratios):.2f}")


def _interleaved(compiled: list[Any], feeds: dict[str, Any], seconds: float) -> list[float]:
    """The median milliseconds of a call of each, in turns."""
    requests = [one.create_infer_request() for one in compiled]
    for request in requests:
        for _ in range(3):
            request.infer(feeds)
    spent: list[list[float]] = [[] for _ in requests]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(spent[0]) < 5:
        for request, times in zip(requests, spent):
            start = time.perf_counter()
            request.infer(feeds)
            times.append(time.perf_counter() - start)
    return [1e3 * statistics.median(times) for times in spent]


def _precisions(compiled: Any) -> str:
    """How many layers ran, and how many of them in 8 bits."""
    types: Counter[str] = Counter()
    for layer in compiled.get_runtime_model().get_ops():
        info = layer.get_rt_info()
        if "runtimePrecision" in info and info["layerType"].astype(str) not in ("Const", "Input", "Output"):
            types[info["runtimePrecision"].astype(str)] += 1
    return f"{types.total()} ({types['u8'] + types['i8']} in 8 bits)"


if __name__ == "__main__":
    main()
