"""What ``verbose`` and ``-v`` show, and warnings that name their model."""

from __future__ import annotations

import io
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

import converter
from converter.stages import about, inform, silent, stage, timed, warn
from tests.commands import onnx2ir

DECLARES = "the model declares 'h' as [3], but its shape is [2]"


def model(name: str = "g") -> onnx.ModelProto:
    """A chain of two layers, the tensor between which has another shape than the file declares."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name, size in zip("xhy", (2, 3, 2))]
    nodes = [helper.make_node("Abs", ["x"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    graph = helper.make_graph(nodes, name, infos[:1], infos[2:], value_info=infos[1:2])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        onnx.save(model(), f"{name}.onnx")


def python(code: str) -> tuple[str, str]:
    """What a process of its own, whose logging nobody has set up, prints: stdout and stderr."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def test_verbose_shows_stages_and_what_was_done() -> None:
    out, messages = python("import converter; converter.convert_model('a.onnx', verbose=True)")
    assert out == ""
    for name in ("read", "translate", "passes", "rules", "shapes"):
        assert re.search(rf"^INFO: {name}: \d+\.\d{{3}} s$", messages, re.M), messages
    assert "clamps: 0 of 1 layers replaced" in messages
    assert "converted 'g' to 4 layers; rules: {}" in messages


def test_verify_shows_its_runs() -> None:
    code = "import converter; converter.verify('a.onnx', converter.convert_model('a.onnx'), verbose=True, seed=3)"
    out, messages = python(code)
    assert out == ""
    for name in ("read", "run", "weights"):
        assert re.search(rf"^INFO: {name}: \d+\.\d{{3}} s$", messages, re.M), messages
    assert "INFO: run on random, seed 3 {'x': [2]}: equal" in messages
    assert messages.splitlines()[-1].startswith(
        "INFO: derived: outputs agree, and the recorded steps give this IR again"
    )


def test_without_verbose_there_are_warnings_alone() -> None:
    code = "import converter; converter.verify('a.onnx', converter.convert_model('a.onnx'))"
    assert python(code) == ("", f"a.onnx: {DECLARES}\n")


def test_verbose_leaves_logging_as_it_is() -> None:
    logger = logging.getLogger("converter")
    before = logger.level, list(logger.handlers)
    converter.convert_model("a.onnx", verbose=True)
    assert (logger.level, list(logger.handlers)) == before


def test_the_callers_logging_shows_messages_once() -> None:
    code = "import logging, converter; logging.basicConfig(format='own %(message)s')\n"
    _, messages = python(f"{code}converter.convert_model('a.onnx', verbose=True)")
    assert len(re.findall(r"passes: \d", messages)) == 1
    assert all(line.startswith("own ") for line in messages.splitlines())


@pytest.mark.parametrize(
    ("arguments", "stages"),
    [
        (["convert", "a.onnx", "--verify", "--compress", "int8"], ["translate", "rules", "compress", "write", "run"]),
        (["verify", "a.onnx", "a.xml", "--layers", "--report", "a.html"], ["read", "run", "layers", "weights", "page"]),
        (["export", "a.xml", "-o", "c.onnx", "--verify"], ["export", "write", "run"]),
        (["run", "a.xml", "--repeat", "2"], ["read", "compile", "run", "time"]),
        (["roundtrip", "a.onnx"], ["translate", "write", "run"]),
    ],
    ids=lambda value: value[0],
)
def test_commands_show_stages(arguments: list[str], stages: list[str]) -> None:
    assert onnx2ir("convert", "a.onnx")[0] == 0
    code, _, messages = onnx2ir(*arguments, "-v")
    assert code == 0
    for name in stages:
        assert re.search(rf"^INFO: {name}: \d+\.\d{{3}} s$", messages, re.M), (name, messages)
    assert "INFO: " not in onnx2ir(*arguments)[2]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (lambda path: path, "a.onnx"),
        (lambda path: Path.cwd() / path, lambda: str(Path.cwd() / "a.onnx")),
        (lambda path: Path(path).read_bytes(), "g"),
        (lambda path: io.BytesIO(Path(path).read_bytes()), "g"),
        (lambda path: onnx.load(path), "g"),
        (lambda path: model(""), "the model"),
    ],
    ids=["text", "path", "bytes", "file", "message", "unnamed"],
)
def test_a_warning_names_its_model(given: Any, name: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "converter"):
        converter.convert_model(given("a.onnx"))
    assert caplog.messages == [f"{name if isinstance(name, str) else name()}: {DECLARES}"]


def test_warnings_of_several_files() -> None:
    code, _, messages = onnx2ir("convert", "a.onnx", "b.onnx", "-o", "ir", "--verify")
    assert code == 0
    assert [line for line in messages.splitlines() if line.startswith("WARNING")] == [
        f"WARNING: {name}.onnx: {DECLARES}" for name in "ab"
    ]


def test_the_conversions_of_a_verification_do_not_warn() -> None:
    assert onnx2ir("convert", "a.onnx")[0] == 0
    assert "WARNING" not in onnx2ir("verify", "a.onnx", "a.xml")[2]


def test_batch_names_the_model_by_its_row() -> None:
    row = converter.convert_many(["a.onnx"], "ir")[0]
    assert row.messages == (DECLARES,)
    code, printed, _ = onnx2ir("batch", "a.onnx", "b.onnx", "-o", "ir")
    assert code == 0
    assert [line for line in printed.splitlines() if "warning" in line] == [
        f"{name}.onnx: warning: {DECLARES}" for name in "ab"
    ]


def test_stages_add_up_and_inner_ones_are_part_of_outer_ones(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "converter"), timed() as times:
        for _ in range(2):
            with stage("outer"), stage("inner"):
                pass
    found = times.to_dict()
    assert list(found) == ["outer", "total"]
    assert 0 < found["outer"] <= found["total"]
    assert [message.partition(":")[0] for message in caplog.messages] == ["outer, inner", "outer"] * 2


def test_what_nobody_asked_for_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "converter"), about("m"):
        with silent():
            warn("one")
            inform("two")
        warn("100%")
    assert caplog.messages == ["m: 100%"]
    assert caplog.records[0].model == "m"  # type: ignore[attr-defined]
    assert caplog.records[0].told == "100%"  # type: ignore[attr-defined]
