"""One model and, for texts, a tokenizer: embeddings, rankings, and tasks that OpenVINO runs without a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from converter.errors import ConversionError, UnsupportedModelError
from converter.folders.pipeline import OPENVINO, Part, Pipeline, TokenizerFiles, check_inputs, convert_part
from converter.folders.source import MODEL, SourceFolder, read_json, read_json_list
from converter.onnx_file.messages import GraphProto, ValueInfoProto
from converter.onnx_file.reader import OnnxFile
from ir_runtime.records import record

EMBEDDING, RANKING = "feature-extraction", "text-ranking"
_TEXT, _MASK, _SEGMENTS = "input_ids", "attention_mask", "token_type_ids"
_HIDDEN, _LOGITS = "last_hidden_state", "logits"
_STATES = (_HIDDEN, "token_embeddings", "hidden_states")
"""Names that exporters give to the states of all tokens."""
_POOLINGS = {
    "cls_token": "CLS",
    "mean_tokens": "MEAN",
    "lasttoken": "LAST_TOKEN",
    "cls": "CLS",
    "mean": "MEAN",
}
"""Poolings of sentence-transformers, as its files call them, that openvino-genai has."""
_POOLING_SWITCH = "pooling_mode_"
_ENCODER_MODULES = ("Transformer", "Pooling", "Normalize")


@record
class _Signature:
    """Inputs and outputs by which a model is recognised for a task."""

    input: str
    outputs: frozenset[str]
    rank: int | None = None
    """The rank of the first output, where it matters."""


_OTHER_TASKS: Mapping[str, _Signature] = {
    "text-classification": _Signature(_TEXT, frozenset({_LOGITS}), 2),
    "token-classification": _Signature(_TEXT, frozenset({_LOGITS}), 3),
    "fill-mask": _Signature(_TEXT, frozenset({_LOGITS}), 3),
    "question-answering": _Signature(_TEXT, frozenset({"start_logits", "end_logits"})),
    "zero-shot-image-classification": _Signature(_TEXT, frozenset({"logits_per_image", "logits_per_text"})),
    "object-detection": _Signature("pixel_values", frozenset({_LOGITS, "pred_boxes"})),
    "image-classification": _Signature("pixel_values", frozenset({_LOGITS}), 2),
    "image-segmentation": _Signature("pixel_values", frozenset({_LOGITS}), 4),
    "depth-estimation": _Signature("pixel_values", frozenset({"predicted_depth"})),
    "image-feature-extraction": _Signature("pixel_values", frozenset({_HIDDEN})),
    "audio-classification": _Signature("input_values", frozenset({_LOGITS}), 2),
    "text-to-audio": _Signature(_TEXT, frozenset({"waveform"})),
}
"""Tasks that openvino-genai has no pipeline for. The first that fits is taken where no configuration decides."""
_ARCHITECTURES = {"MaskedLM": "fill-mask", "TokenClassification": "token-classification"}
"""Suffixes of architectures, for tasks with the same inputs and outputs."""
TASKS = (EMBEDDING, RANKING, *_OTHER_TASKS)


def recognise_single_model(source: SourceFolder, task: str | None) -> Pipeline | None:
    """A folder with one model, which its inputs and outputs tell the task of."""
    if task not in (None, *TASKS):
        return None
    file = source.files.get("model")
    if file is None and len(source.files.all) == 1:
        file = source.files.open(source.files.all[0])
    if file is None:
        return None
    graph = file.proto.graph
    fitting = [name for name in TASKS if _fits(name, graph, source.configuration)]
    if task is None:
        decided = [name for name in fitting if _is_indicated(name, graph, source.configuration)]
        own = next(iter(decided or fitting), None)
    elif task in fitting:
        own = task
    else:
        raise ConversionError(
            f"{file.name} is no model for {task}: its inputs are {_listed(graph.input)}, "
            f"its outputs {_listed(graph.output)}"
        )
    if own is None:
        return None
    others = tuple(name for name in fitting if name != own)
    if own == EMBEDDING:
        return replace(_embedding(source, file), other_tasks=others)
    if own == RANKING:
        _check_inputs(file, "TextRerankPipeline")
    runtime = "TextRerankPipeline" if own == RANKING else OPENVINO
    return replace(_pipeline(source, file, own, runtime, [value.name for value in graph.output]), other_tasks=others)


def _pipeline(
    source: SourceFolder,
    file: OnnxFile,
    task: str,
    runtime: str,
    outputs: Sequence[str],
    names: Mapping[str, str] | None = None,
    arguments: str = "",
) -> Pipeline:
    convert = partial(convert_part, outputs=outputs, names=names)
    has_text = any(value.name == _TEXT for value in file.proto.graph.input)
    return Pipeline(
        source,
        task,
        runtime,
        (Part("model", file, MODEL, convert),),
        (TokenizerFiles(source.path),) if has_text else (),
        source.copied(*_modules(source.path)),
        arguments=arguments,
    )


def _fits(task: str, graph: GraphProto, configuration: Mapping[str, Any]) -> bool:
    """True if a model with these inputs and outputs may be one for ``task``."""
    inputs, outputs = ({value.name: value for value in values} for values in (graph.input, graph.output))
    if task == EMBEDDING:
        return _TEXT in inputs and any(name in outputs for name in _STATES)
    if task == RANKING:  # a score for each pair of texts; of two classes the second is that of a match
        labels = _labels(configuration, outputs.get(_LOGITS))
        return _TEXT in inputs and _rank(outputs.get(_LOGITS)) == 2 and labels in (1, 2)
    signature = _OTHER_TASKS[task]
    if signature.input not in inputs or not signature.outputs <= outputs.keys():
        return False
    return signature.rank is None or _rank(outputs[_LOGITS]) == signature.rank


def _is_indicated(task: str, graph: GraphProto, configuration: Mapping[str, Any]) -> bool:
    """True if the number of classes or the configuration speaks for ``task`` among those that the model fits."""
    if task in (RANKING, "text-classification"):  # a single number is a score
        logits = next(value for value in graph.output if value.name == _LOGITS)
        return (_labels(configuration, logits) == 1) is (task == RANKING)
    endings = [ending for ending, name in _ARCHITECTURES.items() if name == task]
    names = configuration.get("architectures") or []
    return any(str(name).endswith(ending) for name in names for ending in endings)


def _labels(configuration: Mapping[str, Any], logits: ValueInfoProto | None) -> int | None:
    """The number of classes; None where nothing tells it."""
    shape = None if logits is None else logits.type.tensor_type.shape
    if shape is not None and shape.dim and shape.dim[-1].HasField("dim_value"):
        return int(shape.dim[-1].dim_value)
    names = configuration.get("id2label")
    if isinstance(names, dict):
        return len(names)
    count = configuration.get("num_labels", 2 if "architectures" in configuration else None)
    return count if isinstance(count, int) else None


def _rank(value: ValueInfoProto | None) -> int | None:
    if value is None or not value.type.tensor_type.HasField("shape"):
        return None
    return len(value.type.tensor_type.shape.dim)


def _embedding(source: SourceFolder, file: OnnxFile) -> Pipeline:
    """The states of all tokens: ``TextEmbeddingPipeline`` pools and normalizes them as its arguments say."""
    _check_inputs(file, "TextEmbeddingPipeline")
    hidden = next(value.name for value in file.proto.graph.output if value.name in _STATES)
    return _pipeline(
        source, file, EMBEDDING, "TextEmbeddingPipeline", [hidden], {hidden: _HIDDEN}, _pooling(source.path)
    )


def _check_inputs(file: OnnxFile, runtime: str) -> None:
    expected = (_TEXT, _MASK, _SEGMENTS)
    check_inputs(file, expected[:2], expected, f"{runtime} gives {', '.join(expected)} alone")


def _modules(folder: Path) -> list[str]:
    """The folders of sentence-transformers' modules."""
    return sorted(entry.name for entry in folder.glob("[0-9]_*") if entry.is_dir())


