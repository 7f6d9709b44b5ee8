"""Every command that the documentation and ``--help`` show is run, and options are what the pages say."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import onnx
import openvino
import pytest
from openvino import opset13 as ops

import converter
import ir_runtime
from converter.command_line import main
from converter.command_line.former_options import FORMER_OPTIONS
from tests.commands import a_model, onnx2ir
from tests.converter.language_models.converted_tokenizers import converted_tokenizers, tokenizers_once  # noqa: F401
from tests.converter.language_models.decoders import Decoder, write_folder
from tests.converter.language_models.encoder_decoders import EncoderDecoder
from tests.converter.pipelines.images import STEPS, write_image_folder
from tests.converter.pipelines.texts import text_encoder, write_text_folder

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TESTED = {
    "architecture": "tests/test_docs.py",
    "preprocessing": "tests/converter/preprocessing/test_options.py",
    "README": "test_the_readme_from_the_top",
}
"""Pages whose Python another test runs."""
CLUSTERS = {
    'Client("scheduler:8786")': "tests/converter/batch/test_runs.py on a local cluster",
    "ray.remote": "Ray is not here",
}
"""What needs machines that a test does not have."""


def shown_in_pages() -> list[str]:
    blocks = [block for page in PAGES[1:] for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.S)]
    return [line for block in blocks for line in block.splitlines() if line.startswith("onnx2ir")]


def shown_in_help() -> list[str]:
    commands: list[click.Command] = [main, *main.commands.values()]  # type: ignore[attr-defined]
    return [line.strip() for command in commands for line in (command.help or "").splitlines() if "onnx2ir " in line]


def _write_stateful_models(folder: Path) -> None:
    """A decoder with a prompt and a token, one behind an encoder, and a recurrent network with frames."""
    converter.save_model(converter.convert_model(Decoder().build(), stateful=True), folder / "decoder.xml")
    EncoderDecoder(speech=True).save(folder / "whisper-onnx")
    write_folder(folder / "llama-onnx", Decoder())
    converter.convert_language_model(folder / "llama-onnx", folder / "llama-ir")
    write_text_folder(folder / "bge-onnx", text_encoder(), {"model_type": "bert"})
    (folder / "bge-onnx/onnx/model_q4.onnx").write_bytes((folder / "bge-onnx/onnx/model.onnx").read_bytes())
    write_image_folder(folder / "vit-onnx", STEPS)
    write_text_folder(folder / "reranker-onnx", text_encoder("logits", labels=2), {"model_type": "bert"})
    for name, start, stop in (("prompt", 0, 5), ("token", 5, 6)):
        feeds = {"input_ids": np.arange(start, stop)[None] + 3, "attention_mask": np.ones((1, stop), np.int64)}
        feeds |= {"position_ids": np.arange(start, stop)[None], "beam_idx": np.zeros(1, np.int32)}
        np.savez(folder / f"{name}.npz", **feeds)
    x = ops.parameter([2], np.float32, name="frame")
    read = ops.read_value(ops.constant(np.zeros(2, np.float32)), "hidden", np.float32, [2])
    hidden = ops.tanh(ops.add(read, x))
    result = ops.result(hidden)
    model = openvino.Model([result], [ops.assign(hidden, "hidden")], [x], "gru")
    openvino.save_model(model, folder / "gru.xml", compress_to_fp16=False)
    np.savez(folder / "frames.npz", frame=np.ones(2, np.float32))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("examples")
    onnx.save(a_model(), path / "model.onnx")
    for name in ("model", "ours", "theirs", "before", "after"):
        converter.save_model(converter.convert_model(a_model()), path / f"{name}.xml")
    converter.save_model(converter.convert_model(a_model()), path / "int4.xml", compress="int4")
    feeds = {"image": np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32), "rate": np.array(2)}
    for name in ("x", "photo"):
        np.savez(path / f"{name}.npz", **feeds)
    _write_stateful_models(path)
    for copy in (path / "zoo" / "a" / "model.onnx", path / "zoo" / "model.onnx", path / "other.onnx"):
        copy.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(a_model(), copy)
    (path / "ir").mkdir()
    for name in ("model", "other"):
        converter.save_model(converter.convert_model(a_model()), path / "ir" / f"{name}.xml")
    (path / "models.txt").write_text("# a path a line\nmodel.onnx\nzoo/a/model.onnx\n")
    converter.verify(path / "model.onnx", path / "model.xml", attest=path / "model.intoto.json")
    (path / "device.json").write_text('{"CPU": {"NUM_STREAMS": 1}}')
    (path / "my_ops.py").write_text("import converter\n")
    return path


@pytest.fixture
def folder(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(original, tmp_path / "examples")
    monkeypatch.chdir(tmp_path / "examples")
    return tmp_path / "examples"


@pytest.mark.parametrize("line", sorted({*shown_in_pages(), *shown_in_help()}))
def test_commands_do_what_the_pages_show(line: str, folder: Path) -> None:
    words = shlex.split(line, comments=True)
    code, _, messages = onnx2ir(*words[1:])
    assert code == 0, messages


def test_there_are_examples() -> None:
    assert len(shown_in_pages()) > 15
    assert len(shown_in_help()) > 12


def python_of(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M)


@pytest.mark.parametrize("page", [page for page in PAGES if python_of(page) and page.stem not in TESTED], ids=str)
def test_the_python_of_the_pages(page: Path, folder: Path) -> None:
    """The blocks of a page, one after the other."""
    names: dict[str, object] = {
        "image": np.zeros((1, 3, 8, 8), np.float32),
        "converter": converter,
        "ir_runtime": ir_runtime,
    }
    with np.load(folder / "prompt.npz") as stored:
        names["prompt"] = dict(stored)
    for name in ("int4", "model"):
        converter.save_onnx(folder / f"{name}.xml", folder / f"{name}.onnx")
    for block in python_of(page):
        if not any(needed in block for needed in CLUSTERS):
            exec(block, names)


def without_numbers(text: str) -> list[list[str]]:
    """The words of each line; numbers depend on the processor and on the release of onnxruntime."""
    return [re.sub(r"\d[\d.]*(e[-+]?\d+)?", "#", line).split() for line in text.strip().splitlines()]


def test_the_readme_from_the_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block as it stands, one after the other, in a checkout whose environment exists."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("output"))
    scripts = tmp_path / ".venv" / "bin"
    scripts.mkdir(parents=True)
    for name, module in (("python", ""), ("onnx2ir", "-m converter ")):
        (scripts / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module}"$@"\n')
        (scripts / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)
    printed, run = "", []
    for language, block in blocks:
        if language == "python":
            exec(block, {})
        elif language == "sh":
            steps = [step for line in block.splitlines() for step in line.split(" && ")]
            wanted = [step for step in steps if not re.search("-m venv|pip install|-m pytest", step)]
            results = [subprocess.run(["sh", "-c", step], capture_output=True, text=True) for step in wanted]
            assert [result.stderr for result in results if result.returncode] == []
            printed = "".join(result.stdout + result.stderr for result in results)
            run += wanted
        else:
            assert sorted(without_numbers(block)) == sorted(without_numbers(printed))
    assert len(run) == 3
    assert {language for language, _ in blocks} == {"", "sh", "python"}


def test_few_blocks_need_a_cluster() -> None:
    blocks = [block for page in PAGES for block in python_of(page) if any(needed in block for needed in CLUSTERS)]
    assert len(blocks) == len(CLUSTERS)


def table(title: str) -> dict[str, str]:
    """Options of a table of the page for people from ovc, with what stands beside them."""
    text = (ROOT / "docs" / "from_ovc.md").read_text()
    section = re.search(rf"## {title}\n(.*?)(\n## |\Z)", text, re.S)
    assert section is not None
    found: dict[str, str] = {}
    for line in section[1].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        found.update((name, cells[-1]) for name in re.findall(r"`([^`]+)`", cells[0]) if len(cells) == 2)
    return found


def test_every_option_of_ovc_has_its_line() -> None:
    ovc = Path(sys.executable).with_name("ovc")
    if not ovc.exists():
        pytest.skip("ovc is not installed")
    text = subprocess.run([str(ovc), "--help"], capture_output=True, text=True, check=True).stdout
    options = set(re.findall(r"^  (?:-\w, )?(--\w+)", text, re.M))
    assert len(options) >= 8
    assert options <= set(table("Options of ovc"))


def test_every_argument_of_openvinos_convert_model_has_its_line() -> None:
    import inspect

    import openvino

    theirs = list(inspect.signature(openvino.convert_model).parameters)
    ours = list(inspect.signature(converter.convert_model).parameters)
    assert set(theirs) <= set(table("In Python"))
    assert set(theirs) <= set(ours)
    assert theirs[1:] == ours[1 : len(theirs)]


def test_what_the_command_answers_is_on_the_page() -> None:
    page = table("Options of mo") | table("Options of ovc")
    answered = {f"--{name.replace('-', '_')}" for name in FORMER_OPTIONS} - {"--example_input", "--share_weights"}
    assert answered <= set(page)
    taken = {option for p in main.commands["convert"].params for option in p.opts}  # type: ignore[attr-defined]
    for name in table("Options of mo"):
        known = name.replace("_", "-") in taken
        assert known or name.lstrip("-").replace("_", "-") in FORMER_OPTIONS, name
