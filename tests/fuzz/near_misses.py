"""Changes graphs that passes and rules match, and compares what is left with onnxruntime in both engines.

The graphs are the rows of ``tests/rows/idioms``. Each gets one to three changes of the sort that decides whether
a pattern applies: a number that is nearly the same, a constant of another shape, another axis, operands exchanged,
a related operator, a second reader, an input of another rank or with a dimension of 0 or 1. onnxruntime, its own
optimizations switched off, decides which of these graphs are models, and what they compute.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

import converter
import ir_runtime
from ir_runtime.graph import Array
from tests.engines import ENGINES, run, run_onnxruntime
from tests.rows.formula import Graph, Idiom, all_idioms
from tests.runtimes.check import known as tables_of_runtimes

Values = dict[str, Array]
_RELATED = [
    ("Add", "Sub", "Mul", "Div", "Max", "Min"),
    ("Sqrt", "Exp", "Reciprocal", "Neg", "Abs", "Erf", "Sigmoid", "Tanh", "Relu", "Softplus", "Identity", "Log"),
    ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "ReduceSumSquare", "ReduceMin", "ReduceProd", "ReduceL1"),
    ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"),
    ("Softmax", "LogSoftmax", "Hardmax"),
    ("MaxPool", "AveragePool"),
    ("ArgMax", "ArgMin"),
    ("And", "Or", "Xor"),
]
_FLAGS = ("keepdims", "ceil_mode", "largest", "sorted", "exclusive", "reverse", "transA", "transB")
_READS_PAST_ONE_KEY = "a_mask_of_more_keys_than_there_are", "a_mask_of_more_keys_than_there_are_in_equations"
"""Of static shapes the plug-in (2026.4) computes these scores of a single key from memory past the keys."""
_NOT_IN_OPENVINO = ("Cannot fallback on ngraph reference", "must be non negative value")
"""The messages of the plug-in for layers that it does not execute: kernels of unknown size, a negative epsilon."""
_NOT_OF_ONNX = ("name a dimension twice", "except for the concatenation axis must match")
"""onnxruntime accepts such axes, and empty tensors beside others of any dimensions; NumPy and ONNX's reference do not."""
_TOLERANCE = {np.dtype(np.float16): 1e-2, np.dtype(np.float32): 2e-4, np.dtype(np.float64): 2e-4}


@dataclass
class Outcome:
    """What came of one graph: ``same``, ``no model``, ``refused``, or a fault with its description."""

    verdict: str
    description: str = ""
    model: onnx.ModelProto | None = None


@functools.cache
def _rows() -> dict[str, Idiom]:
    """Return all rows but the near misses that the plug-in itself gets wrong."""
    known = "".join([*tables_of_runtimes()["openvino"], *_READS_PAST_ONE_KEY])
    right = {name: row for name, row in all_idioms("NEAR_MISSES").items() if name.replace(" ", "_") not in known}
    return {**all_idioms(), **right}


def near_miss(number: int, seed: int) -> tuple[str, onnx.ModelProto, Values]:
    """Return the name of a row and of its changes, its changed model, and inputs."""
    rng = random.Random(f"{seed} {number}")
    known = _rows()
    name = rng.choice(sorted(known))
    row = known[name]
    graph = Graph(rng.choice([dtype for dtype in row.types if dtype is not np.float64] or list(row.types)), rng)
    last = row.build(graph)
    model = graph.model(row, rng.random() < 0.5, last)
    values = dict(row.values(graph.dtype.type, rng.randrange(1000)))
    changes = rng.choices(_CHANGES, k=rng.choice((1, 1, 2, 3)))
    for change in changes:
        change(model.graph, values, rng)
    for value in model.graph.output:
        value.ClearField("type")  # which a related operator may have changed
    return ", ".join([f"{number}: {name}", *(change.__name__ for change in changes)]), model, values


def _constant(graph: onnx.GraphProto, rng: random.Random) -> tuple[onnx.TensorProto, Array]:
    """One of the initializers and its value, or one that nothing reads where there is none."""
    tensor = rng.choice(graph.initializer or [numpy_helper.from_array(np.float32(1.0), "unread")])
    return tensor, numpy_helper.to_array(tensor).copy()


def _replace(tensor: onnx.TensorProto, value: Array) -> None:
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), tensor.name))


def _input_of_a_node(graph: onnx.GraphProto, rng: random.Random) -> tuple[int, int]:
    """Return the place of a node and of one of its inputs; such a graph has one."""
    at = rng.choice([at for at, node in enumerate(graph.node) if node.input])
    return at, rng.randrange(len(graph.node[at].input))


def nearly_the_number(graph: onnx.GraphProto, values: Values, rng: random.Random) -> None:
    tensor, value = _constant(graph, rng)
    places = value.reshape(-1)
    if not places.size:
        return
    at = slice(None) if rng.random() < 0.5 else rng.randrange(places.size)
    if value.dtype.kind == "f":
        places[at] *= np.asarray(rng.choice((1.001, 0.5, 2.0, -1.0, 0.0, 1.1)), value.dtype)
    elif value.dtype.kind in "iu":
        at = rng.randrange(places.size)
        places[at] = np.asarray(int(places[at]) + rng.choice((-1, 1, -2))).astype(value.dtype)
    elif value.dtype.kind == "b":
        places[at] = ~places[at]
    _replace(tensor, value)


