"""Fold constant subgraphs: compute what layers compute from constants alone during the conversion.

    coordinates -> MatMul(w) -> ReLU -> MatMul(v) -> Gather(places) -> Sigmoid -> b
    scores, b -> Add                                        becomes      scores, b -> Add
    4 -> Range(0, 4, 1) -> Multiply(4) -> Divide(4)         becomes      [0, 1, 2, 3]

Single layers of constants are folded as they are emitted, unless the result is larger than its inputs, or the inputs
become constant later, as dimensions do. Here a constant replaces the last layer of a subgraph. The constants of a model
may grow by a part of what the invariants allow. Compressed weights stay compressed, and so do layers that take long to
compute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ir_runtime.graph import Model, Node, Output, Part, Tensor, TensorType, element_types
from ir_runtime.graph.invariants import PRECISION, allowed_growth, constant_bytes
from ir_runtime.rewriting import Builder, NotMatched, PassTrace, UniqueNames, fail, graph_pass
from ir_runtime.rewriting.constant_folding import fold, is_decompression

from .registry import passes

_INTEGERS = (element_types.i32, element_types.i64, element_types.boolean)
_MAX_LAYERS = 64
_MAX_BYTES = 1 << 22
"""Maximum size in bytes of each tensor that is computed or read."""
_MAX_GROWTH_OF_EACH = 1 << 20
"""Maximum number of bytes by which :func:`fold_constants` lets one result exceed the constants that it frees."""
_PARTS_OF_GROWTH = 3
"""Each of the two passes may use one part of the growth that is allowed; one is for other passes."""


@passes.register("constant_integers")
def constant_integers(model: Model, trace: PassTrace) -> int:
    """Replace layers that compute integers or booleans from constants by constants."""
    return _fold(model, trace, lambda value: value.element_type in _INTEGERS and _is_of_known_size(value), min_layers=1)


@passes.register("constant_subgraphs")
def constant_subgraphs(model: Model, trace: PassTrace) -> int:
    """Replace constant subgraphs of several layers by their values.

    Single layers of other types than integers stay, so that a Convert or Broadcast does not enlarge the weights.
    """
    return _fold(model, trace, _is_of_known_size, min_layers=2)


@graph_pass("folded_constants", PRECISION)
def fold_constants(model: Model) -> int:
    """Replace all layers that compute constants from constants, where the constants grow little; return their number.

    For models that become ONNX: each layer less is a node less, which is worth more than a few bytes.
    """
    return _fold(model, PassTrace(), _is_of_known_size, min_layers=1, growth_of_each=_MAX_GROWTH_OF_EACH)


def _is_of_known_size(value: Output) -> bool:
    element_type = value.element_type
    return (
        value.shape.is_static
        and bool(element_type.bits)
        and not element_type.dtype.hasobject
        and _bytes(value) <= _MAX_BYTES
    )


def _bytes(value: Output) -> int:
    return value.element_type.byte_size(value.shape.element_count().value)


def _fold(
    model: Model,
    trace: PassTrace,
    is_foldable: Callable[[Output], bool],
    min_layers: int,
    growth_of_each: int | None = None,
) -> int:
    candidates = [(part, _find_computable(part, is_foldable)) for part in model.parts()]
    if not any(branch for _, branch in candidates):
        return 0
    folding = _Folding(model, trace, min_layers, growth_of_each)
    for part, nodes_to_run in candidates:
        if nodes_to_run:
            folding.run(part, nodes_to_run)
    return folding.count


def _find_computable(part: Part, is_foldable: Callable[[Output], bool]) -> dict[Node, None]:
    """Return the layers that depend on constants alone, in their order."""
    computable: dict[Node, None] = {}
    for node in part.nodes:
        op = node.op
        if False in [source.node in computable or source.tensor is not None for source in node.inputs]:
            continue
        if not node.inputs or not node.outputs or not op.is_pure:
            continue
        if not all(map(is_foldable, node.outputs)):
            continue
        if not is_decompression(op, [source.type for source in node.inputs], [output.type for output in node.outputs]):
            computable[node] = None
    return computable


class _Folding:
    """Replaces layers of a model by constants, as long as the constants do not grow too much."""

    def __init__(self, model: Model, trace: PassTrace, min_layers: int, growth_of_each: int | None) -> None:
        self._trace = trace
        self._min_layers = min_layers
        self._growth_of_each = growth_of_each
        self._growth = allowed_growth(constant_bytes(model)) // _PARTS_OF_GROWTH
        """The number of bytes that constants may still grow by, where there is no limit for each."""
        self._holders = Counter(
            id(node.op.data) for part in model.parts() for node in part.nodes if node.op.data is not None
        )
        """The number of constants that hold a tensor."""
        self.count = 0

    def run(self, part: Part, computable: dict[Node, None]) -> None:
        """Walk ``computable`` from the last layer to the first: where a layer stays, its inputs may be constants."""
        unique = UniqueNames(part)
        for node in reversed(computable):
            read = [output for output in node.outputs if output.is_used]
            if not read:
                continue
            try:
                tensors = self._compute(node, read)
            except NotMatched as why:
                self._trace.not_matched(node, why)
                continue
            for output, tensor in zip(read, tensors):
                constant = Builder().tensor(tensor)
                constant.node.name = node.name if len(node.outputs) == 1 else unique(f"{node.name}/constant")
                constant.node.origin = node.origin
                output.replace_by(constant)
            self._trace.matched(node)
            self.count += 1

    def _compute(self, node: Node, read: Sequence[Output]) -> list[Tensor]:
        """Return the values of the outputs ``read`` of a layer, or why it stays."""
        from ir_runtime.operations.quantization import FakeQuantize1  # few models come here

        nodes = _constant_subgraph(node)
        if not self._min_layers <= len(nodes) <= _MAX_LAYERS:
            raise fail("its constant subgraph has a single layer, or too many")
        if any(isinstance(layer.op, FakeQuantize1) for layer in nodes):
            raise fail("they are quantized weights")
        if any(_bytes(source) > _MAX_BYTES for layer in nodes for source in layer.inputs):
            raise fail("it is computed from large constants")
        growth = sum(map(_bytes, read)) - self._count_freed_bytes(nodes)
        if growth > (max(self._growth, 0) if self._growth_of_each is None else self._growth_of_each):
            raise fail("it is much larger than the constants that it is computed from")
        types: dict[Output, TensorType] = {}
        for member in nodes:
            inputs = [types.get(source, source.type) for source in member.inputs]
            tensors = fold(member.op, inputs, [output.type for output in member.outputs], limited=False)
            if tensors is None:
                raise fail(f"layer '{member.name}' cannot be computed during the conversion")
            for output, tensor in zip(member.outputs, tensors):
                types[output] = TensorType(output.element_type, output.shape, tensor)
        self._growth -= growth
        return [folded for folded in (types[output].tensor for output in read) if folded is not None]

    def _count_freed_bytes(self, nodes: Sequence[Node]) -> int:
        """Count the bytes of the constants that have no reader once the last layer is a constant."""
        removed = {nodes[-1]}
        for node in reversed(nodes[:-1]):
            if all(removed.issuperset(output.uses) for output in node.outputs):
                removed.add(node)
        constants = {source.node for node in removed for source in node.inputs if source.tensor is not None}
        unread = [
            constant.op.data
            for constant in constants
            if constant.op.data is not None and removed.issuperset(constant.outputs[0].uses)
        ]
        counts = Counter(map(id, unread))
        # A tensor that another constant holds, too, stays.
        return sum(
            {id(data): data.byte_size for data in unread if counts[id(data)] == self._holders[id(data)]}.values()
        )


def _constant_subgraph(last: Node) -> list[Node]:
    """Return the layers that compute a value from constants, in their order."""
    ordered, pending = dict[Node, None](), [last]
    while pending:
        node = pending[-1]
        missing = [source.node for source in node.inputs if source.tensor is None and source.node not in ordered]
        if missing:
            pending += missing
            continue
        pending.pop()
        ordered[node] = None
    return list(ordered)
