"""The JSON of commands: a result, or an error, with warnings, the times of stages, and versions.

``docs/json_output.schema.json`` describes it; documentation and tests use that file.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
from typing import TYPE_CHECKING, Any

import click

from converter.version import __version__

if TYPE_CHECKING:
    from ir_runtime.graph import PartialShape

_PACKAGES = ("onnx", "numpy")
_ENGINES = ("onnxruntime", "openvino")


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


def versions(used: str = "") -> dict[str, str | None]:
    """The versions of this package and of those that it stands on; None for what is not installed.

    Of what runs models those that this process has loaded, or ``used`` names.
    """
    from importlib import metadata

    versions_by_name: dict[str, str | None] = {"onnx2ir": __version__}
    for name in (*_PACKAGES, *(name for name in _ENGINES if name in sys.modules or name in used.lower())):
        versions_by_name[name] = None
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions_by_name[name] = metadata.version(name)
    return versions_by_name


def describe_error(error: Exception, exit_code: int) -> dict[str, Any]:
    """Return the JSON of an error: its type, message and exit code, and each problem of the model."""
    text = error.format_message() if isinstance(error, click.ClickException) else text_of(error)
    description: dict[str, Any] = {"type": type(error).__name__, "message": text, "exit_code": exit_code}
    problems = getattr(error, "problems", ())
    if problems:
        description["problems"] = [
            {
                "node": problem.node,
                "operator": problem.op_type,
                "domain": problem.domain,
                "opset": problem.opset,
                "reason": problem.reason,
            }
            for problem in problems
        ]
    return description


def text_of(error: Exception) -> str:
    """Return the message of an expected error."""
    return str(error) or ("there is not enough memory" if isinstance(error, MemoryError) else type(error).__name__)


def shape_list(shape: PartialShape) -> list[int | str | None] | None:
    """A shape: numbers, None for dynamic dimensions, texts such as ``"1..8"`` for those with limits.

    None where the rank is unknown.
    """
    if not shape.has_rank:
        return None
    texts = [(dimension, str(dimension)) for dimension in shape]
    return [dimension.value if dimension.is_static else None if text == "?" else text for dimension, text in texts]
