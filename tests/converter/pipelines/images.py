"""Folders with small diffusion models and a small SpeechT5, as Optimum exports them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from tests.engines import OnnxSession

from .texts import HEADS, HIDDEN, VOCABULARY, Graph, encode, save_models, write_json, write_pair_tokenizer
from .texts import SIZE as HEAD

# --- folders with small diffusion models, as Optimum exports them: the interfaces of the real parts, few layers ---

LENGTH, CHANNELS, SIZE = 16, 4, 8
"""Tokens of a text, channels of the latent image, and its height and width."""
CONDITION = 8
"""Numbers that tell a latent consistency model the guidance."""


def text_encoder(*, pooled: str = "pooler_output", layers: bool = False, seed: int = 0) -> onnx.ModelProto:
    """``layers`` returns the states behind each layer, too; ``text_embeds`` is the first output where it is pooled."""
    graph, dims = Graph(seed), ["batch_size", "sequence_length"]
    x = graph.embedded(VOCABULARY, "input_ids") + graph.weight(LENGTH, HIDDEN, depth=1)
    states = [x]
    for _ in range(2):
        x = graph.layer(x, graph.causal_mask(LENGTH))
        states.append(x)
    first = (pooled, (graph.linear(x.Gather(0, axis=1), HIDDEN, HIDDEN), ["b", HIDDEN]))
    last = ("last_hidden_state", (graph.normalized(x), [*dims, HIDDEN]))
    outputs = dict([first, last] if pooled == "text_embeds" else [last, first])
    if layers:
        outputs |= {f"hidden_states.{index}": (value, [*dims, HIDDEN]) for index, value in enumerate(states)}
    return graph.model({"input_ids": (np.int32 if layers else np.int64, dims)}, outputs)


def denoiser(kind: str) -> onnx.ModelProto:
    """A convolution, attention to the texts and the time, and a convolution back; with products for Flux.

    Those of Stable Diffusion 3 (``sd3``) and Flux have other names, and several times.
    """
    is_flow, is_flux = kind in FLOWS, kind == "flux"
    graph, depth = Graph(seed=7), HIDDEN if kind in ("sd", "lcm") else 2 * HIDDEN
    sample, dims = "hidden_states" if is_flow else "sample", ["b", CHANNELS, "height", "width"]
    dims = ["b", "n", 4 * CHANNELS] if is_flux else dims
    inputs: dict[str, tuple[Any, list[int | str]]] = {
        sample: (np.float32, dims),
        "timestep": (np.float32, ["step"] if is_flow else []),
        "encoder_hidden_states": (np.float32, ["b", "sequence_length", depth]),
    }
    waves = (graph("Unsqueeze", "timestep", [int(is_flow)]) * np.geomspace(1, 1e-3, HIDDEN)).Cos()
    condition = graph.linear(waves, HIDDEN, HIDDEN)
    for name, width in CONDITIONS.get(kind, {}).items():
        inputs[name] = (np.float32, ["b", width])
        condition = condition + graph.linear(graph[name], width, HIDDEN).Sin()
    if is_flux:
        inputs |= {"img_ids": (np.int64, ["n", 3]), "txt_ids": (np.int64, ["s", 3]), "guidance": (np.float32, ["b"])}
        x = graph.linear(graph[sample], 4 * CHANNELS, HIDDEN)
        x = x + graph.linear(graph["img_ids"].Cast(to=TensorProto.FLOAT), 3, HIDDEN).Sin()
        condition = condition + graph["guidance"].Sin().Unsqueeze([1])
    else:
        x = graph.convolution(sample, CHANNELS, HIDDEN)
        shape = x.Shape()
        x = x.Reshape([0, 0, -1]).Transpose(perm=[0, 2, 1])
    x = x + condition.Unsqueeze([-2])
    x = x + graph.attention(graph.normalized(x), graph["encoder_hidden_states"], depth=depth)
    x = x * x.Sigmoid()
    if is_flux:
        noise = graph.linear(x, HIDDEN, 4 * CHANNELS)
    else:
        noise = graph.convolution(x.Transpose(perm=[0, 2, 1]).Reshape(shape), HIDDEN, CHANNELS)
    return graph.model(inputs, {f"out_{sample}": (noise, dims)})


def text_states() -> onnx.ModelProto:
    """T5's encoder, for texts of any length."""
    graph, dims = Graph(seed=19), ["batch_size", "sequence_length"]
    x = graph.linear(graph.layer(graph.embedded(VOCABULARY, "input_ids")), HIDDEN, 2 * HIDDEN)
    return graph.model({"input_ids": (np.int64, dims)}, {"last_hidden_state": (x, [*dims, 2 * HIDDEN])})


