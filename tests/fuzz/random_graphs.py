"""Models that are random graphs of operators, for finding what goes wrong between layers and not in them.

What rounds or chooses (Floor, ArgMax) is left out: where two numbers are all but equal, every engine may choose
differently.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotInOnnxruntime

from tests.engines import run_onnxruntime
from tests.graphs import Graph, Value

Array = np.ndarray[Any, Any]
DIMENSIONS = (1, 2, 3, 4, 5, 7, 8, 16)
LARGEST = 20_000
"""The number of elements beyond which a graph ends."""


class Chain(Graph):
    """A graph that grows at its end ``x``; ``shapes`` are those of all its tensors of floats."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, opset=20)
        self.dtype = np.dtype(np.float64 if self.chance(0.25) else np.float32)
        self.kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        self.start = (self.normal(*self.random.choice(DIMENSIONS, self.random.integers(2, 6))) * 0.8).astype(self.dtype)
        self.x, self.shapes = self["x"], {"x": list(self.start.shape)}

    @property
    def shape(self) -> list[int]:
        return self.shapes[self.x]

    @property
    def rank(self) -> int:
        return len(self.shape)

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def below(self, limit: int) -> int:
        return int(self.random.integers(0, limit))

    def any_of(self, *names: str) -> str:
        return str(self.random.choice(names))

    def order(self) -> list[int]:
        return [int(axis) for axis in self.random.permutation(self.rank)]

    def normal(self, *shape: int) -> Array:
        return self.random.standard_normal(shape)

    def positive(self, *shape: int) -> Array:
        return self.random.random(shape) + 0.4

    def kernel(self) -> list[int]:
        return [min(dimension, 1 + self.below(3)) for dimension in self.shape[2:]]

    def grow(self, step: Callable[[Chain], Value]) -> None:
        self.x = step(self)
        found = onnx.shape_inference.infer_shapes(self.proto(self.start.shape, ()), strict_mode=True, data_prop=True)
        for value in found.graph.value_info:
            if value.type.tensor_type.elem_type == self.kind:
                self.shapes[value.name] = [dim.dim_value for dim in value.type.tensor_type.shape.dim]

    def proto(self, dims: Sequence[int | str], returned: Sequence[str]) -> onnx.ModelProto:
        x, outputs = (
            helper.make_tensor_value_info("x", self.kind, dims),
            [onnx.ValueInfoProto(name=n) for n in returned],
        )
        graph = helper.make_graph(self.nodes, "chain", [x], outputs, list(self.constants.values()))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)


# --- steps; each takes a chain of at least one dimension ---

UNARY = ["Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Softplus", "Elu", "HardSwish", "Erf", "Gelu", "LeakyRelu", "Mish"]
REDUCTIONS = [f"Reduce{name}" for name in ("Mean", "Sum", "Max", "Min", "L1", "L2", "LogSumExp", "Prod")]


def with_constant(c: Chain) -> Value:
    shape = [dimension if c.chance(0.6) else 1 for dimension in c.shape][c.below(c.rank) if c.chance(0.4) else 0 :]
    operands = [c.x, c.positive(*([] if c.chance(0.25) else shape))]
    op_type = c.any_of("Add", "Mul", "Sub", "Div", "Max", "Min", "PRelu")
    return c(op_type, *(operands[::-1] if op_type == "Sub" and c.chance(0.5) else operands))


def with_something_before(c: Chain) -> Value:
    fitting = [
        name
        for name, shape in c.shapes.items()
        if len(shape) <= c.rank and all(a in (b, 1) for a, b in zip(shape[::-1], c.shape[::-1]))
    ]
    return c(c.any_of("Add", "Mul", "Sub"), c.x, c[c.any_of(*fitting)])


def reduction(c: Chain) -> Value:
    axes = sorted(c.order()[: 1 + c.below(c.rank)])
    return c(c.any_of(*REDUCTIONS), c.x, [n - c.rank if c.chance(0.3) else n for n in axes], keepdims=c.below(2))


def layer_norm(c: Chain) -> Value:
    axis = c.below(c.rank)
    scales = (c.positive(*c.shape[axis:]) for _ in range(2))
    return c.x.LayerNormalization(*scales, axis=axis, epsilon=1e-2)


def reshape(c: Chain) -> Value:
    target = list(c.shape)
    if len(target) > 1:
        at = c.below(len(target) - 1)
        target[at : at + 2] = [target[at] * target[at + 1]]
    if c.chance(0.4):
        target.insert(c.below(len(target) + 1), 1)
    return c.x.Reshape(target)


def part(c: Chain) -> Value:
    axis = c.below(c.rank)
    return c.x.Slice([c.below(c.shape[axis])], [c.shape[axis]], [axis])


