"""``convert_model`` and ``save_model``, the two calls that most users need."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from converter.errors import InvalidModelError
from converter.from_ir import apply_options, is_ir, read_ir
from converter.from_onnx.input_forms import InputShapes, OptionError, shown
from converter.from_onnx.options import Options, extension_paths, make_options
from converter.from_onnx.translation.dynamic_dimensions import IsDynamic, Translation, translate_dynamic
from converter.from_onnx.translation.extensions import load_extension
from converter.from_onnx.translation.translator import translate_model
from converter.onnx_file.reader import ModelSource, OnnxFile, open_model
from converter.passes.registry import passes
from converter.stages import about, inform, informs, stage, talking
from converter.targets.registry import DEFAULT, Target
from ir_runtime.boundary import boundary
from ir_runtime.errors import ContradictionError
from ir_runtime.graph.model import Model
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.records import record
from ir_runtime.rewriting.trace import Trace

if TYPE_CHECKING:
    from converter.compression.float16_constants import Halved
    from converter.compression.weight_compression import CompressedWeights, WeightCompression
    from converter.preprocessing.description import Postprocess, Preprocess
    from converter.preprocessing.request import Request

MakeStates = Callable[[Model, Mapping[str, PartialShape]], object]
"""Puts variables into a model, whose inputs are to have these shapes."""


@boundary(error=OptionError)
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
    freeze: Mapping[str, Any] | None = None,
    batch: int | None = None,
    extensions: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    static: bool = False,
    fuse: bool = True,
    exact: bool = False,
    stateful: bool | Mapping[str, str] = False,
    target: str = DEFAULT,
    preprocess: Mapping[str, Preprocess] | str | os.PathLike[str] | None = None,
    postprocess: Mapping[str, Postprocess] | None = None,
    input_model: ModelSource | None = None,
) -> Model:
    """Convert an ONNX model to OpenVINO IR in memory.

    ``model`` (or ``input_model``) is a path, the file's bytes, a binary file object or an ``onnx.ModelProto``. It may
    also be an IR, as a :class:`ir_runtime.Model` or the path of its ``.xml``: the options, passes and rules are then
    applied to that, whoever made it.
    Weights stay views of the file, which must not change while the result is used; without ``share_weights``
    they are read into memory.

    ``input`` sets shapes and types: ``{"a": [1, 3, 224, 224]}``, ``[("a", [1, 3], "f16")]``, ``"a[1,3],b{i32}"``, or,
    for inputs in order, shapes alone: ``[1, 3]``, ``[[1, 3], [2]]``; with ``-1``, None, ``"1..8"`` or dimensions for
    dynamic dimensions. Shapes, dimensions and types may be NumPy's or OpenVINO's own. A type takes the place of
    the one that the file declares. ``freeze`` gives inputs a constant value. ``output`` names the tensors to return
    instead of the model's outputs, also inner ones; what they do not need is left out. ``batch`` sets the first
    dimension of every input. ``extension`` and ``extensions`` are Python files that register operators of the
    user's own.

    Values that depend on the shapes of the inputs are computed by layers, so that the model can be reshaped later.
    With ``static`` they become constants: the smallest file, for the declared shapes alone.

    What an exporter spelled out (layer normalisation, GELU, Swish ...) becomes the one layer that the IR has for it.
    Without ``fuse`` each ONNX node keeps the layers of its own. Scales behind convolutions and products become part of
    their weights; with ``exact`` every weight stays as the file has it, bit by bit.

    With ``stateful`` the caches of a language model become variables, which the model keeps from call to call: what
    OpenVINO's runtimes of language models expect. Keys then count as ``attention_mask`` tells, and positions are those
    of ``position_ids``, which becomes an input where the file has none. A mapping names the outputs that are kept for
    inputs, where names and layers do not tell.

    ``target`` is the runtime that the IR is for. ``"cpu"`` is OpenVINO's CPU plug-in: layers that it gets wrong or
    runs slowly are replaced by others. ``"cpu@2024.6"`` is that of a release, whose IR has no later operations.
    ``"any"`` is the plain IR, without such replacements.

    ``preprocess`` puts what is done to inputs before the model into it: ``{"image": Preprocess(element_type="u8",
    layout="nhwc", mean=[...], resize="linear")}``, see :class:`converter.Preprocess`, or the path of a TOML file.
    ``postprocess`` does so behind outputs, with :class:`converter.Postprocess`. They become plain layers.

    The order of the first arguments, ``example_input`` (which an ONNX model has no use for), ``verbose`` (which logs
    stages with their times and what passes and rules did, at INFO, as ``converter``; to stderr where no logging is set
    up) and ``dynamo`` (which must be False) are those of OpenVINO's
    ``convert_model``.

    Raises :class:`converter.ConversionError`, which lists every reason at once.
    """
    if (model is None) == (input_model is None):
        raise OptionError("convert_model needs one model: a path, bytes, a file object or an onnx.ModelProto")
    if dynamo:
        raise OptionError("dynamo is for PyTorch's modules: export yours with torch.onnx.export and convert the .onnx")
    with talking(bool(verbose)):
        converted = convert(
            model if model is not None else input_model,
            input=input,
            freeze=freeze,
            output=output,
            batch=batch,
            extensions=(*extension_paths(extension), *extension_paths(extensions)),
            static=static,
            fuse=fuse,
            exact=exact,
            target=target,
            share_weights=share_weights,
            stateful=stateful,
            preprocess=preprocess,
            postprocess=postprocess,
        )
    return converted.model


@record
class Conversion:
    """A converted model, and what passes and rules did to it."""

    model: Model
    passes: Mapping[str, int]
    """How many layers each pass replaced, of those that replaced any."""
    rules: Mapping[str, int]
    """How often each rule of the target applied, of those that did."""
    trace: Trace
    """Which layers passes and rules looked at, which they replaced, and why not the others."""


@boundary("the conversion", error=OptionError)
def convert(
    model: Any,
    *,
    input: InputShapes,
    freeze: Mapping[str, Any] | None,
    output: str | Sequence[str] | None,
    batch: int | None,
    extensions: Sequence[str | os.PathLike[str]],
    static: bool,
    fuse: bool = True,
    exact: bool = False,
    target: str,
    share_weights: bool = True,
    stateful: bool | Mapping[str, str] = False,
    make_states: MakeStates | None = None,
    preprocess: Any = None,
    postprocess: Any = None,
) -> Conversion:
    """As :func:`convert_model`, with the counts of the target's rules.

    ``preprocess`` may also be a :class:`converter.preprocessing.request.Request`.
    ``make_states`` does for a stateful model what ``make_stateful`` of :mod:`converter.states` does otherwise.
    """
    model = os.fspath(model) if isinstance(model, os.PathLike) else model
    share_weights = bool(share_weights)
    runtime = Target.parse(target)
    for extension in extensions:
        load_extension(extension)
    input, processing = _processing(input, preprocess, postprocess)
    if processing is not None and stateful:
        raise OptionError("preprocessing is for models without caches: give no stateful with it")
    options = make_options(input, freeze, output, batch, stateful=bool(stateful))
    pairs = stateful if isinstance(stateful, Mapping) else None
    if pairs and not all(isinstance(name, str) for pair in pairs.items() for name in pair):
        raise OptionError("stateful must map names of inputs to names of outputs")
    made = (make_states or _states_of(pairs)) if options.stateful else None
    stages = _Stages(runtime, made, bool(fuse), bool(exact))
    if is_ir(model):
        converted = _changed(model, options, bool(static), stages)
    else:
        with stage("read"):
            file = open_model(model, share_weights)
        with about(file.name):
            converted = _converted(file, options, bool(static), stages)
    if processing is not None:
        from converter.preprocessing.insertion import insert

        with stage("preprocess"):
            insert(converted.model, *processing.bound(converted.model))
    if informs():
        for line in converted.trace.lines():
            inform("%s", line)
        layers = len(converted.model.nodes())
        inform("converted '%s' to %d layers; rules: %s", converted.model.name, layers, dict(converted.rules))
    return converted


def _processing(input: InputShapes, preprocess: Any, postprocess: Any) -> tuple[InputShapes, Request | None]:
    """``input`` without types of what callers give, ``"image[u8]"``, and what is asked for; None for nothing."""
    has_types = isinstance(input, str) and re.search(r"\[\s*[a-z]", input) is not None
    if preprocess is None and postprocess is None and not has_types:
        return input, None
    from converter.preprocessing.texts import element_types, request_of  # few models have it

    request = request_of(preprocess, postprocess)
    if has_types:
        input, kinds = element_types(cast(str, input))
        request = replace(request, entries=(*request.entries, *kinds))
    return input, request or None


def _states_of(pairs: Mapping[str, str] | None) -> MakeStates:
    """Caches become variables: the ``pairs`` of inputs and outputs, or those that names and layers tell."""

    def make_states(model: Model, shapes: Mapping[str, PartialShape]) -> None:
        from converter.states.stateful import make_stateful  # imported here: only language models need it

        make_stateful(model, shapes, pairs)

    return make_states


@record
class _Stages:
    """What is done with an IR once it stands: passes, states, the target's rules."""

    runtime: Target
    make_states: MakeStates | None
    """None where the model is to have no states."""
    fuse: bool
    exact: bool

    def run(
        self, model: Model, shapes: Mapping[str, PartialShape]
    ) -> tuple[Mapping[str, int], Mapping[str, int], Trace]:
        """How many layers passes and rules replaced, in place, and their trace."""
        trace = Trace()
        if self.make_states is not None:
            from converter.states.rows_without_keys import replace_guards  # language models alone need it

            replace_guards(model)
        with stage("passes"):
            counts = passes.run(model, fuse=self.fuse, exact=self.exact, trace=trace)
        if self.make_states is not None:
            with stage("states"):
                self.make_states(model, shapes)
        with stage("rules"):
            rules = self.runtime.apply(model, trace, exact=self.exact)
        return counts, rules, trace


