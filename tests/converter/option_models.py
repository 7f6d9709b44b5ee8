"""Small models of the families that people convert, with seeded random weights, and what of them options can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests import graphs
from tests.converter.optimization.models import run
from tests.graphs import Value

Sizes = Mapping[str, int]
Shape = Sequence[Any]
SMALL = 0.5
"""The value of an input of one number."""


class Graph(graphs.Graph):
    """A graph of opset 17 whose outputs keep their names."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, opset=17)

    def weights(self, *shape: int) -> Value:
        """Normal numbers, as large as keep the deviation of a product of them near 1."""
        return self.weight(*shape, depth=max(int(np.prod(shape[1:])), 1) if len(shape) != 2 else shape[0])

    def steps(self, *shape: int) -> Value:
        """Weights of 7 bits: products of 8 bits saturate on processors without VNNI instructions."""
        return self.constant(self.random.integers(-63, 64, shape), np.int8)

    def made(self, inputs: Mapping[str, tuple[Any, Shape]], *outputs: str) -> onnx.ModelProto:
        body = self.body(inputs, {})
        body.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return onnx.shape_inference.infer_shapes(helper.make_model(body, opset_imports=imports, ir_version=9))


def residual_network() -> onnx.ModelProto:
    """Convolutions with batch normalization, a residual, a pooling, a classifier."""
    g = Graph(1)

    def normalized(x: Value) -> Value:
        size = 32
        values = [g.random.uniform(0.5, 1.5, size), g.random.standard_normal(size) / 10]
        values += [g.random.standard_normal(size) / 10, g.random.uniform(0.5, 1.5, size)]
        return x.BatchNormalization(*values)

    x = g("Conv", "image", g.weights(32, 3, 3, 3), kernel_shape=[3, 3], pads=[0, 0, 1, 1], strides=[2, 2])
    x = normalized(x).Relu()
    inner = normalized(x.Conv(g.weights(32, 32, 3, 3), pads=[1, 1, 1, 1])).Relu()
    inner = normalized(inner.Conv(g.weights(32, 32, 3, 3), pads=[1, 1, 1, 1]))
    x = (x + inner).Relu().GlobalAveragePool().Flatten()
    x.Gemm(g.weights(48, 32), g.weights(48), name="logits", transB=1)
    return g.made({"image": (np.float32, ["n", 3, 12, 12])}, "logits")


