"""The record of how a model was derived, in the ``rt_info`` of its IR: one element for each step.

<onnx2ir>
  <step0>
    <action value="convert"/> <version value="0.2.0"/> <source value="onnx"/> <digest value="sha256:..."/>
    <options value='{"exact": true}'/> <passes value='{"gelus": 2}'/> <rules value='{"kept_precision": 1}'/>
  </step0>
  <step1> <action value="save"/> <version value="0.2.0"/> <options value='{"compress": "int8"}'/> </step1>
  <weights value='{"fc": {"sources": ["fc.weight"], "steps": ["Transpose", "u8 codes"]}}'/>
</onnx2ir>

``weights`` has the layers of constants that are not constants of the source as they are, with the names of those that
they were computed from, and what was done to them, in order. Lists of integers, such as axes, are left out.

The same model and options give the same bytes: there are no times and no folders. Mappings are JSON, because OpenVINO
sorts elements when it saves an IR, and passes are in the order in which they ran. Preprocessing has an element of its
own (:mod:`converter.passes.preprocessing.recorded`), and of values that replace inputs the names alone are recorded.
"""

from __future__ import annotations

import hashlib
import json
import operator
import re
from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from pathlib import Path
from typing import Any

from converter.version import __version__
from ir_runtime.graph import Model, RuntimeInfo, Tensor
from ir_runtime.graph.element_types import i32, i64
from ir_runtime.graph.provenance import Computed
from ir_runtime.records import record

TAG = "onnx2ir"
_MAPPINGS = ("options", "passes", "rules")
_WEIGHTS = "weights"
_LONGEST_LIST = 64
"""Constants of at most so many i32 or i64 are axes, dimensions and the like, which others are computed from."""


