"""Patterns of layers, matched backwards from a value, that give the reason where they do not match.

    x = anything("x")
    mean = layer(ReduceMean1, x, constant("axes"))
    pattern = layer(Subtract1, x, mean, name="centred")

    found = pattern.find(node.outputs[0])  # or "input 1 of layer 'Sub_3' is made by Add, not by ReduceMean"
    found["x"], found.array("axes"), found.node("centred")

A pattern that is used twice must match the same value twice. Everything is a plain object; nothing is registered.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Union

import numpy as np

from ir_runtime.graph import Array, Node, Operation, Output
from ir_runtime.graph.element_types import finfo, from_dtype


class NotMatched(Exception):
    """Why a pattern does not match, or a rule does not apply."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def fail(reason: str) -> NotMatched:
    """Result of a pass or rule for a layer that it leaves alone: the reason, in a few words about the layer.

    A rule returns it; what a rule calls may raise it.
    """
    return NotMatched(reason)


class Match:
    """The values and layers that a pattern was found in."""

    def __init__(self) -> None:
        self._values: dict[Pattern, Output] = {}
        self._why = fail("nothing was compared")
        self._furthest = -1

    def __contains__(self, name: str) -> bool:
        """True if a pattern of this name took part; of alternatives only one does."""
        return any(pattern.name == name for pattern in self._values)

    def __getitem__(self, name: str) -> Output:
        """The value that the pattern of this name matched."""
        for pattern, value in self._values.items():
            if pattern.name == name:
                return value
        raise KeyError(name)

    def node(self, name: str) -> Node:
        """The layer that makes that value."""
        return self[name].node

    def array(self, name: str) -> Array:
        """The constant that the pattern of this name matched."""
        values = self[name].type.constant
        if values is None:
            raise KeyError(f"'{name}' is not constant")
        return values

    @property
    def nodes(self) -> list[Node]:
        """The layers of the pattern without those of ``anything`` and constants; the last one first."""
        return [value.node for pattern, value in self._values.items() if isinstance(pattern, _Layer)]

    def check_private(self) -> None:
        """Raise :class:`NotMatched` where anything but the match itself reads one of its inner values."""
        nodes = self.nodes
        for node in nodes[1:]:
            for output in node.outputs:
                outside = next((reader for reader in output.uses if reader not in nodes), None)
                if outside is not None:
                    raise fail(f"layer '{node.name}' inside the pattern is also read by '{outside.name}'")

    def _note(self, reason: str) -> None:
        """Keep the reason of the attempt that got furthest: the most telling one."""
        if len(self._values) > self._furthest:
            self._furthest, self._why = len(self._values), fail(reason)


