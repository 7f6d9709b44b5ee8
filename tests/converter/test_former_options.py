"""Command lines of mo and ovc: one answer with the whole command, which works, and what has no counterpart."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ir_runtime
from converter.command_line import State, main
from converter.command_line.former_options import FORMER_OPTIONS
from tests.commands import onnx2ir, two_inputs

CONVERT = main.commands["convert"]  # type: ignore[attr-defined]
HERE = {option for parameter in CONVERT.params for option in parameter.opts}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    onnx.save(two_inputs(), tmp_path / "m.onnx")
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", ["n", 3]), ("y", [3]), ("s", []))
    ]
    nodes = [helper.make_node("Add", ["x", "y"], ["z"]), helper.make_node("Mul", ["z", "s"], ["w"])]
    graph = helper.make_graph(nodes, "g", values, [helper.make_tensor_value_info("w", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "f.onnx")
    (tmp_path / "ops.py").write_text("import converter\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(*arguments: str) -> tuple[list[str], str]:
    """The words of the command that is told, and the whole message."""
    code, printed, messages = onnx2ir("convert", *arguments)
    assert code == 2, messages
    assert printed == ""
    assert messages.count("Error:") == 1
    found = re.search(r"^  (onnx2ir convert .*)$", messages, re.M)
    assert found is not None, messages
    return shlex.split(found[1]), messages


VALUES = {"transform": "Pruning", "log-level": "DEBUG", "data-type": "FP16", "model-name": "net", "output-dir": "out"}

ROWS = [
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


@pytest.mark.every_row
@pytest.mark.parametrize(("former", "here"), ROWS)
def test_the_command_is_told_and_works(former: str, here: str, folder: Path) -> None:
    words, messages = answer(*shlex.split(former))
    assert words == ["onnx2ir", "convert", *shlex.split(here)]
    code, _, errors = onnx2ir(*words[1:])
    assert code == 0, errors
    assert len(list(folder.rglob("*.xml"))) == 1, messages


def test_shapes_and_values_arrive(folder: Path) -> None:
    words, _ = answer(
        *shlex.split("-m f.onnx --input x --input_shape [2,3] --freeze_placeholder_with_value 'y->[1 2 3],s->2'")
    )
    assert onnx2ir(*words[1:])[0] == 0
    model = ir_runtime.read_model(folder / "f.xml")
    assert [(port.name, list(port.shape)) for port in ir_runtime.compile_model(model).inputs] == [("x", [2, 3])]
    result = ir_runtime.compile_model(model)({"x": np.zeros((2, 3), np.float32)})
    np.testing.assert_array_equal(result["w"], [[2, 4, 6], [2, 4, 6]])


def test_any_number_of_options_has_one_answer(folder: Path) -> None:
    words, messages = answer(
        *("-m", "m.onnx", "-n", "net", "-o", "out", "-b", "4", "--data_type", "FP16", "--framework", "onnx", "--foo"),
        *(
            "bar",
            "--transform",
            "LowLatency2[use_const_initializer=False],Pruning",
            "--transformations_config",
            "a.json",
        ),
        *(
            "--progress",
            "--stream_output",
            "--input_proto",
            "p",
            "--counts=c",
            "--saved_model_dir",
            "d",
            "--ouput",
            "z",
        ),
    )
    assert words[2:] == ["m.onnx", "--output-model", "out/net", "--batch", "4", "--compress-to-fp16"]
    listed = messages.partition("Without a counterpart:\n")[2].splitlines()
    assert [line.split(":")[0].strip() for line in listed] == [
        *("--framework", "--foo", "--transform LowLatency2", "--transform Pruning", "--transformations_config"),
        *("--progress", "--stream_output", "--input_proto", "--counts", "--saved_model_dir", "--ouput"),
    ]
    assert "but --output" in listed[-1]
    assert onnx2ir(*words[1:])[0] == 0
    assert (folder / "out" / "net.xml").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("LowLatency2", ["apply_low_latency_transformation", "--stateful"]),
        ("LowLatency2[use_const_initializer=False]", ["apply_low_latency_transformation"]),
        ("MakeStateful[param_res_names={'x':'z','y':'w'}]", ["convert_model(..., stateful={'x':'z','y':'w'})"]),
        ("MakeStateful", ["convert_model(..., stateful={'input': 'output'})"]),
        ("Pruning", ["apply_pruning_transformation"]),
        ("NoSuchThing", ["none of that name"]),
    ],
)
def test_transformations_have_an_answer(text: str, words: list[str], folder: Path) -> None:
    import openvino._offline_transformations as offline

    _, messages = answer("-m", "m.onnx", "--transform", text)
    assert f"--transform {text.partition('[')[0]}: " in messages
    for word in words:
        assert word in messages
    for function in re.findall(r"_offline_transformations\.(\w+)", messages):
        assert hasattr(offline, function)


@pytest.mark.every_row
@pytest.mark.parametrize("name", FORMER_OPTIONS)
def test_every_option_is_answered_with_a_command_that_can_be_read(name: str, folder: Path) -> None:
    written = f"--{name.replace('-', '_')}"
    given = ["m.onnx", written, *([VALUES.get(name, "[1,3]")] if FORMER_OPTIONS[name].takes_value else [])]
    if f"--{name}" in HERE:
        return
    if name == "input-model":
        given = given[1:2] + ["m.onnx"]
    words, messages = answer(*given)
    CONVERT.make_context("convert", words[2:], obj=State())
    here = set(words) - {"onnx2ir", "convert", "m.onnx"}
    assert here or "Without a counterpart" in messages or name == "input-model"


@pytest.mark.parametrize("name", ["--mean_values", "--scale_values", "--layout", "--reverse_input_channels", "-s"])
def test_preprocessing_keeps_its_names_where_they_are_options(name: str, folder: Path) -> None:
    here = {"-s": "--scale"}.get(name, name.replace("_", "-"))
    value = [] if name == "--reverse_input_channels" else ["[2]"]
    words, _ = answer("-m", "m.onnx", name, *value)
    assert words[3:] == [here, *value]


def test_layouts_keep_their_names(folder: Path) -> None:
    words, _ = answer("-m", "m.onnx", "--source_layout", "nchw", "--target_layout", "nhwc")
    assert words[3:] == ["--source-layout", "nchw", "--target-layout", "nhwc"]


def test_another_command_is_told_nothing_of_mo(folder: Path) -> None:
    code, _, messages = onnx2ir("export", "m.onnx", "--input_model", "m.onnx")
    assert code == 2
    assert "No such option" in messages
