"""The command within this process, and small models to call it with."""

from __future__ import annotations

import errno
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from click.testing import CliRunner
from onnx import numpy_helper

from converter.command_line import main


def onnx2ir(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, arguments, prog_name="onnx2ir")
    return done.exit_code, done.stdout, done.stderr


def said(*arguments: object) -> tuple[int, str]:
    """The exit code, and all that the command prints, in one line."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="onnx2ir")
    return done.exit_code, " ".join(done.output.split())


def two_inputs() -> onnx.ModelProto:
    return onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]> g (float[n,3] x, float[n,3] y) => (float[] z, float[] w) {
        z = Add (x, y) w = Relu (z) }"""
    )


def a_model() -> onnx.ModelProto:
    """logits = means over the image of a convolution (hidden), times the rate; a product makes two numbers of them."""
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]> net (float[n,3,h,w] image, int64 rate) => (float[] logits) {
        [conv] hidden = Conv (image, k) means = ReduceMean <axes = [2, 3], keepdims = 0> (hidden)
        scores = MatMul (means, w) factor = Cast <to = 1> (rate) logits = Mul (scores, factor) }"""
    )
    rng = np.random.default_rng(0)
    for name, shape in (("k", (64, 3, 1, 1)), ("w", (64, 64))):
        values = rng.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


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
