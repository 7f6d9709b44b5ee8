"""SparseAttention, against onnxruntime, which changes its caches in place."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnxruntime

from tests.oracles.by_onnxruntime import defined
from tests.rows.row import const, each, rows

R = np.random.default_rng(61)
HEADS, SHARED, WIDTH, ROOM, BLOCK = 4, 2, 16, 64, 16
FIRST = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]]
SECOND = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1]]
sparse = functools.partial(
    rows, "SparseAttention", 1, domain="com.microsoft", num_heads=HEADS, kv_num_heads=SHARED, sparse_block_size=BLOCK,
    outputs=3,
)  # fmt: skip


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def lists(patterns: list[list[list[int]]]) -> dict[str, Any]:
    """The blocks of each row, one row behind the other, and where each starts."""
    columns = [[place for row in one for place in np.flatnonzero(row).tolist()] for one in patterns]
    padded = [one + [-1] * (max(map(len, columns)) - len(one)) for one in columns]
    starts = [[0, *np.cumsum(np.sum(one, axis=1))] for one in patterns]
    return {"rows": const(starts, np.int32), "columns": const(padded, np.int32)}


def data(steps: int, totals: list[int], patterns: Any, packed: bool = False) -> dict[str, Any]:
    batch = len(totals)
    return {
        "query": f(batch, steps, (HEADS + 2 * SHARED * packed) * WIDTH),
        **{name: None if packed else f(batch, steps, SHARED * WIDTH) for name in ("key", "value")},
        **{name: f(batch, SHARED, ROOM, WIDTH) for name in ("past_key", "past_value")}, **lists(patterns),
        "total": np.array([max(totals)], np.int32), "totals": np.array(totals, np.int32),
    }  # fmt: skip


def alone(index: int, **arguments: Any) -> list[np.ndarray]:
    """What onnxruntime computes of one row of a batch, with the caches as inputs and outputs.

    It computes something else for the shorter rows of a batch.
    """
    total, steps = arguments["totals"][index], arguments["query"].shape[1]
    for name in ("query", "key", "value", "past_key", "past_value", "totals"):
        arguments[name] = None if arguments[name] is None else arguments[name][index : index + 1]
        if name in ("query", "key", "value") and arguments[name] is not None and steps > 1:
            arguments[name] = arguments[name][:, :total]
    [row] = sparse(**arguments | {"total": np.array([total], np.int32)})
    session = onnxruntime.InferenceSession(row.model.SerializeToString(), providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value.copy()) for name, value in row.feeds.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y0")
    for name, past in (("y1", "past_key"), ("y2", "past_value")):
        binding.bind_ortvalue_output(name, values[past])
    session.run_with_iobinding(binding)
    y, *caches = (value.numpy().copy() for value in binding.get_outputs())
    return [np.pad(y, ((0, 0), (0, steps - y.shape[1]), (0, 0))), *caches]


def of_each_row(**arguments: Any) -> Any:
    """The outputs before the padding, and the caches as far as there are keys."""
    totals, steps = arguments["totals"], arguments["query"].shape[1]
    y, *caches = map(np.concatenate, zip(*(alone(index, **arguments) for index in range(len(totals)))))
    return [defined(y, totals if steps > 1 else 1, 1), *(defined(cache, totals, 2) for cache in caches)]


TURNED = {"cos": const(np.cos(f(ROOM, WIDTH // 2))), "sin": const(np.sin(f(ROOM, WIDTH // 2)))}
ROTARY = each({"do_rotary": 0}, {**TURNED, "do_rotary": 1})
ROWS = [
    *(row for steps, total in ((40, 40), (1, 50), (1, 17), (3, 3)) for patterns in ([FIRST], [FIRST, SECOND])
      for packed in (False, True)
      for row in sparse(**data(steps, [total, total], patterns, packed), also=ROTARY, expect=of_each_row)),
    *sparse(label="lengths", **data(40, [40, 30], [FIRST, SECOND]), do_rotary=0, expect=of_each_row),
    *sparse(label="lengths", **data(1, [50, 33], [FIRST, SECOND]), do_rotary=0, expect=of_each_row),
    *sparse(**data(1, [5], [FIRST, SECOND]) | {"columns": const(np.full((2, 9), 7), np.int32)},
            refused="row 0 of pattern 0 lists no blocks of 4"),
]  # fmt: skip
