"""Folders with a small SpeechT5, as Optimum exports it, and its waveforms in onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto

from .graphs import HEADS, HIDDEN, SIZE, Graph
from .texts import VOCABULARY, encode, write_json, write_pair_tokenizer

BANDS, ROWS, SPEAKER = 80, 2, 512
"""Numbers of a spectrogram's row, rows a call, numbers of a speaker."""
_PARTS = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")
_PAST, _PRESENT = "past_key_values.0.", "present.0."


def encoder() -> onnx.ModelProto:
    """The states of characters, and a mask without padding."""
    graph, dims = Graph(seed=21), [1, "encoder_sequence_length"]
    x = graph.layer(graph.embedded(VOCABULARY, "input_ids"))
    one = onnx.numpy_helper.from_array(np.ones(1, np.int64))
    mask = graph("ConstantOfShape", graph("Shape", "input_ids"), value=one)
    outputs = {"encoder_outputs": (x, [*dims, HIDDEN]), "encoder_attention_mask": (mask, dims, np.int64)}
    return graph.model({"input_ids": (np.int64, dims)}, outputs)


def decoder(*, with_past: bool) -> onnx.ModelProto:
    """Two rows of a spectrogram from the last row of all earlier ones, its place and the speaker."""
    graph = Graph(seed=22)
    dims = [1, HEADS, "past_decoder_sequence_length", SIZE]
    inputs: dict[str, tuple[Any, list[Any]]] = {
        "speaker_embeddings": (np.float32, [1, SPEAKER]),
        "output_sequence": (np.float32, [1, "decoder_sequence_length", BANDS]),
        "encoder_attention_mask": (np.int64, [1, "encoder_sequence_length"]),
    }
    if with_past:
        inputs |= {f"{_PAST}{part}": (np.float32, dims) for part in _PARTS}
    else:
        inputs["encoder_hidden_states"] = (np.float32, [1, "encoder_sequence_length", HIDDEN])
    rows = graph["output_sequence"]
    place = graph.size(rows, 1).Cast(to=TensorProto.FLOAT) * np.geomspace(1, 0.01, HIDDEN)
    x = graph.linear(rows.Gather([-1], axis=1), BANDS, HIDDEN, scale=2).Relu() + place.Cos()
    x = x + graph.linear(graph["speaker_embeddings"], SPEAKER, HIDDEN).Tanh().Unsqueeze([1])
    own = [graph.heads(graph.linear(x, HIDDEN, HIDDEN, scale=2)) for _ in range(3)]
    weights = [(graph.weight(HIDDEN, HIDDEN, scale=2), graph.weight(HIDDEN)) for _ in range(2)]
    if with_past:
        keys, values = (graph("Concat", f"{_PAST}{part}", new, axis=2) for part, new in zip(_PARTS, own[1:]))
        others = [graph[f"{_PAST}{part}"] for part in _PARTS[2:]]
    else:
        keys, values = own[1:]
        others = [graph.heads(graph["encoder_hidden_states"] @ a + b) for a, b in weights]
    x = x + graph.attend(own[0], keys, values)
    query = graph.heads(graph.linear(graph.normalized(x), HIDDEN, HIDDEN, scale=2))
    x = x + graph.attend(query, *others, graph.padding_mask("encoder_attention_mask"))
    x = x.Reshape([1, HIDDEN])
    spectrum = graph.linear(x, HIDDEN, ROWS * BANDS).Reshape([ROWS, BANDS])
    row = spectrum.Gather([ROWS - 1]).Reshape([1, 1, BANDS])
    outputs = {
        "output_sequence_out": (rows.Concat(row, axis=1), [1, "decoder_sequence_length + 1", BANDS]),
        "spectrum": (spectrum, [ROWS, BANDS]),
        "prob": (graph.linear(x, HIDDEN, ROWS).Sigmoid().Reshape([ROWS]), [ROWS]),
    }
    returned = [keys, values] if with_past else [keys, values, *others]
    outputs |= {f"{_PRESENT}{part}": (value, [1, HEADS, "length", SIZE]) for part, value in zip(_PARTS, returned)}
    return graph.model(inputs, outputs)


def vocoder() -> onnx.ModelProto:
    """Rows that see their neighbours, and 16 samples of each."""
    graph = Graph(seed=24)
    x = graph["spectrogram"].Transpose(perm=[1, 0]).Unsqueeze([0])
    x = x.Conv(graph.weight(HIDDEN, BANDS, 3, depth=BANDS), pads=[1, 1]).Tanh().Squeeze([0]).Transpose(perm=[1, 0])
    wave = graph.linear(x, HIDDEN, 16).Tanh().Reshape([-1])
    return graph.model({"spectrogram": (np.float32, ["rows", BANDS])}, {"waveform": (wave, ["samples"])})


def write_speech_folder(folder: Path, *, place: str = "", ending: str = "") -> None:
    """``place`` and ``ending`` are those of transformers.js: ``onnx/``, ``_fp16``."""
    models = {
        "encoder_model": encoder(),
        "decoder_model": decoder(with_past=False),
        "decoder_with_past_model": decoder(with_past=True),
        "decoder_postnet_and_vocoder": vocoder(),
    }
    (folder / place).mkdir(parents=True)
    for name, model in models.items():
        onnx.save(model, folder / place / f"{name}{ending}.onnx")
    settings = {"architectures": ["SpeechT5ForTextToSpeech"], "model_type": "speecht5"}
    write_json(folder / "config.json", {**settings, "num_mel_bins": BANDS, "reduction_factor": ROWS})
    write_pair_tokenizer(folder, segments=False)


class Speech:
    """SpeechT5's loop, with the files in onnxruntime."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sessions = {path.stem: onnxruntime.InferenceSession(str(path)) for path in folder.glob("*.onnx")}

    def _run(self, name: str, values: dict[str, Any]) -> dict[str, np.ndarray]:
        session = self._sessions[name]
        feeds = {port.name: values[port.name] for port in session.get_inputs()}
        return dict(zip([port.name for port in session.get_outputs()], session.run(None, feeds)))

    def speak(self, text: str, speaker: np.ndarray, *, threshold: float, least: float, most: float) -> np.ndarray:
        """The waveform; ``least`` and ``most`` calls are numbers of calls for a token, times the rows of a call."""
        tokens = encode(self._folder, text)["input_ids"]
        states = self._run("encoder_model", {"input_ids": tokens})
        values = {
            "output_sequence": np.zeros((1, 1, BANDS), np.float32),
            "speaker_embeddings": speaker,
            "encoder_hidden_states": states["encoder_outputs"],
            "encoder_attention_mask": states["encoder_attention_mask"],
        }
        rows: list[np.ndarray] = []
        limits = [int(tokens.shape[1] * ratio / ROWS) for ratio in (least, most)]
        while True:
            outputs = self._run("decoder_with_past_model" if rows else "decoder_model", values)
            rows.append(outputs["spectrum"])
            values["output_sequence"] = outputs["output_sequence_out"]
            values |= {
                name.replace("present", "past_key_values"): value
                for name, value in outputs.items()
                if name.startswith("present")
            }
            count = len(rows)
            if count >= limits[0] and (outputs["prob"].sum() >= threshold or count >= limits[1]):
                return self._run("decoder_postnet_and_vocoder", {"spectrogram": np.concatenate(rows)})["waveform"]
