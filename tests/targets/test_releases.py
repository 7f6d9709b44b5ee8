"""Targets of a release: older operations that say the same, and what is refused."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import converter
import ir_runtime
from tests.engines import ENGINES, node_model, output_names, run, run_onnxruntime
from tests.random_data import generator


def newest(model: ir_runtime.Model) -> int:
    """The youngest operation's opset."""
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
    (f"{op_type}-{name}{'-dynamic' if dynamic else ''}", functools.partial(rounded_up, op_type, *windows, dynamic))
    for dynamic in (False, True)
    for op_type in ("AveragePool", "MaxPool")
    for name, windows in {
        "none-behind": ([2, 3], [2, 2], [0, 0, 0, 1]),
        "some-behind": ([2, 2], [4, 3], [1, 1, 1, 1]),
        "not-padded": ([2, 2], [5, 4], [0, 0, 0, 0]),
    }.items()
] + [
    ("AveragePool-pads-count", lambda: rounded_up("AveragePool", [4, 3], [1, 2], [3, 1, 3, 0], count_include_pad=1)),
    ("MaxPool-dilated", lambda: rounded_up("MaxPool", [2, 3], [3, 2], [1, 1, 1, 1], dilations=[2, 2])),
]

ROWS: list[tuple[str, Any]] = [
    *POOLINGS,
    ("stft", lambda: stft(False)),
    ("stft-dynamic", lambda: stft(True)),
    ("padded", padded),
    ("returned-twice", returned_twice),
    ("sum", shifts),
    ("shifted", lambda: shifted([3])),
    ("shifted-far", lambda: shifted([8, 9, 15, 16, 29, 30])),
    ("shifted-little", lambda: shifted([0, 1, 2, 7, 8, 5])),
    ("shifted-i64", lambda: shifted([5], np.uint64)),
]


@pytest.mark.parametrize("build", [row[1] for row in ROWS], ids=[row[0] for row in ROWS])
def test_older_operations_say_the_same(build: Any) -> None:
    model, feeds = build()
    made = converter.convert_model(model, target="cpu@2023.3")
    assert newest(made) <= 13
    ir = ir_runtime.model_to_bytes(made)
    for engine in ENGINES:
        for value, expected in zip(run(engine, ir, feeds, output_names(model)), run_onnxruntime(model, feeds)):
            np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4, err_msg=engine)


def test_nothing_young_is_written_without_need() -> None:
    for build in (padded, returned_twice):
        assert newest(converter.convert_model(build()[0])) <= 13


def test_what_a_release_cannot_say_is_named() -> None:
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
