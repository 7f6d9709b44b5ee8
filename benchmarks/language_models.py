"""Language models of exporters, token by token and in time, beside onnxruntime-genai and optimum-intel.

    python benchmarks/language_models.py make llama FOLDER [--precision int4]     onnxruntime-genai's builder
    python benchmarks/language_models.py tokens FOLDER OUT                        greedy tokens, both backends
    python benchmarks/language_models.py speed FOLDER OUT [--beside IR_FOLDER]    ms a token, in turns

FOLDER holds ``model.onnx``, OUT is what ``onnx2ir convert FOLDER --stateful -o OUT`` makes of it. ``make`` needs torch
and transformers, and writes a random checkpoint to FOLDER/checkpoint first; Optimum and optimum-intel export that in
environments of their own. ``--beside`` is an IR that optimum-intel has made of the checkpoint.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import quiet_peers  # noqa: F401

VOCABULARY, PROMPTS, TOKENS = 600, (60, 35, 7), 64
_COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
_LARGE = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 10, "num_attention_heads": 8}
_MODELS: dict[str, tuple[str, dict[str, object]]] = {
    "llama": ("LlamaConfig", {}),
    "llama10": ("LlamaConfig", {**_LARGE, "num_key_value_heads": 4, "max_position_embeddings": 2048}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {"head_dim": 32}),
    "phi3": ("Phi3Config", {"sliding_window": None, "original_max_position_embeddings": 512}),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "gemma2": ("Gemma2Config", {"head_dim": 32, "sliding_window": 16, "query_pre_attn_scalar": 32}),
    "gpt_oss": (
        "GptOssConfig",
        {"head_dim": 32, "sliding_window": 16, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "lfm2": ("Lfm2Config", {"layer_types": ["conv", "full_attention"]}),
}


def make(name: str, folder: Path, precision: str) -> None:
    """A random checkpoint, and what onnxruntime-genai's builder makes of it."""
    import torch
    import transformers

    checkpoint = folder / "checkpoint"
    if not checkpoint.exists():
        torch.manual_seed(1)
        kind, own = _MODELS[name]
        model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, kind)(**{**_COMMON, **own})).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim >= 2:
                    parameter.mul_(3)  # small weights repeat one token, which proves nothing
        model.save_pretrained(checkpoint)
        write_tokenizer(checkpoint)
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", checkpoint, "-o", folder]
    command += ["-p", precision, "-e", "cpu", "-c", folder / "cache"]
    if precision == "int4":
        command += ["--extra_options", "int4_block_size=32"]
    subprocess.run(list(map(str, command)), check=True)
    if precision == "int4":
        _in_floats(folder / "model.onnx")


def write_tokenizer(folder: Path) -> None:
    """A tokenizer of bytes, with as many tokens as the models have."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = ["<pad>", "<s>", "</s>", *alphabet, *(f"<{index}>" for index in range(VOCABULARY - 3 - len(alphabet)))]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(names)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)


def _in_floats(path: Path) -> None:
    """``accuracy_level`` 1: the builder's 4 lets onnxruntime round activations to 8 bits."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "accuracy_level":
                attribute.i = 1
    onnx.save(model, path)


def prompts() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.integers(5, VOCABULARY - 5, (1, length)) for length in PROMPTS]


def onnx_tokens(folder: Path, prompt: np.ndarray) -> list[int]:
    """Greedy tokens of onnxruntime, with caches as inputs and outputs."""
    import converter
    from converter.equivalence.reference.references import OnnxReference
    from converter.equivalence.verdict.decoders import OnnxDecoder, caches_of

    reference = OnnxReference(folder / "model.onnx")
    decoder = OnnxDecoder(
        reference, caches_of(reference, converter.convert_model(folder / "model.onnx", stateful=True))
    )
    step, found = prompt, list[int]()
    while len(found) < TOKENS:
        step = decoder(step)[:, -1:].argmax(-1)
        found.append(int(step[0, 0]))
    return found


def tokens(folder: Path, out: Path) -> None:
    """How many of the first tokens agree with onnxruntime's, in both backends, alone and as a batch."""
    import openvino
    import openvino_genai

    wanted = [onnx_tokens(folder, prompt) for prompt in prompts()]
    settings = openvino_genai.GenerationConfig(max_new_tokens=TOKENS, do_sample=False, ignore_eos=True)
    longest = max(PROMPTS)
    batch = np.zeros((len(PROMPTS), longest), np.int64)
    mask = np.zeros_like(batch)
    for row, prompt in enumerate(prompts()):
        batch[row, -prompt.shape[1] :], mask[row, -prompt.shape[1] :] = prompt[0], 1
    print(f"| backend, cache | agreeing tokens of {TOKENS}, prompts of {', '.join(map(str, PROMPTS))} | as one batch |")
    print("| --- | --- | --- |")
    for backend in ("SDPA", "PA"):
        for cache in ("f32", "f16"):
            hints = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": cache, "ATTENTION_BACKEND": backend}
            try:
                found = openvino_genai.LLMPipeline(out, "CPU", **hints, DYNAMIC_QUANTIZATION_GROUP_SIZE="0")
            except RuntimeError as error:
                print(f"| {backend}, {cache} | refused: {str(error).strip().splitlines()[0]} | |")
                continue
            alone = [
                found.generate(_inputs(openvino, openvino_genai, one, np.ones_like(one)), settings).tokens[0]
                for one in prompts()
            ]
            together = found.generate(_inputs(openvino, openvino_genai, batch, mask), settings).tokens
            columns = (", ".join(str(_agreeing(a, b)) for a, b in zip(side, wanted)) for side in (alone, together))
            print(f"| {backend}, {cache} | {' | '.join(columns)} |")


