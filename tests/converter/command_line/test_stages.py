"""What verbose shows, what inspect tells of ONNX files, and what is seen on a terminal."""

from __future__ import annotations

import copy
import io
import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import converter
from converter.stages import about, inform, silent, stage, timed, warn
from tests.commands import on_terminal, onnx2ir
from tests.converter.command_line.files import POOL, contradictory
from tests.converter.optimization.models import parse
from tests.engines import node_model

# --- what ``verbose`` and ``-v`` show, warnings that name their model, and what ``inspect`` tells of ONNX files ---

DECLARES = "the model declares 'h' as [3], but its shape is [2]"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(contradictory(), "a.onnx")


def python(code: str) -> str:
    """What a process of its own, whose logging nobody has set up, prints to stderr, and nothing to stdout."""
    done = subprocess.run(
        [sys.executable, "-c", f"import converter\n{code}"], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    return done.stderr


def assert_stages(messages: str, *names: str) -> None:
    for name in names:
        assert re.search(rf"^INFO: {name}: \d+\.\d{{3}} s$", messages, re.M), (name, messages)


def test_verbose_shows_stages_and_what_was_done() -> None:
    messages = python("converter.convert_model('a.onnx', verbose=True)")
    assert_stages(messages, "read", "translate", "passes", "rules", "shapes")
    assert "clamps: 0 of 1 layers replaced" in messages
    assert "converted 'g' to 4 layers; rules: {}" in messages
    messages = python("converter.verify('a.onnx', converter.convert_model('a.onnx'), verbose=True, seed=3)")
    assert_stages(messages, "read", "run", "weights")
    assert "INFO: run on random, seed 3 {'x': [2]}: equal" in messages
    assert "INFO: contracts: no pass or rule is recorded" in messages
    assert messages.splitlines()[-1].startswith("INFO: derived: outputs agree, and the recorded steps give")


def test_without_verbose_there_are_warnings_alone() -> None:
    assert python("converter.verify('a.onnx', converter.convert_model('a.onnx'))") == f"a.onnx: {DECLARES}\n"


def test_logging_of_the_caller() -> None:
    """It stays as it is, and shows messages once."""
    logger = logging.getLogger("converter")
    before = logger.level, list(logger.handlers)
    converter.convert_model("a.onnx", verbose=True)
    assert (logger.level, list(logger.handlers)) == before
    setup = "import logging; logging.basicConfig(format='own %(message)s')\n"
    messages = python(f"{setup}converter.convert_model('a.onnx', verbose=True)")
    assert len(re.findall(r"passes: \d", messages)) == 1
    assert all(line.startswith("own ") for line in messages.splitlines())


@pytest.mark.parametrize(("words", "stages"), [
    ("convert a.onnx --verify --compress int8", "translate rules compress write run"),
    ("verify a.onnx a.xml --layers --report a.html", "read run layers weights page"),
    ("export a.xml -o c.onnx --verify", "export write run"),
    ("run a.xml --repeat 2", "read compile run time"),
    ("roundtrip a.onnx", "translate write run"),
])  # fmt: skip
def test_commands_show_stages(words: str, stages: str) -> None:
    assert onnx2ir("convert", "a.onnx")[0] == 0
    code, _, messages = onnx2ir(*words.split(), "-v")
    assert code == 0
    assert_stages(messages, *stages.split())
    assert "INFO: " not in onnx2ir(*words.split())[2]


@pytest.mark.parametrize(("given", "name"), [
    (lambda path: path, "a.onnx"),
    (lambda path: Path.cwd() / path, ""),
    (lambda path: Path(path).read_bytes(), "g"),
    (lambda path: io.BytesIO(Path(path).read_bytes()), "g"),
    (lambda path: onnx.load(path), "g"),
], ids=["text", "path", "bytes", "file", "message"])  # fmt: skip
def test_a_warning_names_its_model(given: Any, name: str, caplog: pytest.LogCaptureFixture) -> None:
    unnamed = contradictory()
    unnamed.graph.name = ""
    with caplog.at_level(logging.WARNING, "converter"):
        converter.convert_model(given("a.onnx"))
        converter.convert_model(unnamed)
    assert caplog.messages == [f"{name or Path.cwd() / 'a.onnx'}: {DECLARES}", f"the model: {DECLARES}"]
    (row,) = converter.convert_many(["a.onnx"], "ir")
    assert row.messages == (DECLARES,)


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


# --- inspect ---


def inspected(model: onnx.ModelProto, *words: str) -> str:
    onnx.save(model, "m.onnx")
    code, text, messages = onnx2ir("inspect", "m.onnx", *words)
    assert code == 0, messages
    return text


def convolution_and_branch() -> onnx.ModelProto:
    """A convolution (8 of 3x3x3 over 3x16x16), a product (2048 by 10) and a branch."""
    text = """<ir_version: 9, opset_import: ["" : 17, "own" : 1], producer_name: "hand", producer_version: "2">
    net (float[1,3,16,16] image, bool choice) => (float16[batch,columns] y) {
        c = Conv (image, k) f = Flatten (c) h = Cast <to = 10> (f) p = MatMul (h, m)
        q = If (choice) <then_branch = t () => (o) { o = Identity (p) }, else_branch = e () => (o) { o = Neg (p) }>
        y = own.Thing (q) }
    <domain: "own", opset_import: ["" : 17]> Thing (a) => (b) { b = Relu (a) }"""
    model = onnx.parser.parse_model(text)
    weights = {"k": np.zeros((8, 3, 3, 3), np.float32), "m": np.zeros((8 * 14 * 14, 10), np.float16)}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in weights.items())
    model.graph.output[0].type.tensor_type.shape.dim[1].Clear()
    helper.set_model_props(model, {"names": "{0: 'cat [x]'}"})
    return model


