"""The plain layers that rules replace, targets of a release, and what rules do beside numbers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
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
from converter.conversion.convert import convert
from converter.passes.decomposition.registry import DECOMPOSITIONS
from converter.targets.onnxruntime.kernels import _COMPUTED_BY, TABLE, has_kernel, table_of
from converter.targets.registry import RULES, Target, openvino_cpu
from ir_runtime.graph.model import Model
from ir_runtime.rewriting.pipeline import release_of
from tests.converter.language_models.decoders import LAYERS, Decoder
from tests.converter.targets.models import MEASURED, NEEDED, RULED, SLOW, gated_delta_rule, rounded_up, shifted
from tests.converter.targets.probes import ALL, ARITHMETIC, CRASHING, REFUSED, WRONG
from tests.converter.targets.probes.rows import Probe, probe, run_plain, single
from tests.converter.to_onnx.graphs import constant, model_of
from tests.engines import ENGINES, HAS_AVX512, assert_close, check_node, core, run, run_onnxruntime
from tests.random_data import generator
from tests.rows.layer import Layer
from tests.rows.onnx.convolution import normalized
from tests.rows.onnx.fused_by_the_plug_in import reduced_and
from tests.rows.onnx.indexing import MANY
from tests.rows.row import const, graphs, rows, several
from tests.rows.table import layer_table
from tests.rows.targets.probes import GATES, OPEN, gated
from tests.runtimes.check import reason_of
from tests.runtimes.work import Work
from tests.suite.reshape import check_reshaped

from .probes.computation import attention
from .probes.rows import numbers

NEEDED_RULE = "the plug-in fails on the plain layers; where it does not, give the rule until, or the row other values"


@pytest.mark.every_value
@pytest.mark.parametrize("row", ALL, ids=str)
def test_a_rule_applies_to_the_plain_layers(row: Probe) -> None:
    """``tests/rows/targets/probes.py`` has the numbers, of the plain layers as well."""
    model, _ = row.build()
    made = converter.convert_model(model, target="any")
    layers = [node.op.type for part in made.all_models() for node in part.nodes() if not node.op.role]
    assert " ".join(layers) == row.layers, "name the layers of target='any' in the row"
    rules = convert(model).rules
    assert rules.get(row.rule), f"the rule {row.rule} does not apply to its row; -v shows the reasons"
    if row in ARITHMETIC:
        assert {name: count for name, count in rules.items() if name != "selected_integers"} == {row.rule: 1}


def test_tables_of_two_bits_stay_stored() -> None:
    """Four bits an element, and not the wider integers that hold tables given at run time."""
    row = next(row for row in ALL if row.name == "gather_from_2_bit_tables")
    model, _ = row.build()
    layers = converter.convert_model(model).nodes()
    tables = [node.inputs[0] for node in layers if node.op.type == "Gather"]
    assert [str(table.element_type) for table in tables] == ["u4", "f32"]


def needed(rows: Sequence[Probe]) -> list[Probe]:
    return [row for row in rows if row.rule in NEEDED]


def test_the_plug_in_computes_the_plain_layers_of_rules_that_it_does_not_need() -> None:
    for row in ALL:
        if row.rule not in NEEDED:
            run_plain(row)


WITH_AVX512 = {
    "layers_of_narrow_types: bf16 in groups", "comparisons_with_nan: Greater", "comparisons_with_nan: GreaterOrEqual",
}  # fmt: skip
"""What the plug-in refuses or gets wrong with AVX-512 alone, with which it computes bfloat16 itself."""


def failing(rows: Sequence[Probe], error: type[Exception]) -> Any:
    mark = pytest.mark.xfail(strict=True, raises=error, reason=NEEDED_RULE)
    fails = {row.name for row in rows if HAS_AVX512 or row.name not in WITH_AVX512}
    return [pytest.param(row, marks=mark if row.name in fails else (), id=str(row)) for row in needed(rows)]


@pytest.mark.parametrize("row", [*failing(WRONG, AssertionError), *failing(REFUSED, RuntimeError)])
def test_the_plug_in_computes_the_plain_layers(row: Probe) -> None:
    run_plain(row)


@pytest.mark.parametrize("row", needed(CRASHING), ids=str)
@pytest.mark.xfail(strict=True, raises=subprocess.CalledProcessError, reason=NEEDED_RULE)
def test_the_plug_in_survives_the_plain_layers(row: Probe) -> None:
    """In a process of its own."""
    script = f"""from tests.converter.targets.probes import CRASHING, rows
