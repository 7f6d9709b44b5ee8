"""Static models of ONNX's node suite, converted, then given other extents: how many are right.

Prints one line for each case that is not right, and the figures beside those of OpenVINO's importer.

    python benchmarks/reshape.py [--importer] [--step N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import logging
import warnings
from collections import Counter
from pathlib import Path

from tests.suite.node_suite import node_cases
from tests.suite.reshape import outcomes


def main() -> None:
    """Run every ``--step``-th model."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--importer", action="store_true", help="the same with the IR of OpenVINO's own importer")
    arguments.add_argument("--step", type=int, default=1, help="every N-th model only")
    arguments.add_argument("--json", type=Path, help="every verdict, as JSON")
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    counts: dict[str, Counter[str]] = {}
    worse = 0
    every = []
    for case in node_cases()[:: given.step]:
        for one, verdicts in outcomes(case, importer=given.importer):
            every.append({"case": case.name, "shapes": one.label, **verdicts})
            for engine, verdict in verdicts.items():
                counts.setdefault(engine, Counter())[verdict.partition(":")[0]] += 1
                if verdict != "right" and engine != "importer":
                    print(f"{engine:9} {case.name} {one.label}: {verdict[:300]}", flush=True)
            if verdicts.get("importer") == "right" and verdicts["openvino"] != "right":
                worse += 1
                print(f"importer is right: {case.name} {one.label}")
    for engine, counter in counts.items():
        print(f"{engine:9} {dict(counter)}")
    if given.importer:
        print(f"right from the importer's IR and not from this one: {worse}")
    if given.json:
        given.json.write_text(json.dumps(every, indent=0))


if __name__ == "__main__":
    main()
