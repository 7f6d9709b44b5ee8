"""The names of operator domains."""

from __future__ import annotations

ML = "ai.onnx.ml"
"""The domain of ONNX's operators of classical machine learning."""
MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators."""
LOCAL_FUNCTIONS = "onnx2ir"
"""The domain of the functions that an exported model holds itself."""


def normalize_domain(domain: str) -> str:
    """The short name of a domain: ``ai.onnx`` is the long name of the default domain, ``""``."""
    return "" if domain == "ai.onnx" else domain
