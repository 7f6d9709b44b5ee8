"""BitCast to floats, bit by bit, in both engines."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.engines import ENGINES, converted, node_model, run
from tests.rows.onnx.bits import EVERY, WORDS, number

SMALL, SINGLE = EVERY, np.concatenate([WORDS, WORDS | np.uint32(1 << 31)])


@pytest.mark.parametrize(("bits", "to"), [(SMALL, np.float16), (SMALL, ml_dtypes.bfloat16), (SINGLE, np.float32)])
@pytest.mark.parametrize("signed", [True, False])
def test_floats_of_their_bits(bits: np.ndarray, to: Any, signed: bool) -> None:
    x = bits.view(f"i{bits.itemsize}") if signed else bits
    wanted = bits.view(to)
    ir = converted(node_model("BitCast", {"x": x}, attributes={"to": number(to)}, opset=26))
    for engine in ENGINES:
        (found,) = run(engine, ir, {"x": x})
        with np.errstate(invalid="ignore"):
            is_number = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.isnan(found), ~is_number)
        if engine == "openvino" and to is ml_dtypes.bfloat16:
            # Without AVX-512 the plug-in converts by float32, where small ones are denormal: they become 0, as does -0.
            is_number &= np.abs(wanted.astype(np.float32)) >= np.finfo(np.float32).tiny
        # Zeros differ in their bits alone.
        np.testing.assert_array_equal(found.view(bits.dtype)[is_number], bits[is_number])
