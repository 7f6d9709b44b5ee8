"""Batch normalization by constants as a factor and a summand for each channel: where, in which numbers, with what."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import converter
import ir_runtime
from converter.equivalence.verification import verify

C = 6
PLAIN = "y = BatchNormalization<epsilon=0.01>(u, g, b, m, v)"
KINDS = {np.float16: "float16", np.float32: "float", np.float64: "double"}


def model_of(
    rank: int = 4, dtype: type = np.float32, text: str = PLAIN, inputs: str = "", **constants: np.ndarray
) -> onnx.ModelProto:
    """A convolution or a product, and a normalization of what another layer reads, too."""
    kind = KINDS[dtype]
    dims = f"n, 3{', 9' * (rank - 2)}"
    out = f"n, {C}{', k' * (rank - 2)}"
    before = "Conv(x, w)" if rank > 2 else "Gemm(x, w)"
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> t ({kind}[{dims}] x{inputs}) => ({kind}[{out}] y, {kind}[{out}] z)'
        f" {{ s = {before} u = Relu(s) z = Neg(u) {text} }}"
    )
    rng = np.random.default_rng(rank)
    given = {
        "w": rng.standard_normal((C, 3, *[2] * (rank - 2)) if rank > 2 else (3, C)),
        "g": rng.standard_normal(C),
        "b": rng.standard_normal(C),
        "m": rng.standard_normal(C),
        "v": rng.random(C) + 0.1,
    } | constants
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(array.astype(dtype), name) for name, array in given.items() if name in read
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def types_of(model: ir_runtime.Model) -> set[str]:
    return {node.op.type for node in model.nodes()} & {"BatchNormInference", "Multiply", "Add"}


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_normalization_is_a_factor_and_a_summand(rank: int, dtype: type, tmp_path: Path) -> None:
    model = model_of(rank, dtype)
    converted = converter.convert_model(model)
    assert {"Multiply", "Add"} <= types_of(converted)
    assert "BatchNormInference" not in types_of(converted)
    converter.save_model(converted, tmp_path / "m.xml")
    assert verify(model, tmp_path / "m.xml", layers=True).passed
    x = np.random.default_rng(0).standard_normal((2, 3, *[9] * (rank - 2))).astype(dtype)
    result = ir_runtime.compile_model(converted)({"x": x})
    g, b, m, v = (
        numpy_helper.to_array(next(one for one in model.graph.initializer if one.name == name))
        .astype(np.float64)
        .reshape(1, C, *[1] * (rank - 2))
        for name in "gbmv"
    )
    wanted = g * (-result["z"].astype(np.float64) - m) / np.sqrt(v + 0.01) + b
    np.testing.assert_allclose(result["y"], wanted, rtol=1e-5 if dtype is np.float32 else 1e-12, atol=1e-5)


def test_summands_of_0_are_left_out() -> None:
    converted = converter.convert_model(model_of(b=np.zeros(C), m=np.zeros(C)))
    assert types_of(converted) == {"Multiply"}


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ({"dtype": np.float16}, {}),
        ({"text": PLAIN.replace("v)", "d)"), "inputs": f", float[{C}] d"}, {}),
        ({"v": np.full(C, -0.01)}, {}),
        ({}, {"exact": True}),
        ({}, {"target": "any"}),
    ],
    ids=["float16", "variance at run time", "no finite factors", "exact", "another target"],
)
def test_the_normalization_stays(arguments: dict, options: dict) -> None:
    assert "BatchNormInference" in types_of(converter.convert_model(model_of(**arguments), **options))


@pytest.mark.parametrize("name", ["y", "z"])
def test_outputs_keep_their_names(name: str) -> None:
    converted = converter.convert_model(model_of(), output=name)
    assert [result.end_names for result in converted.results] == [[name]]


@pytest.mark.parametrize("options", [{"compress": "int8"}, {"compress_to_fp16": True}], ids=str)
def test_it_is_right_with_compressed_weights(options: dict, tmp_path: Path) -> None:
    converter.save_model(converter.convert_model(model_of()), tmp_path / "m.xml", **options)
    assert verify(model_of(), tmp_path / "m.xml").passed


def test_a_wrong_factor_is_found(tmp_path: Path) -> None:
    model = model_of()
    converter.save_model(converter.convert_model(model), tmp_path / "m.xml")
    stored = bytearray((tmp_path / "m.bin").read_bytes())
    v, g = (numpy_helper.to_array(next(i for i in model.graph.initializer if i.name == name)) for name in "vg")
    factor = (g.astype(np.float64) / np.sqrt(v.astype(np.float64) + np.float32(0.01))).astype(np.float32)
    at = bytes(stored).index(factor.tobytes())
    stored[at : at + 4] = np.float32(factor[0] * 1.05).tobytes()
    (tmp_path / "m.bin").write_bytes(stored)
    assert not verify(model, tmp_path / "m.xml").passed


def test_an_export_computes_the_same(tmp_path: Path) -> None:
    converter.save_model(converter.convert_model(model_of()), tmp_path / "m.xml")
    converter.save_onnx(tmp_path / "m.xml", tmp_path / "back.onnx")
    assert verify(tmp_path / "back.onnx", tmp_path / "m.xml").passed
