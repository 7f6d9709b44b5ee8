"""Obstacles for OpenVINO's paged attention, which serves many prompts at once, in a stateful model.

It takes the place of attention with a cache, drops the mask, and sees every key up to that of the token, or those of
a window that it finds in the mask. A mask that hides others is silently ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ir_runtime.execution.executor import compile_model
from ir_runtime.graph import Array, Model, Node, Output
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.elementwise import Add1, BitwiseAnd13, Greater1, Select1
from ir_runtime.operations.inputs_outputs import ReadValue6
from ir_runtime.operations.movement import Broadcast3
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewriting.caches import variable_behind
from ir_runtime.rewriting.submodel import extract

_MASK, _POSITIONS = "attention_mask", "position_ids"
_TOKENS, _EMBEDDINGS, _ANY_ONE = ("input_ids",), ("inputs_embeds",), ("beam_idx",)
_MASK_AT = 3
_HIDDEN = -1e4
"""Upper bound of the mask values of hidden keys."""
_MIN_KEYS, _MAX_KEYS = 64, 1 << 17


def obstacles(model: Model) -> list[str]:
    """The reasons, each a sentence; none where paged attention takes the model."""
    return list(dict.fromkeys(_find_obstacles(model)))


def _find_obstacles(model: Model) -> Iterator[str]:
    nodes = model.nodes()
    attentions = [node for node in nodes if isinstance(node.op, ScaledDotProductAttention13)]
    cached = [node for node in attentions if variable_behind(node.inputs[1]) is not None]
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
    masks = [node.outputs[0] for node in model.parameters if _MASK in node.end_names]
    if any(node.op.role == "result" for node in _collect_reached(masks, _is_no_mask)):
        yield f"'{_MASK}' is used for more than the mask of attention, such as positions"
    for mask in dict.fromkeys(node.inputs[_MASK_AT] for node in cached if len(node.inputs) > _MASK_AT):
        wrong = None if mask.tensor is not None else _wrong_mask(model, mask)
        if wrong is not None:
            yield f"the mask of attention {wrong}"


def _is_no_mask(attention: Node, value: Output) -> bool:
    """True if a layer reads ``value`` otherwise than as the mask of attention."""
    is_mask = (
        isinstance(attention.op, ScaledDotProductAttention13) and value in attention.inputs[_MASK_AT : _MASK_AT + 1]
    )
    return not is_mask


def _collect_reached(values: Iterable[Output], goes_on: Callable[[Node, Output], bool]) -> list[Node]:
    """The layers that depend on values, each once; ``goes_on`` tells whether its outputs depend on them, too."""
    pending, readers = list(values), dict[Node, None]()
    while pending:
        value = pending.pop()
        for reader in value.uses:
            if reader not in readers:
                readers[reader] = None
                if goes_on(reader, value):
                    pending.extend(reader.outputs)
    return list(readers)


def _wrong_mask(model: Model, mask: Output) -> str | None:
    """Return how a mask differs from that of paged attention, by computing one row; None where it does not."""
    part = extract(model, {}, {mask: "mask"})
    window = known_window(mask)
    feeds = _step(part, _keys_to_try(part))
    if feeds is None:
        return "depends on more than tokens, attention mask and positions"
    row = np.asarray(compile_model(part, optimize=False)(feeds)["mask"])[..., -1, :]
    keys = row.shape[-1]
    seen = row if row.dtype == np.bool_ else row > _HIDDEN
    expected = np.arange(keys) >= (keys - window if window else 0)
    if (seen != expected).any():
        return f"hides keys in a way that is not known there: {_describe(seen)} of {keys} are seen" + (
            f", and not the last {window}" if window else ""
        )
    if row.dtype != np.bool_ and row[seen].any():
        return "adds numbers to the scores of keys that are seen"
    return None


def _describe(seen: Array) -> str:
    count = int(seen.reshape(-1, seen.shape[-1])[0].sum())
    is_end = bool(seen[..., -count:].all()) if count else False
    return f"the last {count}" if is_end else str(count)


def known_window(mask: Output) -> int:
    """The window that paged attention finds in a mask; 0 where it finds none."""
    node = mask.node
    for operation in (Slice8, Select1, Broadcast3):
        if not isinstance(node.op, operation):
            return 0
        node = node.inputs[0].node
    pending = [node]
    while pending:
        node = pending.pop()
        if isinstance(node.op, BitwiseAnd13):
            pending.extend(source.node for source in node.inputs)
        elif isinstance(node.op, Greater1) and isinstance(node.inputs[1].node.op, Add1):
            offset = node.inputs[1].node.inputs[1].type.constant
            if offset is not None and offset.size == 1:
                return -int(offset.reshape(-1)[0])
    return 0


def _keys_to_try(part: Model) -> int:
    """Twice the greatest whole number in the layers that make a mask: a window is shorter."""
    constants = [node.op.data for node in part.nodes() if node.op.data is not None]
    greatest = [
        int(np.abs(data.array()).max(initial=0))
        for data in constants
        if not data.element_type.is_real and data.size == 1 and data.element_type.bits >= 16
    ]
    return max([_MIN_KEYS, *(2 * count for count in greatest if 2 * count <= _MAX_KEYS)])


def _step(part: Model, keys: int) -> dict[str, Array] | None:
    """Inputs of a step with one token behind ``keys`` - 1 others; None where one is of an unknown kind."""
    feeds: dict[str, Array] = {}
    for node in part.parameters:
        names, dtype = node.end_names, node.outputs[0].element_type.dtype
        if _MASK in names:
            feeds[names[0]] = np.ones((1, keys), dtype)
        elif _POSITIONS in names:
            shape = node.outputs[0].shape  # one row, or three of Qwen2-VL: time, height and width
            sizes = [dim.value if dim.is_static else 1 for dim in shape] if shape.has_rank else [1, 1]
            feeds[names[0]] = np.full(sizes, keys - 1, dtype)
        elif any(name in names for name in _TOKENS):
            feeds[names[0]] = np.ones((1, 1), dtype)
        elif any(name in names for name in _EMBEDDINGS):
            feeds[names[0]] = np.ones([dim.value if dim.is_static else 1 for dim in node.outputs[0].shape], dtype)
        elif any(name in names for name in _ANY_ONE):
            feeds[names[0]] = np.zeros(1, dtype)
        else:
            return None
    return feeds
