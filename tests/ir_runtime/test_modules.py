"""Modules: which are imported, and when; platforms without threads and of 32 bits, as Pyodide is."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import converter.command_line
from ir_runtime import InternalError, Model, compile_model, read_model, threads, write_model
from ir_runtime.graph import indices
from ir_runtime.lazy import import_modules_of
from ir_runtime.records import record
from ir_runtime.registry import Registry
from tests.ir_runtime.execution.kernel_checks import Layers, model_of, normal


def _loaded(code: str, names: list[str]) -> list[str]:
    """Those of ``names`` that are imported once ``code`` has run in a process of its own."""
    script = f"{code}\nimport sys, json\njson.dump([n for n in {names!r} if n in sys.modules], sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stderr)
    return found


FOREIGN = ["onnx", "google.protobuf", "onnxruntime", "openvino", "click", "rich"]


@pytest.mark.parametrize(
    ("code", "forbidden"),
    [
        # ir_runtime stands alone, and takes lxml and hashlib with the first file.
        ("import ir_runtime", [*FOREIGN, "lxml", "numpy", "ir_runtime.files.xml_reader", "ir_runtime.files.weights",
                               "ir_runtime.graph", "ir_runtime.errors", "converter"]),
        ("import converter", ["onnx", "numpy", "ir_runtime.graph", "ir_runtime.errors", "click"]),
        ("import converter; converter.convert_model", [*FOREIGN, "lxml", "difflib"]),
    ],
)  # fmt: skip
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
        *({*FOREIGN} - {"click"}), "ml_dtypes", "concurrent.futures", "difflib",
        "ir_runtime.execution.executor", "ir_runtime.execution.calls", "ir_runtime.execution.plan",
        "ir_runtime.execution.ports", "ir_runtime.operations.proposals", "converter.command_line.batch",
        "converter.from_onnx.operators.onnx.pooling",
    ]  # fmt: skip
    assert _loaded(code, ["numpy", "lxml", *unneeded]) == ["numpy", "lxml"]
    assert (tmp_path / "m.xml").read_text().count("<layer ") == 3


HEAVY = [
    "numpy",
    "onnx",
    "ir_runtime.graph",
    "rich",
    "lxml",
    "converter.conversion.convert",
    "converter.from_onnx.operators",
]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["convert", "--help"], ["ops", "--help"]])
def test_help_answers_without_the_converter(arguments: list[str]) -> None:
    assert _loaded(COMMAND.format(arguments=arguments), ["click", *HEAVY]) == ["click"]


def test_commands_load_nothing_before_they_are_called() -> None:
    modules = pkgutil.iter_modules(converter.command_line.__path__, "converter.command_line.")
    names = [module.name for module in modules if not module.name.endswith(".browser")]
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
import converter.conversion.convert
from converter.from_onnx.translation.registry import find_translator
assert find_translator("Relu", "", 20)[0].function is own
"""
    families = ["converter.from_onnx.operators.onnx.activation", "converter.from_onnx.operators.onnx.pooling"]
    assert _loaded(code, families) == families[:1]


