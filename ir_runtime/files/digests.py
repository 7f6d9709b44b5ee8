"""BLAKE2b without an import of ``hashlib``, which has the same function, but loads OpenSSL: 3 MiB of memory."""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # a Python without this built-in module
    from hashlib import blake2b

__all__ = ["blake2b"]
