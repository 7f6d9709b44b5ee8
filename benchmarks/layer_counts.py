"""Layers of the plain IR (``--target any``) beside those that OpenVINO's own importer makes of the same file.

Constants, parameters and results are left out, bodies counted. The importer runs in a process of its own, because some
models crash it.

    python benchmarks/layer_counts.py MODEL.onnx ... [--target any]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import converter

_APART = ("Const", "Constant", "Parameter", "Result")
_THEIRS = f"""
import openvino, sys

def count(model):
    total = 0
    for op in model.get_ops():
        kind = op.get_type_name()
        total += kind not in {_APART!r}
        if kind == "If":
            total += count(op.get_function(0)) + count(op.get_function(1))
        elif kind in ("Loop", "TensorIterator"):
            total += count(op.get_function())
    return total

print(count(openvino.Core().read_model(sys.argv[1])))
"""


def main() -> None:
    """One line for each model that has more layers than the importer's, and how many have not."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", nargs="+", type=Path)
    arguments.add_argument("--target", default="any")
    given = arguments.parse_args()
    counts: list[tuple[int, int]] = []
    for path in given.models:
        found = subprocess.run([sys.executable, "-c", _THEIRS, path], capture_output=True, text=True, check=False)
        if found.returncode:
            continue
        theirs = int(found.stdout)
        model = converter.convert_model(path, target=given.target)
        ours = sum(node.op.type not in _APART for part in model.all_models() for node in part.nodes())
        counts.append((ours, theirs))
        if ours > theirs:
            print(f"{path.stem:50} {ours:6} {theirs:6}", flush=True)
    more = sum(ours > theirs for ours, theirs in counts)
    totals = [sum(column) for column in zip(*counts)]
    print(f"{len(counts)} models that the importer takes, {more} with more layers than its; in all {totals}")


if __name__ == "__main__":
    main()
