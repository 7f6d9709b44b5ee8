"""ONNX's Pad, against NumPy and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.engines import schema_types
from tests.rows.row import const, each, known_or_not, rows

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
MODES = each("constant", "reflect", "edge")
PADS, CUTS, MIXED = [0, 1, 2, 1, 0, 3], [0, -1, 0, 0, 0, -2], [0, -1, 2, 0, 2, -1]
SINGLE = X[..., :1]


def ints(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


def padded(x: np.ndarray, pads: Any, mode: str = "constant", value: Any = None, axes: Any = None) -> np.ndarray:
    """NumPy's answer; negative pads cut first."""
    sides = [(0, 0)] * x.ndim
    for axis, *side in zip(range(x.ndim) if axes is None else axes, pads[: len(pads) // 2], pads[len(pads) // 2 :]):
        sides[axis] = tuple(side)
    x = x[tuple(slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(x.shape, sides))]
    options: Any = {"constant_values": 0 if value is None else value} if mode == "constant" else {}
    return np.pad(x, [(max(0, a), max(0, b)) for a, b in sides], mode, **options)  # type: ignore[no-any-return]


def of_type(dtype: np.dtype[Any], mode: str) -> np.ndarray:
    """The result for ``SMALL`` in a type that NumPy may not pad."""
    places = padded(np.arange(12).reshape(3, 4), [1, 0, 1, 2], mode, -1)
    return np.where(places < 0, np.array(1, dtype), SMALL.astype(dtype).reshape(-1)[places])


SMALL = (np.arange(12) % 7).reshape(3, 4)
ROWS = [
    *rows("Pad", 1, x=X, paddings=PADS, mode=MODES, value=1.5, expect=lambda mode: padded(X, PADS, mode, 1.5)),
    *rows("Pad", 2, x=X, pads=PADS, mode=MODES, value=1.5, expect=padded),
    *(row for opset, kind, value in ((2, list, -3.0), (each(11, 13, 18, 21, 25), const, const(-3, np.float32)))
      for mode, pads in ((MODES, PADS), (MODES, CUTS), (MODES, [0] * 6), (each("constant", "edge"), MIXED),
                         ("reflect", [0, -1, 2, 0, 1, -1]))
      for row in rows("Pad", opset, x=X, pads=kind(pads), value=value, mode=mode, expect=padded)),
    *rows("Pad", 13, label="at_execution", x=X, pads=ints(PADS), mode=MODES, expect=padded),
    *(row for label, kind, pads in (("", const, const), ("", const, ints), ("_at_execution", ints, ints))
      for row in rows("Pad", 19, label=f"axes{label}", x=X, mode=each("constant", "reflect", "edge", "wrap"), also=each(
          {"pads": pads([1, 2]), "value": None, "axes": kind([-1])},
          {"pads": pads([1, 1, 2, 1]), "value": None, "axes": kind([2, 0])}), expect=padded)),
    *rows("Pad", 19, x=X, mode="wrap", expect=padded, pads=known_or_not(
        [0, 0, 9, 0, 0, 5], [0, -1, 0, 0, 5, 3], [0, 1, -1, 0, 0, 2], [0] * 6)),
    *rows("Pad", 13, label="reflect_beyond", x=X, mode="reflect", expect=padded, pads=const(each(
        [0, 0, 9, 0, 0, 5], [0, -1, 3, 0, 4, 0], [0, 2, 4, 0, 3, 0]))),
    *rows("Pad", 13, label="reflect_beyond", x=SINGLE, pads=const([0, 0, 2, 0, 0, 3]), mode="reflect",
          expect=np.repeat(SINGLE, 6, 2)),
    *(row for dtype in schema_types("Pad", 21) for mode in ("constant", "reflect", "edge") for row in rows(
        "Pad", 21, label="types", x=each(SMALL.astype(dtype)), pads=const([1, 0, 1, 2]), mode=each(mode),
        expect=of_type(dtype, mode), **({"value": const(1, dtype)} if mode == "constant" else {}))),
    # OpenVINO's own Pad fills with 0 then.
    *(row for dtype in (np.float32, np.int64, np.float16) for row in rows(
        "Pad", 18, label="value_at_execution", x=np.arange(6).reshape(2, 3).astype(dtype),
        pads=const(each([1, 0, 2, 1], [0, -1, 1, 0])), value=np.array(7, dtype))),
    *rows("Pad", 13, x=X, pads=const([1, 2]), refused="pads must hold 6 numbers"),
    *rows("Pad", 13, x=X, pads=const([0, 0, -3, 0, 0, -2]), refused="the pads leave -1 elements of dimension"),
    *rows("Pad", 13, x=X, pads=const([0] * 6), mode="wrap", refused="mode must be one of"),
    *rows("Pad", 2, x=X, pads=[0, 0, 0], refused="pads must hold 6 numbers"),
    *rows("Pad", 13, x=X, pads=const([1] * 6), v=const([1, 2], np.float32), refused="must be a single number"),
]  # fmt: skip
