"""``config.json`` and ``generation_config.json`` from the settings of onnxruntime-genai.

https://onnxruntime.ai/docs/genai/reference/config.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SEARCH = (
    *("do_sample", "num_beams", "num_return_sequences", "max_length", "min_length", "temperature", "top_k", "top_p"),
    *("repetition_penalty", "length_penalty", "diversity_penalty", "no_repeat_ngram_size", "early_stopping"),
)
"""Settings with the same name and meaning in both files."""
TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
_DECODER = {
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "num_key_value_heads": "num_key_value_heads",
    "head_size": "head_dim",
}
_MODEL = {"type": "model_type", "vocab_size": "vocab_size", "context_length": "max_position_embeddings"}


def configuration_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``config.json`` for a model that only ``genai_config.json`` describes."""
    model = settings.get("model", {})
    decoder = model.get("decoder", {})
    collected = {name: model[key] for key, name in _MODEL.items() if key in model}
    collected |= {name: decoder[key] for key, name in _DECODER.items() if key in decoder}
    return collected | {name: model[name] for name in TOKENS if name in model}


def generation_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``generation_config.json`` for such a model."""
    model, search = settings.get("model", {}), settings.get("search", {})
    collected = {name: model[name] for name in TOKENS if name in model}
    return collected | {name: search[name] for name in SEARCH if name in search}
