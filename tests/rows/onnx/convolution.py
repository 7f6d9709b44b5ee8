"""Convolutions, and scales around layers with weights that become part of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from tests.rows.row import REFERENCE, Row, Tolerance, const, each, graphs, normal_by, rows, several

RNG = np.random.default_rng(3)
normal = normal_by(RNG)


def layer(x: tuple[int, ...], w: tuple[int, ...], filters: int, attributes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the arguments of a layer without biases, and with one for each filter."""
    arguments = {"x": normal(*x), "w": const(normal(*w))}
    return [{**arguments, **attributes}, {**arguments, "b": const(normal(filters)), **attributes}]


LAYERS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 8, 9), (4, 3, 3, 3), {}),
    ((2, 3, 8, 9), (4, 3, 3, 2), {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ((1, 4, 8, 9), (6, 4, 1, 1), {}),
    ((2, 4, 8, 9), (6, 4, 1, 1), {"strides": [2, 3], "pads": [1, 1, 0, 0]}),
    ((1, 4, 9, 9), (6, 2, 3, 3), {"group": 2, "dilations": [2, 1]}),
    ((2, 4, 9, 9), (4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
    ((1, 3, 9, 9), (6, 1, 3, 3), {"group": 3, "strides": [2, 2], "dilations": [1, 2]}),
    ((2, 3, 11), (4, 3, 3), {"pads": [2, 1], "dilations": [2]}),
    ((2, 3, 11), (3, 1, 3), {"group": 3}),
    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 3), {"pads": [1, 0, 1, 0, 1, 1], "strides": [1, 2, 1]}),
    ((1, 2, 5, 6, 7), (2, 1, 3, 3, 3), {"group": 2, "auto_pad": "SAME_LOWER"}),
    ((1, 3, 8, 9), (4, 3, 3, 4), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((1, 3, 8, 9), (4, 3, 3, 4), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    ((1, 3, 8, 9), (4, 3, 1, 1), {"auto_pad": "SAME_UPPER", "strides": [3, 3]}),
    ((1, 3, 8, 9), (4, 3, 3, 4), {"auto_pad": "VALID", "strides": [2, 1]}),
    ((1, 3, 8, 9), (4, 3, 3, 4), {"auto_pad": "", "pads": [1, 0, 2, 1]}),
]
TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 4, 5), (3, 2, 3, 3), {}),
    ((2, 3, 4, 5), (3, 2, 3, 2), {"strides": [2, 3], "pads": [1, 0, 0, 1]}),
    ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [2, 2], "output_padding": [1, 1], "dilations": [2, 1]}),
    ((1, 4, 4, 5), (4, 1, 3, 3), {"group": 4, "strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 0]}),
    ((1, 4, 4, 5), (4, 3, 2, 2), {"group": 2, "strides": [2, 2]}),
    ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [2, 2], "output_shape": [8, 10]}),
    ((1, 3, 4, 5), (3, 2, 4, 4), {"strides": [2, 2], "output_shape": [9, 11], "auto_pad": "SAME_UPPER"}),
    ((1, 3, 4, 5), (3, 2, 4, 4), {"strides": [2, 2], "output_shape": [9, 11], "auto_pad": "SAME_LOWER"}),
    ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [2, 2], "auto_pad": "VALID"}),
    ((2, 3, 6), (3, 2, 4), {"strides": [3], "pads": [1, 2]}),
    ((1, 2, 3, 4, 3), (2, 3, 2, 3, 2), {"strides": [2, 1, 2], "pads": [0, 1, 0, 0, 1, 0]}),
]
BLUR = """g (float[1,5,8,8] x) => (float[n,c,h,w] y) {
    filters = Expand (kernel, shape)  y = Conv <group = 5, pads = [1, 1, 1, 1]> (x, filters)
}"""
DATA, FILTERS = normal(1, 3, 8, 8), const(normal(4, 3, 3, 3))
ROWS = [
    *rows("Conv", 11, also=each(*(a for x, w, given in LAYERS for a in layer(x, w, w[0], given)))),
    *rows("Conv", 11, dims={"x": ["n", 4, None, None]},
          also=each(*layer((1, 4, 9, 9), (4, 1, 3, 3), 4, {"group": 4}), *layer((1, 4, 8, 9), (6, 4, 3, 4), 6, {}))),
    *rows("Conv", each(1, 11, 22), label="types", kernel_shape=[3, 3], pads=[1] * 4,
          tolerance=Tolerance(2e-3, 2e-3), also=each(*({"x": normal(1, 3, 7, 7, dtype=t),
          "w": const(normal(4, 3, 3, 3), t), "b": const(normal(4), t)} for t in ("f2", "f4", "f8")))),
    *rows("Conv", 22, label="bfloat16", x=normal(1, 2, 5, 5, dtype=ml_dtypes.bfloat16),
          w=const(normal(3, 2, 3, 3), ml_dtypes.bfloat16), tolerance=Tolerance(2e-2, 5e-2)),
    *rows("Conv", 11, label="weights_are_an_input", dims=each(None, {"x": ["n", 4, None, None]}), also=each(
        *({"x": normal(2, 4, 7, 7), "w": normal(*w), "b": normal(w[0]), "group": group}
          for group, w in ((1, (4, 4, 3, 3)), (4, (4, 1, 3, 3)), (2, (6, 2, 3, 3)))))),
    *graphs(BLUR, label="one_filter_for_all_channels", opset=13, x=normal(1, 5, 8, 8), kernel=const(normal(1, 1, 3, 3)),
            shape=const([5, 1, 3, 3])),
    *rows("ConvTranspose", 11, also=each(
        *(a for x, w, given in TRANSPOSED for a in layer(x, w, w[1] * given.get("group", 1), given)))),
    *rows("ConvTranspose", each(1, 11, 22), x=normal(1, 3, 5, 5), w=const(normal(3, 2, 3, 3)), b=const(normal(2)),
          kernel_shape=[3, 3], strides=[2, 2]),
    *rows("ConvTranspose", 11, label="weights_are_an_input", x=normal(1, 4, 5, 5), w=normal(4, 2, 3, 3), group=2),
    *(row for parts, size, attributes in ((1, (5, 5), {}), (1, (7, 7), {"pads": [1, 1, 1, 1]}),
                                          (1, (3, 3), {"strides": [2, 1], "dilations": [1, 2]}),
                                          (2, (5, 5), {"group": 2, "offset_group": 2}))
      for row in rows("DeformConv", 19, label=f"{parts}_of_{size[0]}", x=normal(2, 4, 6, 7),
                      w=const(normal(6, 4 // parts, 2, 3)), offset=1.5 * normal(2, parts * 12, *size),
                      b=const(normal(6)), also=each({}, {"mask": normal(2, parts * 6, *size)}), **attributes,
                      expect=REFERENCE, tolerance=Tolerance(1e-3, 1e-4))),
    *rows("Conv", 11, x=each(normal(), normal(3), normal(3, 8, 8)), w=FILTERS, refused="must have 4 dimensions"),
    *rows("Conv", 11, x=DATA, w=const(normal(4, 2, 3, 3)), refused="do not fit data"),
    *rows("Conv", 11, x=DATA, w=FILTERS, kernel_shape=[2, 2], refused="kernel_shape is"),
    *rows("Conv", 11, x=DATA, w=FILTERS, auto_pad="BOTH", refused="auto_pad must be one of"),
    *rows("Conv", 11, x=DATA, w=FILTERS, pads=[1, 1], refused="pads must be 4 numbers"),
    *rows("Conv", 11, x=normal(1, 4, 8, 8), w=const(normal(5, 2, 3, 3)), group=2, refused="be split into 2 groups"),
    *rows("Conv", 11, x=normal(1, 3, 2, 2), w=FILTERS, refused="does not fit into 2"),
    *rows("Conv", 11, x=DATA, w=FILTERS, strides=[0, 1], refused="strides must be 2 numbers"),
    *rows("Conv", 11, x=DATA, w=FILTERS, dilations=[1, 0], refused="dilations must be 2 numbers from 1 on"),
]  # fmt: skip


def numbers(*shape: int) -> np.ndarray:
    return np.linspace(-2, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)


HALF = np.float16
SCALES = np.linspace(0.3, 0.9, 4).astype(HALF)
PRODUCT = "g (float[n, k] x) => (y) { p = MatMul (x, w)  y = Mul (p, s) }"
CONVOLUTION = {"x": numbers(1, 3, 6, 6).astype(HALF), "w": const(numbers(4, 3, 3, 3), HALF)}


def normalized(label: str, rank: int, kind: Any, layers: str, summand: float = 1, **more: Any) -> Iterator[Row]:
    """A convolution or a product, and a normalization of what another layer reads, too."""
    random = np.random.default_rng(rank)
    stored = {
        "w": random.standard_normal((6, 3, *[2] * (rank - 2)) if rank > 2 else (3, 6)),
        "v": random.random(6) + 0.1,
    }
    stored |= {name: random.standard_normal(6) * (summand if name in "bm" else 1) for name in "gbm"}
    before = "Conv" if rank > 2 else "Gemm"
    nodes = f"s = {before} (x, w) u = Relu (s) z = Neg (u) y = BatchNormalization <epsilon = 0.01> (u, g, b, m, v)"
    yield from several(nodes, outputs="y, z", label=f"normalized-{label}", layers=layers.split(),
                       expect=REFERENCE if kind == np.float64 else None,
                       x=np.random.default_rng(0).standard_normal((2, 3, *[9] * (rank - 2))).astype(kind),
                       **({name: const(value, kind) for name, value in stored.items()} | more))  # fmt: skip


ROWS += [
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
    *(row for rank in (2, 3, 4, 5) for kind in (np.float32, np.float64)
      for row in normalized(f"{rank}", rank, kind, f"{'Convolution' if rank > 2 else 'MatMul'} ReLU Multiply Add Negative")),
    *normalized("summands_of_0", 4, np.float32, "Convolution ReLU Multiply Negative", 0),
    *normalized("float16", 4, HALF, "Convolution ReLU BatchNormInference Negative"),
    *normalized("at_run_time", 4, np.float32, "Convolution ReLU BatchNormInference Negative",
                v=np.linspace(1, 2, 6, dtype=np.float32)),
]  # fmt: skip
