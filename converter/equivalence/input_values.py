"""Values that an input can take by its graph: token ids below the rows of their table, masks, images, lengths.

An input that indexes a table must stay inside it, a mask is ones and then zeros, an image lies between 0 and 1.
Other values are refused, or saturate a model, which proves less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from converter.equivalence.onnx_graph import OnnxGraph
from converter.errors import VerificationError
from converter.onnx_file.messages import NodeProto, TensorProto
from ir_runtime.graph import Array, ElementType
from ir_runtime.graph.operation import Required
from ir_runtime.records import record

Make = Callable[[np.random.Generator, tuple[int, ...]], Array]


@record
class Values:
    """How to fill an input; ``meaning`` describes the values in messages."""

    meaning: str
    make: Make


NORMAL = Values("normal", lambda generator, shape: generator.standard_normal(shape))
ZEROS = Values("zeros", lambda _, shape: np.zeros(shape))
ONES = Values("ones", lambda _, shape: np.ones(shape))


def uniform(low: float, high: float) -> Values:
    """Real numbers from ``low`` to ``high``."""
    return Values(f"{low:g}..{high:g}", lambda generator, shape: generator.uniform(low, high, shape))


def whole_numbers(low: int, high: int) -> Values:
    """Whole numbers from ``low`` to ``high``, both included."""
    return Values(f"{low}..{high}", lambda generator, shape: generator.integers(low, high, shape, endpoint=True))


def fitting(required: Required) -> Values:
    """Whole numbers that fit what layers require."""

    def make(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        size = math.prod(shape)
        if required.total is not None and size:
            return generator.multinomial(required.total, np.full(size, 1 / size)).reshape(shape)
        if required.rising:
            return np.floor(np.linspace(required.low, required.high, size)).reshape(shape)
        if required.distinct:
            numbers = generator.permutation(np.arange(required.low, required.high + 1))
            return np.resize(numbers, shape)
        return generator.integers(required.low, max(required.low, required.high), shape, endpoint=True)

    return Values(f"{required.low}..{required.high}", make)


def _mask(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """In each row a random number of ones, at least one, then zeros."""
    if not shape:
        return np.ones(())
    lengths = generator.integers(1, max(1, shape[-1]), shape[:-1], endpoint=True)
    return (np.arange(shape[-1]) < lengths[..., None]).astype(np.int64)


MASK = Values("mask: ones, then zeros", _mask)


def default_values(element_type: ElementType) -> Values:
    """Values of a type where nothing more is known. Raises :class:`VerificationError` for types that have none."""
    if element_type.is_real:
        return NORMAL
    if element_type.category == "boolean":
        return Values("false or true", lambda generator, shape: generator.integers(0, 2, shape))
    if element_type.is_integral:
        # Small and not negative, because integers are indices more often than not.
        return whole_numbers(0, 1 if element_type.bits < 8 else 7)
    if element_type.name == "string":
        words = np.array(["alpha", "beta", "gamma"], np.object_)
        return Values("words", lambda generator, shape: words[generator.integers(0, 3, shape)])
    raise VerificationError(f"no random values can be made for an input of type {element_type}")


def parse_values(text: str) -> Values:
    """The values that ``zeros``, ``ones``, ``normal``, ``mask``, ``0..1`` or ``0..30521`` name.

    A range has whole numbers for inputs of integers, and real numbers for others. Raises
    :class:`VerificationError` for any other text.
    """
    named = {"zeros": ZEROS, "ones": ONES, "normal": NORMAL, "mask": MASK}
    if text in named:
        return named[text]
    low, dots, high = text.partition("..")
    try:
        if dots and float(low) <= float(high):
            return _range(float(low), float(high))
    except ValueError:
        pass
    raise VerificationError(
        f"values must be {', '.join(named)} or a range such as 0..1 whose first number is the smaller, not {text!r}"
    )


def _range(low: float, high: float) -> Values:
    return Values(f"{low:g}..{high:g}", lambda generator, shape: generator.uniform(low, high, shape))


def filled(values: Values, generator: np.random.Generator, shape: tuple[int, ...], element_type: ElementType) -> Array:
    """An array of ``element_type``; whole numbers where that is what the type holds."""
    array = np.asarray(values.make(generator, shape))
    if array.dtype.kind == "f" and (element_type.is_integral or element_type.category == "boolean"):
        array = np.floor(array + (0.5 if values.meaning != NORMAL.meaning else 0.0))
    return array.astype(element_type.dtype)


# Operators that only move values or change their type: the readers of their outputs count as readers of the input.
_PASSING = {"Identity", "Cast", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Transpose", "Expand", "Slice", "Tile"}
# operator -> (input of the indices, input of the table): indices are less than the number of the table's rows
_LOOK_UPS = {
    "Gather": [(1, 0)],
    "GatherBlockQuantized": [(1, 0)],
    "EmbedLayerNormalization": [(0, 2), (1, 4)],
    "SkipLayerNormalization": [],
}
_DIMENSIONS = {
    "Reshape": 1,
    "Expand": 1,
    "ConstantOfShape": 0,
    "Tile": 1,
    "TopK": 1,
    "Range": 1,
    "Resize": 3,
    "Upsample": 1,
    "Pad": 1,
}
"""Operators and the input that has the dimensions of their output."""
_LOWER_BOUNDS = {"Greater": 1, "GreaterOrEqual": 1, "Less": 0, "LessOrEqual": 0}
"""Comparisons and the operand that is a lower bound of the other one, where this is a table."""
_RATIOS = {"Dropout": 1}
"""Operators and the input that is a ratio, which is below 1."""
_LENGTHS = {"LSTM": 4, "GRU": 4, "RNN": 4}
_CHANNELS = (1, 3, 4)
_TOTALS = {"GroupQueryAttention": ({5: -1, 6: 0}, [(3, 2), (0, 1)])}
"""Operators with inputs that are a sum of dimensions: what is added to it by position of the input, then input and axis
of each dimension."""


def totals_of(graph: OnnxGraph) -> dict[str, tuple[int, list[tuple[str, int]]]]:
    """Return the inputs that must be a sum of dimensions by name: what is added to it, tensors and axes."""
    totals: dict[str, tuple[int, list[tuple[str, int]]]] = {}
    for node in graph.nodes:
        added, dimensions = _TOTALS.get(node.op_type, ({}, []))
        tensors = [(node.input[position], axis) for position, axis in dimensions if node.input[position]]
        totals.update((node.input[position], (number, tensors)) for position, number in added.items())
    return totals


def values_of(graph: OnnxGraph) -> dict[str, Values]:
    """The values of those inputs for which the graph shows what they hold."""
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.nodes:
        for name in dict.fromkeys(node.input):
            readers.setdefault(name, []).append(node)
    values_by_name: dict[str, Values] = {}
    for name, value in graph.inputs.items():
        tensor = value.type.tensor_type
        uses = _uses_of(graph, readers, name)
        shape = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
        is_whole = tensor.elem_type in _INTEGERS
        chosen = _integers(uses, name, shape) if is_whole else _reals(uses, name, tensor.elem_type, shape)
        if chosen is not None:
            values_by_name[name] = chosen
    return values_by_name


_INTEGERS = {TensorProto.INT64, TensorProto.INT32, TensorProto.INT16, TensorProto.INT8, TensorProto.UINT32}
_REALS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}


@dataclass
class _Uses:
    """The uses of an input of integers in the graph."""

    rows: int | None = None
    is_looked_up: bool = False
    is_dimension: bool = False
    is_length: bool = False
    is_mask: bool = False
    is_ratio: bool = False
    equal_to: list[Array] = field(default_factory=list)
    """Constants that it is compared with for equality."""
    bounded: Array | None = None
    """The table of which it is a bound, as the lowest and the highest pitch are of the pitches of a network."""
    is_lower_bound: bool = False


def _uses_of(graph: OnnxGraph, readers: Mapping[str, Sequence[NodeProto]], name: str) -> _Uses:
    uses = _Uses()
    pending, visited = [name], {name}
    while pending:
        current = pending.pop()
        for node in readers.get(current, ()):
            inputs = list(node.input)
            for position, table in _LOOK_UPS.get(node.op_type, ()):
                if table < len(inputs) and inputs[position] == current:
                    uses.is_looked_up = True
                    rows = _rows(graph, node, inputs[table])
                    if rows is not None:
                        uses.rows = rows if uses.rows is None else min(uses.rows, rows)
            if node.op_type == "OneHot" and inputs[0] == current:
                depth = _constant(graph, inputs[1])
                if depth is not None:
                    uses.is_looked_up, uses.rows = True, int(depth.reshape(-1)[0])
            uses.is_dimension |= _reads_at(inputs, current, _DIMENSIONS.get(node.op_type))
            uses.is_length |= _reads_at(inputs, current, _LENGTHS.get(node.op_type))
            uses.is_ratio |= _reads_at(inputs, current, _RATIOS.get(node.op_type))
            if node.op_type == "Equal" or node.op_type in _LOWER_BOUNDS:
                _compare_with_constant(uses, graph, node, inputs.index(current))
            uses.is_mask |= node.op_type == "Cast" and _casts_to(node) in (*_REALS, TensorProto.BOOL)
            uses.is_mask |= node.op_type == "EmbedLayerNormalization" and _reads_at(inputs, current, 7)
            if node.op_type in _PASSING and inputs[0] == current:
                new = [output for output in node.output if output not in visited]
                visited.update(new)
                pending.extend(new)
    return uses


def _compare_with_constant(uses: _Uses, graph: OnnxGraph, node: NodeProto, position: int) -> None:
    constant = _constant(graph, node.input[1 - position])
    if constant is None or not constant.size:
        return
    if node.op_type == "Equal":
        uses.equal_to.append(constant)
    elif constant.size > 1:
        uses.bounded, uses.is_lower_bound = constant, _LOWER_BOUNDS[node.op_type] == position


def _reads_at(inputs: Sequence[str], name: str, position: int | None) -> bool:
    return position is not None and position < len(inputs) and inputs[position] == name


def _rows(graph: OnnxGraph, node: NodeProto, table: str) -> int | None:
    if table not in graph.weights:
        constant = _constant(graph, table)
        shape: Sequence[int] | None = None if constant is None else constant.shape
    else:
        shape = graph.weights[table].dims
    axis = next((attribute.i for attribute in node.attribute if attribute.name in ("axis", "gather_axis")), 0)
    return None if not shape or not -len(shape) <= axis < len(shape) else int(shape[axis])


def _constant(graph: OnnxGraph, name: str) -> Array | None:
    if name in graph.weights:
        return graph.file.tensor(graph.weights[name]).array()
    index = graph.producer.get(name)
    if index is None or graph.nodes[index].op_type != "Constant":
        return None
    match = next((attribute for attribute in graph.nodes[index].attribute if attribute.name == "value"), None)
    return None if match is None else graph.file.tensor(match.t).array()


def _casts_to(node: NodeProto) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == "to"), 0)


def _integers(uses: _Uses, name: str, shape: Sequence[int | None]) -> Values | None:
    if uses.is_looked_up and uses.rows:
        return whole_numbers(0, uses.rows - 1)
    if uses.is_looked_up:
        return None
    if "mask" in name.lower() or (uses.is_mask and len(shape) > 1):
        return MASK
    if uses.is_length or uses.is_dimension:
        return whole_numbers(1, 2)
    if uses.equal_to and not shape:  # a switch; elements of tensors differ
        return _one_of(np.concatenate([constant.reshape(-1) for constant in uses.equal_to]))
    return None


def _one_of(numbers: Array) -> Values:
    meaning = " or ".join(str(number) for number in numbers)
    return Values(meaning, lambda generator, shape: generator.choice(numbers, shape))


def _reals(uses: _Uses, name: str, element_number: int, shape: Sequence[int | None]) -> Values | None:
    if element_number in _REALS and "mask" in name.lower():
        return MASK
    if uses.is_ratio:
        return uniform(0.0, 0.9)
    if uses.bounded is not None and not shape:
        low, middle, high = np.quantile(uses.bounded, [0.0, 0.5, 1.0])
        return uniform(low, middle) if uses.is_lower_bound else uniform(middle, high)
    if len(shape) not in (4, 3):
        return None
    # Three dimensions with one channel are a sequence more often than an image without a batch.
    channels = [shape[1], shape[-1]] if len(shape) == 4 else [c for c in (shape[0], shape[-1]) if c != 1]
    if not any(dimension in _CHANNELS for dimension in channels):
        return None
    if element_number == TensorProto.UINT8:
        return whole_numbers(0, 255)
    return uniform(0.0, 1.0) if element_number in _REALS else None
