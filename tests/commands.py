"""The command within this process and on a terminal, small models to call it with, and models for runs of many."""

from __future__ import annotations

import errno
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from click.testing import CliRunner

import converter
from converter.command_line import main
from tests.converter.optimization.models import parse

# --- the command within this process, and small models to call it with ---


def onnx2ir(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, arguments, prog_name="onnx2ir")
    return done.exit_code, done.stdout, done.stderr


def said(*arguments: object) -> tuple[int, str]:
    """The exit code, and all that the command prints, in one line."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="onnx2ir")
    return done.exit_code, " ".join(done.output.split())


def two_inputs() -> onnx.ModelProto:
    return parse("g (float[n,3] x, float[n,3] y) => (float[] z, float[] w) { z = Add (x, y) w = Relu (z) }")


def a_model() -> onnx.ModelProto:
    """logits = means over the image of a convolution (hidden), times the rate; a product makes two numbers of them."""
    text = """net (float[n,3,h,w] image, int64 rate) => (float[] logits) {
        [conv] hidden = Conv (image, k) means = ReduceMean <axes = [2, 3], keepdims = 0> (hidden)
        scores = MatMul (means, w) factor = Cast <to = 1> (rate) logits = Mul (scores, factor) }"""
    rng = np.random.default_rng(0)
    shapes = {"k": (64, 3, 1, 1), "w": (64, 64)}
    return parse(text, **{name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()})


PEAK = """
def peak():
    import re
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""
"""Source of a function that returns the peak so far, in KiB; Linux has the file that it reads."""


def on_terminal(folder: Path, *arguments: str, columns: int = 80, before: str = "pass", **environment: str) -> str:
    """Everything that the command writes to a terminal of that width."""
    controller, terminal = pty.openpty()
    code = f"import sys; from converter.command_line import main, state; {before}; main(prog_name='onnx2ir')"
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "CI")}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=terminal, stderr=terminal, stdin=terminal, cwd=folder,
        env={**kept, "COLUMNS": str(columns), "TERM": "xterm-256color", **environment},
    )  # fmt: skip
    os.close(terminal)
    written = b""
    while True:
        try:
            part = os.read(controller, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            break
        if not part:
            break
        written += part
    process.wait()
    os.close(controller)
    return written.decode()


# --- models for runs of many: good ones, and ones whose operator does to its process what a test needs ---

EXTENSION = """
import os, pathlib, signal, time

import numpy as np

import converter
from ir_runtime.operations.elementwise import Add1

FOLDER = pathlib.Path(__file__).parent


def wait(ctx, x):
    (FOLDER / "waits").write_text(str(os.getpid()))
    while not (FOLDER / "go").exists():
        time.sleep(0.02)
    return ctx.emit(Add1(), x, x)


OPERATORS = {
    "Abort": lambda ctx, x: os.abort(),
    "Kill": lambda ctx, x: os.kill(os.getpid(), signal.SIGKILL),
    "KillWorker": lambda ctx, x: (os.kill(os.getppid(), signal.SIGKILL), time.sleep(60)),
    "Wait": wait,
    "Fill": lambda ctx, x: np.ones(1 << 33, np.uint8),
    "Fault": lambda ctx, x: {}["no such key"],
}
for name, function in OPERATORS.items():
    converter.onnx_op(name, domain="acme", versions=(1,))(function)
converter.onnx_op("Sinh", versions=(9,), replace=True)(lambda ctx, x: ctx.emit(Add1(), x, x))
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
