"""Make small folders with random weights, as exporters and quantizers leave them, for ``folders.py``.

    python benchmarks/make_folders.py optimum FOLDER    # torch, transformers 4.57, optimum-onnx, diffusers, onnxruntime
    python benchmarks/make_folders.py mobius FOLDER     # mobius-onnx after 0.1.0, for models of images and texts

Nothing is downloaded. Existing folders stay. ``made.json`` in each folder has its architecture, layout and variant.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import onnx

from tests.converter.language_models.decoders import write_tokenizer
from tests.converter.pipelines.texts import write_json, write_pair_tokenizer, write_pooling

VOCABULARY, SPEAKER_WIDTH = 260, 512
LANGUAGE = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4} | {
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
DECODERS: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("Llama", "fp32", {}),
    "qwen2": ("Qwen2", "q4", {}),
    "qwen3": ("Qwen3", "q4f16", {"head_dim": 16}),
    "mistral": ("Mistral", "fp16", {"sliding_window": None}),
    "gemma": ("Gemma", "int8", {"head_dim": 16, "tie_word_embeddings": False}),
    "phi3": ("Phi3", "uint8", {"sliding_window": None}),
    "granite": ("Granite", "bnb4", {}),
    "olmo2": ("Olmo2", "q8", {}),
}
"""Name of each decoder -> class, variant of transformers.js, further settings."""
TEXT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 37} | {
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 66,
    "pad_token_id": 0,
}
DISTILLED = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 37, "vocab_size": VOCABULARY}
DISTILLED |= {"max_position_embeddings": 66}
EMBEDDINGS: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "bert-mean": ("Bert", TEXT, "mean_tokens"),
    "roberta-cls": ("Roberta", TEXT, "cls_token"),
    "distilbert-cls": ("DistilBert", DISTILLED, "cls_token"),
    "electra-mean": ("Electra", {**TEXT, "embedding_size": 32}, "mean_tokens"),
}
RANKINGS = {"bert-rank": ("Bert", TEXT, 1), "roberta-rank": ("Roberta", TEXT, 2)}
VISION = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 37}
SIDE = {"height": 32, "width": 32}
SINGLE: Mapping[str, tuple[str, str, dict[str, Any], str | None, dict[str, Any]]] = {
    "bert-classes": ("Bert", "ForSequenceClassification", {**TEXT, "num_labels": 3}, None, {}),
    "bert-tokens": ("Bert", "ForTokenClassification", {**TEXT, "num_labels": 5}, None, {}),
    "bert-mask": ("Bert", "ForMaskedLM", TEXT, None, {}),
    "bert-answers": ("Bert", "ForQuestionAnswering", TEXT, None, {}),
    "vit": ("ViT", "ForImageClassification", {**VISION, "image_size": 32, "patch_size": 8}, "ViT", {"size": SIDE}),
    "dinov2": (
        *("Dinov2", "ForImageClassification", {**VISION, "image_size": 32, "patch_size": 8, "mlp_ratio": 1}, "Bit"),
        {"size": {"shortest_edge": 40}, "crop_size": SIDE},
    ),
    "convnext": (
        *("ConvNext", "ForImageClassification", {"hidden_sizes": [8, 8, 16, 16], "depths": [1] * 4}, "ConvNext"),
        {"size": {"shortest_edge": 64}, "crop_pct": 0.875},
    ),
    "mobilevit": (
        *("MobileViT", "ForImageClassification", {"hidden_sizes": [16, 16, 16], "neck_hidden_sizes": [8] * 7}),
        *("MobileViT", {"size": {"shortest_edge": 72}, "crop_size": {"height": 64, "width": 64}}),
    ),
    "segformer": (
        *("Segformer", "ForSemanticSegmentation"),
        {"hidden_sizes": [8, 16, 16, 32], "depths": [1] * 4, "num_attention_heads": [1, 1, 2, 2]},
        *("Segformer", {"size": {"height": 64, "width": 64}}),
    ),
    "dpt": (
        *("DPT", "ForDepthEstimation"),
        {**VISION, "num_hidden_layers": 4, "image_size": 32, "patch_size": 8, "backbone_out_indices": [0, 1, 2, 3]}
        | {"neck_hidden_sizes": [8] * 4, "fusion_hidden_size": 16, "reassemble_factors": [4, 2, 1, 0.5]},
        *("DPT", {"size": SIDE}),
    ),
    "yolos": (
        *("Yolos", "ForObjectDetection"),
        {**VISION, "image_size": [32, 32], "patch_size": 8, "num_detection_tokens": 4},
        *(None, {}),
    ),
}
"""Name of each single model -> class, head, configuration, class of the image processor and its settings."""
TASKS = {
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForMaskedLM": "fill-mask",
    "ForQuestionAnswering": "question-answering",
    "ForImageClassification": "image-classification",
    "ForSemanticSegmentation": "semantic-segmentation",
    "ForDepthEstimation": "depth-estimation",
    "ForObjectDetection": "object-detection",
}
MEAN, DEVIATION = (0.5, 0.4, 0.3), (0.3, 0.25, 0.2)
PATCH, IMAGE_SIDE = 14, 28
IMAGE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2} | {
    "image_size": IMAGE_SIDE,
    "patch_size": PATCH,
    "norm_eps": 1e-6,
}
MERGED = {"spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 64}
PATCHED = {"temporal_patch_size": 2, "mrope_section": [16, 24, 24]}
IMAGES_AND_TEXTS: Mapping[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "llava": ("llava", "fp32", {}, {}),
    "llava-js": ("llava", "fp16", {}, {}),
    "internvl": ("internvl_chat", "fp32", {}, {}),
    "internvl-js": ("internvl_chat", "q4", {}, {}),
    "gemma3": (
        *("gemma3", "fp32", {"mm_tokens_per_image": 4}),
        {"attn_qk_norm": True, "rope_local_base_freq": 1e4, "layer_types": ["full_attention", "sliding_attention"]},
    ),
    "qwen2-vl": ("qwen2_vl", "fp32", MERGED, PATCHED),
    "qwen2.5-vl": ("qwen2_5_vl", "fp32", MERGED, PATCHED),
    "qwen3-vl": (
        *("qwen3_vl", "fp32", {**MERGED, "fullatt_block_indexes": [0], "window_size": 4}),
        {**PATCHED, "attn_qk_norm": True, "deepstack_visual_indexes": [0]},
    ),
}
"""Name -> type, variant, settings of the encoder and the decoder; names in ``-js`` have transformers.js' layout."""
QWEN_TOKENS = ["<|image_pad|>", "<|vision_start|>", "<|vision_end|>", "<|video_pad|>"]
SPECIAL_TOKENS = {"llava": ["<image>"], "internvl_chat": ["<IMG_CONTEXT>"], "gemma3": ["<image_soft_token>"]}


