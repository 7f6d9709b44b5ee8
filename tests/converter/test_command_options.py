"""What people type: options where they put them, spelt as OpenVINO's ``ovc`` spells them, and where files go."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import click
import onnx
import pytest
from onnx import TensorProto, helper

import converter
import ir_runtime
from converter.command_line import main
from converter.command_line.option_groups import GROUPS
from tests.commands import onnx2ir, two_inputs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    onnx.save(two_inputs(), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.suffix in (".xml", ".bin"))


# Where OpenVINO's ovc writes with the same arguments.
@pytest.mark.parametrize(
    ("output", "xml"),
    [
        ("newdir/m.xml", "newdir/m.xml"),
        ("a/b/c.xml", "a/b/c.xml"),
        ("outdir/", "outdir/m.xml"),
        ("here", "here/m.xml"),
        (".", "m.xml"),
        ("name", "name.xml"),
        ("name.ir", "name.ir.xml"),
        ("dir.a/name.v1", "dir.a/name.v1.xml"),
    ],
)
def test_files_go_where_ovc_writes_them(folder: Path, output: str, xml: str) -> None:
    (folder / "here").mkdir()
    code, _, messages = onnx2ir("convert", "m.onnx", "-o", output)
    assert code == 0, messages
    assert written(folder) == sorted([xml, f"{xml[:-4]}.bin"])


def test_ovc_writes_to_the_paths_of_the_rows(folder: Path) -> None:
    ovc = Path(sys.executable).with_name("ovc")
    if not ovc.exists():
        pytest.skip("ovc is not installed")
    (folder / "here").mkdir()
    for output, xml in [("here", "here/m.xml"), ("outdir/", "outdir/m.xml"), ("a.b/name.v1", "a.b/name.v1.xml")]:
        subprocess.run([str(ovc), "m.onnx", "--output_model", output], cwd=folder, check=True, capture_output=True)
        assert (folder / xml).exists()


def test_a_folder_is_not_made_for_what_cannot_be_converted(folder: Path) -> None:
    assert onnx2ir("convert", "m.onnx", "-o", "new/", "--output", "nothing")[0] == 1
    assert not (folder / "new").exists()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ([], [], "Converting"),
        (["-q"], [], ""),
        ([], ["-q"], ""),
        (["--quiet"], ["--quiet"], ""),
        ([], ["--verbose"], "Converting"),
        (["-v"], ["-v"], "Converting"),
    ],
)
def test_quiet_and_verbose_before_and_after_the_command(folder: Path, before: list, after: list, message: str) -> None:
    code, _, messages = onnx2ir(*before, "convert", "m.onnx", *after)
    assert code == 0
    assert messages.startswith(message) if message else messages == ""


@pytest.mark.parametrize("command", [["ops"], ["inspect", "m.onnx"], ["convert", "m.onnx"]])
def test_quiet_and_verbose_exclude_each_other(folder: Path, command: list[str]) -> None:
    code, _, messages = onnx2ir("-q", *command, "-v")
    assert code == 2
    assert "--quiet and --verbose exclude each other" in messages


def test_verbose_behind_the_command_shows_tracebacks(folder: Path) -> None:
    assert "Traceback" not in onnx2ir("convert", "m.onnx", "--output", "none")[2]
    assert "Traceback" in onnx2ir("convert", "m.onnx", "--output", "none", "-v")[2]


@pytest.mark.parametrize(
    ("arguments", "half"),
    [
        ([], False),
        (["--compress_to_fp16"], True),
        (["--compress-to-fp16=True"], True),
        (["--compress_to_fp16=False"], False),
        (["--compress_to_fp16", "False"], False),
        (["--compress_to_fp16", "true"], True),
        (["--compress_to_fp16=0"], False),
        (["--no-compress-to-fp16"], False),
    ],
)
def test_fp16_as_ovc_spells_it(tmp_path: Path, arguments: list[str], half: bool) -> None:
    weights = helper.make_tensor("w", TensorProto.FLOAT, [64], [i / 7 for i in range(64)])
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g", value[:1], value[1:], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    for order in ([*arguments, str(tmp_path / "m.onnx")], [str(tmp_path / "m.onnx"), *arguments]):
        code, _, messages = onnx2ir("convert", *order, "--output_model", str(tmp_path / "m"))
        assert code == 0, messages
        assert (tmp_path / "m.bin").stat().st_size == (128 if half else 256)


@pytest.mark.parametrize(
    ("arguments", "shapes", "types"),
    [
        # As ovc: unnamed shapes go to the inputs in order, blanks separate as commas do.
        (["--input", "[1,3],[2,3]"], ["[1,3]", "[2,3]"], "f32 f32"),
        (["--input", "[1,3]"], ["[1,3]", "[?,3]"], "f32 f32"),
        (["--input", "y[1 3]"], ["[?,3]", "[1,3]"], "f32 f32"),
        (["--input", "x[1..4,3]"], ["[1..4,3]", "[?,3]"], "f32 f32"),
        (["--input", "y,x"], ["[?,3]", "[?,3]"], "f32 f32"),
        # Not as ovc, which forgets the first.
        (["--input", "x[1,3]", "--input", "y[2,3]"], ["[1,3]", "[2,3]"], "f32 f32"),
        (["--input", "y[2,3],[1,3]"], ["[1,3]", "[2,3]"], "f32 f32"),
        # As openvino.convert_model.
        (["--input", "x[1,3]{i32},y{i32}"], ["[1,3]", "[?,3]"], "i32 i32"),
        (["--input", ""], ["[?,3]", "[?,3]"], "f32 f32"),
    ],
)
def test_inputs_as_ovc_reads_them(folder: Path, arguments: list[str], shapes: list[str], types: str) -> None:
    code, _, messages = onnx2ir("convert", "m.onnx", *arguments)
    assert code == 0, messages
    inputs = ir_runtime.read_model(folder / "m.xml").inputs
    assert [str(port.shape) for port in inputs] == shapes
    assert " ".join(port.element_type.name for port in inputs) == types


@pytest.mark.parametrize("options", [["--output", "w", "--output", "z"], ["--output", "w,z"], ["--output", "w, z"]])
def test_outputs_add_up(folder: Path, options: list[str]) -> None:
    assert onnx2ir("convert", "m.onnx", *options)[0] == 0
    assert [node.output_names for node in ir_runtime.read_model(folder / "m.xml").results] == [["w"], ["z"]]


def test_extensions_add_up(folder: Path) -> None:
    for name in "abc":
        text = f"import converter\n@converter.onnx_op({name!r}, domain='x{name}', versions=(1,))\ndef f(ctx, x): ...\n"
        (folder / f"{name}.py").write_text(text)
    assert onnx2ir("convert", "m.onnx", "--extension", "a.py,b.py", "--extension", "c.py")[0] == 0
    from converter.from_onnx.translation.registry import find_translator

    assert not any(isinstance(find_translator(name, f"x{name}", 1), str) for name in "abc")


def test_the_version_is_the_packages() -> None:
    assert onnx2ir("--version")[1] == f"onnx2ir, version {converter.__version__}\n"


def test_shells_complete_commands_and_options() -> None:
    def completed(*words: str) -> str:
        environment = {
            **os.environ, "_ONNX2IR_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }  # fmt: skip
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
