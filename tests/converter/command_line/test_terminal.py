"""What is seen on a terminal: widths, colours, and that work goes on; and none of it elsewhere."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.commands import onnx2ir
from tests.converter.command_line.files import POOL
from tests.converter.command_line.terminal import on_terminal
from tests.engines import node_model

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


@pytest.mark.parametrize(("arguments", "environment", "coloured"), [
    (["verify", "m.onnx", "m.xml"], {}, True),
    (["verify", "m.onnx", "m.xml"], {"NO_COLOR": "1"}, False),
    (["convert", "broken.onnx"], {}, True),
    (["convert", "broken.onnx"], {"NO_COLOR": "1"}, False),
])  # fmt: skip
def test_colours(arguments: list[str], environment: dict[str, str], coloured: bool, folder: Path) -> None:
    assert bool(COLOUR.search(on_terminal(folder, *arguments, **environment))) == coloured


@pytest.mark.parametrize(
    "arguments", [["verify", "m.onnx", "m.xml"], ["convert", "broken.onnx"], ["inspect", "m.onnx"]]
)
def test_nothing_but_text_goes_into_files(arguments: list[str], folder: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "converter", *arguments], cwd=folder, capture_output=True, check=False)
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
    text = on_terminal(folder, "convert", "m.onnx", "-o", "o.xml", *arguments, before=before)
    assert "0:00:0" not in text


def test_rich_is_not_imported_for_short_work(folder: Path) -> None:
    before = "import atexit; atexit.register(lambda: print('rich' in sys.modules))"
    assert on_terminal(folder, "convert", "m.onnx", "-o", "o.xml", before=before).strip().endswith("False")
