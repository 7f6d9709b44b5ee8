"""The forms of ``convert_model``'s arguments, held against OpenVINO's ``convert_model`` and its own objects."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest

import converter
import ir_runtime
from converter.from_onnx.input_forms import OptionError
from ir_runtime.graph.shapes import Dimension, PartialShape
from tests.commands import two_inputs

Inputs = list[tuple[str, str]]


def inputs_by_openvino(path: Path, given: Any) -> Inputs:
    inputs = openvino.convert_model(path, input=given).inputs
    return [(str(port.partial_shape), port.element_type.get_type_name()) for port in inputs]


def inputs_of(model: ir_runtime.Model) -> Inputs:
    return [(str(port.shape), port.element_type.name) for port in model.inputs]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("forms") / "m.onnx"
    onnx.save(two_inputs(), made)
    return made


F32, I32 = openvino.Type.f32, openvino.Type.i32


# What OpenVINO takes means the same here.
@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        "x",
        ["x", "y"],
        [1, 3],
        (1, 3),
        [-1, 3],
        ("x", [1, 3]),
        ("x", (1, 3)),
        ("x",),
        ("x", [1, 3], F32),
        [("x", [1, 3]), ("y", [2, 3])],
        (("x", [1, 3]), ("y", [2, 3])),
        {"x": [1, 3]},
        {"y": [1, 3], "x": [2, 3]},
        {"x": ([1, 3], F32), "y": F32},
        {"x": ([1, 3], I32), "y": I32},
        [[1, 3], [2, 3]],
        [([1, 3], F32), F32],
        [([1, 3], np.int32), np.int32],
        np.float32,
        F32,
        [("x", [1, 3], I32), ("y", np.int32)],
        openvino.PartialShape([1, 3]),
        openvino.PartialShape([-1, openvino.Dimension(3)]),
        openvino.PartialShape("[1..4,3]"),
        openvino.PartialShape.dynamic(),
        openvino.Shape([1, 3]),
        [openvino.PartialShape([1, 3]), openvino.Shape([2, 3])],
        [openvino.Dimension(1, 4), 3],
        (openvino.Dimension(1, 4), 3),
        {"x": openvino.PartialShape([1, 3]), "y": openvino.Shape([1, 3])},
        {"x": (openvino.PartialShape([2, -1]), I32), "y": I32},
        [("x", openvino.PartialShape([openvino.Dimension(2, -1), 3]))],
    ],
    ids=str,
)
def test_input_forms_that_openvino_takes(path: Path, given: Any) -> None:
    assert inputs_of(converter.convert_model(path, input=given)) == inputs_by_openvino(path, given)


# What OpenVINO refuses, although there is no doubt of the meaning.
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("x[1,3],y[2,3]", ["[1,3]", "[2,3]"]),
        ("[1,3],[2,3]", ["[1,3]", "[2,3]"]),
        (["x[1,3]", "y[2,3]"], ["[1,3]", "[2,3]"]),
        ([("x", "1,3")], ["[1,3]", "[?,3]"]),
        (("x", "?,3"), ["[?,3]", "[?,3]"]),
        ({"x": "[1,3]"}, ["[1,3]", "[?,3]"]),
        (np.array([1, 3]), ["[1,3]", "[?,3]"]),
        ([None, "1..3"], ["[?,1..3]", "[?,3]"]),
        ([Dimension(2, 5), 3], ["[2..5,3]", "[?,3]"]),
        (PartialShape([7, 3]), ["[7,3]", "[?,3]"]),
        ([("y", [1, 3]), [2, 3]], ["[2,3]", "[1,3]"]),
        ({"x": ([1, 3], "f32"), "y": "f32"}, ["[1,3]", "[?,3]"]),
        ({"x": {}}, None),
        ({"x": (1, 3, "f32", 2.5)}, None),
        ([3.5], None),
        ([("x", [1, 3], [1, 3])], None),
        ((2, (3, 4)), None),
        ({"x": np.complex64}, None),
        ({"x": ir_runtime.graph.element_types.dynamic}, None),
        ({"x": [2**70, 3]}, None),
        ({"x": [-2, 3]}, None),
        (b"x", None),
        ({"x": np.dtype(np.float32)}, ["[?,3]", "[?,3]"]),
    ],
    ids=str,
)
def test_input_forms_that_openvino_refuses(path: Path, given: Any, expected: list[str] | None) -> None:
    if expected is None:
        with pytest.raises(OptionError):
            converter.convert_model(path, input=given)
        return
    assert [shape for shape, _ in inputs_of(converter.convert_model(path, input=given))] == expected


def test_types_take_the_place_of_the_declared_ones(path: Path) -> None:
    model = converter.convert_model(path, input={"x": "i64", "y": "i64"})
    compiled = ir_runtime.compile_model(model)
    result = compiled({"x": np.array([[1, -5, 2**40]]), "y": np.array([[1, 2, 3]])})
    assert result["w"].dtype == np.int64
    assert result["w"].tolist() == [[2, 0, 2**40 + 3]]


def test_positions_and_names_are_openvinos(path: Path) -> None:
    model = converter.convert_model(path, [("x", [1, 3])], "z")
    assert inputs_of(model)[0] == ("[1,3]", "f32")
    assert [node.output_names for node in model.results] == [["z"]]
    assert inputs_of(converter.convert_model(input_model=path, input=[1, 3]))[0] == ("[1,3]", "f32")
    assert inputs_of(converter.convert_model([path])) == inputs_of(converter.convert_model(path))
    converter.convert_model(path, example_input=np.zeros((1, 3)), share_weights=True, verbose=False, dynamo=False)


@pytest.mark.parametrize(("given", "models"), [((), {}), (("a",), {"input_model": "b"})])
def test_one_model_is_needed(given: tuple, models: dict) -> None:
    with pytest.raises(OptionError, match="needs one model"):
        converter.convert_model(*given, **models)


def test_verbose_logs_what_was_done(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "converter"):
        converter.convert_model(path, verbose=True)
    assert "converted 'g' to 6 layers" in caplog.text


def test_weights_that_are_not_shared_outlive_the_file(tmp_path: Path) -> None:
    values = np.arange(4096, dtype=np.float32)
    initializers = [onnx.numpy_helper.from_array(values * k, name) for k, name in ((1, "inside"), (2, "outside"))]
    info = [onnx.helper.make_tensor_value_info(name, 1, [4096]) for name in "xy"]
    nodes = [
        onnx.helper.make_node("Add", ["x", "inside"], ["t"]),
        onnx.helper.make_node("Add", ["t", "outside"], ["y"]),
    ]
    proto = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", info[:1], info[1:], initializers))
    onnx.external_data_helper.set_external_data(proto.graph.initializer[1], "w.data")
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    model = converter.convert_model(path, share_weights=False)
    for file in (path, tmp_path / "w.data"):
        file.write_bytes(b"")
    converter.save_model(model, tmp_path / "m.xml")
    compiled = ir_runtime.compile_model(ir_runtime.read_model(tmp_path / "m.xml"))
    np.testing.assert_array_equal(compiled([np.zeros(4096, np.float32)])[0], values * 3)
