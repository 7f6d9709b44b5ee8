"""verify --attest and --attestation: in-toto statements about a verification."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import converter
from converter.equivalence.statement import PREDICATE_TYPE
from tests.commands import onnx2ir
from tests.converter.test_verify_layers import overwrite, saved


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A model with external data, and its IR."""
    weights = {"w": np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Tanh", ["p"], ["y"])]
    path = saved(nodes, weights, tmp_path, ["y"], ["n", 16])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="m.data", size_threshold=0)
    converter.save_model(converter.convert_model(path), tmp_path / "m.xml")
    return path, tmp_path / "m.xml"


def attested(pair: tuple[Path, Path], **options: Any) -> tuple[Path, dict[str, Any]]:
    path = pair[0].parent / "statement.json"
    converter.verify(*pair, attest=path, **options)
    return path, json.loads(path.read_text())


def sha256(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_statement_names_files_options_and_the_verdict(pair: tuple[Path, Path]) -> None:
    path, values = attested(pair, seed=3, layers=True)
    folder = path.parent
    described = [{"name": name, "digest": {"sha256": sha256(folder / name)}} for name in ("m.xml", "m.bin")]
    assert (values["_type"], values["predicateType"]) == ("https://in-toto.io/Statement/v1", PREDICATE_TYPE)
    assert values["subject"] == described
    predicate = values["predicate"]
    assert [one["name"] for one in predicate["materials"]] == ["m.onnx", "m.data"]
    assert predicate["materials"][1]["digest"]["sha256"] == sha256(folder / "m.data")
    assert predicate["options"] == {"seed": 3, "layers": True}
    assert (predicate["verdict"], predicate["versions"]["onnx2ir"]) == ("derived", converter.__version__)
    assert [(one["name"], one["passed"]) for one in predicate["outputs"]] == [("y", True)]
    first = path.read_bytes()
    attested(pair, seed=3, layers=True)
    assert path.read_bytes() == first
    assert str(folder) not in path.read_text()


def test_the_reference_library_validates_it(pair: tuple[Path, Path]) -> None:
    statements = pytest.importorskip("in_toto_attestation.v1.statement")
    json_format = pytest.importorskip("google.protobuf.json_format")
    messages = pytest.importorskip("in_toto_attestation.v1.statement_pb2")
    path, _ = attested(pair)
    message = json_format.Parse(path.read_text(), messages.Statement())
    statements.Statement.copy_from_pb(message).validate()
    assert message.predicate["verdict"] == "derived"


def test_a_statement_that_holds(pair: tuple[Path, Path]) -> None:
    path, _ = attested(pair, seed=3)
    report = converter.verify(*pair, attestation=path)
    assert (report.passed, report.attestation, report.seed) == (True, (), 3)
    moved = (
        pair[1].rename(pair[1].with_name("other.xml")),
        pair[1].with_suffix(".bin").rename(pair[1].with_name("other.bin")),
    )
    assert converter.verify(pair[0], moved[0], attestation=path).attestation == ()


def change_weights(pair: tuple[Path, Path], _: dict[str, Any]) -> None:
    data = pair[1].with_suffix(".bin")
    values = np.fromfile(data, np.float32)
    values[0] += 1
    values.tofile(data)


def change_reference(pair: tuple[Path, Path], _: dict[str, Any]) -> None:
    model = onnx.load(pair[0])
    model.doc_string = "changed"
    pair[0].with_name("m.data").unlink()  # onnx appends to it
    onnx.save(model, pair[0], save_as_external_data=True, location="m.data", size_threshold=0)


def change_verdict(_: tuple[Path, Path], values: dict[str, Any]) -> None:
    values["predicate"]["verdict"] = "equal"


def change_name(_: tuple[Path, Path], values: dict[str, Any]) -> None:
    values["subject"][1] = {"name": "weights", "digest": {"sha256": "0" * 64}}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            change_weights,
            ["the file 'm.bin' has the SHA-256 ", "the verdict is 'different', in the statement 'derived'"],
        ),
        (
            change_reference,
            ["the file 'm.onnx' has the SHA-256 ", "the verdict is 'equal', in the statement 'derived'"],
        ),
        (change_verdict, ["the verdict is 'derived', in the statement 'equal'"]),
        (change_name, ["no file has the digest that 'weights' has", "the file 'm.bin' is not in the statement"]),
    ],
)
def test_every_mismatch_is_named(
    pair: tuple[Path, Path], change: Callable[[tuple[Path, Path], dict[str, Any]], None], expected: list[str]
) -> None:
    path, values = attested(pair)
    change(pair, values)
    path.write_text(json.dumps(values))
    code, out, _ = onnx2ir("verify", *map(str, pair), "--attestation", str(path), "--json")
    report = json.loads(out)
    assert (code, report["passed"], len(report["attestation"])) == (1, False, len(expected))
    for mismatch, start in zip(report["attestation"], expected):
        assert mismatch.startswith(start)
    code, out, _ = onnx2ir(
        "verify", *map(str, pair), "--attestation", str(path), "--report", str(path.parent / "p.html")
    )
    assert code == 1
    assert "FAILED" in out
    assert f"the statement does not hold:\n  {report['attestation'][0]}" in out
    assert "The statement does not hold" in (path.parent / "p.html").read_text()


