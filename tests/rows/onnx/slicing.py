"""Slice and Pad."""

from __future__ import annotations

import numpy as np

from tests.engines import schema_types
from tests.rows.layer import ints
from tests.rows.row import const, each, graphs, known_or_not, rows

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
FAR = 2**63 - 1
OPEN = {"x": ["a", None, "c"]}
CASES: list[dict[str, list[int]]] = [
    {"starts": [1], "ends": [2]},
    {"starts": [0, 1], "ends": [2, 3]},
    {"starts": [1], "ends": [FAR], "axes": [-1]},
    {"starts": [-2], "ends": [FAR], "axes": [2]},
    {"starts": [-100], "ends": [-1], "axes": [1]},
    {"starts": [3], "ends": [1], "axes": [1]},
    {"starts": [100], "ends": [200], "axes": [1]},
    {"starts": [0, 1, 0], "ends": [FAR, 3, -2], "axes": [0, 1, 2]},
    {"starts": [2, 0], "ends": [4, 1], "axes": [2, 0]},
]
STEPPED: list[dict[str, list[int]]] = [
    {"starts": [0], "ends": [FAR], "axes": [1], "steps": [2]},
    {"starts": [-1], "ends": [-FAR - 1], "axes": [2], "steps": [-1]},
    {"starts": [FAR], "ends": [-FAR], "axes": [0], "steps": [-1]},
    {"starts": [3], "ends": [0], "axes": [2], "steps": [-2]},
    {"starts": [-1], "ends": [-4], "axes": [1], "steps": [-1]},
    {"starts": [-1], "ends": [-(2**31)], "axes": [1], "steps": [-1]},
    {"starts": [1, 4], "ends": [2**31 - 1, 0], "axes": [0, 2], "steps": [1, -3]},
]
EXECUTED = [CASES[1], CASES[5], *STEPPED]
CHAIN = """g (float[{}] x) => (y0, y1)
    <int64[1] zero = {{0}}, int64[1] two = {{2}}, int64 one = {{1}}, int64[1] minus = {{-1}}> {{
    shape = Shape (x)  lead = Slice (shape, zero, two)  channels = Gather <axis = 0> (shape, one)
    channel_list = Unsqueeze (channels, zero)  again = Slice (shape, zero, two, zero)
    target = Concat <axis = 0> (lead, minus)  y0 = Reshape (x, target)
    doubled = Mul (channel_list, two)  y1 = Concat <axis = 0> (doubled, again)
}}"""
"""How exporters write a flattening."""
LAST = """g (float[2, n] x) => (mean, numel) <int64[1] start = {{{}}}, int64[1] end = {{{}}}, int64[1] axis = {{1}}> {{
    part = Slice (x, start, end, axis)  mean = ReduceMean <axes = [1], keepdims = 0> (part)  numel = Size (part)
}}"""
"""``x[:, k:]``: not an empty tensor, whatever the bound of the dimension."""
UNKNOWN_RANK = """g (float[n, 4] x, int64[rank] target) => (z) <int64[1] zero = {0}, int64[1] one = {1}> {
    r = Reshape (x, target)  s = Slice (r, zero, one, zero)  dims = Shape (s)  z = Reshape (s, dims)
}"""
"""The rank depends on data, and shapes that follow from it are computed from others."""
ROWS = [
    # onnxruntime no longer runs opset 1 everywhere; the meaning is that of opset 13.
    *rows("Slice", 1, x=X, also=each(*CASES)),
    *rows("Slice", each(10, 11, 13), x=X, also=each(*(
        {name: const(values) for name, values in case.items()} for case in CASES + STEPPED))),
    *(row for case in EXECUTED for dtype in ("int32", "int64")
      for far in [dtype == "int64" and min(case["ends"]) < -(2**31)]
      for row in rows("Slice", 13, label="far_at_execution" if far else "at_execution", x=X, dims=each(None, OPEN), **{name: np.clip(values, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
                                        for name, values in case.items()})),
    *rows("Slice", 13, label="known_axes", x=X, starts=ints(1), ends=ints(-1), axes=const([2])),
    *rows("Slice", 13, x=X, s=const([], np.int64), e=const([], np.int64)),
    *(row for dims in ("2, 3, 2, 2", "n, 3, h, w", "n, c, h, w", "n, 3, 2, 2") for row in graphs(
        CHAIN.format(dims), label="chain_of_shapes", opset=13, x=np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2))),
    *(row for keep in (-1, -2, -5) for row in graphs(
        LAST.format(keep, FAR), label=f"last{keep}", opset=13,
        x=each(*(np.random.default_rng(7).random((2, size), np.float32) for size in (1, 3, 7))))),
    *graphs(UNKNOWN_RANK, label="unknown_rank", x=X[:, :, 0], target=ints(2, 3, 2)),
    *rows("CenterCropPad", 18, x=X, shape=known_or_not([5, 2, 5])),
    *(row for shape, axes in (([2, 7], [0, -1]), ([4], [1]), ([0], [2]), ([6, 9], [2, 0]))
      for row in rows("CenterCropPad", 18, x=X, shape=known_or_not(shape), axes=axes)),
    *rows("Slice", 13, x=X, s=const([0]), e=const([1]), a=const([0]), t=const([0]), refused="must not be 0"),
    *rows("Slice", 13, x=X, s=const([0]), e=const([1]), a=const([3]), refused="outside the range"),
    *rows("Slice", 13, x=X, s=const([0, 0]), e=const([1, 1]), a=const([1, 1]), refused="twice"),
    *rows("Slice", 13, x=X, s=const([0, 0]), e=const([1]), refused="must have one length"),
    *rows("Slice", 13, x=X, s=const([[0]]), e=const([1]), refused="must be a list"),
    *rows("Slice", 1, x=X, starts=[0], ends=[1, 2], refused="must have one length"),
]  # fmt: skip

