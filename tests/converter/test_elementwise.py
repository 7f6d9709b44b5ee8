"""Equality of strings, which NumPy executes and OpenVINO's CPU plug-in does not; other rows are in ``tests/rows``."""

from __future__ import annotations

import numpy as np
import pytest

import converter
from tests.engines import assert_close, converted, node_model, run_numpy


def test_equality_of_strings() -> None:
    feeds = {"a": np.array(["ä", "b"], object), "b": np.array([["b"], ["ä"]], object)}
    model = node_model("Equal", feeds, opset=19)
    assert_close(run_numpy(converted(model, "any"), feeds)[0], feeds["a"] == feeds["b"])
    with pytest.raises(converter.UnsupportedModelError, match=r"plug-in does not compare strings.*Equal"):
        converter.convert_model(model)
