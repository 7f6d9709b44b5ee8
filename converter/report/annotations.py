"""Annotations for GitHub: a note at the file of each model that failed, and a table in the summary of the job.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from converter.report.rows import MODEL, model_row
from converter.workflow.rows import Row, counts

_MESSAGE = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_MESSAGE, ":": "%3A", ",": "%2C"}
_HEADINGS = (*MODEL, "")


def notes_of(rows: Sequence[Row], root: Path) -> list[str]:
    """A line for each thing to show: ``::error file=models/a.onnx,title=onnx2ir::refused: ...``.

    Models that failed are errors, warnings of conversions are warnings, and what else a verdict has to say is a
    notice. Paths are those below ``root``, the folder of the repository.
    """
    collected = []
    for row in rows:
        notes = [("warning", message) for message in row.messages]
        if not row.passed:
            notes.insert(0, ("error", f"{row.verdict}: {row.reason}" if row.reason else row.verdict))
        elif row.reason:
            notes.insert(0, ("notice", row.reason))
        path = _escape(_below(Path(row.model), root), _PROPERTY)
        collected += [f"::{level} file={path},title=onnx2ir::{_escape(text, _MESSAGE)}" for level, text in notes]
    return collected


def summary(rows: Sequence[Row], requested_count: int) -> str:
    """The table of all models as Markdown."""
    verdicts = ", ".join(f"{times} {verdict}" for verdict, times in counts(rows).items()) or "none is done"
    lines = [f"### onnx2ir: {len(rows)} of {requested_count} models: {verdicts}", ""]
    lines += [_line(_HEADINGS), _line("---" for _ in _HEADINGS)]
    for row in rows:
        figures = [cell for cell in model_row(row)[2:] if isinstance(cell, str)]
        verdict = row.verdict if row.passed else f"**{row.verdict}**"
        lines.append(_line((f"<code>{_cell(row.name)}</code>", verdict, *figures, _cell(row.reason))))
    return "\n".join(lines) + "\n"


def repository() -> Path:
    """The folder of the repository: as GitHub tells it, or the current one."""
    return Path(os.environ.get("GITHUB_WORKSPACE") or ".").resolve()


def _below(path: Path, root: Path) -> str:
    resolved = path.resolve()
    return resolved.relative_to(root).as_posix() if resolved.is_relative_to(root) else path.as_posix()


def _escape(text: str, letters: Mapping[str, str]) -> str:
    return "".join(letters.get(letter, letter) for letter in text)


def _cell(text: str) -> str:
    """A text in a table: one line, and nothing that Markdown or HTML reads as its own."""
    escaped = html.escape(text)
    for letter in "\\`*_[]|~":
        escaped = escaped.replace(letter, f"&#{ord(letter)};")
    return "<br>".join(escaped.splitlines())


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
