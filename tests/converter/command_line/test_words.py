"""What people type: words as ``ovc`` and ``mo`` spell them, help, shells; and where nothing is written over."""

from __future__ import annotations

import gc
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

import ir_runtime
from converter.command_line import State, main
from converter.command_line.former_options import FORMER_OPTIONS
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


@pytest.mark.parametrize(("words", "shapes", "types"), [
    # As ovc: unnamed shapes go to the inputs in order, blanks separate as commas do.
    ("--input [1,3],[2,3]", "[1,3] [2,3]", "f32 f32"),
    ("--input [1,3]", "[1,3] [?,3]", "f32 f32"),
    ("--input 'y[1 3]'", "[?,3] [1,3]", "f32 f32"),
    ("--input x[1..4,3]", "[1..4,3] [?,3]", "f32 f32"),
    ("--input y,x", "[?,3] [?,3]", "f32 f32"),  # Not as ovc, which forgets the first.
    ("--input x[1,3] --input y[2,3]", "[1,3] [2,3]", "f32 f32"),
    ("--input y[2,3],[1,3]", "[1,3] [2,3]", "f32 f32"),  # As openvino.convert_model.
    ("--input x[1,3]{i32},y{i32}", "[1,3] [?,3]", "i32 i32"),
    ("--input ''", "[?,3] [?,3]", "f32 f32"),
])  # fmt: skip
def test_inputs_as_ovc_reads_them(folder: Path, words: str, shapes: str, types: str) -> None:
    code, _, messages = onnx2ir("convert", "m.onnx", *shlex.split(words))
    assert code == 0, messages
    inputs = ir_runtime.read_model("m.xml").inputs
    assert " ".join(str(port.shape) for port in inputs) == shapes
    assert " ".join(port.element_type.name for port in inputs) == types


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


def test_two_conversions_are_identical_under_any_hash_seed(folder: Path) -> None:
    written = set()
    for seed in ("0", "1", "4711"):
        command = [sys.executable, "-m", "converter", "-q", "convert", "model.onnx", "-o", f"{seed}.xml"]
        done = subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed})
        assert (done.stdout, done.stderr) == (b"", b"")
        written.add((Path(f"{seed}.xml").read_bytes(), Path(f"{seed}.bin").read_bytes()))
    assert len(written) == 1


# --- command lines of mo and ovc: one answer with the whole command, which works, and what has no counterpart ---


def answer(words: str) -> tuple[list[str], str]:
    """The words of the command that is told, and the whole message."""
    code, printed, messages = onnx2ir("convert", *shlex.split(words))
    assert (code, printed) == (2, ""), messages
    assert messages.count("Error:") == 1
    found = re.search(r"^  (onnx2ir convert .*)$", messages, re.M)
    assert found is not None, messages
    return shlex.split(found[1]), messages


VALUES = {"transform": "Pruning", "log-level": "DEBUG", "data-type": "FP16", "model-name": "net", "output-dir": "out"}

FORMER = [
    ("--input_model m.onnx", "m.onnx"),
    ("-m m.onnx", "m.onnx"),
    ("-w m.onnx -b 2", "m.onnx --batch 2"),
    ("-m m.onnx -b2", "m.onnx --batch 2"),
    ("--input_model=m.onnx --output_dir out", "m.onnx --output-model out/"),
    ("-m m.onnx -o out", "m.onnx --output-model out/"),
    ("-m m.onnx -o out/ -n net", "m.onnx --output-model out/net"),
    ("-m m.onnx -n net", "m.onnx --output-model net"),
    ("-m m.onnx --input_shape [1,3],[1,3]", "m.onnx --input [1,3],[1,3]"),
    ("-m m.onnx --input_shape '(1, 3),(-1, 3)'", "m.onnx --input '[1, 3],[?, 3]'"),
    ("-m m.onnx --input x,y --input_shape [2,3],[2,3]", "m.onnx --input x[2,3],y[2,3]"),
    ("-m m.onnx --input y[2,3]", "m.onnx --input y[2,3]"),
    ("-m f.onnx --freeze_placeholder_with_value 'y->[1 2 3],s->2'", "f.onnx --input y=[1,2,3],s=2"),
    ("-m f.onnx --input x --input_shape [2,3] --freeze_placeholder_with_value s->4", "f.onnx --input x[2,3],s=4"),
    ("-m m.onnx --output z", "m.onnx --output z"),
    ("-m m.onnx --data_type FP16", "m.onnx --compress-to-fp16"),
    ("-m m.onnx --data_type=half", "m.onnx --compress-to-fp16"),
    ("-m m.onnx --data_type float", "m.onnx"),
    ("-m m.onnx --compress_to_fp16 False", "m.onnx --no-compress-to-fp16"),
    ("-m m.onnx --compress_to_fp16=True", "m.onnx --compress-to-fp16"),
    ("-m m.onnx --static_shape", "m.onnx --static"),
    ("-m m.onnx --static_shape True --silent", "m.onnx --static --quiet"),
    ("-m m.onnx --extensions ops.py", "m.onnx --extension ops.py"),
    ("-m m.onnx --log_level DEBUG", "m.onnx --verbose"),
    ("-m m.onnx --log_level=ERROR", "m.onnx --quiet"),
    ("-m m.onnx --log_level=WARNING", "m.onnx"),
    ("m.onnx --use_new_frontend -o here", "m.onnx --output-model here/"),
    ("m.onnx --misspelt -o here", "m.onnx -o here"),
]
PREPROCESSING = [
    *((f"{name} [2]", f"{name.replace('_', '-')} [2]") for name in ("--mean_values", "--scale_values", "--layout")),
    ("-s [2]", "--scale [2]"),
    ("--reverse_input_channels", "--reverse-input-channels"),
    ("--source_layout nchw --target_layout nhwc", "--source-layout nchw --target-layout nhwc"),
]
"""Options that keep their names, of which the models here have no use."""


