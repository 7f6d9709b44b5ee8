"""What keeps OpenVINO's paged attention, which serves many prompts at once, from taking a stateful model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ir_runtime.graph.model import Model, Node, Output, uses_in
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.inputs_outputs import ReadValue6
from ir_runtime.rewriting.caches import variable_behind

_MASK = "attention_mask"


def obstacles(model: Model) -> list[str]:
    """The reasons, each a sentence; none where paged attention takes the model."""
    return list(dict.fromkeys(_found(model)))


def _found(model: Model) -> Iterator[str]:
    nodes = model.nodes()
    attentions = [node for node in nodes if isinstance(node.op, ScaledDotProductAttention13)]
    caches = {variable_behind(node.inputs[index]) for node in attentions for index in (1, 2)}
    for node in nodes:
        if not isinstance(node.op, ReadValue6) or node in caches:
            continue
        shape = node.op.variable_shape
        if all(dim.is_static for dim in list(shape)[1:]):
            yield f"the variable '{node.op.variable_id}' {shape} is no cache of keys, but a state of fixed size"
        else:
            yield (
                "its attention is no ScaledDotProductAttention: scores are limited (softcap), or changed in another "
                "way that the layer does not have"
            )
    readers = uses_in(nodes)
    masks = [node.outputs[0] for node in model.parameters if _MASK in node.end_names]
    if any(node.op.role == "result" for node in _reached(masks, readers, _is_no_mask)):
        yield f"'{_MASK}' is used for more than the mask of attention, such as positions"


def _is_no_mask(attention: Node, value: Output) -> bool:
    """Whether a layer reads ``value`` otherwise than as the mask of attention."""
    is_mask = isinstance(attention.op, ScaledDotProductAttention13) and value in attention.inputs[3:4]
    return not is_mask


def _reached(
    values: Iterable[Output], readers: Mapping[Output, Sequence[Node]], goes_on: Callable[[Node, Output], bool]
) -> list[Node]:
    """The layers that depend on values, each once; ``goes_on`` tells whether its outputs depend on them, too."""
    pending, found = list(values), dict[Node, None]()
    while pending:
        value = pending.pop()
        for reader in readers.get(value, ()):
            if reader not in found:
                found[reader] = None
                if goes_on(reader, value):
                    pending.extend(reader.outputs)
    return list(found)
