"""Weights of products in the CPU plug-in: transposed, and compressed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import converter
import ir_runtime
from converter.equivalence.verification import verify
from converter.targets.registry import openvino_cpu
from ir_runtime.graph import element_types
from ir_runtime.graph.model import Model, Output
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.inputs_outputs import Const1, Parameter1, Result1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Reshape1
from ir_runtime.rewriting import layers as emitted
from ir_runtime.rewriting.builder import Builder
from tests.engines import assert_close, core, run_numpy, run_openvino
from tests.random_data import generator

# --- transposed weights ---

K, N = 37, 21


def graph(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    onnx.checker.check_model(model, full_check=True)
    return model


def random(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def layers(model: Model) -> list[str]:
    """Each product, with its flags and the shape of its weights, and every Transpose."""
    found = []
    for node in model.nodes():
        if isinstance(node.op, MatMul1):
            flags = "a" * node.op.transpose_a + "b" * node.op.transpose_b
            found.append(f"MatMul {flags} {node.inputs[1].shape}".replace("  ", " "))
    return found


SINGLE = "g (float[n, 3, 37] x) => (float[n, 3, 21] y) { y = MatMul(x, w) }"
ROWS = {
    "batch": (SINGLE, (K, N), ["MatMul b [21,37]"]),
    "vector": ("g (float[37] x) => (float[21] y) { y = MatMul(x, w) }", (K, N), ["MatMul b [21,37]"]),
    "one column": ("g (float[n, 37] x) => (float[n, 1] y) { y = MatMul(x, w) }", (K, 1), ["MatMul b [1,37]"]),
    "ones in front": (
        "g (float[n, 3, 37] x) => (float[n, 3, 21] y) { y = MatMul(x, w) }",
        (1, K, N),
        ["MatMul b [1,21,37]"],
    ),
    "Gemm": ("g (float[37, n] x) => (float[n, 21] y) { y = Gemm<transA=1>(x, w) }", (K, N), ["MatMul ab [21,37]"]),
    "Gemm of rows": (
        "g (float[n, 37] x) => (float[n, 21] y) { y = Gemm<transB=1>(x, w) }",
        (N, K),
        ["MatMul b [21,37]"],
    ),
    "stack": ("g (float[2, n, 37] x) => (float[2, n, 21] y) { y = MatMul(x, w) }", (2, K, N), ["MatMul [2,37,21]"]),
    "two products": (
        "g (float[n, 37] x) => (float[n, 21] y, float[n, 21] z) { y = MatMul(x, w) u = Exp(x) z = MatMul(u, w) }",
        (K, N),
        ["MatMul b [21,37]", "MatMul b [21,37]"],
    ),
    "another reader": (
        "g (float[n, 37] x, int64[m] i) => (float[n, 21] y, float[m, 21] z) { y = MatMul(x, w) z = Gather(w, i) }",
        (K, N),
        ["MatMul [37,21]"],
    ),
    "an output": (
        "g (float[n, 37] x) => (float[n, 21] y, float[37, 21] v) { y = MatMul(x, w) v = Identity(w) }",
        (K, N),
        ["MatMul [37,21]"],
    ),
    "first operand": ("g (float[21, n] x) => (float[37, n] y) { y = MatMul(w, x) }", (K, N), ["MatMul [21,?]"]),
    "in a body": (
        "g (float[n, 37] x, bool c) => (float[n, 21] y) {"
        " y = If (c) <then_branch = t () => (float[n, 21] p) { p = MatMul(x, w) },"
        " else_branch = e () => (float[n, 21] q) { r = MatMul(x, w) q = Neg(r) }> }",
        (K, N),
        ["MatMul b [21,37]"],
    ),
}


def all_layers(model: Model) -> list[str]:
    found = [layer for part in model.all_models() for layer in layers(part)]
    return sorted(set(found)) if len(list(model.all_models())) > 1 else found


@pytest.mark.parametrize("name", ROWS)
def test_the_ir_computes_what_the_model_computes(name: str, tmp_path: Path) -> None:
    text, shape, expected = ROWS[name]
    model = graph(text, w=random(*shape))
    converted = converter.convert_model(model)
    assert all_layers(converted) == expected
    converter.save_model(converted, tmp_path / "m.xml")
    report = verify(model, tmp_path / "m.xml", layers=True)
    assert report.passed, str(report)
    compiled = core().compile_model(str(tmp_path / "m.xml"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    sizes = {"n": 4, "m": 5}
    inputs = {}
    for value in model.graph.input:
        dims = [sizes.get(d.dim_param, d.dim_value) for d in value.type.tensor_type.shape.dim]
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        inputs[value.name] = np.ones(dims, kind) if kind != np.float32 else random(*dims)
    ours = ir_runtime.compile_model(ir_runtime.read_model(tmp_path / "m.xml"))(inputs)
    for output in model.graph.output:
        np.testing.assert_allclose(ours[output.name], compiled(inputs)[output.name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_bytes_are_those_of_the_transposed_weights(dtype: type) -> None:
    kind = {np.float16: "float16", np.float32: "float", np.float64: "double"}[dtype]
    weights = random(K, N, dtype=dtype)
    _, stored = ir_runtime.model_to_bytes(
        converter.convert_model(graph(SINGLE.replace("float[", f"{kind}["), w=weights))
    )
    assert weights.T.tobytes() in stored
    assert len(stored) < 2 * weights.nbytes


def test_the_tensor_of_the_other_order_has_no_name() -> None:
    converted = converter.convert_model(graph(SINGLE, w=random(K, N)))
    (constant,) = [node for node in converted.nodes() if node.op.data is not None]
    assert (constant.name, constant.outputs[0].names) == ("w", [])


@pytest.mark.parametrize("compress", ["int8", "int4"])
@pytest.mark.parametrize("fp16", [False, True])
def test_compressed_weights_are_the_same_with_and_without_the_rule(compress: str, fp16: bool, tmp_path: Path) -> None:
    model = graph("g (float[n, 256] x) => (float[n, 128] y) { u = MatMul(x, w) y = MatMul(u, v) }",
                  w=random(256, 128), v=random(128, 128))  # fmt: skip
    results = []
    for target in ("cpu", "any"):
        path = tmp_path / f"{target}.xml"
        converter.save_model(
            converter.convert_model(model, target=target), path, compress=compress, compress_to_fp16=fp16
        )
        assert verify(model, path).passed
        results.append(ir_runtime.compile_model(ir_runtime.read_model(path))({"x": random(4, 256)})["y"])
    # Sums of 256 products in another order.
    np.testing.assert_allclose(*results, rtol=0, atol=256 * np.finfo(np.float32).eps * np.abs(results[0]).max())


def test_an_ir_of_the_plain_target_gets_the_rule_and_keeps_its_numbers(tmp_path: Path) -> None:
    model = graph(SINGLE, w=random(K, N))
    converter.save_model(converter.convert_model(model, target="any"), tmp_path / "any.xml")
    changed = converter.convert_model(tmp_path / "any.xml", target="cpu")
    assert layers(changed) == ["MatMul b [21,37]"]
    converter.save_model(changed, tmp_path / "cpu.xml")
    assert verify(tmp_path / "any.xml", tmp_path / "cpu.xml").passed


@pytest.mark.parametrize("fp16", [False, True])
@pytest.mark.parametrize("target", ["cpu", "any"])
def test_an_export_stores_the_weights_as_the_model_had_them(target: str, fp16: bool, tmp_path: Path) -> None:
    weights = random(K, N)
    path = tmp_path / "m.xml"
    converter.save_model(converter.convert_model(graph(SINGLE, w=weights), target=target), path, compress_to_fp16=fp16)
    exported = converter.export_model(path)
    (stored,) = exported.graph.initializer
    assert [node.op_type for node in exported.graph.node] == (["Cast", "MatMul"] if fp16 else ["MatMul"])
    np.testing.assert_array_equal(numpy_helper.to_array(stored), weights.astype(np.float16) if fp16 else weights)


def test_an_export_stores_weights_of_two_products_once() -> None:
    text, shape, _ = ROWS["two products"]
    model = graph(text.replace("[n,", "[2, n,"), w=random(*shape))
    exported = converter.export_model(converter.convert_model(model))
    assert [list(one.dims) for one in exported.graph.initializer] == [[K, N]]


def test_an_export_keeps_weights_that_another_layer_reads() -> None:
    text = (
        "g (float[2, n, 160] x, int64[m] i) => (float[2, n, 128] y, float[m, 160] z)"
        " { z = Gather(w, i) t = Transpose<perm=[1, 0]>(w) y = MatMul(x, t) }"
    )
    exported = converter.export_model(converter.convert_model(graph(text, w=random(128, 160))))
    assert [list(one.dims) for one in exported.graph.initializer if len(one.dims) > 1] == [[128, 160]]
    assert sorted(node.op_type for node in exported.graph.node) == ["Gather", "MatMul", "Transpose"]


@pytest.mark.parametrize("compress", [None, "int8"])
def test_one_wrong_weight_is_found(compress: str | None, tmp_path: Path) -> None:
    model = graph(SINGLE, w=random(K, N))
    converter.save_model(converter.convert_model(model), tmp_path / "m.xml", compress=compress)
    changed = ir_runtime.read_model(tmp_path / "m.xml")
    node = next(node for node in changed.nodes() if node.name == "w")
    assert node.op.data is not None
    values = node.op.data.array().copy()
    values[5, 7] = values[5, 7] * 2 if compress is None else values[5, 7] ^ 64
    node.op = Const1(value=Tensor.from_array(values, node.op.data.element_type))
    (check,) = [check for check in verify(model, changed).weights if check.name == "w"]
    assert check.state == "changed"
    if compress is None:
        assert check.reason.startswith(f"1 of {K * N} values differ, the first at {5 * K + 7}: ")


# --- compressed weights ---

RULE = "scales_of_compressed_weights"
ROWS_COMPRESSED_WEIGHTS, COLUMNS = 24, 40
STAY = [
    # stored weights, scale, zero point
    ([ROWS_COMPRESSED_WEIGHTS, COLUMNS], [], None),
    ([ROWS_COMPRESSED_WEIGHTS, COLUMNS], [1, 1], [1, 1]),
    ([ROWS_COMPRESSED_WEIGHTS, COLUMNS], [ROWS_COMPRESSED_WEIGHTS, 1], None),
    ([ROWS_COMPRESSED_WEIGHTS, COLUMNS], [ROWS_COMPRESSED_WEIGHTS, 1], [ROWS_COMPRESSED_WEIGHTS, 1]),
    ([ROWS_COMPRESSED_WEIGHTS, COLUMNS], [ROWS_COMPRESSED_WEIGHTS, 1], [1]),
    ([ROWS_COMPRESSED_WEIGHTS, 5, 8], [ROWS_COMPRESSED_WEIGHTS, 5, 1], [ROWS_COMPRESSED_WEIGHTS, 5, 1]),
    ([ROWS_COMPRESSED_WEIGHTS, 5, 8], [ROWS_COMPRESSED_WEIGHTS, 5, 1], [1, 1, 1]),
    ([ROWS_COMPRESSED_WEIGHTS, 5, 8], [ROWS_COMPRESSED_WEIGHTS, 1, 1], None),
    ([ROWS_COMPRESSED_WEIGHTS, 20, 2], [ROWS_COMPRESSED_WEIGHTS, 20, 1], None),
]
"""What the plug-in reads correctly, for products and tables."""
CHANGE = [
    ([ROWS_COMPRESSED_WEIGHTS, COLUMNS], [1, COLUMNS], None),
    ([ROWS_COMPRESSED_WEIGHTS, COLUMNS], [COLUMNS], [COLUMNS]),
    ([ROWS_COMPRESSED_WEIGHTS, COLUMNS], [ROWS_COMPRESSED_WEIGHTS, 1], [1, COLUMNS]),
    ([ROWS_COMPRESSED_WEIGHTS, 5, 8], [1, 5, 1], None),
    ([ROWS_COMPRESSED_WEIGHTS, 5, 8], [ROWS_COMPRESSED_WEIGHTS, 1, 8], None),
    ([ROWS_COMPRESSED_WEIGHTS, 5, 8], [ROWS_COMPRESSED_WEIGHTS, 5, 1], [1, 5, 1]),
]
PRODUCTS_CHANGE = [
    ([ROWS_COMPRESSED_WEIGHTS, COLUMNS], [ROWS_COMPRESSED_WEIGHTS, COLUMNS], None),
    ([ROWS_COMPRESSED_WEIGHTS, COLUMNS], [ROWS_COMPRESSED_WEIGHTS, 1], [ROWS_COMPRESSED_WEIGHTS, COLUMNS]),
    ([ROWS_COMPRESSED_WEIGHTS, 8, 5], [ROWS_COMPRESSED_WEIGHTS, 8, 1], None),
]
"""Scales of tables of these shapes are right."""


def stored(builder: Builder, shape: list[int], transposed: bool) -> Output:
    values = generator(3).integers(0, 16, shape)
    if transposed:
        values = np.moveaxis(values, 0, -1)
    return builder.constant(values.astype(ml_dtypes.uint4), element_types.u4)


def reading(shape: list[int], scale: list[int], zero: list[int] | None, reader: str, transposed: bool = False) -> Model:
    """A product with weights [24, 40], stored by columns where ``transposed``, or a look-up in them."""
    r, builder = generator(4), Builder()
    f32 = element_types.f32

    def factor(dimensions: list[int], values: Any) -> Any:
        rows_first = np.reshape(values, (*[1] * (len(shape) - len(dimensions)), *dimensions)).astype(np.float32)
        return np.moveaxis(rows_first, 0, -1) if transposed else rows_first

    weights = emitted.in_type(builder, stored(builder, shape, transposed), f32)
    if zero is not None:
        weights = emitted.subtract(builder, weights, builder.constant(factor(zero, r.integers(0, 16, zero)), f32))
    weights = emitted.multiply(builder, weights, builder.constant(factor(scale, r.uniform(0.1, 1, scale)), f32))
    if len(shape) == 3:
        flat = [COLUMNS, ROWS_COMPRESSED_WEIGHTS] if transposed else [ROWS_COMPRESSED_WEIGHTS, COLUMNS]
        weights = builder.emit(Reshape1(special_zero=False), weights, builder.constant(flat))
    if reader == "MatMul":
        op, data = MatMul1(transpose_b=not transposed), Parameter1(element_type=f32, shape=PartialShape([-1, COLUMNS]))
    else:
        op, data = Gather8(), Parameter1(element_type=element_types.i64, shape=PartialShape([-1]))
    x = make_node(data, (), "x")
    x.outputs[0].names = ["x"]
    if reader == "MatMul":
        y = builder.emit(op, x.outputs[0], weights)
    else:
        y = builder.emit(op, weights, x.outputs[0], builder.constant(0))
    y.names = ["y"]
    for place, node in enumerate(builder.emitted):
        node.name = f"layer {place}"
    return Model("m", [x], [make_node(Result1(), [y], "result")])


def check(model: Model, reader: str, changes: bool) -> None:
    feeds = {"x": generator(5).normal(size=(3, COLUMNS)).astype(np.float32) if reader == "MatMul" else np.array([0, 7])}
    (expected,) = run_numpy(ir_runtime.model_to_bytes(model), feeds)
    assert openvino_cpu.run(model).get(RULE, 0) == changes
    (actual,) = run_openvino(ir_runtime.model_to_bytes(model), feeds)
    assert_close(actual, expected)


@pytest.mark.parametrize("reader", ["MatMul", "MatMul by columns", "Gather"])
@pytest.mark.parametrize(("shape", "scale", "zero"), STAY)
def test_usual_scales_stay(shape: list[int], scale: list[int], zero: list[int] | None, reader: str) -> None:
    model = reading(shape, scale, zero, reader.split()[0], reader.endswith("columns"))
    check(model, reader.split()[0], False)


@pytest.mark.parametrize("reader", ["MatMul", "MatMul by columns", "Gather"])
@pytest.mark.parametrize(("shape", "scale", "zero"), CHANGE)
def test_other_scales_change(shape: list[int], scale: list[int], zero: list[int] | None, reader: str) -> None:
    model = reading(shape, scale, zero, reader.split()[0], reader.endswith("columns"))
    check(model, reader.split()[0], True)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("shape", "scale", "zero"), PRODUCTS_CHANGE)
def test_scales_of_products_change(
    shape: list[int], scale: list[int], zero: list[int] | None, transposed: bool
) -> None:
    check(reading(shape, scale, zero, "MatMul", transposed), "MatMul", True)


@pytest.mark.parametrize(("shape", "scale", "zero"), PRODUCTS_CHANGE)
def test_the_same_scales_of_tables_stay(shape: list[int], scale: list[int], zero: list[int] | None) -> None:
    check(reading(shape, scale, zero, "Gather"), "Gather", False)
