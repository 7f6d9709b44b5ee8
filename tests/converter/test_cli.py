"""The command line: every command, --json, exit codes, streams, mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.engines import core, node_model


def onnx2ir(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "converter", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    x = np.zeros((2, 3, 8, 8), np.float32)
    path = tmp_path / "pool.onnx"
    proto = node_model(
        "AveragePool", {"x": x}, opset=19, attributes={"kernel_shape": [2, 2]}, shapes={"x": ["n", 3, 8, 8]}
    )
    onnx.save(proto, path)
    return path


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.onnx"
    onnx.save(node_model("NoSuchOp", {"x": np.zeros(3, np.float32)}, opset=19), path)
    return path


def test_convert_verify_run_inspect(model: Path, tmp_path: Path) -> None:
    xml = tmp_path / "out.xml"
    done = onnx2ir("convert", model, "-o", xml, "--verify")
    assert done.returncode == 0, done.stderr
    assert "PASSED against onnxruntime" in done.stdout
    assert "Wrote" in done.stderr
    assert core().read_model(xml).outputs[0].get_names() == {"y0"}

    done = onnx2ir("verify", model, xml, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["outputs"][0]["name"] == "y0"

    np.savez(tmp_path / "in.npz", x=np.ones((1, 3, 8, 8), np.float32))
    done = onnx2ir("run", xml, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "res.npz", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["outputs"][0] == {
        "name": "y0", "type": "f32", "shape": [1, 3, 7, 7], "min": 1.0, "mean": 1.0, "max": 1.0,
    }  # fmt: skip
    np.testing.assert_array_equal(np.load(tmp_path / "res.npz")["y0"], np.ones((1, 3, 7, 7)))

    done = onnx2ir("inspect", xml, "--json")
    assert json.loads(done.stdout)["inputs"] == [{"name": "x", "type": "f32", "shape": [None, 3, 8, 8]}]
    assert "AvgPool-1" in onnx2ir("inspect", xml).stdout


def test_run_prints_where_the_time_goes(model: Path, tmp_path: Path) -> None:
    xml = tmp_path / "m.xml"
    assert onnx2ir("convert", model, "-o", xml).returncode == 0
    shown = json.loads(onnx2ir("run", xml, "--repeat", "3", "--profile", "--json").stdout)
    assert shown["calls"] == 3
    assert shown["milliseconds"] > 0
    assert [row["type"] for row in shown["types"]] == [layer["type"] for layer in shown["layers"]] == ["AvgPool"]
    table = onnx2ir("run", xml, "--repeat", "2", "--profile")
    assert table.returncode == 0, table.stderr
    assert "AvgPool" in table.stdout
    assert "mean of 2" in table.stdout
    assert "types" not in json.loads(onnx2ir("run", xml, "--repeat", "2", "--json").stdout)
    assert onnx2ir("run", xml, "--repeat", "0").returncode == 2


def test_default_output_lies_beside_the_model(model: Path) -> None:
    assert onnx2ir("convert", model).returncode == 0
    assert model.with_suffix(".xml").exists()
    assert model.with_suffix(".bin").exists()


@pytest.mark.parametrize("suffix", [".xml", ".bin"])
def test_devices_and_pipes_are_not_written_over(suffix: str, model: Path, tmp_path: Path) -> None:
    pipe = tmp_path / f"out{suffix}"
    os.mkfifo(pipe)
    result = onnx2ir("convert", model, "-o", tmp_path / "out.xml")
    assert result.returncode == 1
    assert f"error: '{pipe}' exists and is not a regular file" in " ".join(result.stderr.split())
    assert pipe.is_fifo()
    assert not list(tmp_path.glob("*.part"))


def test_results_are_not_written_over_a_pipe(model: Path, tmp_path: Path) -> None:
    assert onnx2ir("convert", model).returncode == 0
    pipe = tmp_path / "result.npz"
    os.mkfifo(pipe)
    result = onnx2ir("run", model.with_suffix(".xml"), "-o", pipe)
    assert result.returncode == 1
    assert "is not a regular file" in " ".join(result.stderr.split())
    assert pipe.is_fifo()


def test_two_conversions_are_identical_under_any_hash_seed(model: Path, tmp_path: Path) -> None:
    import os

    written = []
    for seed in ("0", "1", "4711"):
        xml = tmp_path / f"{seed}.xml"
        command = [sys.executable, "-m", "converter", "convert", str(model), "-o", str(xml)]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed})
        written.append((xml.read_bytes(), xml.with_suffix(".bin").read_bytes()))
    assert written[0] == written[1] == written[2]


def test_quiet_prints_nothing_but_results(model: Path) -> None:
    done = onnx2ir("--quiet", "convert", model)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_failed_verification_exits_with_one(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.onnx"
    proto = node_model(
        "AveragePool", {"x": np.zeros((2, 3, 8, 8), np.float32)}, opset=19, attributes={"kernel_shape": [3, 3]}
    )
    onnx.save(proto, other)
    assert onnx2ir("convert", other, "-o", tmp_path / "other.xml").returncode == 0
    done = onnx2ir("verify", model, tmp_path / "other.xml")
    assert done.returncode == 1
    assert "shape is [2, 3, 6, 6], expected [2, 3, 7, 7]" in done.stdout
    assert "FAILED" in done.stdout


def test_unsupported_model(broken: Path) -> None:
    done = onnx2ir("convert", broken)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "error: node 'node' (NoSuchOp, opset 19): ONNX has no operator of that name" in done.stderr
    assert "Traceback" not in done.stderr
    assert [p.name for p in broken.parent.iterdir()] == ["broken.onnx"]
    assert "Traceback" in onnx2ir("--verbose", "convert", broken).stderr


def test_ops(model: Path, broken: Path) -> None:
    listed = json.loads(onnx2ir("ops", "--json").stdout)["operators"]
    entry: dict[str, Any] = next(entry for entry in listed if entry["op_type"] == "ReduceMean")
    assert entry["versions"] == [1, 11, 13, 18]
    assert entry["how"] == "translated"
    assert "ReduceMean-1" in entry["layers"]
    assert entry["numpy"] == entry["openvino"] == entry["cases"] > 0
    ways = {entry["how"] for entry in listed}
    assert ways == {"translated", "function", "refused"}
    assert all(entry["limits"] for entry in listed if entry["how"] == "refused")
    done = onnx2ir("ops", model)
    assert done.returncode == 0
    assert "AveragePool" in done.stdout
    done = onnx2ir("ops", broken)
    assert done.returncode == 1
    assert "no: ONNX has no operator of that name" in done.stdout


def test_ops_sees_functions(tmp_path: Path) -> None:
    """A model's own functions and those of ONNX's schemas are no problem; what stands in them may be."""
    inner = onnx.helper.make_node("Celu", ["x"], ["y"])
    strange = onnx.helper.make_node("NoSuchOp", ["x"], ["y"])
    opset = [onnx.helper.make_opsetid("", 27), onnx.helper.make_opsetid("own", 1)]
    functions = [
        onnx.helper.make_function("own", name, ["x"], ["y"], [node], opset[:1])
        for name, node in (("Good", inner), ("Bad", strange))
    ]
    types = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 4]) for name in ("x", "y")]
    for name, code in (("Good", 0), ("Bad", 1)):
        nodes = [
            onnx.helper.make_node("MeanVarianceNormalization", ["x"], ["m"], axes=[1]),
            onnx.helper.make_node(name, ["m"], ["y"], domain="own"),
        ]
        graph = onnx.helper.make_graph(nodes, "g", types[:1], types[1:])
        used = [function for function in functions if function.name == name]
        path = tmp_path / f"{name}.onnx"
        onnx.save(onnx.helper.make_model(graph, functions=used, opset_imports=opset), path)
        done = onnx2ir("ops", path)
        assert done.returncode == code, done.stdout
        assert ("NoSuchOp" in done.stdout) == bool(code)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["convert"], 2, "Missing argument 'MODEL...'"),
        (["convert", "none.onnx"], 2, "does not exist"),
        (["convert", "pool.onnx", "-o", "x.bin"], 2, "must not end in .bin"),
        (["convert", "pool.onnx", "-o", "pool.onnx"], 2, "would overwrite the model"),
        (["convert", "pool.onnx", "--inputs", "pool.onnx"], 2, "--inputs needs --verify"),
        (["--quiet", "--verbose", "ops"], 2, "exclude each other"),
        (["run", "pool.onnx"], 1, "pool.onnx is not OpenVINO IR, but an ONNX model: convert it first"),
        (["convert", "."], 1, "is not recognised: it has pool.onnx"),
        (["convert", "."], 1, "for a single model give a file in it: pool.onnx"),
        (["convert", "pool.onnx", "--dynamo"], 2, "export yours with torch.onnx.export"),
        (["convert", "pool.onnx", "--input_shape", "[1]"], 2, "onnx2ir convert pool.onnx --input '[1]'"),
        (["convert", "pool.onnx", "--compress_to_fp16=maybe"], 2, "True or False, but is 'maybe'"),
        (["convert", "pool.onnx", "--extension", "lib.so"], 1, "is a library for OpenVINO"),
        (["convert", "pool.onnx", "--extension", "none.py"], 1, "the extension none.py is not a Python file"),
        (["transmogrify"], 2, "No such command"),
    ],
)
def test_mistakes(model: Path, arguments: list[str], code: int, message: str) -> None:
    done = onnx2ir(*arguments, cwd=model.parent)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["convert", "verify", "run", "inspect", "ops"])
def test_help_has_examples(command: str) -> None:
    done = onnx2ir(command, "--help")
    assert done.returncode == 0
    assert f"onnx2ir {command}" in done.stdout


def test_fp16_only_when_asked_for(tmp_path: Path) -> None:
    weights = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    path = tmp_path / "m.onnx"
    onnx.save(node_model("Add", {"x": weights}, opset=17, constants={"w": weights / 3}), path)
    assert onnx2ir("convert", path, "-o", tmp_path / "full.xml").returncode == 0
    assert onnx2ir("convert", path, "-o", tmp_path / "half.xml", "--compress-to-fp16").returncode == 0
    assert (tmp_path / "full.bin").stat().st_size == 256
    assert (tmp_path / "half.bin").stat().st_size == 128
    text = (tmp_path / "half.xml").read_text()
    assert '<attribute name="decompression" version="0"/>' in text
    assert 'name="w_compressed"' in text
    assert onnx2ir("verify", path, tmp_path / "half.xml").returncode == 0
    compiled = core().compile_model(tmp_path / "half.xml", "CPU")
    np.testing.assert_allclose(compiled([weights])[0], weights + weights / 3, atol=1e-3)
