"""What the rounding of compressed weights costs each tensor of a model, on given inputs.

Weights that were put on a grid are anywhere within half a step of what they were, those that were stored as float16
within half a representable value. The model is run again with every weight moved by up to that much at random: it then
differs from itself as much as it should differ from the model of unrounded weights, and a wrong layer shows beside
that. No data but the IR is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from converter.compression.float16_constants import DECOMPRESSION
from converter.compression.weight_compression import WEIGHT_COMPRESSION
from ir_runtime import Model, compile_model
from ir_runtime.element_types import Array
from ir_runtime.graph import Node, Output, RuntimeInfo
from ir_runtime.operations.elementwise import Convert1, Subtract1
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.rewrite import clone, replace_all_uses
from ir_runtime.shape_inference import make_node
from ir_runtime.tensor import Tensor

_TIMES = 4
_MORE_TIMES = 16
_FEW = 64
"""Outputs of fewer elements say too little of their deviation in a few runs."""
_DEVIATIONS = 6.0
"""So many standard deviations of the rounding's effect are allowed, or so many times its largest effect, which
counts where a few values are much larger than the others: rounding alone stays below."""
_TIMES_LARGEST = 1.5
_SHARE = 0.5
"""Of the largest value; where rounding costs more there is nothing left to compare."""


@dataclass(frozen=True)
class RoundedWeights:
    """Which constants of a model are rounded weights: the nodes that widen them.

    A model may have weights in whole numbers or float16 of its own; only what the IR says of itself counts.
    """

    widening: frozenset[Node]

    @classmethod
    def of(cls, model: Model) -> RoundedWeights:
        """What ``model`` says of its weights."""
        whole = any(info.tag == WEIGHT_COMPRESSION for info in _below(model.runtime_info))
        found: set[Node] = set()
        for part in model.parts():
            nodes = part.nodes
            widening = {node for node in nodes if _widens(node)}
            if not widening:
                continue
            zero_points = {
                node.inputs[1].node
                for node in nodes
                if isinstance(node.op, Subtract1) and node.inputs[1].node in widening
            }
            found |= {
                node
                for node in widening - zero_points
                if (_is_half(node) if node.inputs[0].element_type.is_real else whole)
            }
        return cls(frozenset(found))

    def __bool__(self) -> bool:
        return bool(self.widening)

    def holds(self, node: Node) -> bool:
        """Whether the node widens rounded weights."""
        return node in self.widening

    @staticmethod
    def moved(node: Node, widened: Array, generator: np.random.Generator) -> Array:
        """The weights that ``node`` widens as they may have been before they were rounded."""
        source = node.inputs[0].element_type
        amount = generator.random(widened.shape, np.float32) - np.float32(0.5)
        if source.is_integral:
            return np.asarray(widened + amount, widened.dtype)
        eps = float(np.finfo(np.float16).eps) if source.dtype == np.float16 else 2.0**-7
        return np.asarray(widened + widened * (amount * eps), widened.dtype)


def rounding_allowances(model: Model, feeds: Mapping[str, Array]) -> dict[str, float]:
    """How far each real output of ``model`` may lie from the expected one for its weights' rounding alone."""
    plain = _run(model, feeds)
    gaps: dict[str, list[Array]] = {name: [] for name in plain}
    few = any(value.size < _FEW for value in plain.values())
    for seed in range(_MORE_TIMES if few else _TIMES):
        for name, value in _run(_moved(model, seed), feeds).items():
            if value.shape != plain[name].shape:  # a shape that follows from values
                continue
            with np.errstate(invalid="ignore"):
                gaps[name].append(np.nan_to_num(np.abs(value - plain[name]), nan=0.0, posinf=0.0))
    return {name: _allowance(plain[name], found) for name, found in gaps.items()}


def _allowance(value: Array, gaps: list[Array]) -> float:
    found = np.array(gaps)
    if not found.size:
        return 0.0
    wanted = max(_DEVIATIONS * float(np.sqrt(np.mean(np.square(found)))), _TIMES_LARGEST * float(found.max()))
    return min(wanted, _SHARE * float(np.abs(value[np.isfinite(value)]).max(initial=0.0)))


def _run(model: Model, feeds: Mapping[str, Array]) -> dict[str, Array]:
    compiled = compile_model(model)
    values = zip(compiled.outputs, compiled(feeds).to_list())
    return {port.name: value.astype(np.float64) for port, value in values if port.element_type.is_real}


def _moved(model: Model, seed: int) -> Model:
    """A copy whose weights, but not their zero points, are as far away as they were rounded."""
    generator = np.random.default_rng(seed)
    made = clone(model)
    rounded = RoundedWeights.of(made)
    for part in made.all_models():
        replaced: dict[Output, Output] = {}
        for node in part.nodes():
            if not rounded.holds(node):
                continue
            value = node.outputs[0]
            stored = node.inputs[0].tensor
            assert stored is not None
            moved = rounded.moved(node, stored.array().astype(value.element_type.dtype), generator)
            constant = make_node(Const1(value=Tensor.from_array(moved, value.element_type)), (), node.name)
            replaced[value] = constant.outputs[0]
        replace_all_uses(part, replaced)
    return made


def _widens(node: Node) -> bool:
    if not isinstance(node.op, Convert1):
        return False
    source, target = node.inputs[0], node.outputs[0].element_type
    kind = source.element_type
    small = kind.bits <= 8 if kind.is_integral else kind.is_real
    return source.tensor is not None and target.is_real and small and 0 < kind.bits < target.bits


def _is_half(node: Node) -> bool:
    mark = dict(DECOMPRESSION.attributes)["name"]
    return any(dict(info.attributes).get("name") == mark for info in node.runtime_info)


def _below(found: tuple[RuntimeInfo, ...]) -> Iterator[RuntimeInfo]:
    for info in found:
        yield info
        yield from _below(info.children)
