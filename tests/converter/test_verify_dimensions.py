"""verify chooses the sizes of dynamic dimensions that the weights of a model determine."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
from converter.equivalence.required_dimensions import with_required_dimensions
from ir_runtime.execution.ports import ports_of

MODELS = {
    "the channels of a convolution": ("y = Conv (x, w)", {"x": 4}, {"w": (4, 5, 3, 3)}, [(1, 5)]),
    "the channels of groups": ("y = Conv <group = 2> (x, w)", {"x": 4}, {"w": (4, 3, 3, 3)}, [(1, 6)]),
    "the channels of a transposed convolution": ("y = ConvTranspose (x, w)", {"x": 4}, {"w": (5, 4, 3, 3)}, [(1, 5)]),
    "the last dimension in front of a product": ("y = MatMul (x, w)", {"x": 3}, {"w": (13, 3)}, [(2, 13)]),
    "a dimension that moves": (
        "t = Transpose <perm = [0, 3, 1, 2]> (x) y = Conv (t, w)", {"x": 4}, {"w": (4, 3, 3, 3)}, [(3, 3)],
    ),
    "rows of a transposed matrix": ("y = Gemm <transA = 1> (x, w)", {"x": 2}, {"w": (20, 3)}, [(0, 20)]),
    "the width of a table": ("y = Add (x, w)", {"x": 3}, {"w": (7,)}, [(2, 7)]),
    "the features of a normalization": ("y = LayerNormalization (x, w)", {"x": 2}, {"w": (3,)}, [(1, 3)]),
    "channels with statistics": (
        "y = BatchNormalization (x, w, w, w, v)", {"x": 3}, {"w": (5,), "v": (5,)}, [(1, 5)],
    ),
    "the width of a step": (
        "y, h = GRU <hidden_size = 2> (x, w, r)", {"x": 3}, {"w": (1, 6, 11), "r": (1, 6, 2)}, [(2, 11)],
    ),
    "the sum of parts": ("y, z = Split <axis = 1> (x, s)", {"x": 2}, {"s": [2, 5]}, [(1, 7)]),
    "the width of a state": (
        "y, h = LSTM <hidden_size = 2> (x, w, r)", {"x": 3}, {"w": (1, 8, 11), "r": (1, 8, 2)}, [(2, 11)],
    ),
    "a letter of an equation": ("y = Einsum <equation = \"abc,cd->abd\"> (x, w)", {"x": 3}, {"w": (13, 3)}, [(2, 13)]),
    "slopes of elements": ("y = PRelu (x, w)", {"x": 3}, {"w": (6, 2)}, [(1, 6), (2, 2)]),
    "a dimension that is left out": ("y = Squeeze (x, s)", {"x": 3}, {"s": [1]}, [(1, 1)]),
    "the elements of a shape": ("y = Reshape (x, s)", {"x": 1}, {"s": [2, 3]}, [(0, 6)]),
    "rows in a list": ("y = Reshape (x, s)", {"x": 1}, {"s": [-1, 3]}, []),
    "the places of a grid": ("y = GridSample (a, x)", {"a": 4, "x": 4}, {}, [(3, 2)]),
    "twice a dimension": ("c = Concat <axis = 1> (x, x) y = MatMul (c, w)", {"x": 2}, {"w": (10, 3)}, []),
}  # fmt: skip


def build(nodes: str, inputs: dict[str, int], constants: dict) -> onnx.ModelProto:
    parsed = onnx.parser.parse_graph(f"g () => () {{ {nodes} }}")
    draw = np.random.default_rng(1)
    initializers = [
        numpy_helper.from_array(
            np.array(value) if isinstance(value, list) else draw.uniform(0.5, 1, value).astype(np.float32), name
        )
        for name, value in constants.items()
    ]
    graph = helper.make_graph(
        list(parsed.node),
        "g",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [f"{name}{axis}" for axis in range(rank)])
            for name, rank in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in "yz" if name in parsed.node[-1].output],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("name", MODELS)
def test_dimensions_follow_from_weights(name: str) -> None:
    nodes, inputs, constants, expected = MODELS[name]
    model = build(nodes, inputs, constants)
    ir = converter.convert_model(model)
    ports = {port.name: port.partial_shape for port in with_required_dimensions(ir, ports_of(ir)[0])}
    sizes = [(axis, size.value) for axis, size in enumerate(ports["x"]) if size.is_static]
    assert sizes == expected
    if expected:
        assert converter.verify(model, ir).passed


def test_inputs_of_one_name_get_one_size() -> None:
    """What the second input requires is the size of the first one, too."""
    model = build("c = MatMul (b, w) y = Add (a, c)", {"a": 2, "b": 2}, {"w": (4, 4)})
    for value, names in zip(model.graph.input, (["n", "f"], ["f", "n"])):
        for dimension, name in zip(value.type.tensor_type.shape.dim, names):
            dimension.dim_param = name
    assert converter.verify(model, converter.convert_model(model)).passed


def reshaping(declared: str, shape: list[int], more: str = "y = Relu (f)") -> onnx.ModelProto:
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[{declared}] x) => (float[] y) {{ f = Reshape (x, s) {more} }}'
    )
    weights = {"s": np.array(shape), "w": np.random.default_rng(0).standard_normal((48, 4)).astype(np.float32)}
    proto.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


REFUSED = {
    # the reference, the other model (None: its IR), options of both, what is refused
    "a batch that layers determine": (reshaping("n,3", [-1, 3]), reshaping("n,3", [5, 3]), {}, "reference takes x[6, 3]"),
    "a batch of one": (reshaping("n,3", [-1, 3]), reshaping("n,3", [1, 3]), {}, "reference takes x[2, 3]"),
    "the batch that is tried first": (reshaping("n,3", [-1, 3]), reshaping("n,3", [2, 3]), {}, "takes x[3, 3]"),
    "a reference of one batch": (reshaping("n,3", [2, 3]), reshaping("n,3", [-1, 3]), {}, "the IR takes x["),
    "one batch on both sides": (reshaping("n,3", [5, 3]), None, {}, ""),
    "an IR that is wider than its file": (
        reshaping("1,3,4,4", [1, 48]), None, {"input": "x[?,3,4,4]"}, "the IR declares x[?,3,4,4], but does not take x[2,",
    ),
    "the same before a product": (
        reshaping("1,3,4,4", [1, -1], "y = MatMul (f, w)"), None, {"input": "x[?,3,4,4]"}, "does not take x[2, 3, 4, 4]",
    ),
    "an IR with open sides of an image": (
        reshaping("1,3,4,4", [0, -1], "y = MatMul (f, w)"), None, {"input": "x[1,3,?,?]"}, "does not take x[1, 3, ",
    ),
    "an IR of any batch": (reshaping("1,3,4,4", [0, -1], "y = MatMul (f, w)"), None, {"input": "x[?,3,4,4]"}, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_sizes_that_one_side_refuses_are_a_difference(name: str) -> None:
    reference, other, options, refused = REFUSED[name]
    for second in (other or converter.convert_model(reference, **options), other and converter.convert_model(other)):
        if second is not None:
            report = converter.verify(reference, second, **options)
            assert all(output.passed for output in report.outputs)
            assert report.verdict == "different" if refused else report.verdict in ("derived", "equal"), report.reason
            assert refused in report.refused
            assert bool(refused) == bool(report.refused), report.refused
