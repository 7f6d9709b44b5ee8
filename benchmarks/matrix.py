"""The random matrix of tests/rows/onnx/matmul.py, as large as you like, over both engines.

    python benchmarks/matrix.py --cases 3000 --seed 1

Prints every case that fails, and how many passed in each engine.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.engines import ENGINES, assert_close, converted, run
from tests.rows.onnx.matmul import cases


@click.command()
@click.option("--cases", "count", default=3000, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(count: int, seed: int) -> None:
    """Run COUNT random cases over ReduceMean, ReduceL1 and AveragePool."""
    passed: Counter[str] = Counter()
    for case in cases(count, seed):
        try:
            ir = converted(case.model)
        except Exception as error:
            print(f"convert: {case.name}: {error}")
            continue
        for engine in ENGINES:
            try:
                for value, expected in zip(run(engine, ir, case.feeds), case.expected):
                    assert_close(value, expected)
                passed[engine] += 1
            except Exception as error:
                print(f"{engine}: {case.name}: {' '.join(str(error).split())[:300]}")
    for engine in ENGINES:
        print(f"{engine}: {passed[engine]} of {count}")
    if any(passed[engine] < count for engine in ENGINES):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
