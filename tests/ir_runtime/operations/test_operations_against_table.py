"""Every IR operation class against the table of what OpenVINO 2026.4.1 reads (tests/data/ops.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ir_runtime.graph.attributes import format_attribute
from ir_runtime.graph.operation import OUTSIDE_OPSETS, Operation, all_operations

TABLE: dict[str, dict[str, Any]] = {
    (entry.get("xml_type") or name): revisions
    for name, revisions in json.loads((Path(__file__).parents[2] / "data" / "ops.json").read_text()).items()
    for entry in revisions.values()
}

pytestmark = pytest.mark.every_row  # a default that is wrong shows in no other test

# The table counts the constant's place in the .bin as attributes; here the weights layout knows it.
CLASSES = [cls for cls in all_operations() if cls.role != "constant" and cls.opset != OUTSIDE_OPSETS]

KINDS = {
    "int": "integer",
    "int[]": "integers",
    "float": "real",
    "float[]": "reals",
    "bool": "boolean",
    "string": "text",
    "string[]": "strings",
    "enum": "enum",
    "element_type": "element_type",
    "partial_shape": "partial_shape",
}

# The table was read off one set of attributes and the most inputs. By the specification modes such as Broadcast's
# explicit take more, and biases and axes may be left out.
INPUT_COUNTS: dict[str, tuple[int, int | None]] = {
    "Broadcast-3": (2, 3),
    "Einsum-7": (1, None),
    "ExperimentalDetectronROIFeatureExtractor-6": (2, None),
    "GRUCell-3": (4, 5),
    "Interpolate-4": (3, 4),
    "Interpolate-11": (2, 3),
    "LSTMCell-4": (5, 6),
    "RNNCell-1": (4, 5),
    "SliceScatter-15": (5, 6),
}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: f"{cls.type}-{cls.opset}")
def test_attributes_and_input_counts(cls: type[Operation]) -> None:
    entry = TABLE[cls.type][f"opset{cls.opset}"]
    described, counts = entry.get("attributes", {}), entry.get("inputs_accepted")
    assert {attribute.xml for attribute in cls.xml_attributes()} == set(described)
    for attribute in cls.xml_attributes():
        row, name, kind = described[attribute.xml], attribute.name, attribute.value_type
        if kind != "text" or row["type"] != "enum":
            assert kind == KINDS[row["type"]] or (kind == "enum" and row["type"] == "string"), name
        if kind == "enum" and isinstance(row.get("values"), list):
            assert set(attribute.values) >= set(row["values"]), name
        if not attribute.is_required and row["default"] is not None and not row["required"]:
            assert _plain(format_attribute(attribute.default)) == _plain(row["default"]), name
    if isinstance(counts, list):  # not "1..N", which gives no list
        assert cls.inputs == INPUT_COUNTS.get(f"{cls.type}-{cls.opset}", (min(counts), max(counts)))


def _plain(value: Any) -> str:
    """Return a default as text; lists with one entry a spatial dimension are given for two of them in the table."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and "," in value:
        value = value.split(",")
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    try:
        return str(float(value))
    except ValueError:
        return str(value).strip()


def test_every_revision_of_the_table_is_there() -> None:
    listed = {(name, opset) for name, revisions in TABLE.items() for opset in revisions}
    assert listed == {(cls.type, f"opset{cls.opset}") for cls in all_operations() if cls.opset != OUTSIDE_OPSETS}
