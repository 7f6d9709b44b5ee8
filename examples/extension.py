"""An operator of one's own: a translator and an IR operation with its kernel, in a plain Python file.

    python examples/extension.py [FOLDER]

This file is both: the extension (its first half) and a script that uses it. On the command line the
extension is handed over as ``onnx2ir convert model.onnx --extension examples/extension.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import converter
import ir_runtime
from ir_runtime.graph.element_types import Array
from ir_runtime.graph.operation import real
from ir_runtime.operations.elementwise import Unary

# --- the extension ---


@ir_runtime.operation("SoftShrink", opset=1)
class SoftShrink1(Unary):
    """x - threshold above it, x + threshold below -threshold, and 0 in between."""

    threshold: float = real(default=0.5)

    def evaluate(self, *inputs: Array) -> Array:
        x = inputs[0]
        return np.sign(x) * np.maximum(np.abs(x) - x.dtype.type(self.threshold), 0)


@converter.onnx_op("SoftShrink", domain="acme", versions=(1,))
def soft_shrink(ctx: converter.Context, x: ir_runtime.Output, *, threshold: float = 0.5) -> ir_runtime.Output:
    """The signature is the operator's schema: inputs first, then attributes with their defaults."""
    if threshold < 0:
        raise ctx.invalid(f"threshold must not be negative, but is {threshold}")
    return ctx.emit(SoftShrink1(threshold=threshold), x)


# --- a model that uses it ---


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    graph = helper.make_graph(
        [helper.make_node("SoftShrink", ["x"], ["y"], name="shrink", domain="acme", threshold=1.0)],
        "extension",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5])],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("acme", 1)]
    path = folder / "extension.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)

    model = converter.convert_model(path)
    converter.save_model(model, path.with_suffix(".xml"))
    compiled = ir_runtime.compile_model(ir_runtime.read_model(path.with_suffix(".xml")))
    x = np.array([-2, -0.5, 0, 0.5, 3], np.float32)
    print("SoftShrink of", x.tolist(), "is", compiled([x])["y"].tolist())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "output")
