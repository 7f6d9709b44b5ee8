"""The command, and GitHub: its table, JSON and page, a terminal, interruptions; the action and the pre-commit hook."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml

from converter.report.annotations import notes_of, summary
from converter.report.batches import page
from converter.workflow import rows
from converter.workflow.rows import CONVERTED, REFUSED, VERIFIED, Row
from tests.browser.assembled import needs_browser, observed
from tests.commands import dense, extension, is_running, on_terminal, onnx2ir, own
from tests.converter.optimization.models import parse

# --- the command: its table, lines of JSON and page; what a terminal shows; an interrupted run, and what it leaves ---


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    dense(tmp_path / "zoo" / "a" / "model.onnx")
    dense(tmp_path / "zoo" / "model.onnx", 1)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "zoo"


def lines_of(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def written(name: str) -> str:
    """What a file has; nothing while it is not there."""
    return Path(name).read_text() if Path(name).exists() else ""


def test_a_run_and_a_second_one(zoo: Path) -> None:
    given = ["batch", "zoo", "-o", "ir", "--verify", "--jobs", "2", "--report", "r.html", "--json", "r.jsonl"]
    code, printed, messages = onnx2ir(*given)
    assert code == 0, messages
    assert [line["name"] for line in lines_of(Path("r.jsonl").read_text())] == ["a/model.onnx", "model.onnx"]
    assert "2 of 2 models: 2 verified" in printed
    assert re.search(r"^model\.onnx +verified +5 ", printed, re.M), printed
    assert "PASSED" in Path("r.html").read_text()
    assert sorted(path.name for path in Path("ir").rglob("*.xml")) == ["model.xml", "model.xml"]
    assert re.search(r"^\[2/2\] .*model\.onnx: verified \([\d.]+ s\)$", messages, re.M)
    code, printed, messages = onnx2ir(*given, "-q")
    assert code == 0
    assert "2 of 2 models: 2 verified; 2 of an earlier run" in printed
    assert messages == ""


def test_a_failed_model_is_exit_code_1(zoo: Path) -> None:
    (zoo / "cut.onnx").write_bytes(b"\x08\x09")
    code, printed, _ = onnx2ir("batch", "zoo", "-o", "ir", "--json", "-", "-q")
    assert code == 1
    assert [line["verdict"] for line in lines_of(printed)] == ["converted", "refused", "converted"]
    assert [line["passed"] for line in lines_of(printed)] == [True, False, True]
    code, printed, _ = onnx2ir("batch", "zoo", "-o", "ir", "--report", "r.html")
    assert code == 1
    assert re.search(r"^cut\.onnx: .*not an ONNX model", printed, re.M)
    assert "3 of 3 models: 2 converted, 1 refused" in printed
    assert "FAILED" in Path("r.html").read_text()


def test_times_and_sizes() -> None:
    from converter.command_line.batch import _bytes, _seconds

    for text, seconds in (("90", 90), ("1.5s", 1.5), ("2m", 120), ("2 h", 7200)):
        assert _seconds(None, None, text) == seconds  # type: ignore[arg-type]
    for text, count in (("1000", 1000), ("2K", 2048), ("800MiB", 800 << 20), ("1.5 gb", 3 << 29)):
        assert _bytes(None, None, text) == count  # type: ignore[arg-type]


def test_an_interrupted_run_goes_on(zoo: Path) -> None:
    own("Wait", zoo / "0.onnx")
    own("Wait", zoo / "z.onnx")
    file = extension(zoo.parent)
    command = [sys.executable, "-m", "converter", "batch", "zoo", "-o", "ir", "--extension", str(file), "--jobs", "2"]
    command += ["--json", "r.jsonl", "--report", "r.html"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # Where the tests run in the background, a shell has them ignore the signal, and so would the command.
    process = subprocess.Popen(
        command, **pipes, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    )
    deadline = time.monotonic() + 60
    waiting = ""
    while written("r.jsonl").count("\n") != 2 or not (waiting := written("waits")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    waits = int(waiting)
    assert is_running(waits)
    process.send_signal(signal.SIGINT)
    printed, messages = process.communicate(timeout=60)
    assert process.returncode == 1, messages
    assert "Traceback" not in messages
    assert "interrupted: 2 of 4 models are done; the same command goes on with the others" in messages
    assert "2 of 4 models: 2 converted" in printed
    assert [line["name"] for line in lines_of(Path("r.jsonl").read_text())] == ["a/model.onnx", "model.onnx"]
    assert "FAILED" in Path("r.html").read_text()
    assert not is_running(waits)
    Path("go").touch()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    found = {line["name"]: line["reused"] for line in lines_of(Path("r.jsonl").read_text())}
    assert found == {"0.onnx": False, "a/model.onnx": True, "model.onnx": True, "z.onnx": False}


def test_a_terminal_shows_what_runs_and_what_failed(zoo: Path) -> None:
    own("Wait", zoo / "slow.onnx")
    own("Fill", zoo / "large.onnx")
    (zoo / "cut.onnx").write_bytes(b"\x08\x09")
    file = extension(zoo.parent)
    limits = ("--time-limit", "3s", "--memory-limit", "4GiB", "--jobs", "2")
    text = on_terminal(zoo.parent, "batch", "zoo", "-o", "ir", "--extension", str(file), *limits)
    assert "cut.onnx: refused" in text
    assert re.search(r"[34] of 5\S*?, [12] failed", re.sub(r"\x1b\[[0-9;]*m", "", text))
    assert re.search(r"[12]\.\d s\s+slow\.onnx", re.sub(r"\x1b\[[0-9;]*m", "", text))
    # What was drawn is gone at the end, and the table is there.
    assert "2 converted, 1 refused, 1 out of time, 1 out of memory" in text


def made_up(count: int) -> list[rows.Row]:
    return [
        rows.Row(
            f"zoo/a_very_long_folder_name_that_goes_on/and_on/network_{place:02}_of_a_long_name.onnx", "m", "x",
            rows.REFUSED if place % 5 == 0 else rows.VERIFIED,
            "<script>document.title = 'broken'</script> is not supported" if place % 5 == 0 else "",
            layers=place * 7 % 11, model_bytes=1 << place, xml_bytes=1, bin_bytes=place,
            convert_seconds=place / 10, verify_seconds=place / 3, max_absolute=None if place % 5 == 0 else 10.0**-place,
            max_relative=float("inf") if place == 7 else None,
        )
        for place in range(count)
    ]  # fmt: skip


SCRIPT = """
const lines_shown = () => [...document.querySelectorAll(".models tbody tr")].filter((line) => !line.hidden);
const names = () => lines_shown().map((line) => Number(line.cells[0].textContent.match(/network_(\\d+)/)[1]));
const set = (id, value) => { const e = document.getElementById(id); e.value = value;
  e.dispatchEvent(new Event("input")); };