def make_each(target: Path, names: Mapping[str, Callable[[Path], dict[str, Any]]]) -> None:
    """Make the missing folders; the failure of one does not end the others."""
    for name, make in names.items():
        if (target / name).is_dir():
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / name
            try:
                facts = make(folder)
                write_json(folder / "made.json", facts)
                shutil.copytree(folder, target / name)
                print(f"{name}: made", flush=True)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)


def export(model: Any, folder: Path, task: str, **options: Any) -> None:
    """Save ``model`` as a checkpoint, and let Optimum export that to ``folder``."""
    from optimum.exporters.onnx import main_export

    with tempfile.TemporaryDirectory() as checkpoint:
        model.eval().save_pretrained(checkpoint)
        for processor in options.pop("processors", ()):
            processor.save_pretrained(checkpoint)
        main_export(checkpoint, folder, task=task, do_validation=False, no_post_process=True, **options)


def widen_weights(model: Any, factor: float = 3.0) -> Any:
    """Enlarge the weights, in place: with those of the initialization a model repeats a single token."""
    import torch

    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                weight.mul_(factor * (10 if "position" in name else 1))
            if weight.ndim == 4:  # otherwise the last layers return zeros
                weight.normal_(0, (2 / weight[0].numel()) ** 0.5)
    return model