class Pattern(abc.ABC):
    """Anything that a value is compared with."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def match(self, value: Output) -> Match | NotMatched:
        """Match the layers that lead to ``value``; every order of commutative inputs and every alternative is tried."""
        result = Match()
        for _ in self._ways(value, result, f"layer '{value.node.name}'"):
            return result
        return result._why

    def find(self, value: Output) -> Match:
        """As :meth:`match`, for a rule that needs the layers: raises :class:`NotMatched`."""
        found = self.match(value)
        if isinstance(found, NotMatched):
            raise found
        return found

    def _ways(self, value: Output, match: Match, where: str) -> Iterator[None]:
        """Yield for each way in which ``value`` matches, which ``match`` holds until the next one."""
        bound = match._values.get(self)
        if bound is None:
            match._values[self] = value
            yield from self._look(value, match, where)
            del match._values[self]
        elif bound is value:
            yield
        else:
            match._note(f"{where} is not the same value as {self.name or 'elsewhere in the pattern'}")

    @abc.abstractmethod
    def _look(self, value: Output, match: Match, where: str) -> Iterator[None]:
        """As :meth:`_ways`, for a value that the pattern has not met before."""


_FLOAT32_STEP = 2.0**-23
"""Between 1 and the next float32: exporters often compute constants in it, whatever the type of the model."""

Check = Callable[[Output], Union[str, None]]
"""Returns the reason why a value does not match, as the rest of a sentence; None where it matches."""


class _Value(Pattern):
    def __init__(self, name: str, check: Check | None) -> None:
        super().__init__(name)
        self._check = check

    def _look(self, value: Output, match: Match, where: str) -> Iterator[None]:
        wrong = self._check(value) if self._check else None
        if wrong is None:
            yield
        else:
            match._note(f"{where} {wrong}")


class _Layer(Pattern):
    def __init__(
        self,
        operations: tuple[type[Operation], ...],
        inputs: Sequence[Pattern],
        name: str,
        output: int,
        check: Check | None,
    ) -> None:
        super().__init__(name)
        self._operations = operations
        self._inputs = inputs
        self._output = output
        self._check = check

    def _look(self, value: Output, match: Match, where: str) -> Iterator[None]:
        wrong = self._wrong(value)
        if wrong is not None:
            match._note(f"{where} {wrong}")
            return
        has_orders = value.node.op.commutative and len(self._inputs) == 2
        for patterns in (self._inputs, self._inputs[::-1]) if has_orders else (self._inputs,):
            yield from self._inputs_match(value.node, patterns, 0, match)

    def _wrong(self, value: Output) -> str | None:
        node = value.node
        if not isinstance(node.op, self._operations):
            names = " or ".join(dict.fromkeys(operation.type for operation in self._operations))
            return f"is made by {node.op.type}, not by {names}"
        if value.index != self._output:
            return f"is output {value.index} of '{node.name}', not output {self._output}"
        if len(node.inputs) < len(self._inputs):
            return f"has {len(node.inputs)} inputs, not {len(self._inputs)}"
        return self._check(value) if self._check else None

    def _inputs_match(self, node: Node, patterns: Sequence[Pattern], index: int, match: Match) -> Iterator[None]:
        if index == len(patterns):
            yield
            return
        for _ in patterns[index]._ways(node.inputs[index], match, f"input {index} of layer '{node.name}'"):
            yield from self._inputs_match(node, patterns, index + 1, match)


class _Either(Pattern):
    def __init__(self, patterns: Sequence[Pattern]) -> None:
        super().__init__()
        self._patterns = patterns

    def _look(self, value: Output, match: Match, where: str) -> Iterator[None]:
        for pattern in self._patterns:
            yield from pattern._ways(value, match, where)


def anything(name: str = "", check: Check | None = None) -> Pattern:
    """Any value; ``check`` returns what is wrong with it, or None."""
    return _Value(name, check)


def constant(name: str = "", check: Check | None = None) -> Pattern:
    """A value that is constant; its array is ``match.array(name)``."""

    def wrong(value: Output) -> str | None:
        if value.type.constant is None:
            return "is not constant"
        return check(value) if check else None

    return _Value(name, wrong)


def number(expected: float) -> Pattern:
    """A constant whose only element is ``expected``.

    A number that both float32 and the constant's element type represent must be equal: ``Power(x, 2.0000002)`` is NaN
    for negative ``x``, where ``Power(x, 2)`` is a square. Any other number, such as the root of 2, may be rounded to
    either type.
    """

    def mismatch(value: Output) -> str | None:
        array = value.type.constant
        if array is None or array.size != 1:
            return f"is not the number {expected:g}"
        actual = float(array.reshape(-1)[0])
        tolerance = abs(expected) * _relative_rounding(expected, array.dtype)
        return None if abs(actual - expected) <= tolerance else f"is {actual:.9g}, not {expected:g}"

    return _Value("", mismatch)


def _relative_rounding(number: float, dtype: np.dtype[Any]) -> float:
    """Return how far the constant ``number`` may be off in a model of the type ``dtype``, relative to its size."""
    element_type = from_dtype(dtype)
    if not element_type.is_real or number == float(np.float32(number)) == float(dtype.type(number)):
        return 0
    return max(_FLOAT32_STEP, float(finfo(element_type).eps))


def layer(
    operations: type[Operation] | tuple[type[Operation], ...],
    *inputs: Pattern,
    name: str = "",
    output: int = 0,
    check: Check | None = None,
) -> Pattern:
    """The output ``output`` of a layer of one of ``operations``, whose first inputs match ``inputs``.

    Two inputs of a commutative operation match in either order.
    """
    chosen = operations if isinstance(operations, tuple) else (operations,)
    return _Layer(chosen, inputs, name, output, check)


def either(*patterns: Pattern) -> Pattern:
    """A value that matches one of ``patterns``."""
    return _Either(patterns)