PADDED = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
MODES = each("constant", "reflect", "edge")
PADS, CUTS, MIXED = [0, 1, 2, 1, 0, 3], [0, -1, 0, 0, 0, -2], [0, -1, 2, 0, 2, -1]
SINGLE = PADDED[..., :1]

SMALL = (np.arange(12) % 7).reshape(3, 4)
ROWS += [
    *rows("Pad", 1, x=PADDED, paddings=PADS, mode=MODES, value=1.5),
    *rows("Pad", 2, x=PADDED, pads=PADS, mode=MODES, value=1.5),
    *(row for opset, kind, value in ((2, list, -3.0), (each(11, 13, 18, 21, 25), const, const(-3, np.float32)))
      for mode, pads in ((MODES, PADS), (MODES, CUTS), (MODES, [0] * 6), (each("constant", "edge"), MIXED),
                         ("reflect", [0, -1, 2, 0, 1, -1]))
      for row in rows("Pad", opset, x=PADDED, pads=kind(pads), value=value, mode=mode)),
    *rows("Pad", 13, label="at_execution", x=PADDED, pads=ints(*PADS), mode=MODES),
    *(row for label, kind, pads in (("", const, const), ("", const, np.array), ("_at_execution", np.array, np.array))
      for row in rows("Pad", 19, label=f"axes{label}", x=PADDED, mode=each("constant", "reflect", "edge", "wrap"), also=each(
          {"pads": pads([1, 2]), "value": None, "axes": kind([-1])},
          {"pads": pads([1, 1, 2, 1]), "value": None, "axes": kind([2, 0])}))),
    *rows("Pad", 19, x=PADDED, mode="wrap", pads=known_or_not(
        [0, 0, 9, 0, 0, 5], [0, -1, 0, 0, 5, 3], [0, 1, -1, 0, 0, 2], [0] * 6)),
    *rows("Pad", 13, label="reflect_beyond", x=PADDED, mode="reflect", pads=const(each(
        [0, 0, 9, 0, 0, 5], [0, 2, 4, 0, 3, 0]))),
    *rows("Pad", 13, label="reflect_beyond", x=PADDED, mode="reflect", pads=const([0, -1, 3, 0, 4, 0]),
          expect=np.pad(PADDED[:, 1:], ((0, 0), (0, 4), (3, 0)), "reflect")),
    *rows("Pad", 13, label="reflect_beyond", x=SINGLE, pads=const([0, 0, 2, 0, 0, 3]), mode="reflect"),
    *(row for dtype in schema_types("Pad", 21) for mode in ("constant", "reflect", "edge") for row in rows(
        "Pad", 21, label="types", x=each(SMALL.astype(dtype)), pads=const([1, 0, 1, 2]), mode=each(mode),
        **({"value": const(1, dtype)} if mode == "constant" else {}))),
    # OpenVINO's own Pad fills with 0 then.
    *(row for dtype in (np.float32, np.int64, np.float16) for row in rows(
        "Pad", 18, label="value_at_execution", x=np.arange(6).reshape(2, 3).astype(dtype),
        pads=const(each([1, 0, 2, 1], [0, -1, 1, 0])), value=np.array(7, dtype))),
    *rows("Pad", 13, x=PADDED, pads=const([1, 2]), refused="pads must hold 6 numbers"),
    *rows("Pad", 13, x=PADDED, pads=const([0, 0, -3, 0, 0, -2]), refused="the pads leave -1 elements of dimension"),
    *rows("Pad", 13, x=PADDED, pads=const([0] * 6), mode="wrap", refused="mode must be one of"),
    *rows("Pad", 2, x=PADDED, pads=[0, 0, 0], refused="pads must hold 6 numbers"),
    *rows("Pad", 13, x=PADDED, pads=const([1] * 6), v=const([1, 2], np.float32), refused="must be a single number"),
]  # fmt: skip
