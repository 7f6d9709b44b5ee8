"""What a probe is: a row of ``tests/rows``, its rule and its plain layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from tests.rows import row as table
from tests.rows.row import Row, const
from tests.runtimes.work import Work


@dataclass(frozen=True)
class Probe:
    """A model that shows why a rule is there: the plug-in is wrong with its plain layers."""

    name: str
    """The rule's name; what is special about the probe follows a colon."""
    row: Row
    layers: str
    """The types of the plain layers."""

    @property
    def rule(self) -> str:
        return self.name.partition(":")[0]

    def __str__(self) -> str:
        return self.name

    def build(self) -> tuple[onnx.ModelProto, Mapping[str, np.ndarray[Any, Any]]]:
        return self.row.model, self.row.feeds


def probe(name: str, layers: str, row: Iterable[Row]) -> Probe:
    return Probe(name, next(iter(row)), layers)


def single(op_type: str, opset: int, **arguments: Any) -> Iterator[Row]:
    return table.rows(op_type, opset, **arguments)


def several(
    nodes: str, dims: Mapping[str, Sequence[Any]] | None = None, outputs: str = "y", **what: Any
) -> Iterator[Row]:
    return table.several(nodes, dims=dims, outputs=outputs, label="probe", **what)


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def f32(value: Any) -> Any:
    return const(value, np.float32)


def run_plain(row: Probe) -> None:
    """The plain layers in the real plug-in, compared with ONNX's numbers."""
    work = Work(row.row)
    work.compare(work.in_openvino("plain"))