def gather(c: Chain) -> Value:
    axis = c.below(c.rank)
    size = c.shape[axis]
    return c.x.Gather(c.below(size) if c.chance(0.5) else c.random.integers(-size, size, 2), axis=axis)


def pool(c: Chain) -> Value:
    kernel = c.kernel()
    where = {"strides": [1 + c.below(2) for _ in kernel], "pads": [c.below(size) for size in kernel] * 2}
    if c.chance(1 / 3):
        return c.x.MaxPool(kernel_shape=kernel, **where)
    return c.x.AveragePool(kernel_shape=kernel, count_include_pad=c.below(2), **where)


def rounded_up_pool(c: Chain) -> Value:
    kernel = c.kernel()
    # By larger strides a window may start behind the data, which onnx counts otherwise than onnxruntime.
    strides = [1 + c.below(size) for size in kernel]
    return c(c.any_of("AveragePool", "MaxPool"), c.x, kernel_shape=kernel, strides=strides, ceil_mode=1)


def convolution(c: Chain) -> Value:
    channels = int(c.random.choice((1, 3, 4, 8)))
    bias = [c.normal(channels) * 0.5] if c.chance(0.6) else []
    return c.x.Conv(c.weight(channels, c.shape[1], *c.kernel(), depth=4), *bias)


def strided_convolution(c: Chain) -> Value:
    size, count = 1 + c.below(2), c.rank - 2
    weights = c.weight(c.below(4) + 1, c.shape[1], *(min(dimension, size) for dimension in c.shape[2:]), depth=4)
    return c.x.Conv(weights, strides=[1 + c.below(3)] * count, pads=[c.below(2)] * 2 * count)


def whole_numbers(c: Chain) -> Value:
    """Rounded, multiplied or limited, integers, and floats again, which meets rules of the CPU plug-in."""
    value = c.x.Round()
    if c.chance(0.5):
        value = value.Clip(-3.0, 4.0)
    elif c.rank > 1:
        value = value @ c.constant(c.random.integers(-2, 3, (c.shape[-1], 3)).astype(np.float32))
    return value.Cast(to=TensorProto.INT32).Cast(to=c.kind)


def resize(c: Chain) -> Value:
    count = min(c.rank, 1 + c.below(2))
    sizes = [*c.shape[:-count], *(1 + c.below(9) for _ in range(count))]
    mode = c.any_of("linear", "nearest") if c.rank > 1 else "nearest"
    # Exact places: a neighbour or another may be nearest otherwise.
    places = "asymmetric" if mode == "nearest" else "half_pixel"
    return c.x.Resize("", "", sizes, mode=mode, coordinate_transformation_mode=places, nearest_mode="floor")


def parts(c: Chain) -> Value:
    """Both parts of a dimension, in the other order."""
    axis = c.below(c.rank)
    first = 1 + c.below(max(1, c.shape[axis] - 1))
    if first >= c.shape[axis]:
        return c.x.Identity()
    halves = c.x.Split([first, c.shape[axis] - first], axis=axis, count=2)
    return halves[1].Concat(halves[0], axis=axis)


def changed_and_back(c: Chain) -> Value:
    order = c.order()
    return c.x.Transpose(perm=order).Transpose(perm=[int(axis) for axis in np.argsort(order)])


def to_rows(c: Chain) -> Value:
    """A Scan over the first dimension, which adds up."""
    body = Graph(dtype=c.dtype, prefix=f"inner{len(c.nodes)}_")
    total = body["state"] + body["row"]
    kind = (c.dtype, [None] * (c.rank - 1))
    types = [dict.fromkeys(names, kind) for names in (("state", "row"), (total, total.Tanh()))]
    return c("Scan", np.zeros(c.shape[1:]), c.x, num_scan_inputs=1, body=body.body(*types), count=2)[1]


