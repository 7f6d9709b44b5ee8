"""The probes of the rules for OpenVINO: what the rules make of each computes the same, in every runtime."""

from __future__ import annotations

from dataclasses import replace

from tests.converter.targets.probes import ALL

ROWS = [
    replace(
        probe.row,
        name=probe.name.replace(": ", "-").replace(" ", "_").translate(str.maketrans("", "", "[]")),
        group="probes",
    )
    for probe in ALL
]
