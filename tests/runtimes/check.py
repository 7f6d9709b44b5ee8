"""Run a row in its runtimes, and hold each of them to what is known of it."""

from __future__ import annotations

import fnmatch
import functools
import re
import zlib
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from unittest import TestCase

import pytest
import tomllib

import converter
import ir_runtime
from tests.engines import HAS_AVX512, silence
from tests.rows.layer import Layer
from tests.rows.row import Row
from tests.runtimes import conversions
from tests.runtimes.batches import Batches, Run
from tests.runtimes.layers import IN_OPENVINO, LAYERS, LayerWork, runtimes_of_layer
from tests.runtimes.suite import OF_THE_SUITE
from tests.runtimes.work import IR, NotApplicable, Runtime, Work

ALWAYS: Mapping[str, Runtime] = {"openvino": conversions.openvino}
"""Runtimes of every row."""
IN_FULL: Mapping[str, Runtime] = {
    "numpy": conversions.numpy,
    "plain": conversions.plain,
    "openvino of open dimensions": conversions.openvino_of_open_dimensions,
}
"""Runtimes of every row with ``--full``; otherwise each row takes one of them."""
IN_TURN: Mapping[str, Runtime] = {
    "opened": conversions.opened,
    "reshaped": conversions.reshaped,
    "without fusion": conversions.without_fusion,
    "exact": conversions.exact,
    "static": conversions.static,
    "release 2023.3": conversions.release_2023_3,
    "exported": conversions.exported,
    "there and back": conversions.there_and_back,
    "optimized": conversions.optimized,
    "optimized for onnxruntime": conversions.optimized_for_onnxruntime,
}
"""Runtimes of which each row takes one, and with ``--routes`` all."""
SUITE = "suite/node/"
"""The family whose rows take :data:`OF_THE_SUITE` as well, by default one of them in turn."""
SLOW = (("other sizes", "other sizes in OpenVINO"), ("OpenVINO's importer",))
"""Those of them of which a row leaves out one group in turn with ``--full``."""
AFTER = {
    **dict.fromkeys(OF_THE_SUITE, ("openvino", "plain")),
    "second pass": ("plain", "exported"),
    "OpenVINO's importer": (),
    "exported layers of the lowest opset": ("exported layers",),
}
"""Runtimes, and those without which they show nothing: a row with which one of these is known to fail takes none."""
LEFT_OUT = ("it ends the process: ", "it is undefined: ")
"""Begins of the reasons of rows that a runtime does not take: nothing would run behind them, or they may do anything."""
takes_all = False
"""True if each row takes all runtimes; ``conftest.py`` sets it."""
is_full = False
"""True if each row takes those of :data:`IN_FULL`; ``conftest.py`` sets it."""


@functools.cache
def known() -> Mapping[str, Mapping[str, str]]:
    """Return what each runtime is known not to do: the reasons by patterns on names of rows.

    A table is called by the runtimes that it is of, or "all but" and the others of our conversions.
    """
    result: dict[str, dict[str, str]] = {name: {} for name in (*ALWAYS, *IN_FULL, *IN_TURN, *OF_THE_SUITE, *LAYERS)}
    conversions_of_ours = result.keys() - LAYERS.keys() - {"OpenVINO's importer"}
    for title, patterns in tomllib.loads(Path(__file__).with_name("known.toml").read_text()).items():
        runtimes, processors = re.fullmatch(r"(.*?)(?: (with|without) AVX-512)?", title).groups()  # type: ignore[union-attr]
        names = runtimes.removeprefix("all but ").split(", ")
        unknown = set(names) - result.keys()
        assert not unknown, f"known.toml has tables of runtimes that there are not: {unknown}"
        for name in conversions_of_ours - set(names) if title.startswith("all but ") else names:
            if processors in (None, "with" if HAS_AVX512 else "without"):
                result[name].update(patterns)
    return result


def reason_of(runtime: str, name: str) -> str:
    """Return why a runtime is known to fail with a row; empty where it is not."""
    pattern, reasons = _pattern_of(runtime)
    found = pattern.match(name)
    return reasons[found.lastindex - 1] if found and found.lastindex else ""


@functools.cache
def _pattern_of(runtime: str) -> tuple[re.Pattern[str], list[str]]:
    """Return one pattern, of which each group stands for a reason."""
    patterns = known()[runtime]
    return re.compile("|".join(f"({fnmatch.translate(pattern)})" for pattern in patterns)), list(patterns.values())


