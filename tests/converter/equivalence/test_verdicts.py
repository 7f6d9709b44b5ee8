"""Verdicts of ``verify``: each row of the tables, in Python and, where it says so, by the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import converter
import ir_runtime
from converter.derivation import without_record
from tests.commands import onnx2ir
from tests.converter.equivalence import inputs, verdicts
from tests.converter.equivalence.models import saved
from tests.converter.equivalence.row import DERIVED, EQUAL, Verdict

TABLES = {**verdicts.TABLES, **inputs.TABLES}
ROWS = [pytest.param(row, id=f"{table}: {row.name}") for table, rows in TABLES.items() for row in rows]


@pytest.mark.parametrize("row", ROWS)
def test_verdict(row: Verdict, tmp_path: Path) -> None:
    check(row, tmp_path)


def check(row: Verdict, folder: Path) -> None:
    proto = row.model()
    path = saved(proto, folder)
    model = converter.convert_model(saved(row.of(), folder, "of.onnx") if row.of else path, **row.convert)
    if row.saving is not None:
        converter.save_model(model, folder / "m.xml", **row.saving)
        model = ir_runtime.read_model(folder / "m.xml")
    if row.edit is not None:
        row.edit(model)
    if not row.record:
        model = without_record(model)
    options = dict(row.options)
    if "minimise" in options:
        options["minimise"] = folder / "part"
    if "against" in options:  # an edit of the other IR
        edit, options["against"] = options["against"], converter.convert_model(path)
        edit(options["against"])
    report = converter.verify(path, model, **options)
    found = str(report)
    assert report.verdict in row.verdict.split(), found
    assert report.passed == row.passed, found
    assert row.reason in report.reason
    assert any(row.note in note for note in (*report.notes, *[""] * (not row.note))), report.notes
    assert report.oracle.startswith(row.oracle)
    fault = report.first_fault
    if report.verdict in (DERIVED, EQUAL):
        assert fault is None, found
    if row.first is not None:
        assert (fault.layer if fault else "") == row.first, found
    if row.changed is not None:
        assert [one.name for one in report.weights if not one.passed] == row.changed.split(), found
    if row.differ is not None:
        assert [one.name for one in report.outputs if not one.passed] == row.differ.split(), found
    assert row.look is None or row.look(report), found
    if row.command is not None:
        check_command(row, model, folder)


def check_command(row: Verdict, model: ir_runtime.Model, folder: Path) -> None:
    ir_runtime.write_model(model, folder / "m.xml")
    words = ["verify", str(folder / "m.onnx"), str(folder / "m.xml"), *row.words]
    code, out, messages = onnx2ir(*words, "--report", str(folder / "page.html"))
    assert code == (not row.passed), messages
    for part in row.command.split("|"):
        assert part in " ".join(out.split())
    headline = "PASSED" if row.passed else "UNPROVEN" if row.verdict == "unproven" else "FAILED"
    assert headline in (folder / "page.html").read_text()
    found = json.loads(onnx2ir(*words, "--json")[1])
    assert (found["verdict"] in row.verdict, found["passed"]) == (True, row.passed)