@pytest.mark.every_row
@pytest.mark.parametrize(("former", "here"), FORMER)
def test_the_command_is_told_and_works(former: str, here: str, folder: Path) -> None:
    before = set(folder.rglob("*.xml"))
    Path("m.xml").unlink()
    words, messages = answer(former)
    assert words == ["onnx2ir", "convert", *shlex.split(here)]
    code, _, errors = onnx2ir(*words[1:])
    assert code == 0, errors
    assert len(set(folder.rglob("*.xml")) - (before - {folder / "m.xml"})) == 1, messages


@pytest.mark.parametrize(("former", "here"), PREPROCESSING)
def test_preprocessing_keeps_its_names(former: str, here: str, folder: Path) -> None:
    assert answer(f"-m m.onnx {former}")[0][3:] == here.split()


def test_any_number_of_options_has_one_answer(folder: Path) -> None:
    words, messages = answer(
        "-m m.onnx -n net -o out -b 4 --data_type FP16 --framework onnx --foo bar "
        "--transform LowLatency2[use_const_initializer=False],Pruning --transformations_config a.json "
        "--progress --stream_output --input_proto p --counts=c --saved_model_dir d --ouput z"
    )
    assert words[2:] == ["m.onnx", "--output-model", "out/net", "--batch", "4", "--compress-to-fp16"]
    listed = messages.partition("Without a counterpart:\n")[2].splitlines()
    assert [line.split(":")[0].strip() for line in listed] == [
        *("--framework", "--foo", "--transform LowLatency2", "--transform Pruning", "--transformations_config"),
        *("--progress", "--stream_output", "--input_proto", "--counts", "--saved_model_dir", "--ouput"),
    ]
    assert "but --output" in listed[-1]
    assert onnx2ir(*words[1:])[0] == 0
    assert Path("out/net.xml").exists()


@pytest.mark.parametrize(("text", "parts"), [
    ("LowLatency2", "apply_low_latency_transformation|--stateful"),
    ("LowLatency2[use_const_initializer=False]", "apply_low_latency_transformation"),
    ("MakeStateful[param_res_names={'x':'z','y':'w'}]", "convert_model(..., stateful={'x':'z','y':'w'})"),
    ("MakeStateful", "convert_model(..., stateful={'input': 'output'})"),
    ("Pruning", "apply_pruning_transformation"),
    ("NoSuchThing", "none of that name"),
])  # fmt: skip
def test_transformations_have_an_answer(text: str, parts: str, folder: Path) -> None:
    import openvino._offline_transformations as offline

    _, messages = answer(f'-m m.onnx --transform "{text}"')
    assert f"--transform {text.partition('[')[0]}: " in messages
    assert all(part in messages for part in parts.split("|"))
    for function in re.findall(r"_offline_transformations\.(\w+)", messages):
        assert hasattr(offline, function)


@pytest.mark.every_row
@pytest.mark.parametrize("name", [name for name in FORMER_OPTIONS if f"--{name}" not in HERE])
def test_every_option_is_answered_with_a_command_that_can_be_read(name: str, folder: Path) -> None:
    value = VALUES.get(name, "[1,3]") if FORMER_OPTIONS[name].takes_value else ""
    written = f"--{name.replace('-', '_')}"
    words, messages = answer(f"{written} m.onnx" if name == "input-model" else f"m.onnx {written} {value}")
    CONVERT.make_context("convert", words[2:], obj=State())
    here = set(words) - {"onnx2ir", "convert", "m.onnx"}
    assert here or "Without a counterpart" in messages or name == "input-model"
