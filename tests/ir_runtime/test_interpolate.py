"""Interpolate against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset1 as ops1
import openvino.opset10 as ops4
import openvino.opset11 as ops11
import pytest
from openvino import Type

from ir_runtime.graph.operation import find_operation
from tests.engines import assert_close, run_openvino
from tests.ir_runtime.peers import check_peers, written_by_openvino
from tests.random_data import generator

RNG = generator(9)
COORDINATES = ["half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners"]
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"]


def image(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def check(x: np.ndarray, given: Any, axes: list[int], dynamic: bool = False, **attributes: Any) -> None:
    by_scale = attributes.get("shape_calculation_mode") == "scales"
    p = ops11.parameter([-1] * x.ndim if dynamic else list(x.shape), Type.f32)
    values = ops11.constant(np.array(given, np.float32 if by_scale else np.int64))
    attributes.setdefault("shape_calculation_mode", "sizes")
    y = ops11.interpolate(p, values, axes=ops11.constant(np.array(axes)), **attributes)
    check_peers([y], [p], [x], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("places", COORDINATES)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("sizes", [[3, 4], [11, 9], [1, 14]])
def test_nearest(places: str, rounding: str, sizes: list[int]) -> None:
    check(
        image(1, 2, 6, 7),
        sizes,
        [2, 3],
        mode="nearest",
        coordinate_transformation_mode=places,
        nearest_mode=rounding,
    )


@pytest.mark.parametrize("mode", ["linear_onnx", "linear", "cubic"])
@pytest.mark.parametrize("places", COORDINATES)
@pytest.mark.parametrize("sizes", [[3, 4], [11, 9], [1, 14]])
def test_weighted(mode: str, places: str, sizes: list[int]) -> None:
    check(image(1, 2, 6, 7), sizes, [2, 3], mode=mode, coordinate_transformation_mode=places)


@pytest.mark.parametrize("mode", ["linear_onnx", "cubic"])
@pytest.mark.parametrize("place", [(0, 0), (3, 2), (5, 6)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_an_infinity_stays_where_it_is(mode: str, place: tuple[int, int], dynamic: bool) -> None:
    """Other positions have no part of it, not even of weight 0."""
    x = image(1, 2, 6, 7)
    x[0, 1][place] = np.inf
    check(x, [11, 15], [2, 3], dynamic, mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "linear_onnx", "linear", "cubic"])
@pytest.mark.parametrize("scales", [[0.6, 1.7], [2.0, 2.0], [1.0, 0.34]])
@pytest.mark.parametrize("dynamic", [False, True])
def test_scales(mode: str, scales: list[float], dynamic: bool) -> None:
    check(image(1, 2, 6, 7), scales, [2, 3], dynamic, mode=mode, shape_calculation_mode="scales")


@pytest.mark.parametrize("mode", ["bilinear_pillow", "bicubic_pillow"])
@pytest.mark.parametrize("sizes", [[3, 4], [11, 9], [6, 14]])
def test_pillow(mode: str, sizes: list[int]) -> None:
    check(image(1, 2, 6, 7), sizes, [2, 3], mode=mode, cube_coeff=-0.5)


@pytest.mark.parametrize("sizes", [[3, 4], [2, 2]])
def test_antialias(sizes: list[int]) -> None:
    """OpenVINO's CPU plug-in ignores the flag; where data shrink, its Pillow filter is the same one."""
    x = image(1, 2, 6, 8)
    p = ops11.parameter(list(x.shape), Type.f32)
    target, axes = np.array(sizes), np.array([2, 3])
    y = ops11.interpolate(p, ops11.constant(target), "bilinear_pillow", "sizes", axes=ops11.constant(axes))
    expected = run_openvino(written_by_openvino([y], [p]), {0: x})[0]  # type: ignore[dict-item]
    op = find_operation("Interpolate", 11)(mode="linear", antialias=True)
    assert_close(op.evaluate(x, target, axes), expected)


def test_pads() -> None:
    check(image(1, 2, 6, 7), [8, 9], [2, 3], mode="linear_onnx", pads_begin=[0, 0, 1, 2], pads_end=[0, 0, 0, 1])


@pytest.mark.parametrize("mode", ["nearest", "linear_onnx", "cubic"])
@pytest.mark.parametrize("by_scale", [False, True])
def test_revision_4(mode: str, by_scale: bool) -> None:
    x = image(1, 2, 6, 7)
    p = ops4.parameter(list(x.shape), Type.f32)
    y = ops4.interpolate(
        p,
        ops4.constant(np.array([9, 4])),
        ops4.constant(np.array([1.5, 0.6], np.float32)),
        mode,
        "scales" if by_scale else "sizes",
        axes=ops4.constant(np.array([2, 3])),
    )
    check_peers([y], [p], [x], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("aligned", [False, True])
def test_revision_1(mode: str, aligned: bool) -> None:
    x = image(1, 2, 6, 7)
    p = ops1.parameter(list(x.shape), Type.f32)
    options = {"axes": [2, 3], "mode": mode, "align_corners": aligned}
    y = ops1.interpolate(p, ops1.constant(np.array([9, 4])), {**options, "pads_begin": [0], "pads_end": [0]})
    check_peers([y], [p], [x], rtol=1e-3, atol=1e-4)
