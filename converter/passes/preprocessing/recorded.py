"""Record of the steps of inputs and outputs in the ``rt_info`` of the IR: ``verify`` and ``inspect`` read it.

<preprocessing>
  <inputs><input0 name="image"><info name="mean" value="127.5"/> ...</input0></inputs>
</preprocessing>
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from converter.errors import ConversionError
from converter.passes.preprocessing.description import Postprocess, Preprocess
from ir_runtime.graph import Model, RuntimeInfo
from ir_runtime.records import record

TAG = "preprocessing"
METADATA = "onnx2ir.preprocessing"
"""Where the metadata of an exported ONNX model has the same."""
Steps = TypeVar("Steps", Preprocess, Postprocess)


@record
class Recorded:
    """The steps of a model's inputs and outputs, by name; ``reversed_layers`` have weights in reversed order."""

    inputs: Mapping[str, Preprocess]
    outputs: Mapping[str, Postprocess]
    reversed_layers: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: Model) -> Recorded:
        """Read the record that :meth:`write` wrote; raises :class:`ConversionError` where that cannot be read."""
        root = next((info for info in model.runtime_info if info.tag == TAG), None)
        if root is None:
            return cls.from_text(_metadata(model).get(METADATA, ""))
        groups = {child.tag: child.children for child in root.children}
        reversed_layers = (_value(info) for info in groups.get("reversed", ()))
        return cls(
            dict(_read(groups.get("inputs", ()), Preprocess)),
            dict(_read(groups.get("outputs", ()), Postprocess)),
            tuple(reversed_layers),
        )

    @classmethod
    def from_text(cls, text: str) -> Recorded:
        """Parse the record in the form of :attr:`text`; nothing for an empty text."""
        if not text:
            return cls({}, {})
        try:
            values = json.loads(text)
            return cls(
                {name: _build_steps(steps, Preprocess) for name, steps in values.get("inputs", {}).items()},
                {name: _build_steps(steps, Postprocess) for name, steps in values.get("outputs", {}).items()},
                tuple(values.get("reversed", ())),
            )
        except (ValueError, TypeError, AttributeError, ConversionError) as error:
            raise ConversionError(f"the model's record of its preprocessing cannot be read: {error}") from error

    @property
    def text(self) -> str:
        """This as JSON, for the metadata of an ONNX model."""
        groups = {
            "inputs": {name: as_texts(steps) for name, steps in self.inputs.items()},
            "outputs": {name: as_texts(steps) for name, steps in self.outputs.items()},
            "reversed": list(self.reversed_layers),
        }
        return json.dumps({key: group for key, group in groups.items() if group})

    def __bool__(self) -> bool:
        return bool(self.inputs or self.outputs)

    def write(self, model: Model) -> None:
        """Write this into the ``rt_info`` of ``model``, replacing any earlier one."""
        others = tuple(info for info in model.runtime_info if info.tag != TAG)
        groups = {
            "inputs": [
                _element(f"input{index}", name, steps) for index, (name, steps) in enumerate(self.inputs.items())
            ],
            "outputs": [
                _element(f"output{index}", name, steps) for index, (name, steps) in enumerate(self.outputs.items())
            ],
            "reversed": [_info(f"layer{index}", name) for index, name in enumerate(self.reversed_layers)],
        }
        written = tuple(RuntimeInfo(tag, (), tuple(children)) for tag, children in groups.items() if children)
        model.runtime_info = (*others, RuntimeInfo(TAG, (), written)) if written else others

    def shown(self, name: str) -> str:
        """The steps of an input or output, as words."""
        steps = self.inputs.get(name) or self.outputs[name]
        return ", ".join(f"{key} {value}" for key, value in as_texts(steps).items())


def as_texts(steps: Preprocess | Postprocess) -> dict[str, str]:
    """The fields that differ from their defaults."""
    texts = {}
    for field in fields(steps):
        value = getattr(steps, field.name)
        if value != field.default:
            texts[field.name] = ", ".join(map(repr, value)) if isinstance(value, tuple) else str(value)
    return texts


def _element(tag: str, name: str, steps: Preprocess | Postprocess) -> RuntimeInfo:
    return RuntimeInfo(tag, (), (_info("name", name), *(_info(key, text) for key, text in as_texts(steps).items())))


def _info(name: str, value: str) -> RuntimeInfo:
    return RuntimeInfo("info", (("name", name), ("value", value)))


def _value(info: RuntimeInfo) -> str:
    return dict(info.attributes).get("value", "")


def _metadata(model: Model) -> dict[str, str]:
    """The metadata of the ONNX file that the model was made from."""
    children = next((info.children for info in model.runtime_info if info.tag == "onnx"), ())
    group = next((child.children for child in children if child.tag == "metadata_props"), ())
    return {dict(info.attributes).get("name", info.tag): _value(info) for info in group}


def _read(infos: Iterable[RuntimeInfo], steps_class: type[Steps]) -> Iterable[tuple[str, Steps]]:
    for info in infos:
        # OpenVINO writes <info name="mean" value="1"/> again as <mean value="1"/>.
        texts = {dict(child.attributes).get("name", child.tag): _value(child) for child in info.children}
        try:
            yield texts["name"], _build_steps(texts, steps_class)
        except (KeyError, ValueError, ConversionError) as error:
            raise ConversionError(f"the IR's record of its preprocessing cannot be read: {error}") from error


def _build_steps(texts: Mapping[str, str], steps_class: type[Steps]) -> Steps:
    """The description that :func:`as_texts` wrote."""
    field_names = {field.name for field in fields(steps_class)}
    values: dict[str, Any] = {key: text for key, text in texts.items() if key in field_names}
    for key in ("mean", "scale"):
        if key in values:
            values[key] = [float(number) for number in values[key].split(",")]
    for key in ("size", "crop"):
        if key in values:
            lengths = tuple(int(number) for number in values[key].split(","))
            values[key] = lengths if len(lengths) > 1 else lengths[0]
    for key in ("reverse_channels", "fold"):
        if key in values:
            values[key] = values[key] == "True"
    return steps_class(**values)
