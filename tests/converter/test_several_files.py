"""``convert`` and ``verify`` with several files: each as by itself, and all are tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.converter.batch.models import dense, extension, onnx2ir, wrong


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    dense(tmp_path / "a.onnx")
    dense(tmp_path / "b.onnx", 1)
    dense(tmp_path / "deep" / "a.onnx", 2)
    (tmp_path / "cut.onnx").write_bytes(b"\x08\x09")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def irs(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.xml"))


def test_models_are_converted_beside_themselves_or_into_a_folder(folder: Path) -> None:
    code, printed, messages = onnx2ir("convert", "a.onnx", "b.onnx", "deep/a.onnx")
    assert (code, printed) == (0, ""), messages
    assert irs(folder) == ["a.xml", "b.xml", "deep/a.xml"]
    assert [line for line in messages.splitlines() if line.startswith("Wrote")][2].startswith("Wrote deep/a.xml (5")
    assert onnx2ir("convert", "a.onnx", "b.onnx", "-o", "ir")[0] == 0
    assert (folder / "ir" / "a.xml").read_bytes() == (folder / "a.xml").read_bytes()
    assert (folder / "ir" / "b.bin").read_bytes() == (folder / "b.bin").read_bytes()


def of_one(printed: str, name: str) -> dict:
    """The entry that several models have for one, whose JSON this is; times differ."""
    found = json.loads(printed)
    del found["versions"], found["seconds"]
    return {"model": f"{name}.onnx", **found}


def of_each(printed: str) -> list[dict]:
    """The entries of several models, without times."""
    found = json.loads(printed)
    assert found.keys() == {"models", "warnings", "seconds", "versions"}
    for one in found["models"]:
        assert one.pop("seconds")["total"] > 0
    return found["models"]


def test_the_json_of_several_is_a_list_of_that_of_each(folder: Path) -> None:
    code, printed, _ = onnx2ir("convert", "a.onnx", "b.onnx", "-o", "ir", "--verify", "--json")
    assert code == 0
    alone = [onnx2ir("convert", f"{name}.onnx", "-o", "ir/", "--verify", "--json")[1] for name in "ab"]
    assert of_each(printed) == [of_one(one, name) for name, one in zip("ab", alone)]


def test_a_model_that_fails_does_not_end_the_others(folder: Path) -> None:
    code, printed, messages = onnx2ir("convert", "cut.onnx", "a.onnx", "--json")
    assert code == 1
    assert irs(folder) == ["a.xml"]
    first, second = of_each(printed)
    assert "not an ONNX model" in first["error"]["message"]
    assert (first["error"]["type"], first["error"]["exit_code"]) == ("InvalidModelError", 1)
    assert second["model"] == "a.onnx"
    assert "1 of 2 models failed: cut.onnx" in messages


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.onnx", "b.onnx", "-o", "one.xml"], "give a folder"),
        (["a.onnx", "deep/a.onnx", "-o", "ir"], "onnx2ir batch keeps"),
        (["a.onnx", "b.onnx", "--report", "r.html"], "--report cannot be used with several models"),
        (["a.onnx", "b.onnx", "--stateless"], "--stateless cannot be used with several models"),
        (["a.onnx", "deep"], "onnx2ir batch converts every model in it"),
        ([], "MODEL"),
    ],
)
def test_wrong_usage_of_convert(arguments: list[str], message: str, folder: Path) -> None:
    code, _, messages = onnx2ir("convert", *arguments)
    assert code == 2
    assert message in messages
    assert not irs(folder)


def test_pairs_are_verified(folder: Path) -> None:
    assert onnx2ir("convert", "a.onnx", "b.onnx", "-o", "ir")[0] == 0
    expected = [onnx2ir("verify", f"{name}.onnx", f"ir/{name}.xml", "--json")[1] for name in "ab"]
    for given in (["a.onnx", "ir/a.xml", "b.onnx", "ir/b.xml"], ["a.onnx", "b.onnx", "ir"]):
        code, printed, _ = onnx2ir("verify", *given, "--json")
        assert code == 0
        assert of_each(printed) == [of_one(one, name) for name, one in zip("ab", expected)]
    code, printed, _ = onnx2ir("verify", "a.onnx", "ir")
    assert code == 0
    assert printed.count("PASSED") == 1
    assert onnx2ir("verify", "a.onnx", "b.onnx", "ir")[1].count("PASSED") == 2


def test_a_pair_that_differs_does_not_end_the_others(folder: Path) -> None:
    wrong(folder / "w.onnx")
    assert onnx2ir("convert", "w.onnx", "a.onnx", "-o", "ir", "--extension", str(extension(folder)))[0] == 0
    (folder / "ir" / "b.xml").write_text("<net")
    code, printed, messages = onnx2ir("verify", "w.onnx", "b.onnx", "a.onnx", "ir", "--json")
    assert code == 1
    differs, broken, good = of_each(printed)
    assert differs["passed"] is False
    assert "error" in broken
    assert good["passed"] is True
    assert "2 of 3 models failed: w.onnx, b.onnx" in messages


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.onnx"], "a MODEL and its IR are needed"),
        (["a.onnx", "b.onnx", "a.xml"], "no pairs"),
        (["a.onnx", "b.onnx", "deep"], "there is no deep/a.xml"),
        (["a.onnx", "a.xml", "a.onnx", "a.xml"], "given twice"),
        (["a.onnx", "a.xml", "b.onnx", "a.xml", "--minimise", "m"], "--minimise cannot be used with several models"),
    ],
)
def test_wrong_usage_of_verify(arguments: list[str], message: str, folder: Path) -> None:
    assert onnx2ir("convert", "a.onnx")[0] == 0
    code, _, messages = onnx2ir("verify", *arguments)
    assert code == 2
    assert message in messages
