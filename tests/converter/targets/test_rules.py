"""Rules of the CPU plug-in: guards against its fusions, windows of attention, loops, the best of many, kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime.capi.onnxruntime_pybind11_state as pybind
import openvino
import pytest
from onnx import helper
from openvino._offline_transformations import paged_attention_transformation

import converter
import ir_runtime
from converter.conversion import convert
from converter.targets.onnxruntime.kernels import _COMPUTED_BY, TABLE, has_kernel, table_of
from converter.targets.registry import Target, openvino_cpu
from ir_runtime.graph.model import Model
from tests.converter.language_models.decoders import LAYERS, Decoder
from tests.converter.targets.models import gated_delta_rule
from tests.converter.to_onnx.graphs import constant
from tests.engines import check_node, core, run, run_onnxruntime
from tests.rows.onnx.convolution import normalized
from tests.rows.onnx.fused_by_the_plug_in import reduced_and
from tests.rows.onnx.sorting import MANY
from tests.rows.row import const, rows, several
from tests.rows.targets.probes import GATES, OPEN, gated
from tests.suite.reshape import check_reshaped

from .probes.computation import attention
from .probes.rows import numbers


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


@pytest.mark.parametrize(("variance", "options"), [(-0.01, {}), (0.5, {"exact": True}), (0.5, {"target": "any"})])
def test_the_normalization_stays(variance: float, options: dict[str, Any]) -> None:
    """Factors would not be finite, or are not asked for."""
    (row,) = normalized("", 4, np.float32, "", v=const(np.full(6, variance), np.float32))
    types = set(converter.convert_model(row.model, **options).types)
    assert types & {"BatchNormInference", "Multiply", "Add"} == {"BatchNormInference"}


@pytest.mark.parametrize("name", ["y", "z"])
def test_outputs_keep_their_names(name: str) -> None:
    (row,) = normalized("", 4, np.float32, "")
    assert [result.end_names for result in converter.convert_model(row.model, output=name).results] == [[name]]


# --- sliding windows ---

_WINDOW_AT = 10
"""The input of the paged attention that is its window."""


WINDOWED = [
    *(Decoder(kind, window=window) for kind, window in (("grouped", 8), ("grouped", 100), ("onnx", 8), ("spelled", 8))),
    Decoder("spelled", window=8, guarded=True),
]
"""Decoders with a window in their masks, the probes of the rule sliding_windows."""


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


@pytest.mark.parametrize("decoder", WINDOWED, ids=str)
def test_the_window_is_found_by_the_rule_alone(decoder: Decoder) -> None:
    assert windows(converter.convert_model(decoder.build(), stateful=True)) == [decoder.window] * LAYERS
    model = converter.convert_model(decoder.build(), stateful=True, target="any")
    openvino_cpu.run(model, [rule for rule in openvino_cpu.all() if rule.name != "sliding_windows"])
    assert windows(model) != [decoder.window] * LAYERS, "the plug-in finds it: give the rule until"


def test_masks_without_a_window_and_windows_without_a_cache_stay() -> None:
    model = converter.convert_model(Decoder().build(), stateful=True)
    assert windows(model) == [0] * LAYERS
    for made in (model, converter.convert_model(Decoder("spelled", window=8).build())):
        assert "BitwiseAnd" not in made.types


# --- onnxruntime kernels ---

F64 = {"T": "tensor(double)"}


def test_the_table_is_that_of_the_installed_release() -> None:
    assert TABLE.read_text() == table_of(pybind.get_all_opkernel_def()), "run docs/generate.py"


@pytest.mark.parametrize(
    ("name", "opset", "kinds", "others"),
    [
        ("Add", 14, "int8", ""), ("Add", 13, "", "int8"), ("Conv", 22, "float float16", "double"),
        ("HardSwish", 14, "float16", "double"),  # as HardSigmoid, by which it is computed
        ("GroupNormalization", 21, "double", ""),  # made of operators that take it
    ],
)  # fmt: skip
def test_what_has_a_kernel(name: str, opset: int, kinds: str, others: str) -> None:
    taken = [kind for kind in f"{kinds} {others}".split() if has_kernel(name, "", opset, {"T": f"tensor({kind})"})]
    assert taken == kinds.split()


@pytest.mark.parametrize("name", sorted(_COMPUTED_BY))
def test_functions_contain_the_operator_that_decides(name: str) -> None:
    inner = [node.op_type for node in onnx.defs.get_schema(name).function_body.node]
    assert _COMPUTED_BY[name] in inner
    without_kernel = [each for each in inner if not has_kernel(each, "", onnx.defs.get_schema(each).since_version, F64)]
    assert without_kernel == [_COMPUTED_BY[name]]


def rooted_in(model: ir_runtime.Model) -> int:
    Target.parse("cpu").apply(model)
    return sum(node.op.type == "Power" for node in model.nodes())


@pytest.mark.parametrize(("steps", "roots"), [(5, 1), (3, 0), (7, 0)])
def test_a_number_of_steps(steps: int, roots: int) -> None:
    """The plug-in takes as many steps as there are queries, here 5."""
    model = converter.convert_model(gated_delta_rule(), target="any")
    model.reshape({node.end_names[0]: [-1, 5, -1] for node in model.parameters if node.end_names[0] != "state"})
    (loop,) = (node for node in model.nodes() if node.op.type == "Loop")
    loop.replace_input(0, constant(np.array(steps), "i64"))
    assert rooted_in(model) == roots


SLICE = 'axis="2" start="0" end="-1" stride="1"'

STEP = '<input external_port_id="-1" internal_layer_id="0" purpose="current_iteration"/>'
OTHERS = {
    "": {}, "backwards": {SLICE: 'axis="2" start="-1" end="0" stride="-1"'},
    "from the second step": {SLICE: SLICE.replace('start="0"', 'start="1"')},
    "queries for keys": {'port_id="2" internal_layer_id="1"': 'port_id="2" internal_layer_id="2"',
                         'port_id="3" internal_layer_id="2"': 'port_id="3" internal_layer_id="1"'},
    "without the number of the step": {STEP: '<input external_port_id="0" internal_layer_id="0"/>'},
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_slices(name: str) -> None:
    """The rule applies to the loop as it is, and to no other."""
    written, weights = ir_runtime.model_to_bytes(converter.convert_model(gated_delta_rule(), target="any"))
    xml = written.decode()
    for old, new in OTHERS[name].items():
        assert old in xml
        xml = xml.replace(old, new)
    assert rooted_in(ir_runtime.read_model(xml.encode(), weights)) == (not name)


# --- stable top k ---


def top_k(count: int, at: str = "constant", data: Any = MANY, **attributes: Any) -> Any:
    stored = const([count]) if at == "constant" else np.array([count])
    (row,) = rows("TopK", 11, x=data, k=stored, outputs=2, dims={"x": [None] * 3}, **attributes)
    return row


@pytest.mark.parametrize(
    ("row", "count"),
    [(top_k(30), 1), (top_k(15, "execution"), 1), (top_k(30, axis=1, data=MANY[:, [0] * 40]), 0), (top_k(15), 0)],
    ids=["constant", "execution", "inner axis", "few"],
)
def test_the_best_are_found_by_keys(row: Any, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """``tests/rows/onnx/sorting.py`` has the numbers."""
    for most in (1 << 24, 5000):  # and a branch of too many keys
        monkeypatch.setattr("converter.targets.openvino_cpu.stable_top_k._MOST", most)
        assert convert(row.model).rules.get("stable_top_k", 0) == count
        check_node(row.model, row.feeds)


def test_values_alone_need_no_order() -> None:
    model = top_k(30).model
    del model.graph.output[1]
    (layer,) = (node for node in converter.convert_model(model).nodes() if node.op.type == "TopK")
    assert not layer.op.stable
