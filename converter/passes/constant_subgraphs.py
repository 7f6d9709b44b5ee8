"""Values that several layers compute from constants are computed while converting.

    coordinates -> MatMul(w) -> ReLU -> MatMul(v) -> Gather(places) -> Sigmoid -> b
    scores, b -> Add

becomes

    scores, b -> Add

Single layers of constants are folded as they are emitted, unless the result is larger than what it is made from. Where
the last of several is no larger, or not much for the number of layers, it takes their place. Compressed weights stay
compressed, and what takes long to compute stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ir_runtime.graph.model import Model, Node, Output, Part
from ir_runtime.graph.operation import FOLD_LIMIT, TensorType
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.rewriting.constant_folding import fold, is_decompression
from ir_runtime.rewriting.matching import NotMatched, fail
from ir_runtime.rewriting.trace import PassTrace
from ir_runtime.rewriting.uses import Uses

from .registry import passes

_MIN_LAYERS = 2
_MAX_LAYERS = 64
_MAX_BYTES = 1 << 22
"""Nothing on the way may be larger."""


class _Cone(NamedTuple):
    """The layers that make a value from constants, in their order, and these constants."""

    nodes: list[Node]
    constants: list[Node]


@passes.register("constant_subgraphs", after=["equal_layers"], fuses=True, rounds=True)
def constant_subgraphs(model: Model, trace: PassTrace) -> int:
    """Put constants in the place of what several layers compute from constants."""
    return sum(_fold_in(part, trace) for part in model.parts())


def _fold_in(part: Part, trace: PassTrace) -> int:
    known = set[Node]()
    for node in part.nodes:
        if node.inputs and _is_computable(node, known):
            known.add(node)
    if not known:
        return 0
    uses, count = Uses(part.uses), 0
    for node in part.nodes:
        if node not in known or all(reader in known for reader in uses[node.outputs[0]]):
            continue
        made = _constant(node, uses)
        if isinstance(made, NotMatched):
            trace.not_matched(node, made)
            continue
        uses.replace(node.outputs[0], made.outputs[0])
        uses.add([made])
        trace.matched(node)
        count += 1
    return count


def _is_computable(node: Node, known: set[Node]) -> bool:
    """Whether a layer reads nothing but constants and what is computed from them."""
    op = node.op
    if not op.deterministic or op.subgraphs or op.role or len(node.outputs) != 1:
        return False
    if any(source.tensor is None and source.node not in known for source in node.inputs):
        return False
    kind = node.outputs[0]
    if not kind.shape.is_static or not kind.element_type.bits or kind.element_type.dtype.hasobject:
        return False
    return not is_decompression(op, [source.type for source in node.inputs], [kind.type]) and _bytes(kind) <= _MAX_BYTES


def _bytes(value: Output) -> int:
    return value.element_type.byte_size(value.shape.element_count().value)


def _constant(node: Node, uses: Uses) -> Node | NotMatched:
    """The constant of what a layer computes, or why it stays."""
    from ir_runtime.operations.quantization import FakeQuantize1  # few models come here

    if any(reader.op.role == "result" for reader in uses[node.outputs[0]]):
        return fail("a result returns it")
    cone = _cone(node)
    if not _MIN_LAYERS <= len(cone.nodes) <= _MAX_LAYERS:
        return fail("it is made by a single layer, or by too many")
    sizes = [_bytes(constant.outputs[0]) for constant in cone.constants]
    if max(sizes, default=0) > _MAX_BYTES:
        return fail("it is made from large constants")
    if any(isinstance(one.op, FakeQuantize1) for one in cone.nodes):
        return fail("they are quantised weights")
    inside = set(cone.nodes)
    goes = [one for one in cone.nodes[:-1] if inside.issuperset(uses[one.outputs[0]])]
    rest = sum(
        size for one, size in zip(cone.constants, sizes) if all(reader in inside for reader in uses[one.outputs[0]])
    )
    if len(goes) < len(cone.nodes) - 1:
        rest = 0
    if _bytes(node.outputs[0]) > max(rest, FOLD_LIMIT * (len(goes) + 1)):
        return fail("it is much larger than what it is made from")
    return _folded(cone.nodes, node)


def _cone(node: Node) -> _Cone:
    nodes, constants, pending = dict[Node, None](), dict[Node, None](), [node]
    while pending:
        one = pending[-1]
        missing = [s.node for s in one.inputs if s.tensor is None and s.node not in nodes]
        if missing:
            pending += missing
            continue
        pending.pop()
        nodes[one] = None
        constants.update((source.node, None) for source in one.inputs if source.tensor is not None)
    return _Cone(list(nodes), list(constants))


def _folded(nodes: Sequence[Node], last: Node) -> Node | NotMatched:
    types: dict[Output, TensorType] = {}
    for node in nodes:
        (output,) = node.outputs
        made = fold(node.op, [types.get(one, one.type) for one in node.inputs], [output.type], limited=False)
        if made is None:
            return fail(f"layer '{node.name}' is not computed from its constants")
        types[output] = TensorType(output.element_type, output.shape, made[0])
    tensor = types[last.outputs[0]].tensor
    assert tensor is not None
    constant = make_node(Const1(value=tensor), (), last.name)
    constant.origin = last.origin
    return constant