def test_options_of_the_caller_are_compared(pair: tuple[Path, Path]) -> None:
    path, _ = attested(pair, seed=3)
    report = converter.verify(*pair, attestation=path, seed=4)
    assert report.attestation == ("the option seed is 4, in the statement 3",)


def test_inputs_are_materials(pair: tuple[Path, Path]) -> None:
    inputs = pair[0].parent / "x.npz"
    np.savez(inputs, x=np.ones((2, 16), np.float32))
    path, values = attested(pair, inputs=inputs)
    assert [one["name"] for one in values["predicate"]["materials"]] == ["m.onnx", "m.data", "x.npz"]
    assert converter.verify(*pair, attestation=path, inputs=inputs).attestation == ()
    (mismatch,) = converter.verify(*pair, attestation=path).attestation or ()
    assert mismatch == "no file has the digest that 'x.npz' has in the statement"


def test_a_wrong_ir_is_attested_as_such(pair: tuple[Path, Path]) -> None:
    import ir_runtime

    model = ir_runtime.read_model(pair[1])
    overwrite(model, "w", np.zeros((16, 16), np.float32))
    converter.save_model(model, pair[1])
    _, values = attested(pair)
    assert values["predicate"]["verdict"] == "different"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "is no JSON"),
        ("[]", "_type is None, not 'https://in-toto.io/Statement/v1'"),
        ('{"_type": "https://in-toto.io/Statement/v1", "predicateType": "x"}', "predicateType is 'x'"),
        ('{"payload": "", "signatures": []}', "is a signed envelope"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_statement_is_refused(pair: tuple[Path, Path], text: str | None, expected: str) -> None:
    path = pair[0].parent / "s.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(converter.VerificationError, match=expected):
        converter.verify(*pair, attestation=path)


@pytest.mark.parametrize("part", ["subject", "predicate", "verdict", "options", "materials"])
def test_what_is_missing_in_a_statement_is_refused(pair: tuple[Path, Path], part: str) -> None:
    path, values = attested(pair)
    values.pop(part, None)
    values.get("predicate", {}).pop(part, None)
    path.write_text(json.dumps(values))
    with pytest.raises(converter.VerificationError, match="is not complete"):
        converter.verify(*pair, attestation=path)


def test_models_in_memory_have_no_digest(pair: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(converter.VerificationError, match="a statement is about files"):
        converter.verify(pair[0], converter.convert_model(pair[0]), attest=tmp_path / "s.json")
    with pytest.raises(converter.VerificationError, match="a statement has no form for freeze="):
        attested(pair, freeze={"x": np.ones((2, 16), np.float32)})
    assert not (tmp_path / "s.json").exists()