PACKAGE = """
from ir_runtime.lazy import exports
__getattr__, __dir__, __all__ = exports(__name__, {".first": ("one", "two"), "textwrap": ("dedent",)})
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"{tmp_path.name}_lazy"
    (tmp_path / name / "inner").mkdir(parents=True)
    (tmp_path / name / "__init__.py").write_text(PACKAGE)
    (tmp_path / name / "first.py").write_text("one, two = object(), 2")
    (tmp_path / name / "inner" / "__init__.py").write_text("")
    (tmp_path / name / "inner" / "second.py").write_text("")
    yield name
    for module in [module for module in sys.modules if module.startswith(name)]:
        del sys.modules[module]


def test_a_name_imports_its_module(package: str) -> None:
    module = importlib.import_module(package)
    assert f"{package}.first" not in sys.modules
    assert {"one", "two", "dedent"} <= set(dir(module))
    assert module.one is module.one is sys.modules[f"{package}.first"].one
    assert module.dedent(" x") == "x"
    assert "one" in vars(module), "it is looked up once"
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'three'"):
        _ = module.three


def test_all_modules_of_a_package_are_imported(package: str) -> None:
    import_modules_of(package)
    assert {f"{package}.first", f"{package}.inner.second"} <= set(sys.modules)


@record
class Point:
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, compare=False)


def test_a_record_is_a_frozen_data_class() -> None:
    first, second = Point(1), Point(1, y=2, tags=["a"])
    assert first == second
    assert hash(first) == hash(second)
    assert repr(replace(second, x=3)) == "Point(x=3, y=2, tags=['a'])"
    assert first.tags == []
    assert first.tags is not Point(1).tags
    with pytest.raises(FrozenInstanceError, match="'x' was given when it was made"):
        first.x = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "message"),
    [((), "needs a value for 'x'"), ((1, 2, [], 4), "takes 3 values, but got 4"), ((1,), "has no field 'z', or it is")],
)
def test_a_record_takes_its_fields(values: tuple[object, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Point(*values, **({"z": 2} if len(values) == 1 else {}))  # type: ignore[arg-type]


def test_an_entry_is_registered_once() -> None:
    registry = Registry[str, int]("number")
    registry.add("one", 1)
    with pytest.raises(InternalError, match="the number 'one' is registered twice"):
        registry.add("one", 2)
    registry.add("one", 3, replace=True)
    assert dict(registry.entries()) == {"one": registry["one"]} == {"one": 3}
    with pytest.raises(InternalError, match="there is no number 'two'"):
        registry["two"]


# --- platforms, simulated by what NumPy and Python refuse there ---


ROOT = Path(__file__).parents[2]


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    threads.are_available.cache_clear()
    yield
    threads.are_available.cache_clear()


def product() -> tuple[Model, list[np.ndarray]]:
    """A product that two threads share where there are two."""
    weights = normal(512, 512)
    inputs = [normal(512, 512)]
    return model_of(lambda b, x: b.MatMul(x, weights), inputs), inputs


@pytest.mark.usefixtures("no_threads")
def test_models_are_written_and_run_without_threads(tmp_path: Path) -> None:
    model, inputs = product()
    write_model(model, tmp_path / "m.xml")
    results = compile_model(read_model(tmp_path / "m.xml"), threads=2)(inputs)
    weights = next(node.op.data.array() for node in model.nodes() if node.op.data is not None)
    np.testing.assert_allclose(results[0], inputs[0].astype(np.float64) @ weights, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("no_threads")
def test_an_error_while_writing_is_raised_without_threads(tmp_path: Path) -> None:
    model, _ = product()
    (tmp_path / "m.bin").mkdir()
    with pytest.raises(OSError, match=r"m\.bin"):
        write_model(model, tmp_path / "m.xml")
    assert not (tmp_path / "m.xml").exists()


@pytest.fixture
def platform_of_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy there converts no int64 to indices, as it may lose values."""
    take, bincount = np.take, np.bincount

    def strict(function: Any, position: int) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if np.asarray(args[position]).dtype != np.int32:
                raise TypeError("Cannot cast array data from dtype('int64') to dtype('int32') according to 'safe'")
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(indices, "INDEX_TYPE", np.dtype(np.int32))
    monkeypatch.setattr(np, "take", strict(take, 1))
    monkeypatch.setattr(np, "bincount", strict(bincount, 0))


@pytest.mark.usefixtures("platform_of_32_bits")
@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("is_constant", [False, True])
def test_gather_with_indices_of_64_bits(is_constant: bool, optimize: bool) -> None:
    table, rows = normal(7, 5), np.array([[3, -1], [0, 6]])

    def make(b: Layers, x: Any, *computed: Any) -> Any:
        chosen = b.constant(rows, "i64") if is_constant else computed[0]
        return b.Gather(x, chosen, 0, opset=8)

    inputs = [table] if is_constant else [table, rows]
    compiled = compile_model(model_of(make, inputs), optimize=optimize)
    for _ in range(3):  # the later calls have a plan for their shapes
        np.testing.assert_array_equal(compiled(inputs)[0], table[rows])


def test_only_one_module_gives_indices_to_numpy() -> None:
    """Elsewhere ``numpy.take`` and ``bincount`` would refuse int64 on platforms of 32 bits."""
    calls = re.compile(r"\bnp\.(take|bincount)\b")
    sources = [path for room in ("ir_runtime", "converter") for path in (ROOT / room).rglob("*.py")]
    assert [path.name for path in sources if calls.search(path.read_text(encoding="utf-8"))] == ["indices.py"]
