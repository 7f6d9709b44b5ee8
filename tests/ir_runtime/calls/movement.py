"""Calls of what arranges, picks and places values."""

from __future__ import annotations

import itertools

import numpy as np

from tests.ir_runtime.calls.base import Call, calls, flags, ints, normal, one, whole

MASKS = ("begin", "end", "new_axis", "shrink_axis", "ellipsis")
FAR32, FAR64 = 2**31 - 1, 2**63 - 1


def _shapes() -> list[Call]:
    found = []
    for data, target, zero in [
        ((2, 3, 4), (6, 4), False),
        ((2, 3, 4), (-1, 4), False),
        ((2, 3, 4), (0, -1), True),
        ((2, 3, 4), (0, 0, 2, -1), True),
        ((2, 3, 4), (0, 12), True),
        ((2, 3, 4), (4, 3, 2), True),
        ((0, 3), (0, 3), False),
        ((0, 3), (0, 7), False),
        ((0, 3), (0, -1), True),
        ((0, 3), (-1, 3), False),
        ((3, 0), (-1, 0), True),
        ((1, 1), (), False),
        ((), (1, -1), False),
        ((4,), (4,), True),
        ((6,), (1, -1, 2), False),
    ]:
        found += calls("Reshape", 1, normal(*data), ints(*target), special_zero=zero)
        found += calls("Reshape", 1, whole(-5, 9, *data), ints(*target, dtype=np.int32), special_zero=zero)
    for kind in (normal(2, 3, 4), whole(-5, 9, 2, 3, 4)):
        for order in ((2, 0, 1), (), (0, 1, 2)):
            found += calls("Transpose", 1, kind, ints(*order))
    for data, axes in [
        ((1, 2, 1), (0,)),
        ((1, 2, 1), (-1, 0)),
        ((1, 2, 1), ()),
        ((1, 1), (0, 1)),
        ((1,), (0,)),
    ]:
        for opset in (1, 15):
            found += calls("Squeeze", opset, normal(*data), ints(*axes))
            found += calls("Squeeze", opset, whole(0, 9, *data), ints(*axes))
    found += calls("Squeeze", (1, 15), normal(1, 2), one(0)) + calls("Squeeze", (1, 15), normal(2, 3))
    found += calls("Squeeze", (1, 15), whole(0, 9, 1, 2, 1))
    for axes in ((0, 1), (1,), (2, 0), (-1,)):
        found += calls("Squeeze", 15, normal(1, 2, 1), ints(*axes), allow_axis_skip=True)
    found += calls("Squeeze", 15, normal(1, 2, 1), allow_axis_skip=True)
    found += calls("Squeeze", 15, normal(1, 2, 1), ints(), allow_axis_skip=True)
    for data, axes in [((2, 3), (0,)), ((2, 3), (-1, 1)), ((), (0, 1)), ((3,), (2, 0)), ((3,), ())]:
        found += calls("Unsqueeze", 1, normal(*data), ints(*axes)) + calls(
            "Unsqueeze", 1, whole(0, 9, *data), ints(*axes)
        )
    found += calls("Unsqueeze", 1, whole(-3, 3, 2), one(-2))
    for shapes, axis in [
        (((2, 3), (2, 1), (2, 4)), 1),
        (((2, 3), (0, 3)), 0),
        (((3,), (2,), (1,)), -1),
        (((2, 1, 3),), 2),
        (((1, 2), (1, 2)), -2),
    ]:
        found += calls("Concat", 1, *[normal(*shape) for shape in shapes], axis=axis)
        found += calls("Concat", 1, *[whole(-5, 9, *shape) for shape in shapes], axis=axis)
    for data, repeats in [
        ((2, 3), (2, 1)),
        ((2, 3), (2, 1, 3)),
        ((2, 3, 1), (2,)),
        ((), (3,)),
        ((2,), (0,)),
        ((2, 3), ()),
        ((0, 2), (3, 2)),
    ]:
        found += calls("Tile", 1, normal(*data), ints(*repeats)) + calls("Tile", 1, whole(-5, 9, *data), ints(*repeats))
    return found


