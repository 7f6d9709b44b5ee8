"""The installed release of OpenVINO, and the rules that it needs."""

from __future__ import annotations

import openvino

from converter.targets.registry import RULES
from ir_runtime.rewriting.pipeline import Entry, Pass, release_of

INSTALLED = release_of(openvino.__version__.split("-")[0])


def is_needed(rule: Pass) -> bool:
    entry = Entry(rule.name, rule.module, None, rule.after, rule.since, rule.until)
    return entry.holds_for(INSTALLED)


NEEDED = {rule.name for pipeline in RULES for rule in pipeline.all() if is_needed(rule)}
"""The names of the rules."""
