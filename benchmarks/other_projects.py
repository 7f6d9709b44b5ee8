"""Test models of other projects, converted and run beside the values that belong to them.

FOLDER holds ``models/`` and ``cases.json`` with ``values.npz``: models, inputs, and the expected outputs by name.
Each case is converted, and its IR is run in NumPy and in OpenVINO. What must be refused, and what has no values, must
end in a model or in a ``ConversionError``. A folder without ``cases.json`` is searched for models, which run on random
inputs beside onnxruntime; those that onnxruntime does not take are left out.

Cases are tried in a process that is started again where a runtime crashes.

    python benchmarks/other_projects.py FOLDER [--numpy-only] [--only TEXT] [--jobs N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import queue
import sys
import time
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

import quiet_peers  # noqa: F401

import converter
import ir_runtime
from converter.equivalence.comparison.compare import tolerance_for
from ir_runtime.graph.element_types import element_type

Case = dict[str, Any]
Row = dict[str, Any]

_SECONDS = 60


def main() -> None:
    """Run every case; print counts and each failure with its reason."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("folder", type=Path, help="what an archive of models was unpacked to")
    arguments.add_argument("--numpy-only", action="store_true", help="leave OpenVINO out")
    arguments.add_argument("--only", default="", help="cases whose test or file has this in its name")
    arguments.add_argument("--jobs", type=int, default=2, help="processes at once")
    arguments.add_argument("--json", type=Path, help="every verdict, as JSON")
    given = arguments.parse_args()
    cases = [case for case in _cases(given.folder) if given.only in case["test"] or given.only in case["file"]]
    engines = ["numpy"] if given.numpy_only else ["numpy", "openvino"]
    with ThreadPoolExecutor(given.jobs) as pool:
        parts = pool.map(
            lambda part: list(_run(given.folder, part, engines)), [cases[i :: given.jobs] for i in range(given.jobs)]
        )
        rows = sorted((row for part in parts for row in part), key=lambda row: row["number"])
    if given.json:
        given.json.write_text(json.dumps(rows, indent=0))
    _report(rows, engines)


def _cases(folder: Path) -> list[Case]:
    """The cases of a folder, each with its number and group."""
    table = folder / "cases.json"
    if not table.is_file():
        found = [{"test": "", "file": str(p.relative_to(folder))} for p in sorted(folder.rglob("*.onnx"))]
        return [{"number": i, "group": "random inputs", "doubt": "", **case} for i, case in enumerate(found)]
    stored = json.loads(table.read_text())
    found = [{**case, "group": "bent" if case["bent"] else "sound"} for case in stored["cases"]]
    found += [{"doubt": "", **case, "group": "to be refused"} for case in stored["refuse"]]
    found += [{"test": "", "doubt": "", **case, "group": "without values"} for case in stored["none"]]
    return [{"number": i, **case} for i, case in enumerate(found)]


def _report(rows: Sequence[Row], engines: Sequence[str]) -> None:
    groups = list(dict.fromkeys(row["group"] for row in rows))
    print("| cases | engine | number | as expected | otherwise |")
    print("| --- | --- | ---: | ---: | --- |")
    total = {engine: Counter[str]() for engine in engines}
    for group in groups:
        for engine in engines:
            verdicts = [row["verdicts"][engine] for row in rows if row["group"] == group if engine in row["verdicts"]]
            verdicts = [verdict for verdict in verdicts if verdict != "left out"]
            if not verdicts:
                continue
            counter = Counter(verdict.partition(":")[0] for verdict in verdicts)
            if group in ("sound", "bent"):
                total[engine].update(counter)
            right = counter.pop("right", 0)
            others = ", ".join(f"{count} {kind}" for kind, count in sorted(counter.items()))
            print(f"| {group} | {engine} | {len(verdicts)} | {right} | {others} |")
    for engine, counter in total.items():
        if counter:
            others = ", ".join(f"{count} {kind}" for kind, count in sorted(counter.items()) if kind != "right")
            print(f"| all with values | {engine} | {counter.total()} | {counter['right']} | {others} |")
    print()
    for row in rows:
        wrong = {engine: v for engine, v in row["verdicts"].items() if v not in ("right", "left out")}
        for verdict in dict.fromkeys(wrong.values()):
            where = "+".join(engine for engine, other in wrong.items() if other == verdict)
            doubt = f" [in doubt: {row['doubt']}]" if row["doubt"] else ""
            print(f"- {row['file']} {row['test']} ({row['group']}, {where}): {verdict}{doubt}")


