"""Scales behind layers with weights become part of them, and verify still looks at every weight and every channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import converter
import ir_runtime
from converter.equivalence.scaled_weights import scaled_weights
from ir_runtime.graph.model import Model, Node
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.elementwise import Abs1
from ir_runtime.operations.inputs_outputs import Const1
from tests.rows.formula import Idiom
from tests.rows.idioms.convolutions import IMAGE, convolution, scaled_first

# --- folded scales ---


def network(folder: Path, mean: float = 0.3) -> Path:
    """A convolution with batch normalisation, a depthwise one with a scale, a product with a scale and a bias."""
    draw = np.random.default_rng(5)
    values = {
        "k": draw.standard_normal((16, 3, 3, 3)) / 5,
        "gamma": draw.uniform(0.5, 1.5, 16),
        "beta": draw.standard_normal(16),
        "mean": np.where(np.arange(16) < 12, mean, 0.2),
        "variance": draw.uniform(0.5, 1.5, 16),
        "d": draw.standard_normal((16, 1, 3, 3)) / 3,
        "s": draw.uniform(0.5, 1.5, (16, 1, 1)),
        "g": draw.standard_normal((16, 128)) / 4,
        "h": draw.standard_normal(128),
        "t": draw.uniform(0.5, 1.5, 128),
    }
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17]> g (float[n, 3, 9, 9] x) => (y) {
        [conv] c = Conv (x, k)  [norm] n = BatchNormalization (c, gamma, beta, mean, variance)  r = Relu (n)
        [depthwise] e = Conv <group = 16> (r, d)  [scale] m = Mul (e, s)  p = GlobalMaxPool (m)
        f = Flatten (p)  q = MatMul (f, g)  a = Add (q, h)  y = Mul (a, t)
    }""")
    model.graph.initializer.extend(
        numpy_helper.from_array(value.astype(np.float32), name) for name, value in values.items()
    )
    path = folder / "m.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return network(tmp_path)


WEIGHTS = ("k", "d", "g")


def states(report: converter.Report) -> dict[str, str]:
    return {check.name: check.state for check in report.weights}


def weight(model: Model, report: converter.Report, name: str) -> Node:
    (layer,) = next(check.layers for check in report.weights if check.name == name)
    return next(node for node in model.nodes() if node.name == layer)


def layers(model: Model) -> list[str]:
    return [node.op.type for node in model.nodes() if node.op.type not in ("Const", "Parameter", "Result")]


@pytest.mark.parametrize("options", [{}, {"exact": True}, {"fuse": False}], ids=str)
@pytest.mark.parametrize("target", ["cpu", "any"])
def test_every_weight_is_accounted_for(path: Path, options: dict[str, Any], target: str) -> None:
    model = converter.convert_model(path, target=target, **options)
    report = converter.verify(path, model)
    assert report.passed
    found = states(report)
    assert {found[name] for name in WEIGHTS} == {"identical" if options else "scaled"}
    assert ("Multiply" in layers(model)) == bool(options)
    # The CPU plug-in's rule leaves the layer where every constant must stay.
    is_kept = "exact" in options or (bool(options) and target == "any")
    assert layers(model).count("BatchNormInference") == is_kept


def test_exact_models_are_compared_with_the_right_conversion(path: Path) -> None:
    """What was changed after an exact conversion is named."""
    model = converter.convert_model(path, exact=True)
    node = next(node for node in model.nodes() if node.op.type == "ReLU")
    node.op = Abs1()
    report = converter.verify(path, model)
    assert not report.passed
    assert node.name in str(report.to_dict())


