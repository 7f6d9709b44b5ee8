"""Targets of a release: older operations of the same numbers, the rules that run, and what is refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.conversion import convert
from converter.passes.decomposition.registry import DECOMPOSITIONS
from converter.targets.registry import RULES, Target
from tests.converter.targets.models import MEASURED, RULED, rounded_up, shifted
from tests.converter.to_onnx.single_layers import model_of
from tests.engines import ENGINES, assert_close, run
from tests.random_data import generator
from tests.rows.layer import Layer
from tests.rows.row import const, graphs
from tests.rows.table import layer_table
from tests.runtimes.check import reason_of
from tests.runtimes.work import Work

from . import probes
from .probes.rows import Probe, probe, single


def newest(model: ir_runtime.Model) -> int:
    """The opset of the newest operation."""
    return max(node.op.opset for part in model.all_models() for node in part.nodes())


X = generator(1).normal(size=(2, 400, 1)).astype(np.float32)
TWICE = "g (float[3] x) => (float[3] y, float[3] z, float[3] again) { y = Identity(x) z = Relu(x) again = Identity(z) }"
OLDER = [
    rounded_up("no window after the data", "MaxPool", [2, 3], [2, 2], [0, 0, 0, 1]),
    probe("padded", "", single("CenterCropPad", 18, x=X[0, :20].reshape(5, 4), shape=const([8, 3]))),
    probe("returned twice", "", graphs(TWICE, label="", x=np.array([-1, 0, 2], np.float32))),
]
"""Models whose plain layers every release has."""
NEWER = [
    probe(
        f"STFT, {dims}",
        "",
        single("STFT", 17, x=X, step=const(50), window=const(np.hanning(128), np.float32), dims=dims),
    )
    for dims in (None, {"x": [None, None, 1]})
]
"""Models whose layers older releases do not have, and that are decomposed."""
LIMITED = {rule.name: rule for pipeline in RULES for rule in pipeline.all() if rule.since or rule.until}


@pytest.mark.parametrize("row", [*RULED, *OLDER, *NEWER], ids=str)
def test_older_operations_compute_the_same(row: Probe) -> None:
    work = Work(row.row)
    for target in ("cpu@2023.3", "cpu")[: 2 if row in RULED else 1]:
        made = converter.convert_model(work.model, target=target)
        assert newest(made) <= 13 or target == "cpu"
        for engine in ENGINES:
            values = run(engine, ir_runtime.model_to_bytes(made), work.feeds, work.names)
            for value, expected in zip(values, work.expected, strict=True):  # the plug-in shifts 64 bits in float32
                np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4, err_msg=f"{target}, {engine}")


def rules_for(model: onnx.ModelProto, target: str) -> dict[str, int]:
    """How many layers each rule replaced in a conversion for ``target``."""
    return dict(convert(model, converter.ConversionOptions(target=target)).rules)


@pytest.mark.parametrize("release", MEASURED)
@pytest.mark.parametrize("row", [row for row in (*RULED, *probes.ALL) if row.rule in LIMITED], ids=str)
def test_a_release_runs_the_rules_whose_reason_was_seen_in_it(row: Probe, release: str) -> None:
    model, _ = row.build()
    assert (row.rule in rules_for(model, f"cpu@{release}")) == (release in LIMITED[row.rule].seen_in)


@pytest.mark.parametrize(
    ("rule", "right", "wrong"),
    [("matmul_by_stacked_weights", "2025.0", "2025.4"), ("tile_dynamic_dimensions", "2026.0", "2026.4")],
)
def test_a_rule_begins_after_the_last_release_that_is_right(rule: str, right: str, wrong: str) -> None:
    model, _ = next(row for row in probes.ALL if row.rule == rule).build()
    assert rule not in rules_for(model, f"cpu@{right}")
    assert rule in rules_for(model, f"cpu@{wrong}")
    assert rule in rules_for(model, "cpu")


@pytest.mark.parametrize(("target", "runs"), [("cpu@2024.5", True), ("cpu@2024.6", False), ("cpu", False)])
@pytest.mark.parametrize("row", RULED, ids=str)
def test_rules_for_older_operations_run_up_to_2024_5(row: Probe, target: str, runs: bool) -> None:
    assert (row.rule in rules_for(row.build()[0], target)) == runs


DECOMPOSED = [
    call for call in layer_table()
    if call.op.opset > 13 and type(call.op) in DECOMPOSITIONS.entries()
    and not reason_of("decomposed layers", call.name)
]  # fmt: skip


@pytest.mark.parametrize("call", DECOMPOSED, ids=lambda call: call.label)
def test_operations_that_a_release_does_not_have_are_decomposed(call: Layer) -> None:
    model, feeds = model_of(call)
    counts = Target.parse("cpu@2023.3").apply(model)
    assert sum(counts.values()) >= 1
    assert newest(model) <= 13
    names = [f"y{index}" for index in range(len(call.outputs))]
    for engine in ENGINES:
        for value, expected in zip(run(engine, ir_runtime.model_to_bytes(model), feeds, names), call.outputs):
            assert_close(value, expected, atol=1e-4)


def test_no_newer_operation_is_written_without_need() -> None:
    for row in OLDER:
        assert newest(converter.convert_model(row.build()[0])) <= 13


def test_what_a_release_does_not_have_is_named() -> None:
    model, _ = shifted("", [3, 4, 5, 11, 12, 13]).build()
    assert newest(converter.convert_model(model, target="cpu@2024.6")) == 15
    with pytest.raises(
        converter.ConversionError, match=r"cpu@2023\.3 has operations up to opset 13.*BitwiseRightShift-15"
    ):
        converter.convert_model(model, target="cpu@2023.3")


@pytest.mark.parametrize(
    ("target", "message"),
    [("gpu", "there is no target 'gpu'"), ("cpu@2021.4", "older than 2023.3"), ("cpu@", "there is no target 'cpu@'")],
)
def test_targets_that_are_none(target: str, message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(OLDER[1].build()[0], target=target)