def runtimes_of(row: Row) -> dict[str, Runtime]:
    """Return the runtimes that a row takes."""
    of_the_suite = OF_THE_SUITE if row.name.startswith(SUITE) else {}
    if takes_all:
        return {**ALWAYS, **IN_FULL, **IN_TURN, **of_the_suite}
    turn = zlib.crc32(row.name.encode())
    result = {**ALWAYS, **_in_turn(IN_TURN, turn)}
    turn //= len(IN_TURN)
    if not is_full:
        return {**result, **_in_turn(IN_FULL, turn), **_in_turn(of_the_suite, turn)}
    slow = SLOW[turn % len(SLOW)]
    return {**result, **IN_FULL, **{name: run for name, run in of_the_suite.items() if name not in slow}}


def _in_turn(runtimes: Mapping[str, Runtime], turn: int) -> Mapping[str, Runtime]:
    """Return one of the runtimes."""
    return dict([list(runtimes.items())[turn % len(runtimes)]]) if runtimes else {}


_works: dict[str, Work] = {}
"""The rows of the batch that ran last, until they are checked."""


def _prepare(row: Row | Layer) -> dict[str, Run]:
    """Return the runs of a row in OpenVINO; those that are known to fail are run alone."""
    work: Work
    if isinstance(row, Layer):
        runtimes = {attribute: name for name, attribute in IN_OPENVINO.items()}
        work = _works[row.name] = LayerWork(row)
    elif row.refused or row.warns:
        return {}
    else:
        runtimes = {"ir": "openvino", "opened_ir": "openvino of open dimensions"}
        work = _works[row.name] = Work(row)
    taken = LAYERS if isinstance(row, Layer) else runtimes_of(row)
    kept = [name for name, runtime in runtimes.items() if runtime in taken and not reason_of(runtime, row.name)]
    return {name: Run(getattr(work, name), work.feeds, work.names) for name in kept}


BATCHES = Batches(_prepare)


def check(row: Row) -> None:
    """Run a row in its runtimes; raises AssertionError that lists those that fail, or no longer fail, as they should."""
    if row.refused:
        with pytest.raises(converter.ConversionError, match=row.refused) as caught:
            converter.convert_model(row.model)
        assert row.text or "node 'node'" in str(caught.value), "the error does not name the node"
        return
    together = BATCHES.take(row.name)
    work = _works.pop(row.name, None) or Work(row)
    work.together = together
    if row.warns:
        with TestCase().assertLogs("converter", "WARNING") as logged:
            assert work.ir
        assert len(logged.output) == 1, logged.output
        assert row.warns in logged.output[0]
    if row.layers is not None:
        has_revisions = any("-" in name for name in row.layers)
        assert [name if has_revisions else name.partition("-")[0] for name in _layers(work.ir)] == list(row.layers)
    if row.absent or row.count is not None:
        found = _layers(work.plain)
        assert not any(name.startswith(f"{row.absent}-") for name in found), found
        assert row.count in (None, len(found)), found
    faults = _faults(work, runtimes_of(row))
    assert not faults, "\n".join(faults)


def check_layer(layer: Layer) -> None:
    """Run a layer in its runtimes, as :func:`check` does."""
    together = BATCHES.take(layer.name)
    work = _works.pop(layer.name, None) or LayerWork(layer)
    work.together = together
    faults = _faults(work, runtimes_of_layer(layer))
    assert not faults, "\n".join(faults)


def _faults(work: Work, runtimes: Mapping[str, Runtime]) -> list[str]:
    """Return how runtimes fail that should not, and those that no longer fail."""
    faults = []
    for name, runtime in runtimes.items():
        reason = reason_of(name, work.row.name)
        if reason.startswith(LEFT_OUT) or any(reason_of(other, work.row.name) for other in AFTER.get(name, ())):
            continue
        try:
            fault = fault_of(work, runtime, is_silent=name != "numpy")
        except NotApplicable:
            continue
        if fault and (not reason or fault.startswith("InternalError")):
            faults.append(f"{name}: {fault}")
        elif reason and not fault:
            faults.append(f"{name}: it computes what it should, but known.toml says: {reason}")
    return faults


def _layers(ir: IR) -> list[str]:
    nodes = [node for part in ir_runtime.read_model(*ir).all_models() for node in part.nodes()]
    return [f"{node.op.type}-{node.op.opset}" for node in nodes if not node.op.role]


def fault_of(work: Work, runtime: Runtime, *, is_silent: bool = True) -> str:
    """Return how a runtime fails; empty where it does not, and where onnxruntime fails alike with the row's model.

    Raises NotApplicable where the row is not of its kind.
    """
    outputs = None
    try:
        with silence() if is_silent else nullcontext():
            outputs = runtime(work)
            work.compare(outputs)
    except NotApplicable:
        raise
    except Exception as error:  # the errors of engines share no base class of their own
        is_by_onnxruntime = runtime in conversions.IN_ONNXRUNTIME and not isinstance(error, ir_runtime.ModelError)
        if is_by_onnxruntime and work.is_as_by_onnxruntime(outputs):
            return ""
        return f"{type(error).__name__}: {error}"
    return ""
