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
    x = graph.layer(graph("Gather", graph.weight(VOCABULARY, HIDDEN, depth=1), "input_ids"))
    one = onnx.numpy_helper.from_array(np.ones(1, np.int64))
    mask = graph("ConstantOfShape", graph("Shape", "input_ids"), value=one)
    ends: dict[str, tuple[str, list[Any]]] = {
        "encoder_outputs": (x, [*dims, HIDDEN]),
        "encoder_attention_mask": (mask, dims),
    }
    model = graph.model({"input_ids": (np.int64, dims)}, ends)
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.INT64
    return model


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
    last = graph("Gather", "output_sequence", graph.integers(-1), axis=1)
    length = graph("Gather", graph("Shape", "output_sequence"), graph.constant(1, np.int64))
    place = graph("Mul", graph("Cast", length, to=TensorProto.FLOAT), graph.constant(np.geomspace(1, 0.01, HIDDEN)))
    x = graph("Add", graph("Relu", graph.linear(last, BANDS, HIDDEN, scale=2)), graph("Cos", place))
    speaker = graph("Tanh", graph.linear("speaker_embeddings", SPEAKER, HIDDEN))
    x = graph("Add", x, graph("Unsqueeze", speaker, graph.integers(1)))
    own = [graph.heads(graph.linear(x, HIDDEN, HIDDEN, scale=2)) for _ in range(3)]
    weights = [(graph.weight(HIDDEN, HIDDEN, scale=2), graph.weight(HIDDEN)) for _ in range(2)]
    if with_past:
        keys, values = (graph("Concat", f"{_PAST}{part}", new, axis=2) for part, new in zip(_PARTS, own[1:]))
        others = [f"{_PAST}{part}" for part in _PARTS[2:]]
    else:
        keys, values = own[1:]
        others = [graph.heads(graph("Add", graph("MatMul", "encoder_hidden_states", a), b)) for a, b in weights]
    x = graph("Add", x, _attend(graph, own[0], keys, values, None))
    query = graph.heads(graph.linear(graph.normalized(x), HIDDEN, HIDDEN, scale=2))
    x = graph("Add", x, _attend(graph, query, *others, graph.padding_mask("encoder_attention_mask")))
    x = graph("Reshape", x, graph.integers(1, HIDDEN))
    spectrum = graph("Reshape", graph.linear(x, HIDDEN, ROWS * BANDS), graph.integers(ROWS, BANDS))
    prob = graph("Reshape", graph("Sigmoid", graph.linear(x, HIDDEN, ROWS)), graph.integers(ROWS))
    row = graph("Reshape", graph("Gather", spectrum, graph.integers(ROWS - 1)), graph.integers(1, 1, BANDS))
    ends: dict[str, tuple[str, list[Any]]] = {
        "output_sequence_out": (
            graph("Concat", "output_sequence", row, axis=1),
            [1, "decoder_sequence_length + 1", BANDS],
        ),
        "spectrum": (spectrum, [ROWS, BANDS]),
        "prob": (prob, [ROWS]),
    }
    returned = [keys, values] if with_past else [keys, values, *others]
    ends |= {f"{_PRESENT}{part}": (value, [1, HEADS, "length", SIZE]) for part, value in zip(_PARTS, returned)}
    return graph.model(inputs, ends)


def _attend(graph: Graph, query: str, keys: str, values: str, mask: str | None) -> str:
    scores = graph("MatMul", query, graph("Transpose", keys, perm=[0, 1, 3, 2]))
    scores = graph("Mul", scores, graph.constant(SIZE**-0.5))
    scores = scores if mask is None else graph("Add", scores, mask)
    output = graph("MatMul", graph("Softmax", scores, axis=-1), values)
    return graph("Reshape", graph("Transpose", output, perm=[0, 2, 1, 3]), graph.integers(0, 0, HIDDEN))


def vocoder() -> onnx.ModelProto:
    """Rows that see their neighbours, and 16 samples of each."""
    graph = Graph(seed=24)
    x = graph("Unsqueeze", graph("Transpose", "spectrogram", perm=[1, 0]), graph.integers(0))
    x = graph("Tanh", graph("Conv", x, graph.weight(HIDDEN, BANDS, 3, depth=BANDS), pads=[1, 1]))
    x = graph("Transpose", graph("Squeeze", x, graph.integers(0)), perm=[1, 0])
    wave = graph("Reshape", graph("Tanh", graph.linear(x, HIDDEN, 16)), graph.integers(-1))
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
