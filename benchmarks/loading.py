"""From file to compiled model in OpenVINO: our IR and the IR that OpenVINO's own converter saves, in turns.

    python benchmarks/loading.py MODEL.onnx ... [--rounds 7]

Each round reads and compiles both files, in one order and the other; ``layers`` and ``KB`` are those of the saved XML,
constants, parameters and results left out. The converter runs in a process of its own, because some models crash it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import openvino
import quiet_peers  # noqa: F401

import converter

_APART = ("Const", "Parameter", "Result")
_THEIRS = """
import openvino, sys
openvino.save_model(openvino.convert_model(sys.argv[1]), sys.argv[2], compress_to_fp16=False)
"""


def layers(xml: Path) -> int:
    """How many layers a saved model has, bodies included."""
    return sum(layer.get("type") not in _APART for layer in ET.parse(xml).iter("layer"))


def seconds(xml: Path) -> float:
    """How long reading and compiling take, with a core of its own, which has nothing in its cache."""
    core = openvino.Core()
    started = time.perf_counter()
    core.compile_model(core.read_model(xml), "CPU")
    return time.perf_counter() - started


def in_turns(ours: Path, theirs: Path, is_swapped: bool) -> tuple[float, float]:
    """The seconds of both; either may come first, because what comes second may find memory that is ready."""
    first, second = (theirs, ours) if is_swapped else (ours, theirs)
    pair = seconds(first), seconds(second)
    return pair[::-1] if is_swapped else pair


def main() -> None:
    """A line for each model, and the geometric mean of the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", nargs="+", type=Path)
    arguments.add_argument("--rounds", type=int, default=7)
    given = arguments.parse_args()
    print(f"{'model':40} {'ms ours':>9} {'theirs':>9} {'ratio':>6} {'layers':>13} {'KB of XML':>15}")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for path in given.models:
            ours, theirs = Path(folder) / "ours.xml", Path(folder) / "theirs.xml"
            done = subprocess.run([sys.executable, "-c", _THEIRS, path, theirs], capture_output=True, check=False)
            if done.returncode:
                print(f"{path.stem:40} OpenVINO's converter refuses it")
                continue
            try:
                converter.save_model(converter.convert_model(path), ours)
            except converter.ConversionError as error:
                print(f"{path.stem:40} is not converted: {error}"[:200])
                continue
            rounds = [in_turns(ours, theirs, turn % 2 == 1) for turn in range(given.rounds)]
            ratio = statistics.median(a / b for a, b in rounds)
            ratios.append(ratio)
            best = [1000 * min(column) for column in zip(*rounds)]
            counts, sizes = (
                [layers(xml) for xml in (ours, theirs)],
                [xml.stat().st_size >> 10 for xml in (ours, theirs)],
            )
            print(
                f"{path.stem:40} {best[0]:9.1f} {best[1]:9.1f} {ratio:6.2f} "
                f"{counts[0]:6} {counts[1]:6} {sizes[0]:7} {sizes[1]:7}",
                flush=True,
            )
    if ratios:
        mean = math.exp(statistics.mean(math.log(ratio) for ratio in ratios))
        print(f"{len(ratios)} models: geometric mean {mean:.2f}, worst {max(ratios):.2f}")


if __name__ == "__main__":
    main()
