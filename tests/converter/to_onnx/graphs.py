"""Small IRs, and what their exports compute in onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime

import converter
from converter.equivalence.oracle import session_options
from ir_runtime import Model, compile_model
from ir_runtime.graph import element_types
from ir_runtime.graph.element_types import Array
from ir_runtime.graph.model import Output
from ir_runtime.graph.model_difference import ModelDifference, compare_models
from ir_runtime.graph.operation import Operation, find_operation
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.inputs_outputs import Const1, Parameter1, Result1
from ir_runtime.rewriting.unique_names import UniqueNames
from tests.converter.optimization.models import floats, parse
from tests.ir_runtime.execution.kernel_checks import Layers


class IR(Layers):
    """A builder whose layers may have names: ``b.ReLU(x, name="relu")``."""

    def __getattr__(self, op_type: str) -> Any:
        emit = super().__getattr__(op_type)

        def named(*inputs: Any, name: str = "", **attributes: Any) -> Output:
            output = emit(*inputs, **attributes)
            output.node.name = name or output.node.name or op_type
            return output

        return named


def op(name: str, opset: int = 15, **attributes: Any) -> Operation:
    return find_operation(name, opset)(**attributes)


def parameter(name: str, *shape: int | None, kind: str = "f32") -> Output:
    declared = PartialShape(list(shape))
    node = make_node(Parameter1(shape=declared, element_type=element_types.element_type(kind)), (), name)
    node.outputs[0].add_name(name)
    return node.outputs[0]


def constant(value: Any, kind: str = "f32", name: str = "c") -> Output:
    element = element_types.element_type(kind)
    array = np.asarray(value)
    tensor = Tensor.from_array(array if array.dtype == element.dtype else array.astype(element.dtype), element)
    return make_node(Const1(value=tensor), (), name).outputs[0]


def layer(operation: Operation, *inputs: Output, name: str) -> Output:
    return make_node(operation, inputs, name).outputs[0]


def model(inputs: list[Output], outputs: dict[str, Output]) -> Model:
    results = []
    for name, output in outputs.items():
        node = make_node(Result1(), [output], f"{name}/result")
        node.output_names = [name]
        results.append(node)
    made = Model("m", [one.node for one in inputs], results)
    unique = UniqueNames()
    for layer in made.nodes():
        layer.name = unique(layer.name)
    return made


def run(exported: onnx.ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    onnx.checker.check_model(exported, full_check=True)
    options = session_options()
    session = onnxruntime.InferenceSession(exported.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, feeds)))


def check(ir: Model, feeds: dict[str, Array], **options: Any) -> onnx.ModelProto:
    """The exported model, which gives what the IR gives, output by output."""
    exported = converter.export_model(ir, **options)
    found, expected = run(exported, feeds), compile_model(ir)(feeds)
    for name, value in found.items():
        atol = 2e-3 if value.dtype == np.float16 else 1e-5
        assert value.shape == expected[name].shape
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=atol)
    return exported


def operators(exported: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in exported.graph.node]


def second_pass(exported: onnx.ModelProto) -> ModelDifference:
    """What changes in an IR that came back from ONNX once, when it goes there and back again."""
    second = converter.convert_model(exported, target="any")
    return compare_models(second, converter.convert_model(converter.export_model(second), target="any"))


def network() -> onnx.ModelProto:
    text = """g (float[batch, 3, height, width] image) => (float[] shares, float[] logits, float[] l) {
        [conv] c = Conv <pads = [1, 1, 1, 1]> (image, k, b)  [relu] r = Relu (c)
        [pool] p = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (r)
        [mean] m = ReduceMean <axes = [2, 3], keepdims = 0> (p)
        [length] l = ReduceL1 <axes = [1, 2, 3], keepdims = 1> (p)
        [product] logits = MatMul (m, w)  [softmax] shares = Softmax <axis = -1> (logits) }"""
    model = parse(text, k=floats(8, 3, 3, 3), b=floats(8), w=floats(8, 5))
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model
