"""What the page sends to Python and gets from it, in CPython: forms, words, results, and sessions of onnxruntime."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

import converter
from converter.command_line import browser, main
from converter.command_line.state import State
from converter.equivalence.reference.references import OnnxReference
from converter.options.conversion import ConversionOptions, SavingOptions, on_command_line, parameter_of
from converter.options.export import ExportOptions
from converter.options.optimization import OptimizationOptions
from converter.options.verification import VerificationOptions
from tests.browser.assembled import HERE, NODE, exported, mobilenet_v3
from tests.commands import a_model
from tests.converter.optimization.models import parse


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with ``a.onnx``, in which the page works."""
    monkeypatch.chdir(tmp_path)
    onnx.save(a_model(), "a.onnx")
    return tmp_path


def call(name: str, *values: Any, shown: list[tuple[str, str]] | None = None) -> Any:
    messages = [] if shown is None else shown
    return json.loads(browser.call(name, json.dumps(values), lambda *message: messages.append(message)))


CLASSES = {
    "convert": (ConversionOptions, SavingOptions),
    "verify": (VerificationOptions,),
    "export": (ExportOptions,),
    "optimize": (OptimizationOptions,),
}


def test_the_forms_have_every_field_of_the_options_that_a_page_can_set() -> None:
    forms = {form["name"]: {option["name"]: option for option in form["options"]} for form in call("forms")}
    assert list(forms) == list(browser.COMMANDS)
    left_out = browser._PAGES_OWN | browser._WITHOUT_PROCESSES
    for command, classes in CLASSES.items():
        for entry in on_command_line(*classes):
            name = parameter_of(entry)
            assert (name in forms[command]) == (name not in left_out), name
    assert forms["convert"]["compress"]["choices"] == ["int8", "int4"]
    assert forms["convert"]["fuse"] == {**forms["convert"]["fuse"], "category": "switch", "default": True}
    assert forms["convert"]["symmetric"]["choices"] == ["symmetric", "asymmetric"]
    assert forms["convert"]["batch"]["category"] == "number"


def test_options_that_the_page_leaves_out_exist() -> None:
    names = {parameter.name for name in browser.COMMANDS for parameter in main.commands[name].params}  # type: ignore[attr-defined]
    assert names >= browser._PAGES_OWN | browser._WITHOUT_PROCESSES


@pytest.mark.parametrize(("values", "words"), [
    ({}, []),
    ({"compress": "int8", "symmetric": "asymmetric"}, ["--compress", "int8", "--asymmetric"]),
    ({"fuse": False, "static": True, "batch": "3"}, ["--no-fuse", "--static", "--batch", "3"]),
    ({"fuse": True, "static": False, "batch": "", "runtime": "cpu", "seed": 0, "compress": None}, []),
    ({"input_texts": "x[1,?]"}, ["--input", "x[1,?]"]),
])  # fmt: skip
def test_values_of_the_form_become_words(folder: Path, values: dict[str, Any], words: list[str]) -> None:
    arguments = browser.arguments_of("convert", ["a.onnx"], values)
    assert arguments == ["convert", "a.onnx", *words, "-o", "results/a.xml", "--report", "results/convert.html"]


def test_a_conversion_gives_the_bytes_of_the_command_line(folder: Path) -> None:
    shown: list[tuple[str, str]] = []
    result = call("run", "convert", ["a.onnx"], {"compress": "int8"}, shown=shown)
    assert result["exit_code"] == 0
    assert ("task", "Writing a.xml") in shown
    assert "Wrote results/a.xml" in "".join(text for category, text in shown if category == "message")
    assert result["page"].startswith("<!doctype html>")
    assert [file["path"] for file in result["files"]] == ["results/a.bin", "results/a.xml", "results/convert.html"]
    assert CliRunner().invoke(main, ["convert", "a.onnx", "-o", "own/a.xml", "--compress", "int8"]).exit_code == 0
    for name in ("a.xml", "a.bin"):
        assert (folder / "results" / name).read_bytes() == (folder / "own" / name).read_bytes()
    assert call("models") == ["a.onnx", "own/a.xml", "results/a.xml"]
    call("write_zip", ["results/a.xml", "results/a.bin"], "all.zip")
    with zipfile.ZipFile("all.zip") as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            name: (folder / "results" / name).read_bytes() for name in ("a.xml", "a.bin")
        }
    assert State.show_task is None


