"""The stages of a conversion: read, translate, passes, states, rules, preprocess; compress and write.

``convert_model`` and ``save_model`` are the two calls that most users need.

Translation comes again for models some of whose dimensions have to be static; so do the stages that stand between it
and the shapes of the inputs (:data:`ON_DYNAMIC_SHAPES`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.conversion.from_ir import apply_options, is_ir, read_ir
from converter.errors import InvalidModelError
from converter.from_onnx.translation.dynamic_dimensions import IsDynamic, Translation, translate_dynamic
from converter.from_onnx.translation.extensions import load_extension
from converter.from_onnx.translation.graph_translator import KeptNodes
from converter.from_onnx.translation.translator import translate_model
from converter.onnx_file.reader import ModelSource, OnnxFile, open_model
from converter.options.conversion import ConversionOptions, SavingOptions, options_from, takes
from converter.options.input_forms import InputShapes, OptionError, shown
from converter.options.inputs import extension_paths
from converter.passes.derivation import Derivation, Step, digest_of, digest_of_ir, without_record
from converter.passes.registry import passes
from converter.stages import about, inform, informs, progress_of, stage, talking, warn
from ir_runtime.boundary import boundary
from ir_runtime.errors import ContradictionError
from ir_runtime.graph import Model, PartialShape
from ir_runtime.records import record
from ir_runtime.rewriting.trace import Trace

if TYPE_CHECKING:
    from converter.passes.compression.float16_constants import Halved
    from converter.passes.compression.weight_compression import CompressedWeights, WeightCompression

MakeStates = Callable[[Model, Mapping[str, PartialShape]], object]
"""Puts variables into a model, whose inputs are to have these shapes."""


@record
class Conversion:
    """A converted model, and what passes and rules did to it."""

    model: Model
    passes: Mapping[str, int]
    """The number of layers that each pass replaced, without passes that replaced none."""
    rules: Mapping[str, int]
    """The number of times that each rule of the target applied, without rules that did not."""
    trace: Trace
    """The layers that passes and rules looked at and replaced, and the reasons for the others."""


@dataclass
class _Work:
    """A graph on its way through the stages."""

    options: ConversionOptions
    make_states: MakeStates | None
    """None where the model is to have no states."""
    model: Model = field(init=False)
    shapes: Mapping[str, PartialShape] = field(init=False)
    """The shapes that the inputs get in the end."""
    passes: Mapping[str, int] = field(default_factory=dict)
    rules: Mapping[str, int] = field(default_factory=dict)
    trace: Trace = field(default_factory=Trace)

    def run(self, stages: Mapping[str, Callable[[_Work], None]]) -> None:
        """Run ``stages`` in order."""
        for name, function in stages.items():
            with stage(name):
                function(self)

    def warn_of_refusals(self) -> None:
        """Warn of layers of the finished model that the runtime refuses."""
        for sentence in self.options.runtime.refusals(self.model):
            warn("%s", sentence)

    def result(self) -> Conversion:
        """Return what the stages have done so far."""
        return Conversion(self.model, self.passes, self.rules, self.trace)


def _run_passes(work: _Work) -> None:
    if work.make_states is not None:
        from converter.passes.states.rows_without_keys import replace_guards  # language models alone need it

        replace_guards(work.model)  # the passes fuse no attention whose masks have guards
    options = work.options
    skip = options.skip_passes
    work.passes = passes.run(work.model, fuse=options.fuse, exact=options.exact, skip=skip, trace=work.trace)


def _make_states(work: _Work) -> None:
    if work.make_states is not None:
        work.make_states(work.model, work.shapes)


def _apply_rules(work: _Work) -> None:
    work.rules = work.options.runtime.apply(work.model, work.trace, exact=work.options.exact)


def _insert_preprocessing(work: _Work) -> None:
    if work.options.request is not None:
        from converter.passes.preprocessing.insertion import insert

        insert(work.model, *work.options.request.bound(work.model))


ON_DYNAMIC_SHAPES: Mapping[str, Callable[[_Work], None]] = {
    "passes": _run_passes,
    "states": _make_states,  # they look for attention, which passes fuse
    "rules": _apply_rules,  # for the layers of states, too
}
"""Stages that run before a translated graph is given the shapes of its inputs, so that they hold for any shapes."""
ON_DECLARED_SHAPES: Mapping[str, Callable[[_Work], None]] = {
    "preprocess": _insert_preprocessing,  # whose sizes and layouts are those of the declared shapes
}
"""Stages that run once, on the model with the shapes of its inputs."""


@boundary("the conversion", error=OptionError)
def convert(
    source: ModelSource | Model | OnnxFile,
    options: ConversionOptions | None = None,
    *,
    share_weights: bool = True,
    make_states: MakeStates | None = None,
    kept: KeptNodes | None = None,
) -> Conversion:
    """Convert ``source``, which may be an IR, and count what passes and rules did.

    ``make_states`` replaces ``make_stateful`` of :mod:`converter.passes.states`, also where ``stateful`` is not asked
    for. ``kept`` nodes of an ONNX model stay as they are.
    """
    options = options or ConversionOptions()
    source = os.fspath(source) if isinstance(source, os.PathLike) else source
    for extension in options.extensions:
        load_extension(extension)
    pairs = options.stateful if isinstance(options.stateful, Mapping) else None
    states = make_states or (_states_of(pairs) if options.stateful else None)
    if is_ir(source):
        work = _from_ir(source, options, states)
        origin = {"source": "ir", "digest": digest_of_ir(source)}
    else:
        with stage("read"):
            file = open_model(source, share_weights)
        with about(file.name):
            work = _from_onnx(file, options, states, kept or KeptNodes())
        skeleton = file.skeleton()
        origin = {"source": "onnx", "digest": digest_of(skeleton) if skeleton else ""}
    work.run(ON_DECLARED_SHAPES)
    step = Step("convert", **origin, options=options.to_dict(), passes=work.passes, rules=work.rules)
    Derivation.of(work.model).then(step, work.model).write(work.model)
    if informs():
        for line in work.trace.lines():
            inform("%s", line)
        layers = len(work.model.nodes())
        inform("converted '%s' to %d layers; rules: %s", work.model.name, layers, dict(work.rules))
    return work.result()


def _states_of(pairs: Mapping[str, str] | None) -> MakeStates:
    """Caches become variables: the ``pairs`` of inputs and outputs, or those that names and layers tell."""

    def make_states(model: Model, shapes: Mapping[str, PartialShape]) -> None:
        from converter.passes.states.stateful import make_stateful  # imported here: only language models need it

        make_stateful(model, shapes, pairs)

    return make_states


def _from_ir(source: Any, options: ConversionOptions, states: MakeStates | None) -> _Work:
    work = _Work(options, states)
    with stage("read"):
        work.model = read_ir(source)
        Derivation.begin(work.model)
    with about(work.model.name if isinstance(source, Model) else str(source)):
        work.shapes = apply_options(work.model, options.bindings, static=options.static)
        work.run(ON_DYNAMIC_SHAPES)
        work.warn_of_refusals()
    return work


def _from_onnx(file: OnnxFile, options: ConversionOptions, states: MakeStates | None, kept: KeptNodes) -> _Work:
    warnings: set[str] = set()  # a graph may be translated more than once, but warns once

    def translate(is_dynamic: IsDynamic) -> Translation:
        with stage("translate"):
            return translate_model(file, options.bindings, is_dynamic, warnings, kept)

    def finish(model: Model, shapes: Mapping[str, PartialShape]) -> _Work:
        work = _Work(options, states)
        work.model, work.shapes = model, shapes
        work.run(ON_DYNAMIC_SHAPES)
        return work

    try:
        model, work = translate_dynamic(translate, finish, static=options.static)
    except ContradictionError as error:
        raise InvalidModelError(str(error)) from error
    work.model = model
    work.warn_of_refusals()
    return work


@record
class Compression:
    """A model ready to be stored, and what was compressed: None for what was not asked for."""

    model: Model
    weights: CompressedWeights | None
    half: Halved | None


def compressed(model: Model, weights: WeightCompression | None, to_fp16: bool) -> Compression:
    """A copy of ``model`` with weights in whole numbers (``weights``) and other constants in float16 (``to_fp16``).

    The model itself where neither is asked for.
    """
    if weights is None and not to_fp16:
        return Compression(model, None, None)
    from converter.passes.compression.float16_constants import halve
    from converter.passes.compression.weight_compression import compress_weights

    with stage("compress"):
        copy = model.clone()
        Derivation.begin(copy)
        stored = None if weights is None else compress_weights(copy, weights)
        if stored is not None:
            from converter.passes.states.stateful import without_float_options

            without_float_options(copy)
        half = halve(copy, exact=stored.constants if stored else frozenset()) if to_fp16 else None
    return Compression(copy, stored, half)


def save(model: Model, path: Path, options: SavingOptions) -> Compression:
    """Compress ``model`` as ``options`` say and write it to ``path``; what was compressed."""
    from ir_runtime.files.xml_writer import check_destination, write_model  # converting alone needs no XML

    check_destination(model, path)
    stored = compressed(model, options.compression, options.compress_to_fp16)
    if not options.record:
        stored = Compression(without_record(stored.model), stored.weights, stored.half)
    elif stored.model is not model:
        Derivation.of(model).then(Step("save", options=options.to_dict()), stored.model).write(stored.model)
    with stage("write"):
        write_model(stored.model, path, progress=progress_of(f"Writing {path.name}"))
    return stored


@boundary(error=OptionError)
@takes(ConversionOptions)
def convert_model(
    model: ModelSource | None = None,
    input: InputShapes = None,
    output: str | Sequence[str] | None = None,
    example_input: Any = None,
    extension: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    verbose: bool = False,
    share_weights: bool = True,
    dynamo: bool = False,
    *,
    options: ConversionOptions | None = None,
    input_model: ModelSource | None = None,
    **keywords: Any,
) -> Model:
    """Convert an ONNX model to OpenVINO IR in memory.

    ``model`` (or ``input_model``) is a path, the file's bytes, a binary file object or an ``onnx.ModelProto``. It may
    also be an IR, as a :class:`ir_runtime.Model` or the path of its ``.xml``: the options, passes and rules are then
    applied to that, whoever wrote it.
    Weights stay views of the file, which must not change while the result is used; without ``share_weights``
    they are read into memory.

    ``options`` are :class:`converter.ConversionOptions`, or the keywords are their fields:

    {options}

    The order of the first arguments, ``example_input`` (which an ONNX model has no use for), ``extension`` (more
    ``extensions``), ``verbose`` (which logs stages with their times and what passes and rules did, at INFO, as
    ``converter``; to stderr where no logging is set up) and ``dynamo`` (which must be False) are those of OpenVINO's
    ``convert_model``.

    Raises :class:`converter.ConversionError`, which lists every reason at once.
    """
    if (model is None) == (input_model is None):
        raise OptionError("convert_model needs one model: a path, bytes, a file object or an onnx.ModelProto")
    if dynamo:
        raise OptionError("dynamo is for PyTorch's modules: export yours with torch.onnx.export and convert the .onnx")
    if extension is not None:
        keywords["extensions"] = (*extension_paths(extension), *extension_paths(keywords.get("extensions")))
    keywords = {"input": input, "output": output, **keywords}
    chosen = options_from(ConversionOptions, options, keywords, "convert_model")
    with talking(bool(verbose)):
        source = model if model is not None else input_model
        return convert(source, chosen, share_weights=bool(share_weights)).model  # type: ignore[arg-type]


@boundary(error=OptionError)
@takes(SavingOptions)
def save_model(
    model: Model, path: str | os.PathLike[str], *, options: SavingOptions | None = None, **keywords: Any
) -> None:
    """Write ``model`` to ``path`` (``.xml``) and, beside it, the weights (``.bin``).

    Nothing is rounded unless ``options``, or the keywords, which are the fields of
    :class:`converter.SavingOptions`, ask for it:

    {options}

    Both files appear complete or not at all. The path must end in ``.xml``, and the weights may not replace a file that
    the model was read from.

    Raises :class:`converter.ConversionError` for compression that does not exist, :class:`ir_runtime.ModelError`
    for what the format cannot hold, :class:`ir_runtime.FileError`, which is an :class:`OSError`, too, where the disk
    refuses.
    """
    if not isinstance(model, Model):
        raise OptionError(f"save_model needs a model, such as convert_model returns, but got {shown(model)}")
    save(model, Path(path), options_from(SavingOptions, options, keywords, "save_model"))
