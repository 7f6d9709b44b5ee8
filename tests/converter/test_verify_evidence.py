"""verify, where outputs prove little: tiny ones, layers that are wrong at some sizes alone, changes that no run shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
from converter.derivation import Derivation, Step
from ir_runtime.graph.model import Model
from ir_runtime.operations.interpolate import Interpolate11
from tests.commands import onnx2ir

F32 = np.float32


def saved(nodes: list, weights: dict[str, np.ndarray], shape: list, folder: Path) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def detector(folder: Path, bias: float, stride: int = 4, shape: tuple = ("n", 3, "h", "w")) -> Path:
    """An image is averaged to one of ``1 / stride``, made larger again, and gives probabilities of ``exp(bias)``."""
    nodes = [
        helper.make_node("AveragePool", ["x"], ["small"], name="pool", kernel_shape=[stride] * 2, strides=[stride] * 2),
        helper.make_node(
            "Resize",
            ["small", "", "scales"],
            ["large"],
            name="resize",
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        helper.make_node("Add", ["large", "bias"], ["logits"], name="shift"),
        helper.make_node("Sigmoid", ["logits"], ["y"], name="sigmoid"),
    ]
    weights = {"scales": np.array([1, 1, 2, 2], F32), "bias": F32(bias)}
    return saved(nodes, weights, list(shape), folder)


def with_another_resize(path: Path, **options: Any) -> Model:
    """The IR of ``path`` whose Resize looks for the nearest pixel in another way, which one pixel does not show."""
    model = converter.convert_model(path, **options)
    (node,) = (node for node in model.nodes() if isinstance(node.op, Interpolate11))
    node.op = node.op.with_attributes(coordinate_transformation_mode="half_pixel", nearest_mode="ceil")
    return model


def test_larger_inputs_are_tried_where_outputs_are_tiny(tmp_path: Path) -> None:
    """Inputs between 0 and 1 leave the output at 2e-7, where 1e-5 passes; 16 times as large they do not."""
    path = detector(tmp_path, bias=-16.0)
    good = converter.verify(path, converter.convert_model(path))
    assert good.passed
    assert good.unproven == ()
    assert [one.description for one in good.samples][-1].endswith("times 16")
    bad = converter.verify(path, with_another_resize(path))
    assert not bad.passed
    assert [one.passed for one in bad.samples] == [True] * (len(bad.samples) - 1) + [False]
    assert bad.first_fault is not None
    assert bad.first_fault.layer == "resize"


def test_an_output_that_stays_small_gets_a_note_and_its_layers_are_compared(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mul", ["x", "tiny"], ["scaled"]), helper.make_node("Sin", ["scaled"], ["y"])]
    small = saved(nodes, {"tiny": F32(1e-12)}, ["n", 4], tmp_path)
    report = converter.verify(small, converter.convert_model(small))
    assert report.verdict == "derived"
    assert (report.unproven, report.shown_by_layers) == ((), ("y",))
    assert len(report.layers) == 2
    assert converter.verify(small, converter.convert_model(small), layers=False).unproven == ("y",)
    (note,) = (note for note in report.notes if "'y'" in note)
    assert "where differences of 1e-05 pass: it proves nothing about the layers before it" in note
    model = converter.convert_model(small)
    (node,) = (node for node in model.nodes() if node.op.type == "Sin")
    node.replace_input(0, model.parameters[0].outputs[0])  # sin(x) instead of sin(1e-12 x)
    assert not converter.verify(small, model).passed


def test_an_output_that_proves_nothing_is_not_called_equal(tmp_path: Path) -> None:
    path = saved([helper.make_node("Mul", ["x", "tiny"], ["y"])], {"tiny": F32(1e-12)}, ["n", 4], tmp_path)
    converter.save_model(converter.convert_model(path), tmp_path / "m.xml")
    code, out, _ = onnx2ir("verify", str(path), str(tmp_path / "m.xml"))
    assert (code, "shown by its layers" in out, "PASSED" in out) == (0, True, True)
    code, out, _ = onnx2ir("verify", str(path), str(tmp_path / "m.xml"), "--no-layers")
    assert (code, "proves nothing" in out, "UNPROVEN" in out) == (1, True, True)
    assert "unproven: nothing disagrees, but outputs prove nothing: 'y'" in out
    assert "equal" not in out
    code, out, _ = onnx2ir("verify", str(path), str(tmp_path / "m.xml"), "--no-layers", "--accept-unproven")
    assert (code, "PASSED" in out, "unproven: " in out) == (0, True, True)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_output_without_a_number_proves_nothing(value: float, tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "c"], ["sum"]), helper.make_node("Mul", ["sum", "value"], ["y"])]
    path = saved(nodes, {"c": F32(1), "value": F32(value)}, ["n", 4], tmp_path)
    report = converter.verify(path, converter.convert_model(path), values={"x": "1..2"})
    assert (report.verdict, report.unproven) == ("unproven", ("y",))
    assert "output 'y' has no finite value: it proves nothing about the layers before it" in report.notes


def test_the_callers_tolerance_is_not_circumvented(tmp_path: Path) -> None:
    """With a tolerance of 100 from the caller no larger inputs are tried, whose outputs would differ by more."""
    path = saved([helper.make_node("Mul", ["x", "two"], ["y"])], {"two": F32(2)}, ["n", 4], tmp_path)
    model = converter.convert_model(path)
    assert len(converter.verify(path, model, atol=100.0).samples) == len(converter.verify(path, model).samples)


def test_layers_are_compared_at_other_sizes_too(tmp_path: Path) -> None:
    """One pixel of 128 becomes four whichever way; two of 160 do not, and the output is too small to show it."""
    path = detector(tmp_path, bias=-20.0, stride=80)
    model = with_another_resize(path)
    inputs = {"x": np.random.default_rng(0).random((1, 3, 128, 128), F32)}
    assert converter.verify(path, model, inputs=inputs, layers=True).first_fault is None
    folder = tmp_path / "fault"
    report = converter.verify(path, model, layers=True, values={"x": "0..1"}, minimise=folder)
    assert report.inputs == {"x": [2, 3, 128, 128]}
    assert all(output.passed for output in report.outputs)
    assert report.first_fault is not None
    assert report.first_fault.layer == "resize"
    assert "this part alone shows it" in report.minimised


def test_images_have_128_and_more_pixels_a_side(tmp_path: Path) -> None:
    path = detector(tmp_path, bias=-4.0)
    report = converter.verify(path, converter.convert_model(path))
    assert all(min(one.inputs["x"][2:]) >= 128 for one in report.samples)


def test_a_layer_that_is_not_as_derived_is_unproven(tmp_path: Path) -> None:
    path = detector(tmp_path, bias=-4.0, shape=(1, 3, 4, 4))
    converter.save_model(with_another_resize(path), tmp_path / "m.xml")
    report = converter.verify(path, tmp_path / "m.xml", layers=True)
    assert report.first_fault is None  # the Resize makes four pixels of one
    (change,) = report.derivation.differences
    assert (change.layer, report.verdict) == ("resize", "unproven")
    assert (
        "layer 'resize': coordinate_transformation_mode is half_pixel where the other model has asymmetric"
        in report.reason
    )
    code, out, _ = onnx2ir("verify", str(path), str(tmp_path / "m.xml"))
    assert (code, "not as derived: layer 'resize' (Interpolate)" in " ".join(out.split())) == (1, True)


CHOICES: list[dict[str, Any]] = [
    {},
    {"target": "any"},
    {"static": True, "input": {"x": [1, 3, 32, 32]}},
    {"target": "cpu@2023.3"},
    {"exact": True},
    {"fuse": False},
    {"skip_passes": "clamps", "target": "any"},
    {"input": {"x": [1, 3, 32, 32]}},
    {"output": "large"},
]


@pytest.mark.parametrize("options", CHOICES)
@pytest.mark.parametrize("stored", [False, True])
def test_a_conversion_with_any_options_is_derived(
    options: dict, stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is converted once more, with the options that the IR records."""
    path = detector(tmp_path, bias=-4.0)
    model = converter.convert_model(path, **options)
    if stored:
        converter.save_model(model, tmp_path / "m.xml")
    conversions = counted_conversions(monkeypatch)
    report = converter.verify(path, tmp_path / "m.xml" if stored else model, output=options.get("output"))
    assert (report.verdict, report.derivation.differences) == ("derived", ())
    assert len(conversions) == 1


