"""Derivation of an IR once more from its source, by the recorded steps, and comparison of both bit by bit.

An IR that equals its derivation is what this version makes of the source; nothing was changed afterwards. That does
not prove that the conversion is right: the comparison of results with onnxruntime's does. In return it needs no
tolerance, so that it also finds changed weights whose effect on the results is too small to show.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from converter.conversion.convert import compressed, convert, convert_model
from converter.conversion.from_ir import is_ir
from converter.errors import VerificationError
from converter.onnx_file.model import OnnxModel
from converter.onnx_file.model_info import DeclaredInfo
from converter.onnx_file.reader import ModelSource, open_model
from converter.options.conversion import SavingOptions
from converter.passes.derivation import TAG, Derivation, Step, digest_of, digest_of_ir
from converter.passes.preprocessing.recorded import Recorded
from converter.stages import silent, stage
from ir_runtime import Model, ModelError, read_model
from ir_runtime.boundary import boundary
from ir_runtime.errors import InternalError
from ir_runtime.graph.model_difference import LayerChange, ModelDifference, compare_models, different_entries
from ir_runtime.records import record

_REPEATABLE = ("input", "output", "batch", "static", "target", "fuse", "skip_passes", "exact", "stateful")
"""Options of a conversion that its record has with their values."""
_CURRENT_VERSION = Step("convert").version
_WITHOUT_VALUES = ("freeze", "extensions")
"""Options of which the record has the names of entries, but neither values nor folders."""
DERIVED, EQUIVALENT, DIFFERENT, INAPPLICABLE = "derived", "equivalent", "different", "inapplicable"
_NO_RECORD = "the IR has no record of how it was derived: it was saved with --no-record, or by another program"


@record
class DerivationCheck:
    """The IR beside its derivation: what its recorded steps make of the reference now."""

    state: str
    """``derived``: the same bit by bit. ``equivalent``: the same layers and weights, but other names or ``rt_info``, or
    other shapes of inputs. ``different``: other layers or weights. ``inapplicable``: there is no derivation to compare
    with, for lack of a record, or because another version or source led to the IR."""
    reason: str
    """The comparison in one sentence, or why there is none."""
    differences: tuple[LayerChange, ...] = ()
    """The layers that are ``different``."""

    def of_part(self, part: Sequence[str]) -> tuple[LayerChange, ...]:
        """Return the differences of these layers; all where none of them differs."""
        return tuple(difference for difference in self.differences if difference.layer in part) or self.differences


@dataclass(frozen=True)
class Rederivation:
    """The result of :func:`derive`."""

    difference: ModelDifference
    """Differences of the IR (first) from its derivation (second), names and ``rt_info`` included."""
    source_changed: bool
    """True if the source is not the one whose digest was recorded."""
    notes: tuple[str, ...] = ()
    """Further notes: a step of another version, a source without a digest."""

    @property
    def same(self) -> bool:
        """True if the derivation gives this IR, bit for bit."""
        return self.difference.same

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.same:
            other = ", from a source whose digest is not the recorded one" if self.source_changed else ""
            return f"derived: the recorded steps give this IR again, bit for bit{other}"
        if self.source_changed:
            return "different: the source is not the one that the IR was derived from, its digest differs"
        return "different: the IR was changed after it was derived, or another version derived it"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "verdict": self.verdict,
            "same": self.same,
            "source_changed": self.source_changed,
            "notes": list(self.notes),
            "difference": self.difference.to_dict(),
        }


@boundary(error=VerificationError)
def derive(
    ir: Model | str | os.PathLike[str],
    source: ModelSource | Model,
    *,
    input: Any = None,
    freeze: Mapping[str, Any] | None = None,
    extensions: Sequence[str | os.PathLike[str]] = (),
) -> Rederivation:
    """Derive ``ir`` again from ``source`` with the recorded options, and compare both.

    ``ir`` is the path of an ``.xml`` file, or a model in memory; ``source`` what it was converted from: an ONNX model,
    or for the later steps of its record an IR. ``input``, ``freeze`` and ``extensions`` are those of
    :func:`converter.convert_model`. The record has the names of frozen inputs and of extensions, but neither values
    nor folders: where it has such names, they are needed again.

    Raises :class:`converter.VerificationError` if the IR has no record, or a step cannot be repeated.
    """
    model = ir if isinstance(ir, Model) else read_model(ir)
    return _Repetition(model, source, {"input": input, "freeze": freeze, "extensions": extensions}).result()


def derived_like(ir: Model, source: ModelSource | Model) -> Model:
    """Apply the recorded steps of an IR to ``source``, or default options where these steps cannot be repeated."""
    try:
        return _Repetition(ir, source, {}).derived
    except VerificationError:
        return convert(source).model


class _Repetition:
    """The recorded steps of ``model`` from ``source`` on, repeated."""

    def __init__(self, model: Model, source: ModelSource | Model, conversion_inputs: Mapping[str, Any]) -> None:
        steps = Derivation.of(model).steps
        if not steps:
            raise VerificationError(_NO_RECORD)
        start, self.source_changed = _find_start(steps, source)
        self.model, self.steps = model, steps[start:]
        end = len(self.steps)
        while self.steps[end - 1].action == "save":
            end -= 1
        with stage("derive"), silent():
            self.uncompressed = _repeat(self.steps[:end], source, Recorded.of(model), conversion_inputs)
            """The model before its weights were compressed."""
            self.derived = _repeat(self.steps[end:], self.uncompressed, None, {})
        self.versions = sorted({step.version for step in self.steps} - {_CURRENT_VERSION})

    def difference(self, *, names: bool = True) -> ModelDifference:
        """Return the differences of the model from its derivation."""
        with stage("compare"):
            return compare_models(self.model, self.derived, names=names, ignored=(TAG,))

    def result(self) -> Rederivation:
        """Return the comparison bit by bit."""
        notes = [
            f"a step was done by onnx2ir {version}, and is repeated by {_CURRENT_VERSION}" for version in self.versions
        ]
        if not self.steps[0].digest:
            notes.append("the digest of the source was not recorded: it was an object in memory")
        return Rederivation(self.difference(), self.source_changed, tuple(notes))

    def check(self) -> DerivationCheck:
        """Return the comparison as a part of a verification."""
        if self.difference().same:
            return DerivationCheck(DERIVED, "the recorded steps give this IR again, bit for bit")
        difference = self.difference(names=False)
        if difference.same:
            return DerivationCheck(EQUIVALENT, "only names and rt_info differ from the IR's derivation")
        if self._reshape():
            reshaped = self.difference(names=False)
            if reshaped.same:
                return DerivationCheck(EQUIVALENT, "only the shapes of inputs differ from the IR's derivation")
            difference = reshaped
        if self.source_changed:
            return DerivationCheck(INAPPLICABLE, "the IR was derived from another source, whose digest differs")
        if self.versions:
            others = ", ".join(self.versions)
            return DerivationCheck(
                INAPPLICABLE, f"onnx2ir {others} derived the IR, and {_CURRENT_VERSION} gives another one"
            )
        return DerivationCheck(DIFFERENT, "the IR is not what its recorded steps give", _list_changes(difference))

    def _reshape(self) -> bool:
        """Give the derivation the input shapes of the model; False if it has them, or cannot have them."""
        ours = {name: node.outputs[0].shape for node in self.model.parameters for name in node.end_names}
        theirs = {node.end_names[0]: node.outputs[0].shape for node in self.derived.parameters if node.end_names}
        shapes = {name: ours[name] for name, shape in theirs.items() if name in ours and ours[name] != shape}
        if not shapes:
            return False
        try:
            self.derived = self.derived.clone()
            self.derived.reshape(shapes)
        except InternalError:
            raise
        except ModelError:
            return False
        return True


def check_derivation(
    model: Model, source: ModelSource | Model, conversion_inputs: Mapping[str, Any]
) -> tuple[DerivationCheck, Model | None]:
    """Compare ``model`` with its derivation from ``source`` for a verification.

    ``conversion_inputs`` are the options of which the record has only the names. Returns also the model before its
    weights were compressed: None where they were not, or where the derivation differs.
    """
    needed = {name for step in Derivation.of(model).steps for name in _options_without_values(step)}
    try:
        repetition = _Repetition(
            model, source, {name: value for name, value in conversion_inputs.items() if name in needed}
        )
        check = repetition.check()
    except InternalError:
        raise
    except ModelError as error:
        return DerivationCheck(INAPPLICABLE, str(error)), None
    is_compressed = repetition.derived is not repetition.uncompressed and check.state == DERIVED
    return check, repetition.uncompressed if is_compressed else None


def _list_changes(difference: ModelDifference) -> tuple[LayerChange, ...]:
    """Return every difference as a change of a layer.

    A layer that is replaced by one of another type with the same name is a single change.
    """
    removed, added = dict(difference.only_second), dict(difference.only_first)
    changes = list(difference.changed)
    for name, layer_type in difference.only_first:
        if name in removed:
            changes.append(
                LayerChange(name, name, layer_type, (f"it is {layer_type} where the other model has {removed[name]}",))
            )
        else:
            changes.append(LayerChange(name, "", layer_type, ("the derivation has no such layer",)))
    for name, layer_type in difference.only_second:
        if name not in added:
            changes.append(LayerChange("", name, layer_type, ("only the derivation has it",)))
    return tuple(changes)


def _find_start(steps: Sequence[Step], source: ModelSource | Model) -> tuple[int, bool]:
    """Return the index of the step that converted ``source``, and True if its digest differs from the recorded one."""
    source_type, digest = _type_and_digest(source)
    indices = [index for index, step in enumerate(steps) if (step.action, step.source) == ("convert", source_type)]
    if not indices:
        sources = " and ".join(dict.fromkeys(step.source for step in steps if step.source))
        raise VerificationError(f"the IR was derived from {sources or 'nothing'}, but the source is {source_type}")
    for index in indices:
        if digest and steps[index].digest == digest:
            return index, False
    return indices[0], bool(digest and steps[indices[0]].digest)


def _type_and_digest(source: ModelSource | Model) -> tuple[str, str]:
    """Return the type of a source as the record names it, and its digest; empty for an object without one."""
    if is_ir(source):
        return "ir", digest_of_ir(source)
    skeleton = open_model(source).skeleton()
    return "onnx", digest_of(skeleton) if skeleton else ""


def _repeat(
    steps: Sequence[Step], source: Any, processing: Recorded | None, conversion_inputs: Mapping[str, Any]
) -> Model:
    """Apply ``steps`` to ``source``, and return the model.

    ``processing`` is the preprocessing of steps that have one; ``conversion_inputs`` replace options of the first step.

    Raises :class:`VerificationError` for an option whose values are neither recorded nor in ``conversion_inputs``.
    """
    model = source
    for number, step in enumerate(steps):
        if step.action == "convert":
            model = convert_model(model, **_options(step, processing, {} if number else conversion_inputs))
        elif step.action == "make_stateless":
            from converter.passes.states.stateless import make_stateless

            make_stateless(model)
        elif step.action == "edit":
            model = _edit(model, step.options)
        else:
            saving = SavingOptions(**step.options)
            model = compressed(model, saving.compression, saving.compress_to_fp16).model
    return model


def _edit(model: Model, options: Mapping[str, Any]) -> Model:
    """Return the model with recorded edits.

    Raises :class:`VerificationError` for edits with weights or other models: no file is opened that a record names.
    """
    from converter.editing.edit import edit

    refused = [name for name in ("merge", "replace_weight") if name in options]
    if refused:
        raise VerificationError(f"the record has an edit with {', '.join(refused)}, which cannot be repeated")
    return edit(model, **options).to_ir()


def _options(step: Step, processing: Recorded | None, conversion_inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options to repeat a conversion with. No file is opened because a record names it."""
    options = {**step.options, **{name: value for name, value in conversion_inputs.items() if value}}
    unknown = sorted(set(options) - {*_REPEATABLE, *_WITHOUT_VALUES, "preprocess"})
    if unknown:
        raise VerificationError(f"the record has the options {', '.join(unknown)}, which cannot be repeated")
    if options.pop("preprocess", False) and processing is not None:
        options.update(preprocess=processing.inputs, postprocess=processing.outputs)
    for name in _options_without_values(step):
        if not conversion_inputs.get(name):
            label = "constant inputs" if name == "input" else name
            recorded = step.options[name]
            raise VerificationError(f"the record has only the names of {label}: {recorded}; pass {name} again")
    return options