def encoder() -> onnx.ModelProto:
    """A transformer's layer over token ids and a mask; the scores are divided by an input."""
    g = Graph(2)
    width, heads = 64, 4

    def dense(x: Value, inner: int, outer: int) -> Value:
        return g.weights(outer) + x @ g.weights(inner, outer)

    def normalized(x: Value, **name: str) -> Value:
        return x.LayerNormalization(g.random.uniform(0.5, 1.5, width), g.weights(width), axis=-1, epsilon=1e-5, **name)

    def split(x: Value, order: Sequence[int]) -> Value:
        return x.Reshape([0, 0, heads, width // heads]).Transpose(perm=order)

    x = g("Gather", g.random.standard_normal((40, width)), "input_ids")
    query, value, key = (split(dense(x, width, width), [0, 2, *last]) for last in ((1, 3), (1, 3), (3, 1)))
    mask = (g.constant(1.0) - g("Unsqueeze", "attention_mask", [1, 2]).Cast(to=TensorProto.FLOAT)) * -1e4
    scores = (query @ key / 4.0 / "temperature" + mask).Softmax(axis=-1)
    mixed = (scores @ value).Transpose(perm=[0, 2, 1, 3]).Reshape([0, 0, width])
    x = normalized(x + dense(mixed, width, width))
    inner = dense(x, width, 2 * width)
    inner = inner * ((inner / np.sqrt(2)).Erf() + 1.0) * 0.5
    x = normalized(x + dense(inner, 2 * width, width), name="hidden")
    x.Gather(0, axis=1).Gemm(g.weights(width, width), g.weights(width)).Tanh(name="pooled")
    ids = (np.int64, ["n", "s"])
    return g.made({"input_ids": ids, "attention_mask": ids, "temperature": (np.float32, [1])}, "hidden", "pooled")


def detector() -> onnx.ModelProto:
    """Images of any size: a Resize to the size of a finer map, the best boxes, and what lies in them.

    Boxes and scores come of few weights of whole 64ths, which no compression rounds: which boxes are the best does not
    depend on it.
    """
    g = Graph(3)

    def whole(*shape: int) -> Value:
        return g.constant(g.random.integers(-64, 65, shape) / 64)

    def of_image(x: Value) -> Value:
        return x.Transpose(perm=[0, 2, 1])

    fine = g("Conv", "image", g.weights(32, 3, 3, 3), pads=[1, 1, 1, 1], strides=[8, 8]).Relu()
    coarse = fine.Conv(g.weights(32, 32, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2]).Relu()
    size = coarse.Shape().Slice([0], [2]).Concat(fine.Shape().Slice([2], [4]), axis=0)
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    fine = fine + coarse.Resize("", "", size, mode="nearest", **how)
    features = fine.Reshape([0, 32, -1])
    small = g("AveragePool", "image", kernel_shape=[8, 8], strides=[8, 8])
    boxes = small.Conv(whole(4, 3, 1, 1), whole(4)).Reshape([0, 4, -1]).Transpose(perm=[0, 2, 1])
    scores = (small * 8.0).Conv(whole(3, 3, 1, 1)).Sigmoid().Reshape([0, 3, -1])
    best = boxes.NonMaxSuppression(scores, [7], [0.5], "threshold")
    where = best.Gather(2, axis=1)
    best.Gather(1, axis=1, name="classes")
    boxes.Gather(where, axis=1, name="boxes")
    features.Gather(where, axis=2, name="features")
    scores.ReduceMax(axes=[1], keepdims=0).TopK([5], name="best", count=2, axis=-1)
    shapes = {"image": (np.float32, [1, 3, "h", "w"]), "threshold": (np.float32, [1])}
    return g.made(shapes, "classes", "boxes", "features", "best.0", "best.1")


def recurrent() -> onnx.ModelProto:
    """An LSTM in both directions, a GRU, and a product."""
    g = Graph(4)
    states = 16
    weights = g.weights(2, 4 * states, 24), g.weights(2, 4 * states, states), g.weights(2, 8 * states)
    x = g("Transpose", "frames", perm=[1, 0, 2])
    x, last = x.LSTM(*weights, hidden_size=states, direction="bidirectional", count=2, name="lstm")
    x = x.Transpose(perm=[0, 2, 1, 3]).Reshape([0, 0, 32])
    weights = g.weights(1, 48, 32), g.weights(1, 48, states), g.weights(1, 96)
    x = x.GRU(*weights, hidden_size=states, linear_before_reset=1).Squeeze([1]).Transpose(perm=[1, 0, 2])
    ((x @ g.weights(states, 128)).Tanh() @ g.weights(128, 40)).Softmax(name="tokens", axis=-1)
    return g.made({"frames": (np.float32, ["n", "s", 24])}, "tokens", last)


def quantized_nodes() -> onnx.ModelProto:
    g = Graph(5)

    def on_steps(x: str, scale: float, zero: int) -> Value:
        pair = g.constant(scale), g.constant(zero, np.uint8)
        return g("QuantizeLinear", x, *pair).DequantizeLinear(*pair)

    def stored(*shape: int) -> Value:
        scales = g.random.uniform(0.5, 1, shape[0]) / 64 / np.sqrt(np.prod(shape[1:]))
        return g.steps(*shape).DequantizeLinear(scales, g.constant(np.zeros(shape[0]), np.int8), axis=0)

    x = on_steps("image", 1 / 255, 0)
    x = on_steps(x.Conv(stored(16, 3, 3, 3), g.weights(16), strides=[2, 2]).Relu(), 2 / 255, 0)
    inner = on_steps(x.Conv(stored(16, 16, 3, 3), pads=[1, 1, 1, 1]), 4 / 255, 128)
    x = on_steps((x + inner).Relu(), 3 / 255, 0)
    x = on_steps(x.GlobalAveragePool().Flatten(), 2 / 255, 0)
    x.Gemm(stored(48, 16), g.weights(48), name="logits", transB=1)
    return g.made({"image": (np.float32, ["n", 3, 12, 12])}, "logits")


def quantized_operators() -> onnx.ModelProto:
    """Quantised as QOperator: QLinearConv, QLinearAdd and QLinearMatMul."""
    g = Graph(6)

    def pair(scale: float, zero: int, dtype: Any = np.uint8) -> tuple[Value, Value]:
        return g.constant(scale), g.constant(zero, dtype)

    image, first, second, total = pair(1 / 255, 0), pair(3 / 255, 90), pair(4 / 255, 128), pair(5 / 255, 120)
    last = pair(6 / 255, 128)
    x = g("QuantizeLinear", "image", *image)
    x = x.QLinearConv(*image, g.steps(16, 3, 3, 3), *pair(1 / 200, 0, np.int8), *first, strides=[2, 2])
    inner = x.QLinearConv(*first, g.steps(16, 16, 3, 3), *pair(1 / 450, 0, np.int8), *second, pads=[1, 1, 1, 1])
    x = x.QLinearAdd(*first, inner, *second, *total, domain="com.microsoft").Reshape([0, 400])
    x = x.QLinearMatMul(*total, g.steps(400, 24), *pair(1 / 750, 0, np.int8), *last)
    x.DequantizeLinear(*last, name="logits")
    return g.made({"image": (np.float32, ["n", 3, 12, 12])}, "logits")


def shared_outputs() -> onnx.ModelProto:
    """Outputs that are one tensor, and one that is cast to whole numbers and back."""
    g = Graph(7)
    # Whole numbers, which the cast changes nothing of: m and y are the same.
    x = g("Round", "x").MatMul(g.random.integers(-3, 4, (32, 64)) * 1.0, name="m")
    x.Identity(name="same")
    x.Cast(to=TensorProto.INT32).Cast(to=TensorProto.FLOAT, name="y")
    return g.made({"x": (np.float32, ["n", 32])}, "m", "y", "same")


MODELS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    made.__name__: made
    for made in (
        residual_network, encoder, detector, recurrent, quantized_nodes, quantized_operators, shared_outputs,
    )
}  # fmt: skip


def shapes_of(model: onnx.ModelProto, sizes: Sizes) -> dict[str, list[int]]:
    """The inputs' shapes where the dynamic dimensions have these sizes."""
    return {
        value.name: [sizes[dim.dim_param] if dim.dim_param else dim.dim_value for dim in dims_of(value)]
        for value in model.graph.input
    }


def dims_of(value: onnx.ValueInfoProto) -> Sequence[Any]:
    return list(value.type.tensor_type.shape.dim)


def dynamic_inputs(model: onnx.ModelProto) -> list[str]:
    return [value.name for value in model.graph.input if any(dim.dim_param for dim in dims_of(value))]


def small_inputs(model: onnx.ModelProto) -> list[str]:
    """Inputs of one number, which can be given a value for good."""
    return [value.name for value in model.graph.input if all(dim.dim_value == 1 for dim in dims_of(value))]


def takes_a_batch(model: onnx.ModelProto) -> bool:
    """Whether the first dimension of every input that is no single number is dynamic."""
    rest = [value for value in model.graph.input if value.name not in small_inputs(model)]
    return all(dims_of(value)[0].dim_param for value in rest)


def inner_tensor(model: onnx.ModelProto) -> str:
    """A real tensor in the middle of the graph that is no output, and no constant behind DequantizeLinear."""
    kinds = {value.name: value.type.tensor_type.elem_type for value in model.graph.value_info}
    stored = {value.name for value in model.graph.initializer}
    returned = {value.name for value in model.graph.output}
    nodes = [node for node in model.graph.node if node.input[0] and node.input[0] not in stored]
    known = [name for node in nodes for name in node.output if kinds.get(name) == TensorProto.FLOAT]
    known = [name for name in known if name not in returned]
    return known[len(known) // 2] if known else ""


def feeds_for(model: onnx.ModelProto, sizes: Sizes, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs: token ids, masks that end in zeros, numbers between 0 and 1 for images, else normal ones."""
    random = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {}
    for value in model.graph.input:
        shape = shapes_of(model, sizes)[value.name]
        if value.type.tensor_type.elem_type == TensorProto.INT64 and "mask" in value.name:
            made[value.name] = (np.arange(shape[-1]) < random.integers(1, shape[-1] + 1, (*shape[:-1], 1))).astype("i8")
        elif value.type.tensor_type.elem_type == TensorProto.INT64:
            made[value.name] = random.integers(0, 40, shape)
        elif value.name in small_inputs(model):
            made[value.name] = np.full(shape, SMALL, np.float32)
        elif len(shape) < 4:
            made[value.name] = random.standard_normal(shape).astype(np.float32)
        else:
            made[value.name] = random.random(shape, np.float32)
    return made


def expected_of(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], more: Sequence[str] = ()) -> dict[str, Any]:
    """onnxruntime's outputs by name, and ``more`` tensors."""
    asked = onnx.ModelProto()
    asked.CopyFrom(model)
    asked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in more)
    return run(asked, feeds)
