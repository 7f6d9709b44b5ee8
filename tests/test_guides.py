"""The examples of docs/architecture.md work as they are shown: an operator, a pass and a rule, with their tests."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"

SHOWN = re.compile(r"`((?:converter|tests)/[\w/]+\.py)`[^`]*?\n\n```python\n(.*?)^```", re.S | re.M)
"""A path at the end of a paragraph, and the Python behind it."""

PROBES = "tests/converter/targets/probes/computation.py"

RULE_TEST = """
from tests.runtimes.check import check
from tests.converter.targets.probes.computation import NOT_FINITE
from tests.converter.targets.probes.rows import probe, single
from tests.converter.targets.probes.rows import run_plain

import pytest

ROW = {row}


def test_the_row():
    check(ROW.row)
    with pytest.raises(AssertionError):
        run_plain(ROW)
"""
"""A test of a rule's row: the plug-in computes it correctly with the rule, and wrongly without."""


ROWS_TEST = """

import pytest
from tests.rows.row import named
from tests.runtimes.check import check


@pytest.mark.parametrize("row", named("example", ROWS), ids=lambda row: row.name)
def test_the_rows(row):
    check(row)
"""
"""A test of a guide's rows."""


SHOWN_FILES = SHOWN.findall(PAGE.read_text())
ORDERS = ("converter/passes/order.py", "converter/targets/openvino_cpu/order.py")
GUIDES = {
    "an operator": ("converter/from_onnx/operators/example/softsigns.py", "tests/rows/example/softsigns.py"),
    "a pass": ("converter/passes/double_negations.py", ORDERS[0], "tests/converter/test_double_negations.py"),
    "a rule": ("converter/targets/openvino_cpu/exp_of_nan.py", ORDERS[1], PROBES),
}


def test_each_guide_has_code_and_rows() -> None:
    assert [path for path, _ in SHOWN_FILES] == [path for paths in GUIDES.values() for path in paths]


def test_the_files_of_the_guides_are_not_there() -> None:
    """Where one is there, the page needs another example."""
    assert {path for path, _ in SHOWN_FILES if (ROOT / path).exists()} == {PROBES, *ORDERS}


def test_each_line_of_the_table_has_a_planted_bug() -> None:
    """``benchmarks/planted_bugs.py`` runs what a line names with a bug that it has to find."""
    table = PAGE.read_text().partition("| changed | tests |")[2].partition("\n\n")[0]
    changes = set(re.findall(r"^\| (.+?) \| [^|]+ \|$", table, re.M)) - {"---"}
    script = runpy.run_path(str(ROOT / "benchmarks" / "planted_bugs.py"))
    in_a_browser = {"the page that runs in the browser"}
    assert {bug.change for bug in script["BUGS"]} == changes - in_a_browser
    for bug in script["BUGS"]:
        assert (ROOT / bug.file).read_text().count(bug.before) == 1, f"plant another bug in {bug.file}"
        paths = [word for word in bug.guide.split() if word.startswith("tests/")]
        assert all((ROOT / path).exists() for path in paths), f"tests that {bug.guide} names are gone"


@pytest.mark.parametrize("guide", GUIDES)
def test_the_guides_code_and_rows(guide: str, tmp_path: Path) -> None:
    """In a process of its own, in which the example is listed and registered."""
    texts = dict(SHOWN_FILES)
    path, *order, test_path = GUIDES[guide]
    rows = texts[test_path]
    (tmp_path / Path(path).name).write_text(texts[path])
    (tmp_path / "line_in_order.py").write_text("".join(_insertion(name, texts[name]) for name in order))
    (tmp_path / "conftest.py").write_text(f"import {Path(path).stem}\n")
    rows = RULE_TEST.format(row=rows) if test_path == PROBES else rows
    (tmp_path / "test_rows.py").write_text(rows + ROWS_TEST * test_path.startswith("tests/rows/"))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--full",
            *("-p", "no:cacheprovider", "-p", "line_in_order", "-p", "tests.conftest"),
            str(tmp_path),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _insertion(path: str, line: str) -> str:
    """Python that inserts the line of a guide into an order, before any pipeline has read it."""
    module = path.removesuffix(".py").replace("/", ".")
    names = "from ir_runtime.rewriting.contracts import EXACT\nfrom ir_runtime.rewriting.pipeline import Entry\n"
    return f"{names}from {module} import ORDER\nORDER += [{line}]\n"
