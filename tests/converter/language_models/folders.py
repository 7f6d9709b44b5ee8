"""Folders with a small decoder, as onnxruntime-genai's builder leaves them."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from .decoders import HEADS, HIDDEN, LAYERS, POSITIONS, SIZE, VOCABULARY, Decoder

SPECIAL = ("<pad>", "<s>", "</s>")
TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant: "


def write_folder(folder: Path, decoder: Decoder) -> None:
    """Model, settings, tokenizer and chat template."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(decoder.build(), folder / "model.onnx")
    inputs = {
        "input_ids": "input_ids",
        "attention_mask": "attention_mask",
        "past_key_names": "past_key_values.%d.key",
        "past_value_names": "past_key_values.%d.value",
    }
    if decoder.has_positions:
        inputs["position_ids"] = "position_ids"
    outputs = {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}
    part = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": "model.onnx",
        "head_size": SIZE,
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": decoder.shared,
        "inputs": inputs,
        "outputs": outputs,
    }
    model = {
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "context_length": POSITIONS,
        "type": "llama",
        "vocab_size": VOCABULARY,
        "decoder": part,
    }
    search = {"do_sample": False, "max_length": POSITIONS, "num_beams": 1, "top_k": 50}
    write_json(folder / "genai_config.json", {"model": model, "search": search})
    write_tokenizer(folder)


def write_tokenizer(folder: Path) -> None:
    """A tokenizer of single bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
    }
    write_json(folder / "tokenizer_config.json", settings)
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def write_json(path: Path, values: object) -> None:
    path.write_text(json.dumps(values, indent=2))
