"""Small ONNX models as text, optimized and run in onnxruntime before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import converter
from tests.engines import session_options


def parse(graph: str, opset: int = 17, header: str = "", **weights: Any) -> onnx.ModelProto:
    """Return the model of a graph in onnx's text form; ``weights`` become initializers."""
    text = graph if graph.startswith("<") else f'<ir_version: 8, opset_import: ["" : {opset}{header}]> {graph}'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items())
    return model


def fed(model: onnx.ModelProto, sizes: Mapping[str, int] | None = None, **values: Any) -> dict[str, Any]:
    """Return ``values``, and a value for each other input: random floats, ones; open dimensions are ``sizes``, or 2."""
    stored = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [dim.dim_value or (sizes or {}).get(dim.dim_param, 2) for dim in value.type.tensor_type.shape.dim]
        if value.name not in values and value.name not in stored:
            values[value.name] = floats(*shape).astype(kind) if kind.kind == "f" else np.ones(shape, kind).astype(kind)
    return values


def run(model: onnx.ModelProto | str, feeds: Mapping[str, Any]) -> dict[str, Any]:
    source = model if isinstance(model, str) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, session_options(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds))))


def check(model: onnx.ModelProto, feeds: Mapping[str, Any], **options: Any) -> onnx.ModelProto:
    """Return the optimized model, which computes the same and which a second time leaves as it is."""
    result = converter.optimize(model, **options).to_onnx()
    assert_valid(result, model)
    expected, found = run(model, feeds), run(result, feeds)
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert_equal(found[name], value)
    again = converter.optimize(result).to_onnx()
    assert again.SerializeToString(deterministic=True) == result.SerializeToString(deterministic=True)
    return result


def assert_valid(result: onnx.ModelProto, source: onnx.ModelProto) -> None:
    """onnx accepts the result, if it accepts the source: outputs without a shape, which it refuses, stay as they are."""
    try:
        onnx.checker.check_model(source, full_check=True)
    except onnx.checker.ValidationError:
        return
    onnx.checker.check_model(result, full_check=True)


def assert_equal(found: Any, expected: Any) -> None:
    """Strings and integers are the same, floats close; sequences element by element."""
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            assert_equal(one, other)
        return
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if expected.dtype.kind == "f":
        is_wide = expected.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-15 if is_wide else 1e-4, atol=0 if is_wide else 1e-5)
    else:
        np.testing.assert_array_equal(found, expected)


def operators(graph: onnx.GraphProto) -> list[str]:
    return [node.op_type for node in graph.node if node.op_type != "Constant"]


def all_operators(graph: onnx.GraphProto) -> list[str]:
    """Return the operators of a graph and of those in it."""
    inner = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return [*operators(graph), *(operator for body in inner for operator in all_operators(body))]


def opset_of(model: onnx.ModelProto) -> int:
    (version,) = (one.version for one in model.opset_import if not one.domain)
    return int(version)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
