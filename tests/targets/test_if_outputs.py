"""Outputs of an If in the plug-in: inferences with longer and shorter dimensions, and where no copy is needed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import ir_runtime
from converter.conversion import convert
from tests.engines import EXACT, assert_close, core, run_compiled, run_onnxruntime

IF = """p = If (c) <then_branch = a () => (float[{dims}] t) {{ t = Abs (x) }},
                   else_branch = b () => (float[{dims}] e) {{ e = Neg (x) }}>"""
AGAIN = """q = If (c) <then_branch = d () => (float[m] f) { f = Concat <axis = 0> (p, p) },
                       else_branch = g () => (float[m] h) { h = Exp (p) }>"""
TRIPLED = "k = Concat <axis = 0> (p, p, p) s = Softmax (k) y = Relu (s)"


def model_of(dims: str, following: str, outputs: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 17]>
        g (float[{dims}] x, bool c) => ({outputs}) {{ {IF.format(dims=dims)} {following} }}"""
    )


@pytest.mark.parametrize(
    ("dims", "following", "outputs", "copies"),
    [
        ("n", TRIPLED, "y", 1),
        ("n, m", "w = Transpose <perm = [1, 0]> (p) " + TRIPLED.replace("(p, p, p)", "(w, w, w)"), "y", 1),
        ("n", TRIPLED, "p, y", 0),
        ("n", "", "p", 0),
        ("n", AGAIN + TRIPLED.replace("(p, p, p)", "(q, q, q)"), "y", 1),
    ],
)
def test_lengths_that_grow(dims: str, following: str, outputs: str, copies: int) -> None:
    """The memory of an output that the caller gets, or that another If reads, is not reused too early."""
    model = model_of(dims, following, outputs)
    conversion = convert(model)
    assert conversion.rules.get("if_outputs_in_reused_memory", 0) == copies
    compiled = core().compile_model(core().read_model(*ir_runtime.model_to_bytes(conversion.model)), "CPU", EXACT)
    names = outputs.split(", ")
    for length in (6, 6, 8, 3, 12, 40):
        x = np.random.default_rng(length).standard_normal([length, length + 1][: dims.count(",") + 1])
        for condition in (True, False):
            feeds = {"x": x.astype(np.float32), "c": np.array(condition)}
            for value, expected in zip(run_compiled(compiled, feeds, names), run_onnxruntime(model, feeds)):
                assert_close(value, expected)
