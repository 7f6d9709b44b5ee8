"""onnxruntime's SparseAttention through both engines, against onnxruntime, whose caches are changed in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import converter
from tests.engines import ENGINES, converted, node_model, opened, run
from tests.random_data import generator

R = generator(61)
HEADS, SHARED, WIDTH, ROOM, BLOCK = 4, 2, 16, 64, 16
FIRST = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]]
SECOND = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1]]
ORDER = ["query", "key", "value", "past_key", "past_value", "rows", "columns", "total", "totals", "cos", "sin"]


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def lists(patterns: list[list[list[int]]]) -> dict[str, np.ndarray]:
    """The blocks of each row, one row behind the other, and where each starts."""
    columns = [[place for row in one for place in np.flatnonzero(row).tolist()] for one in patterns]
    longest = max(map(len, columns))
    return {
        "rows": np.array([[0, *np.cumsum(np.sum(one, axis=1))] for one in patterns], np.int32),
        "columns": np.array([one + [-1] * (longest - len(one)) for one in columns], np.int32),
    }


def case(
    steps: int, totals: list[int], patterns: list[list[list[int]]], packed: bool = False, rotary: bool = False
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    batch = len(totals)
    inputs = {"query": f(batch, steps, (HEADS + 2 * SHARED * packed) * WIDTH)}
    if not packed:
        inputs |= {name: f(batch, steps, SHARED * WIDTH) for name in ("key", "value")}
    inputs |= {name: f(batch, SHARED, ROOM, WIDTH) for name in ("past_key", "past_value")}
    inputs |= {"total": np.array([max(totals)], np.int32), "totals": np.array(totals, np.int32)}
    constants = lists(patterns)
    if rotary:
        constants |= {"cos": np.cos(f(ROOM, WIDTH // 2)), "sin": np.sin(f(ROOM, WIDTH // 2))}
    attributes = {"num_heads": HEADS, "kv_num_heads": SHARED, "sparse_block_size": BLOCK, "do_rotary": int(rotary)}
    order = [name if name in {**inputs, **constants} else "" for name in ORDER]
    while not order[-1]:
        order.pop()
    options: dict[str, Any] = {"opset": 1, "domain": "com.microsoft", "constants": constants, "attributes": attributes}
    return node_model("SparseAttention", inputs, **options, order=order, outputs=3), inputs


def expected(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What onnxruntime computes, with the caches as inputs and outputs."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value.copy()) for name, value in inputs.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y0")
    for name, past in (("y1", "past_key"), ("y2", "past_value")):
        binding.bind_ortvalue_output(name, values[past])
    session.run_with_iobinding(binding)
    return [value.numpy().copy() for value in binding.get_outputs()]


def check(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray], wanted: list[np.ndarray]) -> None:
    """Compare what is defined: rows and keys before the padding."""
    steps = inputs["query"].shape[1]
    for proto in (model, opened(model)):
        ir = converted(proto)
        for engine in ENGINES:
            output, *caches = run(engine, ir, inputs, ["y0", "y1", "y2"])
            for row, total in enumerate(inputs["totals"].tolist()):
                last = total if steps > 1 else 1
                np.testing.assert_allclose(output[row, :last], wanted[0][row, :last], rtol=1e-4, atol=1e-5)
                for cache, want in zip(caches, wanted[1:]):
                    assert cache.shape == want.shape
                    np.testing.assert_allclose(cache[row, :, :total], want[row, :, :total], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("patterns", [[FIRST], [FIRST, SECOND]], ids=["one", "two"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize(("steps", "total"), [(40, 40), (1, 50), (1, 17), (3, 3)])
def test_rows_of_one_length(patterns: Any, packed: bool, rotary: bool, steps: int, total: int) -> None:
    model, inputs = case(steps, [total, total], patterns, packed, rotary)
    check(model, inputs, expected(model, inputs))


@pytest.mark.parametrize(("steps", "totals"), [(40, [40, 30]), (1, [50, 33])])
def test_rows_of_different_lengths(steps: int, totals: list[int]) -> None:
    """Each row is that of a batch of its own: onnxruntime computes something else for the shorter ones of a batch."""
    model, inputs = case(steps, totals, [FIRST, SECOND])
    rows = []
    for row, total in enumerate(totals):
        alone = {name: value if name == "total" else value[row : row + 1] for name, value in inputs.items()}
        alone["total"] = np.array([total], np.int32)
        if steps > 1:
            alone |= {name: alone[name][:, :total] for name in ("query", "key", "value")}
        rows.append(expected(opened(model), alone))
    wanted = [np.concatenate([np.pad(one[0], ((0, 0), (0, steps - one[0].shape[1]), (0, 0))) for one in rows])]
    wanted += [np.concatenate([one[place] for one in rows]) for place in (1, 2)]
    check(model, inputs, wanted)


def test_patterns_that_contradict() -> None:
    model, _ = case(1, [5], [FIRST, SECOND])
    broken = onnx.ModelProto()
    broken.CopyFrom(model)
    columns = next(one for one in broken.graph.initializer if one.name == "columns")
    columns.CopyFrom(onnx.numpy_helper.from_array(np.full((2, 9), 7, np.int32), "columns"))
    with pytest.raises(converter.InvalidModelError, match="row 0 of pattern 0 lists no blocks of 4"):
        converter.convert_model(broken)