def optimum_folders() -> dict[str, Callable[[Path], dict[str, Any]]]:
    """Return the functions that make the folders of Optimum, by name."""
    import torch
    import transformers as tr

    torch.manual_seed(0)

    def random_model(name: str, head: str, settings: Mapping[str, Any]) -> Any:
        return widen_weights(getattr(tr, name + head)(getattr(tr, f"{name}Config")(**settings)))

    def decoder(name: str, variant: str, more: Mapping[str, Any]) -> Callable[[Path], dict[str, Any]]:
        def make(folder: Path) -> dict[str, Any]:
            export(random_model(name, "ForCausalLM", {**LANGUAGE, **more}), folder, "text-generation-with-past")
            convert_to_transformers_js(folder, {"model": "model"}, variant)
            write_tokenizer(folder)
            return {"architecture": name, "layout": "transformers.js", "variant": variant}

        return make

    def embedding(name: str, settings: Mapping[str, Any], pooling: str) -> Callable[[Path], dict[str, Any]]:
        def make(folder: Path) -> dict[str, Any]:
            export(random_model(name, "Model", settings), folder, "feature-extraction", library_name="transformers")
            write_pair_tokenizer(folder, segments=name in ("Bert", "Electra"))
            write_pooling(folder, pooling, normalizes=True)
            return {"architecture": name, "layout": "Optimum", "pooling": pooling}

        return make

    def single(
        name: str, head: str, settings: Mapping[str, Any], processor: str | None, steps: Mapping[str, Any]
    ) -> Callable[[Path], dict[str, Any]]:
        def make(folder: Path) -> dict[str, Any]:
            images = [getattr(tr, f"{processor}ImageProcessor")(**steps)] if processor else []
            export(random_model(name, head, settings), folder, TASKS[head], processors=images)
            for image_processor in images:
                write_images(folder, image_processor)
            if "vocab_size" in settings:
                write_pair_tokenizer(folder, segments=name == "Bert")
            return {"architecture": name + head, "layout": "Optimum", "processor": processor, "steps": steps}

        return make

    def ranking(name: str, settings: Mapping[str, Any], labels: int) -> Callable[[Path], dict[str, Any]]:
        make = single(name, "ForSequenceClassification", {**settings, "num_labels": labels}, None, {})
        return lambda folder: {**make(folder), "task": "text-ranking"}

    def whisper(folder: Path) -> dict[str, Any]:
        wide = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4}
        wide |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": 300}
        ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 294}
        none = {"suppress_tokens": [], "begin_suppress_tokens": []}
        model = widen_weights(tr.WhisperForConditionalGeneration(tr.WhisperConfig(**wide, **ids, **none)))
        task = "automatic-speech-recognition-with-past"
        export(model, folder, task, processors=[tr.WhisperFeatureExtractor()])
        write_tokenizer(folder)
        generation = {"lang_to_id": {"<|en|>": 295}, "task_to_id": {"translate": 297, "transcribe": 298}}
        generation |= {"decoder_start_token_id": 294, "eos_token_id": 2, "pad_token_id": 0, "is_multilingual": True}
        generation |= {"no_timestamps_token_id": 299, "max_length": 448, "begin_suppress_tokens": []}
        write_json(folder / "generation_config.json", {**generation, "suppress_tokens": [2]})
        return {"architecture": "Whisper", "layout": "Optimum", "prompt": [294, 295, 298, 299]}

    def speech(folder: Path) -> dict[str, Any]:
        layers = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
        layers |= {"hidden_size": 32, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "vocab_size": VOCABULARY}
        layers |= {"speech_decoder_prenet_units": 16, "speech_decoder_postnet_units": 16}
        # Otherwise the decoder draws random numbers, and no two runs are equal.
        layers |= {"positional_dropout": 0.0, "speech_decoder_prenet_dropout": 0.0}
        model = widen_weights(
            tr.SpeechT5ForTextToSpeech(tr.SpeechT5Config(**layers, speaker_embedding_dim=SPEAKER_WIDTH))
        )
        vocoder = tr.SpeechT5HifiGan(tr.SpeechT5HifiGanConfig(upsample_initial_channel=16))
        sound = torch.randn(20, 80, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():  # otherwise the waveform is zero up to 1e-9
            while vocoder(sound).std() < 0.1:
                for weight in vocoder.parameters():
                    weight.mul_(1.1)
        with tempfile.TemporaryDirectory() as saved:
            vocoder.save_pretrained(saved)
            export(model, folder, "text-to-audio", model_kwargs={"vocoder": saved})
        write_pair_tokenizer(folder, segments=False)
        return {"architecture": "SpeechT5", "layout": "Optimum"}

    return {
        **{name: decoder(*row) for name, row in DECODERS.items()},
        **{name: embedding(*row) for name, row in EMBEDDINGS.items()},
        **{name: ranking(*row) for name, row in RANKINGS.items()},
        "whisper": whisper,
        "speecht5": speech,
        **{name: single(*row) for name, row in SINGLE.items()},
        **diffusion(),
    }


def diffusion() -> dict[str, Callable[[Path], dict[str, Any]]]:
    """Return the functions that make folders of diffusers' pipelines, whose denoisers have one or two blocks."""
    import diffusers as di
    import transformers as tr
    from optimum.exporters.onnx import main_export

    text = {"vocab_size": 515, "hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2}
    text |= {"num_attention_heads": 4, "max_position_embeddings": 77, "bos_token_id": 512, "eos_token_id": 513}
    blocks: dict[str, Any] = {"block_out_channels": (32, 64), "layers_per_block": 1, "sample_size": 32}
    blocks |= {"down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"), "norm_num_groups": 8}
    blocks |= {"up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"), "cross_attention_dim": 32}
    large = {"addition_embed_type": "text_time", "addition_time_embed_dim": 8, "cross_attention_dim": 64}
    large |= {"transformer_layers_per_block": (1, 2), "projection_class_embeddings_input_dim": 80}
    large |= {"use_linear_projection": True, "attention_head_dim": (2, 4)}
    betas = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
    flow: dict[str, Any] = {"use_quant_conv": False, "use_post_quant_conv": False, "shift_factor": 0.06}
    common: dict[str, Any] = {"attention_head_dim": 8, "num_attention_heads": 4, "joint_attention_dim": 96}
    common |= {"num_layers": 1}

    def encoder(projects: bool = False) -> Any:
        if projects:
            return tr.CLIPTextModelWithProjection(tr.CLIPTextConfig(**text, projection_dim=32, hidden_act="gelu"))
        return tr.CLIPTextModel(tr.CLIPTextConfig(**text))

    def autoencoder(**more: Any) -> Any:
        ends = {"down_block_types": ["DownEncoderBlock2D"] * 2, "up_block_types": ["UpDecoderBlock2D"] * 2}
        return di.AutoencoderKL(block_out_channels=[32, 64], latent_channels=4, norm_num_groups=8, **ends, **more)

    def parts(name: str) -> Any:
        clip, t5 = clip_tokenizer(), t5_tokenizer()
        states = tr.T5EncoderModel(tr.T5Config(vocab_size=300, d_model=96, d_kv=8, d_ff=37, num_layers=2, num_heads=4))
        unsafe: dict[str, Any] = {"safety_checker": None, "feature_extractor": None, "requires_safety_checker": False}
        if name == "stable-diffusion":
            rest = {"set_alpha_to_one": False, "clip_sample": False, "steps_offset": 1}
            components = {"unet": di.UNet2DConditionModel(**blocks), "scheduler": di.DDIMScheduler(**betas, **rest)}
            return di.StableDiffusionPipeline(autoencoder(), encoder(), clip, **components, **unsafe)
        if name == "lcm":
            unet = di.UNet2DConditionModel(**blocks, time_cond_proj_dim=32)
            rest = {"clip_sample": False, "set_alpha_to_one": False}
            components = {"unet": unet, "scheduler": di.LCMScheduler(**betas, **rest)}
            return di.LatentConsistencyModelPipeline(autoencoder(), encoder(), clip, **components, **unsafe)
        if name == "stable-diffusion-xl":
            rest = {"steps_offset": 1, "timestep_spacing": "leading"}
            two = [encoder(), encoder(True), clip, clip]
            unet = di.UNet2DConditionModel(**{**blocks, **large})
            euler = di.EulerDiscreteScheduler(**betas, **rest)
            return di.StableDiffusionXLPipeline(autoencoder(), *two, unet, euler, add_watermarker=False)
        euler = di.FlowMatchEulerDiscreteScheduler(shift=3.0 if name.startswith("stable") else 1.0)
        if name == "flux":
            transformer = di.FluxTransformer2DModel(
                **{**common, "attention_head_dim": 16, "num_attention_heads": 2, "axes_dims_rope": [4, 4, 8]},
                patch_size=1,
                in_channels=16,
                num_single_layers=1,
                pooled_projection_dim=32,
                guidance_embeds=True,
            )
            vae = autoencoder(**flow, scaling_factor=1.5)
            return di.FluxPipeline(euler, vae, encoder(), clip, states, t5, transformer)
        transformer = di.SD3Transformer2DModel(
            **common, sample_size=32, patch_size=1, in_channels=4, out_channels=4, caption_projection_dim=32,
            pooled_projection_dim=64,
        )  # fmt: skip
        components = {"text_encoder": encoder(True), "text_encoder_2": encoder(True), "text_encoder_3": states}
        components |= {"tokenizer": clip, "tokenizer_2": clip, "tokenizer_3": t5}
        vae = autoencoder(**flow, scaling_factor=1.5)
        return di.StableDiffusion3Pipeline(transformer=transformer, vae=vae, scheduler=euler, **components)

    def make(name: str) -> Callable[[Path], dict[str, Any]]:
        def write(folder: Path) -> dict[str, Any]:
            with tempfile.TemporaryDirectory() as checkpoint:
                pipeline = parts(name)
                pipeline.save_pretrained(checkpoint)
                main_export(checkpoint, folder, task="text-to-image", library_name="diffusers", do_validation=False)
            if name.endswith("without-t5"):  # diffusers and openvino-genai run what is left, Optimum refuses it
                for part in ("text_encoder_3", "tokenizer_3"):
                    shutil.rmtree(folder / part)
            return {"architecture": type(pipeline).__name__.removesuffix("Pipeline"), "layout": "Optimum"}

        return write

    names = ["stable-diffusion", "lcm", "stable-diffusion-xl", "stable-diffusion-3", "stable-diffusion-3-without-t5"]
    return {name: make(name) for name in (*names, "flux")}


