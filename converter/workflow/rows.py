"""The row of one model: its verdict, and what it took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from ir_runtime.records import record

VERIFIED = "verified"
"""Converted, and both sides agree."""
CONVERTED = "converted"
"""Converted, and not compared."""
DIFFERS = "differs"
"""Converted, and the two sides do not agree."""
UNPROVEN = "unproven"
"""Converted, and neither shown to be equal nor to differ."""
NOT_COMPARED = "not compared"
"""Converted, but a side could not be run."""
REFUSED = "refused"
"""The model, or an option, cannot be converted."""
FAULT = "fault"
"""An error of this package."""
CRASHED = "crashed"
"""The process ended without a result."""
OUT_OF_TIME = "out of time"
OUT_OF_MEMORY = "out of memory"
LOST = "lost"
"""The executor gave no result."""

VERDICTS = (
    VERIFIED,
    CONVERTED,
    UNPROVEN,
    DIFFERS,
    NOT_COMPARED,
    REFUSED,
    FAULT,
    CRASHED,
    OUT_OF_TIME,
    OUT_OF_MEMORY,
    LOST,
)
PASSED = frozenset({VERIFIED, CONVERTED})
WITH_IR = frozenset({VERIFIED, CONVERTED, UNPROVEN, DIFFERS})
"""Verdicts that a second run on the same files would only repeat."""


@record
class Row:
    """The result of one model.

    ``model`` and ``xml`` are paths, ``name`` is the model's path below the folder that all models have in common.
    ``verdict`` is one word, ``reason`` a sentence where the model is not converted or not equal. ``layers`` counts
    those of the IR. ``model_bytes``, ``xml_bytes``, ``bin_bytes`` and ``memory`` (the most that the process had) are
    in bytes, ``convert_seconds`` and ``verify_seconds`` in seconds. ``oracle`` ran the ONNX model. ``max_absolute``
    and ``max_relative`` are the largest differences of all outputs. ``reused`` marks the result of an earlier run.
    """

    name: str
    model: str
    xml: str
    verdict: str
    reason: str = ""
    layers: int = 0
    model_bytes: int = 0
    xml_bytes: int = 0
    bin_bytes: int = 0
    convert_seconds: float = 0.0
    verify_seconds: float = 0.0
    memory: int = 0
    max_absolute: float | None = None
    max_relative: float | None = None
    oracle: str = ""
    unproven: tuple[str, ...] = ()
    """Outputs that prove nothing."""
    messages: tuple[str, ...] = ()
    """Warnings of the conversion."""
    reused: bool = False

    @property
    def passed(self) -> bool:
        """True if the model is converted, and equal where that was asked for."""
        return self.verdict in PASSED

    @property
    def seconds(self) -> float:
        """The time of converting and verifying."""
        return self.convert_seconds + self.verify_seconds

    def again(self) -> Row:
        """The row as a later run reports it."""
        return replace(self, reused=True)

    def to_dict(self) -> dict[str, Any]:
        """The row as plain values, ready for JSON."""
        return {**asdict(self), "passed": self.passed}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Row:
        """The row of :meth:`to_dict`. Raises :class:`TypeError` where fields are missing."""
        field_names = {field.name for field in fields(cls)}
        entries: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**{name: value for name, value in entries.items() if name in field_names})


def counts(rows: Iterable[Row]) -> dict[str, int]:
    """Count the rows by verdict, without verdicts of no row."""
    counted = dict.fromkeys(VERDICTS, 0)
    for row in rows:
        counted[row.verdict] += 1
    return {verdict: count for verdict, count in counted.items() if count}
