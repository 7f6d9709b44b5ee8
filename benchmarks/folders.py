"""Convert folders of every architecture and layout, run them in openvino-genai, and compare with onnxruntime.

    python benchmarks/folders.py FOLDER --python TORCH_PYTHON --mobius MOBIUS_PYTHON   # makes missing folders
    python benchmarks/folders.py FOLDER --only llava speecht5                          # with existing ones

``make_folders.py`` says what the interpreters need. Results are written to ``docs/measured_folders.json``, from which
``docs/generate.py`` makes the table of docs/pipelines.md. Needs openvino-genai, openvino-tokenizers and onnxruntime.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import openvino
import openvino_genai
import openvino_tokenizers
import quiet_peers  # noqa: F401
from diffusion_oracle import Flow, Images
from tokenizers import Tokenizer
from transformers import AutoTokenizer, WhisperFeatureExtractor

import converter
import ir_runtime
from converter.folders.recognition import recognise
from tests.converter.language_models.encoder_decoders import Listener
from tests.converter.pipelines.images import Speech
from tests.converter.pipelines.texts import POOLINGS, TEXTS, encode
from tests.converter.pipelines.vision import FAMILIES, VisionLanguageModel
from tests.engines import OnnxSession

Array = np.ndarray
ROOT = Path(__file__).parent.parent
MEASURED = ROOT / "docs/measured_folders.json"
EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
"""Properties with which OpenVINO computes and stores states in float32."""
FLOATS = {"INFERENCE_PRECISION_HINT": "f32"}
TOKENS = 32
"""Number of tokens to generate."""
PATCH, IMAGE_SIDE = 14, 28
TOLERANCE = 1e-4
"""Tolerance of arrays, relative to the largest value."""
ONE_STEP = 0.02
"""Tolerance of arrays that are computed from images whose bytes may differ by one."""


class Result:
    """Description of a comparison, its largest difference or number of different rows, and the verdict."""

    def __init__(self, measured: str, difference: str, is_equal: bool) -> None:
        self.measured, self.difference, self.is_equal = measured, difference, bool(is_equal)


def compare_arrays(
    measured: str, results: Sequence[Array], expected: Sequence[Array], limit: float = TOLERANCE
) -> Result:
    """Compare pairs of arrays by their largest difference, relative to the largest expected value."""
    differences = []
    for result, right in zip(results, expected, strict=True):
        assert result.shape == right.shape, (result.shape, right.shape)
        assert np.std(right) > 0
        differences.append(np.abs(result - right).max() / np.abs(right).max())
    return Result(measured, f"{max(differences):.1e} of the largest", max(differences) <= limit)


def compare_tokens(measured: str, pairs: Sequence[tuple[Any, Any]], variety: set[int]) -> Result:
    """Compare ``pairs`` of rows of tokens, result first; ``variety`` are all expected tokens, which must be several."""
    wrong = [index for index, (result, expected) in enumerate(pairs) if result != expected]
    if len(variety) < 8:
        return Result(measured, f"{len(variety)} different tokens prove little", False)
    return Result(measured, f"{len(wrong)} of {len(pairs)} differ" if wrong else "equal", not wrong)


class Session(OnnxSession):
    """A model in onnxruntime, called with inputs by name; further entries are ignored."""

    @property
    def empty_caches(self) -> dict[str, Array]:
        """The inputs of the KV cache before the first call."""
        types = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
        caches = {}
        for name, port in self.inputs.items():
            if name.startswith("past_key_values"):
                dims = [length if isinstance(length, int) else 0 for length in port.shape]
                caches[name] = np.zeros([1, *dims[1:]], types[port.type])
        return caches


def returned_caches(values: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of the KV cache under the names of the next call's inputs."""
    return {name.replace("present", "past_key_values"): value for name, value in values.items() if "present" in name}


def compare_language_model(source: Path, target: Path, facts: Mapping[str, Any]) -> Result:
    session = Session(recognise(source, variant=variant_of(facts)).parts[0].source)
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    greedy = openvino_genai.GenerationConfig(
        max_new_tokens=TOKENS, do_sample=False, ignore_eos=True, apply_chat_template=False
    )
    prompts = [np.array([tokenizer.encode(text).ids]) for text in ("Once upon a time", "def main(x):", "42 is")]

    def run(values: Mapping[str, Array]) -> Array:
        nonlocal caches
        outputs = session({**values, **caches})
        caches = returned_caches(outputs)
        return outputs["logits"]

    expected = []
    for prompt in prompts:
        caches = session.empty_caches
        expected.append(greedy_tokens(run, prompt))
    pairs = []
    for backend in ("SDPA", "PA"):
        pipeline = openvino_genai.LLMPipeline(target, "CPU", ATTENTION_BACKEND=backend, **EXACT)
        for prompt, tokens in zip(prompts, expected):
            pairs.append((list(pipeline.generate(openvino.Tensor(prompt), greedy).tokens[0]), tokens))
    variety = {token for row in expected for token in row}
    result = compare_tokens(f"{TOKENS} tokens of 3 prompts, SDPA and PA", pairs, variety)
    if not result.is_equal:
        model = ir_runtime.read_model(target / "openvino_model.xml")
        session_in_numpy = ir_runtime.compile_model(model).session()
        names = [name for node in model.parameters for name in node.end_names]
        rows = []
        for prompt in prompts:
            session_in_numpy.reset()
            rows.append(
                greedy_tokens(lambda values: session_in_numpy({name: values[name] for name in names})["logits"], prompt)
            )
        result.difference += f" in OpenVINO, {'none' if rows == expected else 'some'} in NumPy"
    return result


