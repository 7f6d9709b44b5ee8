"""What makes, sorts, sums up and decodes values; signals, texts and variables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from ir_runtime import PartialShape, Tensor
from tests.rows.layer import Layer, flags, ints, layers, normal, one, uniform, whole
from tests.rows.row import Tolerance, each

OPENED = {"variable_id": "v", "variable_type": "f32", "variable_shape": PartialShape([2, None])}
ORDERED = np.sort(np.random.default_rng(5).standard_normal((2, 6)).astype(np.float32))
TABLE, INDICES, WEIGHTS = normal(5, 3), ints(0, 2, 4, 1), uniform(0, 1, 4)
SEGMENTS = (ints(0, 0, 2, 3), one(5))
CELLS = ints(3, 1, 0, 3, 3, 0, 0, 1).reshape(4, 2)
LETTERS = np.frombuffer("aç€ z".encode(), np.uint8)
STEPS = np.random.default_rng(14).standard_normal((9, 3, 4)).astype(np.float32)
MASK = np.array([[1] * 9, [1] * 5 + [0] * 4, [1, 1, 0.5, 0, 1, 1, 1, 1, 1]], np.float32).T.copy()
LOGITS = np.random.default_rng(15).standard_normal((4, 6, 4)).astype(np.float32)
LABELS = ints(0, 1, 2, 0, 9, 9, 1, 1, 0, 9, 9, 9, 2, 2, 2, 1, 9, 9, 0, 0, 9, 9, 9, 9, dtype=np.int32).reshape(4, 6)
LOST = [LOGITS, ints(6, 4, 6, 5, dtype=np.int32), LABELS, ints(4, 3, 4, 2, dtype=np.int32)]
EITHER = each(False, True)


def ranges(start: float, stop: float, step: float) -> list[Layer]:
    numbers = [one(start), one(stop), one(step)]
    reals = [one(value + 0.25, np.float32) for value in (start, stop, step)]
    return [
        *layers("Range", 1, *numbers),
        *layers("Range", 1, *reals),
        *layers("Range", 4, *numbers, output_type=each("i64", "f32")),
        *layers("Range", 4, *reals, output_type=each("f32", "i64")),
        *layers("Range", 4, *[value.astype(np.int32) for value in numbers], output_type="i64"),
    ]


def loss_of_every_path(
    logits: np.ndarray, steps: Any, labels: Any, count: Any, blank: Any = None, *, merge: bool
) -> Any:
    """The probabilities of all paths that spell the labels."""
    chances = np.exp(logits[0, : steps[0]].astype(np.float64))
    chances /= chances.sum(-1, keepdims=True)
    empty, wanted = logits.shape[-1] - 1 if blank is None else int(blank), labels[0, : count[0]].tolist()
    total = 0.0
    for path in itertools.product(range(logits.shape[-1]), repeat=int(steps[0])):
        kept = [c for c, before in zip(path, [None, *path]) if not (merge and c == before)]
        if [c for c in kept if c != empty] == wanted:
            total += math.prod(chances[range(len(path)), path])
    return np.array([-math.log(total) if total else math.inf], np.float32)


def losses(labels: Sequence[int], steps: int, blank: int, merge: bool) -> list[Layer]:
    filled = np.array([[*labels, *[0] * (6 - len(labels))]], np.int32)
    numbers = [np.array([n], np.int32) for n in (steps, len(labels))]
    return list(layers(
        "CTCLoss", 4, LOGITS[:1], numbers[0], filled, numbers[1], np.int32(blank), ctc_merge_repeated=merge,
        expect=lambda *args: loss_of_every_path(*args, merge=merge)))  # fmt: skip


ROWS = [
    *layers("Const", 1, value=Tensor.from_array(np.arange(6).reshape(2, 3))),
    *layers("ShapeOf", 1, each(normal(2, 3, 4), one(3), normal(0, 5), flags(7))),
    *layers("ShapeOf", 3, each(normal(2, 3, 4), one(3), normal(0, 5), flags(7)), output_type=each("i64", "i32")),
    *(row for numbers in ((0, 9, 2), (5, -4, -3), (3, 3, 1), (4, 0, 1), (-2, 7, 4)) for row in ranges(*numbers)),
    *(row for numbers in ((3, 4, 0), (2, 2, -1), (0, 3, 1), (5, 4, -1)) for row in [
        *layers("Eye", 9, *[one(number) for number in numbers], output_type=each("f32", "i32")),
        *layers("Eye", 9, *[one(number) for number in numbers], ints(2, 1), output_type="i64"),
    ]),
    *layers("CumSum", 3, normal(3, 4), one(each(0, -1)), exclusive=EITHER, reverse=EITHER),
    *layers("CumSum", 3, normal(2, 3, 4), one(-2), exclusive=EITHER, reverse=EITHER),
    *layers("RandomUniform", 8, ints(2, 3), one(0, np.float32), one(1, np.float32), fixed=(1, 2), output_type="f32",
            op_seed=3, dims={0: (2,)}),
    *layers("RandomUniform", 8, ints(), ints(0), ints(9), output_type="i64", global_seed=1),
    *(row for name, kind in (("f32", np.float32), ("f16", np.float16), ("i32", np.int32)) for row in layers(
        "RandomUniform", 8, ints(3, 7), one(0, kind), one(90, kind), fixed=(1, 2), output_type=name, global_seed=150,
            op_seed=10, dims={0: (2,)})),
    *layers("Multinomial", 13, uniform(0.1, 1, 2, 5), one(3), convert_type="i32", op_seed=1),
    *layers("Multinomial", 13, uniform(0.1, 1, 2, 5), ints(7), convert_type="i64", with_replacement=True,
            log_probs=True, op_seed=2),
    # Sorted.
    *layers("TopK", each(1, 3, 11), normal(3, 4), one(1), axis=each(0, -1), sort=each("value", "index", "none"),
            mode="min"),
    *layers("TopK", each(1, 3, 11), normal(3, 4), one(3), axis=each(0, -1), sort=each("value", "index"),
            mode=each("max", "min")),
    *layers("TopK", each(1, 3, 11), normal(3, 4), one(3), axis=each(0, -1), sort="none", mode="max"),
    *layers("TopK", 11, whole(0, 9, 5), one(0), index_element_type="i64", stable=True),
    *layers("Unique", 10, each(whole(0, 3, 3, 4), normal(5), normal(0)), sorted=EITHER),
    *layers("Unique", 10, whole(0, 2, 4, 2), each(one(0), ints(-1))),
    *layers("Unique", 10, np.array([2**24 + 1, 2**24, 2**24 + 1, 2**24 - 1]), sorted=True, note=" wraps",
            expect=[np.array([2**24 - 1, 2**24, 2**24 + 1]), ints(3, 1, 0), ints(2, 1, 2, 0), ints(1, 1, 2)]),
    *layers("Unique", 10, np.array([[0, 2**24 + 1], [0, 2**24], [0, 2**24 + 1], [0, 2**24 - 1]]), one(0), sorted=True,
            note=" wraps", expect=[np.array([[0, 2**24 - 1], [0, 2**24], [0, 2**24 + 1]]), ints(3, 1, 0),
            ints(2, 1, 2, 0), ints(1, 1, 2)]),
    *layers("SearchSorted", 15, ORDERED, normal(2, 3), right_mode=EITHER),
    *layers("SearchSorted", 15, ORDERED[0], normal(2, 3), right_mode=EITHER, output_type="i32"),
    *layers("SearchSorted", 15, np.array([[1, 3, 3, 5], [0, 2, 4, 6]], np.float32),
            np.array([[3, 0, 9], [4, 5, -1]], np.float32), right_mode=EITHER),
    *layers("Bucketize", 3, normal(2, 3), ORDERED[0], with_right_bound=EITHER, output_type=each("i32", "i64")),
    # Summed up.
    *(row for inputs in ([], [one(1), WEIGHTS]) for row in [
        *layers("EmbeddingBagOffsetsSum", 3, TABLE, INDICES, ints(0, 2, 2), *inputs),
        *layers("EmbeddingBagOffsets", 15, TABLE, INDICES, ints(0, 2, 2), *inputs, reduction="sum"),
    ]),
    *layers("EmbeddingBagOffsets", 15, TABLE, INDICES, ints(0, 2, 2), reduction="mean"),
    *layers("EmbeddingBagOffsets", 15, TABLE, INDICES, ints(0, 2, 2), one(1), reduction="mean"),
    *layers("EmbeddingBagPackedSum", 3, TABLE, whole(0, 5, 2, 3)),
    *layers("EmbeddingBagPackedSum", 3, TABLE, whole(0, 5, 2, 3), normal(2, 3)),
    *layers("EmbeddingBagPacked", 15, TABLE, whole(0, 5, 2, 3), reduction=each("sum", "mean")),
    *layers("EmbeddingBagPacked", 15, TABLE, whole(0, 5, 2, 3), normal(2, 3)),
    *layers("EmbeddingSegmentsSum", 3, TABLE, INDICES, *SEGMENTS),
    *layers("EmbeddingSegmentsSum", 3, TABLE, INDICES, *SEGMENTS, one(each(-1, 1)), WEIGHTS),
    *layers("SegmentMax", 16, normal(4, 3), ints(0, 0, 2, 3), fill_mode=each("zero", "lowest")),
    *layers("SegmentMax", 16, normal(4, 3), ints(0, 0, 2, 3), one(each(3, 5)), fill_mode=each("zero", "lowest")),
    *layers("GatherTree", 1, whole(0, 9, 4, 2, 3), whole(0, 3, 4, 2, 3), ints(4, 2), one(8)),
    *layers("GatherTree", 1, *(np.array(rows, np.float32).reshape(4, 1, 3) for rows in ([1, 2, 3, 4, 5, 6, 7, 8, 9, 3,
            2, 1], [0, 0, 0, 0, 1, 1, 2, 1, 2, 0, 1, 1])), each(np.array([4], np.float32), np.array([3], np.float32)),
            one(10, np.float32), fixed=(2, 3)),
    *layers("SparseFillEmptyRows", 16, normal(2), ints(4, 3), ints(0, 1, 2, 0).reshape(2, 2), normal()),
    *layers("SparseFillEmptyRows", 16, normal(0), ints(2, 3), ints().reshape(0, 2), one(7, np.float32),
            expect=[ints(0, 0, 1, 0).reshape(2, 2), np.full(2, 7, np.float32), np.array([True, True])]),
    *(row for kind, places, dimensions in product(
        (np.float32, np.int32, np.float16), (np.int32, np.int64), ((5, 6), (4, 4)))
      for row in layers("SparseFillEmptyRows", 16, np.arange(1, 5).astype(kind), ints(*dimensions, dtype=places),
                        CELLS.astype(places), one(9, kind))),
    # Decoded.
    *layers("CTCGreedyDecoder", 1, STEPS, MASK, ctc_merge_repeated=EITHER),
    *(row for blank in ([], [np.int32(0)], [np.int32(2)])
      for types in ({}, {"classes_index_type": "i64"}, {"sequence_length_type": "i64"})
      for row in layers("CTCGreedyDecoderSeqLen", 6, STEPS.swapaxes(0, 1).copy(), ints(9, 4, 0, dtype=np.int32), *blank,
                        merge_repeated=EITHER, **types)),
    *(row for blank in ([], [one(0)]) for row in layers(
        "CTCLoss", 4, normal(2, 4, 5), ints(4, 4), whole(1, 4, 2, 4), ints(2, 3), *blank, unique=EITHER)),
    *layers("CTCLoss", 4, *LOST, preprocess_collapse_repeated=EITHER, ctc_merge_repeated=EITHER, unique=EITHER),
    *(row for (labels, steps), blank, merge in product(
        (([1, 2], 5), ([1, 1], 5), ([1, 1], 2), ([2], 1), ([], 3), ([], 0), ([2, 1, 2], 6)), (0, 3), (False, True))
      for row in losses(labels, steps, blank, merge)),
    *(row for label, loss in ((0, 0), (1, 300)) for row in layers(
        "CTCLoss", 4, np.array([[[300.0, 0.0, 100.0]]], np.float32), ints(1), ints(label).reshape(1, 1), ints(1),
        expect=np.array([loss], np.float32))),
    # Texts.
    *(row for kind, (begins, ends) in product((np.int32, np.int64), (
        ((0, 3), (3, 8)), ((0, 1, 1, 3), (1, 1, 3, 6)), ((0, 1), (3, 6)), (((0,), (6,)), ((1,), (7,))), (1, 3)))
      for row in layers("StringTensorPack", 15, np.array(begins, kind), np.array(ends, kind), LETTERS)),
    *layers("StringTensorUnpack", 15, each(*(np.array(texts, np.object_) for texts in (
        [["one", ""], ["three", "x"]], ["ab", "", "ç€"], [["x"], ["yz"]], [["", ""]])))),
    *layers("StringTensorUnpack", 15, np.empty((0, 2), np.object_)),
    # Signals.
    *(row for axes in (ints(0, 1), ints(-1), ints(1), ints(0, 2), ints(0, 1, 2)) for row in [
        *layers(each("DFT", "IDFT"), 7, normal(2, 5, 4, 2), axes),
        *layers("RDFT", 9, normal(2, 5, 4), axes),
        *layers("IRDFT", 9, normal(2, 5, 4, 2), axes),
    ]),
    *(row for axes, lengths in (((-1,), (3,)), ((-1,), (7,)), ((0, 1), (3, -1)), ((0, 1), (7, 2)), ((2, 0), (6, 3)),
                                ((0, 1, 2), (-1, 8, 2)))
      for row in layers(each("DFT", "IDFT"), 7, normal(2, 5, 4, 2), ints(*axes), ints(*lengths))),
    *(row for axes, lengths in (((-1,), (3,)), ((2, 1), (3, 4)), ((0, 1), (3, -1)), ((0, 1), (7, 4)), ((-1,), (-1,)))
      for row in layers("RDFT", 9, normal(2, 5, 4), ints(*axes), ints(*lengths))),
    *(row for axes, lengths in (((-1,), (3,)), ((-1,), (4,)), ((1,), (9,)), ((2, 1), (4, 7)), ((0, 1), (3, -1)),
                                ((0, 1), (7, 4)), ((-1,), (-1,)))
      for row in layers("IRDFT", 9, normal(2, 5, 4, 2), ints(*axes), ints(*lengths))),
    *(row for (size, step), shape in product(((8, 3), (11, 4), (16, 50)), ((2, 50), (50,))) for row in layers(
        "STFT", 15, normal(*shape), uniform(0, 1, 8), one(size), one(step), transpose_frames=EITHER)),
    *(row for size in (8, 7) for length in ([], [one(11)], [ints(-1)]) for row in layers(
        "ISTFT", 16, normal(2, size // 2 + 1, 5, 2), normal(6), one(size), one(3), *length, center=EITHER,
            normalized=EITHER)),
    *(row for shape, size, step, width in (
        ((5, 7, 2), 8, 3, 8), ((2, 5, 7, 2), 8, 3, 6), ((2, 6, 4, 2), 11, 4, 11), ((3, 4, 5, 2), 6, 7, 6))
      for length in ([], [one(10)], [one(60)]) for row in layers(
          "ISTFT", 16, normal(*shape), uniform(0.1, 1, width), one(size), one(step), *length, center=EITHER,
              normalized=EITHER, tolerance=Tolerance(1e-4, 1e-5))),
    # Variables.
    *layers("Identity", 16, each(whole(0, 9, 3), normal(2, 3))),
    *layers("Result", 1, normal(2, 3)),
    *layers("ReadValue", 3, normal(2, 3), variable_id="v"),
    *layers("Assign", each(3, 6), normal(2, 3), variable_id="v"),
    *layers("ReadValue", 6, normal(2, 3), **OPENED),
    *layers("ReadValue", 6, **OPENED),
]  # fmt: skip
