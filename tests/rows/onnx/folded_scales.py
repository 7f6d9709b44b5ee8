"""Scales around layers with weights become part of them where the values stay in their type's range."""

from __future__ import annotations

import numpy as np

from tests.rows.row import Tolerance, const, graphs


def numbers(*shape: int) -> np.ndarray:
    return np.linspace(-2, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)


HALF = np.float16
SCALES = np.linspace(0.3, 0.9, 4).astype(HALF)
PRODUCT = "g (float[n, k] x) => (y) { p = MatMul (x, w)  y = Mul (p, s) }"
CONVOLUTION = {"x": numbers(1, 3, 6, 6).astype(HALF), "w": const(numbers(4, 3, 3, 3), HALF)}
ROWS = [
    *(row for weight, factor in ((1e30, 1e30), (1e-30, 1e-10), (1e-30, 1e-30), (np.nan, 2), (1, np.inf), (1, np.nan))
      for row in graphs(PRODUCT, label="beyond_the_range", x=numbers(2, 3), w=const(np.full((3, 4), weight), "f4"),
                        s=const([1, 1, factor, 1], np.float32), layers=["MatMul-1", "Multiply-1"])),
    *graphs(PRODUCT, label="zeros", x=numbers(5, 2), w=const([[0, 1, 2], [0, 3, 4]], np.float32),
            s=const([3, 0, -2], np.float32), layers=["MatMul-1"]),
    # Weights of float16 stay those of the file; the plug-in multiplies in float32, without a second rounding.
    *(row for dims in ("n, 3, h, w", "1, 3, 6, 6") for nodes, layers, more in (
        ("p = Conv (x, w)  y = Mul (p, s)", ["Convolution-1", "Multiply-1"], {"s": const(SCALES.reshape(4, 1, 1))}),
        ("p = Conv (x, w)  y = BatchNormalization <epsilon = 0.0> (p, s, b, b, v)",
         ["Convolution-1", "BatchNormInference-5"],
         {"s": const(SCALES), "b": const(np.zeros(4), HALF), "v": const(np.ones(4), HALF)}),
        ("m = Mul (x, c)  y = Conv (m, w)", ["Multiply-1", "Convolution-1"], {"c": const([0.3], HALF)}))
      for row in graphs(f"g (float16[{dims}] x) => (y) {{ {nodes} }}", label="float16", **CONVOLUTION, **more,
                        layers=layers, tolerance=Tolerance(2e-2, 2e-3))),
]  # fmt: skip
