"""Encoders and decoders as Optimum exports them, and the stateful decoder that is made of its files.

Optimum writes a decoder twice. ``decoder_model.onnx`` is the first call: it computes the keys and values of the
encoder's states. ``decoder_with_past_model.onnx`` is every other call: it is given them. ``decoder_model_merged.onnx``
has both as the branches of one If. The stateful decoder is that of the other calls, for the first call too: its own
caches start empty, and what is made of the encoder's states is computed once by layers of the first call. Exporters
trace the other calls with one token, and older ones leave out the mask that it has no need of: it is added, where
attention is one layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from converter.conversion.convert import MakeStates
from converter.errors import ConversionError, UnsupportedModelError
from converter.folders.pipeline import convert_part, graph_names
from converter.folders.source import ModelFiles
from converter.onnx_file.reader import OnnxFile
from converter.options.conversion import ConversionOptions
from converter.passes.states.computed_once import ComputedOnce, keep_computed
from converter.passes.states.masks_of_new_tokens import add_masks
from converter.passes.states.stateful import make_stateful
from ir_runtime.execution.executor import compile_model
from ir_runtime.graph import Model, Node, PartialShape
from ir_runtime.records import record

_ENCODER = "encoder_model"
_MERGED, _FIRST, _OTHERS = "decoder_model_merged", "decoder_model", "decoder_with_past_model"
BRANCH = "use_cache_branch"
"""The input of the merged decoder that chooses the calls with caches."""
_STATES, _OF_ENCODER = "encoder_hidden_states", ".encoder."
_PAST, _PRESENT = "past_key_values", "present"
_TOKENS = "input_ids"
_PROMPT, _STATE_COUNT = 4, 3
"""Tokens and states of the encoder in the check of the decoder."""
_TOLERANCE = 0.02
"""Of the largest logit. Rounding stays below it, in float16, too; a missing mask or wrong positions change the logits
by about their own size."""


@record
class EncoderDecoder:
    """The files of a model with encoder and decoder."""

    encoder: OnnxFile
    first: OnnxFile
    """The decoder without caches."""
    others: OnnxFile
    """The decoder with caches; the same file where both are in one."""

    @classmethod
    def found_in(cls, files: ModelFiles) -> EncoderDecoder | None:
        """The files of a folder; None where it has none of an encoder, and no decoder that needs one.

        Raises :class:`ConversionError` where some of them are missing.
        """
        here = [name for name in (_MERGED, _FIRST, _OTHERS) if files.has(name)]
        encoder = files.get(_ENCODER)
        if encoder is None:
            for file in (file for name in sorted(here) if (file := files.get(name)) is not None):
                read = [value for value in graph_names(file)[0] if value == _STATES or _OF_ENCODER in value]
                if read:
                    raise ConversionError(
                        f"{files.path} has {Path(file.name).name}, which reads '{read[0]}', but no {_ENCODER}.onnx"
                    )
            return None
        first, others = (files.get(name) for name in (_FIRST, _OTHERS))
        if first is not None and others is not None:
            return cls(encoder, first, others)
        merged = files.get(_MERGED)
        if merged is not None:
            return cls(encoder, merged, merged)
        decoders = " and ".join(f"{name}.onnx" for name in sorted(here)) or "no decoder"
        raise ConversionError(
            f"{files.path} has {_ENCODER}.onnx and {decoders}, but its decoder must be {_MERGED}.onnx, or "
            f"{_FIRST}.onnx and {_OTHERS}.onnx: Optimum writes them for the tasks that end in '-with-past'"
        )


def convert_decoder(
    parts: EncoderDecoder,
    options: ConversionOptions,
    *,
    names: Mapping[str, str] | None = None,
    takes_one_token: bool = False,
) -> Model:
    """The decoder with caches as variables, of itself and of the encoder's states.

    ``names`` maps names of inputs and outputs to those that the pipeline asks for. A decoder that ``takes_one_token`` a
    call by itself, as that of SpeechT5, is not compared for several.

    Raises :class:`ConversionError` where the files do not belong together, :class:`UnsupportedModelError` where the
    decoder with caches is right for one token a call only.
    """
    inputs, outputs = graph_names(parts.others)
    output_names = graph_names(parts.first)[1]
    present_of_past = {
        name: name.replace(_PAST, _PRESENT) for name in inputs if name.startswith(_PAST) and _OF_ENCODER in name
    }
    missing = [present for present in present_of_past.values() if present not in output_names]
    if missing or not present_of_past:
        missing_name = f"'{missing[0]}'" if missing else f"'{_PRESENT}.0{_OF_ENCODER}key'"
        raise ConversionError(
            f"{parts.first.name} must return the keys and values of the encoder's states, such as {missing_name}"
        )
    plain = replace(options, target="any")
    once = ComputedOnce(_part(parts.first, list(present_of_past.values()), plain), present_of_past)

    own = {name: name.replace(_PAST, _PRESENT) for name in inputs if name.startswith(_PAST) and _OF_ENCODER not in name}

    def make_states(model: Model, shapes: Mapping[str, PartialShape]) -> None:
        keep_computed(model, once)
        make_stateful(model, shapes, own or None)
        add_masks(model)

    returned = [name for name in outputs if name not in present_of_past.values()]
    decoder = _convert(parts.others, options, returned, with_caches=True, make_states=make_states, names=names)
    if takes_one_token:
        return decoder
    advice = "export the model with a newer release of Optimum" if options.fuse else "convert it with fusion"
    _check(decoder, _part(parts.first, returned[:1], plain), parts, advice)
    return decoder


def _part(file: OnnxFile, outputs: Sequence[str], options: ConversionOptions) -> Model:
    """Compute ``outputs`` of a decoder without a KV cache."""
    return _convert(file, options, outputs, with_caches=False)


def _convert(
    file: OnnxFile,
    options: ConversionOptions,
    outputs: Sequence[str] | None = None,
    *,
    with_caches: bool | None = None,
    make_states: MakeStates | None = None,
    names: Mapping[str, str] | None = None,
) -> Model:
    freeze = {BRANCH: [with_caches]} if BRANCH in graph_names(file)[0] else None
    return convert_part(file, options, outputs, freeze=freeze, make_states=make_states, names=names)


def _check(decoder: Model, first: Model, parts: EncoderDecoder, advice: str) -> None:
    """Compare the first call of the stateful decoder with the file of the first call, for random inputs.

    Exporters trace the calls with caches with one token. What a model does for more, such as a mask, may be lost.
    Raises :class:`UnsupportedModelError` where it is.
    """
    logits = first.results[0].end_names[0]
    values = _random_inputs([*first.parameters, *decoder.parameters], first.results[0].inputs[0].shape[-1].value)
    expected, actual = (
        compile_model(model)({name: values[name] for node in model.parameters for name in node.end_names[:1]})[logits]
        for model in (first, decoder)
    )
    largest = float(np.abs(np.asarray(expected, np.float32)).max())
    difference = float(np.abs(np.asarray(expected, np.float32) - actual).max())
    if not difference <= _TOLERANCE * largest:
        raise UnsupportedModelError(
            f"{parts.others.name} is exported for one token a call: given a prompt of {_PROMPT} tokens and no past, "
            f"its '{logits}' differ from those of {parts.first.name} by {difference:.3g} (the largest is "
            f"{largest:.3g}); {advice}"
        )


def _random_inputs(parameters: list[Node], vocabulary: int) -> Mapping[str, np.ndarray]:
    random, values = np.random.default_rng(0), dict[str, np.ndarray]()
    for node in parameters:
        value, name = node.outputs[0], node.end_names[0]
        lengths = [dim.value if dim.is_static else _STATE_COUNT for dim in value.shape]
        if name == _TOKENS:
            values[name] = random.integers(0, vocabulary, (1, _PROMPT))
        elif value.element_type.dtype.kind == "f":
            values.setdefault(name, random.normal(size=[1, *lengths[1:]]).astype(value.element_type.dtype))
        elif value.shape.rank == 1:
            values[name] = np.zeros(1, value.element_type.dtype)  # the only row of the batch
        else:
            values[name] = np.ones([1, *lengths[1:]], value.element_type.dtype)
    return values
