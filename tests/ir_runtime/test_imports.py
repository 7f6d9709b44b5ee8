"""What importing loads, and what it leaves for when it is needed."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import converter.command_line


def _loaded(code: str, names: list[str]) -> list[str]:
    """Those of ``names`` that are imported once ``code`` has run in a process of its own."""
    script = f"{code}\nimport sys, json\njson.dump([n for n in {names!r} if n in sys.modules], sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stderr)
    return found


@pytest.mark.parametrize(
    ("code", "forbidden"),
    [
        # ir_runtime stands alone, and takes lxml and hashlib with the first file.
        ("import ir_runtime", ["onnx", "onnxruntime", "openvino", "click", "rich", "converter", "google.protobuf"]),
        ("import ir_runtime", ["lxml", "ir_runtime.files.xml_reader", "ir_runtime.files.weights"]),
        ("import ir_runtime", ["numpy", "ir_runtime.graph", "ir_runtime.errors"]),
        ("import converter", ["onnx", "numpy", "ir_runtime.graph", "ir_runtime.errors", "click"]),
        (
            "import converter; converter.convert_model",
            ["onnx", "google.protobuf", "onnxruntime", "openvino", "click", "rich", "lxml", "difflib"],
        ),
    ],
)
def test_import_loads_nothing_forbidden(code: str, forbidden: list[str]) -> None:
    assert _loaded(code, forbidden) == []


COMMAND = """
from converter.command_line import main
try:
    main({arguments!r}, prog_name="onnx2ir")
except SystemExit as done:
    assert not done.code
"""


MODEL = """
import struct
def field(number, payload):
    return bytes([number << 3 | 2, len(payload)]) + payload
value = lambda name: field(1, name) + field(2, field(1, bytes([8, 1])))
node = field(1, b"x") + field(2, b"y") + field(4, b"Relu")
graph = field(1, node) + field(2, b"g") + field(11, value(b"x")) + field(12, value(b"y"))
data = bytes([8, 9]) + field(7, graph) + field(8, bytes([16, 17]))
"""
"""A Relu, written without onnx."""


def test_a_conversion_imports_what_it_needs(tmp_path: Path) -> None:
    code = f"""{MODEL}
open({str(tmp_path / "m.onnx")!r}, "wb").write(data)
{COMMAND.format(arguments=["--quiet", "convert", str(tmp_path / "m.onnx")])}"""
    unneeded = [
        "onnx",
        "ml_dtypes",
        "google.protobuf",
        "onnxruntime",
        "openvino",
        "rich",
        "lxml",
        "concurrent.futures",
        "difflib",
    ]
    unneeded += [
        "ir_runtime.execution.executor",
        "ir_runtime.execution.calls",
        "ir_runtime.execution.plan",
        "ir_runtime.execution.ports",
        "ir_runtime.operations.proposals",
        "converter.command_line.batch",
        "converter.from_onnx.operators.onnx.pooling",
    ]
    assert _loaded(code, ["numpy", *unneeded]) == ["numpy"]
    assert (tmp_path / "m.xml").read_text().count("<layer ") == 3


HEAVY = ["numpy", "onnx", "ir_runtime.graph", "rich", "lxml", "converter.conversion", "converter.from_onnx.operators"]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["convert", "--help"], ["ops", "--help"]])
def test_help_answers_without_the_converter(arguments: list[str]) -> None:
    assert _loaded(COMMAND.format(arguments=arguments), ["click", *HEAVY]) == ["click"]


def test_commands_load_nothing_before_they_are_called() -> None:
    names = [module.name for module in pkgutil.iter_modules(converter.command_line.__path__, "converter.command_line.")]
    assert _loaded(f"import {', '.join(names)}", HEAVY) == []


def test_the_package_gives_its_names_when_asked() -> None:
    code = """
import converter, ir_runtime
for package in (converter, ir_runtime):
    names = {}
    exec(f"from {package.__name__} import *", names)
    assert set(package.__all__) <= set(names), set(package.__all__) - set(names)
    assert set(package.__all__) <= set(dir(package))
    assert all(getattr(package, name) is names[name] for name in package.__all__)
    assert not hasattr(package, "no_such_name")
"""
    assert _loaded(code, ["converter.from_onnx.translation.registry"]) == ["converter.from_onnx.translation.registry"]


def test_users_operators_come_after_the_converters_own() -> None:
    code = """
import converter
@converter.onnx_op("Relu", versions=(14,), replace=True)
def own(ctx, x): ...
import converter.conversion
from converter.from_onnx.translation.registry import find_translator
assert find_translator("Relu", "", 20)[0].function is own
"""
    families = ["converter.from_onnx.operators.onnx.activation", "converter.from_onnx.operators.onnx.pooling"]
    assert _loaded(code, families) == families[:1]