def _broadcasts() -> list[Call]:
    found = []
    for data, target in [((3, 1), (2, 3, 4)), ((), (2, 3)), ((1,), (0,)), ((2, 3), (2, 3)), ((1, 3), (5, 3)), ((), ())]:
        for opset in (1, 3):
            found += calls("Broadcast", opset, normal(*data), ints(*target), mode="numpy")
            found += calls("Broadcast", opset, whole(-4, 9, *data), ints(*target), mode="numpy")
    for data, target, axes in [
        ((3,), (2, 3, 4), (1,)),
        ((2, 4), (2, 3, 4), (0, 2)),
        ((2, 1), (2, 3, 4), (0, 2)),
        ((), (2,), ()),
    ]:
        found += calls("Broadcast", (1, 3), normal(*data), ints(*target), ints(*axes), mode="explicit")
    for data, target in [
        ((3, 1), (2, 1, 4)),
        ((2, 3), (1, 1)),
        ((2, 3), (3,)),
        ((1,), (0, 5)),
        ((2, 1, 1), (4, 1)),
        ((2, 3), ()),
    ]:
        found += calls("Broadcast", 3, normal(*data), ints(*target), mode="bidirectional")
        found += calls("Broadcast", 3, whole(-4, 9, *data), ints(*target), mode="bidirectional")
    return found


def _slices() -> list[Call]:
    found = []
    for data, start, stop, step, axes in [
        ((5, 6), (1, -3), (4, FAR64), (1, 2), None),
        ((5, 6), (-1, 0), (-FAR64, FAR32), (-1, 1), None),
        ((5, 6), (-1,), (FAR64,), (1,), (1,)),
        ((5, 6), (2, -4), (-1, 1), (2, -1), (-1, 0)),
        ((5, 6), (9,), (2,), (1,), (0,)),
        ((5, 6), (3,), (1,), (-2,), (0,)),
        ((0, 6), (0,), (3,), (1,), (0,)),
        ((7,), (-20,), (20,), (3,), (0,)),
        ((7,), (FAR32,), (-FAR32,), (-3,), (0,)),
    ]:
        ends = [ints(*start), ints(*stop), ints(*step), *([] if axes is None else [ints(*axes)])]
        found += calls("Slice", 8, normal(*data), *ends) + calls("Slice", 8, whole(-9, 9, *data), *ends)
        part = [slice(None)] * len(data)
        for axis, a, b, c in zip(range(len(start)) if axes is None else axes, start, stop, step):
            part[axis] = slice(a, b, c)
        updates = np.empty(data)[tuple(part)].shape
        found += calls("SliceScatter", 15, normal(*data), normal(*updates), *ends)
        found += calls("SliceScatter", 15, whole(0, 9, *data), whole(0, 9, *updates), *ends)
    for data, begin, end, strides, masks in [
        ((3, 4, 5), (0, 1, 1), (1, 3, 4), (1, 1, 2), {}),
        ((3, 4, 5), (0, 1, 1), (1, 3, 4), (1, 1, 1), {"begin_mask": (1, 1, 0), "end_mask": (0, 1, 0)}),
        ((3, 4, 5), (1, 0), (2, 2), (1, 1), {"shrink_axis_mask": (1, 0)}),
        ((3, 4, 5), (-1, 0), (2, 2), (1, 1), {"shrink_axis_mask": (1, 1)}),
        ((3, 4, 5), (0, 1), (0, 3), (1, 1), {"new_axis_mask": (1, 0)}),
        ((3, 4, 5), (0, 0, 2), (0, 0, 4), (1, 1, 1), {"ellipsis_mask": (1, 0, 0), "end_mask": (0, 1, 0)}),
        ((3, 4, 5), (-1,), (0,), (-1,), {"end_mask": (1,)}),
        ((3, 4, 5), (0, -1, -2), (3, -4, 1), (2, -1, 1), {"end_mask": (0, 0, 1)}),
        ((6,), (-2,), (FAR64,), (1,), {}),
        ((6,), (4,), (2,), (1,), {"begin_mask": (1,), "end_mask": (1,)}),
        ((6,), (2,), (0,), (1,), {"shrink_axis_mask": (1,), "begin_mask": (1,)}),
        ((6,), (-1,), (-9,), (-2,), {}),
    ]:
        ends = [ints(*begin), ints(*end), ints(*strides)]
        if masks:
            # OpenVINO wants all of them of one length.
            masks = {f"{name}_mask": masks.get(f"{name}_mask", (0,) * len(begin)) for name in MASKS}
        found += calls("StridedSlice", 1, normal(*data), *ends, **masks)
        found += calls("StridedSlice", 1, whole(-9, 9, *data), *ends, **masks)
    found += calls("StridedSlice", 1, normal(4, 5), ints(1, 2), ints(3, 5))
    for data, axis, count in [((6, 4), 0, 3), ((6, 4), -1, 2), ((0, 2), 0, 2), ((3,), 0, 3)]:
        found += calls("Split", 1, normal(*data), one(axis), num_splits=count)
        found += calls("Split", 1, whole(-9, 9, *data), one(axis), num_splits=count)
    for data, axis, lengths in [
        ((6, 4), 0, (1, 2, 3)),
        ((6, 4), -1, (1, -1, 2)),
        ((6, 4), 0, (6, -1)),
        ((2,), 0, (0, 2)),
        ((4,), 0, (-1,)),
    ]:
        found += calls("VariadicSplit", 1, normal(*data), one(axis), ints(*lengths), shaped=(2,))
        found += calls("VariadicSplit", 1, whole(-9, 9, *data), one(axis), ints(*lengths), shaped=(2,))
    return found


