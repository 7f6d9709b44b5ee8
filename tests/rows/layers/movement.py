"""What arranges, picks and places values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.rows.layer import Layer, flags, ints, layers, normal, one, whole
from tests.rows.row import each

FAR = 2**63 - 1
X = np.arange(2 * 8 * 4 * 6, dtype=np.float32).reshape(2, 8, 4, 6)
CUBE = np.arange(60, dtype=np.float32).reshape(3, 4, 5)

REDUCTIONS = ("none", "sum", "prod", "min", "max")
MODES = each("blocks_first", "depth_first")


def both(*shape: int, low: int = -9, high: int = 9) -> Any:
    """Floating-point numbers, and whole ones."""
    return each(normal(*shape), whole(low, high, *shape))


def strided(data: Any, begin: Any, end: Any, strides: Any, masks: Any) -> list[Layer]:
    """OpenVINO wants all masks of one length."""
    if masks:
        names = ("begin", "end", "new_axis", "shrink_axis", "ellipsis")
        masks = {f"{name}_mask": masks.get(name, (0,) * len(begin)) for name in names}
    return list(layers("StridedSlice", 1, data, ints(*begin), ints(*end), ints(*strides), **masks))


def slices(data: Any, start: Any, stop: Any, step: Any, *axes: Any) -> list[Layer]:
    """A slice, and the scatter into it."""
    ends = [ints(*numbers) for numbers in (start, stop, step, *axes)]
    part = [slice(None)] * len(data)
    for axis, *numbers in zip(range(len(start)) if not axes else axes[0], start, stop, step):
        part[axis] = slice(*numbers)
    updates = np.empty(data)[tuple(part)].shape
    return [
        *layers("Slice", 8, both(*data), *ends),
        *layers("SliceScatter", 15, normal(*data), normal(*updates), *ends),
        *layers("SliceScatter", 15, whole(0, 9, *data), whole(0, 9, *updates), *ends),
    ]


ROWS = [
    # Shapes.
    *(row for data, target, zero in [
        ((2, 3, 4), (6, 4), False), ((2, 3, 4), (-1, 4), False), ((2, 3, 4), (0, -1), True),
        ((2, 3, 4), (0, 0, 2, -1), True), ((2, 3, 4), (0, 12), True), ((2, 3, 4), (4, 3, 2), True),
        ((0, 3), (0, 3), False), ((0, 3), (0, 7), False), ((0, 3), (0, -1), True), ((0, 3), (-1, 3), False),
        ((3, 0), (-1, 0), True), ((1, 1), (), False), ((), (1, -1), False), ((4,), (4,), True), ((6,), (1, -1, 2),
            False),
    ] for kind in (np.int64, np.int32)
      for row in layers("Reshape", 1, normal(*data) if kind is np.int64 else whole(-5, 9, *data), ints(*target,
          dtype=kind), special_zero=zero)),
    *layers("Transpose", 1, both(2, 3, 4), each(ints(2, 0, 1), ints(), ints(0, 1, 2))),
    *(row for data, axes in [((1, 2, 1), (0,)), ((1, 2, 1), (-1, 0)), ((1, 2, 1), ()), ((1, 1), (0, 1)), ((1,), (0,)),
                             ((1, 3, 1), (0, 2))] for row in layers("Squeeze", each(1, 15), both(*data), ints(*axes))),
    *layers("Squeeze", each(1, 15), normal(1, 2), one(0)),
    *layers("Squeeze", each(1, 15), each(normal(2, 3), whole(0, 9, 1, 2, 1))),
    *layers("Squeeze", 15, normal(1, 2, 1), each(*(ints(*axes) for axes in ((0, 1), (1,), (2, 0), (-1,), ()))),
            allow_axis_skip=True),
    *layers("Squeeze", 15, normal(1, 2, 1), allow_axis_skip=True),
    *(row for data, axes in [((2, 3), (0,)), ((2, 3), (-1, 1)), ((), (0, 1)), ((3,), (2, 0)), ((3,), ())]
      for row in layers("Unsqueeze", 1, both(*data), ints(*axes))),
    *layers("Unsqueeze", 1, whole(-3, 3, 2), one(-2)),
    *(row for shapes, axis in [(((2, 3), (2, 1), (2, 4)), 1), (((2, 3), (0, 3)), 0), (((3,), (2,), (1,)), -1),
                               (((2, 1, 3),), 2), (((1, 2), (1, 2)), -2)]
      for draw in (normal, lambda *shape: whole(-5, 9, *shape))
      for row in layers("Concat", 1, *[draw(*shape) for shape in shapes], axis=axis)),
    *(row for data, repeats in [((2, 3), (2, 1)), ((2, 3), (2, 1, 3)), ((2, 3, 1), (2,)), ((), (3,)), ((2,), (0,)),
                                ((2, 3), ()), ((0, 2), (3, 2)), ((2, 8, 4, 6), (2,)), ((2, 8, 4, 6), (1, 2, 1, 1)),
                                ((2, 8, 4, 6), (2, 1, 1, 1, 3))]
      for row in layers("Tile", 1, both(*data), ints(*repeats))),
    # Broadcasts.
    *(row for data, target in [((3, 1), (2, 3, 4)), ((), (2, 3)), ((1,), (0,)), ((2, 3), (2, 3)), ((1, 3), (5, 3)),
        ((), ())] for row in layers("Broadcast", each(1, 3), both(*data), ints(*target), mode="numpy")),
    *(row for data, target, axes in [((3,), (2, 3, 4), (1,)), ((2, 4), (2, 3, 4), (0, 2)), ((2, 1), (2, 3, 4), (0, 2)),
                                     ((3,), (3, 4), (0,)), ((), (2,), ())]
      for row in layers("Broadcast", each(1, 3), normal(*data), ints(*target), ints(*axes), mode="explicit")),
    *(row for data, target in [((3, 1), (2, 1, 4)), ((2, 3), (1, 1)), ((2, 3), (3,)), ((1,), (0, 5)), ((2, 1, 1), (4,
        1)),
                               ((2, 3), ())]
      for row in layers("Broadcast", 3, both(*data), ints(*target), mode="bidirectional")),
    # Slices.
    *(row for args in [
        ((5, 6), (1, -3), (4, FAR), (1, 2)),
        ((5, 6), (-1, 0), (-FAR, 2**31 - 1), (-1, 1)),
        ((5, 6), (-1,), (FAR,), (1,), (1,)),
        ((5, 6), (2, -4), (-1, 1), (2, -1), (-1, 0)),
        ((5, 6), (9,), (2,), (1,), (0,)),
        ((5, 6), (3,), (1,), (-2,), (0,)),
        ((0, 6), (0,), (3,), (1,), (0,)),
        ((7,), (-20,), (20,), (3,), (0,)),
        ((7,), (2**31 - 1,), (1 - 2**31,), (-3,), (0,)),
        ((3, 4, 5), (3, 0), (-5, 4), (-2, 2), (1, 2)),
    ] for row in slices(*args)),
    *(row for data, begin, end, strides, masks in [
        ((3, 4, 5), (0, 1, 1), (1, 3, 4), (1, 1, 2), {}),
        ((3, 4, 5), (0, 1, 1), (1, 3, 4), (1, 1, 1), {"begin": (1, 1, 0), "end": (0, 1, 0)}),
        ((3, 4, 5), (1, 0), (2, 2), (1, 1), {"shrink_axis": (1, 0)}),
        ((3, 4, 5), (-1, 0), (2, 2), (1, 1), {"shrink_axis": (1, 1)}),
        ((3, 4, 5), (0, 1), (0, 3), (1, 1), {"new_axis": (1, 0)}),
        ((3, 4, 5), (0, 0, 2), (0, 0, 4), (1, 1, 1), {"ellipsis": (1, 0, 0), "end": (0, 1, 0)}),
        ((3, 4, 5), (1, 0, -1), (2, 0, 0), (1, 1, 1), {"ellipsis": (0, 1, 0), "shrink_axis": (1, 0, 1)}),
        ((3, 4, 5), (1, 1), (2, 3), (1, 1), {"begin": (1, 0), "shrink_axis": (1, 0)}),
        ((3, 4, 5), (-1,), (0,), (-1,), {"end": (1,)}),
        ((3, 4, 5), (0, -1, -2), (3, -4, 1), (2, -1, 1), {"end": (0, 0, 1)}),
        ((6,), (-2,), (FAR,), (1,), {}),
        ((6,), (4,), (2,), (1,), {"begin": (1,), "end": (1,)}),
        ((6,), (2,), (0,), (1,), {"shrink_axis": (1,), "begin": (1,)}),
        ((6,), (-1,), (-9,), (-2,), {}),
    ] for row in strided(both(*data), begin, end, strides, masks)),
    *layers("StridedSlice", 1, normal(4, 5), ints(1, 2), ints(3, 5)),
    *(row for data, axis, count in [((6, 4), 0, 3), ((6, 4), -1, 2), ((0, 2), 0, 2), ((3,), 0, 3), ((3, 4, 5), -2, 2)]
      for row in layers("Split", 1, both(*data), one(axis), num_splits=count)),
    *(row for data, axis, lengths in [((6, 4), 0, (1, 2, 3)), ((6, 4), -1, (1, -1, 2)), ((6, 4), 0, (6, -1)),
                                      ((2,), 0, (0, 2)), ((4,), 0, (-1,)), ((3, 4, 5), 2, (1, -1, 2))]
      for row in layers("VariadicSplit", 1, both(*data), one(axis), ints(*lengths), shaped=(2,))),
    # Gathers.
    *(row for data, indices, axis in [((5, 3), whole(-5, 5, 2, 2), 0), ((5, 3), whole(0, 3, 4), -1), ((5, 3), one(2),
        1),
                                      ((4,), ints(-1, 2), 0), ((4,), one(3), 0), ((4, 2), whole(0, 4, 0), 0)]
      for row in layers("Gather", each(1, 7, 8), both(*data), indices, one(axis))),
    *(row for data, indices, axis, batch in [((2, 5, 3), (2, 4), 1, 1), ((2, 5, 3), (2, 4), 2, 1), ((2, 3), (2, 2), 1,
        1),
                                             ((2, 3, 4), (2, 3, 2), -1, -1), ((2, 3, 4), (2, 2), 1, 1), ((2, 3, 4),
                                                 (2, 2), -1, -2)]
      for row in layers("Gather", each(7, 8), both(*data), whole(0, 3, *indices), one(axis), batch_dims=batch)),
    *(row for data, indices, axis in [((3, 4), (3, 2), 1), ((3, 4), (6, 4), 0), ((3, 4), (3, 0), -1), ((4,), (2,), 0)]
      for row in layers("GatherElements", 6, both(*data), whole(-3, 3, *indices), axis=axis)),
    *(row for data, indices, batch in [((3, 4, 2), (5, 2), 0), ((3, 4, 2), (5, 3), 0), ((3, 4, 2), (3, 2, 1), 1),
                                       ((2, 2, 5, 3), (2, 2, 4, 1), 2), ((2, 3, 4), (2, 3, 1), 2), ((3,), (2, 0), 0)]
      for row in layers("GatherND", each(5, 8), normal(*data), whole(0, 2, *indices), batch_dims=batch)),
    *layers("OneHot", each(1, 16), each(whole(-2, 4, 2, 3), one(1), whole(0, 5, 0)), one(each(4, 0)), normal(),
            normal(), axis=each(0, -1)),
    *layers("OneHot", 16, each(whole(-2, 4, 2, 3), one(1), whole(0, 5, 0)), one(each(4, 0)), one(7), one(-1),
            axis=each(0, -1), negative_indices_mode="normalize"),
    *(row for data in (whole(0, 2, 3, 4), *np.array([3, 0], np.float32), flags(5), np.zeros((2, 0), np.float32))
      for row in layers("NonZero", 3, data, output_type=each("i64", "i32"))),
    # Scatters.
    *(row for data, indices, updates, axis in [((5, 3), (2,), (2, 3), 0), ((5, 3), (2, 2), (5, 2, 2), -1), ((4,), (),
        (), 0),
                                               ((6,), (2,), (2,), 0), ((2, 3, 4), (2,), (2, 2, 4), 1)] for row in [
          *layers("ScatterUpdate", 3, normal(*data), whole(0, 3, *indices), normal(*updates), one(axis)),
          *layers("ScatterUpdate", 3, whole(0, 9, *data), whole(0, 3, *indices), whole(-9, 9, *updates), one(axis)),
      ]),
    *layers("ScatterUpdate", 3, normal(5, 3), ints(-3, 1), normal(2, 3), one(0)),
    *(row for data, indices, axis in [((4, 3), (2, 3), 0), ((4, 3), (4, 5), 1), ((4,), (2,), -1), ((4,), (0,), 0)]
      for row in [
          *layers("ScatterElementsUpdate", each(3, 12), normal(*data), whole(-3, 3, *indices), normal(*indices),
                  one(axis)),
          *layers("ScatterElementsUpdate", 12, whole(0, 9, *data), whole(-3, 3, *indices), whole(-9, 9, *indices),
                  one(axis), reduction=each(*REDUCTIONS), use_init_val=each(True, False)),
          *layers("ScatterElementsUpdate", 12, whole(0, 9, *data), whole(-3, 3, *indices), whole(0, 9, *indices),
                  one(axis), reduction="mean", use_init_val=each(True, False)),
      ]),
    *layers("ScatterElementsUpdate", 12, normal(5), ints(0, 0, -1, 2), normal(4), one(0),
            reduction=each(*REDUCTIONS[1:], "mean"), use_init_val=each(True, False)),
    *(row for data, indices, updates in [((4, 3), (2, 1), (2, 3)), ((4, 3), (2, 2), (2,)), ((4,), (3, 2, 1), (3, 2)),
                                         ((4, 3), (2,), ())] for row in [
          *layers("ScatterNDUpdate", each(4, 15), normal(*data), whole(-3, 3, *indices), normal(*updates)),
          *layers("ScatterNDUpdate", 15, whole(0, 9, *data), whole(-3, 3, *indices), whole(-9, 9, *updates),
                  reduction=each(*REDUCTIONS, "sub")),
      ]),
    *layers("ScatterElementsUpdate", 12, ints(0, 9, 9), ints(1, 1, 2), ints(-4, 1, 2), one(0), reduction="mean",
            use_init_val=False, expect=ints(0, -2, 2)),
    *layers("ScatterNDUpdate", 15, normal(3, 2), ints(0, 0).reshape(2, 1), normal(2, 2),
            reduction=each(*REDUCTIONS[1:], "sub")),
    # Orders.
    *layers("Reverse", 1, both(3, 4), each(ints(1), ints(), ints(-1, 0)), mode="index"),
    *layers("Reverse", 1, both(3, 4), np.array([True, False]), mode="mask"),
    *(row for shift, axes in ((ints(2), ints(-1)), (ints(1, -1), ints(0, 1)), (one(2), ints(0, 1)))
      for row in layers("Roll", 7, both(3, 4), shift, axes)),
    *layers("ShuffleChannels", 1, both(3, 4), group=2),
    *layers("ShuffleChannels", 1, both(3, 4), axis=-2, group=3),
    *layers("ReverseSequence", 1, both(3, 4), ints(1, 4, 2)),
    *layers("ReverseSequence", 1, both(3, 4), ints(1, 3, 2, 2), batch_axis=1, seq_axis=0),
    *layers("DepthToSpace", 1, each(normal(2, 8, 4, 6), normal(2, 4, 2, 3), normal(1, 8, 4, 2, 2)), block_size=2,
            mode=MODES),
    *layers("DepthToSpace", 1, normal(1, 6, 3), block_size=3, mode=MODES),
    *layers("SpaceToDepth", 1, each(normal(2, 3, 4, 6), normal(1, 8, 4, 2, 2)), block_size=2, mode=MODES),
    *layers("SpaceToDepth", 1, normal(0, 3, 3), block_size=3, mode=MODES),
    *(row for data, blocks, begins, ends in (
        (normal(2, 3, 5), (1, 2, 3), (0, 1, 0), (0, 0, 1)), (normal(1, 4, 4, 3), (1, 2, 2, 1), (0, 0, 0, 0), (0, 0, 0,
            0)),
        (X, (1, 1, 2, 3), (0, 0, 1, 0), (0, 0, 1, 3)),
    ) for row in layers("SpaceToBatch", 2, data, ints(*blocks), ints(*begins), ints(*ends))),
    *(row for data, blocks, begins, ends in (
        (normal(12, 3, 5), (1, 2, 3), (0, 1, 0), (0, 0, 2)), (normal(4, 2, 2, 3), (1, 2, 2, 1), (0, 0, 0, 0), (0, 0,
            1, 0)),
        (X, (1, 2, 1, 1), (0, 1, 0, 0), (0, 2, 0, 0)),
    ) for row in layers("BatchToSpace", 2, data, ints(*blocks), ints(*begins), ints(*ends))),
    *(row for mode in ("constant", "edge", "reflect", "symmetric") for row in [
        *layers("Pad", each(1, 12), both(3, 4), ints(1, 0), ints(2, 1), pad_mode=mode),
        *layers("Pad", each(1, 12), whole(0, 9, 5), ints(1), ints(2), whole(-9, 9) if mode == "constant" else one(0),
                pad_mode=mode),
        *layers("Pad", 12, normal(3, 4), ints(-1, 2), ints(1, -3), pad_mode=mode),
        *layers("Pad", 12, whole(-9, 9, 6), ints(-1), ints(1), pad_mode=mode),
        *layers("Pad", 12, CUBE, ints(1, 0, 2), ints(0, 2, 1), pad_mode=mode),
        *layers("Pad", 12, CUBE, ints(0, -1, 2), ints(-1, 1, 0), pad_mode=mode),
    ]),
    *layers("Pad", 12, CUBE, ints(1, 0, 2), ints(0, 2, 1), one(7, np.float32), fixed=(3,), pad_mode="constant"),
]  # fmt: skip
