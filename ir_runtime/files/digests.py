"""Digests of contents, without ``hashlib``: it gives the same, but loads OpenSSL, which takes 3 MiB."""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # a Python without this built-in module
    from hashlib import blake2b

__all__ = ["blake2b"]