def _gathers() -> list[Call]:
    found = []
    for data, indices, axis in [
        ((5, 3), whole(-5, 5, 2, 2), 0),
        ((5, 3), whole(0, 3, 4), -1),
        ((5, 3), one(2), 1),
        ((4,), ints(-1, 2), 0),
        ((4,), one(3), 0),
        ((4, 2), whole(0, 4, 0), 0),
    ]:
        found += calls("Gather", (1, 7, 8), normal(*data), indices, one(axis))
        found += calls("Gather", (1, 7, 8), whole(-9, 9, *data), indices, one(axis))
    for data, indices, axis, batch in [
        ((2, 5, 3), (2, 4), 1, 1),
        ((2, 5, 3), (2, 4), 2, 1),
        ((2, 3, 4), (2, 3, 2), -1, -1),
        ((2, 3), (2, 2), 1, 1),
    ]:
        found += calls("Gather", (7, 8), normal(*data), whole(0, 3, *indices), one(axis), batch_dims=batch)
        found += calls("Gather", (7, 8), whole(0, 9, *data), whole(0, 3, *indices), one(axis), batch_dims=batch)
    for data, indices, axis in [((3, 4), (3, 2), 1), ((3, 4), (6, 4), 0), ((3, 4), (3, 0), -1), ((4,), (2,), 0)]:
        found += calls("GatherElements", 6, normal(*data), whole(-3, 3, *indices), axis=axis)
    for data, indices, batch in [
        ((3, 4, 2), (5, 2), 0),
        ((3, 4, 2), (5, 3), 0),
        ((3, 4, 2), (3, 2, 1), 1),
        ((2, 2, 5, 3), (2, 2, 4, 1), 2),
        ((2, 3, 4), (2, 3, 1), 2),
        ((3,), (2, 0), 0),
    ]:
        found += calls("GatherND", (5, 8), normal(*data), whole(0, 2, *indices), batch_dims=batch)
    for indices, axis, depth in itertools.product([whole(-2, 4, 2, 3), one(1), whole(0, 5, 0)], (0, -1), (4, 0)):
        for opset in (1, 16):
            found += calls("OneHot", opset, indices, one(depth), normal(), normal(), axis=axis)
        found += calls("OneHot", 16, indices, one(depth), one(7), one(-1), axis=axis, negative_indices_mode="normalize")
    for data in (whole(0, 2, 3, 4), one(3.0, np.float32), one(0.0, np.float32), flags(5), np.zeros((2, 0), np.float32)):
        found += calls("NonZero", 3, data) + calls("NonZero", 3, data, output_type="i32")
    return found


