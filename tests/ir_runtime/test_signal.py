"""The IR's Fourier transforms against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset16 as ops

import ir_runtime
from ir_runtime.graph.element_types import element_type
from ir_runtime.graph.operation import TensorType
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.signal import ISTFT16, STFT15
from tests.ir_runtime.peers import check_inference, check_peers
from tests.random_data import generator

RNG = generator(6)
COMPLEX = RNG.standard_normal((2, 5, 4, 2)).astype(np.float32)
REAL = RNG.standard_normal((2, 5, 4)).astype(np.float32)


def sizes_of(sizes: list[int] | None) -> list[Any]:
    return [] if sizes is None else [ops.constant(np.array(sizes))]


@pytest.mark.parametrize("transform", [ops.dft, ops.idft], ids=lambda f: f.__name__)
@pytest.mark.parametrize(("axes", "sizes"), [([1], None), ([-1], [3]), ([2, 0], [6, 3]), ([0, 1, 2], [-1, 8, 2])])
def test_complex(transform: Any, axes: list[int], sizes: list[int] | None) -> None:
    x = ops.parameter([-1, 5, -1, 2], np.float32)
    check_peers([transform(x, ops.constant(np.array(axes)), *sizes_of(sizes))], [x], [COMPLEX])


@pytest.mark.parametrize(("axes", "sizes"), [([1], None), ([-1], [3]), ([2, 1], [3, 4]), ([0, 1, 2], None)])
def test_real(axes: list[int], sizes: list[int] | None) -> None:
    x = ops.parameter([-1, 5, -1], np.float32)
    check_peers([ops.rdft(x, ops.constant(np.array(axes)), *sizes_of(sizes))], [x], [REAL])


@pytest.mark.parametrize(("axes", "sizes"), [([1], None), ([-1], [3]), ([1], [9]), ([2, 1], [4, 7]), ([0, 2], None)])
def test_real_inverse(axes: list[int], sizes: list[int] | None) -> None:
    x = ops.parameter([-1, 5, -1, 2], np.float32)
    check_peers([ops.irdft(x, ops.constant(np.array(axes)), *sizes_of(sizes))], [x], [COMPLEX])


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize(("size", "step"), [(8, 3), (11, 4), (16, 50)])
@pytest.mark.parametrize("shape", [(2, 50), (50,)])
def test_stft(transposed: bool, size: int, step: int, shape: tuple[int, ...]) -> None:
    signal, window = RNG.standard_normal(shape).astype(np.float32), RNG.uniform(0, 1, 8).astype(np.float32)
    x, w = ops.parameter([-1] * len(shape), np.float32), ops.parameter([8], np.float32)
    node = ops.stft(x, w, ops.constant(np.array(size)), ops.constant(np.array(step)), transposed)
    check_peers([node], [x, w], [signal, window])


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(
    ("shape", "size", "step", "width"),
    [((5, 7, 2), 8, 3, 8), ((2, 5, 7, 2), 8, 3, 6), ((2, 6, 4, 2), 11, 4, 11), ((3, 4, 5, 2), 6, 7, 6)],
)
@pytest.mark.parametrize("length", [None, 10, 60])
def test_istft(
    center: bool, normalized: bool, shape: tuple[int, ...], size: int, step: int, width: int, length: int | None
) -> None:
    frames = RNG.standard_normal(shape).astype(np.float32)
    window = RNG.uniform(0.1, 1, width).astype(np.float32)
    x, w = ops.parameter([-1] * len(shape), np.float32), ops.parameter([-1], np.float32)
    numbers = [ops.constant(np.array(number)) for number in (size, step)]
    last = None if length is None else ops.constant(np.array(length))
    check_peers([ops.istft(x, w, *numbers, center, normalized, last)], [x, w], [frames, window])


def test_istft_undoes_stft() -> None:
    signal = RNG.standard_normal((2, 41))
    window = np.hanning(10)[1:-1]
    size, step = np.array(9), np.array(4)
    frames = STFT15(transpose_frames=True).evaluate(signal, window, size, step)
    back = ISTFT16().evaluate(frames, window, size, step, np.array(-1))
    # A window that is 0 at an end loses the signal there.
    np.testing.assert_allclose(back[:, 1:-1], signal[:, 1:-1], atol=1e-9)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(
    "shape",
    ["[5,7,2]", "[2,5,7,2]", "[?,?,?,2]", "[...]", "[3..4,5,4..9,2]", "[5,0,2]", "[5,..3,2]", "[2..5,7,2]"],
)
@pytest.mark.parametrize("size", [8, 9])
def test_shapes_of_istft(shape: str, center: bool, size: int) -> None:
    x, w = ops.parameter(openvino.PartialShape(shape), np.float32), ops.parameter([8], np.float32)
    numbers = [ops.constant(np.array(number)) for number in (size, 3)]
    check_inference([ops.istft(x, w, *numbers, center, False)], [x, w])
    check_inference([ops.istft(x, w, *numbers, center, False, ops.constant(np.array([30])))], [x, w])
    number = ops.parameter([], np.int64)
    check_inference([ops.istft(x, w, numbers[0], number, center, False)], [x, w, number])
    check_inference([ops.istft(x, w, *numbers, center, False, number)], [x, w, number])


@pytest.mark.parametrize(
    ("data", "window", "size", "step", "message"),
    [
        ("7,2", "8", 8, 3, "three or four dimensions"),
        ("6,7,2", "8", 8, 3, "5 frequencies"),
        ("5,7,2", "9", 8, 3, "do not make a transform"),
        ("5,7,2", "8", 8, 0, "do not make a transform"),
        ("5,7,2", "8,1", 8, 3, "1 dimensions"),
        ("5,7,2", "8", [8], 3, "0 dimensions"),
    ],
)
def test_istft_contradictions(data: str, window: str, size: Any, step: int, message: str) -> None:
    shapes = [TensorType(element_type("f32"), PartialShape.parse(text)) for text in (data, window)]
    numbers = [known(number) for number in (size, step)]
    with pytest.raises(ir_runtime.ModelError, match=message):
        ISTFT16().infer([*shapes, *numbers])


def known(value: Any) -> TensorType:
    array = np.array(value)
    return TensorType(element_type("i64"), PartialShape(array.shape), Tensor.from_array(array, element_type("i64")))
