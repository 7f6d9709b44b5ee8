"""What verifying costs: `onnx2ir verify` beside a process that imports onnxruntime and runs both sides once.

The second reads the IR, makes the same inputs, runs each side, and compares nothing: what nobody can do without. The
processes take turns, so that a busy machine slows both alike; medians of the wall times, the greatest memory.

    python benchmarks/verification.py MODEL.onnx ... [--rounds 5] [--layers]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import in_turn

_BOTH = """
import sys
import numpy as np
import onnxruntime
import ir_runtime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
compiled = ir_runtime.compile_model(ir_runtime.read_model(sys.argv[2]))
with np.load(sys.argv[3]) as found:
    feeds = {name: found[name] for name in found.files}
session.run(None, feeds)
compiled(feeds)
"""


def main() -> None:
    """One line for each model."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", nargs="+", type=Path)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--layers", action="store_true", help="compare inner tensors, too")
    given = arguments.parse_args()
    command = [sys.executable, "-m", "converter", "--quiet"]
    print("| model | verify s / MiB | import and run both s / MiB | time | memory |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for path in given.models:
        with tempfile.TemporaryDirectory() as folder:
            xml, feeds = f"{folder}/m.xml", f"{folder}/x.npz"
            subprocess.run([*command, "convert", str(path), "-o", xml], check=True)
            _write_inputs(path, Path(xml), Path(feeds))
            wanted = ["--layers"] if given.layers else []
            runs = [
                [*command, "verify", str(path), xml, *wanted],
                [sys.executable, "-c", _BOTH, str(path), xml, feeds],
            ]
            (ours, memory), (both, floor) = in_turn(runs, given.rounds)
            if not ours or not both:
                print(f"| {path.stem} | failed | | | |", flush=True)
                continue
        print(
            f"| {path.stem} | {ours:.2f} / {memory:.0f} | {both:.2f} / {floor:.0f} | {ours / both:.2f} "
            f"| {memory / floor:.2f} |",
            flush=True,
        )


def _write_inputs(path: Path, xml: Path, target: Path) -> None:
    """The inputs that verify would make first."""
    import numpy as np

    from converter.equivalence.inputs.arrays import random_inputs
    from converter.equivalence.inputs.dimensions import ShapeCandidates
    from converter.equivalence.inputs.input_values import values_of
    from converter.equivalence.reference.reference_model import ReferenceModel
    from ir_runtime import read_model
    from ir_runtime.execution.ports import ports_of

    ports, _ = ports_of(read_model(xml))
    graph = ReferenceModel(path)
    shapes = next(ShapeCandidates(ports, graph, {port.name: port.name for port in ports}, ()).usual())
    with target.open("wb") as file:
        np.savez(file, allow_pickle=False, **random_inputs(ports, 0, values_of(graph), shapes))


if __name__ == "__main__":
    main()
