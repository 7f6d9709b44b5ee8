"""Folders with small models of texts, as Optimum and sentence-transformers leave them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from tokenizers import Tokenizer, processors

from tests.converter.language_models.folders import write_json, write_tokenizer

from .graphs import HIDDEN, Graph

VOCABULARY, POSITIONS = 260, 64
_TOKENS = ["batch_size", "sequence_length"]


def text_encoder(
    outputs: str = "last_hidden_state", *, labels: int = 0, segments: bool = True, extra: tuple[str, ...] = ()
) -> onnx.ModelProto:
    """An encoder of two layers: the states of all tokens, or scores of ``labels`` classes of the first token.

    ``extra`` are more inputs, without use.
    """
    graph = Graph(seed=labels)
    x = graph.embedded(VOCABULARY, "input_ids")
    if segments:
        x = x + graph.embedded(2, "token_type_ids")
    x = x + graph.embedded(POSITIONS, graph("Range", 0, graph.size("input_ids", 1), 1))
    mask = graph.padding_mask()
    for _ in range(2):
        x = graph.layer(x, mask)
    pooled = graph.linear(graph.normalized(x).Gather(0, axis=1), HIDDEN, HIDDEN).Tanh()
    inputs = ["input_ids", "attention_mask", *(["token_type_ids"] if segments else []), *extra]
    ends: dict[str, tuple[str, list[Any]]]
    if labels:
        ends = {outputs: (graph.linear(pooled, HIDDEN, labels, scale=4), ["batch_size", labels])}
    else:
        ends = {outputs: (x, [*_TOKENS, HIDDEN]), "pooler_output": (pooled, ["batch_size", HIDDEN])}
    return graph.model(dict.fromkeys(inputs, (np.int64, _TOKENS)), ends)


def write_text_folder(
    folder: Path,
    model: onnx.ModelProto,
    configuration: dict[str, Any],
    *,
    file: str = "onnx/model.onnx",
    segments: bool = True,
) -> None:
    """Model, configuration and tokenizer."""
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / file)
    write_json(folder / "config.json", configuration)
    write_pair_tokenizer(folder, segments=segments)


def write_pooling(folder: Path, mode: str, *, normalizes: bool, extra: str = "") -> None:
    """The modules of sentence-transformers."""
    types = ["Transformer", "Pooling", *(["Normalize"] if normalizes else []), *([extra] if extra else [])]
    modules = [
        {"idx": index, "path": "" if index == 0 else f"{index}_{name}", "type": f"sentence_transformers.models.{name}"}
        for index, name in enumerate(types)
    ]
    write_json(folder / "modules.json", modules)
    (folder / "1_Pooling").mkdir()
    modes = ("cls_token", "mean_tokens", "max_tokens", "lasttoken")
    switches = {f"pooling_mode_{name}": name == mode for name in modes}
    write_json(folder / "1_Pooling/config.json", {"word_embedding_dimension": HIDDEN, **switches})


def write_pair_tokenizer(folder: Path, *, segments: bool = True) -> None:
    """A tokenizer of single bytes that joins two texts, as BERT's does; without ``segments`` as RoBERTa's."""
    join = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    inputs = ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"]
    write_tokenizer(folder, join, model_max_length=POSITIONS, model_input_names=inputs)


def encode(folder: Path, *texts: str, second: list[str] | None = None) -> dict[str, np.ndarray]:
    """What the tokenizer of a folder makes of texts, or of pairs with ``second``, padded on the right."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding(pad_id=0, pad_token="<pad>")
    rows = tokenizer.encode_batch(list(texts) if second is None else list(zip(texts, second)))
    return {
        "input_ids": np.array([row.ids for row in rows]),
        "attention_mask": np.array([row.attention_mask for row in rows]),
        "token_type_ids": np.array([row.type_ids for row in rows]),
    }


TEXTS = ["once", "a much longer text, which is padded less", "two"]


Pooling = Callable[[np.ndarray, np.ndarray], np.ndarray]
POOLINGS: dict[str, tuple[str, bool, Pooling]] = {
    "cls": ("cls_token", True, lambda states, _: states[:, 0]),
    "mean": ("mean_tokens", True, lambda states, mask: (states * mask[..., None]).sum(1) / mask.sum(1)[:, None]),
    "mean, not normalized": (
        *("mean_tokens", False),
        lambda states, mask: (states * mask[..., None]).sum(1) / mask.sum(1)[:, None],
    ),
    "last token": ("lasttoken", True, lambda states, mask: states[np.arange(len(mask)), mask.sum(1) - 1]),
}  # fmt: skip
