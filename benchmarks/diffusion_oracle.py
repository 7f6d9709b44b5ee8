"""Images of a diffusion folder computed with onnxruntime and NumPy, step by step as diffusers' pipelines do.

The noise is drawn by openvino-genai's generator, so that both sides start from the same one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import openvino
import openvino_genai

Array = np.ndarray
TRAINED = 1000
"""Steps of training, from which those of inference are chosen."""
_WITHOUT_T5 = 77
"""States of texts, all zero, of Stable Diffusion 3 without T5."""


class Schedule:
    """Noise and timesteps of ``scheduler/scheduler_config.json``.

    openvino-genai's DDIM and Euler leave the last beta out, as ``numpy.linspace`` without its end does; diffusers has
    it. The difference is a thousandth.
    """

    def __init__(self, folder: Path, steps: int, strength: float = 1.0) -> None:
        settings = json.loads((folder / "scheduler/scheduler_config.json").read_text())
        self.name = settings["_class_name"]
        has_end = self.name == "LCMScheduler"
        ends = (np.sqrt(settings[f"beta_{end}"]) for end in ("start", "end"))
        self.kept = np.cumprod(1 - np.linspace(*ends, TRAINED, endpoint=has_end) ** 2)
        """The part of the image that is left after each step of training."""
        self._steps = steps
        if has_end:
            origin = np.arange(1, int(settings["original_inference_steps"] * strength) + 1)
            origin = (origin * (TRAINED // settings["original_inference_steps"]) - 1)[::-1]
            self.times = origin[np.linspace(0, len(origin), steps, endpoint=False).astype(int)]
        else:
            all_times = np.arange(steps)[::-1] * (TRAINED // steps) + settings["steps_offset"]
            self.times = all_times[steps - min(int(steps * strength), steps) :]
        self.sigmas = np.append(np.sqrt((1 - self.kept) / self.kept)[self.times], 0)

    @property
    def largest(self) -> float:
        """The standard deviation of the first noise."""
        return float(np.sqrt(self.sigmas[0] ** 2 + 1)) if self.name == "EulerDiscreteScheduler" else 1.0

    def scaled(self, latent: Array, step: int) -> Array:
        """What the denoiser is given."""
        is_euler = self.name == "EulerDiscreteScheduler"
        return latent / np.sqrt(self.sigmas[step] ** 2 + 1) if is_euler else latent

    def noised(self, latent: Array, noise: Array, step: int) -> Array:
        """A latent image with the noise of a step."""
        if self.name == "EulerDiscreteScheduler":
            return latent + noise * self.sigmas[step]
        kept = self.kept[self.times[step]]
        return np.sqrt(kept) * latent + np.sqrt(1 - kept) * noise

    def step(self, prediction: Array, latent: Array, step: int, draw: Callable[[], Array]) -> tuple[Array, Array]:
        """The next latent image, and the one without noise."""
        if self.name == "EulerDiscreteScheduler":
            clean = latent - self.sigmas[step] * prediction
            return latent + prediction * (self.sigmas[step + 1] - self.sigmas[step]), clean
        time, kept = self.times[step], self.kept[self.times[step]]
        clean = (latent - np.sqrt(1 - kept) * prediction) / np.sqrt(kept)
        if self.name == "DDIMScheduler":
            before = time - TRAINED // self._steps
            left = self.kept[max(before, 0)]
            latent = np.sqrt(left) * clean + np.sqrt(1 - left) * prediction
            return latent, latent
        skip, out = 0.25 / ((time * 10) ** 2 + 0.25), time * 10 / np.sqrt((time * 10) ** 2 + 0.25)
        clean = out * clean + skip * latent
        if step + 1 == len(self.times):
            return clean, clean
        left = self.kept[self.times[step + 1]]
        return np.sqrt(left) * clean + np.sqrt(1 - left) * draw(), clean


class Images:
    """The models of a folder."""

    def __init__(self, folder: Path, encode: Callable[[str, str], Array]) -> None:
        """``encode`` makes tokens ``[1, length]`` of a tokenizer's folder and a text, padded as its encoder wants."""
        self._folder, self._encode = folder, encode
        self._sessions = {
            path.parent.name: onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            for path in folder.glob("*/model.onnx")
        }
        self._settings = json.loads((folder / "vae_decoder/config.json").read_text())
        self._part = "unet" if "unet" in self._sessions else "transformer"
        self._denoiser = json.loads((folder / self._part / "config.json").read_text())

    def generate(
        self,
        prompt: str,
        *,
        steps: int,
        guidance: float,
        seed: int,
        image: Array | None = None,
        mask: Array | None = None,
        strength: float = 1.0,
    ) -> Array:
        """The image ``[1, height, width, 3]`` of a prompt, of ``image`` if there is one, and where ``mask`` is set."""
        generator = openvino_genai.CppStdGenerator(seed)
        scale = 2 ** (len(self._settings["block_out_channels"]) - 1)
        size = self._denoiser["sample_size"]
        height, width = (size, size) if image is None else (side // scale for side in image.shape[1:3])
        shape = [1, self._settings["latent_channels"], height, width]

        def draw() -> Array:
            return np.array(generator.randn_tensor(openvino.Shape(shape)).data)

        schedule = Schedule(self._folder, steps, strength)
        states = self._states(prompt, guidance, (width * scale, height * scale))
        encoded = None if image is None else self._encoded(image, draw)
        noise = draw()
        starts_clean = encoded is not None and (mask is None or strength < 1)
        latent = schedule.noised(encoded, noise, 0) if starts_clean else noise * schedule.largest
        clean = latent
        for step, time in enumerate(schedule.times):
            prediction = self._predicted(schedule.scaled(latent, step), time, states, guidance)
            latent, clean = schedule.step(prediction, latent, step, draw)
            if mask is not None and encoded is not None:
                there = mask[:, ::scale, ::scale, 0][:, None] >= 128
                last = step + 1 == len(schedule.times)
                latent = np.where(there, latent, encoded if last else schedule.noised(encoded, noise, step + 1))
                clean = latent if schedule.name == "DDIMScheduler" else clean
        (pixels,) = self._run("vae_decoder", latent_sample=clean / self._settings["scaling_factor"])
        return np.clip(pixels / 2 + 0.5, 0, 1).transpose(0, 2, 3, 1) * 255

    def _run(self, name: str, **feeds: Any) -> list[Array]:
        session = self._sessions[name]
        types = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
        dtypes = {port.name: types[port.type] for port in session.get_inputs()}
        return list(session.run(None, {name: np.asarray(feeds[name], dtype) for name, dtype in dtypes.items()}))

    def _states(self, prompt: str, guidance: float, size: tuple[int, int]) -> Mapping[str, Array]:
        """What the denoiser is given of the texts: the empty one first where there is guidance by it."""
        width = self._denoiser.get("time_cond_proj_dim")
        texts = ["", prompt] if guidance > 1 and not width else [prompt]
        tokens = np.concatenate([self._encode("tokenizer", text) for text in texts])
        outputs = self._run("text_encoder", input_ids=tokens)
        if "text_encoder_2" not in self._sessions:
            states = {"encoder_hidden_states": outputs[0]}
        else:
            names = [port.name for port in self._sessions["text_encoder"].get_outputs()]
            more = self._run("text_encoder_2", input_ids=tokens)
            others = [port.name for port in self._sessions["text_encoder_2"].get_outputs()]
            layers = sum(name.startswith("hidden_states.") for name in names)
            last = f"hidden_states.{layers - 2}"
            hidden = np.concatenate([outputs[names.index(last)], more[others.index(last)]], -1)
            projected = more[0]
            if len(texts) > 1:  # an empty negative prompt is zeros
                hidden[0], projected[0] = 0, 0
            width_and_height = [*size, 0, 0, *size]
            states = {
                "encoder_hidden_states": hidden,
                "text_embeds": projected,
                "time_ids": np.array([width_and_height] * len(texts)),
            }
        if width:
            speeds = np.exp(-np.log(10000) / (width // 2 - 1) * np.arange(width // 2))
            angles = (guidance - 1) * 1000 * speeds
            states["timestep_cond"] = np.concatenate([np.sin(angles), np.cos(angles)])[None]
        return states

    def _predicted(self, latent: Array, time: int, states: Mapping[str, Array], guidance: float) -> Array:
        rows = len(states["encoder_hidden_states"])
        (noise,) = self._run("unet", sample=np.repeat(latent, rows, 0), timestep=time, **states)
        return noise if rows == 1 else noise[:1] + guidance * (noise[1:] - noise[:1])

    def _encoded(self, image: Array, draw: Callable[[], Array]) -> Array:
        """The latent image: a sample of what the autoencoder says of it."""
        (parameters,) = self._run("vae_encoder", sample=image.transpose(0, 3, 1, 2) / 127.5 - 1)
        mean, logarithm = np.split(parameters, 2, 1)
        return (mean + np.exp(np.clip(logarithm, -30, 20) / 2) * draw()) * self._settings["scaling_factor"]


class Flow(Images):
    """Stable Diffusion 3 and Flux: each step follows the predicted flow from noise to the image."""

    def generate(self, prompt: str, *, steps: int, guidance: float, seed: int, side: int = 8, **_: Any) -> Array:
        """As :meth:`Images.generate`, of a prompt alone; ``side`` is that of the latent image."""
        is_flux = "text_embeds" not in [port.name for port in self._sessions["text_encoder"].get_outputs()]
        shape = [1, self._settings["latent_channels"], side, side]
        latent = np.array(openvino_genai.CppStdGenerator(seed).randn_tensor(openvino.Shape(shape)).data)
        shift = json.loads((self._folder / "scheduler/scheduler_config.json").read_text())["shift"]
        times = np.linspace(1, 1 / steps, steps)
        if not is_flux:  # the ends of the training's steps are shifted, too
            times = np.linspace(1, shift / TRAINED / (1 + (shift - 1) / TRAINED), steps)
        sigmas = np.append(shift * times / (1 + (shift - 1) * times), 0)
        states = [self._texts(text, is_flux) for text in ((prompt,) if is_flux else ("", prompt))]
        pooled, hidden = (np.concatenate(parts) for parts in zip(*states))
        feeds = {"encoder_hidden_states": hidden, "pooled_projections": pooled}
        half = side // 2
        if is_flux:  # squares of the latent image are tokens, with their rows and columns
            latent = latent.reshape(1, -1, half, 2, half, 2).transpose(0, 2, 4, 1, 3, 5).reshape(1, half**2, -1)
            places = np.stack(np.meshgrid([0], np.arange(half), np.arange(half), indexing="ij"), -1).reshape(-1, 3)
            feeds |= {"img_ids": places, "txt_ids": np.zeros((hidden.shape[1], 3)), "guidance": [guidance]}
        for step in range(steps):
            time = sigmas[step : step + 1] * (1 if is_flux else TRAINED)
            rows = np.repeat(latent, len(states), 0)
            (flow,) = self._run("transformer", hidden_states=rows, timestep=time, **feeds)
            flow = flow if is_flux else flow[:1] + guidance * (flow[1:] - flow[:1])
            latent = latent + (sigmas[step + 1] - sigmas[step]) * flow
        if is_flux:
            latent = latent.reshape(1, half, half, -1, 2, 2).transpose(0, 3, 1, 4, 2, 5).reshape(shape)
        clean = latent / self._settings["scaling_factor"] + (self._settings.get("shift_factor") or 0)
        (pixels,) = self._run("vae_decoder", latent_sample=clean)
        return np.clip(pixels / 2 + 0.5, 0, 1).transpose(0, 2, 3, 1) * 255

    def _texts(self, text: str, is_flux: bool) -> tuple[Array, Array]:
        first, *others = (
            self._run(name, input_ids=self._encode(name.replace("text_encoder", "tokenizer"), text))
            for name in sorted(self._sessions)
            if name.startswith("text_encoder")
        )
        if is_flux:
            return first[1], others[0][0]
        hidden = np.concatenate([first[-2], others[0][-2]], -1)
        width = self._denoiser["joint_attention_dim"]
        hidden = np.pad(hidden, ((0, 0), (0, 0), (0, width - hidden.shape[-1])))
        last = others[1][0] if len(others) > 1 else np.zeros((1, _WITHOUT_T5, width))
        return np.concatenate([first[0], others[0][0]], -1), np.concatenate([hidden, last], 1)
