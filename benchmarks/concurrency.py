"""One compiled model called by several threads: calls a second, beside one thread.

The two take turns, so that a busy machine slows both alike; the median over the rounds is printed.

    python benchmarks/concurrency.py MODEL.onnx ... [--callers 8] [--rounds 5] [--seconds 1]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import converter
import ir_runtime
from converter.equivalence.inputs.arrays import random_inputs


def main() -> None:
    """One line for each model."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", nargs="+", type=Path)
    arguments.add_argument("--callers", type=int, default=8)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=1.0, help="how long each round is")
    given = arguments.parse_args()
    print(f"| model | calls a second | of {given.callers} threads | ratio |")
    print("| --- | ---: | ---: | ---: |")
    for path in given.models:
        compiled = ir_runtime.compile_model(converter.convert_model(path))
        feeds = random_inputs(compiled.inputs, 0)
        for _ in range(3):
            compiled(feeds)
        rounds = [[rate(compiled, feeds, n, given.seconds) for n in (1, given.callers)] for _ in range(given.rounds)]
        alone, together = (statistics.median(one[side] for one in rounds) for side in (0, 1))
        print(f"| {path.stem} | {alone:.0f} | {together:.0f} | {together / alone:.2f} |", flush=True)


def rate(compiled: ir_runtime.CompiledModel, feeds: Mapping[str, Any], callers: int, seconds: float) -> float:
    """Calls a second that so many threads make together."""
    counts = [0] * callers
    started = time.perf_counter()

    def call(index: int) -> None:
        while time.perf_counter() < started + seconds:
            compiled(feeds)
            counts[index] += 1

    threads = [threading.Thread(target=call, args=(index,)) for index in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
