"""Idioms as another converter may write them: every axis of a layer counts from the end."""

from __future__ import annotations

import random

import numpy as np
import pytest

import converter
import ir_runtime
from converter.passes.registry import passes
from ir_runtime.graph.model import Model, Node
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations import indexing, movement, normalization, reduction, slicing
from ir_runtime.operations.inputs_outputs import Const1
from tests.converter.idioms import rows
from tests.converter.idioms.graphs import Graph, Idiom
from tests.converter.test_idioms import layers
from tests.engines import ENGINES, run

IDIOMS: dict[str, Idiom] = rows("IDIOMS")
AXES_AS_INPUTS: tuple[tuple[tuple[type, ...], int], ...] = (
    ((reduction.Reduction, movement.Squeeze1, movement.Squeeze15, movement.Unsqueeze1, normalization.MVN6), 1),
    ((slicing.Split1, slicing.VariadicSplit1), 1),
    ((indexing.Gather1, indexing.Gather7), 2),
    ((slicing.Slice8,), 4),
)
"""Operations, and the input that has their axes."""
AXES_AS_ATTRIBUTES = ("Concat", "GatherElements", "LogSoftmax", "SoftMax", "TopK")


def rank_of(node: Node) -> int | None:
    """The number of dimensions that axes of the layer refer to."""
    value = node.outputs[0] if isinstance(node.op, movement.Unsqueeze1) else node.inputs[0]
    return value.shape.rank if value.shape.has_rank else None


def count_from_end(model: Model) -> int:
    """Make the axes of all layers negative, and return how many layers that changes."""
    count = 0
    for node in model.nodes():
        rank = rank_of(node) if node.inputs else None
        if rank is None:
            continue
        axis = node.op.attributes().get("axis")
        if node.op.type in AXES_AS_ATTRIBUTES and isinstance(axis, int) and axis >= 0:
            node.op = type(node.op)(**{**node.op.attributes(), "axis": axis - rank})
            count += 1
        for operations, place in AXES_AS_INPUTS:
            if isinstance(node.op, operations) and len(node.inputs) > place:
                count += negate_input(node, place, rank)
    return count


def negate_input(node: Node, place: int, rank: int) -> bool:
    tensor = node.inputs[place].tensor
    if tensor is None or not (tensor.array() >= 0).any():
        return False
    axes = tensor.array()
    negative = Tensor.from_array(np.where(axes >= 0, axes - rank, axes).astype(axes.dtype), tensor.element_type)
    constant = make_node(Const1(value=negative), (), f"{node.name}/axes")
    node.inputs = [*node.inputs[:place], constant.outputs[0], *node.inputs[place + 1 :]]
    return True


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", IDIOMS)
def test_passes_take_negative_axes(name: str, seed: int) -> None:
    row = IDIOMS[name]
    graph = Graph()
    model = graph.model(row, bool(seed), row.build(graph, random.Random(seed)))
    plain, negative = (converter.convert_model(model, fuse=False, target="any") for _ in range(2))
    values = row.values(np.float32)
    (expected,) = run("numpy", ir_runtime.model_to_bytes(plain), values)
    count_from_end(negative)
    for ir in (plain, negative):
        passes.run(ir)
    assert layers(negative) == layers(plain)
    for engine in ENGINES:
        (actual,) = run(engine, ir_runtime.model_to_bytes(negative), values)
        np.testing.assert_allclose(actual, expected, rtol=row.tolerance, atol=row.tolerance, err_msg=engine)


@pytest.mark.parametrize("name", ["layer normalization", "softmax"])
def test_idioms_have_axes_to_count_from_the_end(name: str) -> None:
    row = IDIOMS[name]
    graph = Graph()
    model = graph.model(row, False, row.build(graph, random.Random(0)))
    assert count_from_end(converter.convert_model(model, fuse=False, target="any"))