def _pooling(folder: Path) -> str:
    """The arguments for ``TextEmbeddingPipeline``: pooling and normalization of sentence-transformers' modules.

    Raises :class:`UnsupportedModelError` for modules that the pipeline does not have.
    """
    steps = _module_types(folder)
    others = [step for step in steps if step not in _ENCODER_MODULES]
    if others:
        raise UnsupportedModelError(
            f"{folder / 'modules.json'} has the module {others[0]}, which TextEmbeddingPipeline does not compute: "
            "convert the ONNX file by itself, whose 'sentence_embedding' has it"
        )
    settings = next((values for name in _modules(folder) if (values := _pooling_settings(folder / name))), None)
    if settings is None:
        return ""
    pooling = _POOLINGS.get(settings)
    if pooling is None:
        poolings = ", ".join(sorted(set(_POOLINGS.values())))
        raise UnsupportedModelError(f"{folder} pools by '{settings}', but TextEmbeddingPipeline pools by {poolings}")
    normalizes = "Normalize" in steps or not steps
    side = read_json(folder / "tokenizer_config.json").get("padding_side")
    padding = ', padding_side="left"' if pooling == "LAST_TOKEN" and side == "left" else ""
    pooling_type = f"openvino_genai.TextEmbeddingPipeline.PoolingType.{pooling}"
    return f", pooling_type={pooling_type}, normalize={normalizes}{padding}"


def _module_types(folder: Path) -> list[str]:
    """The last words of the types in ``modules.json``: ``Transformer``, ``Pooling``; empty where there is none."""
    return [str(module.get("type", "")).rpartition(".")[2] for module in read_json_list(folder / "modules.json")]


def _pooling_settings(folder: Path) -> str:
    """The pooling that a module's settings choose; empty where it is no pooling."""
    values = read_json(folder / "config.json")
    if "pooling_mode" in values:
        return str(values["pooling_mode"])
    chosen = [
        name.removeprefix(_POOLING_SWITCH)
        for name, value in values.items()
        if name.startswith(_POOLING_SWITCH) and value is True
    ]
    return " and ".join(chosen)


def _listed(values: Sequence[ValueInfoProto]) -> str:
    return ", ".join(f"'{value.name}'" for value in values) or "none"
