"""Encoders with decoders of two layers, as Optimum writes them, and steps of decoders in onnxruntime and OpenVINO."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import openvino_genai
from onnx import helper, numpy_helper

from tests.engines import OnnxSession
from tests.graphs import Graph, Value

from .decoders import VOCABULARY as OF_DECODER
from .decoders import Decoder, save_models

# --- encoders with decoders of two layers and random weights, written node by node as Optimum writes them ---

LAYERS, VOCABULARY, HEADS, SIZE = 2, 300, 4, 8
HIDDEN = HEADS * SIZE
BANDS, FRAMES, POSITIONS = 80, 3000, 448
"""Of a spectrogram the bands and the frames, and of its text the positions: those of Whisper."""
Types = dict[str, tuple[Any, list[Any]]]
NAMES = ("encoder_model", "decoder_model", "decoder_with_past_model", "decoder_model_merged")


@dataclass(frozen=True)
class EncoderDecoder:
    """``speech`` is like Whisper (a spectrogram, positions from a table), otherwise like T5 (a mask, a bias)."""

    speech: bool = False
    one_token: bool = False
    """Whether the decoder with caches has lost its mask, as older exporters, which trace one token, leave it."""
    kind: Any = np.float32

    def save(self, folder: Path, names: Sequence[str] = NAMES) -> None:
        save_models(folder, {name: self.build(name) for name in names})

    def build(self, name: str) -> onnx.ModelProto:
        if name == "encoder_model":
            graph = _Encoder(self).graph()
        elif name == "decoder_model_merged":
            graph = _merged(self)
        else:
            graph = _Decoder(self, with_past="with_past" in name).graph()
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)

    def caches(self, of: str) -> list[str]:
        """The names of the inputs that are caches of the ``decoder`` itself, or of the ``encoder``'s states."""
        return [f"past_key_values.{layer}.{of}.{part}" for layer in range(LAYERS) for part in ("key", "value")]

    def feeds(self, seed: int = 0, lengths: Sequence[int] = (9,)) -> dict[str, np.ndarray]:
        """Random inputs of the encoder; texts of these lengths, padded on the right."""
        random = np.random.default_rng(seed)
        if self.speech:
            return {"input_features": random.normal(size=(len(lengths), BANDS, FRAMES)).astype(self.kind)}
        tokens = random.integers(1, VOCABULARY, (len(lengths), max(lengths)))
        mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
        return {"input_ids": tokens * mask, "attention_mask": mask}

    @property
    def element_type(self) -> int:
        return helper.np_dtype_to_tensor_dtype(np.dtype(self.kind))


class _Graph(Graph):
    """Formulas; weights of one name are equal in all graphs."""

    def __init__(self, model: EncoderDecoder, prefix: str = "") -> None:
        super().__init__(dtype=model.kind, prefix=prefix)
        self.of = model

    def constant(self, value: Any, dtype: Any = None, name: str = "") -> Value:
        return super().constant(value, dtype, name or f"constant of {value} {np.asarray(value).dtype}")

    def named(self, name: str, *shape: int, scale: float = 1.0) -> Value:
        values = np.random.default_rng(zlib.crc32(name.encode())).normal(scale=scale, size=shape)
        return self.constant(values, name=name)

    def product(self, x: Value, name: str, width: int = HIDDEN, inner: int = HIDDEN, scale: float = 1.0) -> Value:
        return x @ self.named(name, inner, width, scale=scale / np.sqrt(inner))

    def normalized(self, x: Value) -> Value:
        return x / ((x * x).ReduceMean([-1]) + 1e-5).Sqrt()


class _Encoder(_Graph):
    """A spectrogram or a text; rows of a batch that are padded do not depend on the padding."""

    def graph(self) -> onnx.GraphProto:
        kind = self.of.kind
        if self.of.speech:
            first = self.named("encoder.conv", HIDDEN, BANDS, 3, scale=0.2)
            x = self("Conv", "input_features", first, strides=[2], pads=[1, 1]).Transpose(perm=[0, 2, 1])
            inputs: dict[str, Any] = {"input_features": (kind, ["batch_size", BANDS, FRAMES])}
            length: str | int = FRAMES // 2
        else:
            length = "encoder_sequence_length"
            inputs = dict.fromkeys(("input_ids", "attention_mask"), (np.int64, ["batch_size", length]))
            weights = self("Unsqueeze", "attention_mask", [2]).Cast(to=self.of.element_type)
            x = self("Gather", self.named("encoder.words", VOCABULARY, HIDDEN), "input_ids") * weights
        x = x + self.product(x.Tanh(), "encoder.inner")
        self("Identity", self.normalized(x), name="last_hidden_state")
        return self.body(inputs, {"last_hidden_state": (kind, ["batch_size", length, HIDDEN])})


