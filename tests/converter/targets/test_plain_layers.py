"""The plain layers that rules replace: what they are, and what the plug-in makes of them.

Every rule has a probe, and every probe a rule: a model that shows why the rule is there.

A probe of a rule that the installed release needs is expected to fail: where one passes, the plug-in has been mended,
and the rule gets ``until``. Probes of rules that this release does not need are expected to be right.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import converter
import ir_runtime
from converter.conversion import convert
from converter.targets.registry import RULES, openvino_cpu
from ir_runtime.rewriting.pipeline import release_of
from tests.converter.targets.models import MEASURED, NEEDED, RULED, SLOW, SpeedRow
from tests.converter.targets.probes import ALL, CRASHING, REFUSED, WRONG, arithmetic
from tests.converter.targets.probes.rows import Probe, run_plain
from tests.engines import HAS_AVX512

NEEDED_RULE = (
    "the plug-in fails on the plain layers; where this passes, it does not: give the rule until, or the row other values "
    "(rows of slow layers belong in tests/converter/targets/models.py)"
)


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
    """Those whose rules the installed release needs."""
    return [row for row in rows if row.rule in NEEDED]


def test_the_plug_in_computes_the_plain_layers_of_rules_that_it_does_not_need() -> None:
    for row in ALL:
        if row.rule not in NEEDED:
            run_plain(row)


WITH_AVX512 = {
    "layers_of_narrow_types: bf16 in groups",
    "comparisons_with_nan: Greater",
    "comparisons_with_nan: GreaterOrEqual",
}
"""What the plug-in refuses or gets wrong with AVX-512 alone, with which it computes bfloat16 itself."""


def failing(rows: Sequence[Probe], error: type[Exception]) -> Any:
    """Mark the rows whose rules the installed release needs."""
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
    script = (
        "from tests.converter.targets.probes import CRASHING; from tests.converter.targets.probes.rows import run_plain; "
        f"run_plain(next(row for row in CRASHING if row.name == {row.name!r}))"
    )
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", script], cwd=root, check=True, capture_output=True, timeout=120)


ALL_RULES = [rule for pipeline in RULES for rule in pipeline.all()]
PROBED = {row.rule for rows in (ALL, RULED, SLOW) for row in rows} | {"sliding_windows"}


def test_every_rule_has_a_probe_and_every_probe_a_rule() -> None:
    rules = {rule.name for rule in ALL_RULES}
    assert not rules - PROBED, (
        "add a row for each of these rules: to tests/converter/targets/probes where its plain layers are wrong, refused or crash, "
        "to tests/converter/targets/models.py where they are slow"
    )
    assert not PROBED - rules, "no rule has these names of rows: a row begins with the name of its rule"


def test_every_rule_has_the_releases_in_which_its_reason_was_seen() -> None:
    for rule in ALL_RULES:
        releases = [release_of(text) for text in rule.seen_in]
        assert releases, rule.name
        assert releases == sorted(releases), rule.name
        assert {*rule.seen_in} <= {*MEASURED}, f"{rule.name}: name the releases that were tried"
        assert rule.since is None or release_of(rule.since) <= releases[0], rule.name
        assert rule.until is None or release_of(rule.until) >= releases[-1], rule.name


@pytest.mark.parametrize("row", SLOW, ids=str)
def test_the_rule_makes_the_plug_in_fast(row: SpeedRow) -> None:
    assert row.is_fast(ir_runtime.model_to_bytes(converter.convert_model(row.build()))), (
        f"the rule {row.rule} does not apply to the row, or what it emits is slow as well"
    )


FAST = (
    "the plug-in is slow without the rule; where this passes, it is not: give the rule until, or the row other layers"
)


@pytest.mark.parametrize("row", [row for row in SLOW if row.rule in NEEDED], ids=str)
@pytest.mark.xfail(strict=True, raises=AssertionError, reason=FAST)
def test_the_plug_in_is_fast_without_the_rule(row: SpeedRow) -> None:
    model = converter.convert_model(row.build(), target="any")
    openvino_cpu.run(model, [rule for rule in openvino_cpu.all() if rule.name != row.rule])
    assert row.is_fast(ir_runtime.model_to_bytes(model))
