"""Models that tests of passes share."""

from __future__ import annotations

import numpy as np
import onnx

from tests.random_data import generator
from tests.rows.row import const, several


def tied(rows: int, folded: bool, other: float = 0.0) -> onnx.ModelProto:
    """An embedding whose matrix scores the result, transposed by a node or in the file."""
    matrix = generator(1).standard_normal((rows, 32)).astype(np.float32)
    turned = matrix.T.copy()
    turned[-1, -1] += other
    nodes = f"x = Gather (m, ids) {'' if folded else 't = Transpose <perm = [1, 0]> (m)'} scores = MatMul (x, t)"
    stored = {"m": const(matrix), **({"t": const(turned)} if folded else {})}
    return next(several(nodes, outputs="scores", label="tied", ids=np.zeros((1, 5), np.int64), **stored)).model
