"""The command within this process, and small models to call it with."""

from __future__ import annotations

import numpy as np
import onnx
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from converter.command_line import main


def onnx2ir(*arguments: str) -> tuple[int, str, str]:
    """The command within this process: exit code, stdout, stderr."""
    done = CliRunner().invoke(main, arguments, prog_name="onnx2ir")
    return done.exit_code, done.stdout, done.stderr


def said(*arguments: object) -> tuple[int, str]:
    """The exit code, and all that the command prints, in one line."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="onnx2ir")
    return done.exit_code, " ".join(done.output.split())


def two_inputs() -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy"]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "zw"]
    nodes = [helper.make_node("Add", ["x", "y"], ["z"]), helper.make_node("Relu", ["z"], ["w"])]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def a_model() -> onnx.ModelProto:
    """logits = means over the image of a convolution (hidden), times the rate; a product makes two numbers of them."""
    nodes = [
        helper.make_node("Conv", ["image", "k"], ["hidden"], name="conv"),
        helper.make_node("ReduceMean", ["hidden"], ["means"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["means", "w"], ["scores"]),
        helper.make_node("Cast", ["rate"], ["factor"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["scores", "factor"], ["logits"]),
    ]
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal((64, 3, 1, 1)).astype(np.float32), "k"),
        numpy_helper.from_array(rng.standard_normal((64, 64)).astype(np.float32), "w"),
    ]
    inputs = [
        helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, "h", "w"]),
        helper.make_tensor_value_info("rate", TensorProto.INT64, []),
    ]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "net", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