def _run(folder: Path, cases: Sequence[Case], engines: Sequence[str]) -> Iterator[Row]:
    """A row for each case, out of processes that may crash."""
    left = list(cases)
    context = multiprocessing.get_context("spawn")
    while left:
        found: Any = context.Queue()
        process = context.Process(target=_work, args=(found, folder, left, list(engines)))
        process.start()
        row: Row = {}
        since = time.monotonic()
        while True:
            try:
                kind, content = found.get(timeout=2)
            except queue.Empty:
                if process.is_alive() and time.monotonic() - since < _SECONDS:
                    continue
                kind, content = "lost", "took too long" if process.is_alive() else f"crashed ({process.exitcode})"
            since = time.monotonic()
            if kind == "case":
                left.pop(0)
                row = content
            elif kind == "verdict":
                row["verdicts"].update(content)
            if kind in ("done", "lost"):
                if kind == "lost":
                    missing = [engine for engine in engines if engine not in row.get("verdicts", engines)]
                    row.get("verdicts", {}).update(dict.fromkeys(missing[:1], content))
                if row:
                    yield row
                row = {}
            if kind in ("end", "lost"):
                break
        process.kill()
        process.join()


def _work(found: Any, folder: Path, cases: Sequence[Case], engines: Sequence[str]) -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    logging.disable(logging.CRITICAL)
    values = dict(np.load(folder / "values.npz")) if (folder / "values.npz").is_file() else {}
    for case in cases:
        kept = {name: case[name] for name in ("number", "file", "test", "group", "doubt")}
        found.put(("case", {**kept, "verdicts": {}}))
        for verdict in _verdicts(folder, case, values, engines):
            found.put(("verdict", verdict))
        found.put(("done", None))
    found.put(("end", None))


def _verdicts(
    folder: Path, case: Case, values: Mapping[str, np.ndarray], engines: Sequence[str]
) -> Iterator[dict[str, str]]:
    """What became of a case, engine by engine."""
    is_random = case["group"] == "random inputs"
    path = folder / case["file"] if is_random else folder / "models" / case["file"]
    if is_random and not _taken_by_onnxruntime(path):
        yield dict.fromkeys(engines, "left out")
        return
    may_be_refused = case["group"] in ("to be refused", "without values")
    try:
        model = converter.convert_model(path)
        written = ir_runtime.model_to_bytes(model)
    except converter.InternalError as error:
        yield dict.fromkeys(engines, f"internal error: {_line(error)}")
        return
    except (converter.ConversionError, ir_runtime.ModelError) as error:
        yield {engines[0]: "right"} if may_be_refused else dict.fromkeys(engines, f"refused: {_line(error)}")
        return
    except Exception as error:
        yield dict.fromkeys(engines, f"raw exception: {error!r}")
        return
    if may_be_refused:
        why = case.get("why", "")[:160]
        yield {engines[0]: "right" if case["group"] == "without values" else f"converted: {why}"}
        return
    for engine in engines:
        try:
            if is_random:
                wrong = _beside_onnxruntime(path, model, engine)
            else:
                feeds = {name: _array(one, values) for name, one in case["inputs"].items()}
                got = (_run_numpy if engine == "numpy" else _run_openvino)(written, feeds)
                wrong = _difference(case, got, values)
            yield {engine: f"differs: {wrong[:400]}" if wrong else "right"}
        except converter.VerificationError as error:
            yield {engine: f"not verified: {_line(error)}"}
        except Exception as error:
            yield {engine: f"not run: {_line(error)}"}


_INTEGERS = ("", "0..1", "zeros", "ones")
"""What integer inputs are filled with, one after the other, until both sides take it: indices, axes, lengths."""


