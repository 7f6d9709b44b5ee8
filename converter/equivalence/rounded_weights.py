"""What the rounding of compressed weights costs each tensor of a model, on given inputs.

Weights that were put on a grid are anywhere within half a step of what they were. The model is run again with
every code moved by up to half a step at random: it then differs from itself as much as it should differ from the
model of unrounded weights, and a wrong layer shows beside that. No data but the IR is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from converter.passes.weight_compression import WEIGHT_COMPRESSION
from ir_runtime import Model, compile_model
from ir_runtime.element_types import Array
from ir_runtime.graph import Node, Output, RuntimeInfo
from ir_runtime.operations.elementwise import Convert1, Subtract1
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.rewrite import clone, replace_all_uses, uses_of
from ir_runtime.shape_inference import make_node
from ir_runtime.tensor import Tensor

_TIMES = 4
_DEVIATIONS = 6.0
"""So many standard deviations of the rounding's effect are allowed, or so many times its largest effect, which
counts where a few values are much larger than the others: rounding alone stays below."""
_TIMES_LARGEST = 1.5
_SHARE = 0.5
"""Of the largest value; where rounding costs more there is nothing left to compare."""


def has_rounded_weights(model: Model) -> bool:
    """Whether the model says so: weights that it has in whole numbers may be its own."""
    return any(info.tag == WEIGHT_COMPRESSION for info in _below(model.runtime_info))


def rounding_allowances(model: Model, feeds: Mapping[str, Array]) -> dict[str, float]:
    """How far each real output of ``model`` may lie from the expected one for its weights' rounding alone."""
    plain = _run(model, feeds)
    gaps: dict[str, list[Array]] = {name: [] for name in plain}
    for seed in range(_TIMES):
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
    """A copy whose codes of weights, but not their zero points, are up to half a step away."""
    generator = np.random.default_rng(seed)
    made = clone(model)
    for part in made.all_models():
        uses = uses_of(part)
        replaced: dict[Output, Output] = {}
        for node in part.nodes():
            value = node.outputs[0] if node.outputs else None
            if value is None or not _holds_codes(node):
                continue
            if any(isinstance(user.op, Subtract1) and user.inputs[1] is value for user in uses[value]):
                continue
            codes = node.inputs[0].tensor
            assert codes is not None
            moved = codes.array().astype(np.float32)
            moved += generator.uniform(-0.5, 0.5, moved.shape).astype(np.float32)
            constant = make_node(Const1(value=Tensor.from_array(moved, value.element_type)), (), node.name)
            replaced[value] = constant.outputs[0]
        replace_all_uses(part, replaced)
    return made


def _holds_codes(node: Node) -> bool:
    if not isinstance(node.op, Convert1):
        return False
    source = node.inputs[0]
    kind = source.element_type
    return source.tensor is not None and kind.is_integral and kind.bits <= 8 and node.outputs[0].element_type.is_real


def _below(found: tuple[RuntimeInfo, ...]) -> Iterator[RuntimeInfo]:
    for info in found:
        yield info
        yield from _below(info.children)