def greedy_tokens(run: Callable[[Mapping[str, Array]], Array], prompt: Array) -> list[int]:
    """Generate tokens greedily; ``run`` returns logits, and keeps the KV cache between calls."""
    step, tokens, length = prompt, list[int](), 0
    while len(tokens) < TOKENS:
        positions = np.arange(length, length + step.shape[1])[None]
        length += step.shape[1]
        inputs = {"input_ids": step, "attention_mask": np.ones((1, length), np.int64), "position_ids": positions}
        tokens.append(int(run({**inputs, "beam_idx": np.zeros(1, np.int32)})[0, -1].argmax()))
        step = np.array([tokens[-1:]])
    return tokens


def compare_images_and_texts(source: Path, target: Path, facts: Mapping[str, Any]) -> Result:
    family = FAMILIES["internvl" if facts["architecture"] == "internvl_chat" else facts["architecture"]]
    parts = recognise(source, variant=variant_of(facts)).parts
    files = {
        "vision_encoder": parts[0].source,
        "embed_tokens": parts[-2].source,
        "decoder_model_merged": parts[-1].source,
    }
    reference = VisionLanguageModel(source, files, PATCH)
    has_patches = facts["architecture"].startswith("qwen")
    shape = (2 * IMAGE_SIDE, 3 * IMAGE_SIDE) if has_patches else (IMAGE_SIDE, IMAGE_SIDE)
    images = [np.random.default_rng(seed).integers(0, 256, (*shape, 3)).astype(np.uint8) for seed in range(2)]
    image = family.start + family.tokens[0] * len(reference._states(images[0])[0]) + family.end
    prompts = {
        "what is it": ("what is it", 0),
        f"{image}what is it": ("what is it", 1),
        f"{image}and {image}what differs": (f"{family.mark}and {family.mark}what differs", 2),
    }
    greedy = openvino_genai.GenerationConfig(
        max_new_tokens=TOKENS, do_sample=False, ignore_eos=True, apply_chat_template=False
    )
    pairs, variety = [], set[int]()
    for backend in family.backends:
        pipeline = openvino_genai.VLMPipeline(target, "CPU", ATTENTION_BACKEND=backend, **EXACT)
        for text, (prompt, count) in prompts.items():
            expected, listener = reference.generate(text, images[:count], TOKENS), Listener()
            shown = [openvino.Tensor(array[None]) for array in images[:count]]
            pipeline.generate(prompt, images=shown, generation_config=greedy, streamer=listener)
            pairs.append((listener.tokens, expected))
            variety |= set(expected)
    backends = " and ".join(family.backends)
    return compare_tokens(f"{TOKENS} tokens of prompts with 0, 1 and 2 images, {backends}", pairs, variety)


def compare_embeddings(source: Path, target: Path, facts: Mapping[str, Any]) -> Result:
    pool = next(function for mode, normalizes, function in POOLINGS.values() if mode == facts["pooling"] and normalizes)
    call = recognise(source).call.removesuffix(")") + ", **FLOATS)"
    pipeline = eval(call, {"openvino_genai": openvino_genai, "FOLDER": target, "FLOATS": FLOATS})
    feeds = encode(source, *TEXTS)
    states = Session(source / "model.onnx")(feeds)["last_hidden_state"]
    expected = pool(states, feeds["attention_mask"])
    expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    return compare_arrays("embeddings of 3 texts", [np.array(pipeline.embed_documents(TEXTS))], [expected])


def compare_ranking(source: Path, target: Path, facts: Mapping[str, Any]) -> Result:
    pipeline = openvino_genai.TextRerankPipeline(target, "CPU", top_n=3, **FLOATS)
    logits = Session(source / "model.onnx")(encode(source, *["a question"] * 3, second=TEXTS))["logits"].astype(float)
    powers = np.exp(logits - logits.max(1, keepdims=True))
    is_score = logits.shape[1] == 1
    expected = 1 / (1 + np.exp(-logits[:, 0])) if is_score else (powers / powers.sum(1, keepdims=True))[:, 1]
    scores = dict(pipeline.rerank("a question", TEXTS))
    return compare_arrays("scores of 3 texts", [np.array([scores[row] for row in range(3)])], [expected])


