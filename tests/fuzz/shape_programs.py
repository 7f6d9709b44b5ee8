"""Random programs that compute with shapes, as exporters write them: dimensions, lists, and what takes them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

X = ("b", "s", 8)
Y = ("b", "t")


class ShapeProgram:
    """Nodes that read x [b, s, 8] and y [b, t]; each step adds some of them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.data: list[tuple[str, list[object]]] = [("x", list(X)), ("y", list(Y))]
        """Tensors of floats, with what is known of their dimensions: an expression's text, or a number."""
        self.sizes: list[str] = []
        """Numbers (lists of one element) that are computed from shapes."""

    def node(self, op_type: str, *inputs: str, **attributes: object) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], f"node {name}", **attributes))
        return name

    def integers(self, value: object) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, np.int64), name))
        return name

    def dimension(self, data: str, axis: int) -> str:
        """One dimension as a list of one element, in one of the ways in which exporters write it."""
        way = self.chance.randrange(4)
        if way == 0:
            scalar = self.node("Gather", self.node("Shape", data), self.integers(axis), axis=0)
            return self.node("Unsqueeze", scalar, self.integers([0]))
        if way == 1:
            return self.node("Slice", self.node("Shape", data), self.integers([axis]), self.integers([axis + 1]))
        if way == 2:
            return self.node("Shape", data, start=axis, end=axis + 1)
        return self.node("Gather", self.node("Shape", data), self.integers([axis]), axis=0)

    def unary(self) -> None:
        name, dims = self.chance.choice(self.data)
        op_type = self.chance.choice(["Abs", "Relu", "Neg", "Identity"])
        self.data.append((self.node(op_type, name), dims))

    def binary(self) -> None:
        name, dims = self.chance.choice(self.data)
        others = [other for other, known in self.data if known == dims]
        self.data.append((self.node("Add", name, self.chance.choice(others)), dims))

    def transpose(self) -> None:
        name, dims = self.chance.choice(self.data)
        order = self.chance.sample(range(len(dims)), len(dims))
        self.data.append((self.node("Transpose", name, perm=order), [dims[i] for i in order]))

    def merge_or_split(self) -> None:
        """A Reshape that joins two dimensions, or parts one of 8."""
        name, dims = self.chance.choice(self.data)
        target, shape = [], list[object]()
        index, left_out = 0, self.chance.random() < 0.5
        while index < len(dims):
            if dims[index] == 8 and self.chance.random() < 0.6:
                target += [self.integers([2]), self.integers([4])]
                shape += [2, 4]
            elif index + 1 < len(dims) and self.chance.random() < 0.3:
                target.append(self.product(self.dimension(name, index), self.dimension(name, index + 1)))
                shape.append(f"({dims[index]} * {dims[index + 1]})")
                index += 1
            else:
                target.append(self.dimension(name, index))
                shape.append(dims[index])
            index += 1
        if left_out:
            target[self.chance.randrange(len(target))] = self.integers([-1])
        listed = self.node("Concat", *target, axis=0)
        self.data.append((self.node("Reshape", name, listed, allowzero=0 if left_out else 1), shape))

    def product(self, a: str, b: str) -> str:
        found = self.node("Mul", a, b)
        self.sizes.append(found)
        return found

    def expand(self) -> None:
        """Expand by a list that torch guards against -1."""
        name, dims = self.chance.choice(self.data)
        listed = self.node("Concat", *[self.dimension(name, axis) for axis in range(len(dims))], axis=0)
        ones = self.node(
            "ConstantOfShape", self.integers([len(dims)]), value=numpy_helper.from_array(np.ones(1, np.int64))
        )
        negative = self.node("Equal", listed, self.node("Mul", ones, self.integers(-1)))
        self.data.append((self.node("Expand", name, self.node("Where", negative, ones, listed)), dims))

    def cut(self) -> None:
        """A slice to a dimension, its own or another's, or to one that is computed."""
        name, dims = self.chance.choice(self.data)
        axis = self.chance.randrange(len(dims))
        stop = self.dimension(name, axis)
        if self.chance.random() < 0.4:
            stop = self.node(self.chance.choice(["Sub", "Div", "Add"]), stop, self.integers([2]))
        start = self.integers([self.chance.choice([0, 0, 1])])
        steps = [self.integers([self.chance.choice([1, 1, 2]) for _ in range(1)])]
        cut = self.node("Slice", name, start, stop, self.integers([axis]), *steps)
        unknown = f"cut {len(self.nodes)}"
        self.data.append((cut, [unknown if i == axis else one for i, one in enumerate(dims)]))

    def positions(self) -> None:
        """0, 1, ... as many as a dimension, added to the tensor."""
        name, dims = self.chance.choice(self.data)
        count = self.node("Squeeze", self.dimension(name, len(dims) - 1), self.integers([0]))
        found = self.node("Range", self.integers(0), count, self.integers(1))
        self.data.append((self.node("Add", name, self.node("Cast", found, to=onnx.TensorProto.FLOAT)), dims))

    def calculate(self) -> None:
        name, dims = self.chance.choice(self.data)
        size = self.dimension(name, self.chance.randrange(len(dims)))
        if self.sizes and self.chance.random() < 0.5:
            size = self.chance.choice(self.sizes)
        if self.chance.random() < 0.3:
            size = self.node("Sub", self.integers([8]), size)
        op_type, other = self.chance.choice([("Mul", 3), ("Div", 2), ("Sub", 1), ("Mod", 3), ("Max", 2), ("Min", 3)])
        self.sizes.append(self.node(op_type, size, self.integers([other])))

    def windows(self) -> None:
        """A dimension padded to a multiple of 4, perhaps rolled, parted into windows, and perhaps put together again."""
        name, dims = self.chance.choice(self.data)
        axis = self.chance.randrange(len(dims))
        size, four = self.dimension(name, axis), self.integers([4])
        width = self.node("Mod", self.node("Sub", four, self.node("Mod", size, four)), four)
        zeros = [self.integers([0] * count) for count in (len(dims) + axis, len(dims) - axis - 1) if count]
        widths = self.node("Concat", *zeros[:1], width, *zeros[1:], axis=0)
        padded = self.node("Pad", name, widths)
        if self.chance.random() < 0.5:
            parts = [(1, 2**63 - 1), (0, 1)] if self.chance.random() < 0.5 else [(-3, 2**63 - 1), (0, -3)]
            cuts = [self.node("Slice", padded, *(self.integers([one]) for one in (*part, axis))) for part in parts]
            padded = self.node("Concat", *cuts, axis=axis)
        count = self.node("Div", self.dimension(padded, axis), four)
        target = [self.dimension(name, index) for index in range(len(dims))]
        parted = self.node("Concat", *target[:axis], count, four, *target[axis + 1 :], axis=0)
        shape = [*dims[:axis], f"windows of {dims[axis]}", 4, *dims[axis + 1 :]]
        found = self.node("Reshape", padded, parted, allowzero=1)
        if self.chance.random() < 0.5:
            whole = self.node("Concat", *target[:axis], self.dimension(padded, axis), *target[axis + 1 :], axis=0)
            joined = self.node("Reshape", self.node("Abs", found), whole, allowzero=1)
            found, shape = self.node("Slice", joined, self.integers([0]), size, self.integers([axis])), dims
        self.data.append((found, shape))

    def model(self, steps: int) -> onnx.ModelProto:
        """A model of so many steps that returns its last tensors and a list of all sizes."""
        choices = [
            self.unary,
            self.binary,
            self.transpose,
            self.merge_or_split,
            self.merge_or_split,
            self.expand,
            self.cut,
            self.windows,
            self.positions,
            self.calculate,
        ]
        for _ in range(steps):
            self.chance.choice(choices)()
        returned = [(name, onnx.TensorProto.FLOAT) for name, _ in self.data[-3:] if name not in ("x", "y")]
        if self.sizes:
            returned.append((self.node("Concat", *self.sizes, axis=0), onnx.TensorProto.INT64))
        inputs = [
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in (("x", X), ("y", Y))
        ]
        outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in returned]
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def inputs(shape: Sequence[int], seed: int) -> dict[str, np.ndarray]:
    """Random whole numbers for b, s and t, of which sums are exact in any order."""
    b, s, t = shape
    generator = np.random.default_rng(seed)
    return {
        "x": generator.integers(-9, 10, (b, s, 8)).astype(np.float32),
        "y": generator.integers(-9, 10, (b, t)).astype(np.float32),
    }