observed.width = [document.documentElement.scrollWidth, document.documentElement.clientWidth, window.innerWidth];
observed.all = names();
const heads = [...document.querySelectorAll(".models thead button")];
heads[5].click();
observed.slowest = names().slice(0, 3);
heads[5].click();
observed.fastest = names().slice(0, 3);
set("order", "8");
document.getElementById("turn").click();
observed.differences = names();
set("verdict", "refused");
observed.refused = names().sort((a, b) => a - b);
set("verdict", "");
set("search", "work_03");
observed.found = names();
observed.count = document.getElementById("count").textContent;
observed.title = document.title;
"""


@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_in_a_browser(width: int, tmp_path: Path) -> None:
    text = page(made_up(12), 12, {"time of this run": "3.0 s", "command": "onnx2ir batch " + "zoo/" * 60})
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)""", text)
    (tmp_path / "page.html").write_text(text)
    found = observed(tmp_path / "page.html", SCRIPT, tmp_path, (width, 900))
    assert found["width"][0] <= found["width"][1] <= found["width"][2] == width
    assert found["all"] == list(range(12))
    assert found["slowest"] == [11, 10, 9]
    assert found["fastest"] == [0, 1, 2]
    assert found["differences"] == [1, 2, 3, 4, 6, 7, 8, 9, 11, 0, 5, 10]  # those without a number last
    assert found["refused"] == [0, 5, 10]
    assert found["found"] == [3]
    assert found["count"] == "1 of 12 shown"
    assert found["title"] == "12 models"


def test_preprocessing_is_that_of_convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zoo").mkdir()
    onnx.save(parse("g (float[1,3,4,4] x) => (float[1,3,4,4] y) { y = Relu (x) }"), "zoo/m.onnx")
    steps = ("--input", "x[u8]", "--layout", "nchw->nhwc", "--mean-values", "x[1,2,3]")
    code, out, messages = onnx2ir("batch", "zoo", "-o", "ir", "--verify", *steps)
    assert code == 0, out + messages
    assert onnx2ir("convert", "zoo/m.onnx", "-o", "alone.xml", *steps)[0] == 0
    assert (tmp_path / "ir" / "m.xml").read_bytes() == (tmp_path / "alone.xml").read_bytes()
    assert b'shape="1,4,4,3"' in (tmp_path / "alone.xml").read_bytes()


# --- the GitHub Action and the pre-commit hook: what they run is run, in a repository with good and broken models ---

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