def _scatters() -> list[Call]:
    found = []
    for data, indices, updates, axis in [
        ((5, 3), (2,), (2, 3), 0),
        ((5, 3), (2, 2), (5, 2, 2), -1),
        ((4,), (), (), 0),
        ((6,), (2,), (2,), 0),
    ]:
        found += calls("ScatterUpdate", 3, normal(*data), whole(-3, 3, *indices), normal(*updates), one(axis))
        found += calls("ScatterUpdate", 3, whole(0, 9, *data), whole(0, 3, *indices), whole(-9, 9, *updates), one(axis))
    for data, indices, axis in [((4, 3), (2, 3), 0), ((4, 3), (4, 5), 1), ((4,), (2,), -1), ((4,), (0,), 0)]:
        found += calls(
            "ScatterElementsUpdate", (3, 12), normal(*data), whole(-3, 3, *indices), normal(*indices), one(axis)
        )
        for reduction in ("none", "sum", "prod", "min", "max", "mean"):
            rest = [whole(-3, 3, *indices), whole(-9, 9, *indices), one(axis)]
            found += calls("ScatterElementsUpdate", 12, whole(0, 9, *data), *rest, reduction=reduction)
            found += calls(
                "ScatterElementsUpdate", 12, whole(0, 9, *data), *rest, reduction=reduction, use_init_val=False
            )
    for data, indices, updates in [
        ((4, 3), (2, 1), (2, 3)),
        ((4, 3), (2, 2), (2,)),
        ((4,), (3, 2, 1), (3, 2)),
        ((4, 3), (2,), ()),
    ]:
        found += calls("ScatterNDUpdate", (4, 15), normal(*data), whole(-3, 3, *indices), normal(*updates))
        for reduction in ("none", "sum", "sub", "prod", "min", "max"):
            rest = [whole(-3, 3, *indices), whole(-9, 9, *updates)]
            found += calls("ScatterNDUpdate", 15, whole(0, 9, *data), *rest, reduction=reduction)
    return found


def _orders() -> list[Call]:
    found = []
    for data in (normal(3, 4), whole(-9, 9, 3, 4)):
        found += calls("Reverse", 1, data, ints(1), mode="index") + calls("Reverse", 1, data, ints(), mode="index")
        found += calls("Reverse", 1, data, ints(-1, 0), mode="index")
        found += calls("Reverse", 1, data, np.array([True, False]), mode="mask")
        found += calls("Roll", 7, data, ints(2), ints(-1)) + calls("Roll", 7, data, ints(1, -1), ints(0, 1))
        found += calls("Roll", 7, data, one(2), ints(0, 1))
        found += calls("ShuffleChannels", 1, data, group=2)
        found += calls("ShuffleChannels", 1, data, axis=-2, group=3)
        found += calls("ReverseSequence", 1, data, ints(1, 4, 2))
        found += calls("ReverseSequence", 1, data, ints(1, 3, 2, 2), batch_axis=1, seq_axis=0)
    for data in (normal(2, 8, 4, 6), normal(2, 4, 2, 3)):
        for mode in ("blocks_first", "depth_first"):
            found += calls("DepthToSpace", 1, data, block_size=2, mode=mode)
    for mode in ("blocks_first", "depth_first"):
        found += calls("SpaceToDepth", 1, normal(2, 3, 4, 6), block_size=2, mode=mode)
        found += calls("SpaceToDepth", 1, normal(0, 3, 3), block_size=3, mode=mode)
        found += calls("DepthToSpace", 1, normal(1, 6, 3), block_size=3, mode=mode)
    found += calls("SpaceToBatch", 2, normal(2, 3, 5), ints(1, 2, 3), ints(0, 1, 0), ints(0, 0, 1))
    found += calls("SpaceToBatch", 2, normal(1, 4, 4, 3), ints(1, 2, 2, 1), ints(0, 0, 0, 0), ints(0, 0, 0, 0))
    found += calls("BatchToSpace", 2, normal(12, 3, 5), ints(1, 2, 3), ints(0, 1, 0), ints(0, 0, 2))
    found += calls("BatchToSpace", 2, normal(4, 2, 2, 3), ints(1, 2, 2, 1), ints(0, 0, 0, 0), ints(0, 0, 1, 0))
    for mode, opset in itertools.product(("constant", "edge", "reflect", "symmetric"), (1, 12)):
        for data in (normal(3, 4), whole(-9, 9, 3, 4)):
            found += calls("Pad", opset, data, ints(1, 0), ints(2, 1), pad_mode=mode)
        fill = whole(-9, 9) if mode == "constant" else one(0)
        found += calls("Pad", opset, whole(0, 9, 5), ints(1), ints(2), fill, pad_mode=mode)
        if opset == 12:
            found += calls("Pad", 12, normal(3, 4), ints(-1, 2), ints(1, -3), pad_mode=mode)
            found += calls("Pad", 12, whole(-9, 9, 6), ints(-1), ints(1), pad_mode=mode)
    return found


CALLS = [*_shapes(), *_broadcasts(), *_slices(), *_gathers(), *_scatters(), *_orders()]
