"""Effect of the rounding of compressed weights on each output of a model, on given inputs.

A weight on a grid was rounded by at most half a step, one that is stored as float16 by at most half a representable
value. The model is run again with every weight changed by up to that much at random. It then differs from itself about
as much as from the model of unrounded weights; a wrong layer makes a larger difference. Only the IR is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from converter.passes.compression.float16_constants import DECOMPRESSION
from converter.passes.compression.weight_compression import WEIGHT_COMPRESSION
from ir_runtime import Model, compile_model
from ir_runtime.graph import Array, Node, RuntimeInfo, Tensor, make_node
from ir_runtime.graph.invariants import PRECISION
from ir_runtime.operations.elementwise import Convert1, Subtract1
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.records import record
from ir_runtime.rewriting import graph_pass

RUNS = 4
_RUNS_OF_OUTPUTS_BELOW = {64: 16, 4096: 8}
"""Outputs of fewer elements need more runs: each shows less of the deviation, and of how far single values go."""
_DEVIATIONS = 6.0
"""Allowed are so many standard deviations of the rounding's effect, or :data:`_TIMES_LARGEST` its largest effect if
that is more, as where a few values are much larger than the others."""
_TIMES_LARGEST = 1.5
_MOST_OF_LARGEST = 0.5
"""At most this share of an output's largest value is allowed: a larger difference would prove nothing."""


@record
class RoundedWeights:
    """The rounded weights of a model: the Convert nodes that widen their constants.

    A model may have weights in whole numbers or float16 of its own; the marks that compression leaves in the IR decide.
    """

    widening: frozenset[Node]

    @classmethod
    def of(cls, model: Model) -> RoundedWeights:
        """Those that the marks in ``model`` name."""
        whole = any(info.tag == WEIGHT_COMPRESSION for info in _all_infos(model.runtime_info))
        related: set[Node] = set()
        for part in model.parts():
            nodes = part.nodes
            widening = {node for node in nodes if _widens(node)}
            if not widening:
                continue
            zero_points = {
                node.inputs[1].node
                for node in nodes
                if isinstance(node.op, Subtract1) and widening.issuperset(source.node for source in node.inputs)
            }
            related |= {
                node
                for node in widening - zero_points
                if (_is_half(node) if node.inputs[0].element_type.is_real else whole)
            }
        return cls(frozenset(related))

    def __bool__(self) -> bool:
        return bool(self.widening)

    def holds(self, node: Node) -> bool:
        """True if the node widens rounded weights."""
        return node in self.widening

    @staticmethod
    def perturbed(node: Node, widened: Array, generator: np.random.Generator) -> Array:
        """The weights that ``node`` widens, changed by as much as rounding may have."""
        source = node.inputs[0].element_type
        amount = generator.random(widened.shape, np.float32) - np.float32(0.5)
        if source.is_integral:
            return np.asarray(widened + amount, widened.dtype)
        eps = float(np.finfo(np.float16).eps) if source.dtype == np.float16 else 2.0**-7
        return np.asarray(widened + widened * (amount * eps), widened.dtype)


def rounding_allowances(model: Model, feeds: Mapping[str, Array], unrounded: Model | None = None) -> dict[str, float]:
    """Return the allowed difference of each real output of ``model`` from its weights' rounding alone.

    That is the difference from the ``unrounded`` model where that is known, else an estimate.
    """
    plain = _run(model, feeds)
    if unrounded is not None:
        exact = _run(unrounded, feeds)
        return {name: _limit(value, _gap(value, exact[name])) for name, value in plain.items() if name in exact}
    gaps: dict[str, list[Array]] = {name: [] for name in plain}
    least = min((value.size for value in plain.values()), default=0)
    runs = next((count for size, count in _RUNS_OF_OUTPUTS_BELOW.items() if least < size), RUNS)
    for seed in range(runs):
        for name, value in _run(perturbed_model(model, seed), feeds).items():
            if value.shape != plain[name].shape:  # a shape that follows from values
                continue
            gaps[name].append(_gap(value, plain[name]))
    return {name: allowance_of(plain[name], gaps_of_name) for name, gaps_of_name in gaps.items()}


def allowance_of(value: Array, gaps: list[Array]) -> float:
    """Return the allowed difference of ``value``, from which models with rounded weights differ by ``gaps``."""
    gap_array = np.array(gaps)
    if not gap_array.size:
        return 0.0
    return _limit(
        value, np.array([_DEVIATIONS * np.sqrt(np.mean(np.square(gap_array))), _TIMES_LARGEST * gap_array.max()])
    )


def _gap(first: Array, second: Array) -> Array:
    """The differences of values that are finite on both sides; 0 elsewhere, and where the shapes differ."""
    if first.shape != second.shape:
        return np.zeros(1)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(np.abs(first - second), nan=0.0, posinf=0.0)


def _limit(value: Array, gaps: Array) -> float:
    """The largest gap, but at most a share of the largest of the values."""
    most = _MOST_OF_LARGEST * float(np.abs(value[np.isfinite(value)]).max(initial=0.0))
    return min(float(gaps.max(initial=0.0)), most)


def _run(model: Model, feeds: Mapping[str, Array]) -> dict[str, Array]:
    compiled = compile_model(model)
    values = zip(compiled.outputs, compiled(feeds).to_list())
    return {port.name: value.astype(np.float64) for port, value in values if port.element_type.is_real}


def perturbed_model(model: Model, seed: int) -> Model:
    """A copy whose weights, but not their zero points, are changed by as much as rounding may have."""
    copy = model.clone()
    _perturb(copy, np.random.default_rng(seed))
    return copy


@graph_pass("perturbed_weights", PRECISION)
def _perturb(copy: Model, generator: np.random.Generator) -> None:
    rounded = RoundedWeights.of(copy)
    for part in copy.all_models():
        for node in part.nodes():
            if not rounded.holds(node):
                continue
            value = node.outputs[0]
            stored = node.inputs[0].tensor
            assert stored is not None
            perturbed = rounded.perturbed(node, stored.array().astype(value.element_type.dtype), generator)
            constant = make_node(Const1(value=Tensor.from_array(perturbed, value.element_type)), (), node.name)
            value.replace_by(constant.outputs[0], move_names=False)


def _widens(node: Node) -> bool:
    if not isinstance(node.op, Convert1):
        return False
    source, target = node.inputs[0], node.outputs[0].element_type
    element_type = source.element_type
    small = element_type.bits <= 8 if element_type.is_integral else element_type.is_real
    return source.tensor is not None and target.is_real and small and 0 < element_type.bits < target.bits


def _is_half(node: Node) -> bool:
    mark = dict(DECOMPRESSION.attributes)["name"]
    return any(dict(info.attributes).get("name") == mark for info in node.runtime_info)


def _all_infos(infos: tuple[RuntimeInfo, ...]) -> Iterator[RuntimeInfo]:
    for info in infos:
        yield info
        yield from _all_infos(info.children)
