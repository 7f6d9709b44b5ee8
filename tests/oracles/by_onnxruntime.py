"""What onnxruntime computes of one operator, for rows whose values are those of another form of it, or in part."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.engines import run_onnxruntime
from tests.rows.row import rows


def by_onnxruntime(op_type: str, opset: int = 1, outputs: int = 1, **arguments: Any) -> list[np.ndarray]:
    """Return the outputs of an operator; the arguments are those of a row."""
    [row] = rows(op_type, opset, outputs=outputs, **arguments)
    return run_onnxruntime(row.model, row.feeds)


def defined(values: np.ndarray, lengths: Any, axis: int) -> np.ma.MaskedArray[Any, Any]:
    """Return the values without what stands behind the lengths of rows, which are one or one for each index of axis 0."""
    behind = np.arange(values.shape[axis]) >= np.reshape(lengths, (-1, 1))
    spread = behind.reshape([len(behind) if at == 0 else -1 if at == axis else 1 for at in range(values.ndim)])
    return np.ma.array(values, mask=np.broadcast_to(spread, values.shape))
