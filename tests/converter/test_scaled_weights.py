"""Weights whose channels are scaled: which of them do not have the factor of their channel."""

from __future__ import annotations

import numpy as np
import pytest

from converter.equivalence.scaled_weights import scaled_weights

RNG = np.random.default_rng(7)
# name -> weights [channels, inputs]
WEIGHTS = {
    "ordinary": RNG.normal(size=(6, 64)),
    "one value that float16 has": np.where(np.arange(64) == 33, -2.7225886e-07, 1e-9) * np.ones((6, 1)),
    "small numbers of float16": RNG.normal(size=(6, 64)) * 3e-7,
    "both": np.concatenate([RNG.normal(size=(3, 64)), RNG.normal(size=(3, 64)) * 1e-7]),
}
FACTORS = np.array([0.9378595, 1.03, 0.97, 0.9999, 1.5, 0.25])[:, None]


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("name", WEIGHTS)
def test_right_weights_are_not_wrong(name: str, kind: type) -> None:
    weights = WEIGHTS[name].astype(np.float32)
    rounded_twice = (weights * FACTORS).astype(np.float32).astype(kind)
    result = scaled_weights(weights, rounded_twice, (0,))
    assert result is not None
    assert not result.wrong.any(), result.reason


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("channel", range(6))
def test_a_wrong_value_is_found_in_any_channel(channel: int, kind: type) -> None:
    weights = WEIGHTS["ordinary"].astype(np.float32)
    held = (weights * FACTORS).astype(kind)
    held[channel, 5] = np.nextafter(np.nextafter(held[channel, 5], kind(9)), kind(9))
    result = scaled_weights(weights, held, (0,))
    assert result is not None
    assert np.argwhere(result.wrong).tolist() == [[channel, 5]]


def test_a_wrong_value_is_found_beside_channels_that_are_not_scaled() -> None:
    weights = WEIGHTS["ordinary"].astype(np.float32)
    held = (weights * np.where(np.arange(6)[:, None] < 2, 0.5, 1)).astype(np.float32)
    held[4, 9] *= np.float32(1 + 2**-20)
    result = scaled_weights(weights, held, (0,))
    assert result is not None
    assert np.argwhere(result.wrong).tolist() == [[4, 9]]
