"""Rules of the CPU plug-in: guards against its fusions, batch normalizations, windows of attention, kernels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime.capi.onnxruntime_pybind11_state as pybind
import openvino
import pytest
from onnx import helper, numpy_helper
from openvino._offline_transformations import paged_attention_transformation

import converter
import ir_runtime
from converter.equivalence.verification import verify
from converter.targets.onnxruntime.kernels import _COMPUTED_BY, TABLE, has_kernel, table_of
from converter.targets.registry import openvino_cpu
from ir_runtime.graph.model import Model
from tests.converter.language_models.decoders import LAYERS, Decoder
from tests.engines import core, run, run_onnxruntime
from tests.rows.onnx.fused_by_the_plug_in import reduced_and
from tests.rows.row import const, several
from tests.rows.targets.probes import GATES, OPEN, gated
from tests.suite.reshape import check_reshaped

from .probes.computation import attention
from .probes.rows import numbers

# --- fusion guards ---


def test_the_layer_keeps_its_names_and_the_tensor_its_shape() -> None:
    (row,) = reduced_and("ReduceMean", 2, 1, "Add")
    made = converter.convert_model(row.model, output=["r", "y"])
    (reduction,) = [node for node in made.nodes() if node.op.type == "ReduceMean"]
    assert reduction.name == "reduce"
    (tensor,) = [out for node in made.nodes() for out in node.outputs if "r" in out.names]
    assert str(tensor.shape) == "[5,3,1]"
    names = [node.name for node in made.nodes()]
    assert len(set(names)) == len(names)


def test_each_change_before_a_reduction_counts() -> None:
    """The derivation of an IR has the number of changes that each rule made."""
    nodes = "t = Unsqueeze (x, last) a = ReduceMean <axes = [1]> (t) b = ReduceMax <axes = [0]> (t)"
    (row,) = several(nodes, outputs="a, b", label="", x=np.zeros((4, 5, 3), np.float32), last=const([3]))
    assert openvino_cpu.run(converter.convert_model(row.model, target="any")) == {"fusion_guards": 2}


# --- layers beside others ---


@pytest.mark.parametrize("shape", [[2, 8, 5, 5], OPEN], ids=str)
@pytest.mark.parametrize(("layers", "stays"), GATES)
def test_nan_does_not_come_through_relu(layers: tuple[str, ...], stays: bool, shape: list[Any]) -> None:
    (row,) = gated(*layers, x=numbers(2, 8, 5, 5), shape=shape)
    assert ("Select" not in [node.op.type for node in converter.convert_model(row.model).nodes()]) == stays


@pytest.mark.parametrize("shape", [[2, 8, 5, 5], OPEN], ids=str)
@pytest.mark.parametrize("activation", ["Relu", "Clip"])
def test_the_plugin_makes_0_of_nan(activation: str, shape: list[Any]) -> None:
    """The reason for leaving HardSigmoid alone there. Once the plug-in is right, the rule has to look again."""
    x = numbers(2, 8, 5, 5)
    x[0, 3, 2, 2] = np.nan
    (row,) = gated(activation, "Conv", x=x, shape=shape)
    row.model.graph.output.append(helper.make_empty_tensor_value_info("s"))
    assert np.isnan(run_onnxruntime(row.model, row.feeds)[1][0]).all()
    for target, engine, right in (("cpu", "numpy", True), ("cpu", "openvino", False), ("any", "openvino", False)):
        ir = ir_runtime.model_to_bytes(converter.convert_model(row.model, target=target))
        assert bool(np.isnan(run(engine, ir, row.feeds)[1][0]).all()) == right


@pytest.mark.parametrize("is_fused", [False, True])
def test_attention_after_a_reshape(is_fused: bool) -> None:
    """As many queries as heads alone are transposed in place."""
    (row,), *others = (attention(is_fused, dims) for dims in ((2, 4, 7, 5, 16), (2, 4, 4, 5, 16), (1, 5, 5, 5, 16)))
    check_reshaped(row.model, row.feeds, *(next(other).feeds for other in others))
    (transposed,) = attention(is_fused, transposed=True)
    assert all(node.op.type != "Maximum" for node in converter.convert_model(transposed.model).nodes())


# --- batch normalizations ---

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


# --- sliding windows ---

_WINDOW_AT = 10
"""The input of the paged attention that is its window."""


@dataclass(frozen=True)
class WindowRow:
    """A decoder with a window in its mask."""

    decoder: Decoder
    rule: str = "sliding_windows"


ROWS = [
    WindowRow(Decoder(attention, window=window, guarded=guarded))
    for attention, window, guarded in (
        ("grouped", 8, False),
        ("grouped", 100, False),
        ("onnx", 8, False),
        ("spelled", 8, False),
        ("spelled", 8, True),
    )
]


def windows(model: Model) -> list[int]:
    """The window of each layer, as the transformation finds them; 0 where it finds none."""
    read = core().read_model(*ir_runtime.model_to_bytes(model))
    paged_attention_transformation(read)
    found = []
    for operation in read.get_ops():
        if operation.get_type_name() == "PagedAttentionExtension":
            alone = openvino.Model([operation.input_value(_WINDOW_AT)], [])
            found.append(int(np.asarray(core().compile_model(alone, "CPU")([])[0])))
    assert len(found) == LAYERS
    return found


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_window_is_found(row: WindowRow) -> None:
    model = converter.convert_model(row.decoder.build(), stateful=True)
    assert windows(model) == [row.decoder.window] * LAYERS


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.xfail(strict=True, raises=AssertionError, reason="the row's rule does not run")
def test_the_window_is_not_found_without_the_rule(row: WindowRow) -> None:
    model = converter.convert_model(row.decoder.build(), stateful=True, target="any")
    openvino_cpu.run(model, [rule for rule in openvino_cpu.all() if rule.name != row.rule])
    assert windows(model) == [row.decoder.window] * LAYERS


def test_masks_without_a_window_stay() -> None:
    model = converter.convert_model(Decoder().build(), stateful=True)
    assert "BitwiseAnd" not in model.types
    assert windows(model) == [0] * LAYERS


def test_a_window_without_a_cache_stays() -> None:
    model = converter.convert_model(Decoder("spelled", window=8).build())
    assert "BitwiseAnd" not in model.types


# --- onnxruntime kernels ---

F64 = {"T": "tensor(double)"}


def test_the_table_is_that_of_the_installed_release() -> None:
    assert TABLE.read_text() == table_of(pybind.get_all_opkernel_def()), "run docs/generate.py"


@pytest.mark.parametrize(
    ("name", "opset", "kind", "expected"),
    [
        ("Add", 14, "int8", True),
        ("Add", 13, "int8", False),
        ("Conv", 22, "float", True),
        ("Conv", 22, "float16", True),  # computed in float32
        ("Conv", 22, "double", False),
        ("HardSwish", 14, "float16", True),
        ("HardSwish", 14, "double", False),  # as HardSigmoid, by which it is computed
        ("GroupNormalization", 21, "double", True),  # made of operators that take it
    ],
)
def test_what_has_a_kernel(name: str, opset: int, kind: str, expected: bool) -> None:
    assert has_kernel(name, "", opset, {"T": f"tensor({kind})"}) is expected


@pytest.mark.parametrize("name", sorted(_COMPUTED_BY))
def test_functions_contain_the_operator_that_decides(name: str) -> None:
    inner = [node.op_type for node in onnx.defs.get_schema(name).function_body.node]
    assert _COMPUTED_BY[name] in inner
    without_kernel = [each for each in inner if not has_kernel(each, "", onnx.defs.get_schema(each).since_version, F64)]
    assert without_kernel == [_COMPUTED_BY[name]]
