"""Models for runs of many: good ones, and ones whose operator, of an extension, does to its process what a test needs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import converter
from tests.commands import onnx2ir

__all__ = ["EXTENSION", "dense", "extension", "onnx2ir", "own", "rows_of", "wrong"]

EXTENSION = """
import os, pathlib, signal, time

import numpy as np

import converter
from ir_runtime.operations.elementwise import Add1

FOLDER = pathlib.Path(__file__).parent


@converter.onnx_op("Abort", domain="acme", versions=(1,))
def abort(ctx, x):
    os.abort()


@converter.onnx_op("Kill", domain="acme", versions=(1,))
def kill(ctx, x):
    os.kill(os.getpid(), signal.SIGKILL)


@converter.onnx_op("KillWorker", domain="acme", versions=(1,))
def kill_worker(ctx, x):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


@converter.onnx_op("Wait", domain="acme", versions=(1,))
def wait(ctx, x):
    (FOLDER / "waits").write_text(str(os.getpid()))
    while not (FOLDER / "go").exists():
        time.sleep(0.02)
    return ctx.emit(Add1(), x, x)


@converter.onnx_op("Fill", domain="acme", versions=(1,))
def fill(ctx, x):
    np.ones(1 << 33, np.uint8)


@converter.onnx_op("Fault", domain="acme", versions=(1,))
def fault(ctx, x):
    return {}["no such key"]


@converter.onnx_op("Sinh", versions=(9,), replace=True)
def sinh(ctx, x):
    return ctx.emit(Add1(), x, x)
"""


def extension(folder: Path) -> Path:
    """The file with the operators."""
    path = folder / "operators.py"
    path.write_text(EXTENSION)
    return path


def _values(*names: str) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 8]) for name in names]


def _saved(graph: onnx.GraphProto, path: Path) -> Path:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def dense(path: Path, seed: int = 0, external: bool = False) -> Path:
    """y = tanh(x w), with other weights for each seed."""
    weight = np.random.default_rng(seed).standard_normal((8, 8)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Tanh", ["p"], ["y"])]
    graph = helper.make_graph(nodes, "g", _values("x"), _values("y"), [numpy_helper.from_array(weight, "w")])
    _saved(graph, path)
    if external:
        model = onnx.load(path)
        onnx.save(model, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=0)
    return path


def own(op_type: str, path: Path) -> Path:
    """y = op_type(x), an operator of the extension."""
    node = helper.make_node(op_type, ["x"], ["y"], domain="acme")
    return _saved(helper.make_graph([node], "g", _values("x"), _values("y")), path)


def wrong(path: Path) -> Path:
    """y = sinh(x), in whose place the extension puts x + x."""
    node = helper.make_node("Sinh", ["x"], ["y"])
    return _saved(helper.make_graph([node], "g", _values("x"), _values("y")), path)


def rows_of(rows: list[converter.Row]) -> dict[str, str]:
    """Verdicts by name, in order."""
    return {row.name: row.verdict for row in rows}


def is_running(process: int) -> bool:
    """Whether a process is there, and not only its exit code."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
