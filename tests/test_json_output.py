"""What every command prints with ``--json`` is what ``docs/json_output.schema.json`` says."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import converter
import ir_runtime
from converter.command_line import main
from tests.commands import a_model, onnx2ir
from tests.language_models.converted_tokenizers import converted_tokenizers, tokenizers_once  # noqa: F401
from tests.language_models.decoders import Decoder
from tests.language_models.folders import write_folder

SCHEMA: dict[str, Any] = json.loads((Path(__file__).parent.parent / "docs" / "json_output.schema.json").read_text())


def validator(name: str) -> jsonschema.Draft202012Validator:
    """For one of the schema's parts."""
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


def check(name: str, found: Any) -> None:
    """Raises where ``found`` is not what the command ``name`` prints."""
    validator(name).validate(found)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the rows name."""
    folder = tmp_path_factory.mktemp("json")
    model = a_model()
    onnx.save(model, folder / "model.onnx")
    onnx.save(model, folder / "other.onnx")
    (folder / "out").mkdir()
    (folder / "cut.onnx").write_bytes(b"nothing of ONNX")
    bad = copy.deepcopy(model)
    bad.graph.node[0].op_type, bad.graph.node[1].op_type = "Nope", "Never"
    onnx.save(bad, folder / "bad.onnx")
    for name in ("model", "other"):
        converter.save_model(converter.convert_model(model), folder / f"{name}.xml")
    changed = copy.deepcopy(model)
    values = np.frombuffer(changed.graph.initializer[1].raw_data, np.float32) * 2
    changed.graph.initializer[1].raw_data = values.tobytes()
    converter.save_model(converter.convert_model(changed), folder / "wrong.xml")
    converter.save_model(converter.convert_model(Decoder().build(), stateful=True), folder / "decoder.xml")
    onnx.save(Decoder().build(), folder / "decoder.onnx")
    write_folder(folder / "llm", Decoder())
    given = {"input_ids": np.ones((1, 1), np.int64), "attention_mask": np.ones((1, 1), np.int64)}
    np.savez(folder / "step.npz", **given, position_ids=np.ones((1, 1), np.int64), beam_idx=np.zeros(1, np.int32))
    return folder


# The command, its arguments and its exit code.
ROWS: list[tuple[list[str], int]] = [
    (["convert", "model.onnx", "-o", "out/"], 0),
    (["convert", "model.onnx", "-o", "out/", "--verify", "--report", "out.html"], 0),
    (["convert", "model.onnx", "-o", "out/", "--compress", "int4", "--compress-to-fp16"], 0),
    (["convert", "model.onnx", "-o", "out/", "--mean-values", "image[1,2,3]", "--layout", "image(nchw->nhwc)"], 0),
    (["convert", "model.xml", "-o", "out/changed.xml", "--target", "any"], 0),
    (["convert", "model.onnx", "other.onnx", "-o", "out", "--verify"], 0),
    (["convert", "decoder.onnx", "-o", "out/", "--stateful", "--verify"], 0),
    (["convert", "decoder.xml", "--stateless", "-o", "out/plain.xml"], 0),
    (["convert", "llm", "--verify", "-o", "out/llm"], 0),
    (["convert", "bad.onnx", "-o", "out/"], 1),
    (["convert", "model.onnx", "bad.onnx", "cut.onnx", "-o", "out"], 1),
    (["convert", "missing.onnx"], 2),
    (["convert", "model.onnx", "--compress", "int3"], 2),
    (["verify", "model.onnx", "model.xml", "--layers", "--report", "found.html"], 0),
    (["verify", "model.onnx", "model.xml", "--stress", "--engine", "openvino", "--against", "other.xml"], 0),
    (["verify", "model.onnx", "wrong.xml", "--report", "found.html", "--minimise", "part"], 1),
    (["verify", "decoder.onnx", "decoder.xml", "--steps", "2"], 0),
    (["verify", "model.onnx", "model.xml", "other.onnx", "wrong.xml"], 1),
    (["verify", "cut.onnx", "model.xml"], 1),
    (["verify", "model.onnx"], 2),
    (["export", "model.xml", "-o", "again.onnx", "--verify", "--external-data"], 0),
    (["export", "model.xml", "-o", "again.onnx", "--opset", "99"], 1),
    (["export", "model.xml", "--inputs", "model.xml"], 2),
    (["inspect", "model.onnx"], 0),
    (["inspect", "model.xml"], 0),
    (["inspect", "llm"], 0),
    (["inspect", "cut.onnx"], 1),
    (["inspect", "missing.onnx"], 2),
    (["run", "model.xml"], 0),
    (["run", "model.xml", "--repeat", "2", "--profile"], 0),
    (["run", "decoder.xml", "--steps", "1", "--inputs", "step.npz"], 0),
    (["run", "cut.onnx"], 1),
    (["run", "model.xml", "--repeat", "2", "--steps", "2"], 2),
    (["ops"], 0),
    (["ops", "model.onnx"], 0),
    (["ops", "bad.onnx"], 1),
    (["ops", "cut.onnx"], 1),
    (["ops", "missing.onnx"], 2),
    (["diff", "model.xml", "other.xml"], 0),
    (["diff", "model.xml", "wrong.xml"], 1),
    (["diff", "model.xml", "decoder.xml"], 1),
    (["diff", "cut.onnx", "model.xml"], 1),
    (["diff", "model.xml"], 2),
    (["derive", "model.xml", "--from", "model.onnx"], 0),
    (["derive", "wrong.xml", "--from", "model.onnx"], 1),
    (["derive", "model.xml", "--from", "cut.onnx"], 1),
    (["derive", "model.xml"], 2),
    (["optimize", "model.onnx", "-o", "small.onnx"], 0),
    (["optimize", "model.onnx", "-o", "small.onnx", "--verify", "--external-data", "--opset", "13"], 0),
    (["optimize", "model.onnx", "-o", "small.onnx", "--opset", "99"], 1),
    (["optimize", "cut.onnx", "-o", "small.onnx"], 1),
    (["optimize", "model.onnx", "--seed", "1"], 2),
    (["diff", "model.onnx", "other.onnx"], 0),
    (["diff", "model.onnx", "model.xml"], 0),
    (["edit", "model.onnx", "-o", "edited.onnx", "--metadata", "author=me", "--split-size", "1GB"], 0),
    (["edit", "model.xml", "-o", "out/edited.xml", "--metadata", "author=me"], 0),
    (["edit", "model.onnx", "-o", "edited.onnx", "--cut", ":nothing"], 1),
    (["edit", "cut.onnx", "-o", "edited.onnx"], 1),
    (["edit", "missing.onnx"], 2),
    (["inspect", "model.xml", "--nodes"], 2),
    (["roundtrip", "model.onnx"], 0),
    (["roundtrip", "bad.onnx"], 1),
    (["roundtrip", "missing.onnx"], 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code"), ROWS, ids=lambda value: "-".join(value) if isinstance(value, list) else ""
)
def test_the_json_is_what_the_schema_says(
    arguments: list[str], code: int, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made)
    exit_code, text, messages = onnx2ir(*arguments, "--json")
    assert exit_code == code, messages
    found = json.loads(text)
    check(arguments[0], found)
    assert ("error" in found) == (code == 2 or (code == 1 and is_failure(found)))
    assert found["versions"]["onnx"] == metadata.version("onnx")
    assert text == json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def is_failure(found: Mapping[str, Any]) -> bool:
    """Whether there is no result: results of exit code 1 say what was found."""
    return not {"models", "passed", "operators", "same"} & found.keys()


@pytest.mark.parametrize("target", ["-", "lines.jsonl"])
def test_the_lines_of_a_batch(target: str, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    given = ["batch", "*.onnx", "-o", "zoo", "--verify", "--again", "--json", target]
    code, text, messages = onnx2ir(*given)
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
    assert printing == {*(arguments[0] for arguments, _ in ROWS), "batch"}
    assert [one["$ref"] for one in SCHEMA["anyOf"]] == [
        f"#/$defs/{name}" for name in list(SCHEMA["$defs"])[: len(printing)]
    ]
    assert printing == set(list(SCHEMA["$defs"])[: len(printing)])
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", ["inspect", "verify", "run"])
@pytest.mark.parametrize("spoil", ["more", "versions", "seconds", "outputs", "shape"])
def test_the_schema_refuses_what_commands_do_not_print(
    name: str, spoil: str, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made)
    arguments = {"verify": ["model.onnx", "model.xml"]}.get(name, ["model.xml"])
    found = json.loads(onnx2ir(name, *arguments, "--json")[1])
    check(name, found)
    if spoil == "more":
        found["more"] = 1
    elif spoil == "shape":
        found["outputs"][0]["shape"] = "[2]"
    else:
        del found[spoil]
    with pytest.raises(jsonschema.ValidationError):
        check(name, found)


def test_shapes_are_lists(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    shapes = [
        json.loads(onnx2ir("inspect", file, "--json")[1])["inputs"][0]["shape"] for file in ("model.onnx", "model.xml")
    ]
    assert shapes == [["n", 3, "h", "w"], [None, 3, None, None]]
    given = ["convert", "model.onnx", "-o", "out/", "--input", "image[1..8,3,?,16..],rate", "--json"]
    assert json.loads(onnx2ir(*given)[1])["inputs"][0]["shape"] == ["1..8", 3, None, "16.."]


def test_versions_are_those_of_what_took_part(made: Path) -> None:
    """In a process of its own: converting needs neither onnx nor onnxruntime."""

    def versions(*arguments: str) -> dict[str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "converter", *arguments, "--json"], capture_output=True, check=True, cwd=made
        )
        return json.loads(done.stdout)["versions"]

    known = {name: metadata.version(name) for name in ("onnx", "numpy", "onnxruntime", "openvino")}
    own = {"onnx2ir": converter.__version__, "onnx": known["onnx"], "numpy": known["numpy"]}
    assert versions("convert", "model.onnx", "-o", "out/") == own
    assert versions("verify", "model.onnx", "model.xml") == own | {"onnxruntime": known["onnxruntime"]}
    assert versions("verify", "model.onnx", "model.xml", "--engine", "openvino") == {"onnx2ir": own["onnx2ir"], **known}


def test_stages_of_a_conversion(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    seconds = json.loads(onnx2ir("convert", "model.onnx", "-o", "out/", "--verify", "--json")[1])["seconds"]
    stages = ["read", "translate", "passes", "rules", "shapes", "write", "run", "weights"]
    assert [name for name in seconds if name in stages] == stages
    assert sum(seconds[name] for name in seconds if name != "total") <= seconds["total"]


@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_warnings_have_their_model(quiet: list[str], made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    model = a_model()
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["n", 5]))
    for name in ("first", "second"):
        onnx.save(model, made / f"{name}.onnx")
    text = "the model declares 'scores' as [?,5], but its shape is [?,64]"
    arguments = ["convert", "first.onnx", "second.onnx", "model.onnx", "-o", "out", "--json", *quiet]
    _, printed, messages = onnx2ir(*arguments)
    found = json.loads(printed)["models"]
    assert [one["warnings"] for one in found] == [
        [{"model": f"{name}.onnx", "message": text}] for name in ("first", "second")
    ] + [[]]
    assert messages.count(text) == (0 if quiet else 2)
    assert (
        json.loads(onnx2ir("convert", "first.onnx", "-o", "out/", "--json", *quiet)[1])["warnings"]
        == found[0]["warnings"]
    )


def test_a_fault_of_this_package_is_json_too(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And ends with its traceback."""

    def fail(*arguments: object) -> None:
        raise LookupError("no such thing")

    monkeypatch.chdir(made)
    monkeypatch.setattr("converter.command_line.inspect.summary_of", fail)
    done = CliRunner().invoke(main, ["inspect", "model.xml", "--json"])
    assert done.exit_code == 1
    assert "Traceback" in done.stderr
    found = json.loads(done.stdout)
    check("inspect", found)
    message = "the command failed by a fault of this package (LookupError: no such thing): please report it"
    assert found["error"] == {"type": "InternalError", "message": message, "exit_code": 1}


def test_a_page_that_cannot_be_written_is_one_error(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise ir_runtime.FileError("the disk is full")

    monkeypatch.chdir(made)
    monkeypatch.setattr("converter.report.differences.write_difference", fail)
    code, text, _ = onnx2ir("diff", "model.xml", "other.xml", "--report", "diff.html", "--json")
    assert code == 1
    assert json.loads(text)["error"]["message"] == "the disk is full"
