"""The examples, the notebook and the scripts of benchmarks run as they stand."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import onnx
import pytest
from nbclient import NotebookClient
from tokenizers import Tokenizer

import converter
from tests.commands import a_model
from tests.converter.language_models.decoders import Decoder, write_folder
from tests.converter.language_models.running import OnnxDecoder
from tests.graphs import Graph

# --- every example runs as a user would run it ---

ROOT = Path(__file__).parent.parent
TEXT = "generate_text.py"
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.name != TEXT]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(example), str(tmp_path)], capture_output=True, text=True, cwd=ROOT, check=False
    )
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
    session, found = OnnxDecoder(Decoder(), Decoder().build()), list[int]()
    step = np.array([tokenizer.encode("Once upon a time").ids])
    while len(found) < 12:
        step = session(step)[:, -1:].argmax(-1)
        found.append(int(step[0, 0]))
    assert done.stdout.decode("utf-8") == tokenizer.decode(found) + os.linesep


def test_without_a_folder_the_example_tells_what_it_needs() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / TEXT)], capture_output=True, text=True, cwd=ROOT, check=False
    )
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
    imported = {"processes", "quiet_peers"}
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