def counted_conversions(monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """The keywords of each conversion that verify makes from now on."""
    conversions: list[dict] = []

    def convert_model(source: Any, **keywords: Any) -> Model:
        conversions.append(keywords)
        return converter.convert_model(source, **keywords)

    monkeypatch.setattr("converter.equivalence.rederivation.convert_model", convert_model)
    return conversions


def test_a_changed_layer_is_named_whatever_the_options(tmp_path: Path) -> None:
    path = detector(tmp_path, bias=-4.0, shape=(1, 3, 4, 4))
    model = with_another_resize(path, target="any", fuse=False, exact=True)
    (change,) = converter.verify(path, model).derivation.differences
    assert (change.layer, change.what[0]) == (
        "resize",
        "coordinate_transformation_mode is half_pixel where the other model has asymmetric",
    )


def test_without_a_record_nothing_is_derived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = detector(tmp_path, bias=-4.0)
    converter.save_model(converter.convert_model(path), tmp_path / "m.xml", record=False)
    conversions = counted_conversions(monkeypatch)
    report = converter.verify(path, tmp_path / "m.xml")
    assert report.verdict == "equal"
    assert "the IR has no record of how it was derived" in report.reason
    assert conversions == []


@pytest.mark.parametrize(
    "options",
    [
        {"extensions": ["evil.py"], "exact": True},
        {"input": "x=secret.npy"},
        {"freeze": {"x": "secret.npy"}},
        {"input": {"x": "secret.npy"}},
        {"target": "any", "unknown": 1},
    ],
)
def test_a_record_cannot_name_files(options: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be repeated is not repeated in part."""
    path = detector(tmp_path, bias=-4.0)
    model = converter.convert_model(path)
    Derivation((Step("convert", source="onnx", options=options),)).write(model)
    conversions = counted_conversions(monkeypatch)
    report = converter.verify(path, model)
    assert (report.verdict, report.derivation.state) == ("equal", "inapplicable")
    assert conversions == []


@pytest.mark.parametrize("compression", [{"compress": "int8"}, {"compress_to_fp16": True}])
def test_compressed_weights_are_derived(tmp_path: Path, compression: dict) -> None:
    weights = {"w": np.random.default_rng(0).standard_normal((64, 64)).astype(F32)}
    path = saved([helper.make_node("MatMul", ["x", "w"], ["y"])], weights, ["n", 64], tmp_path)
    converter.save_model(converter.convert_model(path), tmp_path / "m.xml", **compression)
    report = converter.verify(path, tmp_path / "m.xml")
    assert (report.verdict, report.derivation.differences) == ("derived", ())


def test_the_tail_of_a_sigmoid_is_as_exact_as_onnxruntimes(tmp_path: Path) -> None:
    """At -12 onnxruntime is 1.38e-7 away from the value in float64, which is 5.7e-6."""
    path = saved([helper.make_node("Sigmoid", ["x"], ["y"])], {}, ["n"], tmp_path)
    inputs = {"x": np.linspace(-30, -10, 20_001, dtype=F32)}
    report = converter.verify(path, converter.convert_model(path), inputs=inputs, layers=True)
    assert all(layer.local.passed for layer in report.layers)


@pytest.mark.parametrize("side", [32, 128])
def test_means_of_many_pixels_are_as_exact_as_onnxruntimes(tmp_path: Path, side: int) -> None:
    """onnxruntime adds what lies under a window one by one: 10 and 36 representable values are lost."""
    nodes = [helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[side, side], strides=[side, side])]
    path = saved(nodes, {}, [1, 16, 2 * side, 2 * side], tmp_path)
    inputs = {"x": np.random.default_rng(0).random((1, 16, 2 * side, 2 * side), F32)}
    report = converter.verify(path, converter.convert_model(path), inputs=inputs, layers=True)
    assert all(layer.local.passed for layer in report.layers)
