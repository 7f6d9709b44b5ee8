"""Layers that an exporter spelled out become the one layer of the IR: random instances of each, and near misses."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import converter
import ir_runtime
from tests.engines import ENGINES, run, run_onnxruntime

Names = tuple[str, ...]


class Graph:
    """Nodes of an ONNX graph as one writes formulas."""

    def __init__(self, dtype: Any = np.float32) -> None:
        self.dtype = np.dtype(dtype)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def __call__(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], f"node {name}", **attributes))
        return name

    def constant(self, value: Any, dtype: Any = None) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype or self.dtype), name))
        return name

    def either_way(self, op_type: str, a: str, b: str, chance: random.Random) -> str:
        return self(op_type, *chance.sample([a, b], 2))

    def model(self, shape: list[Any], *outputs: str) -> onnx.ModelProto:
        kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        x = helper.make_tensor_value_info("x", kind, shape)
        returned = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "g", [x], returned, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=9)


Build = Callable[[Graph, random.Random], str]


def layer_normalization(graph: Graph, chance: random.Random, **other: Any) -> str:
    """As torch, tf2onnx and Keras write it; ``other`` spoils one part."""
    axes = other.get("axes", [-1])
    mean = graph("ReduceMean", "x", axes=axes, keepdims=other.get("keepdims", 1))
    centred = graph("Sub", "x", mean)
    again = graph("Sub", "x", mean) if chance.random() < 0.5 else centred
    square = graph("Mul", again, again) if chance.random() < 0.5 else graph("Pow", again, graph.constant(2))
    variance = graph("ReduceMean", square, axes=other.get("second_axes", axes), keepdims=1)
    total = graph.either_way("Add", variance, graph.constant(other.get("epsilon", 1e-5)), chance)
    root = graph("Sqrt", total) if chance.random() < 0.5 else graph("Pow", total, graph.constant(0.5))
    if chance.random() < 0.7:
        return graph("Div", centred, root)
    return graph.either_way("Mul", centred, graph("Div", graph.constant(1), root), chance)


def scaled(graph: Graph, value: str, factor: float, chance: random.Random) -> str:
    if chance.random() < 0.5:
        return graph("Div", value, graph.constant(1 / factor))
    return graph.either_way("Mul", value, graph.constant(factor), chance)


def half_product(graph: Graph, total: str, chance: random.Random, half: float = 0.5) -> str:
    way = chance.randrange(3)
    if way == 0:
        return graph.either_way("Mul", scaled(graph, "x", half, chance), total, chance)
    if way == 1:
        return scaled(graph, graph.either_way("Mul", "x", total, chance), half, chance)
    return graph.either_way("Mul", "x", scaled(graph, total, half, chance), chance)


def gelu(graph: Graph, chance: random.Random, *, half: float = 0.5, one: float = 1, root: float = 0.5) -> str:
    error = graph("Erf", scaled(graph, "x", math.sqrt(root), chance))
    return half_product(graph, graph.either_way("Add", error, graph.constant(one), chance), chance, half)


def gelu_tanh(graph: Graph, chance: random.Random, *, cubic: float = 0.044715) -> str:
    slope, third = graph.constant(math.sqrt(2 / math.pi)), graph.constant(cubic)
    square = graph("Mul", "x", "x") if chance.random() < 0.5 else graph("Pow", "x", graph.constant(2))
    way = chance.randrange(3)
    if way == 0:
        cube = graph("Pow", "x", graph.constant(3)) if chance.random() < 0.5 else graph("Mul", "x", square)
        inner = graph.either_way("Add", "x", graph.either_way("Mul", cube, third, chance), chance)
        inner = graph.either_way("Mul", inner, slope, chance)
    else:
        grown = graph.either_way("Add", graph.either_way("Mul", square, third, chance), graph.constant(1), chance)
        if way == 1:
            inner = graph.either_way("Mul", graph.either_way("Mul", "x", grown, chance), slope, chance)
        else:
            inner = graph.either_way("Mul", graph.either_way("Mul", "x", slope, chance), grown, chance)
    total = graph.either_way("Add", graph("Tanh", inner), graph.constant(1), chance)
    return half_product(graph, total, chance)


def swish(graph: Graph, chance: random.Random, *, beta: Any = None, other: str = "x") -> str:
    inner = "x" if beta is None else graph.either_way("Mul", "x", graph.constant(beta), chance)
    return graph.either_way("Mul", other, graph("Sigmoid", inner), chance)


def clipped(graph: Graph, chance: random.Random, shift: float, high: float) -> str:
    total = graph.either_way("Add", "x", graph.constant(shift), chance)
    return graph("Clip", total, graph.constant(0), graph.constant(high))


def hsigmoid(graph: Graph, chance: random.Random, *, shift: float = 3, high: float = 6) -> str:
    return scaled(graph, clipped(graph, chance, shift, high), 1 / 6, chance)


def hswish(graph: Graph, chance: random.Random, *, shift: float = 3, high: float = 6, alpha: float = 1 / 6) -> str:
    way = chance.randrange(4)
    if way == 0:
        return graph.either_way("Mul", "x", hsigmoid(graph, chance, shift=shift, high=high), chance)
    if way == 1:
        product = graph.either_way("Mul", "x", clipped(graph, chance, shift, high), chance)
        return scaled(graph, product, alpha, chance)
    if way == 2:
        return graph.either_way("Mul", scaled(graph, "x", alpha, chance), clipped(graph, chance, shift, high), chance)
    hard = graph("HardSigmoid", "x", alpha=alpha, beta=shift / high)
    return graph.either_way("Mul", "x", hard, chance)


def softplus(graph: Graph, chance: random.Random, *, one: float = 1) -> str:
    return graph("Log", graph.either_way("Add", graph("Exp", "x"), graph.constant(one), chance))


def mish(graph: Graph, chance: random.Random, *, one: float = 1) -> str:
    inner = graph("Softplus", "x") if one == 1 and chance.random() < 0.5 else softplus(graph, chance, one=one)
    return graph.either_way("Mul", "x", graph("Tanh", inner), chance)


def softsign(graph: Graph, chance: random.Random, *, one: float = 1) -> str:
    return graph("Div", "x", graph.either_way("Add", graph("Abs", "x"), graph.constant(one), chance))


def neutral(graph: Graph, chance: random.Random, *, shape: tuple[int, ...] = (), value: float | None = None) -> str:
    """abs(x) with 0 added or taken away, or times or divided by 1, twice."""
    result = graph("Abs", "x")
    for _ in range(2):
        op_type, wanted = chance.choice([("Add", 0), ("Sub", 0), ("Mul", 1), ("Div", 1)])
        other = graph.constant(np.full(shape, wanted if value is None else value))
        ordered = op_type in ("Sub", "Div")
        result = graph(op_type, result, other) if ordered else graph.either_way(op_type, result, other, chance)
    return result


def reshapes(graph: Graph, chance: random.Random, *, last: Sequence[int] = (-1, 6), shared: bool = False) -> str:
    """Three changes of the shape behind one another."""
    value = "x"
    for _ in range(2):
        if chance.random() < 0.5 and last[0] and not shared:
            value = graph("Unsqueeze", value, graph.constant([chance.randrange(3)], np.int64))
        else:
            value = graph(
                "Reshape", value, graph.constant(chance.choice([[-1, 4, 2], [6, -1], [-1, 3, 2, 4]]), np.int64)
            )
    result = graph("Reshape", value, graph.constant(last, np.int64))
    return (
        graph("Add", result, graph("Reshape", graph("Exp", value), graph.constant(last, np.int64)))
        if shared
        else result
    )


IDIOMS: dict[str, tuple[Build, str, int]] = {
    "layer normalization": (layer_normalization, "MVN", 1),
    "gelu": (gelu, "Gelu", 1),
    "gelu by tanh": (gelu_tanh, "Gelu", 1),
    "swish": (swish, "Swish", 1),
    "swish with beta": (lambda g, c: swish(g, c, beta=1.702), "Swish", 1),
    "hard sigmoid": (hsigmoid, "HSigmoid", 1),
    "hard swish": (hswish, "HSwish", 1),
    "softplus": (softplus, "SoftPlus", 1),
    "mish": (mish, "Mish", 1),
    "softsign": (softsign, "SoftSign", 1),
    "neutral numbers": (neutral, "Abs", 1),
    "neutral constants": (lambda g, c: neutral(g, c, shape=(1,)), "Abs", 1),
    "neutral constants of as many dimensions": (lambda g, c: neutral(g, c, shape=(1, 1, 1)), "Abs", 1),
    "reshapes in a row": (reshapes, "Reshape", 1),
}
"""For each idiom what spells it out, the layer that it becomes, and how many layers there are then."""

RAISED = "an epsilon of a higher rank"
"""The plug-in takes it for a layer normalisation all the same, and returns a lower rank."""

NEAR_MISSES: dict[str, tuple[Build, str]] = {
    "other axes of the squares": (lambda g, c: layer_normalization(g, c, axes=[-1], second_axes=[1]), "MVN"),
    "no epsilon": (lambda g, c: layer_normalization(g, c, epsilon=0.0), "MVN"),
    "an epsilon for each row": (lambda g, c: layer_normalization(g, c, epsilon=[[1e-5], [1e-3], [1e-2]]), "MVN"),
    RAISED: (lambda g, c: layer_normalization(g, c, epsilon=[[[[1e-5]]]]), "MVN"),
    "another half": (lambda g, c: gelu(g, c, half=0.25), "Gelu"),
    "another one": (lambda g, c: gelu(g, c, one=2), "Gelu"),
    "another root": (lambda g, c: gelu(g, c, root=0.51), "Gelu"),
    "swish of another value": (lambda g, c: swish(g, c, other=g("Neg", "x")), "Swish"),
    "swish with a beta for each row": (lambda g, c: swish(g, c, beta=[[1], [2], [3]]), "Swish"),
    "hard sigmoid of another end": (lambda g, c: hsigmoid(g, c, high=5), "HSigmoid"),
    "hard swish of another shift": (lambda g, c: hswish(g, c, shift=2), "HSwish"),
    "another softplus": (lambda g, c: softplus(g, c, one=2), "SoftPlus"),
    "another mish": (lambda g, c: mish(g, c, one=2), "Mish"),
    "another softsign": (lambda g, c: softsign(g, c, one=2), "SoftSign"),
    "another cubic factor": (lambda g, c: gelu_tanh(g, c, cubic=0.05), "Gelu"),
}


def layers(model: ir_runtime.Model) -> list[str]:
    plain = ("Const", "Parameter", "Result")
    return [node.op.type for node in model.nodes() if node.op.type not in plain]


def check(model: onnx.ModelProto, made: ir_runtime.Model, dtype: Any, engines: Sequence[str] = tuple(ENGINES)) -> None:
    x = np.random.default_rng(3).normal(size=(2, 3, 8)).astype(dtype)
    ir = ir_runtime.model_to_bytes(made)
    tolerance = 4e-3 if np.dtype(dtype).itemsize == 2 else 2e-5
    wanted = expected(model, x)
    for engine in engines:
        for value, want in zip(run(engine, ir, {"x": x}), wanted, strict=True):
            assert value.dtype == want.dtype
            np.testing.assert_allclose(value, want, rtol=tolerance, atol=tolerance, err_msg=engine)


def expected(model: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    """What onnxruntime computes; onnx's evaluator for doubles, which onnxruntime has few kernels for."""
    if x.dtype != np.float64:
        return run_onnxruntime(model, {"x": x})
    return list(ReferenceEvaluator(model).run(None, {"x": x}))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64], ids=str)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", IDIOMS)
