"""Dimensions that the file declares are dynamic while translating, or stay static behind a layer that refuses others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from onnx import TensorProto

import converter
import ir_runtime
from converter import conversion
from converter.command_line import main
from ir_runtime import InferenceError
from tests.engines import core, node_model, run_numpy, run_onnxruntime, run_openvino
from tests.rows.onnx.slicing import CHAIN
from tests.suite.reshape import check_reshaped


def layers(model: ir_runtime.Model) -> list[str]:
    return [node.op.type for node in model.nodes() if node.op.role not in ("constant", "parameter", "result")]


def parsed(text: str, opset: int = 17) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')


FLATTENED = parsed("""g (float[2, 3, 4] x) => (float[2, 12] y) <int64[1] zero = {0}, int64[1] rest = {-1}> {
    s = Shape (x)  n = Gather (s, zero)  to = Concat <axis = 0> (n, rest)  y = Reshape (x, to)
}""")
"""How exporters write a flatten."""
SQUEEZED = parsed("""g (float[2, 1, 4] x) => (y) <int64[1] one = {1}> {
    s = Shape (x)  n = Gather (s, one)  single = Equal (n, one)
    z = If (single) <then_branch = then () => (float[] t) { t = Squeeze (x, one) },
                     else_branch = otherwise () => (float[] e) { e = Identity (x) }>
    y = Transpose <perm = [1, 0]> (z)
}""")
"""How an exporter writes ``x.squeeze(1)``."""
BY_LENGTH = """
    sN = Shape (xN)  nN = Constant <value_ints = [N]> ()  bN = Equal (sN, nN)
    zN = If (bN) <then_branch = thenN () => (float[] tN) { tN = Unsqueeze (xN, zero) },
                  else_branch = elseN () => (float[] eN) { eN = Identity (xN) }>
    yN = Transpose <perm = [1, 0]> (zN)