OF_ANY_RANK: list[Callable[[Chain], Value]] = [lambda c: c(c.any_of(*UNARY), c.x), lambda c: c.x.Identity()]
ANY: list[Callable[[Chain], Value]] = [
    *(OF_ANY_RANK[0], with_constant, reduction) * 2, *OF_ANY_RANK, with_constant, with_something_before, layer_norm,
    *(reshape, part, gather, whole_numbers, resize, parts, changed_and_back, to_rows),
    lambda c: c(c.any_of("Softmax", "LogSoftmax"), c.x, axis=c.below(2 * c.rank) - c.rank),
    lambda c: c.x.Transpose(perm=c.order()),
    lambda c: c.x @ c.weight(c.shape[-1], 1 + c.below(8), depth=4),
    lambda c: c.x.Pad([c.below(2) for _ in range(2 * c.rank)], 0.3),
    lambda c: c.x.Concat(c.x, axis=c.below(c.rank)),
    lambda c: c.x.Tile([1 + c.below(2) for _ in c.shape]),
    lambda c: c.x.CumSum(c.below(c.rank), exclusive=c.below(2), reverse=c.below(2)),
    lambda c: c.x.Clip(-0.5, 0.8),
    lambda c: c(c.any_of("Greater", "LessOrEqual"), c.x, 0.123456).Where(c.x, -0.5),
    lambda c: c.x / c.x.Shape().Cast(to=c.kind).ReduceMean([0], keepdims=0),  # the mean of its own dimensions
]  # fmt: skip
IMAGES: list[Callable[[Chain], Value]] = [
    *(pool, pool, rounded_up_pool, resize, convolution, strided_convolution, strided_convolution),
    lambda c: c(c.any_of("GlobalAveragePool", "GlobalMaxPool"), c.x),
    lambda c: c.x.BatchNormalization(*(c.positive(c.shape[1]) for _ in range(4))),
    lambda c: c.x.InstanceNormalization(*(c.positive(c.shape[1]) for _ in range(2)), epsilon=1e-2),
]
"""Steps for three to five dimensions."""


def random_graph(seed: int) -> tuple[onnx.ModelProto, Array]:
    """A model of float32 or float64 that returns up to three tensors, and an input for it."""
    chain = Chain(seed)
    for _ in range(int(chain.random.integers(2, 9))):
        steps = [*ANY, *(IMAGES if 3 <= chain.rank <= 5 else ())] if chain.rank else OF_ANY_RANK
        chain.grow(steps[chain.below(len(steps))])
        if np.prod(chain.shape) > LARGEST:
            break
    inner = [name for name in chain.shapes if name != chain.x]
    some = chain.random.choice(inner, min(len(inner), chain.below(3)), replace=False)
    dynamic = 0.6 if chain.chance(0.4) else 0
    dims = [f"d{axis}" if chain.chance(dynamic) else dimension for axis, dimension in enumerate(chain.start.shape)]
    return chain.proto(dims, [str(name) for name in chain.random.permutation([chain.x, *some])]), chain.start


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


# --- programs that compute with shapes, as exporters write them: dimensions, lists, and what takes them ---

X, Y = ("b", "s", 8), ("b", "t")
END = 2**63 - 1