def compare_images(source: Path, target: Path, facts: Mapping[str, Any]) -> Result:
    """Compare the image after three steps; openvino-genai truncates its values to integers."""
    is_flow, length = (source / "transformer").is_dir(), 64

    def encode_padded(name: str, text: str) -> Array:
        tokenizer = AutoTokenizer.from_pretrained(source / name)
        count = min(tokenizer.model_max_length, 77 if "CLIP" in type(tokenizer).__name__ else length)
        return np.asarray(tokenizer([text], padding="max_length", truncation=True, max_length=count)["input_ids"])

    pipeline = openvino_genai.Text2ImagePipeline(target, "CPU", **FLOATS)
    options: dict[str, Any] = {"num_inference_steps": 3, "guidance_scale": 4.0}
    oracle = Flow(source, encode_padded) if is_flow else Images(source, encode_padded)
    if is_flow:
        options |= {"height": 64, "width": 64, "max_sequence_length": length}
    image = pipeline.generate("ab a cat", generator=openvino_genai.CppStdGenerator(1), **options).data.astype(float)
    sizes = {"side": 32} if is_flow else {}
    expected = oracle.generate("ab a cat", steps=3, guidance=4.0, seed=1, **sizes)
    difference = np.abs(image - expected).max()
    return Result("an image, 3 steps", f"{difference:.2f} of 255", bool(difference <= 1.01))


def compare_speech_recognition(source: Path, target: Path, facts: Mapping[str, Any]) -> Result:
    sessions = {name: Session(source / f"{name}.onnx") for name in ("encoder_model", "decoder_model")}
    sessions["decoder_with_past_model"] = Session(source / "decoder_with_past_model.onnx")
    pipeline = openvino_genai.WhisperPipeline(target, "CPU", **EXACT)
    pairs, variety = [], set[int]()
    for seed in range(2):
        speech = np.random.default_rng(seed).normal(scale=0.1, size=32000).astype(np.float32)
        features = WhisperFeatureExtractor()(speech, sampling_rate=16000, return_tensors="np")["input_features"]
        states = sessions["encoder_model"]({"input_features": features.astype(np.float32)})["last_hidden_state"]
        values, tokens, step = {"encoder_hidden_states": states}, list[int](), np.array([facts["prompt"]])
        while len(tokens) < TOKENS:
            name = "decoder_with_past_model" if tokens else "decoder_model"
            outputs = sessions[name]({**values, "input_ids": step})
            values |= returned_caches(outputs)
            logits = outputs["logits"][0, -1]
            logits[2] = -np.inf
            tokens.append(int(logits.argmax()))
            step = np.array([tokens[-1:]])
        listener = Listener()
        options = {"max_new_tokens": TOKENS, "language": "<|en|>", "task": "transcribe"}
        pipeline.generate(speech.tolist(), streamer=listener, **options)
        pairs.append((listener.tokens, tokens))
        variety |= set(tokens)
    return compare_tokens(f"{TOKENS} tokens of 2 sounds", pairs, variety)


def compare_speech(source: Path, target: Path, facts: Mapping[str, Any]) -> Result:
    pipeline = openvino_genai.Text2SpeechPipeline(target, "CPU", **EXACT)
    reference, results, expected = Speech(source), [], []
    for seed, text in enumerate(("what is it", "hello, you there")):
        speaker = np.random.default_rng(seed).normal(size=(1, 512)).astype(np.float32)
        options = {"threshold": 1.0, "minlenratio": 3.0, "maxlenratio": 4.0}
        speech = pipeline.generate(text, openvino.Tensor(speaker), **options).speeches[0]
        results.append(np.array(speech.data).reshape(-1))  # the memory is the tensor's
        expected.append(reference.speak(text, speaker, threshold=1.0, least=3.0, most=4.0))
    return compare_arrays("waveforms of 2 texts", results, expected)