def write_images(folder: Path, processor: Any) -> None:
    """Write images, and the results of transformers' processor for them.

    The images are wider than high: of these every release of Pillow resizes the rows first.
    """
    from PIL import Image

    random, arrays = np.random.default_rng(0), {}
    for index, shape in enumerate(((57, 71), (90, 133), (32, 40))):
        noise = random.integers(0, 256, (shape[0] // 3, shape[1] // 3, 3)).astype(np.uint8)
        image = Image.fromarray(noise).resize(shape[::-1], Image.BICUBIC)
        arrays[f"image{index}"] = np.asarray(image)
        arrays[f"pixels{index}"] = processor(images=image, return_tensors="np")["pixel_values"]
    np.savez(folder / "images.npz", **arrays)


def clip_tokenizer() -> Any:
    """Return a CLIP tokenizer of single bytes and one word."""
    import transformers as tr
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>", "ab</w>"]
    with tempfile.TemporaryDirectory() as folder:
        write_json(Path(folder) / "vocab.json", {word: index for index, word in enumerate(words)})
        (Path(folder) / "merges.txt").write_text("#version: 0.2\na b</w>\n")
        return tr.CLIPTokenizer(f"{folder}/vocab.json", f"{folder}/merges.txt", model_max_length=77)


def t5_tokenizer() -> Any:
    """Return a T5 tokenizer of single letters."""
    import transformers as tr
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    words = [
        ("<pad>", 0.0),
        ("</s>", 0.0),
        ("<unk>", 0.0),
        ("▁", -2.0),
        *((chr(code), -3.0) for code in range(97, 123)),
    ]
    tokenizer = Tokenizer(models.Unigram(words, unk_id=2))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tr.T5TokenizerFast(tokenizer_object=tokenizer, extra_ids=0, model_max_length=512)


def convert_to_transformers_js(folder: Path, names: Mapping[str, str], variant: str) -> None:
    """Move ONNX files into ``onnx/`` under other names, as ``variant``."""
    (folder / "onnx").mkdir(exist_ok=True)
    endings = {"fp32": "", "q8": "_quantized"}
    for old, new in names.items():
        model = quantize(onnx.load(folder / f"{old}.onnx"), variant)
        onnx.save(model, folder / "onnx" / f"{new}{endings.get(variant, f'_{variant}')}.onnx")
    for file in folder.glob("*.onnx*"):
        file.unlink()


def quantize(model: onnx.ModelProto, variant: str) -> onnx.ModelProto:
    """Return the model as one of the variants that transformers.js' script makes with onnxruntime's quantizers."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    from onnxruntime.transformers.float16 import convert_float_to_float16

    logging.disable(logging.INFO)  # the quantizers log each node
    if variant in ("q4", "q4f16"):
        transpose_weights(model)
        quantizer = MatMulNBitsQuantizer(model, block_size=32, is_symmetric=True)
        quantizer.process()
        model = quantizer.model.model
    elif variant == "bnb4":
        bits = MatMulBnb4Quantizer(model, MatMulBnb4Quantizer.NF4, 64)
        bits.process()
        model = bits.model.model
    elif variant in ("int8", "uint8", "q8"):
        types = {"int8": QuantType.QInt8, "uint8": QuantType.QUInt8, "q8": QuantType.QInt8}
        with tempfile.TemporaryDirectory() as scratch:
            onnx.save(model, f"{scratch}/model.onnx")
            quantize_dynamic(f"{scratch}/model.onnx", f"{scratch}/out.onnx", weight_type=types[variant])
            model = onnx.load(f"{scratch}/out.onnx")
    if variant in ("fp16", "q4f16"):
        model = convert_float_to_float16(model, keep_io_types=True, disable_shape_infer=True)
    return model


def transpose_weights(model: onnx.ModelProto) -> None:
    """Transpose weights that the model transposes, as the quantizers only take those of matrix multiplications."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in [node for node in model.graph.node if node.op_type == "Transpose" and node.input[0] in weights]:
        order = next((list(attribute.ints) for attribute in node.attribute if attribute.name == "perm"), None)
        value = np.ascontiguousarray(np.transpose(onnx.numpy_helper.to_array(weights[node.input[0]]), order))
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, node.output[0]))
        model.graph.node.remove(node)