def another_shape(graph: onnx.GraphProto, values: Values, rng: random.Random) -> None:
    """A constant gains dimensions, repeats, or loses some; often all constants of one number in the same way."""
    ones, length = (1,) * rng.choice((1, 2, 3, 4, 5)), rng.choice((1, 2, 3, 4, 8))
    ways: list[Callable[[Array], Array]] = [
        lambda value: value.reshape(ones + value.shape),
        lambda value: value.reshape(value.shape + ones),
        lambda value: np.broadcast_to(value, (2, *ones[1:], *value.shape)),
        lambda value: value.squeeze() if 1 in value.shape else value[..., :1] if value.ndim else value,
        lambda value: np.repeat(value.reshape(1), length) if value.size == 1 else value,
        lambda value: np.repeat(value.reshape(1, 1), length, 0) if value.size == 1 else value,
    ]
    way, factors = rng.choice(ways), np.random.default_rng(rng.randrange(99)) if rng.random() < 0.5 else None
    chosen, _ = _constant(graph, rng)
    for tensor in graph.initializer if rng.random() < 0.4 else [chosen]:
        value = numpy_helper.to_array(tensor)
        if tensor is chosen or (value.size == 1 and value.dtype.kind == "f"):
            value = way(value).copy()
            if value.dtype.kind == "f" and value.size > 1 and factors is not None:
                value *= factors.uniform(0.5, 1.5, value.shape).astype(value.dtype)
            _replace(tensor, value)


def in_a_loop(graph: onnx.GraphProto, values: Values, rng: random.Random) -> None:
    """All nodes move into the body of a Loop, which reads the inputs from outside."""
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    kinds = {v.name: v.type.tensor_type.elem_type for v in onnx.shape_inference.infer_shapes(model).graph.output}
    inner = {value.name: f"{value.name} inside" for value in graph.output}
    if not all(kinds[name] for name in inner):
        return
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go on"], ["goes on"]), *graph.node],
        "body",
        [info("turn", 7, []), info("go on", 9, [])],
        [info("goes on", 9, []), *(info(inner[name], kinds[name], None) for name in inner)],
    )
    for node in body.node:
        node.input[:] = [inner.get(name, name) for name in node.input]
        node.output[:] = [inner.get(name, name) for name in node.output]
    graph.initializer.append(numpy_helper.from_array(np.int64(2), "turns"))
    del graph.node[:]
    graph.node.append(helper.make_node("Loop", ["turns", ""], list(inner), "loop", body=body))


def becomes_an_input(graph: onnx.GraphProto, values: Values, rng: random.Random) -> None:
    tensor, array = _constant(graph, rng)
    if tensor not in graph.initializer:
        return
    if array.dtype == np.int64:  # the plug-in computes with 32 bits, and wraps larger values of inputs
        array = array.clip(np.iinfo(np.int32).min, np.iinfo(np.int32).max)
    dims = [None if rng.random() < 0.3 else size for size in array.shape]
    graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, dims))
    values[tensor.name] = array
    graph.initializer.remove(tensor)


def operands_exchanged(graph: onnx.GraphProto, values: Values, rng: random.Random) -> None:
    node = rng.choice([node for node in graph.node if len(node.input) > 1] or [graph.node[0]])
    node.input[:] = rng.sample(list(node.input), len(node.input))


def related_operator(graph: onnx.GraphProto, values: Values, rng: random.Random) -> None:
    siblings = [(node, group) for node in graph.node for group in _RELATED if node.op_type in group]
    for node, group in siblings and [rng.choice(siblings)]:
        node.op_type = rng.choice([name for name in group if name != node.op_type])


def another_attribute(graph: onnx.GraphProto, values: Values, rng: random.Random) -> None:
    choices = [(node, attribute) for node in graph.node for attribute in node.attribute]
    for node, attribute in choices and [rng.choice(choices)]:
        if attribute.type == onnx.AttributeProto.INT:
            attribute.i = 1 - attribute.i if attribute.name in _FLAGS else attribute.i + rng.choice((-2, -1, 1))
        elif attribute.type == onnx.AttributeProto.FLOAT:
            attribute.f *= rng.choice((1.001, 0.5, -1.0, 2.0))
        elif attribute.type == onnx.AttributeProto.INTS and attribute.ints:
            ints = rng.sample(list(attribute.ints), len(attribute.ints))
            if rng.random() < 0.5:
                ints = list(attribute.ints)
                ints[rng.randrange(len(ints))] += rng.choice((-1, 1))
            attribute.ints[:] = ints
        elif rng.random() < 0.5:
            node.attribute.remove(attribute)


def second_reader(graph: onnx.GraphProto, values: Values, rng: random.Random) -> None:
    outputs = {value.name for value in graph.output}
    names = [name for node in graph.node for name in node.output if name and name not in outputs]
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in names and [rng.choice(names)])


