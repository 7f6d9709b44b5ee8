"""Files that change under a model: an error wherever its values are used again, and never the end of the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

COUNT = 1 << 20

PREPARE = """
import os, sys, pickle, copy, numpy as np, converter, ir_runtime
folder, file, how = sys.argv[1:4]
os.chdir(folder)
x = np.ones(1 << 20, np.float32)

def change():
    if how == "cut off": os.truncate(file, 100)
    elif how == "emptied": open(file, "w").close()
    elif how == "rewritten":
        size = os.path.getsize(file)
        with open(file, "r+b") as f: f.write(b"x" * 10)
        os.utime(file, ns=(1, 1))

def attempt(function):
    change()
    try:
        function()
    except (converter.ConversionError, ir_runtime.ModelError) as error:
        assert "has changed" in str(error), error
        print("refused")
"""

STEPS = {
    "save": "m = converter.convert_model('m.onnx'); attempt(lambda: converter.save_model(m, 'out.xml'))",
    "save as FP16": "m = converter.convert_model('m.onnx'); "
    "attempt(lambda: converter.save_model(m, 'out.xml', compress_to_fp16=True))",
    "save in 8 bits": "m = converter.convert_model('m.onnx'); "
    "attempt(lambda: converter.save_model(m, 'out.xml', compress='int8'))",
    "compile": "m = converter.convert_model('m.onnx'); attempt(lambda: ir_runtime.compile_model(m))",
    "run": "c = ir_runtime.compile_model(converter.convert_model('m.onnx')); attempt(lambda: c([x]))",
    "run plainly": "c = ir_runtime.compile_model(converter.convert_model('m.onnx'), optimize=False); "
    "attempt(lambda: c([x]))",
    "pickle": "m = converter.convert_model('m.onnx'); attempt(lambda: pickle.dumps(m))",
    "read and compile": "m = ir_runtime.read_model('ir.xml'); attempt(lambda: ir_runtime.compile_model(m))",
    "read and run": "c = ir_runtime.compile_model(ir_runtime.read_model('ir.xml')); attempt(lambda: c([x]))",
    "read and write": "m = ir_runtime.read_model('ir.xml'); attempt(lambda: ir_runtime.write_model(m, 'o.xml'))",
    "read and reshape": "m = ir_runtime.read_model('ir.xml'); "
    "attempt(lambda: (m.reshape([1 << 20]), ir_runtime.compile_model(m)))",
    "verify": "m = ir_runtime.read_model('ir.xml'); attempt(lambda: converter.verify('other.onnx', m))",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    folder = tmp_path_factory.mktemp("models")
    weights = [numpy_helper.from_array(np.arange(COUNT, dtype=np.float32), "w")]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ports[:1], ports[1:], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return proto.SerializeToString(), folder


@pytest.mark.parametrize("how", ["cut off", "emptied", "rewritten"])
@pytest.mark.parametrize("step", STEPS)
def test_a_file_changes_before_a_step(step: str, how: str, models: tuple[bytes, Path], tmp_path: Path) -> None:
    data = models[0]
    for name in ("m.onnx", "other.onnx"):
        (tmp_path / name).write_bytes(data)
    if "ir" in STEPS[step]:
        import converter

        converter.save_model(converter.convert_model(tmp_path / "m.onnx"), tmp_path / "ir.xml")
    file = "ir.bin" if "ir.xml" in STEPS[step] else "m.onnx"
    command = [sys.executable, "-c", PREPARE + STEPS[step], str(tmp_path), file, how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr or f"signal {-done.returncode}"
    assert done.stdout == "refused\n"


def test_bytes_do_not_change(tmp_path: Path, models: tuple[bytes, Path]) -> None:
    import converter
    import ir_runtime

    (tmp_path / "m.onnx").write_bytes(models[0])
    model = converter.convert_model(tmp_path / "m.onnx", share_weights=False)
    (tmp_path / "m.onnx").write_bytes(b"")
    result = ir_runtime.compile_model(model)([np.ones(COUNT, np.float32)])[0]
    np.testing.assert_array_equal(result, np.arange(COUNT, dtype=np.float32) + 1)
