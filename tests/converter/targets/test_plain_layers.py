"""The plain layers that rules replace, and targets of a release: the rules that run, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.conversion import convert
from converter.passes.decomposition.registry import DECOMPOSITIONS
from converter.targets.registry import RULES, Target, openvino_cpu
from ir_runtime.rewriting.pipeline import release_of
from tests.converter.targets.models import MEASURED, NEEDED, RULED, SLOW, SpeedRow, rounded_up, shifted
from tests.converter.targets.probes import ALL, CRASHING, REFUSED, WRONG, arithmetic
from tests.converter.targets.probes.rows import Probe, probe, run_plain, single
from tests.converter.to_onnx.graphs import model_of
from tests.engines import ENGINES, HAS_AVX512, assert_close, run
from tests.random_data import generator
from tests.rows.layer import Layer
from tests.rows.row import const, graphs
from tests.rows.table import layer_table
from tests.runtimes.check import reason_of
from tests.runtimes.work import Work

NEEDED_RULE = "the plug-in fails on the plain layers; where it does not, give the rule until, or the row other values"


@pytest.mark.parametrize("row", ALL, ids=str)
def test_a_rule_applies_to_the_plain_layers(row: Probe) -> None:
    """``tests/rows/targets/probes.py`` has the numbers, of the plain layers as well."""
    model, _ = row.build()
    made = converter.convert_model(model, target="any")
    layers = [node.op.type for part in made.all_models() for node in part.nodes() if not node.op.role]
    assert " ".join(layers) == row.layers, "name the layers of target='any' in the row"
    rules = convert(model).rules
    assert rules.get(row.rule), f"the rule {row.rule} does not apply to its row; -v shows the reasons"
    if row in arithmetic.ROWS:
        assert {name: count for name, count in rules.items() if name != "selected_integers"} == {row.rule: 1}


def test_tables_of_two_bits_stay_stored() -> None:
    """Four bits an element, and not the wider integers that hold tables given at run time."""
    row = next(row for row in ALL if row.name == "gather_from_2_bit_tables")
    model, _ = row.build()
    layers = converter.convert_model(model).nodes()
    tables = [node.inputs[0] for node in layers if node.op.type == "Gather"]
    assert [str(table.element_type) for table in tables] == ["u4", "f32"]


def needed(rows: Sequence[Probe]) -> list[Probe]:
    return [row for row in rows if row.rule in NEEDED]


def test_the_plug_in_computes_the_plain_layers_of_rules_that_it_does_not_need() -> None:
    for row in ALL:
        if row.rule not in NEEDED:
            run_plain(row)


WITH_AVX512 = {
    "layers_of_narrow_types: bf16 in groups", "comparisons_with_nan: Greater", "comparisons_with_nan: GreaterOrEqual",
}  # fmt: skip
"""What the plug-in refuses or gets wrong with AVX-512 alone, with which it computes bfloat16 itself."""


def failing(rows: Sequence[Probe], error: type[Exception]) -> Any:
    mark = pytest.mark.xfail(strict=True, raises=error, reason=NEEDED_RULE)
    fails = {row.name for row in rows if HAS_AVX512 or row.name not in WITH_AVX512}
    return [pytest.param(row, marks=mark if row.name in fails else (), id=str(row)) for row in needed(rows)]


@pytest.mark.parametrize("row", [*failing(WRONG, AssertionError), *failing(REFUSED, RuntimeError)])
def test_the_plug_in_computes_the_plain_layers(row: Probe) -> None:
    run_plain(row)


@pytest.mark.parametrize("row", needed(CRASHING), ids=str)
@pytest.mark.xfail(strict=True, raises=subprocess.CalledProcessError, reason=NEEDED_RULE)
def test_the_plug_in_survives_the_plain_layers(row: Probe) -> None:
    """In a process of its own."""
    script = f"""from tests.converter.targets.probes import CRASHING, rows