def another_source(graph: onnx.GraphProto, values: Values, rng: random.Random) -> None:
    """A node reads another tensor that is computed before it."""
    at, index = _input_of_a_node(graph, rng)
    before = [value.name for value in graph.input]
    before += [name for other in graph.node[:at] for name in other.output if name]
    graph.node[at].input[index] = rng.choice(before)


def node_between(graph: onnx.GraphProto, values: Values, rng: random.Random) -> None:
    at, index = _input_of_a_node(graph, rng)
    op_type, name = rng.choice(("Identity", "Neg", "Transpose", "Abs", "Relu")), f"between{len(graph.node)}"
    graph.node.insert(at, helper.make_node(op_type, [graph.node[at].input[index]], [name], name))
    graph.node[at + 1].input[index] = name


def another_input_shape(graph: onnx.GraphProto, values: Values, rng: random.Random) -> None:
    """A dimension of 0 or 1 or another length, another rank, an undeclared one."""
    value = rng.choice(graph.input)
    array = values[value.name]
    shape, how = list(array.shape), rng.randrange(4)
    if how == 0:
        shape = [1, *shape]
    elif how == 1 and len(shape) > 1:
        shape = shape[1:]
    elif shape:
        shape[rng.randrange(len(shape))] = rng.choice((0, 1, 1, 2, 5))
    if array.dtype.kind == "f":
        values[value.name] = np.random.default_rng(rng.randrange(99)).normal(size=shape).astype(array.dtype)
    else:
        values[value.name] = np.resize(array, shape)
    dims = [size if rng.random() < 0.6 else None for size in shape]
    value.CopyFrom(helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, dims))


def large_values(graph: onnx.GraphProto, values: Values, rng: random.Random) -> None:
    name = rng.choice(sorted(values))
    if values[name].dtype.kind == "f":
        values[name] = values[name] * np.asarray(rng.choice((0.0, 30.0, 1e-4, 100.0)), values[name].dtype)


_CHANGES = (
    *(nearly_the_number, another_shape, becomes_an_input, operands_exchanged, related_operator, another_attribute),
    *(second_reader, another_source, node_between, another_input_shape, large_values, in_a_loop),
)


def outcome(number: int, seed: int, engines: Sequence[str] = ENGINES) -> Outcome:
    """Convert one changed graph and compare every output in each engine."""
    about, model, values = near_miss(number, seed)
    expected = _expected(model, values)
    is_empty = any(not array.size for array in values.values())
    if expected is None or (is_empty and b"ReduceMean" in model.SerializeToString()):  # which ONNX does not define
        return Outcome("no model")
    try:
        converted = converter.convert_model(model)
        ir = ir_runtime.model_to_bytes(converted)
    except converter.InternalError as error:
        return Outcome("fault", f"{about}: {error}", model)
    except (converter.ConversionError, ir_runtime.ModelError) as error:
        return Outcome("refused", f"{about}: {error}", model)
    has_no_rank = not all(output.shape.has_rank for node in converted.nodes() for output in node.outputs)
    is_wide = any(np.abs(array.astype(np.float64)).max(initial=0) > 2.0**62 for array in expected)
    if has_no_rank or (is_wide and any(array.dtype == np.int64 for array in values.values())):
        engines = [engine for engine in engines if engine != "openvino"]  # it needs ranks, and clips to 32 bits
    for engine in engines:
        try:
            results = run(engine, ir, values)
        except Exception as error:  # any error of an engine on a right model is a fault
            message = " ".join(str(error).split())[-300:]
            if any(text in message for text in _NOT_OF_ONNX):
                return Outcome("no model")
            if engine == "openvino" and any(text in message for text in _NOT_IN_OPENVINO):
                return Outcome("not in OpenVINO")
            return Outcome("fault", f"{about}: {engine}: {message}", model)
        for index, (result, wanted) in enumerate(zip(results, expected, strict=True)):
            problem = _difference(np.asarray(result), wanted)
            if problem:
                return Outcome("fault", f"{about}: {engine}: output {index}: {problem}", model)
    return Outcome("same")


def _expected(model: onnx.ModelProto, values: dict[str, Array]) -> list[Array] | None:
    try:
        results = run_onnxruntime(model, values)
    except Exception:  # whatever it says, it is no model
        return None
    usable = all(np.isfinite(one.astype(np.float64)).all() for one in results if one.dtype.kind == "f")
    return [np.asarray(one) for one in results] if usable else None


def _difference(result: Array, expected: Array) -> str:
    if result.dtype != expected.dtype or result.shape != expected.shape:
        return f"{result.dtype}{list(result.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if not expected.size:
        return ""
    if expected.dtype.kind != "f":
        return "" if np.array_equal(result, expected) else f"{int((result != expected).sum())} values differ"
    gap = np.abs(result.astype(np.float64) - expected.astype(np.float64))
    allowed = _TOLERANCE[expected.dtype] * max(1.0, float(np.abs(expected.astype(np.float64)).max()))
    worst = float(gap.max()) if np.isfinite(gap).all() else np.inf
    return "" if worst <= allowed else f"differs by {worst:.3g}, allowed {allowed:.3g}"