def test_an_idiom_becomes_its_layer(name: str, seed: int, dtype: Any) -> None:
    build, wanted, count = IDIOMS[name]
    graph, chance = Graph(dtype), random.Random(seed)
    model = graph.model([None, 3, 8] if seed % 2 else [2, 3, 8], build(graph, chance))
    made = converter.convert_model(model)
    assert layers(made) == [wanted] * count
    check(model, made, dtype)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_stays(name: str, seed: int) -> None:
    build, absent = NEAR_MISSES[name]
    graph, chance = Graph(), random.Random(seed)
    model = graph.model([None, 3, 8], build(graph, chance))
    made = converter.convert_model(model)
    assert absent not in layers(made)
    check(model, made, np.float32, ["numpy"] if name == RAISED else tuple(ENGINES))


STAYING: dict[str, tuple[Build, int]] = {
    "other numbers": (lambda g, c: neutral(g, c, value=0.5), 3),
    "constants that widen": (lambda g, c: neutral(g, c, shape=(4, 1, 3, 8)), 2),
    "constants that would widen a dimension of 1": (lambda g, c: neutral(g, c, shape=(3, 1)), 2),
    "a dimension that is taken over": (lambda g, c: reshapes(g, c, last=(0, -1)), 2),
    "a shape in between that is read": (lambda g, c: reshapes(g, c, shared=True), 5),
}
"""What must stay, and how many layers there are then."""


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", STAYING)
def test_what_must_stay(name: str, seed: int) -> None:
    build, count = STAYING[name]
    graph = Graph()
    model = graph.model([None, 3, 8], build(graph, random.Random(seed)))
    made = converter.convert_model(model)
    assert len(layers(made)) == count, layers(made)
    check(model, made, np.float32)


@pytest.mark.parametrize("name", IDIOMS)
def test_what_is_returned_or_read_elsewhere_stays(name: str) -> None:
    """Each inner value once as a second output: it keeps its name and its numbers."""
    build = IDIOMS[name][0]
    graph = Graph()
    last = build(graph, random.Random(1))
    for inner in [node.output[0] for node in graph.nodes[:-1]]:
        model = graph.model([2, 3, 8], last, inner)
        made = converter.convert_model(model)
        assert [output.names[0] for output in made.outputs] == [last, inner]
        check(model, made, np.float32)


@pytest.mark.parametrize("name", IDIOMS)
def test_without_fusion_each_node_keeps_its_layers(name: str) -> None:
    build, wanted, count = IDIOMS[name]
    graph = Graph()
    model = graph.model([None, 3, 8], build(graph, random.Random(4)))
    made = converter.convert_model(model, fuse=False)
    assert len(layers(made)) >= len(graph.nodes) > count
    assert [node.origin.node for node in made.nodes() if node.origin][-1] == graph.nodes[-1].name
    check(model, made, np.float32)
    assert layers(converter.convert_model(model)) == [wanted] * count
