"""Commands by their transcripts, and what every command prints with ``--json``."""

from __future__ import annotations

import copy
import functools
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

import converter
import ir_runtime
from converter.command_line import main
from converter.from_onnx.translation import registry
from ir_runtime.graph import operation
from tests.commands import onnx2ir
from tests.converter.command_line.files import SCHEMA, check
from tests.converter.command_line.transcripts import COMMANDS, CONVERT, OF_SCHEMA, Transcript
from tests.engines import core


def assert_parts(text: str, parts: str) -> None:
    for part in filter(None, parts.split("|")):
        if part == "!*":
            assert text == ""
        else:
            assert (part.removeprefix("!") in text) != part.startswith("!"), (part, text)


@pytest.fixture
def without_own_operators() -> Iterator[None]:
    """Take back what the extension of ``files.py`` registers, which other tests would find."""
    yield
    operation._REVISIONS.pop("Cube", None)
    registry._TRANSLATORS.pop(("cubes", "MyCube"), None)


@pytest.mark.parametrize("row", [*CONVERT, *COMMANDS, *OF_SCHEMA], ids=lambda row: row.words)
def test_transcript(row: Transcript, folder: Path, without_own_operators: None) -> None:
    contents = {path: path.read_bytes() for path in folder.glob("m.*")}
    if row.after:
        assert onnx2ir(*shlex.split(row.after))[0] == 0
    if row.json is None or row.out or row.err or row.files:
        code, out, err = onnx2ir(*row.arguments)
        assert code == row.code, out + err
        assert_parts(out if row.out == "!*" else in_one_line(out), row.out)
        assert_parts(in_one_line(err), row.err)
        assert "Traceback" not in err or "Traceback" in row.err
        for name in filter(None, row.files.split("|")):
            assert (folder / name.removeprefix("!")).exists() != name.startswith("!"), name
    if "would overwrite" in row.err:
        assert {path: path.read_bytes() for path in folder.glob("m.*")} == contents
    if row.json is not None:
        code, text, err = onnx2ir(*row.arguments, "--json")
        assert code == row.code, err
        found = json.loads(text)
        check(row.arguments[0], found)
        assert {path: value_at(found, path) for path in row.json} == row.json
        assert found["versions"]["onnx"] == metadata.version("onnx")
        assert text == json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        is_failure = not {"models", "passed", "operators", "same"} & found.keys()
        assert ("error" in found) == (code == 2 or (code == 1 and is_failure))
        if "error" in found:
            assert found["error"]["exit_code"] == code
            assert in_one_line(found["error"]["message"].splitlines()[0]) in in_one_line(err)


def in_one_line(text: str) -> str:
    return " ".join(text.replace("\u2502", " ").split())


def value_at(found: Any, path: str) -> Any:
    steps: list[Any] = [int(step) if step.isdigit() else step for step in path.split(".")]
    return functools.reduce(lambda at, step: at.get(step) if isinstance(at, dict) else at[step], steps, found)


@pytest.mark.parametrize("target", ["-", "lines.jsonl"])
def test_the_lines_of_a_batch(target: str, folder: Path) -> None:
    words = ["batch", "model.onnx", "cut.onnx", "other.onnx", "-o", "zoo", "--verify", "--again", "--json", target]
    code, text, messages = onnx2ir(*words)
    assert code == 1, messages
    lines = [json.loads(line) for line in (text if target == "-" else Path(target).read_text()).splitlines()]
    for line in lines:
        check("batch", line)
    by_name = {line["name"]: line for line in lines}
    assert by_name["cut.onnx"]["verdict"] == "refused"
    assert by_name["model.onnx"]["seconds"]["verify"] > 0
    assert by_name["model.onnx"]["versions"]["onnxruntime"] == metadata.version("onnxruntime")


def test_every_command_has_a_schema_and_rows() -> None:
    commands: Mapping[str, Any] = main.commands  # type: ignore[attr-defined]
    printing = {name for name, one in commands.items() if any("--json" in parameter.opts for parameter in one.params)}
    assert printing == {*(row.words.split()[0] for row in OF_SCHEMA), "batch"}
    parts = list(SCHEMA["$defs"])[: len(printing)]
    assert [one["$ref"] for one in SCHEMA["anyOf"]] == [f"#/$defs/{name}" for name in parts]
    assert printing == set(parts)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("words", ["inspect model.xml", "verify model.onnx model.xml", "run model.xml"])
def test_the_schema_refuses_what_commands_do_not_print(words: str, folder: Path) -> None:
    name, printed = words.split()[0], json.loads(onnx2ir(*words.split(), "--json")[1])
    check(name, printed)
    for spoil in ("more", "versions", "seconds", "outputs", "shape"):
        found = copy.deepcopy(printed)
        if spoil == "more":
            found["more"] = 1
        elif spoil == "shape":
            found["outputs"][0]["shape"] = "[2]"
        else:
            del found[spoil]
        with pytest.raises(jsonschema.ValidationError):
            check(name, found)


def test_versions_are_those_of_what_took_part(folder: Path) -> None:
    """In a process of its own: converting needs neither onnx nor onnxruntime."""

    def versions(words: str) -> dict[str, str]:
        command = [sys.executable, "-m", "converter", *words.split(), "--json"]
        return json.loads(subprocess.run(command, capture_output=True, check=True, cwd=folder).stdout)["versions"]

    known = {name: metadata.version(name) for name in ("onnx", "numpy", "onnxruntime", "openvino")}
    own = {"onnx2ir": converter.__version__, "onnx": known["onnx"], "numpy": known["numpy"]}
    assert versions("convert model.onnx -o out/") == own
    assert versions("verify model.onnx model.xml") == own | {"onnxruntime": known["onnxruntime"]}
    assert versions("verify model.onnx model.xml --engine openvino") == {"onnx2ir": own["onnx2ir"], **known}