def _beside_onnxruntime(path: Path, model: ir_runtime.Model, engine: str) -> str:
    ports = [node.outputs[0] for node in model.parameters]
    names = [port.names[0] for port in ports if port.element_type.is_integral]
    failed = None
    for values in _INTEGERS if names else _INTEGERS[:1]:
        chosen = dict.fromkeys(names, values) if values else None
        try:
            report = converter.verify(path, model, engine=engine, layers=False, weights=False, values=chosen)
        except converter.VerificationError as error:
            failed = failed or error
            continue
        return "; ".join(f"'{one.name}': {one.reason}" for one in report.outputs if not one.passed)
    raise failed or AssertionError


def _taken_by_onnxruntime(path: Path) -> bool:
    import onnxruntime

    try:
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception:
        return False
    return True


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:400]


def _array(stored: Mapping[str, Any], values: Mapping[str, np.ndarray]) -> np.ndarray:
    if "text" in stored:
        return np.array(stored["text"], dtype=object).reshape(stored["shape"])
    return values[stored["key"]]


def _difference(case: Case, got: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> str:
    """The first output that is not what belongs to the case, and how; none where all are."""
    for one in case["outputs"]:
        name, value = one["name"], _array(one, values)
        if name not in got:
            return f"no output '{name}', but {sorted(got)}"
        actual = got[name]
        if actual.shape != value.shape and not (one["anyshape"] and actual.size == value.size):
            return f"'{name}' has the shape {actual.shape}, expected {value.shape}"
        if value.dtype.kind in "OU":
            if actual.reshape(-1).tolist() != value.reshape(-1).tolist():
                return f"'{name}' is {actual.reshape(-1)[:6]}, expected {value.reshape(-1)[:6]}"
            continue
        limit = tolerance_for(value.dtype)
        absolute = max(limit.absolute, case["tol"] if isinstance(case["tol"], float) else 0.0)
        ours, theirs = (np.asarray(a).astype(np.float64).reshape(-1) for a in (actual, value))
        finite = np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)
        allowed = absolute + limit.relative * np.maximum(np.abs(theirs), limit.of_largest * finite)
        close = (np.abs(ours - theirs) <= allowed) | (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        if not close.all():
            place = int(np.flatnonzero(~close)[0])
            return (
                f"'{name}' in {np.count_nonzero(~close)} of {close.size} values, "
                f"first {ours[place]:.7g} at {place}, expected {theirs[place]:.7g}"
            )
    return ""


def _given(feeds: Mapping[str, np.ndarray], ports: Sequence[Collection[str]], kinds: Sequence[str]) -> list[np.ndarray]:
    """The values of each input in its element type: the archive keeps those of narrow types as wider ones."""
    found = [next(value for name, value in feeds.items() if name in names) for names in ports]
    return [value.astype(element_type(kind).dtype) for value, kind in zip(found, kinds)]


def _run_numpy(written: tuple[bytes, bytes], feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    model = ir_runtime.read_model(*written)
    ports = [node.outputs[0] for node in model.parameters]
    given = _given(feeds, [port.names for port in ports], [port.element_type.name for port in ports])
    found = ir_runtime.compile_model(model)(given).to_list()
    names = [[*node.output_names, *node.inputs[0].names] for node in model.results]
    return {name: value for known, value in zip(names, found) for name in known}


def _run_openvino(written: tuple[bytes, bytes], feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs in OpenVINO, whose plug-in takes inputs of an unknown rank only after a reshape."""
    from tests.engines import array_of, core, openvino_tensor

    xml, weights = written
    model = core().read_model(xml, weights) if weights else core().read_model(xml)
    kinds = [port.element_type.get_type_name() for port in model.inputs]
    given = _given(feeds, [port.get_names() for port in model.inputs], kinds)
    if any(port.get_partial_shape().rank.is_dynamic for port in model.inputs):
        model.reshape({index: list(value.shape) for index, value in enumerate(given)})
    compiled = core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    request.infer([openvino_tensor(value) for value in given])
    found = [(port.get_names(), array_of(request.get_output_tensor(i))) for i, port in enumerate(compiled.outputs)]
    return {name: value for names, value in found for name in names}


if __name__ == "__main__":
    main()
