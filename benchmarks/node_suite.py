"""ONNX's backend node suite through both engines; prints what fails, why, and the two figures.

python benchmarks/node_suite.py [--failures] [--step N]
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.engines import ENGINES
from tests.suite.known import outcome
from tests.suite.node_suite import node_cases, stored_cases


@click.command()
@click.option("--failures", is_flag=True, help="List every case that fails.")
@click.option("--step", default=1, help="Run every N-th case only.")
def main(failures: bool, step: int) -> None:
    """Run all cases and print how many pass in each engine."""
    for title, cases in [
        ("node suite", list(node_cases())),
        ("stored models", [c for f in ("pytorch-converted", "pytorch-operator", "simple") for c in stored_cases(f)]),
    ]:
        passed: Counter[str] = Counter()
        cases = cases[::step]
        for case in cases:
            for engine, wrong in outcome(case).items():
                passed[engine] += not wrong
                if wrong and failures:
                    print(f"{engine}: {case.name}: {' '.join(wrong.split())[:300]}")
        for engine in ENGINES:
            print(f"{title}, {engine}: {passed[engine]} of {len(cases)}")


if __name__ == "__main__":
    main()
