"""Pairs of an output and the input of the next call: by their names, or by the layers in between."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from converter.errors import ConversionError
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.operations.indexing import Gather
from ir_runtime.operations.movement import Concat1
from ir_runtime.operations.scatter import (
    ScatterElementsUpdate3,
    ScatterElementsUpdate12,
    ScatterNDUpdate4,
    ScatterNDUpdate15,
    ScatterUpdate3,
)
from ir_runtime.records import record

_OF_PRESENT = (
    (
        re.compile(r"past(_key_values?|_kv|_states?)?"),
        ("present", "present_key_values", "present_kv", "present_states", "new_past"),
    ),
    (re.compile(r"^(.*(?:cache|state|hidden).*?)(?:_in)?$"), (r"\1_out", r"\1N", r"new_\1", r"next_\1", r"\1_next")),
    (re.compile(r"^([hc])_?0?$"), (r"\1n", r"\1_n", r"\1_out")),
)
"""Patterns of input names -> the names of their outputs."""
_UPDATES = (
    *(ScatterUpdate3, ScatterElementsUpdate3, ScatterElementsUpdate12, ScatterNDUpdate4, ScatterNDUpdate15),
    *(Concat1, Convert1, Gather),
)
"""Operations whose output is their first input with something added or replaced."""


@record
class Pair:
    """An input and the output that it is given in the next call."""

    past: Node
    present: Node

    @property
    def name(self) -> str:
        """The input's name."""
        return self.past.end_names[0]


def pairs_of(model: Model, names: Mapping[str, str] | None = None) -> list[Pair]:
    """The pairs of a model, in the order of its inputs; ``names`` maps inputs to outputs where they are known.

    Without ``names`` an output belongs to an input where its name tells so (``past.0.key`` and ``present.0.key``), or
    where it is the input itself with parts added or replaced. Raises :class:`ConversionError` for names that the model
    does not have, and where an input would be paired with two outputs.
    """
    if names is not None:
        return _named_pairs(model, names)
    pairs: dict[Node, Node] = {}
    by_name = {name: node for node in model.results for name in node.end_names}
    for past in model.parameters:
        presents = [by_name[name] for name in _names_of_present(past) if name in by_name]
        fitting = [present for present in presents if _fit(past.outputs[0], present.inputs[0])]
        if fitting:
            pairs[past] = fitting[0]
    taken = set(pairs.values())
    for past in model.parameters:
        if past in pairs:
            continue
        results = [node for node in _results_with(past.outputs[0]) if node not in taken]
        if len(results) > 1:
            outputs = ", ".join(f"'{node.end_names[0]}'" for node in results)
            raise ConversionError(f"input '{past.end_names[0]}' is kept in several outputs, {outputs}: name its output")
        if results and _fit(past.outputs[0], results[0].inputs[0]):
            pairs[past] = results[0]
    return [Pair(past, pairs[past]) for past in model.parameters if past in pairs]


def _names_of_present(past: Node) -> Iterator[str]:
    for name in past.end_names:
        for pattern, replacements in _OF_PRESENT:
            if pattern.search(name):
                yield from (pattern.sub(replacement, name, count=1) for replacement in replacements)


def _fit(past: Output, present: Output) -> bool:
    """True if a value may become that of the input in the next call."""
    if past.element_type is not present.element_type:
        return False
    return not (past.shape.has_rank and present.shape.has_rank) or past.shape.rank == present.shape.rank


def _results_with(value: Output) -> list[Node]:
    """The results that return ``value`` with something added or replaced, but not unchanged."""
    readers: dict[Node, None] = {}
    pending, seen = [(value, False)], {value}
    while pending:
        kept, is_changed = pending.pop()
        for reader in kept.uses:
            if reader.op.role == "result" and is_changed:
                readers[reader] = None
            is_data = reader.inputs[0] is kept or isinstance(reader.op, Concat1)
            if isinstance(reader.op, _UPDATES) and is_data and reader.outputs[0] not in seen:
                seen.add(reader.outputs[0])
                pending.append((reader.outputs[0], True))
    return list(readers)


def _named_pairs(model: Model, names: Mapping[str, str]) -> list[Pair]:
    inputs = {name: node for node in model.parameters for name in node.end_names}
    outputs = {name: node for node in model.results for name in node.end_names}
    pairs = []
    for past, present in names.items():
        for name, ends, role in ((past, inputs, "input"), (present, outputs, "output")):
            if name not in ends:
                raise ConversionError(f"the model has no {role} '{name}'; there are {', '.join(ends) or 'none'}")
        pair = Pair(inputs[past], outputs[present])
        value, new = pair.past.outputs[0], pair.present.inputs[0]
        if not _fit(value, new):
            raise ConversionError(f"output '{present}' {new.type} cannot become input '{past}' {value.type}")
        pairs.append(pair)
    return pairs
