"""ir_runtime stands alone: importing it loads neither ONNX nor the converter nor a command line."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("ir_runtime", ["onnx", "onnxruntime", "openvino", "click", "rich", "converter", "google.protobuf"]),
        ("converter", ["onnxruntime", "openvino", "click", "rich"]),
    ],
)
def test_import_loads_nothing_forbidden(package: str, forbidden: list[str]) -> None:
    code = f"import sys, {package}; print([n for n in {forbidden!r} if n in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
