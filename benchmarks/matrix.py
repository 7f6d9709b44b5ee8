"""The random matrix of tests/rows/onnx/matmul.py, as large as you like, over both engines.

    python benchmarks/matrix.py --rows 1000 --seed 1

Prints every row that fails, and how many passed in each engine.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.rows.onnx.matmul import random_rows
from tests.runtimes import conversions
from tests.runtimes.check import fault_of
from tests.runtimes.work import Work

ENGINES = {"numpy": conversions.numpy, "openvino": conversions.openvino}


@click.command()
@click.option("--rows", "count", default=1000, show_default=True, help="Rows of each operator.")
@click.option("--seed", default=1, show_default=True)
def main(count: int, seed: int) -> None:
    """Run random rows of ReduceMean, ReduceL1 and AveragePool."""
    failed: Counter[str] = Counter()
    rows = list(random_rows(count, seed))
    for row in rows:
        work = Work(row)
        for engine, runtime in ENGINES.items():
            fault = fault_of(work, runtime)
            failed[engine] += bool(fault)
            if fault:
                print(f"{engine}: {row.label}: {' '.join(fault.split())[:300]}")
    for engine in ENGINES:
        print(f"{engine}: {len(rows) - failed[engine]} of {len(rows)}")
    if failed.total():
        raise SystemExit(1)


if __name__ == "__main__":
    main()
