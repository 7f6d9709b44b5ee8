"""ONNX graphs written as formulas, and what a row of an idiom holds."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Shape = Sequence[int]


class Graph:
    """Nodes of an ONNX graph as one writes formulas; the inputs are called as the row calls them, the first ``x``."""

    def __init__(self, dtype: Any = np.float32) -> None:
        self.dtype = np.dtype(dtype)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def __call__(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """The output of a new node."""
        return self.outputs(op_type, *inputs, count=1, **attributes)[0]

    def outputs(self, op_type: str, *inputs: str, count: int, **attributes: Any) -> list[str]:
        """The outputs of a new node that has ``count`` of them."""
        name = f"t{len(self.nodes)}"
        names = [name] if count == 1 else [f"{name}_{index}" for index in range(count)]
        self.nodes.append(helper.make_node(op_type, inputs, names, f"node {name}", **attributes))
        return names

    def constant(self, value: Any, dtype: Any = None) -> str:
        """A new initializer, of the model's type unless told."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype or self.dtype), name))
        return name

    def integers(self, value: Any) -> str:
        """A new initializer of int64."""
        return self.constant(value, np.int64)

    def either_way(self, op_type: str, a: str, b: str, chance: random.Random) -> str:
        """A commutative operator, its inputs in any order."""
        return self(op_type, *chance.sample([a, b], 2))

    def scaled(self, value: str, factor: float, chance: random.Random) -> str:
        """A value times a number, written as a product or as a quotient."""
        if chance.random() < 0.5:
            return self("Div", value, self.constant(1 / factor))
        return self.either_way("Mul", value, self.constant(factor), chance)

    def model(self, row: Row, dynamic: bool, *outputs: str) -> onnx.ModelProto:
        """The model that returns ``outputs``; with ``dynamic`` the first dimension of each input is."""
        model = self._model(row, dynamic, outputs[:1], {})
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        found = {info.name: info.type.tensor_type.elem_type for info in inferred.graph.value_info}
        return self._model(row, dynamic, outputs, found)

    def _model(self, row: Row, dynamic: bool, outputs: Sequence[str], types: Mapping[str, int]) -> onnx.ModelProto:
        inputs = []
        for name, shape in row.inputs.items():
            dims: list[Any] = list(shape)
            if dynamic and row.may_be_dynamic and dims:
                dims[0] = None
            inputs.append(helper.make_tensor_value_info(name, self._type(row.dtypes.get(name, self.dtype)), dims))
        own = self._type(self.dtype)
        returned = [helper.make_tensor_value_info(name, types.get(name, own), None) for name in outputs]
        graph = helper.make_graph(self.nodes, "g", inputs, returned, self.constants)
        opset = helper.make_opsetid("", row.opset)
        return helper.make_model(graph, opset_imports=[opset], ir_version=9)

    @property
    def distinct(self) -> int:
        """How many nodes there are if each expression counts once."""
        known: dict[str, object] = {}
        seen: dict[object, Sequence[str]] = {}
        for tensor in self.constants:
            value = numpy_helper.to_array(tensor)
            known[tensor.name] = (value.dtype, value.shape, value.tobytes())
        for node in self.nodes:
            inputs = [known.get(name, name) for name in node.input]
            first = seen.setdefault((node.op_type, *inputs, *map(str, node.attribute)), list(node.output))
            known.update(zip(node.output, first))
        return len(seen)

    @staticmethod
    def _type(dtype: Any) -> int:
        return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


Build = Callable[[Graph, random.Random], str]


@dataclass(frozen=True, kw_only=True)
class Row:
    """``build`` writes the graph; ``inputs`` have the shapes of a run, ``dtypes`` types other than the model's."""

    build: Build
    inputs: Mapping[str, Shape] = field(default_factory=lambda: {"x": (2, 3, 8)})
    dtypes: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 14
    may_be_dynamic: bool = True
    """Whether the pattern is found where the first dimension of each input is dynamic."""

    def values(self, dtype: Any, seed: int = 3) -> dict[str, np.ndarray]:
        """Random inputs."""
        generator = np.random.default_rng(seed)
        values = {}
        for name, shape in self.inputs.items():
            chosen = np.dtype(self.dtypes.get(name, dtype))
            if chosen.kind == "b":
                values[name] = generator.random(shape) < 0.7
            elif chosen.kind in "iu":
                values[name] = generator.integers(0, 5, shape).astype(chosen)
            else:
                values[name] = generator.normal(size=shape).astype(chosen)
        return values


@dataclass(frozen=True, kw_only=True)
class Idiom(Row):
    """What is spelled out becomes the layers ``becomes``, in order; constants, inputs and results do not count."""

    becomes: Sequence[str]
    dtypes_of_model: Sequence[Any] = (np.float32, np.float16, np.float64)
    tolerance: float = 2e-5
    """Relative and absolute, for floats of 32 and 64 bits; 16 bits have 4e-3."""


WIDE = (np.float32, np.float64)
"""The types of weights that take factors: those of float16 would be rounded a second time."""


@dataclass(frozen=True, kw_only=True)
class NearMiss(Row):
    """What looks like an idiom and means something else: there is no layer ``absent``, or there are ``count`` layers."""

    dtype: Any = np.float32
    absent: str | None = None
    count: int | None = None
    engines: Sequence[str] = ("numpy", "openvino")
    """Engines that compute it right: the plug-in takes some near misses for the idiom."""

    def __post_init__(self) -> None:
        assert (self.absent is None) != (self.count is None), "a near miss has one expectation"
