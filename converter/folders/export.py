"""From a folder that OpenVINO's runtimes of language models read to one that onnxruntime-genai reads."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from converter.errors import ConversionError, UnsupportedModelError
from converter.folders.source import CONFIGURATION, GENAI_SETTINGS, GENERATION, MODEL, SEARCH, TOKENS, read_json
from converter.options.conversion import options_from, takes
from converter.options.export import ExportOptions, ExternalData
from converter.to_onnx.export import export_graph
from converter.to_onnx.file import write_onnx
from ir_runtime import read_model
from ir_runtime.boundary import boundary
from ir_runtime.records import record

_FILE = "model.onnx"
_NUMBER = "%d"
_LEFT_OUT = {".xml", ".bin"}


@record
class ExportedLanguageModel:
    """The files that were written."""

    model: Path
    """The ONNX model; large weights lie beside it."""
    settings: Path
    """The settings of onnxruntime-genai."""
    files: tuple[Path, ...]
    """Other settings and the files of the tokenizer."""


@boundary(error=ConversionError)
@takes(ExportOptions, ExternalData)
def export_language_model(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    external_data: bool | None = None,
    options: ExportOptions | None = None,
    **keywords: Any,
) -> ExportedLanguageModel:
    """Export the language model in ``folder`` to a folder that onnxruntime-genai reads.

    ``folder`` has ``openvino_model.xml`` and ``config.json``, as this package and optimum-intel write them. ``output``,
    which is made where there is none, gets ``model.onnx``, whose caches are inputs and outputs, ``genai_config.json``
    and the files of the tokenizer. ``options`` are those of :func:`converter.save_onnx`, or the keywords are their
    fields:

    {options}

    Raises :class:`ConversionError` where the folder has no such model, or the model no caches.
    """
    chosen = options_from(ExportOptions, options, keywords, "export_language_model")
    return export_folder(folder, output, chosen, external_data)


def export_folder(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    options: ExportOptions,
    external_data: bool | None = None,
) -> ExportedLanguageModel:
    """As :func:`export_language_model`."""
    source, target = Path(folder), Path(output)
    if not (source / MODEL).is_file():
        raise ConversionError(f"{source} has no {MODEL}")
    if target.exists() and target.resolve() == source.resolve():
        raise ConversionError(f"the output must be another folder than {source}")
    configuration, generation = (read_json(source / name) for name in (CONFIGURATION, GENERATION))
    if not configuration:
        raise ConversionError(f"{source} has no {CONFIGURATION}, which tells what the model is")
    exported = export_graph(read_model(source / MODEL), options, _dimensions)
    settings = settings_of(exported.message().graph, configuration, generation)
    target.mkdir(parents=True, exist_ok=True)
    write_onnx(exported, target / _FILE, external_data)
    files = []
    for file in sorted(source.iterdir()):
        if file.is_file() and file.suffix.lower() not in _LEFT_OUT and file.name != GENAI_SETTINGS:
            shutil.copyfile(file, target / file.name)
            files.append(target / file.name)
    (target / GENAI_SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    return ExportedLanguageModel(target / _FILE, target / GENAI_SETTINGS, tuple(files))


def _dimensions(name: str) -> Sequence[str]:
    """The names of the dimensions of a decoder's input or output, those of onnxruntime-genai's own models."""
    if name in ("input_ids", "position_ids"):
        return "batch_size", "sequence_length"
    if name == "attention_mask":
        return "batch_size", "total_sequence_length"
    if name == "logits":
        return "batch_size", "sequence_length", ""
    for prefix in ("past", "present"):
        if re.fullmatch(rf"{prefix}.*\.\d+\..*(key|value).*", name):
            return "batch_size", "", "past_sequence_length" if prefix == "past" else "total_sequence_length", ""
    return ()


def settings_of(
    graph: onnx.GraphProto, configuration: Mapping[str, Any], generation: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings of onnxruntime-genai for a decoder.

    https://onnxruntime.ai/docs/genai/reference/config.html
    """
    inputs, outputs = ([value.name for value in side] for side in (graph.input, graph.output))
    keys = _pattern(inputs, r"(past.*)\.(\d+)\.(.*key.*)")
    values = _pattern(inputs, r"(past.*)\.(\d+)\.(.*value.*)")
    if keys is None or values is None:
        raise UnsupportedModelError("the model has no caches called past_key_values.0.key and past_key_values.0.value")
    layers = sum(1 for name in inputs if _matches(keys, name))
    cache = next(value for value in graph.input if _matches(keys, value.name)).type.tensor_type.shape.dim
    heads = configuration.get("num_attention_heads", cache[1].dim_value)
    hidden = configuration.get("hidden_size", heads * cache[-1].dim_value)
    inputs_by_name = {name: name for name in ("input_ids", "attention_mask", "position_ids") if name in inputs}
    strange = [
        name
        for name in inputs
        if name not in inputs_by_name and not _matches(keys, name) and not _matches(values, name)
    ]
    if strange or "logits" not in outputs:
        wrong = f"inputs {strange}" if strange else f"outputs {outputs} without 'logits'"
        raise UnsupportedModelError(f"onnxruntime-genai has no setting for a decoder with {wrong}")
    presents = {
        "present_key_names": _pattern(outputs, r"(present.*)\.(\d+)\.(.*key.*)"),
        "present_value_names": _pattern(outputs, r"(present.*)\.(\d+)\.(.*value.*)"),
    }
    length = configuration.get("max_position_embeddings", configuration.get("n_positions", 2048))
    tokens = {name: token for name in TOKENS if (token := generation.get(name, configuration.get(name))) is not None}
    tokens.setdefault("pad_token_id", _first(tokens.get("eos_token_id", 0)))
    return {
        "model": {
            **tokens,
            "context_length": length,
            "decoder": {
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
                "filename": _FILE,
                "head_size": cache[-1].dim_value,
                "hidden_size": hidden,
                "inputs": {**inputs_by_name, "past_key_names": keys, "past_value_names": values},
                "outputs": {"logits": "logits", **presents},
                "num_attention_heads": heads,
                "num_hidden_layers": layers,
                "num_key_value_heads": cache[1].dim_value,
            },
            "type": configuration.get("model_type", "llama"),
            "vocab_size": configuration.get("vocab_size", 0),
        },
        # The caches grow from call to call: nothing is written in place.
        "search": {
            **{name: generation[name] for name in SEARCH if generation.get(name) is not None},
            "max_length": generation.get("max_length") or length,
            "past_present_share_buffer": False,
        },
    }


def _pattern(names: Sequence[str], expression: str) -> str | None:
    """The name of layer 0's tensor with ``%d`` in the place of the number."""
    for name in names:
        match = re.fullmatch(expression, name)
        if match:
            return f"{match[1]}.{_NUMBER}.{match[3]}"
    return None


def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(_NUMBER, r"\d+"), name) is not None


def _first(tokens: Any) -> Any:
    return tokens[0] if isinstance(tokens, list) and tokens else tokens