def mobius_folders() -> dict[str, Callable[[Path], dict[str, Any]]]:
    """Return the functions that make the folders of mobius, by name."""
    import onnx_ir
    from mobius._configs import ArchitectureConfig, VisionConfig
    from mobius._registry import registry
    from mobius.tasks import get_task

    try:
        from mobius._config_resolver import _default_task_for_model as task_of
    except ImportError:
        from mobius._registry import _default_task_for_model as task_of

    decoder: dict[str, Any] = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_type": "default", "rope_theta": 1e4}
    decoder |= {name: LANGUAGE[name] for name in LANGUAGE if not name.endswith("os_token_id")} | {"head_dim": 16}

    def make(name: str) -> Callable[[Path], dict[str, Any]]:
        model_type, variant, vision, more = IMAGES_AND_TEXTS[name]

        def write(folder: Path) -> dict[str, Any]:
            folder.mkdir()
            images = VisionConfig(**IMAGE, **vision)
            configuration = ArchitectureConfig(**decoder, vision=images, image_token_id=32000, **more)
            package = get_task(task_of(model_type)).build(registry.get(model_type)(configuration), configuration)
            for part, model in package.items():
                proto = onnx_ir.to_proto(fill(model, zlib.crc32(name.encode())))
                onnx.save(proto, folder / f"{part}.onnx")
            write_settings(folder, model_type)
            facts = {"architecture": model_type, "layout": "onnxruntime-genai", "variant": variant}
            if name.endswith("-js"):
                names = {
                    "vision_encoder": "vision_encoder",
                    "embedding": "embed_tokens",
                    "decoder": "decoder_model_merged",
                }
                convert_to_transformers_js(folder, names, variant)
                (folder / "genai_config.json").unlink()
                facts["layout"] = "transformers.js"
            return facts

        return write

    def fill(model: Any, seed: int) -> Any:
        random = np.random.default_rng(seed)
        for name, weight in model.graph.initializers.items():
            if weight.const_value is not None:
                continue
            dims = [length if isinstance(length, int) else 1 for length in weight.shape]
            depth = min(dims) if len(dims) == 2 else int(np.prod(dims[1:]))
            values = random.normal(size=dims) * ((3 if len(dims) == 2 else 1) / max(depth, 1) ** 0.5)
            if "norm" in name and name.endswith("weight"):
                values = 1 + 0.1 * random.normal(size=dims)
            elif len(dims) == 1:
                values = 0.1 * random.normal(size=dims)
            dtype = weight.dtype.numpy()
            weight.const_value = onnx_ir.Tensor(np.asarray(values).astype(dtype), name=name)
        return model

    return {name: make(name) for name in IMAGES_AND_TEXTS}


