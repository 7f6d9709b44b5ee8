"""The generated pages and the README agree with the code, and the guides of docs/architecture.md work as shown."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import onnx
import pytest

import converter
import ir_runtime
from converter.command_line import main
from converter.from_onnx.support import MEASURED, supported_operators

# --- the generated page and the README agree with the code ---

ROOT = Path(__file__).parent.parent
PAGES_OF_COMMANDS = ("index", "commands", "python", "shapes", "compression", "debugging", "troubleshooting", "limits")


def test_the_generated_pages_are_what_the_generator_writes(tmp_path: Path) -> None:
    """Into a copy, and without the index of operators, which other processes read meanwhile."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    code = """import runpy, subprocess, sys
subprocess.run, sys.argv = (lambda *_, **__: None), ["docs/generate.py", "--page-only"]
runpy.run_path(sys.argv[0], run_name="__main__")"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    pages = [path for path in (ROOT / "docs").rglob("*") if path.suffix in (".md", ".yml")]
    stale = [page for page in pages if (tmp_path / page.relative_to(ROOT)).read_bytes() != page.read_bytes()]
    assert not stale, "run docs/generate.py --page-only"


def test_the_operator_pages_are_what_the_command_line_prints() -> None:
    pages = [page.read_text() for page in (ROOT / "docs" / "operators").glob("*.md")]
    rows = {row for page in pages for row in page.splitlines() if row.startswith("|")}
    command = [sys.executable, "-m", "converter", "ops"]
    assert rows == set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())


def test_every_operator_of_onnx_and_every_measured_one_is_listed() -> None:
    listed = {f"{operator.domain}.{operator.op_type}" for operator in supported_operators()}
    current = {f"{schema.domain}.{schema.name}" for schema in onnx.defs.get_all_schemas() if not schema.deprecated}
    assert current | set(json.loads(MEASURED.read_text())) <= listed


def test_every_command_stands_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    for name in main.commands:  # type: ignore[attr-defined]
        assert f"onnx2ir {name}" in text


def test_the_pages_name_only_options_that_exist() -> None:
    pages = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in PAGES_OF_COMMANDS))
    text = "".join(page.read_text() for page in pages)
    known = {
        option for command in main.commands.values() for p in command.params for option in [*p.opts, *p.secondary_opts]
    }  # type: ignore[attr-defined]
    known |= {option for p in main.params for option in p.opts} | {"--help"}
    # Three of pytest's, one of docs/generate.py.
    known |= {"--full", "--rest", "--measure", "--page-only"}
    used = set(re.findall(r"(?<![\w-])(--[a-z0-9][a-z0-9-]+)", text))
    assert used <= known, used - known


def test_the_messages_of_the_troubleshooting_page_are_the_codes() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    tables = re.findall(r"^\| `([^`|]+)`[^|]*\|", text, re.M)
    code = "".join(path.read_text() for name in ("converter", "ir_runtime") for path in (ROOT / name).rglob("*.py"))
    joined = re.sub(r'"\s*\n\s*f?"', "", code)
    messages = [one for one in tables if " " in one]
    assert len(messages) > 8
    assert [one for one in messages if one not in joined] == []


def test_the_site_has_every_page() -> None:
    listed = set(re.findall(r": ([\w/.]+\.md)$", (ROOT / "docs" / "site" / "mkdocs.yml").read_text(), re.M))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert listed == pages, f"change `nav` of docs/site/mkdocs.yml: add {pages - listed}, take out {listed - pages}"


def test_every_public_name_and_field_is_described() -> None:
    missing = {f"{package.__name__}.{name}" for package in (converter, ir_runtime) for name in undescribed(package)}
    assert missing == set()


def undescribed(package: ModuleType) -> Iterator[str]:
    """Public names, methods and fields that no docstring describes; a class may describe its fields in its own."""
    for name in package.__all__:
        thing = getattr(package, name)
        if not inspect.getdoc(thing):
            yield name
        if not inspect.isclass(thing):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0].body  # type: ignore[attr-defined]
        described = {
            first.target.id  # type: ignore[union-attr]
            for first, then in itertools.pairwise(body)
            if isinstance(first, ast.AnnAssign) and isinstance(then, ast.Expr) and isinstance(then.value, ast.Constant)
        }
        for field in dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ():
            if field.name not in described and f"``{field.name}``" not in (thing.__doc__ or ""):
                yield f"{name}.{field.name}"
        for own, member in vars(thing).items():
            function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
            is_shown = inspect.isfunction(function) or isinstance(function, property)
            if is_shown and not own.startswith("_") and not inspect.getdoc(function):
                yield f"{name}.{own}"


# --- the examples of docs/architecture.md work as they are shown: an operator, a pass and a rule, with their tests ---

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
    plugins = ("-p", "no:cacheprovider", "-p", "line_in_order", "-p", "tests.conftest")
    command = [sys.executable, "-m", "pytest", "--full", *plugins, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _insertion(path: str, line: str) -> str:
    """Python that inserts the line of a guide into an order, before any pipeline has read it."""
    module = path.removesuffix(".py").replace("/", ".")
    names = "from ir_runtime.rewriting.contracts import EXACT\nfrom ir_runtime.rewriting.pipeline import Entry\n"
    return f"{names}from {module} import ORDER\nORDER += [{line}]\n"