class _Decoder(_Graph):
    def __init__(self, model: EncoderDecoder, *, with_past: bool, prefix: str = "") -> None:
        super().__init__(model, prefix)
        self.with_past = with_past

    def graph(self) -> onnx.GraphProto:
        self.logits()
        return self.body(self.inputs(), self.outputs(with_encoder=not self.with_past))

    def inputs(self) -> Types:
        found: Types = {"input_ids": (np.int64, ["batch_size", "decoder_sequence_length"])}
        if not self.of.speech:
            found["encoder_attention_mask"] = (np.int64, ["batch_size", "encoder_sequence_length"])
        if not self.with_past:
            return found | self.states()
        return found | self.caches([*self.of.caches("decoder"), *self.of.caches("encoder")], "past_decoder_length")

    def states(self) -> Types:
        return {"encoder_hidden_states": (self.of.kind, ["batch_size", "encoder_sequence_length", HIDDEN])}

    def caches(self, names: Sequence[str], length: str) -> Types:
        lengths = {name: "encoder_sequence_length" if ".encoder." in name else length for name in names}
        return {name: (self.of.kind, ["batch_size", HEADS, lengths[name], SIZE]) for name in names}

    def outputs(self, *, with_encoder: bool) -> Types:
        names = [*self.of.caches("decoder"), *(self.of.caches("encoder") if with_encoder else ())]
        caches = self.caches(names, "past_decoder_length + decoder_sequence_length")
        presents = {name.replace("past_key_values", "present"): kind for name, kind in caches.items()}
        return {"logits": (self.of.kind, ["batch_size", "decoder_sequence_length", VOCABULARY]), **presents}

    def result(self, name: str, value: Value) -> None:
        self("Identity", value, name=self.prefix + name)

    def logits(self) -> None:
        count = self.size("input_ids", 1)
        rows = self("Concat", [-1], count.Unsqueeze([0]), axis=0)
        x = self("Gather", self.named("words", VOCABULARY, HIDDEN), self("Reshape", "input_ids", rows))
        before = self.size("past_key_values.0.decoder.key", 2) if self.with_past else self.constant(0)
        total = before + count
        places = before.Range(total, 1)
        if self.of.speech:
            x = x + self.named("positions", POSITIONS, HIDDEN).Gather(places)
        mask = None
        for layer in range(LAYERS):
            q, k, v = (self.heads(self.product(self.normalized(x), f"{layer}.self.{part}"), x) for part in "qkv")
            k, v = (self.cached(new, f"{layer}.decoder.{part}") for new, part in ((k, "key"), (v, "value")))
            mask = mask or self.mask(places, k, total)
            x = x + self.product(self.attention(q, k, v, mask, x), f"{layer}.self.o")
            q = self.heads(self.product(self.normalized(x), f"{layer}.cross.q"), x)
            k, v = (self.of_states(layer, part, x) for part in ("key", "value"))
            x = x + self.product(self.attention(q, k, v, self.padding(), x), f"{layer}.cross.o", scale=2)
            inner = self.product(self.normalized(x), f"{layer}.wide", 2 * HIDDEN)
            x = x + self.product(inner.Relu(), f"{layer}.narrow", HIDDEN, 2 * HIDDEN)
        self.result("logits", self.product(self.normalized(x), "logits.weights", VOCABULARY, scale=4))

    def batch(self, like: Value) -> Value:
        """The batch of the decoder's activations ``like``, as exporters trace it."""
        return self.size(like, 0).Unsqueeze([0])

    def heads(self, x: Value, like: Value) -> Value:
        return x.Reshape(self.batch(like).Concat([-1, HEADS, SIZE], axis=0)).Transpose(perm=[0, 2, 1, 3])

    def cached(self, new: Value, name: str) -> Value:
        whole = self("Concat", f"past_key_values.{name}", new, axis=2) if self.with_past else new
        self.result(f"present.{name}", whole)
        return whole

    def of_states(self, layer: int, part: str, like: Value) -> Value:
        name = f"{layer}.encoder.{part}"
        if self.with_past:
            return self[f"past_key_values.{name}"]
        made = self.heads(self.product(self["encoder_hidden_states"], f"{layer}.cross.{part}"), like)
        self.result(f"present.{name}", made)
        return made

    def mask(self, places: Value, k: Value, total: Value) -> Value | None:
        """0, or the lowest number for keys behind a query; for texts with a bias by the distance.

        T5 takes the number of keys, and the shape of a mask of all keys, from the keys of its first layer.
        """
        if self.of.speech and self.of.one_token and self.with_past:
            return None
        keys = self("Range", 0, total if self.of.speech else self.size(k, 2), 1)
        distance = places.Unsqueeze([1]) - keys
        lowest = float(np.finfo(self.of.kind).min)
        mask = distance.Less(-POSITIONS if self.of.one_token and self.with_past else 0).Where(lowest, 0.0)
        if self.of.speech:
            return mask
        near = distance.Min(7).Max(0)
        one = numpy_helper.from_array(np.ones(1, self.of.kind))
        counted = mask + k.Shape().Gather([0, 2]).ConstantOfShape(value=one).Unsqueeze([1, 2])
        mask = counted.Equal(0.0).Where(lowest, mask)
        return self.named("distances", 8, HEADS).Gather(near).Transpose(perm=[2, 0, 1]).Unsqueeze([0]) + mask

    def padding(self) -> Value | None:
        if self.of.speech:
            return None
        wide = self("Unsqueeze", "encoder_attention_mask", [1, 2]).Cast(to=self.of.element_type)
        return (self.constant(1.0) - wide) * float(np.finfo(self.of.kind).min)

    def attention(self, q: Value, k: Value, v: Value, mask: Value | None, like: Value) -> Value:
        scores = q @ k.Transpose(perm=[0, 1, 3, 2]) * SIZE**-0.5
        scores = scores if mask is None else scores + mask
        values = (scores.Softmax(axis=-1) @ v).Transpose(perm=[0, 2, 1, 3])
        return values.Reshape(self.batch(like).Concat([-1, HIDDEN], axis=0))


