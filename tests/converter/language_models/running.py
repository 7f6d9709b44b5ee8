"""Steps of a decoder: in onnxruntime with its caches as inputs and outputs, and in OpenVINO with its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino
import openvino_genai

from .decoders import VOCABULARY, Decoder
from .encoder_decoders import NAMES, EncoderDecoder

Array = np.ndarray


def prompt_of(length: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(3, VOCABULARY, (1, length))


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


class OnnxDecoder:
    """A decoder in onnxruntime; each call is a step."""

    def __init__(self, decoder: Decoder, model: onnx.ModelProto) -> None:
        self._decoder = decoder
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        self._names = [output.name for output in self._session.get_outputs()]
        self.reset()

    def reset(self) -> None:
        self._caches: Mapping[str, Array] = self._decoder.empty_caches(1)
        self._length = 0

    def __call__(self, tokens: Array) -> Array:
        """The logits of one row of tokens, ``[1, s, vocabulary]``."""
        self._length += tokens.shape[1]
        feeds = {"input_ids": tokens, "attention_mask": np.ones((1, self._length), np.int64), **self._caches}
        if self._decoder.has_positions:
            feeds["position_ids"] = np.arange(self._length - tokens.shape[1], self._length)[None]
        values = dict(zip(self._names, self._session.run(None, feeds)))
        self._caches = {name: values[name.replace("past_key_values", "present")] for name in self._decoder.caches}
        return np.asarray(values["logits"], np.float32)


class OpenVinoDecoder:
    """A stateful IR in OpenVINO; each call is a step."""

    def __init__(self, xml: Path) -> None:
        properties = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
        self.compiled = openvino.Core().compile_model(xml, "CPU", properties)
        self._request = self.compiled.create_infer_request()
        self._inputs = {name for port in self.compiled.inputs for name in port.names}

    def reset(self) -> None:
        self._request.reset_state()

    def __call__(self, tokens: Array, mask: Array, beams: Sequence[int] | None = None) -> Array:
        """The logits of a batch, whose ``mask`` covers the past, too."""
        feeds = {
            "input_ids": tokens,
            "attention_mask": mask,
            "position_ids": positions_of(mask, tokens.shape[1]),
            "beam_idx": np.array(range(len(tokens)) if beams is None else beams, np.int32),
        }
        values = self._request.infer({name: value for name, value in feeds.items() if name in self._inputs})
        return np.array(values["logits"])

    def layer_types(self) -> list[str]:
        operations = self.compiled.get_runtime_model().get_ops()
        return [operation.get_rt_info()["layerType"].astype(str) for operation in operations]


FILES = {"two decoders": NAMES[:3], "merged decoder": (NAMES[0], NAMES[3])}


class Onnx:
    """The model in onnxruntime, with its two decoders; each call of :meth:`step` is one of the decoder."""

    def __init__(self, model: EncoderDecoder) -> None:
        self.model = model
        self.sessions = [
            onnxruntime.InferenceSession(model.build(name).SerializeToString(), providers=["CPUExecutionProvider"])
            for name in NAMES[:3]
        ]
        self.caches: dict[str, Array] = {}

    def encode(self, given: Mapping[str, Array]) -> Mapping[str, Array]:
        """Start anew; what the decoder reads beside tokens."""
        self.caches = {}
        self.read = {"encoder_hidden_states": self._run(0, given)["last_hidden_state"]}
        if "attention_mask" in given:
            self.read["encoder_attention_mask"] = given["attention_mask"]
        return self.read

    def step(self, tokens: Array) -> Array:
        values = self._run(2 if self.caches else 1, {"input_ids": tokens, **self.read, **self.caches})
        logits = values.pop("logits")
        self.caches |= {name.replace("present", "past_key_values"): value for name, value in values.items()}
        return np.asarray(logits, np.float32)

    def _run(self, which: int, feeds: Mapping[str, Array]) -> dict[str, Array]:
        session = self.sessions[which]
        known = {value.name for value in session.get_inputs()}
        outputs = [value.name for value in session.get_outputs()]
        return dict(zip(outputs, session.run(None, {name: feeds[name] for name in feeds if name in known})))


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
