"""Undo layers that an IR needs in front of its own operations and ONNX does not: limits, signs and halves.

An exporter that writes its operator on the value in front gives the operator that a frontend started from.
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import Output
from ir_runtime.operations.elementwise import Add1, Divide1, Equal1, Less1, Maximum1, Multiply1, Select1, Subtract1
from ir_runtime.operations.generation import ShapeOf3
from ir_runtime.operations.indexing import Gather
from ir_runtime.operations.movement import Concat1, Reshape1, Squeeze1, Unsqueeze1
from ir_runtime.operations.padding import Pad
from ir_runtime.operations.reduction import ReduceSum1
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewriting import Match, Pattern, anything, layer, number

_X = anything("x")
_IS_NEGATIVE = layer(Less1, _X, number(0))
_WRAPPED = layer(Add1, _X, layer(Select1, _IS_NEGATIVE, anything("size"), number(0)))
_COUNTED = layer(ReduceSum1, layer(Maximum1, _X, number(0)))
_WITHOUT_REST = layer(Select1, _IS_NEGATIVE, layer(Subtract1, anything(), _COUNTED), _X)

_MISSING = layer(Subtract1, anything("size"), layer(ShapeOf3, anything("data")))
_BEFORE = layer(Divide1, _MISSING, number(2))
_PADS_ON_BOTH_SIDES = layer(Concat1, _BEFORE, layer(Subtract1, _MISSING, _BEFORE))

_GAP = layer(Multiply1, _X, number(float(np.float32(0.7 * 2.0**-23))))
_NEXT_NUMBER = layer(Maximum1, layer(Add1, _X, _GAP), anything())


def numbers(value: Output) -> list[float] | None:
    """The values of a constant, flat."""
    constant = value.type.constant
    return None if constant is None else constant.reshape(-1).tolist()


def _match(pattern: Pattern, value: Output) -> Match | None:
    match = pattern.match(value)
    return match if isinstance(match, Match) else None


def before_wrap(index: Output, size: Output) -> Output | None:
    """The index that is ``index`` where negative ones count from the end: i + Select(i < 0, size, 0)."""
    match = _match(_WRAPPED, index)
    return match["x"] if match and match["size"] is size else None


def is_without_rest(lengths: Output) -> bool:
    """True if lengths have no -1 any more, as it was replaced by what the others leave."""
    return _match(_WITHOUT_REST, lengths) is not None


def only_number(value: Output) -> Output:
    """The tensor that holds the one number of ``value`` before it was reshaped."""
    while isinstance(value.node.op, (Reshape1, Squeeze1, Unsqueeze1)) and _is_single(value.node.inputs[0]):
        value = value.node.inputs[0]
    return value


def _is_single(value: Output) -> bool:
    return value.shape.is_static and value.shape.static() in ((), (1,))


def is_replaced(length: Output, replaced: int) -> bool:
    """True if ``length`` has another number in the place of ``replaced``: Select(x == replaced, other, x)."""
    is_equal = layer(Equal1, anything("compared"), number(replaced))
    match = _match(layer(Select1, is_equal, anything(), anything("x")), only_number(length))
    return match is not None and only_number(match["compared"]) is only_number(match["x"])


def is_padded_to(padded: Output, size: Output) -> bool:
    """True if a list was padded to ``size`` elements, on both sides by half of what was missing."""
    node = padded.node
    if not isinstance(node.op, Pad):
        return False
    whole = halves_of(node.inputs[1], node.inputs[2], 1)
    match = None if whole is None else _match(_PADS_ON_BOTH_SIDES, whole)
    if match is None or match["data"] is not node.inputs[0]:
        return False
    return only_number(match["size"]) is only_number(size)


def halves_of(first: Output, second: Output, size: int) -> Output | None:
    """The list of twice ``size`` numbers of which ``first`` and ``second`` are the halves."""
    halves = [layer(Slice8, anything("whole"), number(at), number(at + size), number(1)) for at in (0, size)]
    return _common_list(halves, (first, second), 2 * size)


def pair_of(first: Output, second: Output) -> Output | None:
    """The list of two elements of which ``first`` is the first and ``second`` is the second."""
    return _common_list([layer(Gather, anything("whole"), number(at)) for at in (0, 1)], (first, second), 2)


def _common_list(patterns: list[Pattern], parts: tuple[Output, Output], length: int) -> Output | None:
    """The list of ``length`` numbers of which the patterns take both parts."""
    first, second = (_match(pattern, part) for pattern, part in zip(patterns, parts))
    if first is None or second is None or first["whole"] is not second["whole"]:
        return None
    shape = first["whole"].shape
    return first["whole"] if shape.is_static and shape.static() == (length,) else None


def before_next_number(value: Output) -> Output | None:
    """The number above which ``value`` is the next float32: max(x + 0.7 * 2^-23 x, least number)."""
    match = _match(_NEXT_NUMBER, value)
    return match["x"] if match else None