def _merged(model: EncoderDecoder) -> onnx.GraphProto:
    """Both decoders as branches of one If; that with caches returns stand-ins for what is of the encoder."""
    branches, whole = dict[str, onnx.GraphProto](), _Decoder(model, with_past=True)
    for name, with_past in (("then_branch", True), ("else_branch", False)):
        graph = _Decoder(model, with_past=with_past, prefix=f"{name}/")
        graph.logits()
        if with_past:
            empty = numpy_helper.from_array(np.zeros((0, HEADS, 1, SIZE), model.kind))
            for past in model.caches("encoder"):
                graph("Constant", name=graph.prefix + past.replace("past_key_values", "present"), value=empty)
        outputs = {graph.prefix + output: types for output, types in graph.outputs(with_encoder=True).items()}
        whole.constants |= graph.constants
        graph.constants = {}
        branches[name] = graph.body({}, outputs)
    inputs = {**whole.inputs(), **whole.states(), "use_cache_branch": (np.bool_, [1])}
    outputs = whole.outputs(with_encoder=True)
    whole.nodes.append(helper.make_node("If", ["use_cache_branch"], list(outputs), "/optimum::if", **branches))
    return whole.body(inputs, outputs)


# --- steps of a decoder: in onnxruntime with its caches as inputs and outputs, and in OpenVINO with its own ---

Array = np.ndarray
PROPERTIES = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}