def test_everything_as_json_and_the_table() -> None:
    found = json.loads(inspected(convolution_and_branch(), "--json"))
    for name in ("warnings", "seconds", "versions"):
        del found[name]
    assert found == {
        "format": "ONNX", "ir_version": 9, "opsets": {"ai.onnx": 17, "own": 1}, "producer": "hand 2", "graph": "net",
        "inputs": [{"name": "image", "type": "f32", "shape": [1, 3, 16, 16]}, {"name": "choice", "type": "boolean",
            "shape": []}],
        "outputs": [{"name": "y", "type": "f16", "shape": ["batch", None]}],
        "operators": dict.fromkeys(("Cast", "Conv", "Flatten", "Identity", "If", "MatMul", "Neg", "Relu"), 1),
        "functions": ["own.Thing"], "parameters": 8 * 27 + 1568 * 10, "weight_bytes": 8 * 27 * 4 + 1568 * 10 * 2,
        "macs": 8 * 14 * 14 * 27 + 1568 * 10, "macs_unknown": 0, "metadata": {"names": "{0: 'cat [x]'}"},
    }  # fmt: skip
    text = inspected(convolution_and_branch())
    assert {
        "ONNX, IR version 9, opset ai.onnx 17, own 1",
        "made by hand 2",
        "parameters: 15,896 (31.5 KiB)",
        "multiplications: 58,016",
        "functions: own.Thing",
        "metadata: names = {0: 'cat [x]'}",
    } <= {*text.splitlines()}
    assert "[batch,?]" in text


