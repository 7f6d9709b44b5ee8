"""Pages and folders that cannot be written: found out before the work, and no verdict is lost with them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import converter
import ir_runtime
from converter.equivalence import references, runs
from converter.report.page import Page
from tests.commands import onnx2ir
from tests.converter.test_verify_engines import damaged
from tests.converter.test_verify_inputs import image

__all__ = ["image"]  # a fixture


@pytest.fixture
def ir(image: Path, tmp_path: Path) -> Path:
    converter.save_model(converter.convert_model(image), tmp_path / "ir.xml")
    return tmp_path / "ir.xml"


def bad_file(kind: str, folder: Path) -> Path:
    if kind == "of the system":
        return Path("/proc/page.html")
    (folder / "file").write_text("")
    (folder / "folder").mkdir()
    return {
        "in a folder below a file": folder / "file" / "missing" / "page.html",
        "a folder": folder / "folder",
        "below a file": folder / "file" / "page.html",
    }[kind]


LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc takes no files")
KINDS = ["in a folder below a file", "a folder", "below a file", pytest.param("of the system", marks=LINUX)]


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("work was done for a page that cannot be written")


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_that_cannot_be_written_stops_a_comparison_before_it_starts(
    image: Path, ir: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs.Runs, "random", refuse)
    page = bad_file(kind, tmp_path)
    with pytest.raises(ir_runtime.FileError, match=page.name):
        converter.verify(image, ir, report=page)
    code, out, err = onnx2ir("verify", str(image), str(ir), "--report", str(page))
    assert (code in (1, 2), out) == (True, "")
    assert page.name in err


@pytest.mark.parametrize("kind", ["below a file", pytest.param("of the system", marks=LINUX)])
def test_a_folder_that_cannot_be_made_stops_a_comparison_before_it_starts(
    image: Path, ir: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs.Runs, "random", refuse)
    with pytest.raises(ir_runtime.FileError):
        converter.verify(image, ir, minimise=bad_file(kind, tmp_path))
    (tmp_path / "x").write_text("")
    with pytest.raises(ir_runtime.FileError):
        converter.verify(image, ir, minimise=tmp_path / "x")


def test_missing_folders_for_the_smallest_part_are_made(image: Path, ir: Path, tmp_path: Path) -> None:
    report = converter.verify(image, damaged(ir), minimise=tmp_path / "a" / "b", weights=False)
    assert (tmp_path / "a" / "b" / "model.onnx").exists()
    assert report.unwritten == ()


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_that_cannot_be_written_stops_a_conversion_and_a_difference(
    image: Path, ir: Path, tmp_path: Path, kind: str
) -> None:
    page = bad_file(kind, tmp_path)
    made = tmp_path / "made.xml"
    code, _, err = onnx2ir("convert", str(image), "-o", str(made), "--report", str(page))
    assert (code in (1, 2), made.exists()) == (True, False)
    assert page.name in err
    code, out, err = onnx2ir("diff", str(ir), str(ir), "--report", str(page))
    assert (code in (1, 2), out) == (True, "")
    assert page.name in err


def test_a_page_may_lie_beside_an_ir_in_a_folder_that_is_made(image: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    code, *_ = onnx2ir("convert", str(image), "-o", str(folder / "m.xml"), "--report", str(folder / "page.html"))
    assert (code, (folder / "page.html").exists()) == (0, True)


def full(self: Page, path: Path) -> None:
    raise ir_runtime.FileError(f"'{path}' cannot be written: No space left on device")


def test_where_writing_fails_after_all_the_verdict_is_printed(
    image: Path, ir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Page, "write", full)
    page = tmp_path / "page.html"
    report = converter.verify(image, ir, report=page)
    assert report.passed
    assert "No space left" in report.unwritten[0]
    code, out, err = onnx2ir("verify", str(image), str(ir), "--report", str(page))
    assert (code, "PASSED" in out, "No space left" in err) == (1, True, True)
    code, out, err = onnx2ir("verify", str(image), str(ir), "--report", str(page), "--json")
    assert (code, json.loads(out)["passed"]) == (1, True)
    code, out, err = onnx2ir("diff", str(ir), str(ir), "--report", str(page))
    assert (code, "the same" in out, "No space left" in err) == (1, True, True)
    made = tmp_path / "made.xml"
    code, out, err = onnx2ir("convert", str(image), "-o", str(made), "--report", str(page), "--verify")
    assert (code, "PASSED" in out, "No space left" in err) == (1, True, True)
    code, out, err = onnx2ir("convert", str(image), "-o", str(made), "--report", str(page))
    assert (code, "Wrote" in err, "No space left" in err) == (1, True, True)


def test_a_smallest_part_that_cannot_be_made_leaves_the_verdict(
    image: Path, ir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(references, "minimise", no_space)
    report = converter.verify(image, damaged(ir), minimise=tmp_path / "part", weights=False)
    assert (report.passed, report.minimised) == (False, "")
    assert "No space left" in report.unwritten[0]
