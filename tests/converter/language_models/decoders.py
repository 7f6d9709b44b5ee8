"""Decoders of two layers with random weights, as exporters write them, their folders, and tokenizers converted once."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import converter.folders.convert
from converter.folders import tokenizers
from converter.folders.tokenizers import Tokenizers, write_tokenizers
from tests.graphs import Graph, Value

# --- decoders of two layers with random weights, written node by node as exporters write them, and their folders ---

LAYERS, VOCABULARY, HEADS, SHARED, SIZE = 2, 260, 4, 2, 16
"""Layers, tokens, heads of queries, heads of keys and values, numbers a head."""
HIDDEN = HEADS * SIZE
POSITIONS = 256
BOUND = 16
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Decoder:
    """What a decoder has beside plain attention."""

    attention: str = "grouped"
    """``grouped`` (com.microsoft GroupQueryAttention), ``multihead`` (com.microsoft MultiHeadAttention), ``onnx``
    (Attention of opset 23), ``cached`` (the same with its own inputs and outputs of caches, causal) or ``spelled``
    (MatMul, Softmax, MatMul)."""
    window: int = -1
    sink: bool = False
    softcap: float = 0.0
    packed: bool = True
    """Whether queries, keys and values are one product."""
    positions: bool = True
    """Whether positions are an input; otherwise the length of the past tells them. Grouped attention has its own."""
    bound: str = ""
    """What changes positions of its own beyond :data:`BOUND`: an operator, or ``If`` for another branch."""
    guarded: bool = False
    """Whether hidden keys have -inf, and rows without keys become zeros, as torch's operator is exported."""
    kind: Any = np.float32
    embedded: bool = False
    """Whether the input is ``inputs_embeds``, of which :meth:`embeddings` is the model."""
    axes: bool = False
    """Whether positions are ``[3, batch, tokens]``: time, height and width, each for some of the angles."""
    stacked: bool = False
    """Whether ``deepstack_embeds [1, batch, tokens, width]`` are added."""

    @property
    def has_positions(self) -> bool:
        """Whether the file has the input ``position_ids``."""
        return self.positions and self.attention != "grouped"

    def build(self, seed: int = 0) -> onnx.ModelProto:
        """The model, with ``input_ids``, ``attention_mask``, caches, and ``position_ids`` where it is not grouped."""
        return _Writer(self, seed).decode()

    def embeddings(self, seed: int = 0) -> onnx.ModelProto:
        graph, dims = Graph(seed), ["batch_size", "sequence_length"]
        embedded = graph("Gather", graph.random.normal(size=(VOCABULARY, HIDDEN)), "input_ids")
        return graph.model({"input_ids": (np.int64, dims)}, {"inputs_embeds": (embedded, [*dims, HIDDEN])})

    @property
    def caches(self) -> Sequence[str]:
        return [f"past_key_values.{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")]

    @property
    def shared(self) -> int:
        return HEADS if self.attention == "multihead" else SHARED

    def empty_caches(self, batch: int) -> Mapping[str, np.ndarray]:
        return {name: np.zeros((batch, self.shared, 0, SIZE), self.kind) for name in self.caches}


