"""The IR's colour conversions: against OpenVINO, and to NV12, which its plug-in has not, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset16 as ops

import ir_runtime
from ir_runtime.graph.element_types import element_type
from ir_runtime.graph.model import Model
from ir_runtime.graph.operation import Operation, TensorType, find_operation
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations.colour import BGRtoNV12_17, I420toRGB8, NV12toRGB8, RGBtoNV12_17
from ir_runtime.operations.inputs_outputs import Parameter1, Result1
from ir_runtime.rewriting.constant_folding import as_tuple
from tests.engines import core
from tests.ir_runtime.peers import check_inference, check_peers
from tests.random_data import generator

RNG = generator(15)
NV12 = [ops.nv12_to_rgb, ops.nv12_to_bgr]
I420 = [ops.i420_to_rgb, ops.i420_to_bgr]


def plane(kind: Any, *shape: int) -> np.ndarray:
    values = RNG.integers(0, 256, shape) if kind is np.uint8 else RNG.uniform(0, 255, shape)
    return values.astype(kind)


@pytest.mark.parametrize("kind", [np.uint8, np.float16, np.float32])
@pytest.mark.parametrize("convert", [*NV12, *I420], ids=lambda f: f.__name__)
def test_single_plane(convert: Any, kind: Any) -> None:
    x = ops.parameter([-1, -1, -1, 1], kind)
    # Rounded once in OpenVINO, too, but of sums in another order.
    tolerance = 0.13 if kind is np.float16 else 1e-3
    check_peers([convert(x)], [x], [plane(kind, 2, 18, 8, 1)], atol=tolerance)


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
@pytest.mark.parametrize("convert", [*NV12, *I420], ids=lambda f: f.__name__)
def test_separate_planes(convert: Any, kind: Any) -> None:
    shapes = [(2, 12, 8, 1), *([(2, 6, 4, 2)] if convert in NV12 else [(2, 6, 4, 1)] * 2)]
    nodes = [ops.parameter(list(shape), kind) for shape in shapes]
    check_peers([convert(*nodes)], nodes, [plane(kind, *shape) for shape in shapes], atol=1e-3)


@pytest.mark.parametrize("convert", [NV12[0], I420[0]], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "shape",
    ["[1,6,4,1]", "[?,?,?,?]", "[1,6..12,4..8,1]", "[...]", "[?,6..11,4,?]", "[1,7..20,4,1]", "[1,0,4,1]"],
)
def test_shapes_of_a_single_plane(convert: Any, shape: str) -> None:
    x = ops.parameter(openvino.PartialShape(shape), np.uint8)
    check_inference([convert(x)], [x])


@pytest.mark.parametrize("convert", [NV12[1], I420[1]], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "shapes",
    [
        ("[1,4,4,1]", "[1,2,2,{}]"),
        ("[?,?,?,?]", "[1,2,2,{}]"),
        ("[...]", "[1,2,2,{}]"),
        ("[1,4,4,1]", "[...]"),
        ("[1..5,4..8,4,1]", "[2..9,1..3,2,{}]"),
        ("[...]", "[?,1..3,2,{}]"),
        ("[1,?,?,1]", "[...]"),
        ("[...]", "[...]"),
        ("[1,3..5,4,1]", "[1,?,2,{}]"),
    ],
)
def test_shapes_of_separate_planes(convert: Any, shapes: tuple[str, str]) -> None:
    rest = [shapes[1].format(2)] if convert in NV12 else [shapes[1].format(1)] * 2
    nodes = [ops.parameter(openvino.PartialShape(shape), np.uint8) for shape in (shapes[0], *rest)]
    check_inference([convert(*nodes)], nodes)


# --- to NV12 ---


def converting(op: Operation, shape: str, kind: str) -> Model:
    x = make_node(Parameter1(shape=PartialShape.parse(shape), element_type=kind), ())
    node = make_node(op, x.outputs)
    return Model(parameters=[x], results=[make_node(Result1(), [out]) for out in node.outputs])


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("shape", ["1,4,6,3", "?,?,?,?", "...", "1,4..8,2..6,3", "2..3,3..7,3..9,?", "1,0,6,3"])
@pytest.mark.parametrize("cls", [RGBtoNV12_17, BGRtoNV12_17])
def test_shapes_to_nv12(cls: Any, shape: str, single: bool) -> None:
    model = converting(cls(single_plane=single), shape, "u8")
    for number, node in enumerate(model.parameters + model.results):
        node.name = f"node{number}"
    model.results[0].inputs[0].node.name = "conversion"
    theirs = core().read_model(*ir_runtime.model_to_bytes(model)).outputs
    assert len(theirs) == len(model.outputs)
    for ours, wanted in zip(model.outputs, theirs):
        assert ours.shape == PartialShape.parse(str(wanted.get_partial_shape()))
        assert str(ours.element_type) == wanted.get_element_type().get_type_name()


def nv12_by_hand(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pixel by pixel, from red, green and blue in float64."""
    whole = image.dtype == np.uint8
    batch, height, width, _ = image.shape
    bright, pairs = np.zeros((batch, height, width, 1)), np.zeros((batch, height // 2, width // 2, 2))
    for n, i, j in np.ndindex(batch, height, width):
        r, g, b = image[n, i, j].astype(np.float64)
        y = 16 + 0.257 * r + 0.504 * g + 0.098 * b
        u = 128 - 0.148 * r - 0.291 * g + 0.439 * b
        v = 128 + 0.439 * r - 0.368 * g - 0.071 * b
        y, u, v = (np.floor(value + 0.5) if whole else value for value in (y, u, v))
        bright[n, i, j] = y
        pairs[n, i // 2, j // 2] += [u / 4, v / 4]
    return bright, np.floor(pairs + 0.5) if whole else pairs


@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.float16, np.float64])
@pytest.mark.parametrize(("cls", "reverse"), [(RGBtoNV12_17, False), (BGRtoNV12_17, True)])
def test_to_nv12(cls: Any, reverse: bool, kind: Any) -> None:
    image = plane(kind, 2, 4, 6, 3)
    bright, pairs = nv12_by_hand(image[..., ::-1] if reverse else image)
    tolerance = {"rtol": 1e-3 if kind is np.float16 else 1e-5}
    found = as_tuple(cls(single_plane=False).evaluate(image))
    assert [f.dtype for f in found] == [kind, kind]
    np.testing.assert_allclose(found[0], bright, **tolerance)
    np.testing.assert_allclose(found[1], pairs, **tolerance)
    (single,) = as_tuple(cls().evaluate(image))
    np.testing.assert_allclose(single, np.concatenate([bright, pairs.reshape(2, 2, 6, 1)], 1), **tolerance)


def test_there_and_back() -> None:
    grey = np.full((1, 2, 2, 3), 130, np.uint8)
    (there,) = as_tuple(RGBtoNV12_17().evaluate(grey))
    assert there.reshape(-1).tolist() == [128, 128, 128, 128, 128, 128]
    np.testing.assert_allclose(NV12toRGB8().evaluate(there), grey, atol=1)


@pytest.mark.parametrize(
    ("op", "kind", "shapes", "message"),
    [
        (NV12toRGB8(), "u8", ["6,4,1"], "4 dimensions"),
        (NV12toRGB8(), "u8", ["1,5,4,1"], "cannot be shared"),
        (I420toRGB8(), "u8", ["1,6,3,1"], "cannot be shared"),
        (I420toRGB8(), "u8", ["1,6,4,3"], "1 channels"),
        (NV12toRGB8(), "u8", ["1,4,4,1", "1,2,3,2"], "width must agree"),
        (NV12toRGB8(), "u8", ["1,4,4,1", "1,2,2,1"], "2 channels"),
        (I420toRGB8(), "u8", ["1,4,4,1", "1,2,2,1"], "one plane or 3"),
        (NV12toRGB8(), "i8", ["1,6,4,1"], "u8 or of a floating-point type"),
        (RGBtoNV12_17(), "i32", ["1,4,4,3"], "u8 or of a floating-point type"),
        (RGBtoNV12_17(), "u8", ["1,3,4,3"], "cannot be shared"),
        (RGBtoNV12_17(single_plane=False), "u8", ["1,4,3,3"], "cannot be shared"),
        (RGBtoNV12_17(), "u8", ["1,4,4,1"], "3 channels"),
    ],
)
def test_contradictions(op: Operation, kind: str, shapes: Sequence[str], message: str) -> None:
    types = [TensorType(element_type(kind), PartialShape.parse(shape)) for shape in shapes]
    with pytest.raises(ir_runtime.ModelError, match=message):
        op.infer(types)


def test_every_conversion_is_found_by_its_name() -> None:
    for name in ("NV12toRGB", "NV12toBGR", "I420toRGB", "I420toBGR"):
        assert find_operation(name, 8).type == name
