"""The request of a caller: descriptions by name, and single entries that options give, also without a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from converter.errors import ConversionError
from converter.passes.preprocessing.description import Postprocess, Preprocess
from ir_runtime.graph import Model, Node, PartialShape
from ir_runtime.records import record


@record
class Entry:
    """One field of one input, or of an output; without a name it is for the next input that none names."""

    name: str | None
    field: str
    value: Any


@record
class Request:
    """Descriptions by the names of inputs and outputs, and what options add to them."""

    inputs: Mapping[str, Preprocess] = field(default_factory=dict)
    outputs: Mapping[str, Postprocess] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()
    scale: float | None = None
    """What every input is divided by."""
    reverse_channels: bool = False
    """True if red and blue are swapped in every image of three channels."""
    fold: bool = False
    """True if every mean and scale becomes part of the first convolutions."""

    def __bool__(self) -> bool:
        return bool(
            self.inputs or self.outputs or self.entries or self.scale is not None or self.reverse_channels or self.fold
        )

    def bound(self, model: Model) -> tuple[dict[str, Preprocess], dict[str, Postprocess]]:
        """The descriptions for this model's inputs and outputs. Raises :class:`ConversionError`."""
        names = {alias: _name(node) for node in model.parameters for alias in (*node.end_names, node.name)}
        ends = {alias: _name(node) for node in model.results for alias in node.end_names}
        inputs: dict[str, dict[str, Any]] = {}
        outputs: dict[str, dict[str, Any]] = {}
        for field_name in dict.fromkeys(entry.field for entry in self.entries):
            self._share(field_name, list(dict.fromkeys(names.values())), names, ends, inputs, outputs)
        images = [_name(node) for node in model.parameters if _is_image(node.outputs[0].shape)]
        if self.reverse_channels:
            if not images:
                raise ConversionError("reverse_channels needs an input of four dimensions with 3 channels, but none is")
            for name in images:
                _set(inputs, name, "reverse_channels", True)
        if self.scale is not None:
            for name in dict.fromkeys(names.values()):
                _set(inputs, name, "scale", self.scale)
        if self.fold:
            changed = {
                names.get(name, name)
                for described in (inputs, {key: vars(steps) for key, steps in self.inputs.items()})
                for name, fields in described.items()
                if fields.get("mean") is not None or fields.get("scale") is not None
            }
            if not changed:
                raise ConversionError(
                    "fold is of no use without mean or scale: they become part of the first convolution"
                )
            for name in sorted(changed):
                _set(inputs, name, "fold", True)
        return (
            _merge("input", self.inputs, inputs, names, Preprocess),
            _merge("output", self.outputs, outputs, ends, Postprocess),
        )

    def _share(
        self,
        field_name: str,
        order: Sequence[str],
        names: Mapping[str, str],
        ends: Mapping[str, str],
        inputs: dict[str, dict[str, Any]],
        outputs: dict[str, dict[str, Any]],
    ) -> None:
        """Give the entries of one field to the inputs and outputs that they are for."""
        entries = [entry for entry in self.entries if entry.field == field_name]
        named = [names.get(entry.name, "") for entry in entries if entry.name is not None]
        free = [name for name in order if name not in named]
        for entry in entries:
            if entry.name is None:
                if not free:
                    raise ConversionError(
                        f"{field_name} is given for more inputs than the model has: {', '.join(order) or 'none'}"
                    )
                _set(inputs, free.pop(0), field_name, entry.value)
            elif entry.name in names:
                _set(inputs, names[entry.name], field_name, entry.value)
            elif entry.name in ends and "layout" in field_name:
                _set(outputs, ends[entry.name], field_name, entry.value)
            else:
                there = ", ".join(map(repr, order)) or "none"
                raise ConversionError(
                    f"{field_name} is given for '{entry.name}', but the model has no such input; its inputs are {there}"
                )


def _name(node: Node) -> str:
    return (node.end_names or [node.name])[0]


def _is_image(shape: PartialShape) -> bool:
    return (
        shape.has_rank and shape.rank == 4 and any(shape[axis].is_static and shape[axis].value == 3 for axis in (1, 3))
    )


def _set(fields_by_name: dict[str, dict[str, Any]], name: str, field_name: str, value: Any) -> None:
    own = fields_by_name.setdefault(name, {})
    if field_name in own:
        raise ConversionError(f"'{name}' is given {field_name} twice: once is enough")
    own[field_name] = value


def _merge(
    role: str,
    described: Mapping[str, Any],
    added: Mapping[str, dict[str, Any]],
    names: Mapping[str, str],
    steps_class: type[Any],
) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for name, steps in described.items():
        own = names.get(name)
        if own is None:
            there = ", ".join(map(repr, dict.fromkeys(names.values()))) or "none"
            raise ConversionError(f"the model has no {role} '{name}' to process; its {role}s are {there}")
        if own in merged:
            raise ConversionError(f"{role} '{own}' is described twice: name it once")
        merged[own] = steps
    for name, values in added.items():
        before = merged.get(name)
        if before is None:
            merged[name] = steps_class(**values)
            continue
        twice = [key for key in values if getattr(before, key) != getattr(steps_class(), key)]
        if twice:
            raise ConversionError(f"{role} '{name}' is given {twice[0]} twice, as an option and in its description")
        merged[name] = replace(before, **values)
    return merged