@record
class Step:
    """A step of a derivation: a conversion, states turned into inputs, or saving with options that change the model."""

    action: str
    """``convert``, ``edit``, ``make_stateless`` or ``save``."""
    version: str = __version__
    """The version of onnx2ir."""
    source: str = ""
    """``onnx`` or ``ir``: what was converted. The steps before this one are those of the IR."""
    digest: str = ""
    """The digest of the file that was converted; empty where it was an object in memory."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options that differ from their defaults."""
    passes: Mapping[str, int] = field(default_factory=dict)
    """The number of layers that each pass replaced, without passes that replaced none."""
    rules: Mapping[str, int] = field(default_factory=dict)
    """The number of times that each rule of the target applied, without rules that did not."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are not empty."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: value for name, value in values.items() if value}

    def to_info(self, tag: str) -> RuntimeInfo:
        """Return the step as an element of ``rt_info``."""
        values = self.to_dict().items()
        # Callers pass NumPy's numbers, too.
        texts = [
            (name, value if isinstance(value, str) else json.dumps(value, default=operator.methodcaller("item")))
            for name, value in values
        ]
        return RuntimeInfo(tag, (), tuple(RuntimeInfo(name, (("value", text),)) for name, text in texts))

    @classmethod
    def from_info(cls, info: RuntimeInfo) -> Step:
        """Return the step that :meth:`to_info` wrote; raises :class:`ValueError` for any other element."""
        texts = {child.tag: dict(child.attributes).get("value", "") for child in info.children}
        values: dict[str, Any] = {name: _from_json(text) if name in _MAPPINGS else text for name, text in texts.items()}
        step = cls(**values)
        counts = (*step.passes.values(), *step.rules.values())
        if not texts.get("version"):
            raise ValueError("the record has a step without a version")
        if step.action not in ("convert", "edit", "make_stateless", "save") or step.source not in ("", "onnx", "ir"):
            raise ValueError("the record has a step of an unknown type")
        if not re.fullmatch(r"|sha256:[0-9a-f]{64}", step.digest) or not all(
            type(count) is int and count > 0 for count in counts
        ):
            raise ValueError("the record has a digest or a count that is none")
        return step


@record
class Derivation:
    """The derivation of a model: the steps in order, none where that was not recorded."""

    steps: tuple[Step, ...] = ()
    weights: Mapping[str, Computed] | None = None
    """What the constants of these layers were computed from. All other constants are those of the source. None where
    that was not recorded."""

    @classmethod
    def of(cls, model: Model) -> Derivation:
        """Return what :meth:`write` wrote.

        A record that cannot be read as a whole counts as missing: what is left of it would look complete.
        """
        info = next((info for info in model.runtime_info if info.tag == TAG), RuntimeInfo(TAG))
        steps = {child.tag: child for child in info.children}
        weights = steps.pop(_WEIGHTS, None)
        try:
            count = len(info.children) - (weights is not None)  # two elements of one name are one too many
            read = tuple(Step.from_info(steps[f"step{index}"]) for index in range(count))
            return cls(read, None if weights is None else _weights_from(dict(weights.attributes)["value"]))
        except (ValueError, TypeError, KeyError, RecursionError):
            return cls()

    def to_dict(self) -> dict[str, Any]:
        """Return steps and weights as plain values."""
        weights = {
            name: {"sources": provenance.names, "steps": provenance.steps}
            for name, provenance in (self.weights or {}).items()
        }
        return {"derivation": [step.to_dict() for step in self.steps], "computed_weights": weights}

    @classmethod
    def begin(cls, model: Model) -> None:
        """Name the constants of ``model`` whose provenance is unknown: as its record does, or after their layers."""
        weights = cls.of(model).weights or {}
        for name, tensor in _constants(model):
            if tensor.provenance is None:
                tensor.provenance = weights.get(name, name)

    def then(self, step: Step, model: Model) -> Derivation:
        """Return the derivation with one more step, which led to ``model``."""
        is_known = self.weights is not None or not self.steps
        return Derivation((*self.steps, step), dict(_weights_of(model)) if is_known else None)

    def write(self, model: Model) -> None:
        """Write this into the ``rt_info`` of ``model``, replacing any earlier one."""
        others = tuple(info for info in model.runtime_info if info.tag != TAG)
        infos = [step.to_info(f"step{index}") for index, step in enumerate(self.steps)]
        if self.weights is not None:
            infos.append(RuntimeInfo(_WEIGHTS, (("value", json.dumps(self.to_dict()["computed_weights"])),)))
        model.runtime_info = (*others, RuntimeInfo(TAG, (), tuple(infos))) if infos else others


def _weights_of(model: Model) -> Iterator[tuple[str, Computed]]:
    """Yield the layers whose constants are not constants of the source as they are."""
    for name, tensor in _constants(model):
        provenance = tensor.provenance
        if tensor.element_type in (i32, i64) and tensor.size <= _LONGEST_LIST:
            continue
        if isinstance(provenance, Computed):
            yield name, provenance.resolved()
        elif provenance is not None and provenance != name:
            yield name, Computed((), (provenance,))


def _constants(model: Model) -> Iterator[tuple[str, Tensor]]:
    """Yield the constants with the names of their layers; of two in different bodies with one name only the first."""
    names: set[str] = set()
    for part in model.parts():
        for node in part.nodes:
            if node.op.data is not None and node.name not in names:
                names.add(node.name)
                yield node.name, node.op.data


def _weights_from(text: str) -> dict[str, Computed]:
    weights = {}
    for name, entry in _from_json(text).items():
        weights[name] = Computed(tuple(entry["steps"]), tuple(entry["sources"]))
        if any(type(word) is not str for word in (*weights[name].steps, *weights[name].sources)):
            raise ValueError("the record has a weight of something that is no name")
    return weights


def without_record(model: Model) -> Model:
    """Return the model without a record: a copy where it has one."""
    if all(info.tag != TAG for info in model.runtime_info):
        return model
    copy = model.clone()
    Derivation().write(copy)
    return copy


def digest_of_ir(source: Any) -> str:
    """Return the digest of an ``.xml``, which has the places and sizes of the weights; empty for a model in memory."""
    return "" if isinstance(source, Model) else digest_of(Path(source).read_bytes())


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of ``data`` as the record has it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _from_json(text: str) -> dict[str, Any]:
    values = json.loads(text, parse_constant=_refuse)  # NaN is no JSON
    if not isinstance(values, dict):
        raise ValueError("the record has a value that is no mapping")
    return values


def _refuse(text: str) -> None:
    raise ValueError(f"the record has {text}")
