"""The plain layers that rules say differently: what they are, their numbers, and what the plug-in makes of them.

The day one of the probes passes, the plug-in has been mended, and the rule can go.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import converter
import ir_runtime
from tests.engines import assert_close, check_node, output_names, run_numpy, run_onnxruntime, run_openvino
from tests.targets.probes_layers import CRASHING, REFUSED, WRONG, Probe, Row

ALL = [*WRONG, *REFUSED, *CRASHING]


def expected(row: Row, probe: Probe) -> list[np.ndarray[Any, Any]]:
    return list(row.expected) if row.expected is not None else run_onnxruntime(*probe)


@pytest.mark.parametrize("row", ALL, ids=str)
def test_the_plain_layers_say_the_operator(row: Row) -> None:
    model, feeds = row.build()
    made = converter.convert_model(model, target="any")
    apart = ("Const", "Parameter", "Result")
    layers = [node.op.type for part in made.all_models() for node in part.nodes() if node.op.type not in apart]
    assert " ".join(layers) == row.layers
    actual = run_numpy(ir_runtime.model_to_bytes(made), feeds)
    for value, want in zip(actual, expected(row, (model, feeds)), strict=True):
        assert_close(value, want)


@pytest.mark.parametrize("row", ALL, ids=str)
def test_the_rules_make_the_plug_in_right(row: Row) -> None:
    model, feeds = row.build()
    check_node(model, feeds, expected(row, (model, feeds)))


def test_tables_of_two_bits_stay_stored() -> None:
    """Four bits an element, and not the integers that carry what comes at run time."""
    row = next(row for row in ALL if row.name == "gathered_tables")
    model, _ = row.build()
    layers = converter.convert_model(model).nodes()
    tables = [node.inputs[0] for node in layers if node.op.type == "Gather"]
    assert [str(table.element_type) for table in tables] == ["u4", "f32"]


def run_plain(row: Row) -> None:
    """The plain layers in the real plug-in, held against what they mean."""
    model, feeds = row.build()
    ir = ir_runtime.model_to_bytes(converter.convert_model(model, target="any"))
    wanted = expected(row, (model, feeds))
    for value, want in zip(run_openvino(ir, feeds, output_names(model)[: len(wanted)]), wanted, strict=True):
        assert_close(value, want)


@pytest.mark.parametrize("row", WRONG, ids=str)
@pytest.mark.xfail(strict=True, raises=AssertionError, reason="seen in OpenVINO 2026.4")
def test_the_plug_in_computes_the_plain_layers(row: Row) -> None:
    run_plain(row)


@pytest.mark.parametrize("row", REFUSED, ids=str)
@pytest.mark.xfail(strict=True, raises=RuntimeError, reason="seen in OpenVINO 2026.4")
def test_the_plug_in_takes_the_plain_layers(row: Row) -> None:
    run_plain(row)


@pytest.mark.parametrize("row", CRASHING, ids=str)
@pytest.mark.xfail(strict=True, raises=subprocess.CalledProcessError, reason="seen in OpenVINO 2026.4")
def test_the_plug_in_survives_the_plain_layers(row: Row) -> None:
    """In a process of its own."""
    script = (
        "from tests.targets.probes_layers import CRASHING; from tests.targets.test_plain_layers import run_plain; "
        f"run_plain(next(row for row in CRASHING if row.name == {row.name!r}))"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", script], cwd=root, check=True, capture_output=True, timeout=120)
