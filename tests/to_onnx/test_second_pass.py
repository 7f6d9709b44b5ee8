"""What came back from ONNX once goes there and back without a change: every case of ONNX's node suite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import converter
from tests.suite.node_suite import Case, node_cases
from tests.to_onnx.graphs import second_pass

KNOWN: dict[str, list[str]] = json.loads((Path(__file__).parent / "second_pass.json").read_text())
"""Why cases change in the second pass -> the parts of their names."""


def _known(case: Case) -> str | None:
    return next((reason for reason, parts in KNOWN.items() if any(part in case.name for part in parts)), None)


@pytest.mark.parametrize("case", node_cases(), ids=lambda case: case.name)
def test_nothing_changes_in_the_second_pass(case: Case) -> None:
    try:
        exported = converter.export_model(converter.convert_model(case.model, target="any"))
    except converter.InternalError:
        raise
    except converter.ConversionError as error:
        pytest.skip(str(error))
    found = second_pass(exported)
    reason = _known(case)
    if reason:
        assert not found.same, f"unchanged, but expected to change: {reason}"
        pytest.xfail(reason)
    assert found.same, found.to_dict()
