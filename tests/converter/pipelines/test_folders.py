"""What folders are recognised as, which files are taken, what commands say of them, and which are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
from converter.errors import ConversionError, UnsupportedModelError
from converter.folders.recognition import recognise
from tests.commands import said
from tests.converter.language_models.decoders import DECODERS, Decoder, write_folder, write_json
from tests.converter.language_models.encoder_decoders import NAMES, EncoderDecoder

from .images import SQUARE, STEPS, image_model, write_diffusion_folder, write_image_folder, write_speech_folder
from .images import text_encoder as image_text_encoder
from .texts import Graph, text_encoder, write_pooling, write_text_folder
from .vision import FAMILIES, patch_encoder, rename_for_genai, vision_encoder

Edit = Callable[[Path], object]
CLIP = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 17}, "crop_size": SQUARE, "resample": 3}


def both(*edits: Edit) -> Edit:
    return lambda folder: [edit(folder) for edit in edits]


def without(*names: str) -> Edit:
    return lambda folder: [(folder / name).unlink() for name in names]


def text(name: str, content: str) -> Edit:
    return lambda folder: (folder / name).write_text(content)


def settings(name: str = "config", **changes: Any) -> Edit:
    """Change entries of a JSON file, those of objects in it, too; ``...`` deletes one."""

    def merged(before: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
        values = {key: merged(before[key], value) if isinstance(before.get(key), dict) and isinstance(value, dict)
                  else value for key, value in changes.items()}  # fmt: skip
        return {key: value for key, value in {**before, **values}.items() if value is not ...}

    def change(folder: Path) -> None:
        path = folder / f"{name}.json"
        write_json(path, merged(json.loads(path.read_text()), changes))

    return change


def model(name: str, edit: Callable[[onnx.GraphProto], object]) -> Edit:
    def change(folder: Path) -> None:
        loaded = onnx.load(folder / f"{name}.onnx")
        edit(loaded.graph)
        onnx.save(loaded, folder / f"{name}.onnx")

    return change


def renamed(name: str, before: str, after: str = "other") -> Edit:
    """Call an input differently."""

    def edit(graph: onnx.GraphProto) -> None:
        for node in graph.node:
            node.input[:] = [after if value == before else value for value in node.input]
        for value in graph.input:
            value.name = after if value.name == before else value.name

    return model(name, edit)


def node(graph: onnx.GraphProto, op_type: str) -> onnx.NodeProto:
    return next(one for one in graph.node if one.op_type == op_type)


def add_to_scores(graph: onnx.GraphProto) -> None:
    name = node(graph, "Where").input[1]
    next(one for one in graph.initializer if one.name == name).CopyFrom(
        onnx.numpy_helper.from_array(np.float32(1), name)
    )


def swap_shown_and_hidden(graph: onnx.GraphProto) -> None:
    where = node(graph, "Where")
    where.input[1], where.input[2] = where.input[2], where.input[1]


def as_model(name: str, build: Callable[[], onnx.ModelProto]) -> Edit:
    return lambda folder: onnx.save(build(), folder / f"{name}.onnx")


def texts(folder: Path, **options: Any) -> None:
    write_text_folder(folder, text_encoder(**options), {"model_type": "bert"})


def variants(folder: Path) -> None:
    texts(folder)
    for name in ("q4", "fp16"):
        (folder / f"onnx/model_{name}.onnx").write_bytes((folder / "onnx/model.onnx").read_bytes())
    (folder / "onnx/model.onnx").unlink()


def genai(folder: Path) -> None:
    vision(folder)
    rename_for_genai(folder)


def unchanged(folder: Path) -> None:
    """The folder is refused as it is; where there is none, it is empty."""
    folder.mkdir(exist_ok=True)


def pooled(mode: str = "mean_tokens", extra: str = "") -> Edit:
    return lambda folder: write_pooling(folder, mode, normalizes=False, extra=extra)


def branched(graph: onnx.GraphProto) -> None:
    """The input of decoders that older exporters merged of two."""
    graph.input.append(onnx.helper.make_tensor_value_info("use_cache_branch", onnx.TensorProto.BOOL, [1]))


decoder = partial(write_folder, decoder=DECODERS["grouped"])
pair = EncoderDecoder().save
speech = EncoderDecoder(speech=True).save
one_token = EncoderDecoder(one_token=True)
diffusion = partial(write_diffusion_folder, kind="sd")
image = partial(write_image_folder, settings=STEPS)
vision, windows, table = (FAMILIES[name].write for name in ("llava", "qwen2_5_vl", "qwen3_vl"))
parts = "onnx/vision_encoder"
vit = {"preprocess_images": True}
Row = tuple[Callable[..., object], Edit, str, type[Exception], dict[str, Any]]


def of(write: Callable[..., object], *rows: tuple[Any, ...], **options: Any) -> Iterator[Row]:
    """Rows of a folder: edit, message, and options; a message of what is not supported begins with ``!``."""
    for edit, message, *more in rows:
        error = UnsupportedModelError if message.startswith("!") else ConversionError
        yield write, edit, message.removeprefix("!"), error, {**options, **(more[0] if more else {})}


def processor(changes: dict[str, Any], message: str) -> tuple[Edit, str]:
    return settings("preprocessor_config", **changes), message


def sound(folder: Path) -> None:
    """The inputs and the output of Kokoro."""
    graph = Graph()
    wave = graph["input_ids"].Cast(to=onnx.TensorProto.FLOAT) * "speed" * graph("ReduceMean", "style", [1], keepdims=1)
    inputs = {"input_ids": (np.int64, [1, "n"]), "style": (np.float32, [1, 256]), "speed": (np.float32, [1])}
    folder.mkdir()
    onnx.save(graph.model(inputs, {"waveform": (wave, [1, "n"])}), folder / "model.onnx")


def images(**outputs: Any) -> Edit:
    return lambda folder: (folder.mkdir(), onnx.save(image_model(**outputs), folder / "model.onnx"))


def classes(count: int) -> Edit:
    return partial(texts, outputs="logits", labels=count)


def then(write: Edit, *edits: Edit) -> Edit:
    return lambda folder: [write(folder), *(edit(folder) for edit in edits)]


RECOGNISED: list[tuple[Edit, str, str]] = [
    (decoder, "text-generation", "LLMPipeline"),
    (speech, "automatic-speech-recognition", "WhisperPipeline"),
    (then(speech, text("config.json", '{"model_type": "speech_to_text"}')), "automatic-speech-recognition", "OpenVINO"),
    (write_speech_folder, "text-to-speech", "Text2SpeechPipeline"),
    (then(speech, renamed("encoder_model", "input_features", "pixel_values")), "image-to-text", "OpenVINO"),
    (pair, "text2text-generation", "OpenVINO"),
    (texts, "feature-extraction", "TextEmbeddingPipeline"),
    (classes(1), "text-ranking", "TextRerankPipeline"),
    (classes(2), "text-classification", "OpenVINO"),
    (classes(3), "text-classification", "OpenVINO"),
    (classes(0), "token-classification", "OpenVINO"),
    (images(logits=["b", 5]), "image-classification", "OpenVINO"),
    (images(logits=["b", 4, 5], pred_boxes=["b", 4, 4]), "object-detection", "OpenVINO"),
    (images(logits=["b", 5, 2, 2]), "image-segmentation", "OpenVINO"),
    (sound, "text-to-audio", "OpenVINO"),
]


@pytest.mark.parametrize(("write", "task", "runtime"), RECOGNISED)
def test_what_folders_are(tmp_path: Path, write: Edit, task: str, runtime: str) -> None:
    write(tmp_path / "onnx")
    pipeline = recognise(tmp_path / "onnx")
    assert (pipeline.task, pipeline.runtime) == (task, runtime)
    code, printed = said("inspect", tmp_path / "onnx")
    assert code == 0
    names = [name for one in pipeline.parts for name in (one.source.name, one.target)]
    assert all(part in printed for part in (f"{task}, run by {runtime}", *names))


TAKEN = [
    # the files that are there, the variant, and which file is taken
    ("model model_q4", None, "model"),
    ("model model_q4 model_fp16", "fp16", "model_fp16"),
    ("model model_q4", "fp32", "model"),
    ("model model_q4", "model=q4", "model_q4"),
    ("model model_qint8_avx512", "qint8_avx512", "model_qint8_avx512"),
    ("model_quantized", None, "model_quantized"),
    ("encoder_model_q4 decoder_model_merged_q4", "q4", "encoder_model_q4 decoder_model_merged_q4"),
]


@pytest.mark.parametrize(("names", "variant", "taken"), TAKEN)
def test_variants(tmp_path: Path, names: str, variant: str | None, taken: str) -> None:
    (tmp_path / "onnx").mkdir()
    for name in names.split():
        build = EncoderDecoder(speech=True).build if "coder" in name else lambda _: text_encoder()
        onnx.save(build(name.removesuffix("_q4")), tmp_path / f"onnx/{name}.onnx")
    parts = recognise(tmp_path, variant=variant).parts
    assert [part.source.name for part in parts] == [f"{name}.onnx" for name in taken.split()]


def without_settings(folder: Path) -> None:
    """Halved weights beside a variant that cannot be read."""
    decoder(folder)
    (folder / "genai_config.json").unlink()
    (folder / "model.onnx").rename(folder / "model_fp16.onnx")
    (folder / "model_q4.onnx").write_bytes(b"")


COMMANDS: list[tuple[Edit, str, int, str]] = [
    # the folder, words, exit code, what is said
    (decoder, "convert onnx -o ir", 0, "Recognised as text-generation, for LLMPipeline"),
    (decoder, "convert onnx --stateful -o onnx", 1, "must be another folder"),
    (decoder, "convert onnx --stateful", 2, "the folder to write is required: -o FOLDER"),
    (decoder, "convert onnx --stateful -o ir --batch 2", 2, "--batch cannot be used with a folder"),
    (decoder, "convert onnx/model.onnx --stateful -o ir/m.xml", 0, "Wrote"),
    (decoder, "convert onnx/model.onnx --task a --variant q4", 2, "--task, --variant need a folder"),
    (without_settings, "convert onnx -o ir --verify --variant fp16", 0, "PASSED"),
    (classes(2), "inspect onnx", 0, "--task may also be text-ranking"),
    (classes(2), "convert onnx -o ir", 0, "text-classification, for OpenVINO; --task may also be text-ranking"),
    (texts, "convert onnx -o ir --task reading", 1, "there is no task 'reading'"),
    (texts, "convert onnx -o ir --verify", 2, "which is for feature-extraction: steps are of decoders alone"),
    (speech, "convert onnx --stateful -o ir --verify", 2, "--verify cannot be used with"),
    (then(texts, pooled()), "inspect onnx --json", 0, "TextEmbeddingPipeline.PoolingType.MEAN, normalize=False)"),
    (image, "convert onnx -o ir --preprocess-images", 0, "Wrote"),
]


@pytest.mark.parametrize(("write", "words", "code", "message"), COMMANDS, ids=[row[1] for row in COMMANDS])
def test_commands(
    write: Edit, words: str, code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "onnx")
    found, printed = said(*words.split())
    assert (found, message in printed) == (code, True), printed
    assert Path("ir").exists() == ("-o ir" in words and code == 0)
    if write is decoder and code == 0:
        assert "ReadValue" in "".join(path.read_text() for path in Path("ir").glob("*m*.xml"))


ROWS: list[Row] = [
    *of(decoder,
        (without("model.onnx"), "names the model 'model.onnx', but there is no such"),
        (both(without("genai_config.json", "model.onnx"), text("a.onnx", ""), text("b.onnx", "")),
         "must hold one model, model.onnx or the like, but its ONNX files are: a.onnx, b.onnx"),
        (text("genai_config.json", "{"), "genai_config.json is not JSON"),
        (text("config.json", "[]"), "must hold a JSON object, but holds list"),
        (model("model", branched), "!has one branch for the first call and one for the others"),
        (text("genai_config.json", '{"model": {"decoder": {}, "vision": {}}}'),
         "!a model of several parts, vision, decoder"),
        task="text-generation"),
    *of(pair,
        (without(*(f"{name}.onnx" for name in NAMES[1:])),
         "has encoder_model.onnx and no decoder, but its decoder must be decoder_model_merged.onnx"),
        (without(*(f"{name}.onnx" for name in NAMES[2:])),
         "has encoder_model.onnx and decoder_model.onnx, but .* tasks that end in '-with-past'"),
        (without(f"{NAMES[1]}.onnx", f"{NAMES[3]}.onnx"),
         "has encoder_model.onnx and decoder_with_past_model.onnx, but its decoder must be"),
        (without(f"{NAMES[0]}.onnx", f"{NAMES[3]}.onnx"),
         "has decoder_model.onnx, which reads 'encoder_hidden_states', but no encoder_model.onnx"),
        (without(*(f"{NAMES[index]}.onnx" for index in (0, 1, 3))),
         "has decoder_with_past_model.onnx, which reads .*encoder.*, but no encoder_model.onnx"),
        (as_model(NAMES[2], Decoder("spelled").build), "must return the keys and values of the encoder's states"),
        (unchanged, "cannot be given for all at once", {"input": {"input_ids": [1, 4]}})),
    *of(one_token.save, (unchanged, "!one token a call.*a newer release of Optimum")),
    *of(EncoderDecoder(speech=True, one_token=True).save,
        (unchanged, "!one token a call.*convert it with fusion", {"fuse": False})),
    *of(speech, (renamed("encoder_model", "input_features", "inputs_embeds"),
        "!encoder_model.onnx reads 'inputs_embeds', but")),
    *of(unchanged,
        (unchanged, "not recognised: it has no files, but none of model_index"),
        (text("config.json", "{}"), "it has config.json, but none of"),
        (as_model("model", lambda: image_model(scores=["b", 2])), "it has model.onnx, but none of")),
    *of(texts,
        (pooled(extra="Dense"), "!has the module Dense"),
        (pooled("max_tokens"), "!pools by 'max_tokens', but TextEmbeddingPipeline pools"),
        (text("modules.json", '{"0": "Transformer"}'), "must hold a JSON list of objects, but holds dict"),
        (as_model("onnx/model", lambda: text_encoder(extra=("position_ids",))),
         "!reads 'position_ids', too: TextEmbeddingPipeline gives input_ids, attention_mask, token_type_ids"),
        (unchanged, "stateful is for language models, but .* is for feature-extraction", {"stateful": True}),
        (unchanged, "a single model of 'pixel_values', but .* is for feature-extraction", vit),
        (unchanged, "model.onnx is no model for text-ranking: its inputs are 'input_ids', 'att",
         {"task": "text-ranking"}),
        (unchanged, "must hold|has no caches", {"task": "text-generation"}),
        (unchanged, "not recognised as automatic-speech-recognition, but feat",
         {"task": "automatic-speech-recognition"}),
        (unchanged, "there is no task 'reading'", {"task": "reading"})),
    *of(variants,
        (unchanged, "has no variant 'int8' of model.onnx, but fp16, q4", {"variant": "int8"}),
        (unchanged, "several variants of it: choose with --variant, one of fp16, q4"),
        (unchanged, "variant names 'encoder', but .* has onnx/model_fp16.onnx, onnx/model_q4",
         {"variant": "encoder=q4"}),
        (unchanged, "variant must be as in 'q4'", {"variant": "model="}),
        (unchanged, "one for each file, but is 'q4,fp16'", {"variant": "q4,fp16"})),
    *of(diffusion,
        (without("unet/model.onnx"), "needs unet/model.onnx, but .* has no ONNX file"),
        (without("vae_decoder/config.json"), "has no config.json, which openvino-genai reads"),
        (settings("model_index", _class_name="PixArtPipeline"),
         "!names the pipeline 'PixArtPipeline', but those of openvino-genai are StableDiffusionPipeline"),
        (as_model("unet/model", image_text_encoder),
         "!reads 'input_ids', too: openvino-genai gives the denoiser sample, timestep")),
    *of(write_speech_folder,
        (settings(architectures=["VitsModel"]), "!names the architecture 'VitsModel', but of those with"),
        (settings(architectures=None), "!names the architecture 'none'"),
        (settings(reduction_factor=3), "!'reduction_factor' in .*config.json must be 2, .* but is 3"),
        (renamed("decoder_with_past_model", "speaker_embeddings"),
         "!decoder_with_past_model.onnx has no 'speaker_embeddings', which Text2SpeechPipeline sets or reads"),
        (renamed("decoder_postnet_and_vocoder", "spectrogram"), "!must read 'spectrogram' alone and return")),
    *of(vision,
        (without("onnx/embed_tokens.onnx"),
         "has vision_encoder.onnx and decoder_model_merged.onnx, but no embed_tokens.onnx"),
        (without("onnx/decoder_model_merged.onnx"), "but no decoder_model_merged.onnx"),
        (without(f"{parts}.onnx", "onnx/embed_tokens.onnx"),
         "reads 'inputs_embeds', but .* has no model of embeddings beside it"),
        (without("preprocessor_config.json"),
         "has no preprocessor_config.json, and no processor_config.json with an 'image_processor'"),
        (both(settings(model_type="internvl"), text("preprocessor_config.json", '{"image_mean": [0, 0, 0]}')),
         "must have a 'size' with 'height', the side of the images' tiles"),
        (without(f"{parts}.onnx"), "but no vision_encoder.onnx"),
        (settings(model_type=None), "config.json must name the 'model_type'"),
        (settings(model_type="phi3_v"),
         "!of the type 'phi3_v', whose tiles .*; of those of VLMPipeline gemma3, .*, qwen3_vl can be"),
        (settings(model_type="paligemma"), "!is of the type 'paligemma'; of those of"),
        (as_model(parts, lambda: vision_encoder(inputs=("pixel_values", "image_sizes"))),
         "!reads 'image_sizes', too: VLMPipeline gives this model pixel_values")),
    *of(FAMILIES["qwen2_vl"].write,
        processor({"merge_size": 1}, "!positions of patches differ from what openvino-genai computes")),
    *of(windows,
        (settings(vision_config={"window_size": 96}),
         "!the order of the tokens differs from what openvino-genai computes"),
        (settings(vision_config={"window_size": 8}),
         "'window_size' .* must be at least the side of a token, 2 patches, but is 8"),
        (settings(model_type="qwen2_vl", vision_config={"window_size": 32}),
         "!the positions of patches differ|is read by .* for more than"),
        (model(parts, lambda graph: setattr(node(graph, "Equal"), "op_type", "Less")),
         "!the mask of attention hides patches of the same image, in another way"),
        (model(parts, swap_shown_and_hidden), "!the mask of attention hides patches of the same image"),
        (model(parts, add_to_scores),
         "!the mask of attention adds other values than 0 to patches that it does not hide")),
    *of(table,
        (settings(vision_config={"num_position_embeddings": None}), "must have 'num_position_embeddings', by which"),
        (settings(vision_config={"deepstack_visual_indexes": None}), "must have 'deepstack_visual_indexes'"),
        (settings(vision_config={"deepstack_visual_indexes": [0, 1]}),
         "!'deepstack_embeds' has states for 1 layers, but .* 2"),
        (settings(vision_config={"num_position_embeddings": 35}),
         "!a square of positions .* but has 1 such sums and 35 positions"),
        (settings(vision_config={"num_position_embeddings": 64}),
         "!interpolated in another way than openvino-genai does"),
        (as_model(parts, lambda: patch_encoder(has_table=True, interpolation="half_pixel")),
         "!interpolated in another way"),
        (as_model(parts, patch_encoder),
         "!vision_encoder.onnx must return 'deepstack_features', which decoder layers add")),
    *of(genai,
        (settings("genai_config", model={"embedding": ...}), "but no 'embedding' in genai_config.json"),
        (settings("genai_config", model={"embedding": {"filename": "other.onnx"}}),
         "names 'other.onnx', but there is no such file")),
    *of(image,
        processor({"image_processor_type": "YolosImageProcessor"},
                  "!is for YolosImageProcessor, but steps can be taken from the settings of Beit, Bit"),
        processor({"image_processor_type": None}, "must name its class as 'image_processor_type'"),
        processor({"resample": 1}, "!the filter 'resample': 1"),
        processor({"do_pad": True}, "!requires do_pad"),
        processor({"ensure_multiple_of": 14}, "!ensure_multiple_of 14"),
        processor({"keep_aspect_ratio": True}, "!requires keep_aspect_ratio"),
        processor({"size": {"height": ..., "width": ..., "shortest_edge": 8, "longest_edge": 20}},
            "!rounded to integers"),
        processor({**CLIP, "size": {"height": ..., "width": ..., "shortest_edge": 17}, "crop_size": 18},
                  r"!a crop to \(18, 18\) of images of the size 17, which pads"),
        processor({"do_resize": False, "do_center_crop": True}, "!do_center_crop without do_resize"),
        processor({"size": None}, "'size' in preprocessor_config.json must have 'height' and 'width', or"),
        processor({"size": {"height": 3.5, "width": 2}}, "must have 'height' and 'width'"),
        processor({"do_resize": "yes"}, "'do_resize' .* must be true or false, but is 'yes'"),
        processor({"image_mean": [1, 2]}, "'image_mean' .* must be 3 numbers"),
        processor({"rescale_factor": 0}, "'rescale_factor' .* must be a positive number, but is 0"),
        (without("preprocessor_config.json"), r"has no preprocessor_config\.json, from which preprocess_images takes"),
        (unchanged, "preprocess_images must be True or False", {"preprocess_images": "yes"}),
        (unchanged, r"takes the steps from preprocessor_config\.json: give no other steps",
         {"preprocess": {"pixel_values": converter.Preprocess(scale=255)}}),
        (model("model", lambda graph: [setattr(graph.input[0].type.tensor_type.shape.dim[index], "dim_value", length)
                                       for index, length in ((2, 13), (3, 12))]),
         "has the height and width 13, 12, but size is"),
        preprocess_images=True),
]  # fmt: skip


@pytest.mark.parametrize(("write", "edit", "message", "error", "options"), ROWS, ids=[row[2][:60] for row in ROWS])
def test_refused(
    write: Any, edit: Edit, message: str, error: type[Exception], options: dict[str, Any], tmp_path: Path
) -> None:
    write(tmp_path / "onnx")
    edit(tmp_path / "onnx")
    with pytest.raises(ConversionError, match=message) as caught:
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir", **options)
    assert isinstance(caught.value, UnsupportedModelError) == (error is UnsupportedModelError)
    assert not (tmp_path / "ir").exists()
