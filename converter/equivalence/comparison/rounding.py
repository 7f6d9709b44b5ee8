"""Effect of rounding alone on a result: some layers are run again with slightly changed values.

Inputs change by one representable value, which cancellation and long sums enlarge. Values that are rounded to steps
change by a fiftieth of a step before, so that those in the middle between two steps go to either. Weights that were
stored in fewer bits change by as much as they were rounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from converter.equivalence.comparison.parts import Part, Run
from converter.equivalence.comparison.rounded_weights import RoundedWeights
from ir_runtime.graph import Array, Node, Operation, Output, element_types
from ir_runtime.operations.elementwise import Round5
from ir_runtime.operations.pooling import AvgPool
from ir_runtime.operations.quantization import FakeQuantize1

_RUNS = 2
_FACTOR_OF_SUMS = 32.0
"""Sums of thousands of terms lose so many times more than the last bit of their inputs, in whatever order."""
_FACTOR_OF_16_BITS = 4.0
"""Both sides add 16-bit floats in 32 bits: only intermediate results are rounded."""
_NEAR_THE_MIDDLE = 0.02
TIE_SHARE_OF_STEP = 1e-4
"""Sums of codes times scales have this error in float32, because fused products and sums round differently."""
_FACTOR_OF_STEPS = 2.0
_FACTOR_OF_COMPRESSED_WEIGHTS = 3.0
_MIN_TERMS_OF_REDUCTION = 1 << 16
_MIN_TERMS_OF_POOLING = 1 << 8
"""onnxruntime adds the elements under a window one by one: of 1,024 the mean is 10 representable values away, of 16,384
it is 36. Its reductions add in parts."""

ROUNDING_TO_STEPS = (FakeQuantize1, Round5)


class Spread:
    """The change of the results of ``part`` when rounding changes their inputs.

    ``values`` has its sources, ``run`` computes a layer.
    """

    def __init__(self, part: Part, values: Mapping[Output, Array], run: Run, rounded: RoundedWeights) -> None:
        self._part = part
        self._values = values
        self._run = run
        self._rounded = rounded
        self._varying = self._varying_layers()

    def of(self, output: Output, plain: Array) -> float:
        """The largest difference to expect in ``output``, which is ``plain`` for unchanged inputs."""
        largest = 0.0
        for seed in range(_RUNS):
            changed = self._once(np.random.default_rng(seed))[output]
            if changed.shape != plain.shape:
                continue
            with np.errstate(all="ignore"):
                gap = np.abs(changed.astype(np.float64) - plain.astype(np.float64))
            largest = max(largest, float(gap[np.isfinite(gap)].max(initial=0.0)))
        return largest * self._factor() + self._long_sums(plain)

    def neighbours(self, output: Output, plain: Array) -> tuple[Array, Array] | None:
        """The least and the greatest whole number that each element of ``output`` may be rounded to.

        Values are shifted up and down before they are rounded to steps; None where the part has no such layer.
        """
        if not any(self._is_stepped(node) for node in self._part):
            return None
        both = [self._shift(shift)[output] for shift in (-TIE_SHARE_OF_STEP, TIE_SHARE_OF_STEP)]
        if any(array.shape != plain.shape for array in both):
            return None
        candidates = [plain, *both]
        return np.minimum.reduce(candidates), np.maximum.reduce(candidates)

    def _shift(self, shift: float) -> dict[Output, Array]:
        def run(node: Node, inputs: Sequence[Array]) -> tuple[Array, ...]:
            return self._run(node, self._moved(node, inputs, shift))

        return self._part.values({source: self._values[source] for source in self._part.sources}, run)

    def _long_sums(self, plain: Array) -> float:
        """The rounding of sums of very many terms: changes of single terms cancel, rounded partial sums do not."""
        lost = 0.0
        for node in self._part:
            value = self._values.get(node.inputs[0]) if node.inputs else None
            if value is None or value.dtype.kind != "f" or not plain.size:
                continue
            if isinstance(node.op, AvgPool):
                terms, least = float(math.prod(node.op.kernel)), _MIN_TERMS_OF_POOLING
            elif node.op.type.startswith("Reduce"):
                terms, least = value.size / plain.size, _MIN_TERMS_OF_REDUCTION
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
            return _FACTOR_OF_COMPRESSED_WEIGHTS
        if any(self._is_stepped(node) for node in self._part):
            return _FACTOR_OF_STEPS
        float_types = {source.element_type for node in self._part for source in (*node.inputs, *node.outputs)}
        return (
            _FACTOR_OF_SUMS if float_types.isdisjoint((element_types.f16, element_types.bf16)) else _FACTOR_OF_16_BITS
        )

    def _varying_layers(self) -> set[Node]:
        """The layers that depend on more than constants."""
        nodes: set[Node] = set()
        inside = set(self._part)
        for node in self._part:
            if any(source.node in nodes or source.node not in inside for source in node.inputs):
                nodes.add(node)
        return nodes

    def _is_stepped(self, node: Node) -> bool:
        return isinstance(node.op, ROUNDING_TO_STEPS) and node in self._varying

    def _moved(self, node: Node, inputs: Sequence[Array], share: Array | float) -> Sequence[Array]:
        """The inputs of a layer, of which those that it rounds to steps are changed by a share of a step."""
        return [moved_by_steps(node.op, inputs, share), *inputs[1:]] if self._is_stepped(node) else inputs

    def _once(self, generator: np.random.Generator) -> dict[Output, Array]:
        def run(node: Node, inputs: Sequence[Array]) -> tuple[Array, ...]:
            if self._is_stepped(node):
                steps = generator.uniform(-_NEAR_THE_MIDDLE, _NEAR_THE_MIDDLE, inputs[0].shape)
                inputs = self._moved(node, inputs, steps)
            results = self._run(node, inputs)
            is_rounded = self._rounded.holds(node)
            return (self._rounded.perturbed(node, results[0], generator),) if is_rounded else results

        sources = {source: _nudge(self._values[source], generator) for source in self._part.sources}
        return self._part.values(sources, run)


def _nudge(value: Array, generator: np.random.Generator) -> Array:
    """Every number changed at random by about one representable value."""
    if value.dtype.kind != "f":
        return value
    with np.errstate(all="ignore"):
        share = (generator.random(value.shape, np.float32) - np.float32(0.5)) * (2 * float(np.finfo(value.dtype).eps))
        return np.asarray(value + value * share.astype(value.dtype), value.dtype)


def moved_by_steps(op: Operation, inputs: Sequence[Array], share: Array | float) -> Array:
    """The values that ``op`` rounds to steps, changed by a share of a step."""
    value = inputs[0]
    step: Array | float = 1.0
    if isinstance(op, FakeQuantize1):
        step = (inputs[2] - inputs[1]) / max(1, op.levels - 1)
    if value.dtype.kind != "f":
        return value
    return np.asarray(value + step * share, value.dtype)
