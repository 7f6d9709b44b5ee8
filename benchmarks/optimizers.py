"""Nodes and onnxruntime's time of ONNX models as they are, and after onnxsim, onnxslim and ``onnx2ir optimize``.

    python benchmarks/optimizers.py MODEL.onnx ... [--python PYTHON] [--opset N] [--markdown] [--threads N]
        [--rounds N]

``--python`` is an interpreter with onnxsim and onnxslim, which are no dependencies of this project. Nodes of bodies and
functions count, constants do not. Times are the least of several rounds in which the variants take turns, beside that
of the original. Outputs are compared on random inputs. A variant that cannot be made or run is shown as "-".
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(Path(__file__).parent.parent))

import converter
from converter.equivalence.comparison.compare import compare
from converter.equivalence.comparison.runs import Runs
from converter.equivalence.comparison.sides import Sides
from converter.equivalence.comparison.tolerances import chosen_by
from converter.equivalence.reference.onnx_engine import onnx_engine
from converter.equivalence.reference.references import reference_for

_TOOLS = {
    "onnxsim": "import onnx, onnxsim, sys; onnx.save(onnxsim.simplify(sys.argv[1])[0], sys.argv[2])",
    "onnxslim": "import onnx, onnxslim, sys; onnx.save(onnxslim.slim(sys.argv[1]), sys.argv[2])",
}
_SECONDS = 300
_SECONDS_OF_A_ROUND = 0.05


def nodes_of(model: onnx.ModelProto) -> int:
    """The nodes of a model, those of bodies and of called functions included."""
    functions = {(function.domain, function.name): function for function in model.functions}

    def count(nodes: Iterable[onnx.NodeProto]) -> int:
        found = 0
        for node in nodes:
            function = functions.get((node.domain, node.op_type))
            found += count(function.node) if function else node.op_type != "Constant"
            for attribute in node.attribute:
                graphs = [attribute.g, *attribute.graphs] if attribute.HasField("g") else attribute.graphs
                found += sum(count(graph.node) for graph in graphs)
        return found

    return count(model.graph.node)


def variants(model: Path, folder: Path, python: str, opset: int | None) -> dict[str, Path]:
    """The files of all tools that could make one."""
    made = {"original": model}
    for name, code in _TOOLS.items():
        path = folder / f"{name}.onnx"
        try:
            done = subprocess.run([python, "-c", code, model, path], capture_output=True, check=False, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        if done.returncode == 0:
            made[name] = path
    converter.optimize(model, opset=opset).save(folder / "ours.onnx")
    made["ours"] = folder / "ours.onnx"
    return made


def inputs_of(model: Path, shapes: str | None) -> dict[str, Any]:
    """Random inputs that the model takes."""
    engine, reference = onnx_engine(str(model)), reference_for(str(model))
    sides = Sides(reference, engine.model, engine, chosen_by(None, None), True, {}, None)
    runs = Runs(sides)
    runs.set_values({})
    bound = converter.ConversionOptions(input=shapes).bindings.bound(list(reference.input_names))
    sides.frozen = bound.frozen
    sides.ports = [port for port in sides.ports if port.name not in bound.frozen]
    runs.random(0, 1, bound.shapes, None)
    return sides.reference_feeds(runs.runs[0].feeds)


def measured(
    files: Mapping[str, Path], feeds: Mapping[str, Any], threads: int, rounds: int
) -> dict[str, tuple[float, list[Any]]]:
    """The seconds of a run and the outputs of each file that runs."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    sessions, outputs = {}, {}
    for name, path in files.items():
        try:
            session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            known = {one.name for one in session.get_inputs()}
            given = {key: value for key, value in feeds.items() if key in known}
            outputs[name] = session.run(None, given)
            sessions[name] = session, given
        except Exception as error:  # onnxruntime's errors share no base class of their own
            print(f"{name}: {str(error)[:200]}", file=sys.stderr)
    best = dict.fromkeys(sessions, float("inf"))
    counts: dict[str, int] = {}
    for _ in range(rounds):
        for name, (session, given) in sessions.items():
            start = time.perf_counter()
            for _ in range(counts.setdefault(name, 1)):
                session.run(None, given)
            took = (time.perf_counter() - start) / counts[name]
            counts[name] = max(1, min(1000, int(_SECONDS_OF_A_ROUND / took)))
            best[name] = min(best[name], took)
    return {name: (best[name], outputs[name]) for name in sessions}


def row(model: Path, python: str, opset: int | None, shapes: str | None, threads: int, rounds: int) -> list[str]:
    """Nodes of each variant, the times beside the original's, and whether the outputs are equal."""
    with tempfile.TemporaryDirectory() as name:
        files = variants(model, Path(name), python, opset)
        nodes = {key: nodes_of(onnx.load(path, load_external_data=False)) for key, path in files.items()}
        results = measured(files, inputs_of(model, shapes), threads, rounds)
    cells = [str(nodes.get(key, "-")) for key in ("original", *_TOOLS, "ours")]
    base, expected = results["original"]
    cells += [f"{results[key][0] / base:.2f}" if key in results else "-" for key in (*_TOOLS, "ours")]
    verdicts = []
    for key in (*_TOOLS, "ours"):
        if key not in results:
            verdicts.append("-")
            continue
        pairs = zip(expected, results[key][1])
        is_equal = all(compare("", np.asarray(one), np.asarray(other)).passed for one, other in pairs)
        verdicts.append("yes" if is_equal else "no")
    return cells + verdicts


def main() -> None:
    """The table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", nargs="+", type=Path)
    arguments.add_argument("--python", default=sys.executable, help="an interpreter with onnxsim and onnxslim")
    arguments.add_argument("--opset", type=int)
    arguments.add_argument("--input", help="shapes and values, as for convert")
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--markdown", action="store_true")
    given = arguments.parse_args()
    heads = [
        "nodes",
        "onnxsim",
        "onnxslim",
        "ours",
        "time: onnxsim",
        "onnxslim",
        "ours",
        "equal: onnxsim",
        "onnxslim",
        "ours",
    ]
    line = "| {} | " + " | ".join(["{}"] * len(heads)) + " |" if given.markdown else "{:44}" + "{:>15}" * len(heads)
    print(line.format("model", *heads))
    if given.markdown:
        print("| --- |" + " ---: |" * len(heads))
    for model in given.models:
        try:
            cells = row(model, given.python, given.opset, given.input, given.threads, given.rounds)
        except converter.ConversionError as error:
            print(f"{model}: {str(error)[:200]}", file=sys.stderr)
            continue
        print(line.format(f"{model.parent.name}/{model.stem}"[-43:], *cells), flush=True)


if __name__ == "__main__":
    main()
