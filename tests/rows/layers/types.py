"""Conversions between element types, selections and quantization; If, Loop and TensorIterator."""

from __future__ import annotations

import itertools
from itertools import product
from typing import Any

import numpy as np

from ir_runtime.graph import InputMap, Model, Node, Output, OutputMap, PartialShape, SubGraph, Tensor, make_node
from ir_runtime.graph.element_types import boolean, f32, i4, i64, u4
from ir_runtime.graph.operation import find_operation
from tests.rows.layer import Layer, flags, ints, layers, normal, one, uniform, whole
from tests.rows.row import each

I64, U64 = np.iinfo(np.int64), np.iinfo(np.uint64)
VALUES = (*(ints(3, -4), ints(-1, 2, dtype=np.int32), normal(2, 3), flags(3), ints(7, 250, dtype=np.uint8), one(-3)),)
WIDE = (ints(2**33, 5), ints(I64.max, I64.min), ints(U64.max, 1, dtype=np.uint64), ints(2**40, 2**31), ints(2**32, 9))
TARGETS = each("i64", "i32", "u32", "u64", "i8", "u8", "f32", "f16", "boolean", "i4")
REALS = [-1.5, 0.3, 2.7, 100.0]
# The least value of int32 takes the place of floats that it cannot hold, as in onnxruntime, and is cut to the type.
BEYOND_INT32 = np.array([3e9, -3e9, 2147483520, 5e9, 1e19, -1e19, np.inf, -np.inf, np.nan, 300, -129, -1.5], np.float32)
# f8e8m0 has an exponent and nothing else: what is nearest, ties to even, and saturated.
POWERS = np.array([
    *(0, -1, 1.1e-38, 8e-39, 1e-39, 1.5, 1.4, 2.9, 3, 3.1, np.inf, -np.inf, np.nan, 3e38, 1.7e38),
    *(2.0 ** np.random.default_rng(0).uniform(-126, 127.9, 200)),
], np.float32)  # fmt: skip
PAIRS = [
    *((normal(2), normal(3, dtype=np.float16)), (ints(1, 2), ints(3, dtype=np.int32)), (flags(2), ints(4))),
    *((normal(2), one(3, np.int8)), (ints(2, dtype=np.uint8), ints(3, dtype=np.int8))),
    (np.array([1.5, -2], np.float32), np.array([[3], [-4]], np.int8)),
    (np.array([200, 255], np.uint8), np.array([-100, 100], np.int8)),
    (np.array([True, False]), np.array([7, 8], np.int32)),
    (np.array([1.5], np.float16), np.array(2.25, np.float32)),
]
# Zero is a level of each channel, so that a scale and a zero point express the limits.
STEP, ZERO = np.array([0.01, 0.02, 0.05]), np.array([3, 100, 128])
LIMITS = [((-ZERO * STEP).astype(np.float32), ((255 - ZERO) * STEP).astype(np.float32)) * 2]
OF_CHANNELS = np.array([1.0, 2.0, 3.0], np.float32).reshape(3, 1, 1)
FLOATS = np.array([0.5, 2.0, 7.0], np.float32).reshape(3, 1), np.array([3.0, -1.0, 0.5], np.float32).reshape(3, 1)


def scalars(*values: float) -> list[np.ndarray]:
    return [np.array(value, np.float32) for value in values]


