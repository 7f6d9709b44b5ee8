"""Graphs of small transformers, and folders with small models of texts, as exporters leave them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto
from tokenizers import Tokenizer, processors

from tests import graphs
from tests.converter.language_models.decoders import save_models, write_json, write_tokenizer
from tests.engines import OnnxSession
from tests.graphs import Value

# --- graphs of small transformers with random weights ---

HEADS, SIZE = 2, 16
HIDDEN = HEADS * SIZE
LOWEST = np.finfo(np.float32).min


class Graph(graphs.Graph):
    """A graph with the layers of transformers and convolutional networks."""

    def linear(self, x: Value, rows: int, columns: int, scale: float = 1.0) -> Value:
        return x @ self.weight(rows, columns, scale=scale) + self.weight(columns)

    def convolution(self, x: str, channels: int, outputs: int, size: int = 3, stride: int = 1) -> Value:
        weights = self.weight(outputs, channels, size, size, depth=channels * size * size)
        return self("Conv", x, weights, self.weight(outputs), strides=[stride] * 2, pads=[size // 2] * 4)

    def embedded(self, count: int, tokens: str) -> Value:
        return self("Gather", self.weight(count, HIDDEN, depth=1), tokens)

    def heads(self, x: Value) -> Value:
        """``[b, s, hidden]`` to ``[b, heads, s, size]``."""
        return x.Reshape([0, 0, HEADS, SIZE]).Transpose(perm=[0, 2, 1, 3])

    def attend(self, q: Value, k: Value, v: Value, mask: str | None = None) -> Value:
        """``[b, s, hidden]`` of queries, keys and values of heads; ``mask`` is added to the scores."""
        scores = q @ k.Transpose(perm=[0, 1, 3, 2]) * SIZE**-0.5
        scores = scores if mask is None else scores + mask
        return (scores.Softmax(axis=-1) @ v).Transpose(perm=[0, 2, 1, 3]).Reshape([0, 0, HIDDEN])

    def attention(self, x: Value, states: Value | None = None, mask: str | None = None, depth: int = HIDDEN) -> Value:
        """Attention of ``x`` to itself or to ``states`` of ``depth`` numbers."""
        source, rows = (x, HIDDEN) if states is None else (states, depth)
        q = self.heads(self.linear(x, HIDDEN, HIDDEN, scale=2))
        k, v = (self.heads(self.linear(source, rows, HIDDEN, scale=2)) for _ in range(2))
        return self.linear(self.attend(q, k, v, mask), HIDDEN, HIDDEN)

    def normalized(self, x: Value) -> Value:
        return x.LayerNormalization(np.ones(HIDDEN, np.float32), self.weight(HIDDEN), axis=-1)

    def layer(self, x: Value, mask: str | None = None) -> Value:
        """A layer of a transformer."""
        x = x + self.attention(self.normalized(x), mask=mask)
        inner = self.linear(self.normalized(x), HIDDEN, 2 * HIDDEN)
        return x + self.linear(inner * inner.Sigmoid(), 2 * HIDDEN, HIDDEN)

    def padding_mask(self, mask: str = "attention_mask") -> Value:
        """``[b, 1, 1, s]``: 0 for tokens, the lowest number for padding."""
        return ((self.constant(1.0) - self("Cast", mask, to=TensorProto.FLOAT)) * LOWEST).Unsqueeze([1, 2])

    def causal_mask(self, length: int) -> Value:
        return self.constant(np.triu(np.full((length, length), LOWEST), 1))


def run(model: onnx.ModelProto, **feeds: Any) -> list[np.ndarray]:
    """What onnxruntime computes."""
    return list(OnnxSession(model)(feeds).values())


# --- folders with small models of texts, as Optimum and sentence-transformers leave them ---

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
    file: str = "onnx/model",
    segments: bool = True,
) -> None:
    """Model, configuration and tokenizer."""
    save_models(folder, {file: model})
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


def mean(states: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return (states * mask[..., None]).sum(1) / mask.sum(1)[:, None]


POOLINGS: dict[str, tuple[str, bool, Pooling]] = {
    "cls": ("cls_token", True, lambda states, _: states[:, 0]),
    "mean": ("mean_tokens", True, mean),
    "mean, not normalized": ("mean_tokens", False, mean),
    "last token": ("lasttoken", True, lambda states, mask: states[np.arange(len(mask)), mask.sum(1) - 1]),
}