def write_settings(folder: Path, model_type: str) -> None:
    """Write the settings of a vision-language model, and a tokenizer whose last token stands for image states."""
    from tests.converter.pipelines.vision import write_image_tokenizer

    write_image_tokenizer(folder, SPECIAL_TOKENS.get(model_type, QWEN_TOKENS))
    files = {"vision": "vision_encoder", "embedding": "embedding", "decoder": "decoder"}
    parts = {part: {"filename": f"{file}.onnx"} for part, file in files.items()}
    ids = {"type": model_type, "bos_token_id": 1, "eos_token_id": 2, "vocab_size": VOCABULARY}
    write_json(folder / "genai_config.json", {"model": {**ids, **parts}})
    vision = {"patch_size": PATCH, "num_position_embeddings": 2304, "deepstack_visual_indexes": [0]}
    write_json(folder / "config.json", {"model_type": model_type, "vision_config": vision})
    size: dict[str, Any] = {"size": {"shortest_edge": IMAGE_SIDE, "height": IMAGE_SIDE, "width": IMAGE_SIDE}}
    size |= {"crop_size": {"height": IMAGE_SIDE, "width": IMAGE_SIDE}}
    if model_type.startswith("qwen"):
        size = {"patch_size": PATCH, "merge_size": 2, "temporal_patch_size": 2, "min_pixels": 64, "max_pixels": 10**6}
    write_json(folder / "preprocessor_config.json", {"image_mean": MEAN, "image_std": DEVIATION, **size})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exporter", choices=["optimum", "mobius"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="these folders alone")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    all_names = optimum_folders() if arguments.exporter == "optimum" else mobius_folders()
    make_each(arguments.folder, {n: make for n, make in all_names.items() if n in (arguments.only or all_names)})
