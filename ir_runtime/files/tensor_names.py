"""Tensor names in the IR: comma-separated, with a comma in a name as ``\\,``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import ModelError


def join_names(names: Iterable[str]) -> str:
    """The ``names`` attribute for these tensor names.

    Nothing but the comma can be escaped, so a name that ends in a backslash must stand last; two of
    them on one tensor cannot be written, which raises :class:`ModelError`.
    """
    plain = [name for name in names if name]
    last = [name for name in plain if name.endswith("\\")]
    if len(last) > 1:
        raise ModelError(f"the tensor names {last} both end in a backslash, which the IR cannot hold")
    ordered = [name for name in plain if not name.endswith("\\")] + last
    return ",".join(name.replace(",", "\\,") for name in ordered)


def split_names(text: str) -> list[str]:
    """The tensor names of a ``names`` attribute."""
    parts = re.split(r"(?<!\\),", text)
    return [part.replace("\\,", ",") for part in parts if part]