def test_every_command_runs(folder: Path) -> None:
    for command, files, values in (
        ("inspect", ["a.onnx"], {}),
        ("convert", ["a.onnx"], {"check": True}),
        ("inspect", ["results/a.xml"], {}),
        ("verify", ["a.onnx", "results/a.xml"], {}),
        ("diff", ["results/a.xml", "results/a.xml"], {}),
        ("export", ["results/a.xml"], {"check": True}),
        ("optimize", ["a.onnx"], {"check": True}),
    ):
        result = call("run", command, files, values)
        assert result["exit_code"] == 0, result
        assert bool(result["page"]) == (command != "optimize")


MISTAKES = [
    ("text.onnx", "convert", {}, 1, "text.onnx"),
    ("a.onnx", "convert", {"input_texts": "nothing[1]"}, 1, "no input 'nothing'"),
    ("a.onnx", "convert", {"group_size": "64"}, 2, "--group-size needs --compress"),
    ("a.onnx", "convert", {"batch": "many"}, 2, "'many' is not a valid integer"),
    ("a.onnx", "export", {}, 1, "a.onnx"),
    ("a.onnx", "convert", {"outputs": "nothing"}, 1, "nothing"),
]


@pytest.mark.parametrize(("file", "command", "values", "code", "message"), MISTAKES)
def test_mistakes_are_told_as_on_the_command_line(
    folder: Path, file: str, command: str, values: dict[str, Any], code: int, message: str
) -> None:
    (folder / "text.onnx").write_text("no model")
    shown: list[tuple[str, str]] = []
    result = call("run", command, [file], values, shown=shown)
    text = "".join(text for category, text in shown if category == "message")
    assert (result["exit_code"], result["page"], result["files"]) == (code, "", [])
    assert message in text
    done = CliRunner().invoke(main, browser.arguments_of(command, [file], values), prog_name="onnx2ir")
    assert (done.exit_code, done.stderr) == (code, text)


def test_files_that_are_too_large_are_refused_before_they_are_read() -> None:
    assert call("refusal_of", {"a.onnx": 1000, "a.data": browser.MOST_BYTES - 1000}) == ""
    refusal = call("refusal_of", {"a.onnx": 1000, "a.data": browser.MOST_BYTES})
    assert refusal.startswith("error: a.data has 1.0 GiB")


class Sessions:
    """onnxruntime with the interface of worker.js."""

    def __init__(self) -> None:
        self.sessions: list[Any] = []
        self.options: list[dict[str, Any]] = []

    def create(self, model: bytes, options: str, files: list[tuple[str, bytes]]) -> tuple[str, list[bytes]]:
        self.options.append({**json.loads(options), "files": files})
        chosen = onnxruntime.SessionOptions()
        for path, data in files:
            chosen.add_external_initializers_from_files_in_memory([path], [data], [len(data)])
        try:
            session = onnxruntime.InferenceSession(model, chosen, providers=["CPUExecutionProvider"])
        except Exception as error:
            return json.dumps({"error": str(error)}), []
        self.sessions.append(session)
        sides = {"inputs": session.get_inputs(), "outputs": session.get_outputs()}
        described = {
            side: [{"name": one.name, "type": one.type[7:-1]} for one in ports] for side, ports in sides.items()
        }
        return json.dumps({"session": len(self.sessions) - 1, **described}), []

    def run(self, number: int, inputs: str, buffers: list[bytes]) -> tuple[str, list[bytes]]:
        rest = iter(buffers)
        feeds = {
            entry["name"]: np.array(entry["strings"], object).reshape(entry["dims"])
            if "strings" in entry
            else np.frombuffer(next(rest), entry["type"]).reshape(entry["dims"])
            for entry in json.loads(inputs)
        }
        results = self.sessions[number].run(None, feeds)
        described = [
            {"dims": value.shape, "type": "string", "strings": value.reshape(-1).tolist()}
            if value.dtype == object
            else {"dims": value.shape, "type": str(value.dtype)}
            for value in results
        ]
        return json.dumps({"outputs": described}), [value.tobytes() for value in results if value.dtype != object]


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sessions]:
    """onnxruntime as the page provides it."""
    made = Sessions()
    monkeypatch.setitem(sys.modules, "onnxruntime", SimpleNamespace())  # type: ignore[arg-type]
    browser.use_onnxruntime("9.8.7", made.create, made.run, lambda value: value)
    assert importlib.util.find_spec("onnxruntime") is not None
    return made


