"""Diffusion folders that Optimum exported, in openvino-genai: are the images those of onnxruntime?

    optimum-cli export onnx --model CHECKPOINT --library diffusers --task text-to-image FOLDER   # torch, diffusers
    python benchmarks/image_pipelines.py FOLDER ...

Small checkpoints with random weights are enough: two steps of a denoiser show whether every part is right. Schedulers
are DDIM, LCM, Euler and that of flows (Stable Diffusion 3, Flux). Needs openvino-genai, transformers and onnxruntime.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import openvino_genai
from transformers import AutoTokenizer

import converter

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.pipelines.diffusion_oracle import Flow, Images  # noqa: E402

PROMPT, STEPS, GUIDANCE, SEED = "ab a cat", 3, 4.0, 1
SIDE, LENGTH = 32, 64
"""Height and width of the latent image; tokens of T5."""


def main(folders: list[Path]) -> None:
    for folder in folders:
        print(f"{folder.name}: {difference(folder):.3f} of 255", flush=True)


def difference(folder: Path) -> float:
    """The largest difference of an image from onnxruntime's; openvino-genai cuts what is behind the point off."""
    is_flow = (folder / "transformer").is_dir()

    def encode(name: str, text: str) -> np.ndarray:
        tokenizer = AutoTokenizer.from_pretrained(folder / name)
        length = min(tokenizer.model_max_length, 77 if "CLIP" in type(tokenizer).__name__ else LENGTH)
        return np.asarray(tokenizer([text], padding="max_length", truncation=True, max_length=length)["input_ids"])

    with tempfile.TemporaryDirectory() as target:
        converter.convert_folder(folder, target)
        pipeline = openvino_genai.Text2ImagePipeline(target, "CPU", INFERENCE_PRECISION_HINT="f32")
        options = {"num_inference_steps": STEPS, "guidance_scale": GUIDANCE}
        oracle = Flow(folder, encode) if is_flow else Images(folder, encode)
        if is_flow:
            scale = 2 ** (len(oracle._settings["block_out_channels"]) - 1)
            options |= {"height": SIDE * scale, "width": SIDE * scale, "max_sequence_length": LENGTH}
        image = pipeline.generate(PROMPT, generator=openvino_genai.CppStdGenerator(SEED), **options).data.astype(float)
        sizes = {"side": SIDE} if is_flow else {}
        expected = oracle.generate(PROMPT, steps=STEPS, guidance=GUIDANCE, seed=SEED, **sizes)
    return float(np.abs(image - expected).max())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    main(parser.parse_args().folders)
