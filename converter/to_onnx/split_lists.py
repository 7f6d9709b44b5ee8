"""Lists of numbers that an IR has in two parts, and ONNX in one."""

from __future__ import annotations

from ir_runtime.graph import Output
from ir_runtime.operations.indexing import Gather
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewriting import Match, Pattern, anything, layer, number


def halves_of(first: Output, second: Output, size: int) -> Output | None:
    """The list of twice ``size`` numbers of which ``first`` and ``second`` are the halves."""
    halves = [layer(Slice8, anything("whole"), number(at), number(at + size), number(1)) for at in (0, size)]
    return _common_list(halves, (first, second), 2 * size)


def pair_of(first: Output, second: Output) -> Output | None:
    """The list of two elements of which ``first`` is the first and ``second`` is the second."""
    return _common_list([layer(Gather, anything("whole"), number(at)) for at in (0, 1)], (first, second), 2)


def _common_list(patterns: list[Pattern], parts: tuple[Output, Output], length: int) -> Output | None:
    """The list of ``length`` numbers of which the patterns take both parts."""
    first, second = (pattern.match(part) for pattern, part in zip(patterns, parts))
    if not isinstance(first, Match) or not isinstance(second, Match) or first["whole"] is not second["whole"]:
        return None
    shape = first["whole"].shape
    return first["whole"] if shape.is_static and shape.static() == (length,) else None
