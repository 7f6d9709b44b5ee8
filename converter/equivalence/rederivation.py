"""Deriving an IR again from its source, in the steps that its record has, and comparing both bit by bit.

An IR that equals its derivation is what this version makes of the source; nothing was changed afterwards. That does
not prove that the conversion is right, which the comparison of numbers is for, and it does not need it: weights whose
effect no tolerance shows are compared like all others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from converter.conversion import compressed, convert_model
from converter.derivation import TAG, Derivation, Step, digest_of, digest_of_ir
from converter.errors import VerificationError
from converter.from_ir import is_ir
from converter.onnx_file.reader import ModelSource, open_model
from converter.options import SavingOptions
from converter.preprocessing.recorded import Recorded
from converter.stages import silent, stage
from ir_runtime import Model, read_model
from ir_runtime.boundary import boundary
from ir_runtime.graph.model_difference import ModelDifference, compare_models

_REPEATED = ("input", "output", "batch", "static", "target", "fuse", "skip_passes", "exact", "stateful")
_CURRENT = Step("convert").version
_NAMES = ("freeze", "extensions")
"""Options of which the record has names alone."""


@dataclass(frozen=True)
class Rederivation:
    """The result of :func:`derive`."""

    difference: ModelDifference
    """What the IR (first) has otherwise than its derivation (second), names and ``rt_info`` included."""
    source_changed: bool
    """True if the source is not the one whose digest was recorded."""
    notes: tuple[str, ...] = ()
    """What else to know: a step that another version did, a source without a digest."""

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

    Parameters
    ----------
    ir
        The path of an ``.xml`` file, or a model in memory.
    source
        What it was converted from: an ONNX model, or for the later steps of its record an IR.
    input, freeze, extensions
        As for :func:`converter.convert_model`. The record has the names of frozen inputs and of extensions, but neither
        values nor folders: where it has such names, they are needed again.

    Raises
    ------
    VerificationError
        If the IR has no record, or a step cannot be repeated.
    """
    model = ir if isinstance(ir, Model) else read_model(ir)
    steps = Derivation.of(model).steps
    if not steps:
        raise VerificationError(
            "the IR has no record of how it was derived: it was saved with --no-record, or by another program"
        )
    start, source_changed = _start(steps, source)
    given = {"input": input, "freeze": freeze, "extensions": extensions}
    with stage("derive"), silent():
        derived = repeated(steps[start:], source, Recorded.of(model), given)
    with stage("compare"):
        difference = compare_models(model, derived, names=True, ignored=(TAG,))
    versions = sorted({step.version for step in steps[start:]} - {_CURRENT})
    notes = [f"a step was done by onnx2ir {version}, and is repeated by {_CURRENT}" for version in versions]
    if not all(step.digest for step in steps[start : start + 1]):
        notes.append("the digest of the source was not recorded: it was an object in memory")
    return Rederivation(difference, source_changed, tuple(notes))


def _start(steps: Sequence[Step], source: ModelSource | Model) -> tuple[int, bool]:
    """Return the step that converted ``source``, and whether its digest is another one than that of the record."""
    kind, digest = _kind_and_digest(source)
    places = [at for at, step in enumerate(steps) if (step.action, step.source) == ("convert", kind)]
    if not places:
        kinds = " and ".join(dict.fromkeys(step.source for step in steps if step.source))
        raise VerificationError(f"the IR was derived from {kinds or 'nothing'}, but the source is {kind}")
    for at in places:
        if digest and steps[at].digest == digest:
            return at, False
    return places[0], bool(digest and steps[places[0]].digest)


def _kind_and_digest(source: ModelSource | Model) -> tuple[str, str]:
    if is_ir(source):
        return "ir", digest_of_ir(source)
    skeleton = open_model(source).skeleton()
    return "onnx", digest_of(skeleton) if skeleton else ""


def repeated(steps: Sequence[Step], source: Any, processing: Recorded | None, given: Mapping[str, Any]) -> Model:
    """Return what ``steps`` make of ``source``, the first of which converts it.

    ``processing`` is done where a step has it, unless it is None, and options ``given`` replace those of the first
    step.

    Raises :class:`VerificationError` where an option of a step is not recorded whole, and not given.
    """
    model = source
    for number, step in enumerate(steps):
        if step.action == "convert":
            model = convert_model(model, **_options(step, processing, {} if number else given))
        elif step.action == "make_stateless":
            from converter.states.stateless import make_stateless

            make_stateless(model)
        else:
            saving = SavingOptions(**step.options)
            model = compressed(model, saving.compression, saving.compress_to_fp16).model
    return model


def _options(step: Step, processing: Recorded | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options to repeat a conversion with. No file is opened because a record names it."""
    options = {**step.options, **{name: value for name, value in given.items() if value}}
    unknown = sorted(set(options) - {*_REPEATED, *_NAMES, "preprocess"})
    if unknown:
        raise VerificationError(f"the record has the options {', '.join(unknown)}, which cannot be repeated")
    if options.pop("preprocess", False) and processing is not None:
        options.update(preprocess=processing.inputs, postprocess=processing.outputs)
    for name in _NAMES:
        if name in options and not given.get(name):
            raise VerificationError(f"the record has only the names of {name}: {options[name]}; pass {name} again")
    if "input" in options and not given.get("input"):
        text = options["input"]
        if not isinstance(text, str) or "=" in text:
            raise VerificationError(f"the record has only the names of constant inputs: {text}; pass input again")
    return options