def image_decoder() -> onnx.ModelProto:
    graph = Graph(seed=8)
    x = graph.convolution("latent_sample", CHANNELS, HIDDEN).Resize("", [1.0, 1, 2, 2], mode="nearest")
    x = graph.convolution(x.Tanh(), HIDDEN, 3)
    inputs = {"latent_sample": (np.float32, ["b", CHANNELS, "h", "w"])}
    return graph.model(inputs, {"sample": (x, ["b", 3, "h * 2", "w * 2"])})


def image_encoder() -> onnx.ModelProto:
    graph = Graph(seed=9)
    x = graph.convolution(graph.convolution("sample", 3, HIDDEN, stride=2).Tanh(), HIDDEN, 2 * CHANNELS)
    inputs = {"sample": (np.float32, ["b", 3, "h", "w"])}
    return graph.model(inputs, {"latent_parameters": (x, ["b", 8, "h / 2", "w / 2"])})


CLASSES = {
    "sd": "StableDiffusionPipeline", "lcm": "LatentConsistencyModelPipeline", "xl": "StableDiffusionXLPipeline",
    "sd3": "StableDiffusion3Pipeline", "flux": "FluxPipeline",
}  # fmt: skip
SCHEDULERS = {"sd": "DDIMScheduler", "lcm": "LCMScheduler", "xl": "EulerDiscreteScheduler"}
FLOWS = ("sd3", "flux")
"""Kinds that follow a flow from noise to images, with a transformer."""
CONDITIONS = {
    "lcm": {"timestep_cond": CONDITION}, "xl": {"text_embeds": HIDDEN, "time_ids": 6},
    "sd3": {"pooled_projections": 2 * HIDDEN}, "flux": {"pooled_projections": HIDDEN},
}  # fmt: skip
"""Inputs of denoisers beside texts and time, and how many numbers they have."""


def write_diffusion_folder(folder: Path, kind: str, *, prefix: str = "") -> None:
    """``prefix`` is that of Optimum's own classes, which it writes when it saves a pipeline."""
    encoders = {"text_encoder": text_encoder(layers=kind == "xl")}
    if kind in ("xl", "sd3"):
        encoders["text_encoder_2"] = text_encoder(pooled="text_embeds", layers=True, seed=1)
    if kind == "sd3":
        encoders["text_encoder"] = text_encoder(pooled="text_embeds", layers=True)
        encoders["text_encoder_3"] = text_states()
    if kind == "flux":
        encoders["text_encoder_2"] = text_states()
    part, library_class = ("transformer", "Transformer2DModel") if kind in FLOWS else ("unet", "UNet2DConditionModel")
    models = {**encoders, part: denoiser(kind), "vae_decoder": image_decoder(), "vae_encoder": image_encoder()}
    save_models(folder, {f"{name}/model": model for name, model in models.items()})
    for name in encoders:
        settings = {"architectures": ["CLIPTextModel"], "max_position_embeddings": LENGTH, "num_hidden_layers": 2}
        write_json(folder / name / "config.json", settings)
        write_pair_tokenizer(folder / name.replace("text_encoder", "tokenizer"), segments=False)
    condition = CONDITION if kind == "lcm" else None
    settings = {"in_channels": 4 * CHANNELS if kind == "flux" else CHANNELS, "sample_size": SIZE}
    settings |= {"time_cond_proj_dim": condition, "joint_attention_dim": 2 * HIDDEN, "guidance_embeds": kind == "flux"}
    write_json(folder / part / "config.json", settings)
    settings = {"latent_channels": CHANNELS, "block_out_channels": [HIDDEN, HIDDEN], "scaling_factor": 0.5}
    for name in ("vae_decoder", "vae_encoder"):
        write_json(folder / name / "config.json", {"_class_name": "AutoencoderKL", **settings})
    betas = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}
    others = {"clip_sample": False, "set_alpha_to_one": False, "timestep_spacing": "leading"}
    (folder / "scheduler").mkdir()
    scheduler = SCHEDULERS.get(kind, "FlowMatchEulerDiscreteScheduler")
    schedule = {"_class_name": scheduler, **betas, **others, "original_inference_steps": 50}
    schedule |= {"num_train_timesteps": 1000, "shift": 3.0}
    write_json(folder / "scheduler/scheduler_config.json", schedule)
    index: dict[str, object] = {name: ["transformers", f"{prefix}CLIPTextModel"] for name in encoders}
    index |= {part: ["diffusers", f"{prefix}{library_class}"], "scheduler": ["diffusers", scheduler]}
    index["vae"] = ["diffusers", f"{prefix}AutoencoderKL"]
    write_json(folder / "model_index.json", {"_class_name": prefix + CLASSES[kind], **index})


