"""Small IRs, those of one layer among them, and what their exports compute in onnxruntime."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

import converter
from converter.equivalence.reference import ort_values
from converter.equivalence.reference.oracle import session_options
from ir_runtime import compile_model
from ir_runtime.graph import element_types
from ir_runtime.graph.element_types import Array, boolean
from ir_runtime.graph.model import InputMap, Model, Node, Output, OutputMap, SubGraph
from ir_runtime.graph.model_difference import ModelDifference, compare_models
from ir_runtime.graph.operation import Operation, find_operation
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.control_flow import If8
from ir_runtime.operations.inputs_outputs import Const1, Parameter1, Result1
from ir_runtime.operations.randomness import Multinomial13, RandomUniform8
from ir_runtime.rewriting.unique_names import UniqueNames
from tests.converter.optimization.models import floats, parse
from tests.ir_runtime.execution.kernel_checks import Layers
from tests.rows.layer import Layer


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


# --- IRs of one layer, made of the calls in ``tests.rows.layers`` ---

_ARGUMENTS = 64
"""Whole numbers of up to this size behind the first input are arguments, such as axes: constants in real models."""
_WITHOUT_ONNX = ("u1", "u2", "u3", "u6", "nf4")


def is_constant(call: Layer, index: int) -> bool:
    array = np.asarray(call.arrays[index])
    is_argument = index > 0 and array.dtype.kind in "iu" and array.size <= _ARGUMENTS
    return index in call.fixed or is_argument or call.kinds[index].name in _WITHOUT_ONNX


def model_of(call: Layer, *, dynamic: bool = False, computed: Collection[int] = ()) -> tuple[Model, dict[str, Array]]:
    """A model of the layer, with the values of its inputs; ``dynamic``: of unknown dimensions.

    ``computed`` are arguments that the model's user gives.
    """
    layer, parameters, feeds = _layer(call, dynamic, computed)
    return Model("layer", parameters, _results(layer.outputs)), feeds


def _layer(call: Layer, dynamic: bool, computed: Collection[int]) -> tuple[Node, list[Node], dict[str, Array]]:
    sources, parameters, feeds = [], [], {}
    for index, (array, kind) in enumerate(zip(call.arrays, call.kinds)):
        array = np.asarray(array)
        if index not in computed and is_constant(call, index):
            sources.append(make_node(Const1(value=Tensor.from_array(array, kind)), (), f"c{index}").outputs[0])
            continue
        free = dynamic and index not in call.shaped
        shape = PartialShape([None] * array.ndim if free else array.shape)
        node = make_node(Parameter1(shape=shape, element_type=kind), (), f"x{index}")
        node.outputs[0].add_name(f"x{index}")
        parameters.append(node)
        feeds[f"x{index}"] = array
        sources.append(node.outputs[0])
    return make_node(call.op, sources, "layer"), parameters, feeds


def _results(outputs: Sequence[Output]) -> list[Node]:
    results = []
    for index, output in enumerate(outputs):
        output.add_name(f"y{index}")
        result = make_node(Result1(), [output], f"result{index}")
        result.output_names = [f"y{index}"]
        results.append(result)
    return results


def model_of_branches(call: Layer, *, computed: Collection[int] = ()) -> tuple[Model, dict[str, Array]]:
    """A model of an If with the layer in both branches, which runs the first."""
    bodies = []
    for _ in range(2):
        layer, inner, feeds = _layer(call, False, computed)
        body = Model("branch", inner, [make_node(Result1(), [output]) for output in layer.outputs])
        given = tuple(InputMap(place + 1, place) for place in range(len(inner)))
        made = tuple(OutputMap(place, place) for place in range(len(layer.outputs)))
        bodies.append(SubGraph(body, given, made))
    condition = make_node(Parameter1(shape=PartialShape(()), element_type=boolean), (), "condition")
    condition.outputs[0].add_name("condition")
    _, parameters, feeds = _layer(call, False, computed)
    sources = [condition.outputs[0], *[node.outputs[0] for node in parameters]]
    chosen = make_node(If8(bodies=tuple(bodies)), sources, "layer")
    return Model("layer", [condition, *parameters], _results(chosen.outputs)), {**feeds, "condition": np.array(True)}


def run_exported(model: onnx.ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = {one.name: feeds[one.name] for one in session.get_inputs()}
    return dict(zip([one.name for one in session.get_outputs()], ort_values.run(session, given)))


def compare_outputs(call: Layer, found: dict[str, Array]) -> None:
    assert list(found) == [f"y{index}" for index in range(len(call.outputs))]
    if not call.op.deterministic:
        compare_random(call, *found.values())
        return
    for expected, actual in zip(call.outputs, found.values()):
        expected = np.asarray(expected)
        assert actual.dtype == expected.dtype
        assert actual.shape == expected.shape
        if expected.dtype.kind in "Oiub":
            np.testing.assert_array_equal(actual, expected)
            continue
        wide_expected, wide = expected.astype(np.float64), actual.astype(np.float64)
        finite = wide_expected[np.isfinite(wide_expected)]
        largest = float(np.abs(finite).max(initial=0))
        relative = 1e-2 if expected.dtype.itemsize < 4 else 1e-4
        np.testing.assert_allclose(wide, wide_expected, rtol=relative, atol=1e-5 * max(1.0, largest))


def compare_random(call: Layer, actual: Array) -> None:
    """The numbers come from another generator: type, shape and range are the same."""
    (expected,) = call.outputs
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if isinstance(call.op, RandomUniform8):
        low, high = (np.asarray(bound).reshape(-1)[0] for bound in call.arrays[1:])
        assert ((low <= actual) & (actual < high)).all()
        return
    assert isinstance(call.op, Multinomial13)
    assert ((actual >= 0) & (actual < call.arrays[0].shape[1])).all()
    if not call.op.with_replacement:
        assert all(len(set(row)) == len(row) for row in actual.tolist())
