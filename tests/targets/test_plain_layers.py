"""The plain layers that rules replace: what they are, their numbers, and what the plug-in makes of them.

A probe of a rule that the installed release needs is expected to fail: where one passes, the plug-in has been mended,
and the rule gets ``until``. Probes of rules that this release does not need are expected to be right.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import converter
import ir_runtime
from converter.conversion import convert
from tests.engines import HAS_AVX512, assert_close, check_node, output_names, run_numpy, run_onnxruntime, run_openvino
from tests.targets.installed import NEEDED
from tests.targets.probes import ALL, CRASHING, REFUSED, WRONG
from tests.targets.probes.rows import Probe, Row

NEEDED_RULE = (
    "the plug-in fails on the plain layers; where this passes, it does not: give the rule until, or the row other values "
    "(rows of slow layers belong in tests/targets/speed_probes.py)"
)


def expected(row: Row, probe: Probe) -> list[np.ndarray[Any, Any]]:
    return list(row.expected) if row.expected is not None else run_onnxruntime(*probe)


@pytest.mark.parametrize("row", ALL, ids=str)
def test_the_plain_layers_are_the_operator(row: Row) -> None:
    model, feeds = row.build()
    made = converter.convert_model(model, target="any")
    others = ("Const", "Parameter", "Result")
    layers = [node.op.type for part in made.all_models() for node in part.nodes() if node.op.type not in others]
    assert " ".join(layers) == row.layers, "name the layers of target='any' in the row"
    actual = run_numpy(ir_runtime.model_to_bytes(made), feeds)
    for value, want in zip(actual, expected(row, (model, feeds)), strict=True):
        assert_close(value, want)


@pytest.mark.parametrize("row", ALL, ids=str)
def test_the_rules_make_the_plug_in_right(row: Row) -> None:
    model, feeds = row.build()
    check_node(model, feeds, expected(row, (model, feeds)))
    found = convert(model)
    assert found.rules.get(row.rule), f"the rule {row.rule} does not apply to its row; -v shows the reasons"


def test_tables_of_two_bits_stay_stored() -> None:
    """Four bits an element, and not the wider integers that hold tables given at run time."""
    row = next(row for row in ALL if row.name == "gather_from_2_bit_tables")
    model, _ = row.build()
    layers = converter.convert_model(model).nodes()
    tables = [node.inputs[0] for node in layers if node.op.type == "Gather"]
    assert [str(table.element_type) for table in tables] == ["u4", "f32"]


def run_plain(row: Row) -> None:
    """The plain layers in the real plug-in, compared with ONNX's numbers."""
    model, feeds = row.build()
    ir = ir_runtime.model_to_bytes(converter.convert_model(model, target="any"))
    wanted = expected(row, (model, feeds))
    for value, want in zip(run_openvino(ir, feeds, output_names(model)[: len(wanted)]), wanted, strict=True):
        assert_close(value, want)


def needed(rows: Sequence[Row]) -> list[Row]:
    """Those whose rules the installed release needs."""
    return [row for row in rows if row.rule in NEEDED]


def test_the_plug_in_computes_the_plain_layers_of_rules_that_it_does_not_need() -> None:
    for row in ALL:
        if row.rule not in NEEDED:
            run_plain(row)


@pytest.mark.parametrize("row", needed(WRONG), ids=str)
@pytest.mark.xfail(strict=True, raises=AssertionError, reason=NEEDED_RULE)
def test_the_plug_in_computes_the_plain_layers(row: Row) -> None:
    run_plain(row)


WITH_AVX512 = {"layers_of_narrow_types: bf16 in groups"}
"""Layers that the plug-in refuses with AVX-512, with which it computes bfloat16 itself."""


def _refused(row: Row) -> Any:
    mark = pytest.mark.xfail(strict=True, raises=RuntimeError, reason=NEEDED_RULE)
    return pytest.param(row, marks=mark if HAS_AVX512 or row.name not in WITH_AVX512 else (), id=str(row))


@pytest.mark.parametrize("row", [_refused(row) for row in needed(REFUSED)])
def test_the_plug_in_takes_the_plain_layers(row: Row) -> None:
    run_plain(row)


@pytest.mark.parametrize("row", needed(CRASHING), ids=str)
@pytest.mark.xfail(strict=True, raises=subprocess.CalledProcessError, reason=NEEDED_RULE)
def test_the_plug_in_survives_the_plain_layers(row: Row) -> None:
    """In a process of its own."""
    script = (
        "from tests.targets.probes import CRASHING; from tests.targets.test_plain_layers import run_plain; "
        f"run_plain(next(row for row in CRASHING if row.name == {row.name!r}))"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", script], cwd=root, check=True, capture_output=True, timeout=120)
