"""Static models of ONNX's node suite, converted, then given other dimensions: how many are right.

A case is what onnxruntime runs on the file with its shapes opened. The figures stand apart for the cases that
ONNX's own shape inference and reference evaluator confirm, and for those that onnxruntime alone runs; and apart
from models that are not right as their files state them. Models are tried in a process that is started again
where a runtime crashes.

    python benchmarks/reshape.py [--importer] [--step N] [--jobs N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import queue
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.suite.known import known_failures
from tests.suite.node_suite import node_cases
from tests.suite.reshape import confirmed, feeds_of, outcomes

Case = dict[str, Any]


def main() -> None:
    """Run every ``--step``-th model."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--importer", action="store_true", help="the same with the IR of OpenVINO's own importer")
    arguments.add_argument("--step", type=int, default=1, help="every N-th model only")
    arguments.add_argument("--jobs", type=int, default=2, help="processes at once")
    arguments.add_argument("--json", type=Path, help="every verdict, as JSON")
    given = arguments.parse_args()
    names = [case.name for case in node_cases()][:: given.step]
    with ThreadPoolExecutor(given.jobs) as pool:
        parts = pool.map(
            lambda part: list(_run(part, given.importer)), [names[i :: given.jobs] for i in range(given.jobs)]
        )
        every = [case for part in parts for case in part]
    if given.json:
        given.json.write_text(json.dumps(every, indent=0))
    for group in ("confirmed", "onnxruntime alone"):
        _report(group, [case for case in every if case["group"] == group])


def _report(group: str, cases: list[Case]) -> None:
    print(f"{group}: {len(cases)} cases")
    engines = [engine for engine in ("numpy", "openvino", "importer") if cases and engine in cases[0]["verdicts"]]
    for engine in engines:
        counter: Counter[str] = Counter()
        for case in cases:
            if (case["case"], engine) in known_failures():
                counter["not right as declared, either"] += 1
                continue
            verdict = case["verdicts"][engine]
            counter[verdict.partition(":")[0]] += 1
            if verdict != "right" and engine != "importer":
                print(f"    {engine:9} {case['case']} {case['shapes']}: {verdict[:300]}")
        total = counter.total() - counter["not right as declared, either"]
        print(f"  {engine:9} {counter['right'] / max(total, 1):.2%} right: {dict(counter)}")
    if "importer" in engines:
        worse = [c for c in cases if c["verdicts"]["importer"] == "right" and c["verdicts"]["openvino"] != "right"]
        for case in worse:
            print(f"    importer is right: {case['case']} {case['shapes']}: {case['verdicts']['openvino'][:200]}")
        print(f"  right from the importer's IR and not from this one: {len(worse)}")


def _run(names: Sequence[str], importer: bool) -> Iterator[Case]:
    """The cases of the models of these names, out of processes that may crash."""
    left, current = list(names), ""
    context = multiprocessing.get_context("spawn")
    while left:
        found: Any = context.Queue()
        process = context.Process(target=_work, args=(found, left, importer))
        process.start()
        while True:
            try:
                kind, content = found.get(timeout=5)
            except queue.Empty:
                if process.is_alive():
                    continue
                print(f"crashed: {current}", flush=True)
                break
            if kind == "model":
                current = content
                left = left[left.index(content) + 1 :]
            elif kind == "case":
                yield content
            else:
                break
        process.join()


def _work(found: Any, names: Sequence[str], importer: bool) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    cases = {case.name: case for case in node_cases()}
    for name in names:
        found.put(("model", name))
        for one, verdicts in outcomes(cases[name].model, feeds_of(cases[name]), importer=importer):
            group = "confirmed" if confirmed(cases[name].model, one) else "onnxruntime alone"
            found.put(("case", {"case": name, "shapes": one.label, "group": group, "verdicts": verdicts}))
    found.put(("end", None))


if __name__ == "__main__":
    main()
