"""Every script in ``benchmarks/`` runs as its page says, in a short form."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import converter
from tests.commands import a_model
from tests.converter.language_models.decoders import Decoder
from tests.converter.language_models.folders import write_folder

ROOT = Path(__file__).parent.parent
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
