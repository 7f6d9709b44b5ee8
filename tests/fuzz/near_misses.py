"""Changes graphs that passes and rules match, and compares what is left with onnxruntime in both engines.

The graphs are the rows of ``tests/rows/idioms``. Each gets one to three changes of the sort that decides whether
a pattern applies: a number that is nearly the same, a constant of another shape, another axis, operands exchanged,
a related operator, a second reader, an input of another rank or with a dimension of 0 or 1. onnxruntime, its own
optimizations switched off, decides which of these graphs are models, and what they compute.

    python -m tests.fuzz.near_misses --count 1000 --seed 1 [--first 0] [--engines numpy,openvino]
"""

from __future__ import annotations

import argparse
import functools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import converter
import ir_runtime
from tests.engines import ENGINES, run, run_onnxruntime
from tests.rows.formula import Graph, Idiom, all_idioms
from tests.runtimes.check import known as tables_of_runtimes

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
_SIBLINGS = {name: [other for other in group if other != name] for group in _RELATED for name in group}
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


def near_miss(number: int, seed: int) -> tuple[str, onnx.ModelProto, dict[str, np.ndarray], list[str]]:
    """Return a row's name, its changed model, inputs, and the changes in words."""
    rng = random.Random(f"{seed} {number}")
    known = _rows()
    name = rng.choice(sorted(known))
    row = known[name]
    graph = Graph(rng.choice([dtype for dtype in row.types if dtype is not np.float64] or list(row.types)), rng)
    last = row.build(graph)
    model = graph.model(row, rng.random() < 0.5, last)
    values = dict(row.values(graph.dtype.type, rng.randrange(1000)))
    words = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        change = rng.choice(_CHANGES)
        words.append(f"{change.__name__}: {change(model, values, rng)}")
    for value in model.graph.output:
        value.ClearField("type")  # which a related operator may have changed
    return name, model, values, words


def _nearly_the_number(model: onnx.ModelProto, values: dict[str, Any], rng: random.Random) -> str:
    tensor = _constant(model, rng)
    value = numpy_helper.to_array(tensor).copy()
    if value.dtype.kind == "f":
        how = rng.choice((1.001, 0.5, 2.0, -1.0, 0.0, 1.1))
        changed = np.asarray(value * np.asarray(how, value.dtype))
        if value.size > 1 and rng.random() < 0.5:
            at = rng.randrange(value.size)
            changed = value.copy()
            changed.reshape(-1)[at] *= np.asarray(how, value.dtype)
    elif value.dtype.kind in "iu":
        changed, at = value.copy(), rng.randrange(max(value.size, 1))
        if value.size:
            changed.reshape(-1)[at] = np.asarray(int(value.reshape(-1)[at]) + rng.choice((-1, 1, -2))).astype(
                value.dtype
            )
    else:
        changed = ~value if value.dtype.kind == "b" else value
    _replace(tensor, changed)
    return tensor.name


def _another_shape(model: onnx.ModelProto, values: dict[str, Any], rng: random.Random) -> str:
    """A scalar becomes a vector or gains dimensions, a vector moves to another axis or repeats."""
    tensor = _constant(model, rng)
    value = numpy_helper.to_array(tensor).copy()
    how = rng.randrange(5)
    length = rng.choice((1, 2, 3, 4, 8))
    if how == 0:
        value = value.reshape((1,) * rng.choice((1, 2, 4)) + value.shape)
    elif how == 1 and value.size == 1:
        value = np.repeat(value.reshape(1), length)
    elif how == 2 and value.size == 1:
        value = np.repeat(value.reshape(1), length).reshape(length, 1)
    elif how == 3:
        value = value.reshape(*value.shape, *(1,) * rng.choice((1, 2)))
    elif value.ndim:
        value = value.squeeze() if 1 in value.shape else value[..., :1]
    if value.dtype.kind == "f" and value.size > 1 and rng.random() < 0.7:
        value = value * np.random.default_rng(rng.randrange(99)).uniform(0.5, 1.5, value.shape).astype(value.dtype)
    _replace(tensor, value)
    return f"{tensor.name} {value.shape}"


def _more_dimensions(model: onnx.ModelProto, values: dict[str, Any], rng: random.Random) -> str:
    """Constants of one number get the same number of dimensions, up to more than the data have."""
    rank = rng.choice((0, 1, 3, 4, 5))
    for tensor in model.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.dtype.kind == "f" and value.size == 1 and rng.random() < 0.7:
            _replace(tensor, value.reshape((1,) * rank))
    return f"rank {rank}"


