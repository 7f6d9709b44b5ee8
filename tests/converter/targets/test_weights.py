"""Weights of products in the CPU plug-in: transposed, and compressed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import numpy_helper

import converter
import ir_runtime
from converter.equivalence.verification import verify
from converter.targets.registry import openvino_cpu
from ir_runtime.graph import element_types
from ir_runtime.graph.model import Model
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations.inputs_outputs import Parameter1, Result1
from ir_runtime.operations.matmul import MatMul1
from tests.converter.optimization.models import fed, floats, parse
from tests.engines import assert_close, check_node, run_numpy, run_openvino
from tests.ir_runtime.execution.kernel_checks import Layers
from tests.random_data import generator

# --- transposed weights ---

K, N = 37, 21


def layers(model: Model) -> list[str]:
    found = []
    for node in model.nodes():
        if isinstance(node.op, MatMul1):
            flags = "a" * node.op.transpose_a + "b" * node.op.transpose_b
            found.append(f"MatMul {flags} {node.inputs[1].shape}".replace("  ", " "))
    return found


SINGLE = "g (float[n, 3, 37] x) => (float[n, 3, 21] y) { y = MatMul(x, w) }"
TWO = "g (float[n, 37] x) => (float[n, 21] y, float[n, 21] z) { y = MatMul(x, w) u = Exp(x) z = MatMul(u, w) }"
BODY = """g (float[n, 37] x, bool c) => (float[n, 21] y) { y = If (c) <
    then_branch = t () => (float[n, 21] p) { p = MatMul(x, w) },
    else_branch = e () => (float[n, 21] q) { r = MatMul(x, w) q = Neg(r) }> }"""
READ = "g (float[n, 37] x, int64[m] i) => (float[n, 21] y, float[m, 21] z) { y = MatMul(x, w) z = Gather(w, i) }"
RETURNED = "g (float[n, 37] x) => (float[n, 21] y, float[37, 21] v) { y = MatMul(x, w) v = Identity(w) }"
ROWS = {
    "batch": (SINGLE, (K, N), "b [21,37]"),
    "vector": ("g (float[37] x) => (float[21] y) { y = MatMul(x, w) }", (K, N), "b [21,37]"),
    "one column": ("g (float[n, 37] x) => (float[n, 1] y) { y = MatMul(x, w) }", (K, 1), "b [1,37]"),
    "ones in front": (SINGLE, (1, K, N), "b [1,21,37]"),
    "Gemm": ("g (float[37, n] x) => (float[n, 21] y) { y = Gemm<transA=1>(x, w) }", (K, N), "ab [21,37]"),
    "Gemm of rows": ("g (float[n, 37] x) => (float[n, 21] y) { y = Gemm<transB=1>(x, w) }", (N, K), "b [21,37]"),
    "stack": ("g (float[2, n, 37] x) => (float[2, n, 21] y) { y = MatMul(x, w) }", (2, K, N), "[2,37,21]"),
    "two products": (TWO, (K, N), "b [21,37]"),
    "another reader": (READ, (K, N), "[37,21]"),
    "an output": (RETURNED, (K, N), "[37,21]"),
    "first operand": ("g (float[21, n] x) => (float[37, n] y) { y = MatMul(w, x) }", (K, N), "[21,?]"),
    "in a body": (BODY, (K, N), "b [21,37]"),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_ir_computes_what_the_model_computes(name: str) -> None:
    text, shape, expected = ROWS[name]
    model = parse(text, w=floats(*shape))
    converted = converter.convert_model(model)
    assert {one for part in converted.all_models() for one in layers(part)} == {f"MatMul {expected}"}
    assert verify(model, converted, layers=True).passed
    check_node(model, fed(model))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_bytes_are_those_of_the_transposed_weights(dtype: type) -> None:
    kind = {np.float16: "float16", np.float32: "float", np.float64: "double"}[dtype]
    weights = floats(K, N).astype(dtype)
    model = converter.convert_model(parse(SINGLE.replace("float[", f"{kind}["), w=weights))
    _, stored = ir_runtime.model_to_bytes(model)
    assert weights.T.tobytes() in stored
    assert len(stored) < 2 * weights.nbytes


def test_the_tensor_of_the_other_order_has_no_name() -> None:
    converted = converter.convert_model(parse(SINGLE, w=floats(K, N)))
    (constant,) = [node for node in converted.nodes() if node.op.data is not None]
    assert (constant.name, constant.outputs[0].names) == ("w", [])


@pytest.mark.parametrize("compress", ["int8", "int4"])
@pytest.mark.parametrize("fp16", [False, True])
def test_compressed_weights_are_the_same_with_and_without_the_rule(compress: str, fp16: bool, tmp_path: Path) -> None:
    model = parse("g (float[n, 256] x) => (float[n, 128] y) { u = MatMul(x, w) y = MatMul(u, v) }",
                  w=floats(256, 128), v=floats(128, 128))  # fmt: skip
    results = []
    for target in ("cpu", "any"):
        path = tmp_path / f"{target}.xml"
        made = converter.convert_model(model, target=target)
        converter.save_model(made, path, compress=compress, compress_to_fp16=fp16)
        assert verify(model, path).passed
        results.append(ir_runtime.compile_model(ir_runtime.read_model(path))({"x": floats(4, 256)})["y"])
    # Sums of 256 products in another order.
    np.testing.assert_allclose(*results, rtol=0, atol=256 * np.finfo(np.float32).eps * np.abs(results[0]).max())


def test_an_ir_of_the_plain_target_gets_the_rule_and_keeps_its_numbers(tmp_path: Path) -> None:
    model = parse(SINGLE, w=floats(K, N))
    converter.save_model(converter.convert_model(model, target="any"), tmp_path / "any.xml")
    changed = converter.convert_model(tmp_path / "any.xml", target="cpu")
    assert layers(changed) == ["MatMul b [21,37]"]
    converter.save_model(changed, tmp_path / "cpu.xml")
    assert verify(tmp_path / "any.xml", tmp_path / "cpu.xml").passed


@pytest.mark.parametrize("fp16", [False, True])
@pytest.mark.parametrize("target", ["cpu", "any"])
def test_an_export_stores_the_weights_as_the_model_had_them(target: str, fp16: bool, tmp_path: Path) -> None:
    weights = floats(K, N)
    path = tmp_path / "m.xml"
    converter.save_model(converter.convert_model(parse(SINGLE, w=weights), target=target), path, compress_to_fp16=fp16)
    exported = converter.export_model(path)
    (stored,) = exported.graph.initializer
    assert [node.op_type for node in exported.graph.node] == (["Cast", "MatMul"] if fp16 else ["MatMul"])
    np.testing.assert_array_equal(numpy_helper.to_array(stored), weights.astype(np.float16) if fp16 else weights)


def test_an_export_stores_weights_of_two_products_once() -> None:
    model = parse(TWO.replace("[n,", "[2, n,"), w=floats(K, N))
    exported = converter.export_model(converter.convert_model(model))
    assert [list(one.dims) for one in exported.graph.initializer] == [[K, N]]


def test_an_export_keeps_weights_that_another_layer_reads() -> None:
    text = (
        "g (float[2, n, 160] x, int64[m] i) => (float[2, n, 128] y, float[m, 160] z)"
        " { z = Gather(w, i) t = Transpose<perm=[1, 0]>(w) y = MatMul(x, t) }"
    )
    exported = converter.export_model(converter.convert_model(parse(text, w=floats(128, 160))))
    assert [list(one.dims) for one in exported.graph.initializer if len(one.dims) > 1] == [[128, 160]]
    assert sorted(node.op_type for node in exported.graph.node) == ["Gather", "MatMul", "Transpose"]


# --- compressed weights ---

RULE = "scales_of_compressed_weights"
R, C = 24, 40
STAY = [
    # stored weights, scale, zero point
    ([R, C], [], None), ([R, C], [1, 1], [1, 1]), ([R, C], [R, 1], None), ([R, C], [R, 1], [R, 1]), ([R, C], [R, 1], [1]),
    ([R, 5, 8], [R, 5, 1], [R, 5, 1]), ([R, 5, 8], [R, 5, 1], [1, 1, 1]), ([R, 5, 8], [R, 1, 1], None),
    ([R, 20, 2], [R, 20, 1], None),
]  # fmt: skip
"""What the plug-in reads correctly, for products and tables."""
CHANGE = [
    ([R, C], [1, C], None), ([R, C], [C], [C]), ([R, C], [R, 1], [1, C]), ([R, 5, 8], [1, 5, 1], None),
    ([R, 5, 8], [R, 1, 8], None), ([R, 5, 8], [R, 5, 1], [1, 5, 1]),
]  # fmt: skip
PRODUCTS_CHANGE = [([R, C], [R, C], None), ([R, C], [R, 1], [R, C]), ([R, 8, 5], [R, 8, 1], None)]
"""Scales of tables of these shapes are right."""
READERS = ("MatMul", "MatMul by columns", "Gather")


def reading(shape: list[int], scale: list[int], zero: list[int] | None, reader: str) -> Model:
    """A product with weights [24, 40], stored by columns where that is said, or a look-up in them."""
    r, b, is_product, by_column = generator(4), Layers(), reader.startswith("MatMul"), reader.endswith("columns")

    def moved(values: Any) -> Any:
        return np.moveaxis(values, 0, -1) if by_column else values

    def factor(dims: list[int], values: Any) -> Any:
        return b.constant(moved(np.reshape(values, (*[1] * (len(shape) - len(dims)), *dims))), "f32")

    codes = moved(generator(3).integers(0, 16, shape)).astype(ml_dtypes.uint4)
    weights = b.Convert(b.constant(codes, element_types.u4), destination_type=element_types.f32)
    if zero is not None:
        weights = b.Subtract(weights, factor(zero, r.integers(0, 16, zero)))
    weights = b.Multiply(weights, factor(scale, r.uniform(0.1, 1, scale)))
    if len(shape) == 3:
        weights = b.Reshape(weights, moved(np.zeros((R, C))).shape, special_zero=False)
    kind, dims = (element_types.f32, [-1, C]) if is_product else (element_types.i64, [-1])
    x = make_node(Parameter1(element_type=kind, shape=PartialShape(dims)), (), "x")
    y = b.MatMul(x.outputs[0], weights, transpose_b=not by_column) if is_product else b.Gather(weights, x.outputs[0], 0)
    x.outputs[0].names, y.names = ["x"], ["y"]
    for place, node in enumerate(b.emitted):
        node.name = f"layer {place}"
    return Model("m", [x], [make_node(Result1(), [y], "result")])


@pytest.mark.parametrize(
    ("shape", "scale", "zero", "reader", "changes"),
    [
        *((*case, reader, case in CHANGE) for case in (*STAY, *CHANGE) for reader in READERS),
        *((*case, reader, reader != "Gather") for case in PRODUCTS_CHANGE for reader in READERS),
    ],
)
def test_scales_that_the_plug_in_does_not_read_change(
    shape: list[int], scale: list[int], zero: list[int] | None, reader: str, changes: bool
) -> None:
    model = reading(shape, scale, zero, reader)
    feeds = {"x": np.array([0, 7]) if reader == "Gather" else generator(5).normal(size=(3, C)).astype(np.float32)}
    (expected,) = run_numpy(ir_runtime.model_to_bytes(model), feeds)
    assert openvino_cpu.run(model).get(RULE, 0) == changes
    (actual,) = run_openvino(ir_runtime.model_to_bytes(model), feeds)
    assert_close(actual, expected)
