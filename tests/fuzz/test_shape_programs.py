"""Shape arithmetic made small computes what it did, for every shape of the inputs."""

from __future__ import annotations

import itertools
from typing import Union

import numpy as np
import onnx
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

import converter
import ir_runtime
from tests.engines import run, run_onnxruntime
from tests.fuzz.shape_programs import ShapeProgram, inputs

Answer = tuple[tuple[int, ...], dict[str, np.ndarray], Union[list[np.ndarray], None]]
"""Sizes, inputs of these sizes, and what onnxruntime computes; None where it refuses them."""

REFUSALS = (Fail, InvalidArgument, RuntimeException)
SHAPES = [(6, 7, 9), (2, 3, 5), (1, 1, 1), (3, 1, 4), (1, 7, 2), (0, 3, 5), (2, 0, 5)]


def computed(model: onnx.ModelProto, values: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """What onnxruntime computes; None where it refuses the shape."""
    try:
        return run_onnxruntime(model, values)
    except REFUSALS:
        return None  # a size of 0 in a Reshape may leave no valid shape


def valid_program(seed: int) -> tuple[onnx.ModelProto, list[Answer]]:
    """The first program that onnxruntime takes in at least one shape, and what it computes for each."""
    for attempt in itertools.count():
        model = ShapeProgram(seed + 1000 * attempt).model(3 + seed % 12)
        answers = [(shape, values, computed(model, values)) for shape in SHAPES for values in [inputs(shape, seed)]]
        if any(wanted is not None for _, _, wanted in answers):
            return model, answers
    raise AssertionError


@pytest.mark.parametrize("seed", range(400))
def test_small_shape_arithmetic_is_right(seed: int) -> None:
    model, answers = valid_program(seed)
    made = converter.convert_model(model)
    plain = converter.convert_model(model, fuse=False)
    assert len(made.nodes()) <= len(plain.nodes())
    ir = ir_runtime.model_to_bytes(made)
    for index, (shape, values, wanted) in enumerate(answers):
        if wanted is None:
            continue
        engines = ("numpy", "openvino") if index == seed % 4 else ("numpy",)
        for engine in engines:
            for value, want in zip(run(engine, ir, values), wanted, strict=True):
                np.testing.assert_array_equal(value, want, err_msg=f"{engine}, {shape}")
        reshaped = made.clone()
        reshaped.reshape({name: list(value.shape) for name, value in values.items()})
        for value, want in zip(run("numpy", ir_runtime.model_to_bytes(reshaped), values), wanted, strict=True):
            np.testing.assert_array_equal(value, want, err_msg=f"reshaped to {shape}")