class _Writer(Graph):
    def __init__(self, decoder: Decoder, seed: int) -> None:
        super().__init__(seed, dtype=decoder.kind, opset=23)
        self.decoder = decoder
        self.tokens = "inputs_embeds" if decoder.embedded else "input_ids"

    def product(self, x: Value, width: int, inner: int = HIDDEN, scale: float = 1.0) -> Value:
        return x @ self.weight(inner, width, scale=scale)

    def decode(self) -> onnx.ModelProto:
        words = self.random.normal(size=(VOCABULARY, HIDDEN))
        x = self["inputs_embeds"] if self.decoder.embedded else self("Gather", words, "input_ids")
        x = x + self("Gather", "deepstack_embeds", 0) if self.decoder.stacked else x
        before, attend = {
            "grouped": (self.lengths, self.grouped),
            "multihead": (list, self.multihead),
            "onnx": (self.mask, self.onnx_attention),
            "cached": (self.padding, self.cached_attention),
            "spelled": (self.mask, self.spelled),
        }[self.decoder.attention]
        masks = before()
        for layer in range(LAYERS):
            x = x + attend(self.normalized(x), layer, masks)
            inner = self.product(self.normalized(x), 2 * HIDDEN, scale=2)
            x = x + self.product(inner * inner.Sigmoid(), HIDDEN, 2 * HIDDEN, scale=2)
        logits = self.product(self.normalized(x), VOCABULARY, scale=4)
        self.nodes[-1].output[0] = "logits"
        assert logits
        shared = self.decoder.shared
        past = ["batch_size", shared, "past_sequence_length", "head_size"]
        present = ["batch_size", shared, "total_sequence_length", "head_size"]
        tokens, keys = ["batch_size", "sequence_length"], ["batch_size", "total_sequence_length"]
        words_of = (self.dtype, [*tokens, HIDDEN]) if self.decoder.embedded else (np.int64, tokens)
        inputs: dict[str, tuple[Any, Any]] = {self.tokens: words_of, "attention_mask": (np.int64, keys)}
        if self.decoder.has_positions:
            inputs["position_ids"] = (np.int64, [3, *tokens] if self.decoder.axes else tokens)
        if self.decoder.stacked:
            inputs["deepstack_embeds"] = (self.dtype, [1, *tokens, HIDDEN])
        inputs |= dict.fromkeys(self.decoder.caches, (self.dtype, past))
        outputs = {"logits": (self.dtype, [*tokens, VOCABULARY])}
        outputs |= {name.replace("past_key_values", "present"): (self.dtype, present) for name in self.decoder.caches}
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(self.body(inputs, outputs), opset_imports=opsets, ir_version=11)

    def normalized(self, x: Value) -> Value:
        """The root of mean squares as exporters spell it out."""
        root = (x.Pow(2.0).ReduceMean([-1]) + 1e-5).Sqrt()
        return x / root * self.random.normal(1, 0.1, HIDDEN)

    def waves(self) -> tuple[Value, Value]:
        """Cosines and sines of the angles of each position, ``[positions, size / 2]``."""
        speeds = 100.0 ** (-np.arange(SIZE // 2) / (SIZE // 2))
        angles = np.arange(POSITIONS)[:, None] * speeds
        return self.constant(np.cos(angles)), self.constant(np.sin(angles))

    def parts(self, x: Value) -> list[Value]:
        widths = [HIDDEN, SHARED * SIZE, SHARED * SIZE]
        if self.decoder.packed:
            return list(self.product(x, sum(widths)).Split(widths, axis=-1, count=3))
        return [self.product(x, width) for width in widths]

    def caches(self, layer: int) -> tuple[list[str], list[str]]:
        """The names of the past and the present keys and values of a layer."""
        past, present = ([f"{of}.{layer}.{name}" for name in ("key", "value")] for of in ("past_key_values", "present"))
        return past, present

    def attend(self, op_type: str, layer: int, *inputs: str, **attributes: Any) -> Value:
        """An operator that returns the present keys and values itself."""
        node = helper.make_node(op_type, inputs, [f"attention.{layer}", *self.caches(layer)[1]], **attributes)
        node.name = f"attention {layer}"
        self.nodes.append(node)
        return self[node.output[0]]

    # --- GroupQueryAttention, as onnxruntime-genai's builder writes it ---

    def lengths(self) -> Sequence[Value]:
        counts = self("ReduceSum", "attention_mask", [1], keepdims=0)
        return [(counts - [1]).Cast(to=TensorProto.INT32), self.size("attention_mask", 1).Cast(to=TensorProto.INT32)]

    def grouped(self, x: Value, layer: int, lengths: Sequence[Value]) -> Value:
        decoder = self.decoder
        inputs = [self.product(x, HIDDEN + 2 * SHARED * SIZE), "", ""] if decoder.packed else self.parts(x)
        sinks = [self.constant(self.random.normal(size=HEADS))] if decoder.sink else []
        attributes: dict[str, Any] = {"softcap": decoder.softcap} if decoder.softcap else {}
        attributes |= {"local_window_size": decoder.window, "do_rotary": 1, "num_heads": HEADS, "kv_num_heads": SHARED}
        inputs = [*inputs, *self.caches(layer)[0], *lengths, *self.waves(), "", "", *sinks]
        output = self.attend("GroupQueryAttention", layer, *inputs, domain=MICROSOFT, **attributes)
        return self.product(output, HIDDEN)

    # --- Attention of opset 23, and the same spelled out ---

    def mask(self) -> Sequence[Value]:
        """``[b, 1, s, t]``: 0, or the lowest number where a key is not seen; as torch's exporters write it."""
        count = self.size(self.tokens, 1)
        total = self.size("attention_mask", 1) if self.decoder.positions else self.past_length() + count
        keys = self("Range", 0, total, 1).Unsqueeze([0, 1, 2])
        queries = (total - count).Range(total, 1).Unsqueeze([0, 1, 3])
        seen = keys.LessOrEqual(queries)
        if self.decoder.window > 0:
            seen = keys.Greater(queries - self.decoder.window).And(seen)
        lowest = -np.inf if self.decoder.guarded else np.finfo(self.decoder.kind).min
        return [seen.And(self.valid()).Where(0.0, float(lowest))]

    def valid(self) -> Value:
        """``[b, 1, 1, t]``: which keys count."""
        return self("Cast", "attention_mask", to=TensorProto.BOOL).Unsqueeze([1, 2])

    def past_length(self) -> Value:
        return self.size("past_key_values.0.key", 2)

    def places(self) -> Value:
        """The positions of the tokens, ``[b, s]`` or ``[1, s]``."""
        if self.decoder.positions:
            return self["position_ids"]
        start = self.past_length()
        row = start.Range(start + self.size(self.tokens, 1), 1).Unsqueeze([0])
        if not self.decoder.bound:
            return row
        if self.decoder.bound == "If":
            branches = {}
            for name, operator, bound in (("then", "Min", BOUND), ("else", "Max", 0)):
                output = helper.make_tensor_value_info(f"{name} of {row}", TensorProto.INT64, [1, None])
                node = helper.make_node(operator, [row, self.constant(bound)], [output.name])
                branches[f"{name}_branch"] = helper.make_graph([node], name, [], [output])
            return (start + self.size(self.tokens, 1)).Greater(BOUND).If(**branches)
        if self.decoder.bound == "Gather":
            return self("Gather", np.minimum(np.arange(POSITIONS), BOUND), row)
        return self(self.decoder.bound, row, BOUND)

    def heads(self, x: Value, count: int) -> Value:
        return x.Reshape([0, 0, count, SIZE]).Transpose(perm=[0, 2, 1, 3])

    def flat(self, x: Value) -> Value:
        """``[b, n, s, h]`` to ``[b, s, n * h]``."""
        return x.Transpose(perm=[0, 2, 1, 3]).Reshape([0, 0, HIDDEN])

    def padding(self) -> Sequence[Value]:
        """``[b, 1, s, t]``: which keys count."""
        count = self.size(self.tokens, 1).Unsqueeze([0])
        return [self.valid().Expand(self("Concat", [1], [1], count, [1], axis=0))]

    def multihead(self, x: Value, layer: int, _: Sequence[Value]) -> Value:
        """Each head of keys and values for each of the queries; keys that count are an input of the operator."""
        q, k, v = self.turned_parts(x)
        wide = [self.flat(self.repeated(part)) for part in (k, v)]
        padding = self("Cast", "attention_mask", to=TensorProto.INT32)
        inputs = [self.flat(q), *wide, "", padding, "", *self.caches(layer)[0]]
        attributes = {"num_heads": HEADS, "unidirectional": 1}
        output = self.attend("MultiHeadAttention", layer, *inputs, domain=MICROSOFT, **attributes)
        return self.product(output, HIDDEN)

    def cached_attention(self, x: Value, layer: int, padding: Sequence[Value]) -> Value:
        inputs = [*self.turned_parts(x), *padding, *self.caches(layer)[0]]
        return self.merged(self.attend("Attention", layer, *inputs, is_causal=1))

    def turned_parts(self, x: Value) -> Sequence[Value]:
        """New queries, keys and values, ``[b, n, s, h]``."""
        q, k, v = (self.heads(part, count) for part, count in zip(self.parts(x), (HEADS, SHARED, SHARED)))
        found = [wave.Gather(self.places()) for wave in self.waves()]
        if self.decoder.axes:
            parts = [wave.Split([2, 3, 3], axis=-1, count=3) for wave in found]
            found = [self("Concat", *(part.Gather(axis) for axis, part in enumerate(wave)), axis=-1) for wave in parts]
        waves = [wave.Concat(wave, axis=-1).Unsqueeze([1]) for wave in found]
        return [turned(q, waves), turned(k, waves), v]

    def cached(self, x: Value, layer: int) -> Sequence[Value]:
        q, *new = self.turned_parts(x)
        wholes = [self("Concat", past, part, axis=2) for past, part in zip(self.caches(layer)[0], new)]
        for name, whole in zip(self.caches(layer)[1], wholes):
            self("Identity", whole, name=name)
        return [q, *wholes]

    def onnx_attention(self, x: Value, layer: int, mask: Sequence[Value]) -> Value:
        return self.merged(self("Attention", *self.cached(x, layer), *mask))

    def spelled(self, x: Value, layer: int, mask: Sequence[Value]) -> Value:
        q, k, v = self.cached(x, layer)
        k, v = self.repeated(k), self.repeated(v)
        scores = q @ k.Transpose(perm=[0, 1, 3, 2]) * SIZE**-0.5
        shares = (scores + mask[0]).Softmax(axis=-1)
        if self.decoder.guarded:
            shares = shares.IsNaN().Where(0.0, shares)
        return self.merged(shares @ v)

    def repeated(self, x: Value) -> Value:
        """Each head twice, as transformers' ``repeat_kv`` is exported."""
        shape = x.Shape()
        batch, length = shape.Gather([0]), shape.Gather([2])
        wide = batch.Concat([SHARED, HEADS // SHARED], length, [SIZE], axis=0)
        merged = batch.Concat([HEADS], length, [SIZE], axis=0)
        return x.Unsqueeze([2]).Expand(wide).Reshape(merged)

    def merged(self, x: Value) -> Value:
        return self.product(self.flat(x), HIDDEN)


def turned(x: Value, waves: Sequence[Value], size: int = SIZE) -> Value:
    """Each half of a head against the other, as transformers writes it."""
    first, second = (x.Slice([at], [at + size // 2], [3]) for at in (0, size // 2))
    return x * waves[0] + (-second).Concat(first, axis=-1) * waves[1]


DECODERS = {
    "grouped": Decoder(),
    "grouped, unpacked": Decoder(packed=False),
    "grouped, window": Decoder(window=8),
    "grouped, window and sink": Decoder(window=8, sink=True),
    "grouped, softcap": Decoder(softcap=20.0),
    "grouped, float16": Decoder(kind=np.float16),
    "onnx": Decoder("onnx"),
    "onnx, window": Decoder("onnx", window=8),
    "cached": Decoder("cached"),
    "multihead": Decoder("multihead"),
    "spelled": Decoder("spelled"),
    "spelled, window": Decoder("spelled", window=8, packed=False),
    "spelled, guarded": Decoder("spelled", guarded=True),
    "spelled, own positions": Decoder("spelled", positions=False),
    "spelled, window, guarded, own positions": Decoder("spelled", window=8, guarded=True, positions=False),
    "onnx, guarded, own positions": Decoder("onnx", guarded=True, positions=False),
}

# --- folders with a small decoder, as onnxruntime-genai's builder leaves them ---

SPECIAL = ("<pad>", "<s>", "</s>")
TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant: "


def write_folder(folder: Path, decoder: Decoder) -> None:
    save_models(folder, {"model": decoder.build()})
    inputs = {name: name for name in ("input_ids", "attention_mask", *["position_ids"] * decoder.has_positions)}
    caches = {f"past_{part}_names": f"past_key_values.%d.{part}" for part in ("key", "value")}
    outputs = {
        name.replace("past", "present"): value.replace("past_key_values", "present") for name, value in caches.items()
    }
    part = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []}, "filename": "model.onnx",
        "head_size": SIZE, "hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS,
        "num_key_value_heads": decoder.shared, "inputs": inputs | caches, "outputs": {"logits": "logits", **outputs},
    }  # fmt: skip
    model = {
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "context_length": POSITIONS, "type": "llama",
        "vocab_size": VOCABULARY, "decoder": part,
    }  # fmt: skip
    search = {"do_sample": False, "max_length": POSITIONS, "num_beams": 1, "top_k": 50}
    write_json(folder / "genai_config.json", {"model": model, "search": search})
    write_tokenizer(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def write_tokenizer(folder: Path, processor: Any = None, **settings: Any) -> None:
    """A tokenizer of single bytes; ``processor`` joins two texts."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate([*SPECIAL, *alphabet])}, []))
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if processor is not None:
        tokenizer.post_processor = processor
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = dict(zip(("pad_token", "bos_token", "eos_token"), SPECIAL))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **names, **settings}
    write_json(folder / "tokenizer_config.json", settings)


def save_models(folder: Path, models: Mapping[str, onnx.ModelProto]) -> None:
    """Save models by their paths without the ending."""
    for name, model in models.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        onnx.save(model, folder / f"{name}.onnx")


def write_json(path: Path, values: object) -> None:
    path.write_text(json.dumps(values, indent=2))


# --- fixtures for tests that convert folders: tokenizers that several folders have are converted once ---

_NEEDED = tokenizers._NEEDED


@pytest.fixture(scope="session")
def converted_tokenizers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokenizers")


@pytest.fixture(autouse=True)
def tokenizers_once(converted_tokenizers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Converting one takes a second, most of it for imports of a process of its own."""

    def write(source: Path, target: Path, *, pads_left: bool = True) -> Tokenizers:
        files = sorted(source.glob("tokenizer*.json")) + sorted(source.glob("chat_template*"))
        contents = b"".join(file.read_bytes() for file in files) + bytes([pads_left])
        folder = converted_tokenizers / hashlib.sha256(contents).hexdigest()
        if tokenizers._NEEDED != _NEEDED:  # a test of what happens without the packages
            return write_tokenizers(source, target, pads_left=pads_left)
        if not folder.is_dir():
            written = write_tokenizers(source, target, pads_left=pads_left)
            if not written.written:
                return written
            folder.mkdir()
            for file in target.glob("openvino_*tokenizer.*"):
                shutil.copyfile(file, folder / file.name)
        target.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            shutil.copyfile(file, target / file.name)
        return Tokenizers(True)

    monkeypatch.setattr(converter.folders.convert, "write_tokenizers", write)
