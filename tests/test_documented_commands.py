"""What the documentation and --help show, examples, the notebook and scripts of benchmarks run as they stand."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import nbformat
import numpy as np
import onnx
import openvino
import pytest
from nbclient import NotebookClient
from openvino import opset13 as ops
from tokenizers import Tokenizer

import converter
import ir_runtime
from converter.command_line import main
from tests.commands import a_model, onnx2ir
from tests.converter.language_models.decoders import Decoder, converted_tokenizers, tokenizers_once, write_folder  # noqa: F401
from tests.converter.language_models.encoder_decoders import EncoderDecoder, OnnxDecoder, greedy
from tests.converter.pipelines.images import STEPS, write_image_folder
from tests.converter.pipelines.texts import text_encoder, write_text_folder
from tests.graphs import Graph

# --- every command that the documentation and ``--help`` show is run, and options are what the pages say ---

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


# --- the examples, the notebook and the scripts of benchmarks run as they stand ---

TEXT = "generate_text.py"
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.name != TEXT]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(example), str(tmp_path)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    if example.stem == "quickstart":
        assert all(part in done.stdout for part in ("layers: Parameter, AvgPool", "PASSED"))
        assert {path.name for path in tmp_path.iterdir()} >= {"quickstart.xml", "quickstart.bin"}


def test_text_is_that_of_onnxruntime(tmp_path: Path) -> None:
    write_folder(tmp_path, Decoder())
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / TEXT), str(tmp_path), "Once upon a time", "12"],
        capture_output=True, cwd=ROOT, check=True, env={**os.environ, "PYTHONUTF8": "1"},
    )  # fmt: skip
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    prompt = np.array([tokenizer.encode("Once upon a time").ids])
    found = greedy(OnnxDecoder(Decoder(), Decoder().build()), prompt, 12)
    assert done.stdout.decode("utf-8") == tokenizer.decode(found) + os.linesep


def test_without_a_folder_the_example_tells_what_it_needs() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "examples" / TEXT)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert "FOLDER" in done.stderr


# --- the notebook from PyTorch to a verified IR runs, and is committed as it runs ---

NOTEBOOK = Path(__file__).parent.parent / "examples" / "from_torch_to_ir.ipynb"
HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "onnxscript"))


def small_model() -> onnx.ModelProto:
    graph = Graph(opset=18)
    pooled = graph("Conv", "image", graph.weight(32, 3, 3, 3), pads=[1, 1, 1, 1]).Relu().GlobalAveragePool().Flatten()
    scores = pooled @ graph.weight(32, 10)
    model = graph.model({"image": (np.float32, ["batch", 3, 32, 32])}, {"scores": (scores, ["batch", 10])})
    model.graph.name = "main_graph"
    return model


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(cell: Mapping[str, Any]) -> str:
    """Everything that a cell shows, as text."""
    return "".join(one.get("text") or one["data"]["text/plain"] for one in cell["outputs"])


def check(notebook: nbformat.NotebookNode) -> None:
    shown, sizes, plain, small, result, classes = code_cells(notebook)[-6:]
    assert outputs(shown) == "<Model 'main_graph': (image: u8[?,32,32,3]) -> (scores: f32[?,10])>"
    assert "<table>" in shown["outputs"][0]["data"]["text/html"]
    bytes_of = json.loads(outputs(sizes).replace("'", '"'))
    assert bytes_of["small.bin"] < 0.6 * bytes_of["network.bin"]
    assert outputs(plain).startswith("Report(derived against onnxruntime")
    assert "PASSED" in plain["outputs"][0]["data"]["text/html"]
    assert re.search(r"^PASSED against onnxruntime", outputs(small), re.M)
    assert re.search(r"^weights: \d+ compressed", outputs(small), re.M)
    assert outputs(result) == "<InferenceResult 'scores': float32[4, 10]>"
    assert re.fullmatch(r"array\(\[\d, \d, \d, \d\]\)", outputs(classes))


def run(notebook: nbformat.NotebookNode, folder: Path) -> None:
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}, record_timing=False
    )
    client.execute()


@pytest.mark.skipif(not HAS_TORCH, reason="the export needs torch and onnxscript, which the tests do not depend on")
def test_the_whole_notebook(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, 4)
    run(notebook, tmp_path)
    check(notebook)
    committed = nbformat.read(NOTEBOOK, 4)
    assert [outputs(cell) for cell in code_cells(notebook)[1:3]] == [
        outputs(cell) for cell in code_cells(committed)[1:3]
    ]


def test_the_notebook_behind_the_export(tmp_path: Path) -> None:
    """Without torch: another model of the same inputs and outputs takes the place of what the first cell writes."""
    notebook = nbformat.read(NOTEBOOK, 4)
    exports = [cell for cell in notebook.cells if "export" in cell.metadata.get("tags", ())]
    assert len(exports) == 1
    assert 'save("network.onnx")' in exports[0].source
    notebook.cells.remove(exports[0])
    onnx.save(small_model(), tmp_path / "network.onnx")
    exports[0].source = "from pathlib import Path"
    exports[0].outputs, exports[0].execution_count = [], None
    notebook.cells.insert(0, exports[0])
    run(notebook, tmp_path)
    check(notebook)


def test_the_notebook_is_committed_executed() -> None:
    notebook = nbformat.read(NOTEBOOK, 4)
    nbformat.validate(notebook)
    assert [cell.execution_count for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1))
    assert not [one for cell in code_cells(notebook) for one in cell.outputs if one.get("name") == "stderr"]
    check(notebook)
    assert NOTEBOOK.stat().st_size < 50_000


# --- every script in ``benchmarks/`` runs as its page says, in a short form ---

IN_SHORT = {
    "batch": (["--models", "2", "--rounds", "1"], r"2 models: 2 jobs are [\d.]+ times as fast as one"),
    "concurrency": (["MODEL", "--rounds", "1", "--seconds", "0.1"], r"\| model \| \d+ \| \d+ \| [\d.]+ \|"),
    "conversion": (["MODEL", "--rounds", "1"], r"model .*\d\.\d\d"),
    "decoding": (["--layers", "1", "--width", "64", "--prompt", "8", "--tokens", "3"], r"[\d.]+"),
    "editing": (["--weights", "2", "--side", "64"], r"0.00 GB remain: cut in [\d.]+ s, copied in [\d.]+ s"),
    "encoder_decoders": (["--help"], r"Encoder-decoders that Optimum exported"),  # by hand: it needs Optimum
    "execution": (["MODEL", "--seconds", "0.1"], r"model .*\d\.\d\d"),
    "folders": (["FOLDER", "--only", "none"], r"^$"),  # by hand: its folders are made with Optimum and mobius
    "growing_graphs": (["chain", "20", "FOLDER/chain.onnx"], r"^$"),
    "injected_faults": (["MODEL", "--each", "2", "--input", "image[1,3,8,8],rate=2"], r"\b2\b"),
    "language_models": (
        ["speed", "FOLDER/llama-onnx", "FOLDER/llama-ir", "--prompt", "8", "--tokens", "3"],
        r"\| onnxruntime-genai \| [\d.]+ \|",
    ),
    "layer_counts": (["MODEL"], r"^1 models, 1 with at most as many layers"),
    "loading": (["MODEL", "--rounds", "1"], r"1 models: geometric mean \d\.\d\d"),
    "make_folders": (["--help"], r"as exporters and quantizers leave them"),  # by hand
    "matrix": (["--cases", "4"], r"numpy.* 4 of 4"),
    "mutants": (["--help"], r"A sample of mutants"),  # run by hand: it needs hours, and tools that no test has
    "nncf_parity": (["MODEL", "--samples", "1", "--runs", "1"], r"\| model \| quantize \| (\d+)/\1 \| 2/2 \|"),
    "node_suite": (["--step", "400"], r"node suite, openvino: [1-5] of 5"),
    "other_projects": (["FOLDER", "--jobs", "1"], r"random inputs \| openvino \| 1 \| 1 \|"),
    "openvino_speed": (["MODEL", "--seconds", "0.1"], r"model .*\d\.\d\d"),
    "optimizers": (["MODEL", "--rounds", "1", "--input", "image[1,3,8,8]"], r"/model +5 +- +- +\d .*yes$"),
    "planted_bugs": (["--help"], r"Bugs planted in the code on purpose"),  # run by hand: each runs tests
    "planted_edits": (
        ["--models", "shufflenet", "--each", "2", "--rights", "1"],
        r"2 edits, .* caught 2, with the layer named 2[\s\S]*1 right models: 1 derived",
    ),
    "reshape": (["--step", "700", "--jobs", "1"], r"^confirmed: \d+ cases"),
    "round_trips": (["--step", "700"], r"\| all \| 3 \|"),
    "scaling": (["chain", "--sizes", "20", "40", "--ours"], r"chain .*\d\.\d\d / \d+"),
    "speed": (["--models", "kaldi", "--rounds", "1", "--mebibytes", "8"], r"peak memory for 8 MiB .* ratio [\d.]+"),
    "startup": (["--rounds", "1"], r"onnx2ir convert +[\d.]+"),
    "verification": (["MODEL", "--rounds", "1"], r"model .*\d\.\d\d"),
    "weight_compression": (["MODEL", "--seeds", "1"], r"\| model \| \d+ \| int4 \|"),
}


def test_every_script_has_its_short_form() -> None:
    imported = {"diffusion_oracle", "processes", "quiet_peers"}
    assert {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - imported == set(IN_SHORT)


@pytest.mark.weekly
@pytest.mark.parametrize("name", IN_SHORT)
def test_a_script_runs(name: str, tmp_path: Path) -> None:
    onnx.save(a_model(), tmp_path / "model.onnx")
    if name == "language_models":
        write_folder(tmp_path / "llama-onnx", Decoder())
        converter.convert_language_model(tmp_path / "llama-onnx", tmp_path / "llama-ir")
    arguments, wanted = IN_SHORT[name]
    words = [word.replace("MODEL", str(tmp_path / "model.onnx")).replace("FOLDER", str(tmp_path)) for word in arguments]
    # The pages call the scripts from the project's folder.
    command = [sys.executable, f"benchmarks/{name}.py", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "left out" not in done.stdout
    assert re.search(wanted, done.stdout, re.M), done.stdout
