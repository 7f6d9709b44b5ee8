"""Pages, folders and statements about comparisons: found out before the work where they cannot be written."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.equivalence.comparison import runs
from converter.equivalence.verdict import findings
from converter.equivalence.verdict.statement import PREDICATE_TYPE
from converter.report.page import Page
from ir_runtime.graph.model import Model
from tests.commands import onnx2ir
from tests.converter.equivalence.edits import damaged
from tests.converter.equivalence.models import real
from tests.converter.optimization.models import parse


@pytest.fixture
def ir(image: Path, tmp_path: Path) -> Path:
    converter.save_model(converter.convert_model(image), tmp_path / "ir.xml")
    return tmp_path / "ir.xml"


def damaged_model(path: Path) -> Model:
    model = ir_runtime.read_model(path)
    damaged()(model)
    return model


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("work was done for a page that cannot be written")


LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc takes no files")


@pytest.mark.parametrize("name", ["file/missing/p", "file/p", "file", "folder", pytest.param("/proc/p", marks=LINUX)])
def test_what_cannot_be_written_stops_commands_before_they_start(
    image: Path, ir: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs.Runs, "random", refuse)
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    path, made = tmp_path / name, tmp_path / "made.xml"
    for option in {"file": ["minimise"], "folder": ["report"]}.get(name, ["report", "minimise"]):
        with pytest.raises(ir_runtime.FileError, match=path.name):
            converter.verify(image, ir, **{option: path})
    for words in ["verify", image, ir], ["convert", image, "-o", made], ["diff", ir, ir]:
        code, out, err = onnx2ir(*map(str, words), "--report", str(path)) if name != "file" else (1, "", name)
        assert (code in (1, 2), out, made.exists(), path.name in err) == (True, "", False, True)


def test_missing_folders_are_made(image: Path, ir: Path, tmp_path: Path) -> None:
    report = converter.verify(image, damaged_model(ir), minimise=tmp_path / "a" / "b", weights=False)
    assert (tmp_path / "a" / "b" / "model.onnx").exists()
    assert report.unwritten == ()
    folder = tmp_path / "new"
    code, *_ = onnx2ir("convert", str(image), "-o", str(folder / "m.xml"), "--report", str(folder / "page.html"))
    assert (code, (folder / "page.html").exists()) == (0, True)


def test_where_writing_fails_after_all_the_verdict_is_printed(
    image: Path, ir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Page, path: Path) -> None:
        raise ir_runtime.FileError(f"'{path}' cannot be written: No space left on device")

    monkeypatch.setattr(Page, "write", full)
    page, made = tmp_path / "page.html", tmp_path / "made.xml"
    report = converter.verify(image, ir, report=page)
    assert (report.passed, report.page) == (True, "")
    assert "No space left" in report.unwritten[0]
    for words, printed in (
        (["verify", image, ir], "PASSED"), (["verify", image, ir, "--json"], '"passed": true'),
        (["diff", ir, ir], "the same"), (["convert", image, "-o", made, "--verify"], "PASSED"),
        (["convert", image, "-o", made], "Wrote"),
    ):  # fmt: skip
        code, out, err = onnx2ir(*map(str, words), "--report", str(page))
        assert (code, printed in out + err, "No space left" in err) == (1, True, True)


def test_a_smallest_part_that_cannot_be_made_leaves_the_verdict(
    image: Path, ir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(findings, "minimise", no_space)
    report = converter.verify(image, damaged_model(ir), minimise=tmp_path / "part", weights=False)
    assert (report.passed, report.minimised) == (False, "")
    assert "No space left" in report.unwritten[0]


# --- in-toto statements ---

Pair = tuple[Path, Path]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """A model with external data, and its IR."""
    proto = parse("g (float[n,16] x) => (y) { p = MatMul (x, w) y = Tanh (p) }", 18, w=real(16, 16))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    converter.save_model(converter.convert_model(tmp_path / "m.onnx"), tmp_path / "m.xml")
    return tmp_path / "m.onnx", tmp_path / "m.xml"


def attested(pair: Pair, **options: Any) -> tuple[Path, dict[str, Any]]:
    path = pair[0].parent / "statement.json"
    converter.verify(*pair, attest=path, **options)
    return path, json.loads(path.read_text())


def test_a_statement_names_files_options_and_the_verdict(pair: Pair) -> None:
    path, values = attested(pair, seed=3, layers=True)
    folder = path.parent

    def described(*names: str) -> list[dict[str, Any]]:
        digests = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names]
        return [{"name": name, "digest": {"sha256": digest}} for name, digest in zip(names, digests)]

    assert (values["_type"], values["predicateType"]) == ("https://in-toto.io/Statement/v1", PREDICATE_TYPE)
    assert values["subject"] == described("m.xml", "m.bin")
    predicate = values["predicate"]
    assert [one["name"] for one in predicate["materials"]] == ["m.onnx", "m.data"]
    assert predicate["materials"][1]["digest"] == described("m.data")[0]["digest"]
    assert predicate["options"] == {"seed": 3, "layers": True}
    assert (predicate["verdict"], predicate["versions"]["onnx2ir"]) == ("derived", converter.__version__)
    assert [(one["name"], one["passed"]) for one in predicate["outputs"]] == [("y", True)]
    first = path.read_bytes()
    assert attested(pair, seed=3, layers=True)[0].read_bytes() == first
    assert str(folder) not in path.read_text()
    change_weights(pair, {})
    assert attested(pair)[1]["predicate"]["verdict"] == "different"


def test_the_reference_library_validates_it(pair: Pair) -> None:
    names = ("in_toto_attestation.v1.statement", "google.protobuf.json_format", "in_toto_attestation.v1.statement_pb2")
    statements, json_format, messages = map(pytest.importorskip, names)
    path, _ = attested(pair)
    message = json_format.Parse(path.read_text(), messages.Statement())
    statements.Statement.copy_from_pb(message).validate()
    assert message.predicate["verdict"] == "derived"


def test_a_statement_that_holds(pair: Pair) -> None:
    path, _ = attested(pair, seed=3)
    report = converter.verify(*pair, attestation=path)
    assert (report.passed, report.attestation, report.seed) == (True, (), 3)
    report = converter.verify(*pair, attestation=path, seed=4)
    assert report.attestation == ("the option seed is 4, in the statement 3",)
    moved = [file.rename(file.with_stem("other")) for file in (pair[1], pair[1].with_suffix(".bin"))]
    assert converter.verify(pair[0], moved[0], attestation=path).attestation == ()


def change_weights(pair: Pair, _: dict[str, Any]) -> None:
    values = np.fromfile(pair[1].with_suffix(".bin"), np.float32)
    values[0] += 1
    values.tofile(pair[1].with_suffix(".bin"))


def change_reference(pair: Pair, _: dict[str, Any]) -> None:
    model = onnx.load(pair[0])
    model.doc_string = "changed"
    pair[0].with_name("m.data").unlink()  # onnx appends to it
    onnx.save(model, pair[0], save_as_external_data=True, location="m.data", size_threshold=0)


NOWHERE = {"name": "weights", "digest": {"sha256": "0" * 64}}
CHANGES: list[tuple[Callable[[Pair, dict[str, Any]], Any], list[str]]] = [
    (change_weights, ["the file 'm.bin' has the SHA-256 ", "the verdict is 'different', in the statement 'derived'"]),
    (change_reference, ["the file 'm.onnx' has the SHA-256 ", "the verdict is 'equal', in the statement 'derived'"]),
    (lambda _, values: values["predicate"].update(verdict="equal"), ["the verdict is 'derived', in the statement 'equal'"]),
    (lambda _, values: values["subject"].__setitem__(1, NOWHERE),
     ["no file has the digest that 'weights' has", "the file 'm.bin' is not in the statement"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), CHANGES)
def test_every_mismatch_is_named(pair: Pair, change: Callable[..., None], expected: list[str]) -> None:
    path, values = attested(pair)
    change(pair, values)
    path.write_text(json.dumps(values))
    words = ["verify", *map(str, pair), "--attestation", str(path)]
    code, out, _ = onnx2ir(*words, "--json")
    report = json.loads(out)
    assert (code, report["passed"], len(report["attestation"])) == (1, False, len(expected))
    assert all(mismatch.startswith(start) for mismatch, start in zip(report["attestation"], expected))
    code, out, _ = onnx2ir(*words, "--report", str(path.parent / "p.html"))
    assert (code, "FAILED" in out) == (1, True)
    assert f"the statement does not hold:\n  {report['attestation'][0]}" in out
    assert "The statement does not hold" in (path.parent / "p.html").read_text()


def test_inputs_are_materials(pair: Pair) -> None:
    inputs = pair[0].parent / "x.npz"
    np.savez(inputs, x=np.ones((2, 16), np.float32))
    path, values = attested(pair, inputs=inputs)
    assert [one["name"] for one in values["predicate"]["materials"]] == ["m.onnx", "m.data", "x.npz"]
    assert converter.verify(*pair, attestation=path, inputs=inputs).attestation == ()
    (mismatch,) = converter.verify(*pair, attestation=path).attestation or ()
    assert mismatch == "no file has the digest that 'x.npz' has in the statement"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "is no JSON"), ("[]", "_type is None, not 'https://in-toto.io/Statement/v1'"),
        ('{"_type": "https://in-toto.io/Statement/v1", "predicateType": "x"}', "predicateType is 'x'"),
        ('{"payload": "", "signatures": []}', "is a signed envelope"), ("", "cannot be read"),
        *((part, "is not complete") for part in ("subject", "predicate", "verdict", "options", "materials")),
    ],
)  # fmt: skip
def test_what_is_no_statement_is_refused(pair: Pair, text: str, expected: str) -> None:
    path, values = attested(pair)
    if expected == "is not complete":
        values.pop(text, None)
        values.get("predicate", {}).pop(text, None)
        text = json.dumps(values)
    path.write_text(text) if text else path.unlink()
    with pytest.raises(converter.VerificationError, match=expected):
        converter.verify(*pair, attestation=path)


def test_models_in_memory_have_no_digest(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(converter.VerificationError, match="a statement is about files"):
        converter.verify(pair[0], converter.convert_model(pair[0]), attest=tmp_path / "s.json")
    with pytest.raises(converter.VerificationError, match="a statement has no form for freeze="):
        attested(pair, freeze={"x": np.ones((2, 16), np.float32)})
    assert not (tmp_path / "s.json").exists()