def test_stages_of_a_conversion(folder: Path) -> None:
    seconds = json.loads(onnx2ir("convert", "model.onnx", "-o", "out/", "--verify", "--json")[1])["seconds"]
    stages = ["read", "translate", "passes", "rules", "shapes", "write", "run", "weights"]
    assert [name for name in seconds if name in stages] == stages
    assert sum(seconds[name] for name in seconds if name != "total") <= seconds["total"]


def test_a_fault_of_this_package_is_json_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And ends with its traceback."""

    def fail(*arguments: object) -> None:
        raise LookupError("no such thing")

    monkeypatch.setattr("converter.command_line.inspect.summary_of", fail)
    done = CliRunner().invoke(main, ["inspect", "model.xml", "--json"])
    assert done.exit_code == 1
    assert "Traceback" in done.stderr
    found = json.loads(done.stdout)
    check("inspect", found)
    message = "the command failed by a fault of this package (LookupError: no such thing): please report it"
    assert found["error"] == {"type": "InternalError", "message": message, "exit_code": 1}


def test_a_page_that_cannot_be_written_is_one_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise ir_runtime.FileError("the disk is full")

    monkeypatch.setattr("converter.report.differences.write_difference", fail)
    code, text, _ = onnx2ir("diff", "model.xml", "other.xml", "--report", "diff.html", "--json")
    assert code == 1
    assert json.loads(text)["error"]["message"] == "the disk is full"


def of_one(words: str, model: str) -> dict:
    found = json.loads(onnx2ir(*words.split(), "--json")[1])
    del found["versions"], found["seconds"]
    return {"model": model, **found}


def of_each(words: str, code: int = 0) -> tuple[list[dict], str]:
    """The entries of several models, without times, and the messages."""
    exit_code, printed, messages = onnx2ir(*words.split(), "--json")
    assert exit_code == code, messages
    found = json.loads(printed)
    assert found.keys() == {"models", "warnings", "seconds", "versions"}
    for one in found["models"]:
        assert one.pop("seconds")["total"] > 0
    return found["models"], messages


def test_several_files_are_as_each_by_itself(folder: Path) -> None:
    names = ("m.onnx", "half.onnx")
    together, _ = of_each("convert m.onnx half.onnx -o ir --verify")
    assert together == [of_one(f"convert {name} -o ir/ --verify", name) for name in names]
    assert onnx2ir("convert", "m.onnx", "-o", "alone/")[0] == 0
    for ending in (".xml", ".bin"):
        assert Path(f"ir/m{ending}").read_bytes() == Path(f"alone/m{ending}").read_bytes()
    expected = [of_one(f"verify {name} ir/{Path(name).stem}.xml", name) for name in names]
    for words in ("m.onnx ir/m.xml half.onnx ir/half.xml", "m.onnx half.onnx ir"):
        assert of_each(f"verify {words}")[0] == expected
    assert onnx2ir("verify", *names, "ir")[1].count("PASSED") == 2


def test_a_model_that_fails_does_not_end_the_others(folder: Path) -> None:
    (first, second), messages = of_each("convert cut.onnx half.onnx", 1)
    assert "not an ONNX model" in first["error"]["message"]
    assert (first["error"]["type"], first["error"]["exit_code"]) == ("InvalidModelError", 1)
    assert second["model"] == "half.onnx"
    assert (Path("half.xml").exists(), Path("cut.xml").exists()) == (True, False)
    assert "1 of 2 models failed: cut.onnx" in messages
    assert onnx2ir("convert", "half.onnx", "-o", "ir/")[0] == 0
    for ending in (".xml", ".bin"):
        Path(f"wrong{ending}").rename(f"ir/model{ending}")
    Path("ir/m.xml").write_text("<net")
    (differs, broken, good), messages = of_each("verify model.onnx m.onnx half.onnx ir", 1)
    assert (differs["passed"], "error" in broken, good["passed"]) == (False, True, True)
    assert "2 of 3 models failed: model.onnx, m.onnx" in messages


def test_numbers_and_names_of_what_was_converted(folder: Path) -> None:
    assert core().read_model("pool.xml").outputs[0].get_names() == {"y0"}
    assert onnx2ir("run", "pool.xml", "--inputs", "ones.npz", "-o", "res.npz")[0] == 0
    np.testing.assert_array_equal(np.load("res.npz")["y0"], np.ones((1, 3, 7, 7)))
    assert onnx2ir("run", "sum.xml", "--inputs", "one.npz", "--steps", "3", "-o", "y.npz")[0] == 0
    found = np.load("y.npz")
    assert sorted(found.files) == [f"y{output}/{step}" for output in (0, 1) for step in (1, 2, 3)]
    np.testing.assert_array_equal(found["y0/3"], 3 * np.arange(1, 7).reshape(2, 1, 3))
    types = json.loads(onnx2ir("run", "sum.xml", "--steps", "3", "--profile", "--json")[1])["types"]
    assert {"Concat", "ReduceSum"} <= {row["type"] for row in types}
    listed = json.loads(onnx2ir("ops", "--json")[1])["operators"]
    entry: dict[str, Any] = next(entry for entry in listed if entry["op_type"] == "ReduceMean")
    assert (entry["versions"], entry["how"], "ReduceMean-1" in entry["layers"]) == ([1, 11, 13, 18], "translated", True)
    assert entry["numpy"] == entry["openvino"] == entry["cases"] > 0
    assert {entry["how"] for entry in listed} == {"translated", "function", "refused"}
    assert all(entry["limits"] for entry in listed if entry["how"] == "refused")
