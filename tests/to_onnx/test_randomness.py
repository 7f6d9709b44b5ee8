"""Random layers: another generator draws their numbers, by the same distribution."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx
import onnxruntime
import pytest

from converter import export_model
from ir_runtime.graph.element_types import Array
from tests.rows.layer import Layer, layers
from tests.to_onnx.single_layers import model_of

_MANY = 4000
_WEIGHTS = np.array([[1, 2, 3, 2], [0, 0, 1, 3]], np.float32)
_SHARES = _WEIGHTS / _WEIGHTS.sum(1, keepdims=True)
_TOLERANCE = 0.05
"""Six standard deviations of a share of that many numbers, and more."""


def _drawn(call: Layer, computed: Collection[int] = (), runs: int = 1) -> list[Array]:
    model, feeds = model_of(call, computed=computed)
    exported = export_model(model)
    onnx.checker.check_model(exported, full_check=True)
    sessions = [
        onnxruntime.InferenceSession(exported.SerializeToString(), providers=["CPUExecutionProvider"])
        for _ in range(runs)
    ]
    return [session.run(None, {one.name: feeds[one.name] for one in session.get_inputs()})[0] for session in sessions]


def _fifty(op_seed: int = 0, global_seed: int = 0) -> Layer:
    bounds = np.array(0, np.float32), np.array(1, np.float32)
    shape = np.array([50])
    return next(layers("RandomUniform", 8, shape, *bounds, output_type="f32", op_seed=op_seed, global_seed=global_seed))


@pytest.mark.parametrize("is_known", [True, False], ids=["known bounds", "computed bounds"])
@pytest.mark.parametrize("kind", ["float32", "float16", "float64", "int32", "int64"])
def test_uniform_numbers(kind: str, is_known: bool) -> None:
    shape, bounds = np.array([_MANY]), [np.array(bound, kind) for bound in (-3, 5)]
    fixed = (0, 1, 2) if is_known else (0,)
    (call,) = layers("RandomUniform", 8, shape, *bounds, fixed=fixed, output_type=kind[0] + kind[-2:])
    (numbers,) = _drawn(call, () if is_known else (1, 2))
    assert numbers.dtype == kind
    counts, _ = np.histogram(numbers, 8, (-3, 5))
    assert counts.sum() == _MANY
    assert np.abs(counts / _MANY - 1 / 8).max() < _TOLERANCE
    if np.dtype(kind).kind == "i":
        assert set(numbers.tolist()) == set(range(-3, 5))


@pytest.mark.parametrize("log_probs", [False, True])
@pytest.mark.parametrize("computed", [(), (1,)], ids=["known count", "computed count"])
def test_samples_with_replacement(computed: Collection[int], log_probs: bool) -> None:
    weights = np.log(np.maximum(_WEIGHTS, 1e-30)) if log_probs else _WEIGHTS
    (call,) = layers(
        "Multinomial", 13, weights, np.array(_MANY), convert_type="i32", with_replacement=True, log_probs=log_probs
    )
    (numbers,) = _drawn(call, computed)
    assert numbers.dtype == np.int32
    assert numbers.shape == (2, _MANY)
    found = np.stack([np.bincount(row, minlength=4) / _MANY for row in numbers])
    assert np.abs(found - _SHARES).max() < _TOLERANCE


@pytest.mark.parametrize("computed", [(), (1,)], ids=["known count", "computed count"])
def test_samples_without_replacement(computed: Collection[int]) -> None:
    """The first sample follows the weights; no row has a class twice."""
    weights = np.tile(_WEIGHTS[:1], (_MANY, 1))
    (call,) = layers("Multinomial", 13, weights, np.array(3), convert_type="i64")
    (numbers,) = _drawn(call, computed)
    assert numbers.shape == (_MANY, 3)
    assert (np.diff(np.sort(numbers, axis=1), axis=1) > 0).all()
    assert np.abs(np.bincount(numbers[:, 0], minlength=4) / _MANY - _SHARES[0]).max() < _TOLERANCE


def test_with_a_seed_every_session_draws_the_same() -> None:
    first, second = _drawn(_fifty(op_seed=7), runs=2)
    assert (first == second).all()


def test_without_a_seed_every_run_draws_other_numbers() -> None:
    model, feeds = model_of(_fifty())
    exported = export_model(model)
    assert not any(attribute.name == "seed" for node in exported.graph.node for attribute in node.attribute)
    session = onnxruntime.InferenceSession(exported.SerializeToString(), providers=["CPUExecutionProvider"])
    first, second = (session.run(None, feeds)[0] for _ in range(2))
    assert (first != second).any()


def test_layers_of_other_seeds_draw_other_numbers() -> None:
    drawn = [_drawn(_fifty(*seeds))[0] for seeds in ((1, 0), (2, 0), (0, 1))]
    assert len({numbers.tobytes() for numbers in drawn}) == len(drawn)


@pytest.mark.parametrize("seed", [0.0, 1.0, 123.5, -7.0])
def test_a_seed_of_onnx_comes_back(seed: float) -> None:
    bits = int(np.float32(seed).view(np.uint32))
    call = _fifty(op_seed=bits + 1)
    (node,) = [node for node in export_model(model_of(call)[0]).graph.node if node.op_type == "RandomUniformLike"]
    assert [one.f for one in node.attribute if one.name == "seed"] == [seed]
