"""Models that are random chains of operators, for finding what goes wrong between layers and not in them.

Operators that round or choose (Cast, Floor, ArgMax) are left out: where two numbers are all but equal,
every engine may choose differently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.random import Generator
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotInOnnxruntime

from tests.engines import run_onnxruntime

Array = np.ndarray[Any, Any]
DIMENSIONS = (1, 2, 3, 4, 5, 7, 8, 16)
LARGEST = 20_000
"""The number of elements beyond which a chain ends."""


class Chain:
    """A graph that grows at its end; ``shape`` is that of the last tensor."""

    def __init__(self, random: Generator, kind: Any = np.float32) -> None:
        self.random = random
        self.kind = np.dtype(kind)
        self.shape: list[int] = [int(dimension) for dimension in random.choice(DIMENSIONS, int(random.integers(2, 6)))]
        self.start = (random.standard_normal(self.shape) * 0.8).astype(kind)
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[onnx.TensorProto] = []
        self.last = "x"
        self.before = {"x": list(self.shape)}

    @property
    def rank(self) -> int:
        return len(self.shape)

    def constant(self, value: Any) -> str:
        name = f"c{len(self.stored)}"
        array = np.asarray(value)
        if array.dtype == np.float32:
            array = array.astype(self.kind)
        self.stored.append(numpy_helper.from_array(array, name))
        return name

    def weights(self, *shape: int) -> str:
        return self.constant((self.random.standard_normal(shape) * 0.5).astype(np.float32))

    def positive(self, *shape: int) -> str:
        return self.constant((self.random.random(shape) + 0.4).astype(np.float32))

    def below(self, limit: int) -> int:
        return int(self.random.integers(0, limit))

    def add(self, op_type: str, *inputs: str, shape: list[int] | None = None, **attributes: Any) -> None:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], **attributes))
        self.last, self.shape = name, self.shape if shape is None else shape
        self.before[name] = list(self.shape)

    def returned(self) -> list[str]:
        """The end, and up to two tensors inside, in any order."""
        inner = [name for name in self.before if name != self.last]
        some = self.random.choice(inner, min(len(inner), self.below(3)), replace=False) if inner else []
        return [str(name) for name in self.random.permutation([self.last, *some])]

    def model(self, outputs: Sequence[str] = ()) -> onnx.ModelProto:
        """The model, whose input may have dynamic dimensions; it returns ``outputs``, or else its end."""
        dynamic = self.random.random() < 0.4
        declared = [
            f"d{axis}" if dynamic and self.random.random() < 0.6 else dimension
            for axis, dimension in enumerate(self.start.shape)
        ]
        graph = helper.make_graph(
            self.nodes,
            "chain",
            [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(self.kind), declared)],
            [onnx.ValueInfoProto(name=name) for name in outputs or [self.last]],
            self.stored,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


# --- steps; each takes a chain of at least one dimension ---


def unary(chain: Chain) -> None:
    names = (
        "Relu",
        "Sigmoid",
        "Tanh",
        "Abs",
        "Neg",
        "Softplus",
        "Elu",
        "HardSwish",
        "Erf",
        "Gelu",
        "LeakyRelu",
        "Mish",
    )
    chain.add(str(chain.random.choice(names)), chain.last)


def with_constant(chain: Chain) -> None:
    shape = [dimension if chain.random.random() < 0.6 else 1 for dimension in chain.shape]
    if chain.random.random() < 0.4:
        shape = shape[chain.below(chain.rank) :]
    constant = chain.positive(*([] if chain.random.random() < 0.25 else shape))
    op_type = str(chain.random.choice(("Add", "Mul", "Sub", "Div", "Max", "Min", "PRelu")))
    if op_type == "Sub" and chain.random.random() < 0.5:
        chain.add(op_type, constant, chain.last)
    else:
        chain.add(op_type, chain.last, constant)


def with_something_before(chain: Chain) -> None:
    fitting = [
        name
        for name, shape in chain.before.items()
        if len(shape) <= chain.rank and all(a in (b, 1) for a, b in zip(shape[::-1], chain.shape[::-1]))
    ]
    if fitting:
        other = str(chain.random.choice(fitting))
        chain.add(str(chain.random.choice(("Add", "Mul", "Sub"))), chain.last, other)


def reduction(chain: Chain) -> None:
    names = (
        "ReduceMean",
        "ReduceSum",
        "ReduceMax",
        "ReduceMin",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSumExp",
        "ReduceProd",
    )
    count = int(chain.random.integers(1, chain.rank + 1))
    axes = sorted(int(axis) for axis in chain.random.choice(chain.rank, count, replace=False))
    keep = chain.below(2)
    given = [axis - chain.rank if chain.random.random() < 0.3 else axis for axis in axes]
    left = [1 if i in axes else dimension for i, dimension in enumerate(chain.shape) if keep or i not in axes]
    op_type = str(chain.random.choice(names))
    chain.add(op_type, chain.last, chain.constant(np.array(given)), shape=left, keepdims=keep)


def softmax(chain: Chain) -> None:
    axis = chain.below(2 * chain.rank) - chain.rank
    chain.add(str(chain.random.choice(("Softmax", "LogSoftmax"))), chain.last, axis=axis)


def transpose(chain: Chain) -> None:
    order = [int(axis) for axis in chain.random.permutation(chain.rank)]
    chain.add("Transpose", chain.last, shape=[chain.shape[axis] for axis in order], perm=order)


def product(chain: Chain) -> None:
    columns = int(chain.random.integers(1, 9))
    weights = chain.weights(chain.shape[-1], columns)
    chain.add("MatMul", chain.last, weights, shape=[*chain.shape[:-1], columns])


def layer_norm(chain: Chain) -> None:
    axis = chain.below(chain.rank)
    scale, shift = chain.positive(*chain.shape[axis:]), chain.positive(*chain.shape[axis:])
    chain.add("LayerNormalization", chain.last, scale, shift, axis=axis, epsilon=1e-2)


def reshape(chain: Chain) -> None:
    target = list(chain.shape)
    if len(target) > 1:
        at = chain.below(len(target) - 1)
        target[at : at + 2] = [target[at] * target[at + 1]]
    if chain.random.random() < 0.4:
        target.insert(chain.below(len(target) + 1), 1)
    chain.add("Reshape", chain.last, chain.constant(np.array(target)), shape=target)


def part(chain: Chain) -> None:
    axis = chain.below(chain.rank)
    start = chain.below(chain.shape[axis])
    bounds = [chain.constant(np.array([value])) for value in (start, chain.shape[axis], axis)]
    shape = [*chain.shape[:axis], chain.shape[axis] - start, *chain.shape[axis + 1 :]]
    chain.add("Slice", chain.last, *bounds, shape=shape)


def pad(chain: Chain) -> None:
    pads = [chain.below(2) for _ in range(2 * chain.rank)]
    shape = [dimension + pads[i] + pads[i + chain.rank] for i, dimension in enumerate(chain.shape)]
    chain.add("Pad", chain.last, chain.constant(np.array(pads)), chain.constant(np.float32(0.3)), shape=shape)


def gather(chain: Chain) -> None:
    axis = chain.below(chain.rank)
    dimension = chain.shape[axis]
    one = chain.random.random() < 0.5
    indices = np.array(chain.below(dimension)) if one else chain.random.integers(-dimension, dimension, 2)
    shape = [*chain.shape[:axis], *indices.shape, *chain.shape[axis + 1 :]]
    chain.add("Gather", chain.last, chain.constant(indices), shape=shape, axis=axis)


def doubled(chain: Chain) -> None:
    axis = chain.below(chain.rank)
    shape = [2 * dimension if i == axis else dimension for i, dimension in enumerate(chain.shape)]
    chain.add("Concat", chain.last, chain.last, shape=shape, axis=axis)


def tile(chain: Chain) -> None:
    repeats = [1 + chain.below(2) for _ in chain.shape]
    shape = [dimension * times for dimension, times in zip(chain.shape, repeats)]
    chain.add("Tile", chain.last, chain.constant(np.array(repeats)), shape=shape)


def cumulated(chain: Chain) -> None:
    axis = chain.constant(np.array(chain.below(chain.rank)))
    chain.add("CumSum", chain.last, axis, exclusive=chain.below(2), reverse=chain.below(2))


def clip(chain: Chain) -> None:
    chain.add("Clip", chain.last, chain.constant(np.float32(-0.5)), chain.constant(np.float32(0.8)))


# --- steps for images, of three to five dimensions ---


def pool(chain: Chain) -> None:
    kernel = [min(dimension, 1 + chain.below(3)) for dimension in chain.shape[2:]]
    strides = [1 + chain.below(2) for _ in kernel]
    pads = [chain.below(size) for size in kernel]
    op_type = str(chain.random.choice(("AveragePool", "AveragePool", "MaxPool")))
    more = {"count_include_pad": chain.below(2)} if op_type == "AveragePool" else {}
    shape = [(n + 2 * p - k) // s + 1 for n, k, s, p in zip(chain.shape[2:], kernel, strides, pads)]
    shape = chain.shape[:2] + shape
    chain.add(op_type, chain.last, shape=shape, kernel_shape=kernel, strides=strides, pads=pads * 2, **more)


def global_pool(chain: Chain) -> None:
    op_type = str(chain.random.choice(("GlobalAveragePool", "GlobalMaxPool")))
    chain.add(op_type, chain.last, shape=chain.shape[:2] + [1] * (chain.rank - 2))


def convolution(chain: Chain) -> None:
    channels = int(chain.random.choice((1, 3, 4, 8)))
    kernel = [min(dimension, 1 + chain.below(3)) for dimension in chain.shape[2:]]
    inputs = [chain.weights(channels, chain.shape[1], *kernel)]
    if chain.random.random() < 0.6:
        inputs.append(chain.weights(channels))
    shape = [chain.shape[0], channels, *(n - k + 1 for n, k in zip(chain.shape[2:], kernel))]
    chain.add("Conv", chain.last, *inputs, shape=shape, kernel_shape=kernel)


def batch_norm(chain: Chain) -> None:
    chain.add("BatchNormalization", chain.last, *(chain.positive(chain.shape[1]) for _ in range(4)))


def instance_norm(chain: Chain) -> None:
    parameters = (chain.positive(chain.shape[1]) for _ in range(2))
    chain.add("InstanceNormalization", chain.last, *parameters, epsilon=1e-2)


ANY: tuple[Callable[[Chain], None], ...] = (
    *(unary, unary, with_constant, with_constant, with_constant, with_something_before, reduction, reduction),
    *(softmax, transpose, product, layer_norm, reshape, part, pad, gather, doubled, tile, cumulated, clip),
)
IMAGES = (pool, pool, global_pool, convolution, batch_norm, instance_norm)


# --- steps that meet rules of the CPU plug-in; for graphs that return several tensors ---


def whole_numbers(chain: Chain) -> None:
    """Rounded, multiplied or limited, integers, and floats again."""
    chain.add("Round", chain.last)
    if chain.below(2):
        chain.add("Clip", chain.last, chain.constant(np.float32(-3)), chain.constant(np.float32(4)))
    elif chain.rank > 1:
        weights = chain.constant(chain.random.integers(-2, 3, (chain.shape[-1], 3)).astype(np.float32))
        chain.add("MatMul", chain.last, weights, shape=[*chain.shape[:-1], 3])
    chain.add("Cast", chain.last, to=TensorProto.INT32)
    chain.add("Cast", chain.last, to=helper.np_dtype_to_tensor_dtype(chain.kind))


def resize(chain: Chain) -> None:
    count = min(chain.rank, 1 + chain.below(2))
    sizes = [*chain.shape[:-count], *(1 + chain.below(9) for _ in range(count))]
    mode = str(chain.random.choice(("linear", "nearest"))) if chain.rank > 1 else "nearest"
    # Exact places: a neighbour or another may be nearest otherwise.
    places = "asymmetric" if mode == "nearest" else "half_pixel"
    attributes = {"mode": mode, "coordinate_transformation_mode": places, "nearest_mode": "floor"}
    chain.add("Resize", chain.last, "", "", chain.constant(np.array(sizes)), shape=sizes, **attributes)


def selection(chain: Chain) -> None:
    name = f"b{len(chain.nodes)}"
    op_type = str(chain.random.choice(("Greater", "LessOrEqual")))
    limit = chain.constant(np.float32(0.123456))
    chain.nodes.append(helper.make_node(op_type, [chain.last, limit], [name]))
    chain.add("Where", name, chain.last, chain.constant(np.float32(-0.5)))


def parts(chain: Chain) -> None:
    """Both parts of a dimension, in the other order."""
    axis = chain.below(chain.rank)
    dimension = chain.shape[axis]
    if dimension < 2:
        return
    first = 1 + chain.below(dimension - 1)
    names = [f"p{len(chain.nodes)}_{side}" for side in (0, 1)]
    sizes = chain.constant(np.array([first, dimension - first]))
    chain.nodes.append(helper.make_node("Split", [chain.last, sizes], names, axis=axis))
    chain.before[names[0]] = [*chain.shape[:axis], first, *chain.shape[axis + 1 :]]
    chain.add("Concat", *names[::-1], axis=axis)


def same_again(chain: Chain) -> None:
    """A tensor under another name, or changed and changed back."""
    if chain.below(2) or not chain.rank:
        chain.add("Identity", chain.last)
        return
    order = [int(axis) for axis in chain.random.permutation(chain.rank)]
    chain.add("Transpose", chain.last, shape=[chain.shape[axis] for axis in order], perm=order)
    back = [int(axis) for axis in np.argsort(order)]
    chain.add("Transpose", chain.last, shape=[chain.shape[axis] for axis in back], perm=back)


def shape_as_number(chain: Chain) -> None:
    """Multiplied with the mean of its own dimensions."""
    number = f"s{len(chain.nodes)}"
    kind = helper.np_dtype_to_tensor_dtype(chain.kind)
    chain.nodes.append(helper.make_node("Shape", [chain.last], [f"{number}_shape"]))
    chain.nodes.append(helper.make_node("Cast", [f"{number}_shape"], [f"{number}_float"], to=kind))
    first = chain.constant(np.array([0]))
    chain.nodes.append(helper.make_node("ReduceMean", [f"{number}_float", first], [number], keepdims=0))
    chain.add("Div", chain.last, number)


def strided_convolution(chain: Chain) -> None:
    channels, size = int(chain.random.choice((1, 4))), 1 + chain.below(2)
    spatial = chain.rank - 2
    kernel = [min(dimension, size) for dimension in chain.shape[2:]]
    stride, pad = 1 + chain.below(3), chain.below(2)
    weights = chain.weights(channels, chain.shape[1], *kernel)
    shape = [chain.shape[0], channels, *((n + 2 * pad - k) // stride + 1 for n, k in zip(chain.shape[2:], kernel))]
    chain.add("Conv", chain.last, weights, shape=shape, strides=[stride] * spatial, pads=[pad] * 2 * spatial)


def rounded_up_pool(chain: Chain) -> None:
    kernel = [min(dimension, 1 + chain.below(3)) for dimension in chain.shape[2:]]
    # By larger strides a window may start behind the data, which onnx counts otherwise than onnxruntime.
    strides = [1 + chain.below(size) for size in kernel]
    shape = [-(-(n - k) // s) + 1 for n, k, s in zip(chain.shape[2:], kernel, strides)]
    op_type = str(chain.random.choice(("AveragePool", "MaxPool")))
    chain.add(op_type, chain.last, shape=chain.shape[:2] + shape, kernel_shape=kernel, strides=strides, ceil_mode=1)


def to_rows(chain: Chain) -> None:
    """A Scan over the first dimension, which adds up."""
    if chain.rank < 2:
        return
    rest = chain.shape[1:]
    kind = helper.np_dtype_to_tensor_dtype(chain.kind)
    infos = [helper.make_tensor_value_info(name, kind, None) for name in ("state", "row", "sum", "scaled")]
    body = helper.make_graph(
        [helper.make_node("Add", ["state", "row"], ["sum"]), helper.make_node("Tanh", ["sum"], ["scaled"])],
        "body",
        infos[:2],
        infos[2:],
    )
    start = chain.constant(np.zeros(rest, np.float32))
    end = f"e{len(chain.nodes)}"
    name = f"t{len(chain.nodes)}"
    chain.nodes.append(helper.make_node("Scan", [start, chain.last], [end, name], num_scan_inputs=1, body=body))
    chain.before[end] = list(rest)
    chain.last = name
    chain.before[name] = list(chain.shape)


MORE = (whole_numbers, resize, selection, parts, same_again, shape_as_number, to_rows)
MORE_OF_IMAGES = (strided_convolution, strided_convolution, rounded_up_pool, resize)


def random_graph(seed: int) -> tuple[onnx.ModelProto, np.ndarray]:
    """A model of float32 or float64 that returns up to three tensors, and an input for it."""
    random = np.random.default_rng([seed, 1])
    chain = Chain(random, np.float64 if random.random() < 0.25 else np.float32)
    for _ in range(int(random.integers(3, 9))):
        images = (*IMAGES, *MORE_OF_IMAGES) if 3 <= chain.rank <= 5 else ()
        steps = [*ANY, *MORE, *MORE, *images] if chain.rank else [unary, same_again]
        chain_step: Callable[[Chain], None] = steps[chain.below(len(steps))]
        chain_step(chain)
        if np.prod(chain.shape) > LARGEST:
            break
    if not chain.nodes:
        unary(chain)
    return chain.model(chain.returned()), chain.start


@dataclass(frozen=True)
class Sample:
    """A random graph, an input for it, and what onnxruntime computes, by the names of its outputs."""

    model: onnx.ModelProto
    x: Array
    wanted: dict[str, Array]
    what: str

    @classmethod
    def of(cls, seed: int) -> Sample | None:
        """None where onnxruntime has no kernel: for some operators on float64."""
        model, x = random_graph(seed)
        try:
            outputs = run_onnxruntime(model, {"x": x})
        except NotInOnnxruntime:
            return None
        what = f"seed {seed}: {' > '.join(node.op_type for node in model.graph.node)} of {x.shape}"
        return cls(model, x, dict(zip([one.name for one in model.graph.output], outputs, strict=True)), what)

    def check(self, found: Mapping[str, Array], by: str) -> None:
        """Hold outputs against onnxruntime's, name by name and in their order."""
        assert list(found) == list(self.wanted), f"{by}, {self.what}"
        for name, value in found.items():
            expected, where = self.wanted[name], f"{by}, {self.what}: {name}"
            assert (value.dtype, value.shape) == (expected.dtype, expected.shape), where
            scale = max(1.0, float(np.abs(expected).max(initial=0)))
            np.testing.assert_allclose(value, expected, rtol=1e-3, atol=1e-4 * scale, err_msg=where)


def random_chain(seed: int) -> tuple[onnx.ModelProto, np.ndarray]:
    """A model and an input for it."""
    random = np.random.default_rng(seed)
    chain = Chain(random)
    for _ in range(int(random.integers(2, 6))):
        steps = [*ANY, *(IMAGES if 3 <= chain.rank <= 5 else ())] if chain.rank else [unary]
        step: Callable[[Chain], None] = steps[chain.below(len(steps))]
        step(chain)
        if np.prod(chain.shape) > LARGEST:
            break
    if not chain.nodes:
        unary(chain)
    return chain.model(), chain.start
