"""Encoder-decoders that Optimum exported, in optimum-intel: are the tokens those of onnxruntime?

Needs two environments beside that of onnx2ir, as optimum-onnx and optimum-intel ask for other releases of
transformers. Small checkpoints with random weights are made, exported, converted and compared:

    python benchmarks/encoder_decoders.py make FOLDER       # torch, transformers 4.57, optimum-onnx
    for m in FOLDER/*; do onnx2ir convert $m/onnx --stateful -o $m/ir; done
    python benchmarks/encoder_decoders.py compare FOLDER    # optimum-intel

``make`` writes what onnxruntime generates to ``tokens.json``: greedy, and with three beams, for a batch of three.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

TOKENS, VOCABULARY, BEAMS = 48, 300, (1, 3)
SPEECH = "automatic-speech-recognition-with-past"
TEXT = "text2text-generation-with-past"
WIDE = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4} | {
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "vocab_size": VOCABULARY,
}
T5 = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": VOCABULARY}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3}


def checkpoints() -> dict[str, tuple[str, Callable[[], Any]]]:
    """Tasks and configurations."""
    import transformers as tr

    return {
        "whisper": (SPEECH, lambda: tr.WhisperConfig(**WIDE, **SPECIAL, suppress_tokens=[], begin_suppress_tokens=[])),
        "t5": (TEXT, lambda: tr.T5Config(**T5, decoder_start_token_id=0, tie_word_embeddings=False)),
        "t5-gated": (
            TEXT,
            lambda: tr.T5Config(
                **T5, decoder_start_token_id=0, tie_word_embeddings=False, feed_forward_proj="gated-gelu"
            ),
        ),
        "bart": (TEXT, lambda: tr.BartConfig(**WIDE, **SPECIAL)),
        "marian": (TEXT, lambda: tr.MarianConfig(**WIDE, **SPECIAL)),
        "m2m_100": (TEXT, lambda: tr.M2M100Config(**WIDE, **SPECIAL)),
        "pegasus": (TEXT, lambda: tr.PegasusConfig(**WIDE, **SPECIAL)),
        "blenderbot": (TEXT, lambda: tr.BlenderbotConfig(**WIDE, **SPECIAL)),
    }


def inputs_of(task: str) -> dict[str, Any]:
    """Three spectrograms, or three texts of different lengths."""
    import torch

    source = torch.Generator().manual_seed(0)
    if task == SPEECH:
        return {"input_features": torch.randn(3, 80, 3000, generator=source)}
    ids = torch.randint(4, VOCABULARY, (3, 12), generator=source)
    mask = (torch.arange(12) < torch.tensor([[12], [7], [4]])).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def generated(model: Any, task: str) -> Iterator[list[list[int]]]:
    for beams in BEAMS:
        options = {"num_beams": beams, "do_sample": False, "max_new_tokens": TOKENS, "min_new_tokens": TOKENS}
        yield model.generate(**inputs_of(task), **options).tolist()


def make(folder: Path, names: list[str]) -> None:
    import torch
    import transformers as tr
    from optimum.exporters.onnx import main_export
    from optimum.onnxruntime import ORTModelForSeq2SeqLM, ORTModelForSpeechSeq2Seq

    for name, (task, configuration) in checkpoints().items():
        if names and name not in names:
            continue
        torch.manual_seed(1)
        kind = tr.AutoModelForSpeechSeq2Seq if task == SPEECH else tr.AutoModelForSeq2SeqLM
        model = kind.from_config(configuration()).eval()
        with torch.no_grad():  # weights as they come repeat one token
            for key, weight in model.named_parameters():
                if weight.ndim >= 2:
                    weight.mul_(40 if "positions" in key else 1 if "shared" in key or "embed_tokens" in key else 4)
        model.save_pretrained(folder / name / "hf")
        if task == SPEECH:
            tr.WhisperFeatureExtractor().save_pretrained(folder / name / "hf")
        main_export(str(folder / name / "hf"), str(folder / name / "onnx"), task=task, do_validation=False)
        runs = (ORTModelForSpeechSeq2Seq if task == SPEECH else ORTModelForSeq2SeqLM).from_pretrained(
            folder / name / "onnx", use_cache=True
        )
        (folder / name / "tokens.json").write_text(json.dumps({"task": task, "tokens": list(generated(runs, task))}))


def compare(folder: Path, names: list[str]) -> None:
    from optimum.intel import OVModelForSeq2SeqLM, OVModelForSpeechSeq2Seq

    print("| model | rows | tokens a row | different tokens | greedy | 3 beams |")
    print("| --- | ---: | ---: | ---: | --- | --- |")
    for path in sorted(folder.glob("*/tokens.json")):
        if names and path.parent.name not in names:
            continue
        wanted = json.loads(path.read_text())
        kind = OVModelForSpeechSeq2Seq if wanted["task"] == SPEECH else OVModelForSeq2SeqLM
        exact = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
        model = kind.from_pretrained(path.parent / "ir", ov_config=exact)
        found = list(generated(model, wanted["task"]))
        marks = ["equal" if ours == theirs else "DIFFERENT" for ours, theirs in zip(found, wanted["tokens"])]
        rows = wanted["tokens"][0]
        distinct = len({token for row in rows for token in row})
        print(f"| {path.parent.name} | {len(rows)} | {len(rows[0])} | {distinct} | {' | '.join(marks)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="of these models alone")
    arguments = parser.parse_args()
    {"make": make, "compare": compare}[arguments.what](arguments.folder, arguments.only)