class ShapeProgram(Graph):
    """Nodes that read x [b, s, 8] and y [b, t]; each step adds some of them."""

    def __init__(self, seed: int) -> None:
        super().__init__(opset=18)
        self.draw = random.Random(seed)
        self.data: list[tuple[Value, list[Any]]] = [(self["x"], list(X)), (self["y"], list(Y))]
        """Tensors of floats, with what is known of their dimensions: an expression's text, or a number."""
        self.sizes: list[Value] = []
        """Numbers (lists of one element) that are computed from shapes."""

    def dimension(self, x: Value, axis: int) -> Value:
        """One dimension as a list of one element, in one of the ways in which exporters write it."""
        return self.draw.choice([
            lambda: self.size(x, axis).Unsqueeze([0]), lambda: x.Shape().Slice([axis], [axis + 1]),
            lambda: x.Shape(start=axis, end=axis + 1), lambda: x.Shape().Gather([axis]),
        ])()  # fmt: skip

    def listed(self, *sizes: Any) -> Value:
        return self("Concat", *sizes, axis=0)

    def unary(self, x: Value, dims: list[Any]) -> tuple[Value, list[Any]]:
        return self(self.draw.choice(["Abs", "Relu", "Neg", "Identity"]), x), dims

    def binary(self, x: Value, dims: list[Any]) -> tuple[Value, list[Any]]:
        return x + self.draw.choice([other for other, known in self.data if known == dims]), dims

    def transpose(self, x: Value, dims: list[Any]) -> tuple[Value, list[Any]]:
        order = self.draw.sample(range(len(dims)), len(dims))
        return x.Transpose(perm=order), [dims[axis] for axis in order]

    def merge_or_split(self, x: Value, dims: list[Any]) -> tuple[Value, list[Any]]:
        """A Reshape that joins two dimensions, or parts one of 8."""
        target, shape, axis = list[Any](), list[Any](), 0
        left_out = self.draw.random() < 0.5
        while axis < len(dims):
            if dims[axis] == 8 and self.draw.random() < 0.6:
                target += [[2], [4]]
                shape += [2, 4]
            elif axis + 1 < len(dims) and self.draw.random() < 0.3:
                self.sizes.append(self.dimension(x, axis) * self.dimension(x, axis + 1))
                target.append(self.sizes[-1])
                shape.append(f"({dims[axis]} * {dims[axis + 1]})")
                axis += 1
            else:
                target.append(self.dimension(x, axis))
                shape.append(dims[axis])
            axis += 1
        if left_out:
            target[self.draw.randrange(len(target))] = [-1]
        return x.Reshape(self.listed(*target), allowzero=0 if left_out else 1), shape

    def expand(self, x: Value, dims: list[Any]) -> tuple[Value, list[Any]]:
        """Expand by a list that torch guards against -1."""
        listed = self.listed(*[self.dimension(x, axis) for axis in range(len(dims))])
        ones = self("ConstantOfShape", [len(dims)], value=numpy_helper.from_array(np.ones(1, np.int64)))
        return x.Expand(listed.Equal(ones * -1).Where(ones, listed)), dims

    def cut(self, x: Value, dims: list[Any]) -> tuple[Value, list[Any]]:
        """A slice to a dimension, or to a number that is computed from it."""
        axis = self.draw.randrange(len(dims))
        stop = self.dimension(x, axis)
        if self.draw.random() < 0.4:
            stop = self(self.draw.choice(["Sub", "Div", "Add"]), stop, [2])
        found = x.Slice([self.draw.choice([0, 0, 1])], stop, [axis], [self.draw.choice([1, 1, 2])])
        return found, [*dims[:axis], f"cut {len(self.nodes)}", *dims[axis + 1 :]]

    def positions(self, x: Value, dims: list[Any]) -> tuple[Value, list[Any]]:
        """0, 1, ... as many as a dimension, added to the tensor."""
        count = self.dimension(x, len(dims) - 1).Squeeze([0])
        return x + self("Range", 0, count, 1).Cast(to=TensorProto.FLOAT), dims

    def calculate(self, x: Value, dims: list[Any]) -> None:
        size = self.dimension(x, self.draw.randrange(len(dims)))
        if self.sizes and self.draw.random() < 0.5:
            size = self.draw.choice(self.sizes)
        if self.draw.random() < 0.3:
            size = self("Sub", [8], size)
        op_type, other = self.draw.choice([("Mul", 3), ("Div", 2), ("Sub", 1), ("Mod", 3), ("Max", 2), ("Min", 3)])
        self.sizes.append(self(op_type, size, [other]))

    def windows(self, x: Value, dims: list[Any]) -> tuple[Value, list[Any]]:
        """A dimension padded to a multiple of 4, perhaps rolled, parted into windows, and perhaps put together again."""
        axis, sizes = self.draw.randrange(len(dims)), [self.dimension(x, index) for index in range(len(dims))]
        width = self("Sub", [4], sizes[axis].Mod([4])).Mod([4])
        zeros = [[0] * count for count in (len(dims) + axis, len(dims) - axis - 1) if count]
        padded = x.Pad(self.listed(*zeros[:1], width, *zeros[1:]))
        if self.draw.random() < 0.5:
            first, second = self.draw.choice([((1, END), (0, 1)), ((-3, END), (0, -3))])
            halves = [padded.Slice([start], [stop], [axis]) for start, stop in (first, second)]
            padded = self("Concat", *halves, axis=axis)
        size = self.dimension(padded, axis)
        parted = self.listed(*sizes[:axis], size / [4], [4], *sizes[axis + 1 :])
        found = padded.Reshape(parted, allowzero=1)
        if self.draw.random() < 0.5:
            whole = self.listed(*sizes[:axis], size, *sizes[axis + 1 :])
            return found.Abs().Reshape(whole, allowzero=1).Slice([0], sizes[axis], [axis]), dims
        return found, [*dims[:axis], f"windows of {dims[axis]}", 4, *dims[axis + 1 :]]

    def program(self, steps: int) -> onnx.ModelProto:
        """A model of so many steps that returns its last tensors and a list of all sizes."""
        choices: list[Callable[..., Any]] = [
            *(self.unary, self.binary, self.transpose, self.merge_or_split, self.merge_or_split, self.expand),
            *(self.cut, self.windows, self.positions, self.calculate),
        ]
        for _ in range(steps):
            made = self.draw.choice(choices)(*self.draw.choice(self.data))
            self.data += [made] if made else []
        returned = {name: (np.float32, None) for name, _ in self.data[-3:] if name not in ("x", "y")}
        if self.sizes:
            returned[self.listed(*self.sizes)] = (np.int64, None)
        graph = self.body({"x": (np.float32, X), "y": (np.float32, Y)}, returned)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def program_inputs(shape: Sequence[int], seed: int) -> dict[str, Array]:
    """Random whole numbers for b, s and t, of which sums are exact in any order."""
    (b, s, t), whole = shape, np.random.default_rng(seed)
    return {name: whole.integers(-9, 10, dims).astype(np.float32) for name, dims in (("x", (b, s, 8)), ("y", (b, t)))}
