"""``--json`` prints valid JSON on failure, too."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.commands import onnx2ir


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    nodes = [helper.make_node("Nope", ["x"], ["t"], name="first"), helper.make_node("Never", ["t"], ["y"], name="last")]
    for name, used in (("good", [helper.make_node("Relu", ["x"], ["y"])]), ("bad", nodes)):
        graph = helper.make_graph(used, "g", ends[:1], ends[1:])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), f"{name}.onnx")
    assert onnx2ir("convert", "good.onnx")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "kind", "message"),
    [
        (("convert", "bad.onnx"), 1, "UnsupportedModelError", "the model has 2 problems"),
        (("convert", "missing.onnx"), 2, "BadParameter", "missing.onnx"),
        (("convert", "good.onnx", "--input", "z[1]"), 1, "", "z"),
        (("convert", "good.onnx", "--inputs", "good.onnx"), 2, "UsageError", "--inputs needs --verify"),
        (("convert", "good.onnx", "--bogus"), 2, "UsageError", "--bogus"),
        (("verify", "good.onnx", "good.onnx", "--layers"), 1, "", ""),
        (("verify", "good.onnx"), 2, "UsageError", "a MODEL and its IR are needed"),
        (("export", "good.xml", "--opset", "99"), 1, "ConversionError", "from 7 to"),
        (("export", "good.xml", "--opset", "many"), 2, "BadParameter", "many"),
        (("inspect", "good.bin"), 1, "", "good.bin"),
        (("run", "good.onnx"), 1, "", "good.onnx"),
        (("roundtrip", "bad.onnx"), 1, "UnsupportedModelError", "2 problems"),
    ],
)
def test_an_error_is_json(arguments: tuple[str, ...], code: int, kind: str, message: str) -> None:
    found, out, messages = onnx2ir(*arguments, "--json")
    assert found == code
    error = json.loads(out)["error"]
    assert error["exit_code"] == code
    assert kind in error["type"]
    assert message in error["message"]
    assert error["message"].splitlines()[0] in messages.replace("\n", " ") or error["message"] in messages


def test_each_problem_of_a_model_is_an_entry() -> None:
    error = json.loads(onnx2ir("convert", "bad.onnx", "--json")[1])["error"]
    assert [(one["node"], one["operator"], one["opset"]) for one in error["problems"]] == [
        ("first", "Nope", 17),
        ("last", "Never", 17),
    ]
    assert all(one["reason"] for one in error["problems"])


def test_without_json_nothing_is_printed() -> None:
    code, out, messages = onnx2ir("convert", "bad.onnx")
    assert code == 1
    assert out == ""
    assert "Nope" in messages


def test_the_lines_of_a_batch_are_no_errors() -> None:
    code, out, _ = onnx2ir("batch", "nowhere", "-o", "ir", "--json", "-")
    assert code == 2
    assert out == ""