def compare_single(source: Path, target: Path, facts: Mapping[str, Any]) -> Result:
    session = Session(source / "model.onnx")
    core = openvino.Core()
    core.add_extension(openvino_tokenizers._ext_path)
    model = core.compile_model(target / "openvino_model.xml", "CPU", FLOATS)
    results, expected = [], []
    if "input_ids" in session.inputs:
        tokens = core.compile_model(target / "openvino_tokenizer.xml", "CPU")(TEXTS)
        values = {port.any_name: value for port, value in tokens.items()}
        outputs = model({port.any_name: values[port.any_name] for port in model.inputs})
        right = session(encode(source, *TEXTS))
        mask = values["attention_mask"].astype(bool)
        for name, value in right.items():
            rows = mask if value.ndim > 1 and value.shape[:2] == mask.shape else ...
            results.append(outputs[name][rows])
            expected.append(value[rows])
        return compare_arrays(f"{', '.join(right)} of 3 texts, with the tokenizer as IR", results, expected)
    if facts["processor"] is None:
        pixels = np.random.default_rng(0).normal(size=(2, 3, 32, 32)).astype(np.float32)
        outputs, right = model({"pixel_values": pixels}), session({"pixel_values": pixels})
        names = ", ".join(right)
        return compare_arrays(f"{names} of 2 images", [outputs[name] for name in right], list(right.values()))
    arrays = np.load(source / "images.npz")
    for index in range(3):
        outputs = model({"pixel_values": arrays[f"image{index}"][None]})
        right = session({"pixel_values": arrays[f"pixels{index}"].astype(np.float32)})
        results += [outputs[name] for name in right]
        expected += right.values()
    measured = f"{', '.join(right)} of 3 images, behind {facts['processor']}ImageProcessor"
    return compare_arrays(measured, results, expected, ONE_STEP)


COMPARISONS: Mapping[str, Callable[[Path, Path, Mapping[str, Any]], Result]] = {
    "LLMPipeline": compare_language_model,
    "VLMPipeline": compare_images_and_texts,
    "TextEmbeddingPipeline": compare_embeddings,
    "TextRerankPipeline": compare_ranking,
    "Text2ImagePipeline": compare_images,
    "WhisperPipeline": compare_speech_recognition,
    "Text2SpeechPipeline": compare_speech,
    "OpenVINO": compare_single,
}


def variant_of(facts: Mapping[str, Any]) -> str | None:
    """Return the argument of ``--variant`` for a folder of transformers.js, None for other layouts."""
    if facts["layout"] != "transformers.js":
        return None
    return {"fp32": None, "q8": "quantized"}.get(facts["variant"], facts["variant"])


def measure(source: Path) -> dict[str, Any]:
    """Convert a folder and compare its results; return the row of the table."""
    facts = json.loads((source / "made.json").read_text())
    options: dict[str, Any] = {"variant": variant_of(facts), "task": facts.get("task")}
    options |= {"preprocess_images": True} if facts.get("processor") else {}
    arguments = [
        f"--{name.replace('_', '-')}{'' if value is True else f' {value}'}" for name, value in options.items() if value
    ]
    row = {name: facts.get(name) for name in ("architecture", "layout", "variant")}
    row["command"] = " ".join(["onnx2ir convert FOLDER -o OUT", *arguments])
    try:
        with tempfile.TemporaryDirectory() as target:
            written = converter.convert_folder(source, target, **options)
            row |= {"task": written.pipeline.task, "runtime": written.pipeline.runtime}
            result = COMPARISONS[written.pipeline.runtime](source, Path(target), facts)
            row |= {"measured": result.measured, "difference": result.difference, "equal": result.is_equal}
    except Exception as error:
        traceback.print_exc(limit=3)
        row |= {"measured": "", "difference": f"{type(error).__name__}: {str(error)[:200]}", "equal": False}
    return row


def main() -> None:
    """Make missing folders, measure all, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder that has them, or in which they are made")
    parser.add_argument("--python", metavar="PATH", help="the interpreter with torch and optimum-onnx")
    parser.add_argument("--mobius", metavar="PATH", help="the interpreter with mobius-onnx")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="these folders alone; nothing is written")
    arguments = parser.parse_args()
    for exporter, interpreter in (("optimum", arguments.python), ("mobius", arguments.mobius)):
        if interpreter:
            maker = [interpreter, str(ROOT / "benchmarks/make_folders.py"), exporter, str(arguments.folder)]
            subprocess.run([*maker, *(["--only", *arguments.only] if arguments.only else [])], check=True)
    rows = {}
    for path in sorted(arguments.folder.glob("*/made.json")):
        name = path.parent.name
        if arguments.only and name not in arguments.only:
            continue
        row = rows[name] = measure(path.parent)
        mark = "equal" if row["equal"] else "DIFFERENT"
        print(f"| {name} | {row['architecture']} | {row['layout']} | {row.get('runtime')} | {row['measured']} | "
              f"{row['difference']} | {mark} |", flush=True)  # fmt: skip
    if not arguments.only:
        packages = ("openvino", "openvino-genai", "openvino-tokenizers", "onnxruntime")
        versions = {name: importlib.metadata.version(name) for name in packages}
        MEASURED.write_text(json.dumps({"versions": versions, "folders": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
