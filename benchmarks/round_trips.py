"""ONNX's node suite as IR, as ONNX again, and once more: what onnxruntime computes, and whether anything changes.

python benchmarks/round_trips.py [--failures] [--step N] [--name PART]

Each case runs in a process of its own, as onnxruntime can end the process. OpenVINO's importer reads the exported
models as well, next to the first file: how many it computes right of each.
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
import onnxruntime
import openvino

sys.path.insert(0, str(Path(__file__).parent.parent))

import quiet_peers  # noqa: F401

import converter
from converter.equivalence.reference import ort_values
from tests.converter.to_onnx.graphs import second_pass
from tests.suite.node_suite import Case, as_array, difference, node_cases

REFUSED = "IR not converted, or refused by the exporter"
RIGHT = "right in onnxruntime, unchanged from the second pass on"
CHANGED = "right in onnxruntime, changed in the second pass"


@click.command()
@click.option("--failures", is_flag=True, help="List every case that is not right and unchanged.")
@click.option("--step", default=1, help="Run every N-th case only.")
@click.option("--name", default="", help="Run the cases of which the name has this part.")
def main(failures: bool, step: int, name: str) -> None:
    """Print how many cases come to which end."""
    ends: Counter[str] = Counter()
    imported: Counter[str] = Counter()
    cases = [case for case in node_cases()[::step] if name in case.name]
    for case in cases:
        end, why, first, exported = _in_process(lambda case=case: _end(case))
        ends[end] += 1
        if first is not None:
            imported[f"importer: {_word(first)} from the first file, {_word(exported)} from the exported one"] += 1
        if failures and (end != RIGHT or first != exported):
            print(f"{end}: {case.name}: {why} (importer {first} {exported})", flush=True)
    for counts in (ends, imported):
        for end, count in counts.most_common():
            print(f"| {end} | {count} |")
    print(f"| all | {len(cases)} |")


def _word(is_right: bool) -> str:
    return "right" if is_right else "not right"


def _in_process(work: Callable[[], Any]) -> Any:
    """What ``work`` returns in a process of its own."""
    read, write = os.pipe()
    process = os.fork()
    if not process:
        os.close(read)
        try:
            found = work()
        except BaseException as error:  # a fault of the script is a row
            found = "the script failed", repr(error), None, None
        with os.fdopen(write, "wb") as file:
            pickle.dump(found, file)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        data = file.read()
    os.waitpid(process, 0)
    return pickle.loads(data) if data else ("the process ended", "", None, None)  # from ourselves


def _end(case: Case) -> tuple[str, str, bool | None, bool | None]:
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    try:
        ir = converter.convert_model(case.model, target="any")
        exported = converter.export_model(ir)
    except converter.InternalError:
        raise
    except converter.ConversionError as error:
        return REFUSED, str(error)[:200], None, None
    try:
        onnx.checker.check_model(exported, full_check=True)
    except Exception as error:
        return "refused by onnx's checker", str(error)[:200], None, None
    first = _imported(case, case.model)
    again = _imported(case, converter.export_model(ir, inline_functions=True))
    try:
        wrong = _differs(case, exported)
    except Exception as error:
        return "refused by onnxruntime", str(error)[:200], first, again
    if wrong:
        return "wrong in onnxruntime", wrong, first, again
    found = second_pass(exported)
    changes = f"{found.only_first[:2]} {found.only_second[:2]} {found.changed[:2]}"[:300]
    return (RIGHT, "", first, again) if found.same else (CHANGED, changes, first, again)


def _differs(case: Case, exported: onnx.ModelProto) -> str:
    """How onnxruntime's outputs differ from the stored ones; empty where they do not."""
    session = onnxruntime.InferenceSession(exported.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    for inputs, outputs in case.data_sets:
        given = _given(case, inputs)
        feeds = {one.name: given[one.name] for one in session.get_inputs()}
        found = dict(zip(names, ort_values.run(session, feeds)))
        for declared, expected in zip(case.model.graph.output, outputs):
            wrong = difference(found[declared.name], as_array(expected))
            if wrong:
                return wrong
    return ""


def _imported(case: Case, model: onnx.ModelProto) -> bool:
    """Whether OpenVINO's importer reads a model, and its runtime computes the stored outputs."""
    try:
        core = openvino.Core()
        compiled = core.compile_model(
            core.read_model(model.SerializeToString()), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
        )
        for inputs, outputs in case.data_sets:
            given = _given(case, inputs)
            found = compiled({name: value for name, value in given.items() if name in _names(compiled.inputs)})
            for declared, expected in zip(case.model.graph.output, outputs):
                if difference(found[declared.name], as_array(expected)):
                    return False
    except Exception:
        return False
    return True


def _names(ends: Any) -> set[str]:
    return {name for end in ends for name in end.names}


def _given(case: Case, inputs: list[Any]) -> dict[str, Any]:
    stored = {one.name for one in case.model.graph.initializer}
    names = [one.name for one in case.model.graph.input if one.name not in stored]
    return dict(zip(names, [np.asarray(as_array(value)) for value in inputs]))


if __name__ == "__main__":
    main()
