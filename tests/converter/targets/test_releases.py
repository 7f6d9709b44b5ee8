"""Targets of a release: older operations of the same numbers, the rules that run, and what is refused."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import converter
import ir_runtime
from converter.conversion import convert
from converter.passes.decomposition.registry import DECOMPOSITIONS
from converter.targets.registry import RULES, Target
from tests.converter.to_onnx.single_layers import STAY, model_of
from tests.engines import ENGINES, converted, node_model, output_names, run, run_onnxruntime
from tests.random_data import generator
from tests.rows.layer import Layer
from tests.rows.table import layer_table

from . import probes
from .probes.rows import Probe


def newest(model: ir_runtime.Model) -> int:
    """The opset of the newest operation."""
    return max(node.op.opset for part in model.all_models() for node in part.nodes())


def stft(dynamic: bool) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    x = generator(1).normal(size=(2, 400, 1)).astype(np.float32)
    constants = {"step": np.array(50), "window": np.hanning(128).astype(np.float32)}
    shapes = {"x": [None, None, 1]} if dynamic else None
    return node_model("STFT", {"x": x}, opset=17, constants=constants, shapes=shapes), {"x": x}


def shifts() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """An int32 sum of many elements, whose groups of bits are put together by shifts."""
    x = generator(2).integers(-(2**20), 2**20, (2, 3000)).astype(np.int32)
    return node_model("ReduceSum", {"x": x}, opset=11, attributes={"axes": [1], "keepdims": 0}), {"x": x}


def shifted(amounts: Any, dtype: Any = np.uint32) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Large integers shifted down."""
    x = generator(4).integers(2**29, 2**31, 6).astype(dtype)
    constants = {"n": np.array(amounts, dtype)}
    return node_model("BitShift", {"x": x}, opset=11, constants=constants, attributes={"direction": "RIGHT"}), {"x": x}


def padded() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    x = generator(3).normal(size=(5, 4)).astype(np.float32)
    return node_model("CenterCropPad", {"x": x}, opset=18, constants={"shape": np.array([8, 3])}), {"x": x}