def _inputs(openvino, genai, ids: np.ndarray, mask: np.ndarray):  # type: ignore[no-untyped-def]
    return genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(mask))


def _agreeing(found: Sequence[int], wanted: Sequence[int]) -> int:
    return next((at for at, (one, other) in enumerate(zip(found, wanted)) if one != other), len(wanted))


Times = Callable[[], list[float]]
"""The times of the first token, and of each after it, in seconds."""


def openvino_times(folder: Path, prompt: np.ndarray, count: int) -> Times:
    import openvino

    settings = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f16", "INFERENCE_NUM_THREADS": 2}
    compiled = openvino.Core().compile_model(folder / "openvino_model.xml", "CPU", settings)
    request, known = compiled.create_infer_request(), {name for port in compiled.inputs for name in port.names}

    def run() -> list[float]:
        request.reset_state()
        step, length, times = prompt, 0, []
        for _ in range(count):
            length += step.shape[1]
            feeds = {
                "input_ids": step,
                "attention_mask": np.ones((1, length), np.int64),
                "position_ids": np.arange(length - step.shape[1], length)[None],
                "beam_idx": np.zeros(1, np.int32),
            }
            start = time.perf_counter()
            logits = request.infer({name: value for name, value in feeds.items() if name in known})[0]
            times.append(time.perf_counter() - start)
            step = logits[:, -1:].argmax(-1)
        return times

    return run


def genai_times(folder: Path, prompt: np.ndarray, count: int) -> Times:
    import onnxruntime_genai as genai

    model = genai.Model(str(folder))

    def run() -> list[float]:
        options = genai.GeneratorParams(model)
        length = prompt.shape[1] + count
        options.set_search_options(max_length=length, min_length=length, do_sample=False)
        generator, times = genai.Generator(model, options), []
        start = time.perf_counter()
        generator.append_tokens(prompt.astype(np.int32))
        for _ in range(count):
            generator.generate_next_token()
            now = time.perf_counter()
            times.append(now - start)
            start = now
        return times

    return run


def speed(folder: Path, out: Path, beside: Path | None, length: int, count: int, rounds: int = 6) -> None:
    """Milliseconds of the first token and of one after it, each side in turn."""
    prompt = np.random.default_rng(0).integers(5, 200, (1, length))
    sides = {"ours": openvino_times(out, prompt, count)}
    if (folder / "genai_config.json").exists():
        sides["onnxruntime-genai"] = genai_times(folder, prompt, count)
    if beside is not None:
        sides["the IR beside"] = openvino_times(beside, prompt, count)
    found: dict[str, list[list[float]]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            found[name].append(run())
    print("| | first token, ms | ratio | token, ms | ratio |")
    print("| --- | ---: | ---: | ---: | ---: |")
    first = {name: 1e3 * min(times[0] for times in runs) for name, runs in found.items()}
    token = {name: 1e3 * statistics.median(one for times in runs for one in times[1:]) for name, runs in found.items()}
    for name in sides:
        ratios = first["ours"] / first[name], token["ours"] / token[name]
        print(f"| {name} | {first[name]:.1f} | {ratios[0]:.2f} | {token[name]:.2f} | {ratios[1]:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("name", choices=_MODELS)
    making.add_argument("folder", type=Path)
    making.add_argument("--precision", default="fp32", choices=["fp32", "fp16", "int4"])
    for name in ("tokens", "speed"):
        command = commands.add_parser(name)
        command.add_argument("folder", type=Path)
        command.add_argument("out", type=Path)
        if name == "speed":
            command.add_argument("--beside", type=Path)
            command.add_argument("--prompt", type=int, default=256)
            command.add_argument("--tokens", type=int, default=40)
    chosen = parser.parse_args()
    if chosen.command == "make":
        make(chosen.name, chosen.folder, chosen.precision)
    elif chosen.command == "tokens":
        tokens(chosen.folder, chosen.out)
    else:
        speed(chosen.folder, chosen.out, chosen.beside, chosen.prompt, chosen.tokens)


if __name__ == "__main__":
    main()