def _wider(model: onnx.ModelProto, values: dict[str, Any], rng: random.Random) -> str:
    """A constant repeats along a new dimension in front, with equal or with other values."""
    tensor = _constant(model, rng)
    value = numpy_helper.to_array(tensor)
    if value.dtype.kind == "f":
        value = np.broadcast_to(value, (2, *(1,) * rng.randrange(3), *value.shape)).copy()
        value[0] *= np.asarray(rng.choice((1, 0.5)), value.dtype)
        _replace(tensor, value)
    return f"{tensor.name} {value.shape}"


def _in_a_loop(model: onnx.ModelProto, values: dict[str, Any], rng: random.Random) -> str:
    """All nodes move into the body of a Loop, which reads the inputs from outside."""
    graph = model.graph
    types = {value.name: value.type for value in onnx.shape_inference.infer_shapes(model).graph.output}
    if any(not types[value.name].tensor_type.elem_type for value in graph.output):
        return ""
    inner = {value.name: f"{value.name} inside" for value in graph.output}
    body = helper.make_graph(
        [helper.make_node("Identity", ["go on"], ["goes on"]), *graph.node],
        "body",
        [helper.make_tensor_value_info("turn", 7, []), helper.make_tensor_value_info("go on", 9, [])],
        [
            helper.make_tensor_value_info("goes on", 9, []),
            *(helper.make_tensor_value_info(inner[name], types[name].tensor_type.elem_type, None) for name in inner),
        ],
    )
    for node in body.node:
        node.input[:] = [inner.get(name, name) for name in node.input]
        node.output[:] = [inner.get(name, name) for name in node.output]
    graph.initializer.append(numpy_helper.from_array(np.int64(2), "turns"))
    del graph.node[:]
    graph.node.append(helper.make_node("Loop", ["turns", ""], list(inner), "loop", body=body))
    return ", ".join(inner)


def _becomes_an_input(model: onnx.ModelProto, values: dict[str, Any], rng: random.Random) -> str:
    if not model.graph.initializer:
        return ""
    tensor = _constant(model, rng)
    array = numpy_helper.to_array(tensor)
    if array.dtype == np.int64:  # the plug-in computes with 32 bits, and wraps larger values of inputs
        array = array.clip(np.iinfo(np.int32).min, np.iinfo(np.int32).max)
    model.graph.initializer.remove(next(one for one in model.graph.initializer if one.name == tensor.name))
    dims = [None if rng.random() < 0.3 else size for size in array.shape]
    model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, dims))
    values[tensor.name] = array
    return tensor.name


def _operands_exchanged(model: onnx.ModelProto, values: dict[str, Any], rng: random.Random) -> str:
    node = rng.choice([node for node in model.graph.node if len(node.input) > 1] or [model.graph.node[0]])
    names = list(node.input)
    rng.shuffle(names)
    node.input[:] = names
    return node.name


def _related_operator(model: onnx.ModelProto, values: dict[str, Any], rng: random.Random) -> str:
    node = rng.choice([node for node in model.graph.node if node.op_type in _SIBLINGS] or [model.graph.node[0]])
    before = node.op_type
    node.op_type = rng.choice(_SIBLINGS.get(before, [before]))
    return f"{node.name} {before} to {node.op_type}"


def _another_attribute(model: onnx.ModelProto, values: dict[str, Any], rng: random.Random) -> str:
    choices = [(node, attribute) for node in model.graph.node for attribute in node.attribute]
    if not choices:
        return ""
    node, attribute = rng.choice(choices)
    if attribute.type == onnx.AttributeProto.INT:
        flag = attribute.name in _FLAGS
        attribute.i = 1 - attribute.i if flag else attribute.i + rng.choice((-2, -1, 1))
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f *= rng.choice((1.001, 0.5, -1.0, 2.0))
    elif attribute.type == onnx.AttributeProto.INTS and attribute.ints:
        ints = list(attribute.ints)
        if rng.random() < 0.5:
            rng.shuffle(ints)
        else:
            at = rng.randrange(len(ints))
            ints[at] += rng.choice((-1, 1))
        attribute.ints[:] = ints
    elif rng.random() < 0.5:
        node.attribute.remove(attribute)
    return f"{node.name} {attribute.name}"


def _second_reader(model: onnx.ModelProto, values: dict[str, Any], rng: random.Random) -> str:
    outputs = {value.name for value in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name and name not in outputs]
    if not names:
        return ""
    name = rng.choice(names)
    model.graph.output.append(onnx.ValueInfoProto(name=name))
    return name


