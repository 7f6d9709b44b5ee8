"""The generated page and the README agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

from converter.cli import main
from converter.support import supported_operators

ROOT = Path(__file__).parent.parent


def test_the_operator_page_lists_the_registry() -> None:
    rows = re.findall(
        r"^\| (\w+) \| ([\w.]+) \| ([\d, ]+) \|", (ROOT / "docs" / "operators.md").read_text(), re.MULTILINE
    )
    listed = {(name, domain): versions for name, domain, versions in rows}
    expected = {
        (operator.op_type, operator.domain or "ai.onnx"): ", ".join(map(str, operator.versions))
        for operator in supported_operators()
    }
    assert listed == expected, "run docs/generate.py"


def test_every_command_stands_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    for name in main.commands:  # type: ignore[attr-defined]
        assert f"onnx2ir {name}" in text


def test_the_readme_names_only_options_that_exist() -> None:
    text = (ROOT / "README.md").read_text()
    known = {
        option for command in main.commands.values() for p in command.params for option in [*p.opts, *p.secondary_opts]
    }  # type: ignore[attr-defined]
    known |= {option for p in main.params for option in p.opts} | {"--help"}
    used = set(re.findall(r"(?<![\w-])(--[a-z0-9][a-z0-9-]+)", text))
    assert used <= known, used - known
