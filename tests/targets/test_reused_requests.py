"""Inferences one after the other in a request, which keep nothing of those before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import ir_runtime
from converter.conversion import convert
from tests.engines import EXACT, assert_close, core, node_model, run_onnxruntime

X = np.array([1, 2], np.float32)
DOUBLED = """body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] o) {
  three = Constant <value_int = 3> () t = Add (s, s) o = Mul (t, t) d = DECIDE }"""
COUNTED, DECIDED = DOUBLED.replace("DECIDE", "Identity (c)"), DOUBLED.replace("DECIDE", "Less (i, three)")
ROWS = {
    "a count": (f"float[2] x, int64 k => e, y : e, y = Loop (k, '', x) <{COUNTED}>", [2, 0, 3, 0, -1, 1, 0]),
    "a count, read": (f"float[2] x, int64 k => y : e, p = Loop (k, '', x) <{COUNTED}> y = Neg (p)", [2, 0, 1, 0]),
    "a count, joined": (
        f"float[2] x, int64 k => y : e, p = Loop (k, '', x) <{COUNTED}> y = Concat <axis = 0> (p, p, p)",
        [0, 2, 0, 1],
    ),
    "a condition": (f"float[2] x, bool k => e, y : e, y = Loop ('', k, x) <{DECIDED}>", [True, False, True, False]),
    "both": (f"float[2] x, bool k => e, y : m = Cast <to = 7> (k) e, y = Loop (m, k, x) <{DECIDED}>", [True, False]),
}


def run_in_a_row(model: onnx.ModelProto, feeds: Sequence[dict[str, Any]]) -> None:
    """Compare inferences of one request with onnxruntime's."""
    ir = ir_runtime.model_to_bytes(convert(model).model)
    request = core().compile_model(core().read_model(*ir), "CPU", EXACT).create_infer_request()
    for values in feeds:
        result = request.infer(values)
        for output, expected in zip(model.graph.output, run_onnxruntime(model, values), strict=True):
            assert_close(np.array(result[output.name]), expected)


@pytest.mark.parametrize(("text", "counts"), ROWS.values(), ids=ROWS)
def test_loops_of_no_iterations(text: str, counts: Sequence[Any]) -> None:
    signature, _, nodes = text.replace("''", '""').partition(" : ")
    inputs, outputs = signature.split(" => ")
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 17]> g ({inputs}) => ({outputs}) {{ {nodes} }}'
    )
    run_in_a_row(model, [{"x": X * (place + 1), "k": np.array(count)} for place, count in enumerate(counts)])


@pytest.mark.parametrize(("count", "slices"), [("int64 k = {2}", 0), ("int64 k = {-1}", 0), ("int64 k = {0}", 0)])
def test_loops_of_a_known_count_stay(count: str, slices: int) -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 17]> g (float[2] x) => (e, y) <{count}> '
        f'{{ e, y = Loop (k, "", x) <{COUNTED}> }}'
    )
    assert convert(model).rules.get("loops_of_no_iterations", 0) == slices


@pytest.mark.parametrize("kind", [np.float32, np.int64])
@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize(("rank", "axis"), [(1, None), (1, 0), (2, None), (2, 0), (2, 1)])
@pytest.mark.parametrize("used", [(0,), (0, 1), (0, 2), (0, 3), (0, 1, 2, 3)], ids=str)
def test_unique_of_nothing(kind: Any, is_sorted: int, rank: int, axis: int | None, used: tuple[int, ...]) -> None:
    lists = [[], [2, 1, 1, 3, 4, 3], [5], [], [7, 7, 6]]
    arrays = [np.array([values] * 2 if axis == 1 else values, kind) for values in lists]
    if rank == 2 and axis != 1:
        arrays = [np.stack([values, values], 1) for values in arrays]
    attributes = {"sorted": is_sorted} if axis is None else {"sorted": is_sorted, "axis": axis}
    outputs = 1 + max(used)
    model = node_model(
        "Unique", {"x": arrays[0]}, opset=11, outputs=outputs, attributes=attributes, shapes={"x": [None] * rank}
    )
    for unused in set(range(outputs)) - set(used):
        model.graph.node[0].output[unused] = ""
    kept = [model.graph.output[index] for index in used]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    run_in_a_row(model, [{"x": values} for values in arrays])


@pytest.mark.parametrize(("outputs", "attributes"), [(1, {}), (1, {"sorted": 0, "axis": 0}), (4, {"sorted": 0})])
def test_unique_of_some_elements_stays(outputs: int, attributes: dict[str, int]) -> None:
    model = node_model("Unique", {"x": X}, opset=11, outputs=outputs, attributes=attributes)
    assert "unique_of_nothing" not in convert(model).rules
