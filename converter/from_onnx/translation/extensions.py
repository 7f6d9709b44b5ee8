"""Loads a user's own operators from a Python file.

The file registers translators with ``@converter.onnx_op(...)`` and, if it needs them, IR operations
with ``@ir_runtime.operation(...)``. It is imported, nothing more.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from converter.errors import ConversionError
from ir_runtime.files.digests import blake2b


def load_extension(path: str | os.PathLike[str]) -> None:
    """Execute the Python file at ``path``, once a process. It runs with the caller's rights.

    Raises :class:`ConversionError` where it cannot be read or fails.
    """
    try:
        file = Path(path).resolve()
    except (OSError, ValueError) as error:
        raise ConversionError(f"the extension {os.fspath(path)!r} cannot be read: {error}") from error
    name = f"onnx2ir_extension_{blake2b(os.fsencode(file), digest_size=8).hexdigest()}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ConversionError(f"the extension {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a user's file raises, its own message is what helps
        del sys.modules[name]
        raise ConversionError(f"the extension {path} fails: {type(error).__name__}: {error}") from error
