"""Folders with a small decoder, as onnxruntime-genai's builder leaves them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from .decoders import HEADS, HIDDEN, LAYERS, POSITIONS, SIZE, VOCABULARY, Decoder

SPECIAL = ("<pad>", "<s>", "</s>")
TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant: "


def write_folder(folder: Path, decoder: Decoder) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(decoder.build(), folder / "model.onnx")
    inputs = {name: name for name in ("input_ids", "attention_mask", *["position_ids"] * decoder.has_positions)}
    caches = {f"past_{part}_names": f"past_key_values.%d.{part}" for part in ("key", "value")}
    outputs = {
        name.replace("past", "present"): value.replace("past_key_values", "present") for name, value in caches.items()
    }
    part = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []}, "filename": "model.onnx",
        "head_size": SIZE, "hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS,
        "num_key_value_heads": decoder.shared, "inputs": inputs | caches, "outputs": {"logits": "logits", **outputs},
    }  # fmt: skip
    model = {
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "context_length": POSITIONS, "type": "llama",
        "vocab_size": VOCABULARY, "decoder": part,
    }  # fmt: skip
    search = {"do_sample": False, "max_length": POSITIONS, "num_beams": 1, "top_k": 50}
    write_json(folder / "genai_config.json", {"model": model, "search": search})
    write_tokenizer(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def write_tokenizer(folder: Path, processor: Any = None, **settings: Any) -> None:
    """A tokenizer of single bytes; ``processor`` joins two texts."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate([*SPECIAL, *alphabet])}, []))
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if processor is not None:
        tokenizer.post_processor = processor
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = dict(zip(("pad_token", "bos_token", "eos_token"), SPECIAL))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **names, **settings}
    write_json(folder / "tokenizer_config.json", settings)


def write_json(path: Path, values: object) -> None:
    path.write_text(json.dumps(values, indent=2))
