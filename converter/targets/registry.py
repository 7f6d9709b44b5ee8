"""Targets by name, and the rules that belong to each."""

from __future__ import annotations

from converter.errors import ConversionError
from converter.passes.pipeline import Pipeline
from ir_runtime.graph import Model

openvino_cpu = Pipeline("converter.targets.openvino_cpu")
"""The rules for OpenVINO's CPU plug-in."""

_TARGETS: dict[str, tuple[Pipeline, ...]] = {"cpu": (openvino_cpu,), "any": ()}
DEFAULT = "cpu"


def names() -> list[str]:
    """What ``--target`` takes."""
    return list(_TARGETS)


def check_target(name: str) -> None:
    """Raises :class:`ConversionError` for a target that does not exist."""
    if name not in _TARGETS:
        raise ConversionError(f"there is no target '{name}'; there are {', '.join(names())}")


def apply_rules(model: Model, target: str) -> dict[str, int]:
    """Change ``model`` by the rules of a target; how often each acted, of those that did."""
    counts: dict[str, int] = {}
    for rules in _TARGETS[target]:
        counts.update(rules.run(model))
    return counts