"""


def with_rank_of_length(*lengths: int) -> onnx.ModelProto:
    """For each length an input of that length, whose rank after an If depends on its having that length."""
    inputs, outputs = (", ".join(text.format(n) for n in lengths) for text in ("float[{0}] x{0}", "y{}"))
    nodes = "".join(BY_LENGTH.replace("N", str(n)) for n in lengths)
    return parsed(f"g ({inputs}) => ({outputs}) <int64[1] zero = {{0}}> {{ {nodes} }}")


def test_dimensions_stay_dynamic() -> None:
    assert layers(converter.convert_model(FLATTENED, fuse=False)) == ["ShapeOf", "Gather", "Concat", "Reshape"]
    model = converter.convert_model(FLATTENED)
    assert layers(model) == ["Reshape"]
    assert str(model.outputs[0].shape) == "[2,12]"
    theirs = core().read_model(*ir_runtime.model_to_bytes(model))
    theirs.reshape(openvino.PartialShape([5, 2, 7]))
    assert list(theirs.outputs[0].get_shape()) == [5, 14]
    model.reshape([5, 2, 7])
    assert str(model.outputs[0].shape) == "[5,14]"


def test_static_decides_it_now(tmp_path: Path) -> None:
    before_ones = node_model("Softmax", {"x": np.zeros((2, 3, 1, 1), np.float32)}, opset=9)
    chain = parsed(CHAIN.format("2, 3, 2, 2"), 13)
    for model, expected in ((FLATTENED, ["Reshape"]), (chain, ["Reshape"]), (before_ones, ["SoftMax"])):
        assert layers(converter.convert_model(model, static=True)) == expected
    onnx.save(FLATTENED, tmp_path / "m.onnx")
    main(["--quiet", "convert", str(tmp_path / "m.onnx"), "--static"], standalone_mode=False)
    assert layers(ir_runtime.read_model(tmp_path / "m.xml")) == ["Reshape"]


def test_a_dimension_that_decides_a_rank_is_kept_and_others_are_refused() -> None:
    ir = ir_runtime.model_to_bytes(converter.convert_model(SQUEEZED))
    x = np.arange(8, dtype=np.float32).reshape(2, 1, 4)
    for run in (run_numpy, run_openvino):
        np.testing.assert_array_equal(run(ir, {"x": x})[0], run_onnxruntime(SQUEEZED, {"x": x})[0])
    model = ir_runtime.read_model(*ir)
    model.reshape([5, 1, 3])  # the other dimensions are free
    assert str(model.outputs[0].shape) == "[3,5]"
    theirs = core().read_model(*ir)
    theirs.reshape(openvino.PartialShape([5, 1, 3]))
    assert list(theirs.outputs[0].get_shape()) == [3, 5]
    with pytest.raises(InferenceError, match="dimension_1"):
        model.reshape([5, 2, 3])
    with pytest.raises(RuntimeError, match="dimension_1"):
        theirs.reshape(openvino.PartialShape([5, 2, 3]))


@pytest.mark.parametrize(
    ("model", "most"),
    [
        (FLATTENED, 1),  # all dynamic
        (SQUEEZED, 2 + 3),  # all dynamic, all static, and one translation a group: the batch, the 1 and the 4
        (with_rank_of_length(2), 2 + 0),  # the only group alone is all dynamic, which has been tried
        (with_rank_of_length(2, 3, 4), 2 + 3),
        (with_rank_of_length(*range(2, 30)), 2 + 12),  # no more than twelve groups are tried
    ],
    ids=["none", "one of three", "one of one", "three of three", "28 of 28"],
)
def test_a_model_is_translated_few_times(monkeypatch: pytest.MonkeyPatch, model: onnx.ModelProto, most: int) -> None:
    translate, count = conversion.translate_model, 0

    def counting(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        return translate(*arguments)

    monkeypatch.setattr(conversion, "translate_model", counting)
    made = converter.convert_model(model)
    assert count <= most
    static = converter.convert_model(model, static=True)
    assert [str(output.shape) for output in made.outputs] == [str(output.shape) for output in static.outputs]


@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_dimension_of_one_is_no_promise(dimension: int, keepdims: int) -> None:
    """A reduction and a sum that broadcasts, converted for 1 and run for more, in both engines."""
    nodes = f"m = ReduceMean <axes = [1], keepdims = {keepdims}> (x)  y = Add (m, k)"
    generator = np.random.default_rng(dimension)
    feeds, other = (
        {"x": generator.random(shape, np.float32), "k": np.arange(4, dtype=np.float32)}
        for shape in ((1, 1, 4), (2, dimension, 4))
    )
    check_reshaped(parsed(f"g (float[1, 1, 4] x, float[4] k) => (y) {{ {nodes} }}", 13), feeds, other)


EMPTY: dict[str, tuple[int, dict[str, Any]]] = {
    "ReduceMax": (13, {"axes": [1]}),
    "ReduceSum": (11, {"axes": [1], "keepdims": 0}),
    "ReduceProd": (13, {"axes": [0, 1]}),
    "ReduceL2": (13, {"axes": [2]}),
    "Softmax": (13, {"axis": 2}),
    "Transpose": (13, {"perm": [2, 0, 1]}),
    "Flatten": (13, {}),
    "Trilu": (14, {}),
    "ArgMax": (13, {"axis": 2}),
}


@pytest.mark.parametrize("op_type", EMPTY)
def test_an_input_declared_empty_can_be_reshaped(op_type: str) -> None:
    opset, attributes = EMPTY[op_type]
    data = np.random.default_rng(opset).random((3, 5, 4), np.float32)
    model = node_model(op_type, {"x": data[:2, :0]}, opset=opset, attributes=attributes)
    check_reshaped(model, {"x": data[:2, :0]}, {"x": data[:, :0]}, {"x": data[:2, :1]}, {"x": data})


def test_bit_cast_of_an_empty_input_refuses_other_dimensions() -> None:
    """Looking something up for no elements kills the plug-in; elsewhere a table is needed."""
    model = node_model("BitCast", {"x": np.zeros((2, 0), np.float16)}, opset=26, attributes={"to": TensorProto.UINT16})
    made = converter.convert_model(model)
    assert layers(made) == ["VariadicSplit", "VariadicSplit", "Convert"]
    with pytest.raises(InferenceError, match="dimension_1"):
        made.reshape([2, 3])


def test_a_cache_that_is_declared_empty_grows() -> None:
    model = parsed("""g (float[1, 2, 0, 4] past, float[1, 2, 1, 4] k, float[1, 2, 1, 4] q) => (y, keys) {
        keys = Concat <axis = 2> (past, k)  turned = Transpose <perm = [0, 1, 3, 2]> (keys)
        scores = MatMul (q, turned)  weights = Softmax <axis = -1> (scores)  y = MatMul (weights, keys)
    }""")
    generator = np.random.default_rng(11)
    feeds = {name: generator.random((1, 2, n, 4), np.float32) for name, n in (("past", 0), ("k", 1), ("q", 1))}
    check_reshaped(model, feeds, {**feeds, "past": generator.random((1, 2, 6, 4), np.float32)})


def test_flatten_of_any_batch_before_channels_of_a_known_number() -> None:
    """The tail of a classifier: pooled channels, of which the product of dimensions is known."""
    nodes = "c = Conv (x, w)  p = GlobalAveragePool (c)  y = Flatten (p)"
    model = parsed(f"g (float[1, 3, 5, 5] x, float[4, 3, 3, 3] w) => (y) {{ {nodes} }}")
    generator = np.random.default_rng(3)
    w, image = generator.random((4, 3, 3, 3), np.float32), generator.random((2, 3, 6, 7), np.float32)
    check_reshaped(model, {"x": image[:1, :, :5, :5], "w": w}, {"x": image, "w": w})
    assert layers(converter.convert_model(model)) == ["Convolution", "ReduceMean", "Reshape"]


@pytest.mark.parametrize("outputs", ["y", "float[a, b, c, d] y"])
@pytest.mark.parametrize(("shape", "target"), [("n, 1, 4", "cpu"), ("n, 1, 4", "any"), ("2, 1, 4", "cpu")])
def test_a_result_of_unknown_rank_is_told(
    outputs: str, shape: str, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    proto = parsed(f"g (float[{shape}] x) => ({outputs}) {{ t = Squeeze (x)  y = Relu (t) }}")
    is_open = not converter.convert_model(proto, target=target).outputs[0].shape.has_rank
    assert is_open == ("n" in shape)
    refusals = [text for text in caplog.messages if "takes no tensors of unknown rank" in text]
    assert len(refusals) == (is_open and target == "cpu")
    assert all("layer 't' (Squeeze, made from node 't' of Squeeze)" in text for text in refusals)
