"""Tokenizers that several folders have are converted once."""

from tests.converter.language_models.decoders import converted_tokenizers, tokenizers_once  # noqa: F401
