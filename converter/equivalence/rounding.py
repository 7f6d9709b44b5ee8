"""What rounding alone may do to a result: some layers are run again with everything that is rounded moved a little.

Inputs move by one representable value, and with them whatever cancellation and long sums make of it; what is put on
steps moves by a fiftieth of a step before, so that values in the middle between two of them go to either; weights that
were stored in fewer bits move by as much as they were rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from converter.equivalence.rounded_weights import RoundedWeights
from ir_runtime import element_types
from ir_runtime.element_types import Array
from ir_runtime.graph import Node, Output
from ir_runtime.operations.elementwise import Round5
from ir_runtime.operations.pooling import AvgPool
from ir_runtime.operations.quantization import FakeQuantize1

_TIMES = 2
_SUMS = 32.0
"""Sums of thousands of terms, in whatever order, lose more than their inputs' last bit: so many times more."""
_OF_16_BITS = 4.0
"""Sums of 16-bit floats are made in 32 bits on either side: what is lost is what intermediate results round."""
_NEAR_THE_MIDDLE = 0.02
_OF_A_TIE = 1e-4
"""Of a step: float32 makes sums of codes times scales to that, and fused products and sums round otherwise."""
_STEPS = 2.0
_COMPRESSED = 3.0
_MANY = 1 << 16
_MANY_OF_POOLING = 1 << 8
"""onnxruntime adds the elements under a window one by one: of 1,024 the mean is 10 representable values away, of 16,384
it is 36. Its reductions add in parts."""

Run = Callable[[Node, Sequence[Array]], tuple[Array, ...]]


class Spread:
    """How far the results of ``part`` lie apart when their inputs move as rounding moves them.

    ``part`` lists layers, each after those it reads; ``values`` has what comes from outside, ``run`` computes a layer.
    """

    def __init__(
        self,
        part: Sequence[Node],
        values: Mapping[Output, Array],
        run: Run,
        names: Mapping[Output, object],
        rounded: RoundedWeights,
    ) -> None:
        self._part = part
        self._values = values
        self._run = run
        self._names = names
        self._rounded = rounded
        self._varying = self._that_vary()

    def of(self, output: Output, plain: Array) -> float:
        """The largest difference that is to be expected in ``output``, which is ``plain`` where nothing moves."""
        made = {source for node in self._part for source in node.outputs}
        outside = {source for node in self._part for source in node.inputs if source not in made}
        largest = 0.0
        for seed in range(_TIMES):
            moved = self._once(outside, np.random.default_rng(seed))[output]
            if moved.shape != plain.shape:
                continue
            with np.errstate(all="ignore"):
                gap = np.abs(moved.astype(np.float64) - plain.astype(np.float64))
            largest = max(largest, float(gap[np.isfinite(gap)].max(initial=0.0)))
        return largest * self._factor() + self._long_sums(plain)

    def neighbours(self, output: Output, plain: Array) -> tuple[Array, Array] | None:
        """The least and the greatest whole number that each element of ``output`` is near the middle to.

        What is put on steps is moved up and down before; None where nothing is.
        """
        if not any(self._is_stepped(node) for node in self._part):
            return None
        made = {source for node in self._part for source in node.outputs}
        outside = {source for node in self._part for source in node.inputs if source not in made}
        both = [self._shifted(outside, shift)[output] for shift in (-_OF_A_TIE, _OF_A_TIE)]
        if any(one.shape != plain.shape for one in both):
            return None
        found = [plain, *both]
        return np.minimum.reduce(found), np.maximum.reduce(found)

    def _shifted(self, outside: set[Output], shift: float) -> dict[Output, Array]:
        values = {source: self._values[source] for source in outside}
        for node in self._part:
            inputs = [values[source] for source in node.inputs]
            if self._is_stepped(node):
                inputs[0] = _by_steps(node, inputs, shift)
            values.update(zip(node.outputs, self._run(node, inputs)))
        return values

    def _long_sums(self, plain: Array) -> float:
        """What sums of very many terms may lose: moved terms cancel each other there, and partial sums do not."""
        lost = 0.0
        for node in self._part:
            value = self._values.get(node.inputs[0]) if node.inputs else None
            if value is None or value.dtype.kind != "f" or not plain.size:
                continue
            if isinstance(node.op, AvgPool):
                terms, least = float(math.prod(node.op.kernel)), _MANY_OF_POOLING
            elif node.op.type.startswith("Reduce"):
                terms, least = value.size / plain.size, _MANY
            else:
                continue
            if terms < least:
                continue
            mean = float(np.mean(np.abs(value[np.isfinite(value)]), dtype=np.float64)) if value.size else 0.0
            of_sum = mean if isinstance(node.op, AvgPool) or node.op.type == "ReduceMean" else mean * terms
            lost += float(np.finfo(value.dtype).eps) * terms**0.5 * of_sum
        return lost

    def _factor(self) -> float:
        if any(self._rounded.holds(node) for node in self._part):
            return _COMPRESSED
        if any(self._is_stepped(node) for node in self._part):
            return _STEPS
        kinds = {source.element_type for node in self._part for source in (*node.inputs, *node.outputs)}
        return _SUMS if kinds.isdisjoint((element_types.f16, element_types.bf16)) else _OF_16_BITS

    def _that_vary(self) -> set[Node]:
        """The layers that depend on more than constants."""
        found: set[Node] = set()
        inside = set(self._part)
        for node in self._part:
            if any(source.node in found or source.node not in inside for source in node.inputs):
                found.add(node)
        return found

    def _is_stepped(self, node: Node) -> bool:
        return isinstance(node.op, (FakeQuantize1, Round5)) and node in self._varying

    def _once(self, outside: set[Output], generator: np.random.Generator) -> dict[Output, Array]:
        values = {source: _nudged(self._values[source], generator) for source in outside}
        for node in self._part:
            inputs = [values[source] for source in node.inputs]
            if self._is_stepped(node):
                inputs[0] = _off_the_middle(node, inputs, generator)
            results = self._run(node, inputs)
            if self._rounded.holds(node):
                results = (self._rounded.moved(node, results[0], generator),)
            values.update(zip(node.outputs, results))
        return values


def _nudged(value: Array, generator: np.random.Generator) -> Array:
    """Every number moved to a neighbour, at random."""
    if value.dtype.kind != "f":
        return value
    with np.errstate(all="ignore"):
        share = (generator.random(value.shape, np.float32) - np.float32(0.5)) * (2 * float(np.finfo(value.dtype).eps))
        return np.asarray(value + value * share.astype(value.dtype), value.dtype)


def _off_the_middle(node: Node, inputs: Sequence[Array], generator: np.random.Generator) -> Array:
    return _by_steps(node, inputs, generator.uniform(-_NEAR_THE_MIDDLE, _NEAR_THE_MIDDLE, inputs[0].shape))


def _by_steps(node: Node, inputs: Sequence[Array], share: Array | float) -> Array:
    """What ``node`` puts on steps, moved by a share of a step."""
    value = inputs[0]
    step: Array | float = 1.0
    if isinstance(node.op, FakeQuantize1):
        step = (inputs[2] - inputs[1]) / max(1, node.op.levels - 1)
    if value.dtype.kind != "f":
        return value
    return np.asarray(value + step * share, value.dtype)