MEAN, DEVIATION = (0.5, 0.4, 0.3), (0.3, 0.25, 0.2)
SQUARE = {"height": 13, "width": 11}

STEPS: dict[str, Any] = {
    "image_processor_type": "ViTImageProcessor", "do_resize": True, "size": SQUARE, "resample": 2, "do_rescale": True,
    "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": MEAN, "image_std": DEVIATION,
}  # fmt: skip


def write_image_folder(folder: Path, settings: Mapping[str, Any], *, name: str = "preprocessor_config.json") -> None:
    """A model that returns images as they are, of any size, with settings of images."""
    graph, dims = Graph(), ["b", "c", "h", "w"]
    outputs = {"last_hidden_state": (graph["pixel_values"] * 1.5, dims)}
    save_models(folder, {"model": graph.model({"pixel_values": (np.float32, dims)}, outputs)})
    write_json(folder / name, settings)


def image_model(**outputs: Sequence[int | str]) -> onnx.ModelProto:
    """A model of images whose outputs have these shapes."""
    graph = Graph()
    mean = graph("ReduceMean", "pixel_values", [1, 2, 3], keepdims=0)
    ends = {name: (mean, dims) for name, dims in outputs.items()}
    return graph.model({"pixel_values": (np.float32, ["b", 3, 8, 8])}, ends)


# --- folders with a small SpeechT5, as Optimum exports it, and its waveforms in onnxruntime ---

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
    dims = [1, HEADS, "past_decoder_sequence_length", HEAD]
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
    outputs |= {f"{_PRESENT}{part}": (value, [1, HEADS, "length", HEAD]) for part, value in zip(_PARTS, returned)}
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
    save_models(folder / place, {f"{name}{ending}": model for name, model in models.items()})
    settings = {"architectures": ["SpeechT5ForTextToSpeech"], "model_type": "speecht5"}
    write_json(folder / "config.json", {**settings, "num_mel_bins": BANDS, "reduction_factor": ROWS})
    write_pair_tokenizer(folder, segments=False)


class Speech:
    """SpeechT5's loop, with the files in onnxruntime."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sessions = {path.stem: OnnxSession(path) for path in folder.glob("*.onnx")}

    def speak(self, text: str, speaker: np.ndarray, *, threshold: float, least: float, most: float) -> np.ndarray:
        """The waveform; ``least`` and ``most`` calls are numbers of calls for a token, times the rows of a call."""
        tokens = encode(self._folder, text)["input_ids"]
        states = self._sessions["encoder_model"]({"input_ids": tokens})
        values = {
            "output_sequence": np.zeros((1, 1, BANDS), np.float32),
            "speaker_embeddings": speaker,
            "encoder_hidden_states": states["encoder_outputs"],
            "encoder_attention_mask": states["encoder_attention_mask"],
        }
        rows: list[np.ndarray] = []
        limits = [int(tokens.shape[1] * ratio / ROWS) for ratio in (least, most)]
        while True:
            outputs = self._sessions["decoder_with_past_model" if rows else "decoder_model"](values)
            rows.append(outputs["spectrum"])
            values["output_sequence"] = outputs["output_sequence_out"]
            caches = {name: value for name, value in outputs.items() if name.startswith("present")}
            values |= {name.replace("present", "past_key_values"): value for name, value in caches.items()}
            count = len(rows)
            if count >= limits[0] and (outputs["prob"].sum() >= threshold or count >= limits[1]):
                return self._sessions["decoder_postnet_and_vocoder"]({"spectrogram": np.concatenate(rows)})["waveform"]
