"""Types of inputs: as tables spell them, ``f32[2,?] i64{1,-1} i64(3)`` where braces and parentheses hold constants, and
less than everything about the inputs of a call; and whether what is inferred of them holds what comes out."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.random import Generator

from ir_runtime import TensorType
from ir_runtime.graph import INFINITY, Array, Dimension, ElementType, Operation, PartialShape, Tensor, element_types
from ir_runtime.graph.element_types import element_type
from ir_runtime.graph.operation import BOUNDS_LIMIT, find_operation
from ir_runtime.graph.value_ranges import Bounds
from tests.rows.layer import Layer
from tests.rows.table import layer_table

I64 = np.iinfo(np.int64)
_MAX_VALUE_WITH_ONE_BOUND = 1 << 20
"""Only values up to this may be bounded on one side: arithmetic on dimensions is taken not to wrap."""

RANDOM = {"RandomUniform-8", "Multinomial-13"}
"""Their values differ from call to call, but their types do not."""


def name_of(cls: type[Operation]) -> str:
    return f"{cls.type}-{cls.opset}"


def _by_revision() -> dict[str, list[Layer]]:
    found: dict[str, list[Layer]] = defaultdict(list)
    for call in layer_table():
        found[name_of(type(call.op))].append(call)
    return found


OF_REVISION = _by_revision()


def relaxed(call: Layer, random: Generator) -> list[TensorType]:
    """Types that the inputs of the call have, and others as well."""
    return [_relaxed_input(call, index, random) for index in range(len(call.arrays))]


def _relaxed_input(call: Layer, index: int, random: Generator) -> TensorType:
    array, kind = call.arrays[index], call.kinds[index]
    keep = 0.45 if index else 0.2
    if index in call.fixed or random.random() < keep:
        return call.exact(index)
    if kind.is_integral and array.size <= BOUNDS_LIMIT and random.random() < 0.5:
        bounds = relaxed_values(array, random, one_sided=_is_modest(call))
        if bounds is not None:
            return TensorType(kind, PartialShape(array.shape), None, bounds)
    if index in call.shaped:
        return TensorType(kind, PartialShape(array.shape))
    return TensorType(_relaxed_type(kind, random), relaxed_shape(array.shape, random))


def _relaxed_type(kind: ElementType, random: Generator) -> ElementType:
    return element_types.dynamic if random.random() < 0.05 else kind


def _is_modest(call: Layer) -> bool:
    numbers = (array.astype(np.object_) for array, kind in zip(call.arrays, call.kinds) if kind.is_integral)
    return all(abs(int(value)) <= _MAX_VALUE_WITH_ONE_BOUND for array in numbers for value in array.reshape(-1))


def relaxed_values(array: Array, random: Generator, *, one_sided: bool) -> Bounds | None:
    """Intervals around whole numbers, without an end on both sides, or perhaps on one alone."""
    if array.dtype == np.uint64 and array.size and int(array.max()) > INFINITY:
        return None
    numbers = [int(value) for value in array.reshape(-1)]
    way = random.random()
    endless_below = way < 0.15 or (way < 0.2 and one_sided)
    endless_above = way < 0.15 or (0.2 <= way < 0.35 and one_sided)
    margins = random.choice((0, 0, 1, 3), (2, len(numbers))).tolist()
    # The ends of int64 stand for no end at all, so that there is nothing between them and what is exact.
    below, above = ([0 if abs(v) > I64.max - 4 else m for v, m in zip(numbers, margin)] for margin in margins)
    lower = [I64.min if endless_below else v - m for v, m in zip(numbers, below)]
    upper = [INFINITY if endless_above else v + m for v, m in zip(numbers, above)]
    return Bounds(*(np.array(ends, np.int64).reshape(array.shape) for ends in (lower, upper)))


def relaxed_shape(shape: tuple[int, ...], random: Generator) -> PartialShape:
    """A partial shape that the shape fits."""
    way = random.random()
    if way < 0.15:
        return PartialShape.dynamic()
    if way < 0.3:
        return PartialShape(shape)
    if way < 0.45:
        return PartialShape.of_rank(len(shape))
    return PartialShape([relaxed_dimension(dimension, random) for dimension in shape])


def relaxed_dimension(dimension: int, random: Generator) -> Dimension:
    """An interval that holds the dimension."""
    way = random.random()
    if way < 0.3:
        return Dimension(dimension, dimension)
    if way < 0.4:
        return Dimension()
    low = max(0, dimension - int(random.choice((0, 1, 2, 9))))
    return Dimension(low, INFINITY if way < 0.55 else dimension + int(random.choice((0, 1, 2, 5))))


def contradiction(found: TensorType, value: Array, *, values: bool = True) -> str:
    """How a value is not of the type that was inferred for it; empty where it is.

    Without ``values`` only type and shape are looked at.
    """
    kind = found.element_type
    if not kind.is_dynamic and value.dtype != kind.dtype:
        return f"the type is {value.dtype}, not {kind}"
    if not found.shape.accepts(value.shape):
        return f"the shape is {list(value.shape)}, not {found.shape}"
    if not values:
        return ""
    if found.bounds is not None:
        lower, upper = found.bounds.lower, found.bounds.upper
        if lower.shape != value.shape or upper.shape != value.shape:
            return f"there are bounds of the shape {list(lower.shape)} for values of {list(value.shape)}"
        ends = zip(*(numbers.reshape(-1).tolist() for numbers in (lower, value, upper)))
        # The greatest bound stands for none at all.
        if not all(low <= number and (number <= high or high == INFINITY) for low, number, high in ends):
            return f"the values are {value.tolist()}, not {lower.tolist()} to {upper.tolist()}"
    known = found.constant
    if known is not None and not np.array_equal(known, value, equal_nan=value.dtype.kind == "f"):
        return f"the values are {value.tolist()}, not {known.tolist()}"
    return ""


# --- tables ---

ENDLESS = 2**63 - 1


def ends_of(number: str) -> tuple[int, int]:
    """Return the ends of ``3``, ``1..5``, ``2..`` or ``..``; what is left out stands for no end."""
    low, dots, high = number.partition("..")
    return int(low or -ENDLESS - 1), int(high or ENDLESS) if dots else int(low)


def types(text: str) -> list[TensorType]:
    """Return the types; ``i64{3}`` is a list of one number, ``i64(3)`` a number, and ``i64{1..5}`` has bounds."""
    found = []
    for kind, bracket, content in re.findall(r"(\w+)([\[{(])([^\]})]*)[\]})]", text):
        if bracket == "[":
            found.append(TensorType(element_type(kind), PartialShape.parse(f"[{content}]")))
            continue
        numbers = [ends_of(number) for number in content.split(",") if number]
        dtype = np.int64 if ".." in content else element_type(kind).dtype
        lower, upper = (
            array if bracket == "{" else array[0, ...]
            for array in (np.array([ends[index] for ends in numbers], dtype) for index in (0, 1))
        )
        tensor = None if ".." in content else Tensor.from_array(lower)
        bounds = Bounds(lower, upper) if ".." in content else None
        found.append(TensorType(element_type(kind), PartialShape(lower.shape), tensor, bounds))
    return found


def operation(label: str, attributes: Mapping[str, Any] = MappingProxyType({})) -> Operation:
    """Return the operation of a label such as ``Gather-8``."""
    name, _, opset = label.rpartition("-")
    return find_operation(name, int(opset))(**attributes)


# Attributes of operations that several tables need.
PLANES = {"output_dim": 6, "group_size": 3, "spatial_scale": 1.0, "mode": "average"}
POOLED = {"pooled_h": 2, "pooled_w": 2}
PYRAMID = {"output_size": 3, "sampling_ratio": 2, "pyramid_scales": [4, 8], "aligned": False}
CORNER = "caffe.PriorBoxParameter.CORNER"
DETECTED = {"keep_top_k": [15], "nms_threshold": 0.4, "code_type": CORNER, "share_location": True, "normalized": True}
WINDOW = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
