"""Tokenizers that several folders have are converted once."""

from tests.converter.language_models.converted_tokenizers import converted_tokenizers, tokenizers_once  # noqa: F401
