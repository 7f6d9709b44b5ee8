"""Calls beyond the usual ones: other types, other ranks, arguments that are computed, earlier opsets."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest

from converter import export_model
from tests.ir_runtime.calls.base import Call, calls, ints, normal, one, whole
from tests.to_onnx.single_layers import model_of
from tests.to_onnx.test_operations import _compare, _run


@dataclass(frozen=True)
class Row:
    """A call, and which of its inputs come at run time."""

    call: Call
    computed: Collection[int] = ()
    opset: int | None = None

    @property
    def label(self) -> str:
        return f"{self.call.label[:60]} {self.computed} {self.opset}"


def _rows(
    name: str, opset: int, *inputs: Any, computed: Collection[int] = (), at: int | None = None, **attributes: Any
) -> list[Row]:
    return [Row(call, computed, at) for call in calls(name, opset, *inputs, **attributes)]


_SIZES: dict[str, Any] = {"strides": (2, 1), "dilations": (1, 2), "pads_begin": (1, 0), "pads_end": (0, 1)}

ROWS = [
    *_rows("DFT", 7, normal(8, 2), ints(0)),
    *_rows("DFT", 7, normal(3, 8, 2, dtype=np.float64), ints(0, 1), ints(-1, 5), computed=(2,)),
    *_rows("DFT", 7, normal(3, 8, 2, dtype=np.float16), ints(1), at=20),
    *_rows("RDFT", 9, normal(8), ints(-1)),
    *_rows("RDFT", 9, normal(3, 8), ints(0, 1), ints(5, -1), computed=(2,)),
    *_rows("IRDFT", 9, normal(5, 2), ints(0)),
    *_rows("IRDFT", 9, normal(3, 5, 2), ints(0, 1), ints(4, -1), computed=(2,)),
    *_rows("IRDFT", 9, normal(3, 5, 2), ints(1), ints(7), computed=(2,), at=20),
    *_rows("STFT", 15, normal(2, 20, dtype=np.float64), normal(5, dtype=np.float64), one(8), one(3), computed=(2, 3)),
    *_rows("ISTFT", 16, normal(5, 4, 2), normal(6), one(8), one(3), computed=(2,), center=True, normalized=True),
    *_rows("ISTFT", 16, normal(2, 5, 4, 2), normal(6), one(8), one(3), one(-1), computed=(2, 4), center=True),
    *_rows("ISTFT", 16, normal(2, 5, 4, 2), normal(6), one(8), one(3), one(40), computed=(4,)),
    *_rows("Col2Im", 15, normal(2, 12, 12), ints(5, 7), ints(2, 3), **_SIZES),
    *_rows("Col2Im", 15, normal(2, 12, 12, dtype=np.float64), ints(5, 7), ints(2, 3), **_SIZES),
    *_rows("Col2Im", 15, whole(-(10**9), 10**9, 12, 12, dtype=np.int32), ints(5, 7), ints(2, 3), **_SIZES),
    *_rows("Col2Im", 15, normal(2, 12, 12), ints(5, 7), ints(2, 3), computed=(1, 2), **_SIZES),
    *_rows(
        "ExtractImagePatches",
        3,
        whole(0, 99, 1, 2, 7, 5),
        sizes=(3, 2),
        strides=(2, 3),
        rates=(2, 1),
        auto_pad="valid",
    ),
]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_onnxruntime_computes_what_the_layer_computes(row: Row, dynamic: bool) -> None:
    model, feeds = model_of(row.call, dynamic=dynamic, computed=row.computed)
    exported = export_model(model, opset=row.opset)
    onnx.checker.check_model(exported, full_check=True)
    _compare(row.call, _run(exported, feeds))