@pytest.mark.parametrize("bit", [0, 5, 31])
@pytest.mark.parametrize("name", ["k", "g"])
def test_one_bit_of_a_scaled_weight_is_found(path: Path, name: str, bit: int) -> None:
    model = converter.convert_model(path)
    node = weight(model, converter.verify(path, model, samples=1), name)
    assert node.op.data is not None
    for at in (0, node.op.data.size // 2, node.op.data.size - 1):
        array = node.op.data.array().copy()
        array.reshape(-1).view(np.uint32)[at] ^= np.uint32(1 << bit)
        node.op = Const1(value=Tensor.from_array(array))
        report = converter.verify(path, model, samples=1)
        check = next(check for check in report.weights if check.name == name)
        assert (check.state, check.reason.split(" values")[0]) == ("changed", f"1 of {array.size}")
        assert all(other.passed for other in report.weights if other.name != name)
        array.reshape(-1).view(np.uint32)[at] ^= np.uint32(1 << bit)
        node.op = Const1(value=Tensor.from_array(array))


@pytest.mark.parametrize("spoil", ["zeros", "mean"])
def test_what_hardly_changes_is_not_damaged(spoil: str, tmp_path: Path) -> None:
    """Channels of many zeros; and where the mean is 0, the bias behind scaled weights is that of the file."""
    model = onnx.load(network(tmp_path, mean=0.0 if spoil == "mean" else 0.3))
    for tensor in model.graph.initializer if spoil == "zeros" else ():
        if tensor.name in WEIGHTS:
            values = numpy_helper.to_array(tensor).copy()
            values.reshape(-1)[np.arange(values.size) % 7 != 0] = 0
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    report = converter.verify(model, converter.convert_model(model))
    assert report.passed
    assert states(report)["k"] == states(report)["d"] == "scaled"


@pytest.mark.parametrize("half", [True, False])
def test_compressed_scaled_weights(path: Path, tmp_path: Path, half: bool) -> None:
    model = converter.convert_model(path)
    xml = tmp_path / "packed.xml"
    converter.save_model(model, xml, **({"compress_to_fp16": True} if half else {"compress": "int8"}))
    stored = ir_runtime.read_model(xml)
    report = converter.verify(path, stored)
    assert report.passed
    assert states(report)["g"] == ("scaled" if half else "compressed")
    node = weight(stored, report, "g")
    assert node.op.data is not None
    array = node.op.data.array().copy()
    array[-1, -1] = array[-1, -1] * 2 if half else array[-1, -1] ^ 64
    node.op = Const1(value=Tensor.from_array(array, node.op.data.element_type))
    report = converter.verify(path, stored)
    assert [check.name for check in report.weights if not check.passed] == ["g"]


def test_scaled_weights_are_computed_when_they_are_written(path: Path, tmp_path: Path) -> None:
    model = converter.convert_model(path)
    node = weight(model, converter.verify(path, model, samples=1), "g")
    assert node.op.data is not None
    assert node.op.data._array is None
    assert node.op.data._packed is None
    converter.save_model(model, tmp_path / "m.xml")
    assert converter.verify(path, tmp_path / "m.xml").passed


def test_a_factor_in_front_of_a_convolution() -> None:
    """Exact conversions keep it; a scale of preprocessing becomes part of the weights in a second conversion."""
    row = Idiom(scaled_first, inputs=IMAGE, count=3)
    assert len(layers(converter.convert_model(row.model(3), exact=True))) == row.count
    proto = Idiom(convolution, inputs=IMAGE, count=1).model(3)
    first = converter.convert_model(proto, preprocess={"x": converter.Preprocess(scale=255.0)})
    assert len(layers(first)) == 2
    again = converter.convert_model(first)
    assert layers(again) == ["Convolution"]
    for ir in (first, again):
        assert converter.verify(proto.SerializeToString(), ir).passed


# --- scaled weights ---

RNG = np.random.default_rng(7)
# name -> weights [channels, inputs]
KINDS_OF_WEIGHTS = {
    "ordinary": RNG.normal(size=(6, 64)),
    "one value that float16 has": np.where(np.arange(64) == 33, -2.7225886e-07, 1e-9) * np.ones((6, 1)),
    "small numbers of float16": RNG.normal(size=(6, 64)) * 3e-7,
    "both": np.concatenate([RNG.normal(size=(3, 64)), RNG.normal(size=(3, 64)) * 1e-7]),
}
FACTORS = np.array([0.9378595, 1.03, 0.97, 0.9999, 1.5, 0.25])[:, None]
FIRST_TWO = np.array([0.5, 0.5, 1, 1, 1, 1])[:, None]


def wrong_in(weights: np.ndarray, held: np.ndarray) -> list[list[int]]:
    result = scaled_weights(weights, held, (0,))
    assert result is not None
    return np.argwhere(result.wrong).tolist()


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("name", KINDS_OF_WEIGHTS)
def test_a_wrong_value_is_found_in_any_channel(name: str, kind: type) -> None:
    """Weights that were rounded twice are right."""
    weights = KINDS_OF_WEIGHTS[name].astype(np.float32)
    held = (weights * FACTORS).astype(np.float32).astype(kind)
    assert wrong_in(weights, held) == []
    for channel in range(6) if name == "ordinary" else ():
        spoilt = held.copy()
        spoilt[channel, 5] = np.nextafter(np.nextafter(held[channel, 5], kind(9)), kind(9))
        assert wrong_in(weights, spoilt) == [[channel, 5]]
    if name == "ordinary" and kind is np.float32:
        spoilt = (weights * FIRST_TWO).astype(np.float32)  # beside channels that are not scaled
        spoilt[4, 9] *= np.float32(1 + 2**-20)
        assert wrong_in(weights, spoilt) == [[4, 9]]
