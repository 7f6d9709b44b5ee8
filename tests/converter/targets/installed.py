"""The installed release of OpenVINO, and the rules that it needs."""

from __future__ import annotations

import openvino

from converter.targets.registry import RULES
from ir_runtime.rewriting.pipeline import release_of

INSTALLED = release_of(openvino.__version__.split("-")[0])
NEEDED = {rule.name for pipeline in RULES for rule in pipeline.all() if rule.holds_for(INSTALLED)}
"""The names of the rules."""