def returned_twice() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Relu", ["x"], ["z"])]
    nodes.append(helper.make_node("Identity", ["z"], ["again"]))
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x", "y", "z", "again")}
    graph = helper.make_graph(nodes, "g", [values["x"]], [values[name] for name in ("y", "z", "again")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, {"x": np.array([-1, 0, 2], np.float32)}


def rounded_up(
    op_type: str, kernel: list[int], strides: list[int], pads: list[int], dynamic: bool = False, **more: Any
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A pooling whose number of windows is rounded up."""
    x = generator(5).normal(size=(1, 2, 6, 11)).astype(np.float32)
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": 1, **more}
    outputs = 2 if op_type == "MaxPool" else 1
    shapes = {"x": [None] * 4} if dynamic else None
    return node_model(op_type, {"x": x}, opset=19, attributes=attributes, outputs=outputs, shapes=shapes), {"x": x}


POOLINGS: list[tuple[str, Any]] = [
    (
        f"rounded_up_poolings: {op_type}-{name}{'-dynamic' if dynamic else ''}",
        functools.partial(rounded_up, op_type, *windows, dynamic),
    )
    for dynamic in (False, True)
    for op_type in ("AveragePool", "MaxPool")
    for name, windows in {
        "none-behind": ([2, 3], [2, 2], [0, 0, 0, 1]),
        "some-behind": ([2, 2], [4, 3], [1, 1, 1, 1]),
        "not-padded": ([2, 2], [5, 4], [0, 0, 0, 0]),
    }.items()
    if (op_type, name) != ("MaxPool", "none-behind")
] + [
    (
        "rounded_up_poolings: AveragePool-pads-count",
        lambda: rounded_up("AveragePool", [4, 3], [1, 2], [3, 1, 3, 0], count_include_pad=1),
    ),
    (
        "rounded_up_poolings: MaxPool-dilated",
        lambda: rounded_up("MaxPool", [2, 3], [3, 2], [1, 1, 1, 1], dilations=[2, 2]),
    ),
]


@dataclass(frozen=True)
class Ruled:
    """A model whose plain layers are newer than a release, and the rule that expresses them by older ones."""

    name: str
    build: Callable[[], tuple[onnx.ModelProto, dict[str, np.ndarray]]]

    @property
    def rule(self) -> str:
        return self.name.partition(":")[0]

    def __str__(self) -> str:
        return self.name


RULED = [
    *(Ruled(name, build) for name, build in POOLINGS),
    Ruled("bitwise_shifts: of a sum", shifts),
    Ruled("bitwise_shifts", lambda: shifted([3])),
    Ruled("bitwise_shifts: far", lambda: shifted([8, 9, 15, 16, 29, 30])),
    Ruled("bitwise_shifts: little", lambda: shifted([0, 1, 2, 7, 8, 5])),
    Ruled("bitwise_shifts: i64", lambda: shifted([5], np.uint64)),
]
OLDER = [
    Ruled("MaxPool, no window after the data", lambda: rounded_up("MaxPool", [2, 3], [2, 2], [0, 0, 0, 1])),
    Ruled("padded", padded),
    Ruled("returned twice", returned_twice),
]
"""Models whose plain layers every release has."""
NEWER = [Ruled("STFT", lambda: stft(False)), Ruled("STFT, dynamic", lambda: stft(True))]
"""Models whose layers older releases do not have, and that are decomposed."""
ROWS = [*RULED, *OLDER, *NEWER]
MEASURED = ("2023.3", "2024.6", "2025.4", "2026.4")
"""The releases in which every probe was run."""
LIMITED = {rule.name: rule for pipeline in RULES for rule in pipeline.all() if rule.since or rule.until}


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_older_operations_compute_the_same(row: Ruled) -> None:
    model, feeds = row.build()
    made = converter.convert_model(model, target="cpu@2023.3")
    assert newest(made) <= 13
    ir = ir_runtime.model_to_bytes(made)
    for engine in ENGINES:
        for value, expected in zip(run(engine, ir, feeds, output_names(model)), run_onnxruntime(model, feeds)):
            np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4, err_msg=engine)


def rules_for(model: onnx.ModelProto, target: str) -> dict[str, int]:
    """How many layers each rule replaced in a conversion for ``target``."""
    found = convert(model, converter.ConversionOptions(target=target))
    return dict(found.rules)


@pytest.mark.parametrize("pipeline", RULES)
def test_rules_name_releases_that_were_tried(pipeline: Any) -> None:
    assert {release for rule in pipeline.all() for release in rule.seen_in} <= set(MEASURED)


@pytest.mark.parametrize("release", MEASURED)
@pytest.mark.parametrize("row", [row for row in (*RULED, *probes.ALL) if row.rule in LIMITED], ids=str)
def test_a_release_runs_the_rules_whose_reason_was_seen_in_it(row: Ruled | Probe, release: str) -> None:
    model, _ = row.build()
    assert (row.rule in rules_for(model, f"cpu@{release}")) == (release in LIMITED[row.rule].seen_in)


@pytest.mark.parametrize(
    ("rule", "right", "wrong"),
    [("matmul_by_stacked_weights", "2025.0", "2025.4"), ("tile_dynamic_dimensions", "2026.0", "2026.4")],
)
def test_a_rule_begins_after_the_last_release_that_is_right(rule: str, right: str, wrong: str) -> None:
    model, _ = next(row for row in probes.ALL if row.rule == rule).build()
    assert rule not in rules_for(model, f"cpu@{right}")
    assert rule in rules_for(model, f"cpu@{wrong}")
    assert rule in rules_for(model, "cpu")


@pytest.mark.parametrize(("target", "runs"), [("cpu@2024.5", True), ("cpu@2024.6", False), ("cpu", False)])
@pytest.mark.parametrize("row", RULED, ids=str)
def test_rules_for_older_operations_run_up_to_2024_5(row: Ruled, target: str, runs: bool) -> None:
    assert (row.rule in rules_for(row.build()[0], target)) == runs


@pytest.mark.parametrize("row", RULED, ids=str)
def test_the_newest_release_computes_the_newer_operations(row: Ruled) -> None:
    model, feeds = row.build()
    for value, expected in zip(
        run("openvino", converted(model), feeds, output_names(model)), run_onnxruntime(model, feeds)
    ):
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4)


DECOMPOSED = [
    call
    for call in layer_table()
    if call.op.opset > 13
    and type(call.op) in DECOMPOSITIONS.entries()
    and not any(re.match(start, call.label) for start in STAY)
]


@pytest.mark.parametrize("call", DECOMPOSED, ids=lambda call: call.label)
def test_operations_that_a_release_does_not_have_are_decomposed(call: Layer) -> None:
    model, feeds = model_of(call)
    counts = Target.parse("cpu@2023.3").apply(model)
    assert sum(counts.values()) >= 1
    assert newest(model) <= 13
    names = [f"y{index}" for index in range(len(call.outputs))]
    for engine in ENGINES:
        for value, expected in zip(run(engine, ir_runtime.model_to_bytes(model), feeds, names), call.outputs):
            assert value.dtype == expected.dtype
            close = 2e-3 if expected.dtype == np.float16 else 1e-4
            np.testing.assert_allclose(value, expected, rtol=close, atol=close, err_msg=engine)


def test_no_newer_operation_is_written_without_need() -> None:
    for row in OLDER:
        assert newest(converter.convert_model(row.build()[0])) <= 13


def test_what_a_release_does_not_have_is_named() -> None:
    model, _ = shifted([3, 4, 5, 11, 12, 13])
    assert newest(converter.convert_model(model, target="cpu@2024.6")) == 15
    with pytest.raises(
        converter.ConversionError, match=r"cpu@2023\.3 has operations up to opset 13.*BitwiseRightShift-15"
    ):
        converter.convert_model(model, target="cpu@2023.3")


@pytest.mark.parametrize(
    ("target", "message"),
    [("gpu", "there is no target 'gpu'"), ("cpu@2021.4", "older than 2023.3"), ("cpu@", "there is no target 'cpu@'")],
)
def test_targets_that_are_none(target: str, message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(padded()[0], target=target)
