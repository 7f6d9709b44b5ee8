"""What people type: words as ``ovc`` spells them, help, shells; and where nothing is written over."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

from converter.command_line import main
from converter.command_line.option_groups import GROUPS
from converter.from_onnx.translation.registry import find_translator
from tests.commands import onnx2ir
from tests.engines import core

CONVERT = main.commands["convert"]  # type: ignore[attr-defined]
HERE = {option for parameter in CONVERT.params for option in parameter.opts}


def test_ovc_writes_to_the_paths_of_the_transcripts(folder: Path) -> None:
    ovc = Path(sys.executable).with_name("ovc")
    if not ovc.exists():
        pytest.skip("ovc is not installed")
    for output, xml in [("here", "here/m.xml"), ("outdir/", "outdir/m.xml"), ("a.b/name.v1", "a.b/name.v1.xml")]:
        subprocess.run([str(ovc), "m.onnx", "--output_model", output], cwd=folder, check=True, capture_output=True)
        assert (folder / xml).exists()


@pytest.mark.parametrize(("words", "half"), [
    ("", False),
    ("--compress_to_fp16", True),
    ("--compress-to-fp16=True", True),
    ("--compress_to_fp16=False", False),
    ("--compress_to_fp16 False", False),
    ("--compress_to_fp16 true", True),
    ("--compress_to_fp16=0", False),
    ("--no-compress-to-fp16", False),
])  # fmt: skip
def test_fp16_as_ovc_spells_it(folder: Path, words: str, half: bool) -> None:
    for order in (f"{words} half.onnx", f"half.onnx {words}"):
        code, _, messages = onnx2ir("convert", *order.split(), "--output_model", "half")
        assert code == 0, messages
        assert Path("half.bin").stat().st_size == (128 if half else 256)
    if half:
        text = Path("half.xml").read_text()
        assert '<attribute name="decompression" version="0"/>' in text
        assert 'name="w_compressed"' in text
        assert onnx2ir("verify", "half.onnx", "half.xml")[0] == 0
        ones = np.ones(64, np.float32)
        np.testing.assert_allclose(core().compile_model("half.xml", "CPU")([ones])[0], np.arange(64) / 7, rtol=1e-3)


def test_extensions_add_up(folder: Path) -> None:
    assert onnx2ir("convert", "m.onnx", "--extension", "a.py,b.py", "--extension", "c.py")[0] == 0
    assert not any(isinstance(find_translator(name, f"x{name}", 1), str) for name in "abc")


def test_shells_complete_commands_and_options() -> None:
    def completed(*words: str) -> str:
        words_of_shell = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        environment = {**os.environ, "_ONNX2IR_COMPLETE": "bash_complete", **words_of_shell}
        code = "from converter.command_line import main; main(prog_name='onnx2ir')"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment).stdout

    assert "plain,convert" in completed("onnx2ir", "con")
    assert "plain,--output-model" in completed("onnx2ir", "convert", "--out")


def test_a_command_within_a_program_leaves_the_search_for_cycles_on(folder: Path) -> None:
    """The process is not the command's: models with their files open would never go."""
    assert gc.isenabled()
    assert onnx2ir("convert", "m.onnx")[0] == 0
    assert gc.isenabled()


@pytest.mark.parametrize("command", GROUPS)
def test_help_lists_every_option_in_one_group(command: str) -> None:
    code, text, _ = onnx2ir(command, "--help")
    assert code == 0
    parameters = [one for one in main.commands[command].get_params(click.Context(main.commands[command])) if one.opts]
    options = [one for one in parameters if isinstance(one, click.Option)]
    grouped = [name for names in GROUPS[command].values() for name in names]
    messages = {"quiet", "verbose", str(options[-1].name)}  # and the help itself
    assert sorted(grouped) == sorted({str(option.name) for option in options} - messages)
    headings = [text.index(f"\n{heading}:\n") for heading in GROUPS[command]]
    assert headings == sorted(headings)
    for option in options:
        assert max(option.opts, key=len) in text


@pytest.mark.parametrize("words", ["convert half.onnx -o out.xml", "run pool.xml -o result.npz"])
def test_pipes_are_not_written_over(words: str, folder: Path) -> None:
    names = ["out.xml", "out.bin"] if "out.xml" in words else ["result.npz"]
    for pipe in map(Path, names):
        os.mkfifo(pipe)
        code, _, messages = onnx2ir(*words.split())
        assert code == 1
        assert f"error: '{pipe}' exists and is not a regular file" in " ".join(messages.split())
        assert pipe.is_fifo()
        assert not list(Path().glob("*.part"))
        pipe.unlink()