def prompt_of(length: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(3, OF_DECODER, (1, length))


def padded(prompts: Sequence[Array]) -> tuple[Array, Array]:
    """Prompts as one batch that is padded on the left, and its mask."""
    longest = max(prompt.shape[1] for prompt in prompts)
    tokens = np.zeros((len(prompts), longest), np.int64)
    mask = np.zeros_like(tokens)
    for row, prompt in enumerate(prompts):
        tokens[row, longest - prompt.shape[1] :] = prompt[0]
        mask[row, longest - prompt.shape[1] :] = 1
    return tokens, mask


def positions_of(mask: Array, count: int) -> Array:
    """The positions of the last ``count`` tokens, as runtimes of language models compute them."""
    places = np.cumsum(mask, axis=1) - 1
    return np.where(mask == 0, 1, places)[:, -count:]


def past_of(values: Mapping[str, Array]) -> dict[str, Array]:
    """Present keys and values as those of the past."""
    return {name.replace("present", "past_key_values"): value for name, value in values.items() if "present" in name}


def greedy(step: Callable[[Array], Array], prompt: Array, count: int) -> list[int]:
    """The next tokens of a row; ``step`` returns logits, and remembers what it was given."""
    found = list[int]()
    while len(found) < count:
        prompt = step(prompt)[:, -1:].argmax(-1)
        found.append(int(prompt[0, 0]))
    return found


class OnnxDecoder:
    """A decoder in onnxruntime; each call is a step."""

    def __init__(self, decoder: Decoder, model: onnx.ModelProto) -> None:
        self._decoder, self._session = decoder, OnnxSession(model)
        self.reset()

    def reset(self) -> None:
        self._caches: Mapping[str, Array] = self._decoder.empty_caches(1)
        self._length = 0

    def __call__(self, tokens: Array) -> Array:
        """The logits of one row of tokens, ``[1, s, vocabulary]``."""
        self._length += tokens.shape[1]
        feeds = {"input_ids": tokens, "attention_mask": np.ones((1, self._length), np.int64), **self._caches}
        feeds["position_ids"] = np.arange(self._length - tokens.shape[1], self._length)[None]
        values = self._session(feeds)
        self._caches = past_of(values)
        return np.asarray(values["logits"], np.float32)


class OpenVinoDecoder:
    """A stateful IR in OpenVINO; each call is a step, which reads ``read`` beside tokens."""

    def __init__(self, xml: Path) -> None:
        self.compiled = openvino.Core().compile_model(xml, "CPU", PROPERTIES)
        self._request = self.compiled.create_infer_request()
        self._inputs = {name for port in self.compiled.inputs for name in port.names}
        self.read: dict[str, Array] = {}
        self.reset()

    def reset(self) -> None:
        self._request.reset_state()
        self._length = 0

    def __call__(self, tokens: Array, mask: Array | None = None, beams: Sequence[int] | None = None) -> Array:
        """The logits of a batch; ``mask`` covers the past, too, and is without padding where it is left out."""
        self._length += tokens.shape[1]
        mask = np.ones((len(tokens), self._length), np.int64) if mask is None else mask
        feeds = {
            "input_ids": tokens,
            "attention_mask": mask,
            "position_ids": positions_of(mask, tokens.shape[1]),
            "beam_idx": np.array(range(len(tokens)) if beams is None else beams, np.int32),
            **self.read,
        }
        values = self._request.infer({name: value for name, value in feeds.items() if name in self._inputs})
        return np.array(values["logits"])


def type_of(operation: openvino.Node) -> str:
    found: str = operation.get_rt_info()["layerType"].astype(str)
    return found


FILES = {"two decoders": NAMES[:3], "merged decoder": (NAMES[0], NAMES[3])}


class Onnx:
    """The model in onnxruntime, with its two decoders; each call of :meth:`step` is one of the decoder."""

    def __init__(self, model: EncoderDecoder) -> None:
        self._encoder, *self._decoders = (OnnxSession(model.build(name)) for name in NAMES[:3])

    def encode(self, given: Mapping[str, Array]) -> Mapping[str, Array]:
        """Start anew; what the decoder reads beside tokens."""
        self.caches: dict[str, Array] = {}
        self.read = {"encoder_hidden_states": self._encoder(given)["last_hidden_state"]}
        if "attention_mask" in given:
            self.read["encoder_attention_mask"] = given["attention_mask"]
        return self.read

    def step(self, tokens: Array) -> Array:
        values = self._decoders[bool(self.caches)]({"input_ids": tokens, **self.read, **self.caches})
        self.caches |= past_of(values)
        return np.asarray(values["logits"], np.float32)


class Ir(OpenVinoDecoder):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "openvino_decoder_model.xml")
        self.encoder = openvino.Core().compile_model(folder / "openvino_encoder_model.xml", "CPU", PROPERTIES)

    def encode(self, given: Mapping[str, Array]) -> Mapping[str, Array]:
        self.reset()
        self.read = {"encoder_hidden_states": np.array(self.encoder(dict(given))["last_hidden_state"], np.float32)}
        if "attention_mask" in given:
            self.read["encoder_attention_mask"] = given["attention_mask"]
        return self.read


class Listener(openvino_genai.StreamerBase):
    """The tokens as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: list[int] = []

    def write(self, token: int | list[int]) -> openvino_genai.StreamingStatus:
        self.tokens += token if isinstance(token, list) else [token]
        return openvino_genai.StreamingStatus.RUNNING

    def end(self) -> None:
        """Nothing is left to write."""
