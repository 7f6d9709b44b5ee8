"""Values that an input can take by its graph: token ids below the rows of their table, masks, images, lengths.

An input that indexes a table must stay inside it, a mask is ones and then zeros, an image lies between 0 and 1.
Other values are refused, or saturate a model, which proves less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from converter.equivalence.reference.reference_model import PASSING, ReferenceModel, listed_inputs
from converter.errors import VerificationError
from converter.onnx_file.graph import operator_of
from converter.onnx_file.messages import TensorProto
from ir_runtime.graph import Array, ElementType, Node, Output
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


_SMALL = {
    "ConstantOfShape": 0,
    "Expand": 1,
    "GRU": 4,
    "LSTM": 4,
    "Pad": 1,
    "RNN": 4,
    "Range": 1,
    "Reshape": 1,
    "Resize": 3,
    "Tile": 1,
    "TopK": 1,
    "Upsample": 1,
}
"""Operators and the input that has dimensions of their output, or lengths of sequences."""
_LOWER_BOUNDS = {"Greater": 1, "GreaterOrEqual": 1, "Less": 0, "LessOrEqual": 0}
"""Comparisons and the operand that is a lower bound of the other one, where this is a table."""
_RATIOS = {"Dropout": 1}
"""Operators and the input that is a ratio, which is below 1."""
_MASKS = {"EmbedLayerNormalization": 7}
"""Operators and the input that is a mask."""
_CHANNELS = (1, 3, 4)
_TOTALS = {"GroupQueryAttention": ({5: -1, 6: 0}, [(3, 2), (0, 1)])}
"""Operators with inputs that are a sum of dimensions: what is added to it by position of the input, then input and axis
of each dimension."""
_INTEGERS = {TensorProto.INT64, TensorProto.INT32, TensorProto.INT16, TensorProto.INT8, TensorProto.UINT32}
_REALS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}

Use = tuple[Node, str, int]
"""A node that reads a tensor, the type of its operator, and the position of the input."""


def totals_of(model: ReferenceModel) -> dict[str, tuple[int, list[tuple[str, int]]]]:
    """Return the inputs that must be a sum of dimensions by name: what is added to it, tensors and axes."""
    totals: dict[str, tuple[int, list[tuple[str, int]]]] = {}
    for node in model.operators:
        added, dimensions = _TOTALS.get(operator_of(node).op_type, ({}, []))
        inputs = listed_inputs(node) if added else []
        tensors = [(value.names[0], axis) for position, axis in dimensions if (value := inputs[position]) is not None]
        for position, number in added.items():
            value = inputs[position]
            if value is not None:
                totals[value.names[0]] = number, tensors
    return totals


def values_of(model: ReferenceModel) -> dict[str, Values]:
    """The values of those inputs for which the graph shows what they mean.

    What the layers of the IR require of them, such as indices, is left out:
    see :mod:`converter.equivalence.inputs.required_values`.
    """
    values_by_name: dict[str, Values] = {}
    for name, value in model.inputs.items():
        tensor = value.type.tensor_type
        uses = list(_uses(model.tensors[name]))
        shape = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
        is_whole = tensor.elem_type in _INTEGERS
        chosen = _integers(uses, name, shape) if is_whole else _reals(uses, name, tensor.elem_type, shape)
        if chosen is not None:
            values_by_name[name] = chosen
    return values_by_name


def _uses(start: Output) -> Iterator[Use]:
    """The nodes that read a tensor, those behind nodes that only move its values or change their type included."""
    pending, visited = [start], {start}
    while pending:
        current = pending.pop()
        for node in dict.fromkeys(current.uses):
            operator = operator_of(node)
            yield from (
                (node, operator.op_type, position)
                for position, value in enumerate(listed_inputs(node))
                if value is current
            )
            if operator.op_type in PASSING and node.inputs[0] is current:
                new = [output for output in node.outputs if output not in visited]
                visited.update(new)
                pending.extend(new)


def _is_read_at(uses: Iterable[Use], positions: Mapping[str, int]) -> bool:
    return any(positions.get(operator) == position for _, operator, position in uses)


def _other_operand(node: Node, position: int) -> Array | None:
    """The constant that a node compares an input with; None where that is none."""
    data = node.inputs[1 - position].node.op.data
    return None if data is None or not data.size else data.array()


def _integers(uses: Sequence[Use], name: str, shape: Sequence[int | None]) -> Values | None:
    types = {operator_of(node).values.get("to") for node, operator, _ in uses if operator == "Cast"}
    is_mask = not types.isdisjoint((*_REALS, TensorProto.BOOL)) or _is_read_at(uses, _MASKS)
    if "mask" in name.lower() or (is_mask and len(shape) > 1):
        return MASK
    if _is_read_at(uses, _SMALL):
        return whole_numbers(1, 2)
    constants = [_other_operand(node, position) for node, operator, position in uses if operator == "Equal"]
    numbers = [constant.reshape(-1) for constant in constants if constant is not None]
    if numbers and not shape:  # a switch; elements of tensors differ
        return _one_of(np.concatenate(numbers))
    return None


def _one_of(numbers: Array) -> Values:
    meaning = " or ".join(str(number) for number in numbers)
    return Values(meaning, lambda generator, shape: generator.choice(numbers, shape))


def _reals(uses: Sequence[Use], name: str, element_number: int, shape: Sequence[int | None]) -> Values | None:
    if element_number in _REALS and "mask" in name.lower():
        return MASK
    if _is_read_at(uses, _RATIOS):
        return uniform(0.0, 0.9)
    for node, operator, position in uses if not shape else ():
        # A bound of a table, as the lowest and the highest pitch are of the pitches of a network.
        table = _other_operand(node, position) if operator in _LOWER_BOUNDS else None
        if table is not None and table.size > 1:
            low, middle, high = np.quantile(table, [0.0, 0.5, 1.0])
            return uniform(low, middle) if _LOWER_BOUNDS[operator] == position else uniform(middle, high)
    if len(shape) not in (4, 3):
        return None
    # Three dimensions with one channel are a sequence more often than an image without a batch.
    channels = [shape[1], shape[-1]] if len(shape) == 4 else [c for c in (shape[0], shape[-1]) if c != 1]
    if not any(dimension in _CHANNELS for dimension in channels):
        return None
    if element_number == TensorProto.UINT8:
        return whole_numbers(0, 255)
    return uniform(0.0, 1.0) if element_number in _REALS else None
