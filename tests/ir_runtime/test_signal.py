"""The IR's Fourier transforms against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino import opset16 as ops

from tests.ir_runtime.peers import check_peers

RNG = np.random.default_rng(6)
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
