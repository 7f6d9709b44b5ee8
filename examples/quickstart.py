"""Builds a small ONNX model, converts it, runs the IR, and verifies both, by API and command line.

    python examples/quickstart.py [FOLDER]

The model averages an image in 3x3 windows (AveragePool), takes each channel's mean (ReduceMean) and
the sum of its absolute values (ReduceL1), and returns both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime


def build_model() -> onnx.ModelProto:
    """[batch, 3, 32, 32] -> AveragePool -> ReduceMean and ReduceL1 over the image."""
    nodes = [
        helper.make_node(
            "AveragePool",
            ["image"],
            ["pooled"],
            name="pool",
            kernel_shape=[3, 3],
            strides=[2, 2],
            pads=[1, 1, 1, 1],
            count_include_pad=1,
        ),
        helper.make_node("ReduceMean", ["pooled", "spatial"], ["mean"], name="channel_mean", keepdims=0),
        helper.make_node("ReduceL1", ["pooled", "spatial"], ["l1"], name="channel_l1", keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "quickstart",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 32, 32])],
        [
            helper.make_tensor_value_info("mean", TensorProto.FLOAT, ["batch", 3]),
            helper.make_tensor_value_info("l1", TensorProto.FLOAT, ["batch", 3]),
        ],
        [numpy_helper.from_array(np.array([2, 3], np.int64), "spatial")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model)
    return model


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    onnx_path, xml_path = folder / "quickstart.onnx", folder / "quickstart.xml"
    onnx.save(build_model(), onnx_path)

    print("1. Convert and save")
    model = converter.convert_model(onnx_path)
    converter.save_model(model, xml_path)
    print("   layers:", ", ".join(node.op.type for node in model.nodes()))

    print("2. Run the IR in NumPy")
    compiled = ir_runtime.compile_model(ir_runtime.read_model(xml_path))
    image = np.random.default_rng(0).standard_normal((2, 3, 32, 32)).astype(np.float32)
    result = compiled({"image": image})
    print("   mean of every channel:", np.array2string(result["mean"], precision=4, prefix=" " * 25))

    print("3. Verify against the ONNX model")
    report = converter.verify(onnx_path, xml_path)
    print(f"   {report.verdict}, with {report.oracle}: {report.reason}")
    for output in report.outputs:
        print(f"   {output.name}: max absolute difference {output.max_absolute:.2g}")

    print("4. The same on the command line")
    command = [sys.executable, "-m", "converter", "convert", str(onnx_path), "-o", str(xml_path), "--verify"]
    print("   onnx2ir", " ".join(command[3:]), flush=True)
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(os.path.relpath(Path(__file__).parent / "output")))
