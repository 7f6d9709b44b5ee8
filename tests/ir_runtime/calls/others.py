"""Calls of what makes, sorts, sums up and decodes values, of variables and of operations with bodies."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ir_runtime.graph.element_types import boolean, f32, i64
from ir_runtime.graph.model import (
    InputMap,
    Model,
    Node,
    Output,
    OutputMap,
    SubGraph,
)
from ir_runtime.graph.operation import find_operation
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.graph.tensor import Tensor
from tests.ir_runtime.calls.base import Call, calls, flags, ints, normal, one, uniform, whole


def _made() -> list[Call]:
    found = calls("Const", 1, value=Tensor.from_array(np.arange(6).reshape(2, 3)))
    for data in (normal(2, 3, 4), one(3), normal(0, 5), flags(7)):
        found += calls("ShapeOf", (1, 3), data) + calls("ShapeOf", 3, data, output_type="i32")
    for start, stop, step in [(0, 9, 2), (5, -4, -3), (3, 3, 1), (4, 0, 1), (-2, 7, 4)]:
        whole_numbers = [one(start), one(stop), one(step)]
        reals = [one(value + 0.25, np.float32) for value in (start, stop, step)]
        found += calls("Range", 1, *whole_numbers) + calls("Range", 1, *reals)
        found += calls("Range", 4, *whole_numbers, output_type="i64") + calls("Range", 4, *reals, output_type="f32")
        found += calls("Range", 4, *whole_numbers, output_type="f32") + calls("Range", 4, *reals, output_type="i64")
        found += calls("Range", 4, *[value.astype(np.int32) for value in whole_numbers], output_type="i64")
    for rows, columns, diagonal in [(3, 4, 0), (2, 2, -1), (0, 3, 1)]:
        sizes = [one(rows), one(columns), one(diagonal)]
        found += calls("Eye", 9, *sizes, output_type="f32")
        found += calls("Eye", 9, *sizes, ints(2, 1), output_type="i64")
    for axis, exclusive, reverse in itertools.product((0, -1), (False, True), (False, True)):
        found += calls("CumSum", 3, normal(3, 4), one(axis), exclusive=exclusive, reverse=reverse)
    kinds: dict[str, Any] = {"output_type": "f32", "op_seed": 3}
    found += calls("RandomUniform", 8, ints(2, 3), one(0, np.float32), one(1, np.float32), **kinds)
    found += calls("RandomUniform", 8, ints(), ints(0), ints(9), output_type="i64", global_seed=1)
    weights = uniform(0.1, 1, 2, 5)
    found += calls("Multinomial", 13, weights, one(3), convert_type="i32", op_seed=1)
    found += calls("Multinomial", 13, weights, ints(7), convert_type="i64", with_replacement=True, log_probs=True)
    return found


def _sorted() -> list[Call]:
    found = []
    for opset, axis, sort, k in itertools.product((1, 3, 11), (0, -1), ("value", "index", "none"), (1, 3)):
        found += calls("TopK", opset, normal(3, 4), one(k), axis=axis, sort=sort, mode="min" if k == 1 else "max")
    found += calls("TopK", 11, whole(0, 9, 5), one(0), index_element_type="i64", stable=True)
    for data, ordered in itertools.product((whole(0, 3, 3, 4), normal(5), normal(0)), (True, False)):
        found += calls("Unique", 10, data, sorted=ordered)
    found += calls("Unique", 10, whole(0, 2, 4, 2), one(0)) + calls("Unique", 10, whole(0, 2, 4, 2), ints(-1))
    rows = np.sort(np.random.default_rng(5).standard_normal((2, 6)).astype(np.float32))
    for right in (True, False):
        found += calls("SearchSorted", 15, rows, normal(2, 3), right_mode=right)
        found += calls("SearchSorted", 15, rows[0], normal(2, 3), right_mode=right, output_type="i32")
        found += calls("Bucketize", 3, normal(2, 3), rows[0], with_right_bound=right, output_type="i32")
    return found


def _summed() -> list[Call]:
    found = []
    table, indices, weights = normal(5, 3), ints(0, 2, 4, 1), uniform(0, 1, 4)
    for name, opset, more in [("EmbeddingBagOffsetsSum", 3, {}), ("EmbeddingBagOffsets", 15, {"reduction": "mean"})]:
        attributes: dict[str, Any] = more
        found += calls(name, opset, table, indices, ints(0, 2, 2), **attributes)
        found += calls(name, opset, table, indices, ints(0, 2, 2), one(1), weights)
    for name, opset in (("EmbeddingBagPackedSum", 3), ("EmbeddingBagPacked", 15)):
        found += calls(name, opset, table, whole(0, 5, 2, 3)) + calls(
            name, opset, table, whole(0, 5, 2, 3), normal(2, 3)
        )
    segments = [ints(0, 0, 2, 3), one(5)]
    found += calls("EmbeddingSegmentsSum", 3, table, indices, *segments)
    found += calls("EmbeddingSegmentsSum", 3, table, indices, *segments, one(-1), weights)
    for mode in ("zero", "lowest"):
        found += calls("SegmentMax", 16, normal(4, 3), ints(0, 0, 2, 3), fill_mode=mode)
        found += calls("SegmentMax", 16, normal(4, 3), ints(0, 0, 2, 3), one(3), fill_mode=mode)
    found += calls("GatherTree", 1, whole(0, 9, 4, 2, 3), whole(0, 3, 4, 2, 3), ints(4, 2), one(8))
    places = ints(0, 1, 2, 0).reshape(2, 2)
    found += calls("SparseFillEmptyRows", 16, normal(2), ints(4, 3), places, normal())
    found += calls("SparseFillEmptyRows", 16, normal(0), ints(2, 3), ints().reshape(0, 2), normal())
    return found


def _decoded() -> list[Call]:
    found = []
    mask = np.ones((4, 2), np.float32)
    for merge in (True, False):
        found += calls("CTCGreedyDecoder", 1, normal(4, 2, 5), mask, ctc_merge_repeated=merge)
        found += calls("CTCGreedyDecoderSeqLen", 6, normal(2, 4, 5), ints(4, 3), merge_repeated=merge)
    found += calls("CTCGreedyDecoderSeqLen", 6, normal(2, 4, 5), ints(4, 3), ints(0), classes_index_type="i64")
    for given in ({}, {"unique": True}, {"preprocess_collapse_repeated": True, "ctc_merge_repeated": True}):
        attributes: dict[str, Any] = given
        labels = [ints(4, 4), whole(0, 4, 2, 4), ints(2, 3)]
        found += calls("CTCLoss", 4, normal(2, 4, 5), *labels, **attributes)
    found += calls("CTCLoss", 4, normal(2, 4, 5), ints(4, 4), whole(1, 5, 2, 4), ints(2, 3), one(0))
    symbols = np.frombuffer(b"abcdefg", np.uint8)
    found += calls("StringTensorPack", 15, ints(0, 2, 2), ints(2, 2, 7), symbols)
    found += calls("StringTensorPack", 15, ints(0, 2).reshape(2, 1), ints(2, 3).reshape(2, 1), symbols)
    found += calls("StringTensorUnpack", 15, np.array([["one", ""], ["three", "x"]], np.object_))
    return found


def _signals() -> list[Call]:
    found = []
    for name, axes, lengths in itertools.product(("DFT", "IDFT"), (ints(0, 1), ints(-1)), (None, (3, -1), (7, 2))):
        sizes = [] if lengths is None else [ints(*lengths[: axes.size])]
        found += calls(name, 7, normal(4, 5, 2), axes, *sizes)
    for axes, lengths in itertools.product((ints(0, 1), ints(-1)), (None, (3, -1), (7, 4), (-1, 5))):
        sizes = [] if lengths is None else [ints(*lengths[-axes.size :])]
        found += calls("RDFT", 9, normal(4, 6), axes, *sizes) + calls("IRDFT", 9, normal(4, 6, 2), axes, *sizes)
    numbers = [one(8), one(3)]
    for transposed in (True, False):
        found += calls("STFT", 15, normal(2, 20), normal(8), *numbers, transpose_frames=transposed)
        found += calls("STFT", 15, normal(20), normal(5), *numbers, transpose_frames=transposed)
    for center, normalized, size in itertools.product((True, False), (True, False), (8, 7)):
        given: dict[str, Any] = {"center": center, "normalized": normalized}
        frames = [normal(2, size // 2 + 1, 5, 2), normal(6), one(size), one(3)]
        found += calls("ISTFT", 16, *frames, **given) + calls("ISTFT", 16, *frames, one(11), **given)
        found += calls("ISTFT", 16, *frames, ints(-1), **given)
    found += calls("ISTFT", 16, normal(5, 4, 2), normal(8), *numbers)
    return found


def _variables() -> list[Call]:
    found = (
        calls("Identity", 16, whole(0, 9, 3)) + calls("Identity", 16, normal(2, 3)) + calls("Result", 1, normal(2, 3))
    )
    found += calls("ReadValue", 3, normal(2, 3), variable_id="v") + calls(
        "Assign", (3, 6), normal(2, 3), variable_id="v"
    )
    declared: dict[str, Any] = {"variable_id": "v", "variable_type": "f32", "variable_shape": PartialShape([2, None])}
    found += calls("ReadValue", 6, normal(2, 3), **declared) + calls("ReadValue", 6, **declared)
    return found


# --- bodies ---


def _parameter(kind: Any, shape: PartialShape) -> Node:
    return make_node(find_operation("Parameter", 1)(element_type=kind, shape=shape), [])


def _node(name: str, opset: int, *inputs: Output, **attributes: Any) -> Output:
    return make_node(find_operation(name, opset)(**attributes), list(inputs)).outputs[0]


def _constant(value: Any) -> Output:
    return _node("Const", 1, value=Tensor.from_array(np.asarray(value)))


def _body(parameters: list[Node], *outputs: Output) -> Model:
    results = [make_node(find_operation("Result", 1)(), [output]) for output in outputs]
    return Model(parameters=parameters, results=results)


def _branches() -> list[Call]:
    """One branch gives the first of two inputs negated, the other both of them joined."""
    found = []
    for static in (False, True):
        shape = PartialShape([2, 3]) if static else PartialShape([None, 3])
        a, b, c = (_parameter(f32, shape) for _ in range(3))
        then = SubGraph(_body([a], _node("Negative", 1, a.outputs[0])), (InputMap(1, 0),), (OutputMap(0, 0),))
        joined = _body([b, c], _node("Concat", 1, b.outputs[0], c.outputs[0], axis=0))
        otherwise = SubGraph(joined, (InputMap(1, 0), InputMap(2, 1)), (OutputMap(0, 0),))
        for condition in (one(True, np.bool_), np.array([False])):
            found += calls(
                "If", 8, condition, normal(2, 3), normal(2, 3), bodies=(then, otherwise), note=f" static={static}"
            )
    return found


def _loops() -> list[Call]:
    """A state that doubles or grows, and its values joined; a condition that ends it, or not."""
    found = []
    for grows, ends, backwards in itertools.product((False, True), (False, True), (False, True)):
        note = f" grows={grows} ends={ends} backwards={backwards}"
        counter = _parameter(i64, PartialShape(()))
        state = _parameter(f32, PartialShape([None, 2]))
        part = _parameter(f32, PartialShape([1, 2]))
        now = _node("Add", 1, state.outputs[0], part.outputs[0])
        now = _node("Concat", 1, now, part.outputs[0], axis=0) if grows else now
        going = _constant(np.array(True))
        if ends:
            going = _node("Less", 1, counter.outputs[0], _constant(np.array(1)))
        body = _body([counter, state, part], now, part.outputs[0], going)
        cut = {"start": -1, "end": 0, "stride": -1} if backwards else {}
        outputs = (OutputMap(None, 2), OutputMap(0, 0), OutputMap(1, 1, axis=0, **cut))
        maps = (InputMap(None, 0), InputMap(2, 1), InputMap(3, 2, axis=0, **cut))
        sub = SubGraph(body, maps, outputs, ((0, 1),))
        for trips, start in itertools.product((3, -1, 0), (True, False)):
            inputs = [one(trips), one(start, np.bool_), normal(1, 2), normal(4, 2)]
            found += calls("Loop", 5, *inputs, bodies=(sub,), note=note)
        cell = SubGraph(
            _body([state, part], now, part.outputs[0]),
            (InputMap(0, 0), InputMap(1, 1, axis=0, **cut)),
            (OutputMap(0, 0), OutputMap(1, 1, axis=0, **cut)),
            ((0, 0),),
        )
        if not ends:
            found += calls("TensorIterator", 1, normal(1, 2), normal(4, 2), bodies=(cell,), note=note)
    fixed = SubGraph(
        _body([_parameter(boolean, PartialShape([2]))], _constant(np.zeros(2))), (InputMap(0, 0),), (OutputMap(0, 0),)
    )
    part = _parameter(f32, PartialShape([1, 2]))
    twice = _body([part], _node("Add", 1, part.outputs[0], part.outputs[0]))
    stateless = SubGraph(twice, (InputMap(0, 0, axis=0),), (OutputMap(0, 0, axis=0),))
    found += calls("TensorIterator", 1, normal(4, 2), bodies=(stateless,), note=" without states")
    return found + calls("TensorIterator", 1, flags(2), bodies=(fixed,))


CALLS = [
    *(*_made(), *_sorted(), *_summed(), *_decoded(), *_signals()),
    *(*_variables(), *_branches(), *_loops()),
]