def _another_source(model: onnx.ModelProto, values: dict[str, Any], rng: random.Random) -> str:
    """A node reads another tensor that is computed before it."""
    at = rng.randrange(len(model.graph.node))
    node = model.graph.node[at]
    if not node.input:
        return ""
    before = [value.name for value in model.graph.input]
    before += [name for other in model.graph.node[:at] for name in other.output if name]
    index = rng.randrange(len(node.input))
    node.input[index] = rng.choice(before)
    return f"{node.name} input {index} is {node.input[index]}"


def _node_between(model: onnx.ModelProto, values: dict[str, Any], rng: random.Random) -> str:
    at = rng.randrange(len(model.graph.node))
    node = model.graph.node[at]
    if not node.input:
        return ""
    index = rng.randrange(len(node.input))
    op_type = rng.choice(("Identity", "Neg", "Transpose", "Abs", "Relu"))
    name = f"between{len(model.graph.node)}"
    model.graph.node.insert(at, helper.make_node(op_type, [node.input[index]], [name], name))
    model.graph.node[at + 1].input[index] = name
    return f"{op_type} before {node.name} input {index}"


def _another_input_shape(model: onnx.ModelProto, values: dict[str, Any], rng: random.Random) -> str:
    """A dimension of 0 or 1 or another length, another rank, an undeclared one."""
    value = rng.choice(model.graph.input)
    array = values[value.name]
    shape = list(array.shape)
    how = rng.randrange(4)
    if how == 0:
        shape = [1, *shape]
    elif how == 1 and len(shape) > 1:
        shape = shape[1:]
    elif shape:
        shape[rng.randrange(len(shape))] = rng.choice((0, 1, 1, 2, 5))
    if array.dtype.kind == "f":
        array = np.random.default_rng(rng.randrange(99)).normal(size=shape).astype(array.dtype)
    else:
        array = np.resize(array, shape)
    values[value.name] = array
    dims = value.type.tensor_type.shape
    dims.Clear()
    for size in shape:
        dimension = dims.dim.add()
        if rng.random() < 0.6:
            dimension.dim_value = size
    return f"{value.name} {shape}"


def _large_values(model: onnx.ModelProto, values: dict[str, Any], rng: random.Random) -> str:
    name = rng.choice(sorted(values))
    if values[name].dtype.kind != "f":
        return ""
    scale = rng.choice((0.0, 30.0, 1e-4, 100.0))
    values[name] = values[name] * np.asarray(scale, values[name].dtype)
    return f"{name} times {scale}"


_CHANGES: Sequence[Callable[[onnx.ModelProto, dict[str, Any], random.Random], str]] = (
    *(_nearly_the_number, _another_shape, _becomes_an_input, _operands_exchanged, _related_operator),
    *(_another_attribute, _second_reader, _another_source, _node_between, _another_input_shape, _large_values),
    *(_more_dimensions, _wider, _in_a_loop),
)


def _constant(model: onnx.ModelProto, rng: random.Random) -> onnx.TensorProto:
    """One of the initializers, or one that nothing reads where there is none."""
    return rng.choice(model.graph.initializer or [numpy_helper.from_array(np.float32(1.0), "unread")])


def _replace(tensor: onnx.TensorProto, value: np.ndarray) -> None:
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), tensor.name))


def outcome(number: int, seed: int, engines: Sequence[str] = ENGINES) -> Outcome:
    """Convert one changed graph and compare every output in each engine."""
    name, model, values, words = near_miss(number, seed)
    about = f"{number}: {name}: {'; '.join(words)}"
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
    if not all(output.shape.has_rank for node in converted.nodes() for output in node.outputs):
        engines = [engine for engine in engines if engine != "openvino"]  # it needs the rank of every value
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


def _expected(model: onnx.ModelProto, values: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    try:
        results = run_onnxruntime(model, values)
    except Exception:  # whatever it says, it is no model
        return None
    usable = all(np.isfinite(one.astype(np.float64)).all() for one in results if one.dtype.kind == "f")
    return [np.asarray(one) for one in results] if usable else None


def _difference(result: np.ndarray, expected: np.ndarray) -> str:
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


def main() -> None:
    """Print each fault and how many there are of each outcome."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--engines", default=",".join(ENGINES))
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    for number in range(arguments.first, arguments.first + arguments.count):
        result = outcome(number, arguments.seed, arguments.engines.split(","))
        counts[result.verdict] += 1
        if result.description:
            print(f"{result.verdict} {result.description}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
