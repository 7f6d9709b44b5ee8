"""What runs models in tests: inputs live until the outputs are read."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.converter.targets.probes.loops import scanned
from tests.engines import converted, output_names, run_openvino


def test_an_output_in_the_memory_of_an_input_is_read_before_the_input_goes() -> None:
    """The plug-in returns an unchanged state in the memory of the input, which the caller owns."""
    model, feeds = scanned("", "t = Identity (s) r = Identity (row)", "", kind=ml_dtypes.bfloat16).build()
    (state,) = run_openvino(converted(model, "any"), feeds, output_names(model))
    np.testing.assert_array_equal(state.astype(np.float32), [[1, 2, 3], [4, 5, 6]])
