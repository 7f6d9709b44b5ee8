"""The GitHub Action and the pre-commit hook: what they run is run, in a repository with good and broken models."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from converter.batch.rows import CONVERTED, REFUSED, VERIFIED, Row
from converter.report.annotations import notes_of, summary
from tests.commands import onnx2ir
from tests.converter.batch.models import dense

ROOT = Path(__file__).parents[3]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
BIN = Path(sys.executable).parent


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    dense(folder / "models" / "good.onnx")
    dense(folder / "models" / "deep" / "a, 100%: b.onnx", 1)
    (folder / "models" / "cut.onnx").write_bytes(b"nothing\nof ONNX")
    (folder / "notes.txt").write_text("no model")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", "."], cwd=folder, check=True)
    monkeypatch.chdir(folder)
    return folder


def run_steps(repository: Path, **inputs: str) -> tuple[int, str, dict[str, str]]:
    """The steps of the action but the installation, as a runner runs them: exit code, stdout, outputs by name."""
    temporary = repository.parent / "runner"
    temporary.mkdir(exist_ok=True)
    files = {name: temporary / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    values = {f"inputs.{name}": one["default"] for name, one in ACTION["inputs"].items()}
    values |= {f"inputs.{name}": value for name, value in inputs.items()}
    values["steps.install.outputs.bin"] = str(BIN)

    def filled(text: str) -> str:
        return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: values[found[1]], text)

    printed, code = "", 0
    for step in ACTION["runs"]["steps"][1:]:
        assert "${{" not in step["run"], "an input in a script would be run as a command"
        given = {name: filled(text) for name, text in step.get("env", {}).items()}
        runner = {"RUNNER_TEMP": str(temporary), "GITHUB_WORKSPACE": str(repository)}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=repository,
            env={**os.environ, **runner, **{name: str(path) for name, path in files.items()}, **given},
            capture_output=True,
            text=True,
            check=False,
        )
        printed, code = printed + done.stdout, code or done.returncode
        assert done.returncode in (0, 1), done.stderr
    written = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    return code, printed, {**written, "summary": files["GITHUB_STEP_SUMMARY"].read_text()}


def test_the_action_annotates_what_fails(repository: Path) -> None:
    code, printed, outputs = run_steps(repository)
    assert code == 1
    shown = [line for line in printed.splitlines() if line.startswith("::")]
    assert len(shown) == 1
    assert shown[0].startswith("::error file=models/cut.onnx,title=onnx2ir::refused: ")
    assert "is not an ONNX model" in shown[0]
    rows = [json.loads(line) for line in Path(outputs["results"]).read_text().splitlines()]
    assert {row["name"]: row["verdict"] for row in rows} == {
        "models/good.onnx": "verified", "models/deep/a, 100%: b.onnx": "verified", "models/cut.onnx": "refused",
    }  # fmt: skip
    assert sorted(path.name for path in Path(outputs["output"]).rglob("*.xml")) == ["a, 100%: b.xml", "good.xml"]
    assert "### onnx2ir: 3 of 3 models: 2 verified, 1 refused" in outputs["summary"]
    assert "| <code>models/good.onnx</code> | verified | 5 |" in outputs["summary"]
    assert not list(repository.rglob("*.xml"))


def test_the_inputs_of_the_action(repository: Path) -> None:
    models = "models/good.onnx\n\nmodels/deep\n"
    code, printed, outputs = run_steps(repository, models=models, output="ir", options="--compress-to-fp16 --jobs 1")
    assert code == 0
    assert "::" not in printed
    assert outputs["output"] == "ir"
    assert {path.name for path in (repository / "ir").rglob("*.xml")} == {"a, 100%: b.xml", "good.xml"}
    assert 'element_type="f16"' in (repository / "ir" / "good.xml").read_text()


def test_nothing_of_an_input_is_run_as_a_command(repository: Path) -> None:
    models = 'models/good.onnx\n$(touch spoilt)\n"; touch spoilt; "'
    with pytest.raises(AssertionError, match="no file, folder or pattern"):
        run_steps(repository, models=models)
    assert not (repository / "spoilt").exists()


def test_the_action_and_the_hook_install_what_verifying_needs() -> None:
    install, batch = ACTION["runs"]["steps"]
    assert '"$GITHUB_ACTION_PATH[verify]"' in install["run"]
    assert ACTION["runs"]["using"] == "composite"
    assert install["shell"] == batch["shell"] == "bash"
    names = {one["value"]: f"${{{{ steps.batch.outputs.{name} }}}}" for name, one in ACTION["outputs"].items()}
    assert list(names) == list(names.values())
    extra = re.search(r"^verify = (\[.*\])$", (ROOT / "pyproject.toml").read_text(), re.M)
    assert extra is not None
    assert HOOK["additional_dependencies"] == json.loads(extra[1])


def row(**more: Any) -> Row:
    return Row(**{"name": "a.onnx", "model": "/repository/a.onnx", "xml": "a.xml", "verdict": VERIFIED, **more})


@pytest.mark.parametrize(("given", "lines"), [
    ({}, []),
    ({"verdict": REFUSED, "reason": "50%\r\nis"}, ["::error file=a.onnx,title=onnx2ir::refused: 50%25%0D%0Ais"]),
    ({"verdict": "lost"}, ["::error file=a.onnx,title=onnx2ir::lost"]),
    ({"reason": "passed, but"}, ["::notice file=a.onnx,title=onnx2ir::passed, but"]),
    ({"messages": ("one", "two")}, [f"::warning file=a.onnx,title=onnx2ir::{text}" for text in ("one", "two")]),
    (
        {"model": "/repository/d/a,b: 9%.onnx", "verdict": REFUSED, "reason": "a,b: c"},
        ["::error file=d/a%2Cb%3A 9%25.onnx,title=onnx2ir::refused: a,b: c"],
    ),
    ({"model": "/other/a.onnx", "verdict": REFUSED}, ["::error file=/other/a.onnx,title=onnx2ir::refused"]),
], ids=str)  # fmt: skip
def test_notes(given: dict[str, Any], lines: list[str]) -> None:
    assert notes_of([row(**given)], Path("/repository")) == lines


def test_the_summary_is_one_table_whatever_names_and_reasons_have() -> None:
    text = summary([row(name="a|b`<i>", verdict=REFUSED, reason="first |\n<script> *x*"), row(verdict=CONVERTED)], 3)
    assert text.startswith("### onnx2ir: 2 of 3 models: 1 converted, 1 refused\n\n| model |")
    table = text.splitlines()[2:]
    assert {line.count("|") for line in table} == {9}
    assert "<code>a&#124;b&#96;&lt;i&gt;</code> | **refused** |" in table[2]
    assert "first &#124;<br>&lt;script&gt; &#42;x&#42; |" in table[2]


def test_a_check_leaves_nothing(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    before = sorted(repository.rglob("*"))
    code, printed, _ = onnx2ir("batch", "models", "--check")
    assert code == 1
    assert "3 of 3 models: 2 verified, 1 refused" in printed
    assert sorted(repository.rglob("*")) == before
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(("name", "code"), [("good.onnx", 0), ("cut.onnx", 1)])
def test_the_entry_of_the_hook(name: str, code: int, repository: Path) -> None:
    command, *arguments = HOOK["entry"].split()
    assert command == "onnx2ir"
    assert onnx2ir(*arguments, f"models/{name}")[0] == code
    assert re.search(HOOK["files"], name)
    assert not re.search(HOOK["files"], "notes.txt")


@pytest.mark.skipif(not importlib.util.find_spec("pre_commit"), reason="pre-commit is not installed")
def test_pre_commit_runs_the_hook(repository: Path, tmp_path: Path) -> None:
    """Of this environment instead of one that pre-commit makes: what it installs comes from a registry."""
    hook = {key: value for key, value in HOOK.items() if key != "additional_dependencies"} | {"language": "system"}
    config = {"repos": [{"repo": "local", "hooks": [hook]}]}
    (repository / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PRE_COMMIT_HOME": str(tmp_path / "home")}

    def run() -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", "--all-files", "--color", "never"],
            cwd=repository, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    code, printed = run()
    assert code == 1, printed
    assert "Failed" in printed
    assert re.search(r"^cut\.onnx +refused", printed, re.M), printed
    assert re.search(r"^deep/a, 100%: b\.onnx +verified", printed, re.M), printed
    subprocess.run(["git", "rm", "-q", "--cached", "models/cut.onnx"], cwd=repository, check=True)
    code, printed = run()
    assert code == 0, printed
    assert "Passed" in printed