def _changed(source: Any, options: Options, static: bool, stages: _Stages) -> Conversion:
    """As :func:`_converted`, for an IR that somebody made before."""
    with stage("read"):
        model = read_ir(source)
    with about(model.name if isinstance(source, Model) else str(source)):
        counts, rules, trace = stages.run(model, apply_options(model, options, static=static))
    return Conversion(model, counts, rules, trace)


def _converted(file: OnnxFile, options: Options, static: bool, stages: _Stages) -> Conversion:
    warnings: set[str] = set()  # a graph may be translated more than once, but warns once

    def translate(is_dynamic: IsDynamic) -> Translation:
        with stage("translate"):
            return translate_model(file, options, is_dynamic, warnings)

    try:
        made, (counts, rules, trace) = translate_dynamic(translate, stages.run, static=static)
    except ContradictionError as error:
        raise InvalidModelError(str(error)) from error
    return Conversion(made, counts, rules, trace)


@boundary(error=OptionError)
def save_model(
    model: Model,
    path: str | os.PathLike[str],
    *,
    compress_to_fp16: bool = False,
    compress: str | WeightCompression | None = None,
) -> None:
    """Write ``model`` to ``path`` (``.xml``) and, beside it, the weights (``.bin``).

    With ``compress_to_fp16`` float32 and float64 weights are stored as float16, each followed by a
    conversion back; nothing is rounded unless asked for. With ``compress`` the weights of products, look-ups and
    convolutions are stored in whole numbers: ``"int8"``, ``"int4"`` (but embeddings, convolutions and last layers
    take 8 bits), or a :class:`WeightCompression` with a group size and symmetry of your own. With both, the other
    constants are stored as float16. Both files appear complete or not at all. The path must end in ``.xml``, and the
    weights may not replace a file that the model was made from.

    Raises :class:`converter.ConversionError` for an unknown kind of compression, :class:`ir_runtime.ModelError`
    for what the format cannot hold, :class:`ir_runtime.FileError`, which is an :class:`OSError`, too, where the disk
    refuses.
    """
    # Converting alone needs no XML, and few ask for compression.
    from ir_runtime.files.xml_writer import check_destination, write_model

    if not isinstance(model, Model):
        raise OptionError(f"save_model needs a model, such as convert_model returns, but got {shown(model)}")
    check_destination(model, Path(path))
    if compress is None:
        stored = compressed(model, None, bool(compress_to_fp16)).model
        with stage("write"):
            write_model(stored, path)
        return
    from converter.compression.weight_compression import WeightCompression

    chosen = WeightCompression.named(compress) if isinstance(compress, str) else compress
    if not isinstance(chosen, WeightCompression):
        raise OptionError(f'compress must be "int8", "int4" or a WeightCompression, but is {shown(compress)}')
    stored = compressed(model, chosen, bool(compress_to_fp16)).model
    with stage("write"):
        write_model(stored, path)


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
    from converter.compression.float16_constants import halve
    from converter.compression.weight_compression import compress_weights

    with stage("compress"):
        copy = model.clone()
        stored = None if weights is None else compress_weights(copy, weights)
        if stored is not None:
            from converter.states.stateful import without_float_options

            without_float_options(copy)
        half = halve(copy, exact=stored.constants if stored else frozenset()) if to_fp16 else None
    return Compression(copy, stored, half)
