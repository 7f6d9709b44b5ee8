"""Digests of contents. ``hashlib`` gives the same, and brings OpenSSL along: 3 MiB where nobody needs it."""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # a Python that has its digests elsewhere
    from hashlib import blake2b

__all__ = ["blake2b"]
