"""Results on stdout: tables, JSON, and sizes such as ``1.5 MiB``. rich is imported when a table is printed."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def out() -> Console:
    """The console on stdout, which does not wrap lines in files and pipes."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def json_text(value: Any) -> str:
    return json.dumps(plain(value), indent=2, ensure_ascii=False)


def plain(value: Any) -> Any:
    """``value`` with texts for the numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def size_text(count: int) -> str:
    """A number of bytes, such as ``1.5 MiB``."""
    from ir_runtime.report import size_text as text

    return text(count)
