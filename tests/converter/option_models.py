"""Small models of the families that people convert, with seeded random weights, and what of them options can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.converter.optimization.models import run

Sizes = Mapping[str, int]
Shape = Sequence[Any]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
SMALL = 0.5
"""The value of an input of one number."""


class Graph:
    """Nodes and initializers in the making; ``node`` and ``weight`` return the name of a tensor."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def node(self, op_type: str, *inputs: str, name: str = "", outputs: int = 1, domain: str = "", **more: Any) -> str:
        """A node; the name of its last output, which is what the models here go on with."""
        name = name or f"{op_type.lower()}{len(self.nodes)}"
        made = [f"{name}_{i}" for i in range(outputs - 1)] + [name]
        self.nodes.append(helper.make_node(op_type, list(inputs), made, f"node_{name}", domain=domain, **more))
        return name

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype)
        return name

    def weight(self, *shape: int) -> str:
        """Normal numbers, as large as keep the deviation of a product of them near 1."""
        depth = int(np.prod(shape[1:])) if len(shape) != 2 else shape[0]
        return self.constant(self.random.standard_normal(shape) / np.sqrt(max(depth, 1)))

    def steps(self, shape: Sequence[int], dtype: Any = np.int8) -> str:
        """Weights of 7 bits: products of 8 bits saturate on processors without VNNI instructions."""
        return self.constant(self.random.integers(-63, 64, shape), dtype)

    def model(self, inputs: Mapping[str, tuple[int, Shape]], outputs: Sequence[str]) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        made = helper.make_model(graph, opset_imports=imports, ir_version=9)
        return onnx.shape_inference.infer_shapes(made)


def residual_network() -> onnx.ModelProto:
    """Convolutions with batch normalization, a residual, a pooling, a classifier."""
    g = Graph(1)

    def normalized(x: str) -> str:
        size = 32
        values = [g.random.uniform(0.5, 1.5, size), g.random.standard_normal(size) / 10]
        values += [g.random.standard_normal(size) / 10, g.random.uniform(0.5, 1.5, size)]
        return g.node("BatchNormalization", x, *(g.constant(value) for value in values))

    x = g.node("Conv", "image", g.weight(32, 3, 3, 3), kernel_shape=[3, 3], pads=[0, 0, 1, 1], strides=[2, 2])
    x = g.node("Relu", normalized(x))
    inner = g.node("Relu", normalized(g.node("Conv", x, g.weight(32, 32, 3, 3), pads=[1, 1, 1, 1])))
    inner = normalized(g.node("Conv", inner, g.weight(32, 32, 3, 3), pads=[1, 1, 1, 1]))
    x = g.node("Relu", g.node("Add", x, inner))
    x = g.node("Flatten", g.node("GlobalAveragePool", x))
    g.node("Gemm", x, g.weight(48, 32), g.weight(48), name="logits", transB=1)
    return g.model({"image": (FLOAT, ["n", 3, 12, 12])}, ["logits"])


