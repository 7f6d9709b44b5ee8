"""Every rule has a probe, and every probe a rule: a model that shows why the rule is there, and that it helps."""

from __future__ import annotations

import pytest

import converter
import ir_runtime
from converter.targets.registry import RULES, openvino_cpu
from ir_runtime.rewriting.pipeline import release_of

from . import arithmetic_layers, probes, speed_probes, test_releases, test_sliding_windows
from .installed import NEEDED
from .speed_probes import SpeedRow

ALL_RULES = [rule for pipeline in RULES for rule in pipeline.all()]
PROBED = {row.rule for module in (arithmetic_layers, speed_probes, test_sliding_windows) for row in module.ROWS} | {
    row.rule for row in (*probes.ALL, *test_releases.RULED)
}


def test_every_rule_has_a_probe_and_every_probe_a_rule() -> None:
    rules = {rule.name for rule in ALL_RULES}
    assert not rules - PROBED, (
        "add a row for each of these rules: to tests/targets/probes where its plain layers are wrong, refused or crash, "
        "to tests/targets/speed_probes.py where they are slow"
    )
    assert not PROBED - rules, "no rule has these names of rows: a row begins with the name of its rule"


def test_every_rule_has_the_releases_in_which_its_reason_was_seen() -> None:
    for rule in ALL_RULES:
        releases = [release_of(text) for text in rule.seen_in]
        assert releases, rule.name
        assert releases == sorted(releases), rule.name
        assert {*rule.seen_in} <= {*test_releases.MEASURED}, f"{rule.name}: name the releases that were tried"
        assert rule.since is None or release_of(rule.since) <= releases[0], rule.name
        assert rule.until is None or release_of(rule.until) >= releases[-1], rule.name


@pytest.mark.parametrize("row", speed_probes.ROWS, ids=str)
def test_the_rule_makes_the_plug_in_fast(row: SpeedRow) -> None:
    assert row.is_fast(ir_runtime.model_to_bytes(converter.convert_model(row.build()))), (
        f"the rule {row.rule} does not apply to the row, or what it emits is slow as well"
    )


SLOW = (
    "the plug-in is slow without the rule; where this passes, it is not: give the rule until, or the row other layers"
)


@pytest.mark.parametrize("row", [row for row in speed_probes.ROWS if row.rule in NEEDED], ids=str)
@pytest.mark.xfail(strict=True, raises=AssertionError, reason=SLOW)
def test_the_plug_in_is_fast_without_the_rule(row: SpeedRow) -> None:
    model = converter.convert_model(row.build(), target="any")
    openvino_cpu.run(model, [rule for rule in openvino_cpu.all() if rule.name != row.rule])
    assert row.is_fast(ir_runtime.model_to_bytes(model))
