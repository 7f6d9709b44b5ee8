"""Whole processes timed in turn, so that a busy machine slows all alike."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Sequence


def in_turn(runs: Sequence[Sequence[str]], rounds: int) -> list[tuple[float, float]]:
    """Median seconds and greatest MiB of each command; 0 seconds where it fails."""
    times: list[list[float]] = [[] for _ in runs]
    memory = [0.0 for _ in runs]
    for _ in range(rounds):
        for index, run in enumerate(runs):
            start = time.perf_counter()
            process = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = status
            times[index].append(0.0 if status else time.perf_counter() - start)
            memory[index] = max(memory[index], usage.ru_maxrss / 1024)
    return [(0.0 if min(spent) == 0 else statistics.median(spent), most) for spent, most in zip(times, memory)]
