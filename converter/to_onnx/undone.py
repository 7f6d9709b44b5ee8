"""What ONNX's operators do themselves, where an IR spells it out in front of its own: limits, signs and halves.

An exporter that writes its operator on the value in front gives the operator that a frontend started from.
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import Node, Output
from ir_runtime.operations.elementwise import Add1, Divide1, Equal1, Less1, Maximum1, Multiply1, Select1, Subtract1
from ir_runtime.operations.generation import ShapeOf3
from ir_runtime.operations.indexing import Gather1, Gather7, Gather8
from ir_runtime.operations.movement import Concat1, Reshape1, Squeeze1, Unsqueeze1
from ir_runtime.operations.padding import Pad1, Pad12
from ir_runtime.operations.reduction import ReduceSum1
from ir_runtime.operations.slicing import Slice8

_GATHERS = (Gather1, Gather7, Gather8)


def numbers(value: Output) -> list[float] | None:
    """The values of a constant, flat."""
    known = value.type.constant
    return None if known is None else known.reshape(-1).tolist()


def before_wrap(index: Output, size: Output) -> Output | None:
    """The index that is ``index`` where negative ones count from the end: i + Select(i < 0, size, 0)."""
    if not isinstance(index.node.op, Add1):
        return None
    for plain, shift in (index.node.inputs, index.node.inputs[::-1]):
        if _is_choice_of_negative(shift.node, plain) and shift.node.inputs[1] is size:
            return plain if numbers(shift.node.inputs[2]) == [0] else None
    return None


def _is_choice_of_negative(node: Node, value: Output) -> bool:
    """Whether a layer chooses its second input where ``value`` is negative."""
    if not isinstance(node.op, Select1):
        return False
    condition = node.inputs[0].node
    return isinstance(condition.op, Less1) and condition.inputs[0] is value and numbers(condition.inputs[1]) == [0]


def is_without_rest(lengths: Output) -> bool:
    """Whether lengths have no -1 any more, as it was replaced by what the others leave."""
    node = lengths.node
    if not isinstance(node.op, Select1) or not _is_choice_of_negative(node, node.inputs[2]):
        return False
    rest = node.inputs[1].node
    if not isinstance(rest.op, Subtract1) or not isinstance(rest.inputs[1].node.op, ReduceSum1):
        return False
    counted = rest.inputs[1].node.inputs[0].node
    return (
        isinstance(counted.op, Maximum1)
        and node.inputs[2] in counted.inputs
        and any(numbers(one) == [0] for one in counted.inputs)
    )


def only_number(value: Output) -> Output:
    """The tensor that holds the one number of ``value`` before it was reshaped."""
    while isinstance(value.node.op, (Reshape1, Squeeze1, Unsqueeze1)) and _is_single(value.node.inputs[0]):
        value = value.node.inputs[0]
    return value


def _is_single(value: Output) -> bool:
    return value.shape.is_static and value.shape.static() in ((), (1,))


def is_replaced(length: Output, number: int) -> bool:
    """Whether ``length`` has another number in the place of ``number``: Select(x == number, other, x)."""
    node = only_number(length).node
    if not isinstance(node.op, Select1) or not isinstance(node.inputs[0].node.op, Equal1):
        return False
    compared = node.inputs[0].node.inputs
    kept = only_number(node.inputs[2])
    return any(only_number(a) is kept and numbers(b) == [number] for a, b in (compared, compared[::-1]))


def is_padded_to(padded: Output, size: Output) -> bool:
    """Whether a list was padded to ``size`` elements, on both sides by half of what was missing."""
    node = padded.node
    if not isinstance(node.op, (Pad1, Pad12)):
        return False
    whole = halves_of(node.inputs[1], node.inputs[2], 1)
    if whole is None or not isinstance(whole.node.op, Concat1) or len(whole.node.inputs) != 2:
        return False
    before, after = whole.node.inputs
    if not isinstance(before.node.op, Divide1) or numbers(before.node.inputs[1]) != [2]:
        return False
    missing = before.node.inputs[0]
    if not isinstance(after.node.op, Subtract1) or after.node.inputs != (missing, before):
        return False
    if not isinstance(missing.node.op, Subtract1) or not isinstance(missing.node.inputs[1].node.op, ShapeOf3):
        return False
    length = missing.node.inputs[1].node.inputs[0]
    return length is node.inputs[0] and only_number(missing.node.inputs[0]) is only_number(size)


def halves_of(first: Output, second: Output, size: int) -> Output | None:
    """The list of twice ``size`` numbers of which ``first`` and ``second`` are the halves."""
    nodes = first.node, second.node
    if not all(isinstance(node.op, Slice8) for node in nodes) or nodes[0].inputs[0] is not nodes[1].inputs[0]:
        return None
    whole = nodes[0].inputs[0]
    if not whole.shape.is_static or whole.shape.static() != (2 * size,):
        return None
    bounds = [[numbers(value) for value in node.inputs[1:4]] for node in nodes]
    return whole if bounds == [[[0], [size], [1]], [[size], [2 * size], [1]]] else None


def pair_of(first: Output, second: Output) -> Output | None:
    """The list of two elements of which ``first`` is the first and ``second`` is the second."""
    nodes = first.node, second.node
    if not all(isinstance(node.op, _GATHERS) for node in nodes) or nodes[0].inputs[0] is not nodes[1].inputs[0]:
        return None
    whole = nodes[0].inputs[0]
    places = [numbers(node.inputs[1]) for node in nodes]
    is_pair = whole.shape.is_static and whole.shape.static() == (2,)
    return whole if is_pair and places == [[0], [1]] else None


def before_next_number(value: Output) -> Output | None:
    """The number above which ``value`` is the next float32: max(x + 0.7 * 2^-23 x, least number)."""
    for above in _operands(value, Maximum1):
        for plain in _operands(above, Add1):
            gaps = [gap for gap in above.node.inputs if gap is not plain]
            if gaps and plain in gaps[0].node.inputs and isinstance(gaps[0].node.op, Multiply1):
                factors = [numbers(one) for one in gaps[0].node.inputs if one is not plain]
                if factors and factors[0] is not None and np.float32(factors[0][0]) == np.float32(0.7 * 2.0**-23):
                    return plain
    return None


def _operands(value: Output, operation: type) -> list[Output]:
    return list(value.node.inputs) if isinstance(value.node.op, operation) else []
