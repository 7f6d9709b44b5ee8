"""Graphs written as formulas, and what exporters spell out with them: an idiom in many spellings, as rows.

    def softplus(g: Graph, one: float = 1) -> Value:
        return g.Log(g.Exp(g.x) + one)

    IDIOMS = {"softplus": Idiom(softplus, "SoftPlus")}
    NEAR_MISSES = {"another softplus": Idiom(lambda g: softplus(g, one=2), absent="SoftPlus")}
    ROWS = spelled(IDIOMS, NEAR_MISSES)

Sums and products get their operands in any order. Numbers and arrays of floats are constants of the model's type; lists
of integers, and NumPy's own integers and booleans, stay what they are.
"""

from __future__ import annotations

import functools
import importlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.graphs import Value
from tests.rows.row import REFERENCE, Row, Tolerance

Shape = Sequence[int]
X: Mapping[str, Shape] = {"x": (2, 3, 8)}
FLOATS = (np.float32, np.float16, np.float64)
WIDE = (np.float32, np.float64)
"""The types of weights that take factors: those of float16 would be rounded a second time."""


class Graph:
    """Nodes of an ONNX graph: ``g.Relu(x)`` adds one, ``g.x`` is an input; ``chance`` chooses among spellings."""

    def __init__(self, dtype: Any = np.float32, chance: random.Random | None = None) -> None:
        self.dtype = np.dtype(dtype)
        self.kind = int(helper.np_dtype_to_tensor_dtype(self.dtype))
        self.chance = chance or random.Random(0)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def __getattr__(self, name: str) -> Any:
        return functools.partial(self.node, name) if name[0].isupper() else self[name]

    def __getitem__(self, name: str) -> Value:
        value = Value(name)
        value.graph = self
        return value

    def __call__(self, op_type: str, *inputs: Any) -> Value:
        return (self.either if op_type in ("Add", "Mul") else self.node)(op_type, *inputs)

    def node(self, op_type: str, *inputs: Any, **attributes: Any) -> Value:
        name = f"t{len(self.nodes)}"
        names = [self.name_of(value) for value in inputs]
        self.nodes.append(helper.make_node(op_type, names, [name], f"node {name}", **attributes))
        return self[name]

    def name_of(self, value: Any) -> str:
        """Return the name of a value, "" for None, or that of a new initializer."""
        if isinstance(value, Value) or value is None:
            return value or ""
        array = np.asarray(value)
        is_number = array.dtype.kind == "f" or type(value) in (int, float)
        self.constants.append(numpy_helper.from_array(array.astype(self.dtype if is_number else array.dtype), ""))
        self.constants[-1].name = f"c{len(self.constants) - 1}"
        return self.constants[-1].name

    def either(self, op_type: str, a: Any, b: Any) -> Value:
        """A commutative operator, its inputs in any order."""
        return self.node(op_type, *self.chance.sample([a, b], 2))

    def one_of(self, *ways: Callable[[], Value]) -> Value:
        """One of several spellings."""
        return self.chance.choice(ways)()

    def scaled(self, value: Value, factor: float) -> Value:
        """A value times a number, written as a product or as a quotient."""
        return self.one_of(lambda: value / (1 / factor), lambda: value * factor)

    def square(self, value: Value) -> Value:
        return self.one_of(lambda: value * value, lambda: self.Pow(value, 2))

    def random(self, low: float, high: float, *shape: int) -> np.ndarray[Any, Any]:
        return np.random.default_rng(self.chance.randrange(1000)).uniform(low, high, shape)

    def weights(self, *shape: int) -> np.ndarray[Any, Any]:
        return self.random(-0.5, 0.5, *shape)

    def factors(self, *shape: int) -> np.ndarray[Any, Any]:
        """Between 0.5 and 1.5 in size, of both signs."""
        return self.random(0.5, 1.5, *shape) * np.sign(self.weights(*shape))

    def model(self, row: Idiom, dynamic: bool, *outputs: Value | str) -> onnx.ModelProto:
        """The model that returns ``outputs``; with ``dynamic`` the first dimension of each input is."""
        names = list(outputs)
        inferred = onnx.shape_inference.infer_shapes(self._model(row, dynamic, names[:1], {}), strict_mode=True)
        types = {info.name: info.type.tensor_type.elem_type for info in inferred.graph.value_info}
        return self._model(row, dynamic, names, types)

    def _model(self, row: Idiom, dynamic: bool, outputs: Sequence[str], types: Mapping[str, int]) -> onnx.ModelProto:
        inputs = []
        for name, shape in row.inputs.items():
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(row.dtypes.get(name, self.dtype)))
            dims = [None if axis == 0 and dynamic and row.may_be_dynamic else size for axis, size in enumerate(shape)]
            inputs.append(helper.make_tensor_value_info(name, kind, dims))
        returned = [helper.make_tensor_value_info(name, types.get(name, self.kind), None) for name in outputs]
        graph = helper.make_graph(self.nodes, "g", inputs, returned, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", row.opset)], ir_version=9)

    @property
    def distinct(self) -> int:
        """How many nodes there are if each expression counts once."""
        known: dict[str, object] = {
            tensor.name: (tensor.data_type, *tensor.dims, tensor.raw_data) for tensor in self.constants
        }
        seen: dict[object, str] = {}
        for node in self.nodes:
            inputs = [known.get(name, name) for name in node.input]
            known[node.output[0]] = seen.setdefault((node.op_type, *inputs, *map(str, node.attribute)), node.output[0])
        return len(seen)


@dataclass(frozen=True, eq=False)
class Idiom:
    """What is spelled out: it becomes the layers ``becomes``; of a near miss there are ``count``, or none ``absent``."""

    build: Callable[[Graph], Value]
    becomes: str = ""
    inputs: Mapping[str, Shape] = field(default_factory=lambda: X)
    dtypes: Mapping[str, Any] = field(default_factory=dict)
    """Types of inputs other than the model's."""
    absent: str = ""
    count: int | None = None
    types: Sequence[Any] = ()
    """Types of the model: of idioms all floats, of near misses float32."""
    tolerance: float = 2e-5
    """Relative and absolute, for floats of 32 and 64 bits; 16 bits have 4e-3."""
    opset: int = 14
    may_be_dynamic: bool = True
    """Whether the pattern is found where the first dimension of each input is dynamic."""

    def __post_init__(self) -> None:
        assert bool(self.becomes) + bool(self.absent) + (self.count is not None) == 1, "an idiom has one expectation"
        object.__setattr__(self, "types", self.types or (FLOATS if self.becomes else (np.float32,)))

    @property
    def layers(self) -> list[str]:
        return self.becomes.split()

    def written(self, seed: int, dtype: Any = np.float32) -> tuple[Graph, Value]:
        """A spelling of it, and the last value."""
        graph = Graph(dtype, random.Random(seed))
        return graph, self.build(graph)

    def model(self, seed: int, dtype: Any = np.float32, dynamic: bool | None = None, also: str = "") -> onnx.ModelProto:
        """The model of a spelling, dynamic for every other seed; ``also`` is a second output."""
        graph, last = self.written(seed, dtype)
        return graph.model(self, bool(seed % 2) if dynamic is None else dynamic, last, *filter(None, [also]))

    @functools.cache  # noqa: B019
    def values(self, dtype: Any, seed: int = 3) -> dict[str, np.ndarray[Any, Any]]:
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
                values[name] = np.asarray(generator.normal(size=shape), chosen)
        return values

    def row(self, name: str, group: str, seed: int, dtype: Any, also: str = "", **what: Any) -> Row:
        dynamic = {"inner": False, "near_miss": True}.get(group)
        size = 4e-3 if np.dtype(dtype).itemsize == 2 else self.tolerance
        label = f"{name.replace(' ', '_')}-{np.dtype(dtype)}-{seed}{also and '-'}{also}"
        return Row(
            label, name, self.opset, self.values(dtype), group=group, tolerance=Tolerance(size, size),
            make=functools.partial(self.model, seed, dtype, dynamic, also),
            expect=REFERENCE if np.dtype(dtype) == np.float64 else None, **what,
        )  # fmt: skip


def spelled(idioms: Mapping[str, Idiom], near_misses: Mapping[str, Idiom]) -> list[Row]:
    """Twelve spellings of each idiom in each type, one with each inner value as a second output, six of near misses.

    onnxruntime computes what is expected; onnx's evaluator of doubles, which onnxruntime has few kernels for.
    """
    found = []
    for name, row in idioms.items():
        found += [row.row(name, "idiom", seed, dtype, layers=row.layers) for dtype in row.types for seed in range(12)]
        graph, last = row.written(1)
        inner = [node.output[0] for node in graph.nodes if node.output[0] != last]
        found += [row.row(name, "inner", 1, np.float32, value) for value in inner]
    for name, row in near_misses.items():
        what = {"absent": row.absent, "count": row.count}
        found += [row.row(name, "near_miss", seed, row.types[0], **what) for seed in range(6)]
    return found


def all_idioms(kind: str = "IDIOMS") -> dict[str, Idiom]:
    """The ``IDIOMS`` or ``NEAR_MISSES`` of every module of ``tests/rows/idioms``."""
    return dict(_idioms(kind))


def _idioms(kind: str) -> Iterator[tuple[str, Idiom]]:
    for path in sorted((Path(__file__).parent / "idioms").glob("*.py")):
        yield from getattr(importlib.import_module(f"tests.rows.idioms.{path.stem}"), kind).items()
