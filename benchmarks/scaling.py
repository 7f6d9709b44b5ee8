"""How time and memory of a conversion grow with the number of nodes: whole processes, ours and OpenVINO's importer.

Each form of graph is made with 10,000, 30,000 and 100,000 nodes. Beside seconds and MiB stands the exponent from one
size to the next, of what is above a model of ten nodes: 1 is linear, 2 quadratic. The importer has a process of its
own for each model, as it may overflow its stack or be killed: "refused" then, "slow" where it takes too long.

    python benchmarks/scaling.py [FORM ...] [--sizes 10000 30000 100000] [--limit SECONDS] [--ours]
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import quiet_peers  # noqa: F401

_THEIRS = "import openvino, sys; openvino.save_model(openvino.convert_model(sys.argv[1]), sys.argv[2], False)"
_GRAPHS = Path(__file__).with_name("growing_graphs.py")
_TINY = 10


@dataclass(frozen=True)
class Cost:
    """What a process took; ``failed`` is the reason why there are no figures."""

    seconds: float
    mebibytes: float
    failed: str = ""

    def __str__(self) -> str:
        return self.failed or f"{self.seconds:.2f} / {self.mebibytes:.0f}"


def cost(command: list[str], limit: float) -> Cost:
    """Seconds of the processor and greatest resident memory of a process."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + limit
    while True:
        found, status, usage = os.wait4(process.pid, os.WNOHANG)
        if found:
            break
        if time.monotonic() > end:
            process.send_signal(signal.SIGKILL)
            os.wait4(process.pid, 0)
            process.returncode = -signal.SIGKILL
            return Cost(0, 0, "slow")
        time.sleep(0.02)
    process.returncode = status
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, "refused" if status else "")


def exponent(sizes: tuple[int, int], costs: tuple[Cost, Cost], least: Cost, what: str) -> str:
    """The power of the size by which what is above ``least`` grows; a dash where there is too little of it."""
    if any(one.failed for one in costs):
        return "-"
    before, after = (getattr(one, what) - getattr(least, what) for one in costs)
    enough = {"seconds": 0.1, "mebibytes": 4.0}[what]
    if before < enough or after <= 0:
        return "-"
    return f"{math.log(after / before) / math.log(sizes[1] / sizes[0]):.2f}"


def main() -> None:
    """A row for each form and size."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    forms = subprocess.run([sys.executable, str(_GRAPHS)], check=True, capture_output=True, text=True).stdout.split()
    arguments.add_argument("forms", nargs="*", default=forms, metavar="FORM", help=", ".join(forms))
    arguments.add_argument("--sizes", nargs="+", type=int, default=[10_000, 30_000, 100_000])
    arguments.add_argument("--limit", type=float, default=120.0, help="seconds for a process")
    arguments.add_argument("--ours", action="store_true", help="leave the importer out")
    given = arguments.parse_args()
    sides = ["ours"] if given.ours else ["ours", "importer"]
    print(f"| graph | nodes | {' | '.join(f'{side} s / MiB | time | memory' for side in sides)} |")
    print(f"| --- | ---: |{' ---: | ---: | ---: |' * len(sides)}")
    for name in given.forms:
        found: dict[str, list[Cost]] = {side: [] for side in sides}
        sizes = [_TINY, *given.sizes]
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder:
                path, target = Path(folder) / "m.onnx", str(Path(folder) / "m.xml")
                # In a process of its own, whose memory is not counted as that of those that follow.
                subprocess.run([sys.executable, str(_GRAPHS), name, str(size), str(path)], check=True)
                commands = {
                    "ours": [sys.executable, "-m", "converter", "--quiet", "convert", str(path), "-o", target],
                    "importer": [sys.executable, "-c", _THEIRS, str(path), target],
                }
                for side in sides:
                    found[side].append(cost(commands[side], given.limit))
            if size == _TINY:
                continue
            cells = [name, str(size)]
            for costs in found.values():
                cells.append(str(costs[-1]))
                pair = (sizes[len(costs) - 2], size), (costs[-2], costs[-1])
                first = len(costs) == 2
                cells += ["" if first else exponent(*pair, costs[0], what) for what in ("seconds", "mebibytes")]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