def encoder() -> onnx.ModelProto:
    """A transformer's layer over token ids and a mask; the scores are divided by an input."""
    g = Graph(2)
    width, heads = 64, 4

    def dense(x: str, inner: int, outer: int, name: str = "") -> str:
        return g.node("Add", g.weight(outer), g.node("MatMul", x, g.weight(inner, outer)), name=name)

    def normalized(x: str, name: str = "") -> str:
        scale, bias = g.constant(g.random.uniform(0.5, 1.5, width)), g.weight(width)
        return g.node("LayerNormalization", x, scale, bias, name=name, axis=-1, epsilon=1e-5)

    def split(x: str, order: Sequence[int]) -> str:
        return g.node(
            "Transpose", g.node("Reshape", x, g.constant([0, 0, heads, width // heads], np.int64)), perm=order
        )

    x = g.node("Gather", g.constant(g.random.standard_normal((40, width))), "input_ids")
    query, value = split(dense(x, width, width), [0, 2, 1, 3]), split(dense(x, width, width), [0, 2, 1, 3])
    key = split(dense(x, width, width), [0, 2, 3, 1])
    mask = g.node("Cast", g.node("Unsqueeze", "attention_mask", g.constant([1, 2], np.int64)), to=FLOAT)
    mask = g.node("Mul", g.node("Sub", g.constant(1.0), mask), g.constant(-1e4))
    scores = g.node("Div", g.node("Div", g.node("MatMul", query, key), g.constant(4.0)), "temperature")
    scores = g.node("Softmax", g.node("Add", scores, mask), axis=-1)
    mixed = g.node("Transpose", g.node("MatMul", scores, value), perm=[0, 2, 1, 3])
    mixed = g.node("Reshape", mixed, g.constant([0, 0, width], np.int64))
    x = normalized(g.node("Add", x, dense(mixed, width, width)))
    inner = dense(x, width, 2 * width)
    gate = g.node("Add", g.node("Erf", g.node("Div", inner, g.constant(np.sqrt(2)))), g.constant(1.0))
    inner = g.node("Mul", g.node("Mul", inner, gate), g.constant(0.5))
    x = normalized(g.node("Add", x, dense(inner, 2 * width, width)), name="hidden")
    first = g.node("Gather", x, g.constant(0, np.int64), axis=1)
    g.node("Tanh", g.node("Gemm", first, g.weight(width, width), g.weight(width)), name="pooled")
    ids = (INT64, ["n", "s"])
    return g.model({"input_ids": ids, "attention_mask": ids, "temperature": (FLOAT, [1])}, ["hidden", "pooled"])


def detector() -> onnx.ModelProto:
    """Images of any size: a Resize to the size of a finer map, the best boxes, and what lies in them.

    Boxes and scores come of few weights of whole 64ths, which no compression rounds: which boxes are the best does not
    depend on it.
    """
    g = Graph(3)

    def whole(*shape: int) -> str:
        return g.constant(g.random.integers(-64, 65, shape) / 64)

    fine = g.node("Relu", g.node("Conv", "image", g.weight(32, 3, 3, 3), pads=[1, 1, 1, 1], strides=[8, 8]))
    coarse = g.node("Relu", g.node("Conv", fine, g.weight(32, 32, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2]))
    size = g.node("Slice", g.node("Shape", fine), *(g.constant([at], np.int64) for at in (2, 4)))
    count = g.node("Slice", g.node("Shape", coarse), *(g.constant([at], np.int64) for at in (0, 2)))
    larger = g.node(
        "Resize", coarse, "", "", g.node("Concat", count, size, axis=0), mode="nearest",
        coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    )  # fmt: skip
    fine = g.node("Add", fine, larger)
    features = g.node("Reshape", fine, g.constant([0, 32, -1], np.int64))
    small = g.node("AveragePool", "image", kernel_shape=[8, 8], strides=[8, 8])
    boxes = g.node("Reshape", g.node("Conv", small, whole(4, 3, 1, 1), whole(4)), g.constant([0, 4, -1], np.int64))
    boxes = g.node("Transpose", boxes, perm=[0, 2, 1])
    scores = g.node("Sigmoid", g.node("Conv", g.node("Mul", small, g.constant(8.0)), whole(3, 3, 1, 1)))
    scores = g.node("Reshape", scores, g.constant([0, 3, -1], np.int64))
    limits = g.constant([7], np.int64), g.constant([0.5])
    best = g.node("NonMaxSuppression", boxes, scores, *limits, "threshold")
    where = g.node("Gather", best, g.constant(2, np.int64), axis=1)
    g.node("Gather", best, g.constant(1, np.int64), axis=1, name="classes")
    g.node("Gather", boxes, where, axis=1, name="boxes")
    g.node("Gather", features, where, axis=2, name="features")
    values = g.node("ReduceMax", scores, axes=[1], keepdims=0)
    g.node("TopK", values, g.constant([5], np.int64), name="best", outputs=2, axis=-1)
    shapes = {"image": (FLOAT, [1, 3, "h", "w"]), "threshold": (FLOAT, [1])}
    return g.model(shapes, ["classes", "boxes", "features", "best_0", "best"])


def recurrent() -> onnx.ModelProto:
    """An LSTM in both directions, a GRU, and a product."""
    g = Graph(4)
    x = g.node("Transpose", "frames", perm=[1, 0, 2])
    states = 16
    weights = g.weight(2, 4 * states, 24), g.weight(2, 4 * states, states), g.weight(2, 8 * states)
    name = f"lstm{len(g.nodes)}"
    g.nodes.append(
        helper.make_node("LSTM", [x, *weights], [name, "last"], name, hidden_size=states, direction="bidirectional")
    )
    x = g.node("Reshape", g.node("Transpose", name, perm=[0, 2, 1, 3]), g.constant([0, 0, 32], np.int64))
    weights = g.weight(1, 48, 32), g.weight(1, 48, states), g.weight(1, 96)
    g.nodes.append(helper.make_node("GRU", [x, *weights], ["gru"], "gru", hidden_size=states, linear_before_reset=1))
    x = g.node("Transpose", g.node("Squeeze", "gru", g.constant([1], np.int64)), perm=[1, 0, 2])
    x = g.node("Tanh", g.node("MatMul", x, g.weight(states, 128)))
    g.node("Softmax", g.node("MatMul", x, g.weight(128, 40)), name="tokens", axis=-1)
    return g.model({"frames": (FLOAT, ["n", "s", 24])}, ["tokens", "last"])


def quantized_nodes() -> onnx.ModelProto:
    """Quantised as QDQ: each product between QuantizeLinear and DequantizeLinear."""
    g = Graph(5)

    def on_steps(x: str, scale: float, zero: int) -> str:
        pair = g.constant(scale), g.constant(zero, np.uint8)
        return g.node("DequantizeLinear", g.node("QuantizeLinear", x, *pair), *pair)

    def stored(*shape: int) -> str:
        scales = g.constant(g.random.uniform(0.5, 1, shape[0]) / 64 / np.sqrt(np.prod(shape[1:])))
        zeros = g.constant(np.zeros(shape[0]), np.int8)
        return g.node("DequantizeLinear", g.steps(shape), scales, zeros, axis=0)

    x = on_steps("image", 1 / 255, 0)
    x = on_steps(g.node("Relu", g.node("Conv", x, stored(16, 3, 3, 3), g.weight(16), strides=[2, 2])), 2 / 255, 0)
    inner = on_steps(g.node("Conv", x, stored(16, 16, 3, 3), pads=[1, 1, 1, 1]), 4 / 255, 128)
    x = on_steps(g.node("Relu", g.node("Add", x, inner)), 3 / 255, 0)
    x = on_steps(g.node("Flatten", g.node("GlobalAveragePool", x)), 2 / 255, 0)
    g.node("Gemm", x, stored(48, 16), g.weight(48), name="logits", transB=1)
    return g.model({"image": (FLOAT, ["n", 3, 12, 12])}, ["logits"])


def quantized_operators() -> onnx.ModelProto:
    """Quantised as QOperator: QLinearConv, QLinearAdd and QLinearMatMul."""
    g = Graph(6)

    def pair(scale: float, zero: int, dtype: Any = np.uint8) -> tuple[str, str]:
        return g.constant(scale), g.constant(zero, dtype)

    image, first, second, total = pair(1 / 255, 0), pair(3 / 255, 90), pair(4 / 255, 128), pair(5 / 255, 120)
    x = g.node("QuantizeLinear", "image", *image)
    x = g.node("QLinearConv", x, *image, g.steps((16, 3, 3, 3)), *pair(1 / 200, 0, np.int8), *first, strides=[2, 2])
    inner = g.node(
        "QLinearConv", x, *first, g.steps((16, 16, 3, 3)), *pair(1 / 450, 0, np.int8), *second, pads=[1, 1, 1, 1]
    )
    x = g.node("QLinearAdd", x, *first, inner, *second, *total, domain="com.microsoft")
    x = g.node("Reshape", x, g.constant([0, 400], np.int64))
    x = g.node("QLinearMatMul", x, *total, g.steps((400, 24)), *pair(1 / 750, 0, np.int8), *pair(6 / 255, 128))
    g.node("DequantizeLinear", x, *pair(6 / 255, 128), name="logits")
    return g.model({"image": (FLOAT, ["n", 3, 12, 12])}, ["logits"])


def shared_outputs() -> onnx.ModelProto:
    """Outputs that are one tensor, and one that is cast to whole numbers and back."""
    g = Graph(7)
    # Whole numbers, which the cast changes nothing of: m and y are the same.
    weights = g.constant(g.random.integers(-3, 4, (32, 64)))
    x = g.node("MatMul", g.node("Round", "x"), weights, name="m")
    g.node("Identity", x, name="same")
    g.node("Cast", g.node("Cast", x, to=TensorProto.INT32), name="y", to=FLOAT)
    return g.model({"x": (FLOAT, ["n", 32])}, ["m", "y", "same"])


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
    return [
        value.name for value in model.graph.input if all(dim.dim_value == 1 for dim in dims_of(value))
    ]  # fmt: skip


def takes_a_batch(model: onnx.ModelProto) -> bool:
    """Whether the first dimension of every input that is no single number is dynamic."""
    rest = [value for value in model.graph.input if value.name not in small_inputs(model)]
    return all(dims_of(value)[0].dim_param for value in rest)


def inner_tensor(model: onnx.ModelProto) -> str:
    """A real tensor in the middle of the graph that is no output, and no constant behind DequantizeLinear."""
    kinds = {value.name: value.type.tensor_type.elem_type for value in model.graph.value_info}
    stored = {value.name for value in model.graph.initializer}
    returned = {value.name for value in model.graph.output}
    known = [
        name
        for node in model.graph.node
        for name in node.output
        if kinds.get(name) == FLOAT
        and name not in returned
        and any(source and source not in stored for source in node.input[:1])
    ]
    return known[len(known) // 2] if known else ""


def feeds_for(model: onnx.ModelProto, sizes: Sizes, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs: token ids, masks that end in zeros, numbers between 0 and 1 for images, else normal ones."""
    random = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {}
    for value in model.graph.input:
        shape = shapes_of(model, sizes)[value.name]
        if value.type.tensor_type.elem_type == INT64 and "mask" in value.name:
            made[value.name] = (np.arange(shape[-1]) < random.integers(1, shape[-1] + 1, (*shape[:-1], 1))).astype("i8")
        elif value.type.tensor_type.elem_type == INT64:
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