rows.run_plain(next(row for row in CRASHING if row.name == {row.name!r}))"""
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", script], cwd=root, check=True, capture_output=True, timeout=120)


ALL_RULES = [rule for pipeline in RULES for rule in pipeline.all()]


def test_every_rule_has_a_probe_and_every_probe_a_rule() -> None:
    rules = {rule.name for rule in ALL_RULES}
    probed = {row.rule for rows in (ALL, RULED, SLOW) for row in rows} | {"sliding_windows"}
    where = (
        "tests/converter/targets/probes where plain layers are wrong, refused or crash, models.py where they are slow"
    )
    assert not rules - probed, f"add a row for each of these rules: to {where}"
    assert not probed - rules, "no rule has these names of rows: a row begins with the name of its rule"


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.name)
def test_every_rule_has_the_releases_in_which_its_reason_was_seen(rule: Any) -> None:
    releases = [release_of(text) for text in rule.seen_in]
    assert releases
    assert releases == sorted(releases)
    assert {*rule.seen_in} <= {*MEASURED}, "name the releases that were tried"
    assert rule.since is None or release_of(rule.since) <= releases[0]
    assert rule.until is None or release_of(rule.until) >= releases[-1]
    assert rule.entry.operations
    assert rule.run.__doc__, "say why there is the rule"


@pytest.mark.parametrize("row", SLOW, ids=str)
def test_the_rule_makes_the_plug_in_fast(row: Any) -> None:
    assert row.is_fast(ir_runtime.model_to_bytes(converter.convert_model(row.build()))), (
        f"the rule {row.rule} does not apply to the row, or what it emits is slow as well"
    )


FAST = "the plug-in is slow without the rule; where it is not, give the rule until, or the row other layers"


@pytest.mark.parametrize("row", [row for row in SLOW if row.rule in NEEDED], ids=str)
@pytest.mark.xfail(strict=True, raises=AssertionError, reason=FAST)
def test_the_plug_in_is_fast_without_the_rule(row: Any) -> None:
    model = converter.convert_model(row.build(), target="any")
    openvino_cpu.run(model, [rule for rule in openvino_cpu.all() if rule.name != row.rule])
    assert row.is_fast(ir_runtime.model_to_bytes(model))


# --- targets of a release ---


def newest(model: ir_runtime.Model) -> int:
    return max(node.op.opset for part in model.all_models() for node in part.nodes())


X = generator(1).normal(size=(2, 400, 1)).astype(np.float32)
TWICE = "g (float[3] x) => (float[3] y, float[3] z, float[3] again) { y = Identity(x) z = Relu(x) again = Identity(z) }"
OLDER = [
    rounded_up("no window after the data", "MaxPool", [2, 3], [2, 2], [0, 0, 0, 1]),
    probe("padded", "", single("CenterCropPad", 18, x=X[0, :20].reshape(5, 4), shape=const([8, 3]))),
    probe("returned twice", "", graphs(TWICE, label="", x=np.array([-1, 0, 2], np.float32))),
]
"""Models whose plain layers every release has."""
HANN = const(np.hanning(128), np.float32)
NEWER = [
    probe(f"STFT, {dims}", "", single("STFT", 17, x=X, step=const(50), window=HANN, dims=dims))
    for dims in (None, {"x": [None, None, 1]})
]
"""Models whose layers older releases do not have, and that are decomposed."""
LIMITED = {rule.name: rule for pipeline in RULES for rule in pipeline.all() if rule.since or rule.until}


@pytest.mark.parametrize("row", [*RULED, *OLDER, *NEWER], ids=str)
def test_older_operations_compute_the_same(row: Probe) -> None:
    work = Work(row.row)
    assert row not in OLDER or newest(converter.convert_model(work.model)) <= 13, "nothing newer without need"
    for target in ("cpu@2023.3", "cpu")[: 2 if row in RULED else 1]:
        made = converter.convert_model(work.model, target=target)
        assert newest(made) <= 13 or target == "cpu"
        for engine in ENGINES:
            values = run(engine, ir_runtime.model_to_bytes(made), work.feeds, work.names)
            for value, expected in zip(values, work.expected, strict=True):  # the plug-in shifts 64 bits in float32
                np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4, err_msg=f"{target}, {engine}")


def rules_for(model: onnx.ModelProto, target: str) -> dict[str, int]:
    return dict(convert(model, converter.ConversionOptions(target=target)).rules)


@pytest.mark.parametrize("release", MEASURED)
@pytest.mark.parametrize("row", [row for row in (*RULED, *ALL) if row.rule in LIMITED], ids=str)
def test_a_release_runs_the_rules_whose_reason_was_seen_in_it(row: Probe, release: str) -> None:
    model, _ = row.build()
    assert (row.rule in rules_for(model, f"cpu@{release}")) == (release in LIMITED[row.rule].seen_in)


@pytest.mark.parametrize(
    ("row", "last_without", "with_it"),
    [
        *((row, ["cpu@2024.6", "cpu"], ["cpu@2024.5"]) for row in RULED),
        *((next(row for row in ALL if row.rule == rule), [f"cpu@{right}"], [f"cpu@{wrong}", "cpu"])
          for rule, right, wrong in (("matmul_by_stacked_weights", "2025.0", "2025.4"),
                                     ("tile_dynamic_dimensions", "2026.0", "2026.4"))),
    ],
)  # fmt: skip
def test_a_rule_begins_and_ends_between_releases(row: Probe, last_without: list[str], with_it: list[str]) -> None:
    model, _ = row.build()
    assert [target for target in (*last_without, *with_it) if row.rule in rules_for(model, target)] == with_it


DECOMPOSED = [
    call for call in layer_table()
    if call.op.opset > 13 and type(call.op) in DECOMPOSITIONS.entries()
    and not reason_of("decomposed layers", call.name)
]  # fmt: skip


@pytest.mark.parametrize("call", DECOMPOSED, ids=lambda call: call.label)
def test_operations_that_a_release_does_not_have_are_decomposed(call: Layer) -> None:
    model, feeds = model_of(call)
    counts = Target.parse("cpu@2023.3").apply(model)
    assert sum(counts.values()) >= 1
    assert newest(model) <= 13
    names = [f"y{index}" for index in range(len(call.outputs))]
    for engine in ENGINES:
        for value, expected in zip(run(engine, ir_runtime.model_to_bytes(model), feeds, names), call.outputs):
            assert_close(value, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("cpu@2023.3", r"cpu@2023\.3 has operations up to opset 13.*BitwiseRightShift-15"), ("cpu@2024.6", ""),
        ("gpu", "there is no target 'gpu'"), ("cpu@2021.4", "older than 2023.3"), ("cpu@", "there is no target 'cpu@'"),
    ],
)  # fmt: skip
def test_what_a_release_does_not_have_is_named(target: str, message: str) -> None:
    model, _ = shifted("", [3, 4, 5, 11, 12, 13]).build()
    if not message:
        assert newest(converter.convert_model(model, target=target)) == 15
        return
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model, target=target)


# --- guards against fusions, windows of attention, loops, the best of many, kernels ---


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
    """``tests/rows/onnx/indexing.py`` has the numbers."""
    for most in (1 << 24, 5000):  # and a branch of too many keys
        monkeypatch.setattr("converter.targets.openvino_cpu.stable_top_k._MOST", most)
        assert convert(row.model).rules.get("stable_top_k", 0) == count
        check_node(row.model, row.feeds)


def test_values_alone_need_no_order() -> None:
    model = top_k(30).model
    del model.graph.output[1]
    (layer,) = (node for node in converter.convert_model(model).nodes() if node.op.type == "TopK")
    assert not layer.op.stable