rows.run_plain(next(row for row in CRASHING if row.name == {row.name!r}))"""
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", script], cwd=root, check=True, capture_output=True, timeout=120)


ALL_RULES = [rule for pipeline in RULES for rule in pipeline.all()]


def test_every_rule_has_a_probe_and_every_probe_a_rule() -> None:
    rules = {rule.name for rule in ALL_RULES}
    probed = {row.rule for rows in (ALL, RULED, SLOW) for row in rows} | {"sliding_windows"}
    where = (
        "tests/converter/targets/probes where plain layers are wrong, refused or crash, models.py where they are slow"
    )
    assert not rules - probed, f"add a row for each of these rules: to {where}"
    assert not probed - rules, "no rule has these names of rows: a row begins with the name of its rule"


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.name)
def test_every_rule_has_the_releases_in_which_its_reason_was_seen(rule: Any) -> None:
    releases = [release_of(text) for text in rule.seen_in]
    assert releases
    assert releases == sorted(releases)
    assert {*rule.seen_in} <= {*MEASURED}, "name the releases that were tried"
    assert rule.since is None or release_of(rule.since) <= releases[0]
    assert rule.until is None or release_of(rule.until) >= releases[-1]


@pytest.mark.parametrize("row", SLOW, ids=str)
def test_the_rule_makes_the_plug_in_fast(row: SpeedRow) -> None:
    assert row.is_fast(ir_runtime.model_to_bytes(converter.convert_model(row.build()))), (
        f"the rule {row.rule} does not apply to the row, or what it emits is slow as well"
    )


FAST = "the plug-in is slow without the rule; where it is not, give the rule until, or the row other layers"


@pytest.mark.parametrize("row", [row for row in SLOW if row.rule in NEEDED], ids=str)
@pytest.mark.xfail(strict=True, raises=AssertionError, reason=FAST)
def test_the_plug_in_is_fast_without_the_rule(row: SpeedRow) -> None:
    model = converter.convert_model(row.build(), target="any")
    openvino_cpu.run(model, [rule for rule in openvino_cpu.all() if rule.name != row.rule])
    assert row.is_fast(ir_runtime.model_to_bytes(model))


# --- targets of a release ---


def newest(model: ir_runtime.Model) -> int:
    return max(node.op.opset for part in model.all_models() for node in part.nodes())


X = generator(1).normal(size=(2, 400, 1)).astype(np.float32)
TWICE = "g (float[3] x) => (float[3] y, float[3] z, float[3] again) { y = Identity(x) z = Relu(x) again = Identity(z) }"
OLDER = [
    rounded_up("no window after the data", "MaxPool", [2, 3], [2, 2], [0, 0, 0, 1]),
    probe("padded", "", single("CenterCropPad", 18, x=X[0, :20].reshape(5, 4), shape=const([8, 3]))),
    probe("returned twice", "", graphs(TWICE, label="", x=np.array([-1, 0, 2], np.float32))),
]
"""Models whose plain layers every release has."""
HANN = const(np.hanning(128), np.float32)
NEWER = [
    probe(f"STFT, {dims}", "", single("STFT", 17, x=X, step=const(50), window=HANN, dims=dims))
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
    return dict(convert(model, converter.ConversionOptions(target=target)).rules)


@pytest.mark.parametrize("release", MEASURED)
@pytest.mark.parametrize("row", [row for row in (*RULED, *ALL) if row.rule in LIMITED], ids=str)
def test_a_release_runs_the_rules_whose_reason_was_seen_in_it(row: Probe, release: str) -> None:
    model, _ = row.build()
    assert (row.rule in rules_for(model, f"cpu@{release}")) == (release in LIMITED[row.rule].seen_in)


@pytest.mark.parametrize(
    ("row", "last_without", "with_it"),
    [
        *((row, ["cpu@2024.6", "cpu"], ["cpu@2024.5"]) for row in RULED),
        *((next(row for row in ALL if row.rule == rule), [f"cpu@{right}"], [f"cpu@{wrong}", "cpu"]) for rule, right, wrong in (
            ("matmul_by_stacked_weights", "2025.0", "2025.4"), ("tile_dynamic_dimensions", "2026.0", "2026.4"))),
    ],
)  # fmt: skip
def test_a_rule_begins_and_ends_between_releases(row: Probe, last_without: list[str], with_it: list[str]) -> None:
    model, _ = row.build()
    assert [target for target in (*last_without, *with_it) if row.rule in rules_for(model, target)] == with_it


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


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("cpu@2023.3", r"cpu@2023\.3 has operations up to opset 13.*BitwiseRightShift-15"), ("cpu@2024.6", ""),
        ("gpu", "there is no target 'gpu'"), ("cpu@2021.4", "older than 2023.3"), ("cpu@", "there is no target 'cpu@'"),
    ],
)  # fmt: skip
def test_what_a_release_does_not_have_is_named(target: str, message: str) -> None:
    model, _ = shifted("", [3, 4, 5, 11, 12, 13]).build()
    if not message:
        assert newest(converter.convert_model(model, target=target)) == 15
        return
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model, target=target)
