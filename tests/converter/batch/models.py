"""Models for runs of many: good ones, and ones whose operator does to its process what a test needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import converter
from tests.converter.optimization.models import parse

EXTENSION = """
import os, pathlib, signal, time

import numpy as np

import converter
from ir_runtime.operations.elementwise import Add1

FOLDER = pathlib.Path(__file__).parent


def operator(name):
    return converter.onnx_op(name, domain="acme", versions=(1,))


@operator("Abort")
def abort(ctx, x):
    os.abort()


@operator("Kill")
def kill(ctx, x):
    os.kill(os.getpid(), signal.SIGKILL)


@operator("KillWorker")
def kill_worker(ctx, x):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


@operator("Wait")
def wait(ctx, x):
    (FOLDER / "waits").write_text(str(os.getpid()))
    while not (FOLDER / "go").exists():
        time.sleep(0.02)
    return ctx.emit(Add1(), x, x)


@operator("Fill")
def fill(ctx, x):
    np.ones(1 << 33, np.uint8)


@operator("Fault")
def fault(ctx, x):
    return {}["no such key"]


@converter.onnx_op("Sinh", versions=(9,), replace=True)
def sinh(ctx, x):
    return ctx.emit(Add1(), x, x)
"""


def extension(folder: Path) -> Path:
    path = folder / "operators.py"
    path.write_text(EXTENSION)
    return path


def _saved(nodes: str, path: Path, **weights: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f"g (float[2,8] x) => (float[2,8] y) {{ {nodes} }}"
    onnx.save(parse(text, 17, ', "acme" : 1', **weights), path)
    return path


def dense(path: Path, seed: int = 0, external: bool = False) -> Path:
    """y = tanh(x w), with other weights for each seed."""
    weight = np.random.default_rng(seed).standard_normal((8, 8)).astype(np.float32)
    _saved("p = MatMul (x, w) y = Tanh (p)", path, w=weight)
    if external:
        model = onnx.load(path)
        onnx.save(model, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=0)
    return path


def own(op_type: str, path: Path) -> Path:
    """y = op_type(x), an operator of the extension."""
    return _saved(f"y = acme.{op_type} (x)", path)


def wrong(path: Path) -> Path:
    """y = sinh(x), in whose place the extension puts x + x."""
    return _saved("y = Sinh (x)", path)


def rows_of(rows: list[converter.Row]) -> dict[str, str]:
    return {row.name: row.verdict for row in rows}


def is_running(process: int) -> bool:
    """Whether a process is there, and not only its exit code."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
