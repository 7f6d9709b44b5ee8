"""Layers with bodies: If, Loop and TensorIterator."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ir_runtime.graph import InputMap, Model, Node, Output, OutputMap, PartialShape, SubGraph, Tensor, make_node
from ir_runtime.graph.element_types import boolean, f32, i64
from ir_runtime.graph.operation import find_operation
from tests.rows.layer import Layer, flags, layers, normal, one


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


ROWS = [*_branches(), *_loops()]