def _options_without_values(step: Step) -> Iterator[str]:
    """Yield the options of the step that were recorded without their values."""
    yield from (name for name in _WITHOUT_VALUES if name in step.options)
    inputs = step.options.get("input", "")
    if not isinstance(inputs, str) or "=" in inputs:  # names of inputs that became constants
        yield "input"


def compare_files(first: Path, second: Path) -> tuple[ModelDifference, Model]:
    """Return how two files differ, and the first as a model.

    An ONNX model beside an IR is converted as the IR records, or else with default options. Raises
    :class:`ConversionError` for a file that cannot be read or converted.
    """
    sides = [read_model(path) if is_ir(path) else None for path in (first, second)]
    if sides[0] is None and sides[1] is None:
        models = [OnnxModel(path, is_shown=True).graph for path in (first, second)]
        difference = compare_models(*models)
        changes = tuple(different_entries(*map(_header, models)))
        if changes:
            difference.changed.insert(0, LayerChange(models[0].name, models[1].name, "model", changes))
        return difference, models[0]
    left, right = sides
    if left is None and right is not None:
        left = derived_like(right, str(first))
    elif right is None and left is not None:
        right = derived_like(left, str(second))
    assert left is not None
    assert right is not None
    return compare_models(left, right), left


def _header(model: Model) -> dict[str, str]:
    """What stands around a graph: opsets, producer, metadata, and the names of inputs and outputs."""
    info = DeclaredInfo.of(model.runtime_info)
    header = {**info.values, **{f"opset of {domain}": str(version) for domain, version in info.opsets.items()}}
    header |= {f"metadata '{key}'": repr(value) for key, value in info.metadata.items()}
    for side, nodes in (("input", model.parameters), ("output", model.results)):
        header |= {f"{side} {number}": f"'{node.end_names[0]}'" for number, node in enumerate(nodes)}
    return header
