"""Whole conversions, process by process: ours, OpenVINO's importer, and the floor.

The floor is a process that imports onnx, parses the file and copies every tensor once. The three run in turn, so
that a busy machine slows all alike; medians of the wall times, the greatest resident memory.

    python benchmarks/conversion.py MODEL.onnx ... [--rounds 5] [--fp16]
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
from pathlib import Path

import quiet_peers  # noqa: F401
from processes import in_turn

_THEIRS = "import openvino, sys; openvino.save_model(openvino.convert_model(sys.argv[1]), sys.argv[2], {fp16})"
_FLOOR = """
import onnx, sys
from onnx import numpy_helper
with open(sys.argv[2], "wb") as out:
    for tensor in onnx.load(sys.argv[1]).graph.initializer:
        out.write(numpy_helper.to_array(tensor).tobytes())
"""


def main() -> None:
    """One line for each model, and the geometric means of the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", nargs="+", type=Path)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--fp16", action="store_true", help="with weights as float16")
    given = arguments.parse_args()
    command = str(Path(sys.executable).with_name("onnx2ir"))
    ratios: list[tuple[float, float]] = []
    print("| model | MB | ours s / MiB | importer s / MiB | floor s / MiB | time | memory |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for path in given.models:
        with tempfile.TemporaryDirectory() as folder:
            target = f"{folder}/m.xml"
            half = ["--compress-to-fp16"] if given.fp16 else []
            runs = [
                [command, "--quiet", "convert", str(path), "-o", target, *half],
                [sys.executable, "-c", _THEIRS.format(fp16=given.fp16), str(path), target],
                [sys.executable, "-c", _FLOOR, str(path), f"{folder}/floor.bin"],
            ]
            found = in_turn(runs, given.rounds)
        cells = [f"{seconds:.2f} / {memory:.0f}" if seconds else "refused" for seconds, memory in found]
        (ours, our_memory), (theirs, their_memory), _ = found
        if ours and theirs:
            ratios.append((ours / theirs, our_memory / their_memory))
            cells += [f"{ratio:.2f}" for ratio in ratios[-1]]
        print(f"| {path.stem} | {path.stat().st_size / 1e6:.0f} | {' | '.join(cells)} |", flush=True)
    for what, values in zip(("time", "memory"), zip(*ratios)):
        mean = math.exp(statistics.fmean(math.log(value) for value in values))
        print(f"{what}: geometric mean {mean:.2f}, worst {max(values):.2f}")


if __name__ == "__main__":
    main()
