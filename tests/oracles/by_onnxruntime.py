"""What onnxruntime computes of one operator, for rows whose values are those of another form of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.engines import run_onnxruntime
from tests.rows.row import rows


def by_onnxruntime(op_type: str, opset: int = 1, outputs: int = 1, **arguments: Any) -> list[np.ndarray]:
    """Return the outputs of an operator; the arguments are those of a row."""
    [row] = rows(op_type, opset, outputs=outputs, **arguments)
    return run_onnxruntime(row.model, row.feeds)