def test_verify_runs_onnxruntime_of_the_page(folder: Path, sessions: Sessions) -> None:
    assert call("run", "convert", ["a.onnx"], {})["exit_code"] == 0
    result = call("run", "verify", ["a.onnx", "results/a.xml"], {})
    assert result["exit_code"] == 0, result
    assert re.findall(r"PASSED against (.*) on", result["output"]) == ["onnxruntime 9.8.7 (WebAssembly)"]
    assert sessions.options[0]["graphOptimizationLevel"] == "layout"
    assert sessions.options[0]["entries"]["session.x64quantprecision"] == "1"


def test_strings_and_external_weights_reach_onnxruntime_of_the_page(tmp_path: Path, sessions: Sessions) -> None:
    weights = np.arange(600, dtype=np.float32).reshape(2, 300)
    text = """g (float[2,300] x, string[2] a) => (float[2,300] sum, string[2] text) {
        sum = Add (x, w) text = StringConcat (a, a) }"""
    model = parse(text, 20, w=weights)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    reference = OnnxReference(str(tmp_path / "m.onnx"))
    result = reference.run({"x": np.ones((2, 300), np.float32), "a": np.array(["b", "ä"], object)})
    np.testing.assert_array_equal(result["sum"], weights + 1)
    assert result["text"].tolist() == ["bb", "ää"]
    assert [path for path, _ in sessions.options[0]["files"]] == ["m.data"]


def test_models_that_onnxruntime_of_the_page_refuses_are_run_by_definition(tmp_path: Path, sessions: Sessions) -> None:
    model = parse("g (uint8[2] x) => (uint8[2] y) { y = Relu (x) }", 14)
    onnx.save(model, tmp_path / "m.onnx")
    reference = OnnxReference(str(tmp_path / "m.onnx"))
    assert reference.run({"x": np.array([1, 2], np.uint8)})["y"].tolist() == [1, 2]
    assert reference.name.startswith("onnx ReferenceEvaluator")


# --- the wheel under Pyodide in node, without a browser ---


@pytest.mark.full
def test_pyodide_writes_the_bytes_of_cpython(site: Path, tmp_path: Path) -> None:
    onnx.save(mobilenet_v3(), tmp_path / "mobilenet_v3.onnx")
    onnx.save(a_model(), tmp_path / "small.onnx")
    names = ["mobilenet_v3.onnx", "small.onnx"]
    for name in ("light_shufflenet", "light_squeezenet"):
        (tmp_path / f"{name}.onnx").write_bytes(exported()[name].read_bytes())
        names.append(f"{name}.onnx")
    assert NODE is not None
    command = [NODE, str(HERE / "convert.mjs"), str(site), str(tmp_path), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])["results"]
    assert {name: result["exit_code"] for name, result in results.items()} == dict.fromkeys(names, 0)
    for name in names:
        converter.save_model(converter.convert_model(tmp_path / name), tmp_path / name.replace(".onnx", ".xml"))
        for suffix in (".xml", ".bin"):
            own = tmp_path / name.replace(".onnx", suffix)
            assert (tmp_path / "node" / own.name).read_bytes() == own.read_bytes(), own.name