def test_functions_count_at_each_call() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["": 17, "own": 1]> g (float[2, 4] x) => (float[2, 4] z) {
            y = own.Dense (x) z = own.Dense (y) }
        <domain: "own", opset_import: ["": 17, "own": 3]> Dense (x) => (y) { w = own.Weights () y = MatMul (x, w) }
        <domain: "own", opset_import: ["": 17]> Weights () => (w) {
            w = Constant <value = float[4, 4] {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}> () }""")
    summary = json.loads(inspected(model, "--json"))
    assert summary["operators"] == {"Constant": 2, "MatMul": 2}
    assert (summary["parameters"], summary["macs"]) == (16, 2 * 2 * 16)
    model.functions[1].node.add(op_type="Dense", domain="own", output=["v"])
    assert json.loads(inspected(model, "--json"))["operators"] == {"own.Dense": 2}


def test_dynamic_dimensions_are_not_counted() -> None:
    model = parse("g (float[n,4] x) => (float[n,4] y) { y = MatMul (x, w) }", w=np.zeros((4, 4), np.float32))
    assert "multiplications: 0, besides 1 nodes with dynamic dimensions" in inspected(model)


# --- what is seen on a terminal: widths, colours, and that work goes on; and none of it elsewhere ---

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

SLOW = """
import logging, time
time.sleep(1.5)
logging.getLogger("converter").warning("halfway")
time.sleep(0.5)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("terminal")
    proto = copy.deepcopy(POOL)
    name = "the_output_of_a_network_with_a_long_name/with/a/path/of/scopes"
    proto.graph.node[0].output[0] = proto.graph.output[0].name = name
    onnx.save(proto, made / "m.onnx")
    onnx.save(node_model("NoSuchOp", {"x": np.zeros((2, 3, 8, 8), np.float32)}, opset=19), made / "broken.onnx")
    (made / "slow.py").write_text(SLOW)
    assert onnx2ir("convert", str(made / "m.onnx"))[0] == 0
    return made


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize(("arguments", "words"), [
    ("verify m.onnx m.xml", ["float32", "[2, 3, 7, 7]", "equal", "max abs", "ULPs"]),
    ("inspect m.onnx", ["[n,3,8,8]", "f32", "AveragePool"]),
    ("inspect m.xml", ["[?,3,8,8]", "AvgPool-1", "weights:"]),
    ("run m.xml --profile", ["[2, 3, 7, 7]", "AvgPool", "100.0%"]),
    ("ops broken.onnx", ["ai.onnx", "19", "no: ONNX has no operator"]),
])  # fmt: skip
def test_words_stay_whole_and_lines_within_the_terminal(
    arguments: str, words: list[str], columns: int, folder: Path
) -> None:
    text = CONTROL.sub("", on_terminal(folder, *arguments.split(), columns=columns)).replace("\r", "")
    assert text.strip()
    # Messages that are sentences are left to the terminal to wrap.
    too_long = [line for line in text.splitlines() if len(line) > columns and "tolerance for" not in line]
    assert not too_long
    for word in words:
        assert word in text, text


@pytest.mark.parametrize("words", ["verify m.onnx m.xml", "convert broken.onnx", "inspect m.onnx"])
def test_colours_are_for_terminals(words: str, folder: Path) -> None:
    command = words.split()
    assert words.startswith("inspect") or COLOUR.search(on_terminal(folder, *command))
    assert not COLOUR.search(on_terminal(folder, *command, NO_COLOR="1"))
    done = subprocess.run([sys.executable, "-m", "converter", *command], cwd=folder, capture_output=True, check=False)
    assert b"\x1b" not in done.stdout + done.stderr


def test_work_that_takes_long_is_shown(folder: Path) -> None:
    command = ("convert", "m.onnx", "-o", "slow.xml", "--extension", "slow.py")
    text = on_terminal(folder, *command, before="state.PATIENCE = 0.3")
    assert len(re.findall(r"Converting m\.onnx.*?0:00:0[01]", text)) > 1
    plain = CONTROL.sub("", text).replace("\r", "\n").splitlines()
    assert "WARNING: halfway" in [line.strip() for line in plain], "|".join(plain)[-900:]
    assert text.count("Wrote slow.xml") == 1
    # What was drawn is gone at the end.
    assert "0:00:0" not in text[text.index("Wrote") :]


@pytest.mark.parametrize(("arguments", "before"), [(["-q"], "state.PATIENCE = 0.3"), ([], "pass")])
def test_nothing_is_shown_where_it_is_short_or_quiet(arguments: list[str], before: str, folder: Path) -> None:
    """Nor is rich imported where it is short."""
    before = f"import atexit; atexit.register(lambda: print('rich' in sys.modules)); {before}"
    text = on_terminal(folder, "convert", "m.onnx", "-o", "o.xml", *arguments, before=before)
    assert "0:00:0" not in text
    assert arguments or text.strip().endswith("False")