ROWS = [
    *layers("Convert", 1, each(*VALUES), destination_type=TARGETS),
    *layers("Convert", 1, each(*WIDE), destination_type=TARGETS, note=" wraps"),
    *layers("Convert", 1, each(np.array(REALS, np.float32), np.array(REALS, np.float16), np.array([True, False]),
            *(np.array([0, 1, 200, 255], kind) for kind in ("int32", "uint8", "int64"))),
            destination_type=each("f32", "i32", "u8", "i8", "i64", "u16", "boolean", "f16")),
    *layers("Convert", 1, ints(-9, -8, 7, 8, 15, 16, dtype=np.int32), destination_type="i4",
            expect=np.array([7, -8, 7, -8, -1, 0], i4.dtype)),
    *layers("Convert", 1, ints(-9, -8, 7, 8, 15, 16, dtype=np.int32), destination_type="u4",
            expect=np.array([7, 8, 7, 8, 15, 0], u4.dtype)),
    *layers("Convert", 1, BEYOND_INT32, destination_type=each("i8", "u8", "i16", "u16", "i32")),
    *layers("Convert", 1, POWERS, destination_type="f8e8m0"),
    *layers("ConvertLike", 1, each(*VALUES, *WIDE), each(normal(2), ints(1, dtype=np.int32))),
    *(row for a, b in PAIRS for row in layers("ConvertPromoteTypes", 14, a, b, promote_unsafe=True)),
    *(row for a, b in PAIRS
      for row in layers("ConvertPromoteTypes", 14, a, b, promote_unsafe=True, pytorch_scalar_promotion=True)),
    *layers("ConvertPromoteTypes", 14, ints(2, dtype=np.uint64), ints(3), promote_unsafe=True),
    *(row for condition, a, b in [((2, 3), (2, 3), (2, 3)), ((3,), (2, 1), ()), ((), (2,), (2,)), ((2, 1), (4,), (1,))]
      for x, y in ((whole(-9, 9, *a), whole(0, 9, *b)), (normal(*a), normal(*b)))
      for row in layers("Select", 1, flags(*condition), x, y)),
    *layers("Select", 1, flags(2, 3), ints(3, 5).reshape(2, 1), ints(3), auto_broadcast="numpy"),
    *layers("Select", 1, flags(3), ints(3, 5, 6), ints(3, 9, 6), auto_broadcast="none"),
    *layers("Select", 1, flags(2), whole(0, 9, 2, 3), whole(0, 9, 2), auto_broadcast="pdpd"),
    *layers("FakeQuantize", 1, normal(2, 3, 4), *[uniform(-2, -1), uniform(1, 2)] * 2, levels=256),
    *layers("FakeQuantize", 1, normal(2, 3, 4), uniform(-2, -1, 3, 1), uniform(1, 2, 3, 1), uniform(-2, -1),
            uniform(1, 2, 1), levels=255),
    *layers("FakeQuantize", 1, normal(2, 3), *[normal(2, 3)] * 4, levels=16, auto_broadcast="none"),
    *layers("FakeQuantize", 1, normal(2, 3), *[normal(2)] * 4, levels=16, auto_broadcast="pdpd"),
    *(row for shape, (low, high, *_) in product(((3, 1, 1), (3, 1), (3,)), LIMITS) for row in layers(
        "FakeQuantize", 1, normal(3, 3, 3), *[low.reshape(shape), high.reshape(shape)] * 2, fixed=(1, 2, 3, 4),
            levels=256)),
    *(row for limits in (scalars(-1, 1, -1, 1), scalars(0, 2.55, 0, 255), scalars(-1, 1, 1, -1),
                         [-OF_CHANNELS, OF_CHANNELS, *scalars(-1, 1)])
      for row in layers("FakeQuantize", 1, normal(2, 3, 4, 5), *limits, fixed=(1, 2, 3, 4), levels=each(2, 16, 255,
          256))),
    *layers("FakeConvert", 13, normal(2, 3), uniform(0.5, 2, 3), destination_type=each("f8e4m3", "f8e5m2")),
    *layers("FakeConvert", 13, normal(2, 3), uniform(0.5, 2), normal(2, 1), destination_type=each("f8e4m3", "f8e5m2")),
    *layers("FakeConvert", 13, uniform(-500, 500, 2, 3, 4), FLOATS[0], fixed=(1,),
            destination_type=each("f8e4m3", "f8e5m2")),
    *layers("FakeConvert", 13, uniform(-500, 500, 2, 3, 4), *FLOATS, fixed=(1, 2),
            destination_type=each("f8e4m3", "f8e5m2")),
]  # fmt: skip


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


def _branches() -> list[Layer]:
    """One branch gives the first of two inputs negated, the other both of them joined."""
    found = []
    for static in (False, True):
        shape = PartialShape([2, 3]) if static else PartialShape([None, 3])
        a, b, c = (_parameter(f32, shape) for _ in range(3))
        then = SubGraph(_body([a], _node("Negative", 1, a.outputs[0])), (InputMap(1, 0),), (OutputMap(0, 0),))
        joined = _body([b, c], _node("Concat", 1, b.outputs[0], c.outputs[0], axis=0))
        otherwise = SubGraph(joined, (InputMap(1, 0), InputMap(2, 1)), (OutputMap(0, 0),))
        for condition in (one(True, np.bool_), np.array([False])):
            inputs = [condition, normal(2, 3), normal(2, 3)]
            found += layers("If", 8, *inputs, bodies=(then, otherwise), note=f" static={static}")
    return found


def _loops() -> list[Layer]:
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
            found += layers("Loop", 5, *inputs, bodies=(sub,), note=note)
        cell = SubGraph(
            _body([state, part], now, part.outputs[0]),
            (InputMap(0, 0), InputMap(1, 1, axis=0, **cut)),
            (OutputMap(0, 0), OutputMap(1, 1, axis=0, **cut)),
            ((0, 0),),
        )
        if not ends:
            found += layers("TensorIterator", 1, normal(1, 2), normal(4, 2), bodies=(cell,), note=note)
    zeros = _body([_parameter(boolean, PartialShape([2]))], _constant(np.zeros(2)))
    fixed = SubGraph(zeros, (InputMap(0, 0),), (OutputMap(0, 0),))
    part = _parameter(f32, PartialShape([1, 2]))
    twice = _body([part], _node("Add", 1, part.outputs[0], part.outputs[0]))
    stateless = SubGraph(twice, (InputMap(0, 0, axis=0),), (OutputMap(0, 0, axis=0),))
    found += layers("TensorIterator", 1, normal(4, 2), bodies=(stateless,), note=" without states")
    return [*found, *layers("TensorIterator", 1, flags(2), bodies=(fixed,))]


OF_BODIES = [*_branches(), *_loops()]
ROWS += OF_BODIES
