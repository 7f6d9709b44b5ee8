"""Optimized models of other opsets, and their verification."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
from converter import UnsupportedModelError, VerificationError
from tests.commands import onnx2ir
from tests.converter.optimization.models import (
    assert_equal,
    assert_valid,
    floats,
    operators,
    opset_of,
    parse,
    run,
)
from tests.fuzz.random_graphs import random_graph

# --- opsets ---

X = floats(2, 3, 4)
ROWS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "axes as inputs": ("float[2,1,4] y", "a = Unsqueeze(x, two)  b = ReduceSum(a, one)  y = Squeeze(b, one)", {}),
    "Clip": ("float[2,3,4] y", "y = Clip(x, low, high)", {"low": np.float32(-1), "high": np.float32(0.5)}),
    "Slice": ("float[2,3,1] y", "y = Slice(x, one, two, last)", {}),
    "Pad": ("float[2,4,6] y", "y = Pad(x, pads)", {"pads": np.array([0, 1, 0, 0, 0, 2])}),
    "Split": ("float[2,1,4] y, float[2,2,4] z", "y, z = Split<axis = 1>(x, sizes)", {"sizes": np.array([1, 2])}),
    "TopK": ("float[2,3,2] y, int64[2,3,2] i", "y, i = TopK(x, two)", {}),
    "Softmax": ("float[2,3,4] y", "y = Softmax<axis = 1>(x)", {}),
    "LogSoftmax": ("float[2,3,4] y", "y = LogSoftmax<axis = 0>(x)", {}),
    "LessOrEqual": ("float[2,3,4] y", "c = LessOrEqual(x, w)  y = Where(c, x, w)", {"w": floats(4)}),
    "Gemm": ("float[2,5] y", "f = Flatten(x)  y = Gemm(f, w)", {"w": floats(12, 5)}),
    "HardSwish": ("float[2,3,4] y", "y = HardSwish(x)", {}),
    "Mish": ("float[2,3,4] y", "a = Softplus(x)  b = Tanh(a)  y = Mul(x, b)", {}),
    "LayerNormalization": ("float[2,3,4] y", "y = LayerNormalization(x, w)", {"w": floats(4)}),
    "QuantizeLinear": (
        "float[2,3,4] y",
        "q = QuantizeLinear<axis = 2>(x, s, z)  y = DequantizeLinear<axis = 2>(q, s, z)",
        {"s": np.full(4, 0.1, np.float32), "z": np.zeros(4, np.uint8)},
    ),
    "Where": ("float[2,3,4] y", "c = IsNaN(x)  y = Where(c, one_, x)", {"one_": np.float32(1)}),
    "Resize": ("float[2,3,8] y", "s = Identity(scales)  y = Resize(x, , s)", {"scales": np.float32([1, 1, 2])}),
}
NEEDED = {"LessOrEqual": 11, "QuantizeLinear": 11, "Where": 9, "Resize": 11}
"""The first opset that has the operators of a row, where it is not 7."""
CONSTANTS = {"one": np.array([1]), "two": np.array([2]), "last": np.array([-1])}


def in_opset(model: onnx.ModelProto, opset: int, first: int, *runs: Any) -> onnx.ModelProto | None:
    """The optimized model, which gives what the model gives; refused before the first opset that expresses it."""
    if opset < first:
        with pytest.raises(UnsupportedModelError, match=f"cannot be expressed in opset {opset}"):
            converter.optimize(model, opset=opset)
        return None
    result = converter.optimize(model, opset=opset)
    found = result.to_onnx()
    assert opset_of(found) == result.opset == opset
    assert_valid(found, model)
    for feeds in runs:
        expected = run(model, feeds)
        for key, value in run(found, feeds).items():
            assert_equal(value, expected[key])
    return found


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11, 12, 13, 16, 21, 24])
@pytest.mark.parametrize("name", ROWS)
def test_an_operator_in_an_opset(name: str, opset: int) -> None:
    outputs, nodes, weights = ROWS[name]
    model = parse(f"g (float[2,3,4] x) => ({outputs}) {{ {nodes} }}", **CONSTANTS, **weights)
    in_opset(model, opset, NEEDED.get(name, 7), {"x": X})


@pytest.mark.parametrize("opset", [7, 8, 10, 13])
@pytest.mark.parametrize("dims", ["2,3", "n,3", "n,m"])
def test_the_mask_of_dropout(dims: str, opset: int) -> None:
    model = parse(f"g (float[{dims}] x) => (float[{dims}] y, bool[{dims}] mask) {{ y, mask = Dropout(x) }}")
    in_opset(model, opset, 7, {"x": floats(2, 3)})


SCALES = {
    "Upsample-7": [[1, 1, 2, 2], [1, 1, 1.5, 2.5]],
    "Upsample-9": [[1, 1, 2, 2], [1, 1, 1.5, 2.5]],
    "Resize-10": [[1, 1, 1.5, 2.5], [1, 1, 0.6, 1.7]],
    "Resize-10, computed": [[1, 1, 2, 2], [1, 1, 0.6, 1.7]],
    "Resize-13": [[1, 1, 2, 2], [1, 1, 0.5, 1.7]],
}


@pytest.mark.parametrize("opset", [7, 9, 10, 11, 19])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize(("source", "scales"), [(source, scales) for source in SCALES for scales in SCALES[source]])
@pytest.mark.parametrize("dims", ["1,2,6,8", "n,2,h,w"])
def test_a_resize_by_scales(source: str, scales: list[float], mode: str, dims: str, opset: int) -> None:
    shrinks, (name, version) = min(scales) < 1, source.split(",")[0].split("-")
    nodes = {
        "Upsample-7": f'y = Upsample<mode = "{mode}", scales = {list(map(float, scales))}>(x)',
        "Resize-13": f"""y = Resize<mode = "{mode}", nearest_mode = "floor",
            coordinate_transformation_mode = "asymmetric">(x, , s)""",
    }.get(source, f'y = {name}<mode = "{mode}">(x, s)')
    inputs, weights = f"float[{dims}] x", {"s": np.float32(scales)}
    if "computed" in source:
        inputs, weights = f"{inputs}, float[4] s", {}
    model = parse(f"g ({inputs}) => (float[a,b,c,d] y) {{ {nodes} }}", opset=int(version), **weights)
    feeds = {"x": floats(1, 2, 6, 8)} | ({} if weights else {"s": np.float32(scales)})
    # floor where data shrink takes 11, and other scales than constants that do not shrink 10
    first = 11 if source == "Resize-13" and shrinks and mode == "nearest" else 10 if shrinks or not weights else 7
    in_opset(model, opset, first, feeds)


@pytest.mark.parametrize("opset", [11, 13, 17, 21, 24])
@pytest.mark.parametrize("block", range(3))
def test_random_graphs(block: int, opset: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        model, x = random_graph(seed)
        if x.dtype != np.float64:  # for which onnxruntime lacks kernels
            in_opset(model, opset, 7, {"x": x})


def test_all_nodes_that_an_opset_lacks_are_listed() -> None:
    text = """g (float[1,2,4,4] x, float[1,3,3,2] grid) => (float[1,2,3,3] y, float[1,2,3,3] z) {
        [first] y = GridSample(x, grid)  [second] z = GridSample<mode = "nearest">(x, grid) }"""
    with pytest.raises(UnsupportedModelError) as caught:
        converter.optimize(parse(text), opset=13)
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("nodes that cannot be expressed in opset 13: 2")
    assert [line.split("'")[1] for line in lines[1:]] == ["first", "second"]


def test_the_ir_version_follows() -> None:
    model = parse("g (float[2,3,4] x) => (float[2,3,4] y) { y = Relu(x) }")
    versions = {opset: converter.optimize(model, opset=opset).to_onnx().ir_version for opset in (7, 13, 17, 23)}
    assert versions == {7: 4, 13: 7, 17: 8, 23: 11}


@pytest.mark.parametrize("opset", [13, 16, 21])
def test_a_branch_that_the_ir_cannot_carry(opset: int) -> None:
    """If stays a node, of another version that differs in types alone; its graphs are written anew."""
    text = """g (bool c, float[2,3,4] x) => (float[] y) { y = If(c) <
        then_branch = t () => (float[2,3,4] a) { a = LayerNormalization(x, w) },
        else_branch = e () => (float[24] b) { b = Reshape(x, rest) }> }"""
    model = parse(text, 17, w=floats(4), rest=np.array([-1]))
    in_opset(model, opset, 7, *({"c": np.array(c), "x": X} for c in (True, False)))


@pytest.mark.parametrize("opset", [8, 11, 13])
@pytest.mark.parametrize("source", [8, 11, 13])
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("dims", ["2,3,4", "a,b,c", "a,3,c"])
def test_hardmax(dims: str, axis: int | None, source: int, opset: int) -> None:
    """Along one dimension, or before opset 13 over all from the axis on; equal elements count as the first one."""
    attribute = "" if axis is None else f"<axis = {axis}>"
    text = f"g (float[{dims}] x) => (float[p,q,r] y) {{ y = Hardmax {attribute} (x) }}"
    model = parse(text, source)
    feeds = {"x": np.random.default_rng(0).integers(0, 3, (2, 3, 4)).astype(np.float32)}
    result = in_opset(model, opset, 7, feeds)
    assert result is not None
    assert {*operators(result.graph)} & {"Hardmax", "Where"} == {"Hardmax"}


# --- verification ---


def model(factor: float = 2.0) -> onnx.ModelProto:
    text = "g (float[n,3] x, int64 k, string[m] s) => (float[n,3] y, string[m] t) { %s }"
    nodes = "f = Cast<to = 1>(k)  a = Mul(x, w)  y = Mul(a, f)  t = Identity(s)"
    return parse(text % nodes, w=np.float32([1, factor, 3]))


def test_equal_and_different_models(tmp_path: Path) -> None:
    first, second = str(tmp_path / "m.onnx"), str(tmp_path / "n.onnx")
    onnx.save(model(), first)
    onnx.save(model(2.5), second)
    assert converter.verify(first, model()).verdict == "equal"
    report = converter.verify(model(), second)
    assert (report.verdict, [out.name for out in report.outputs if not out.passed]) == ("different", ["y"])
    assert [onnx2ir("verify", first, other)[0] for other in (first, second)] == [0, 1]
    feeds = {"x": floats(2, 3), "k": np.array(2), "s": np.array(["a"])}
    assert converter.verify(model(), model(), inputs=feeds).passed


def test_a_value_of_an_input_is_that_of_both() -> None:
    optimized = converter.optimize(model(), input="k=3").to_onnx()
    assert [value.name for value in optimized.graph.input] == ["x", "s"]
    for second in (optimized, model()):
        assert converter.verify(model(), second, input="k=3").passed
    with pytest.raises(VerificationError, match="'k'"):
        converter.verify(model(), optimized)


@pytest.mark.parametrize(
    "option", [{"layers": True}, {"minimise": "part"}, {"report": "page.html"}, {"against": "a.xml"}]
)
def test_what_needs_an_ir(option: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(VerificationError, match=f"{next(iter(option))} cannot be used with two ONNX models"):
        converter.verify(model(), model(), **option)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "equal"), (1.5, "unproven")])
def test_small_outputs_that_are_the_same_in_every_bit_are_equal(factor: float, verdict: str) -> None:
    """As the results of a network that was not trained."""
    text = "g (float[n,3] x) => (float[n,3] y) { a = Mul(x, w)  y = Mul(a, w) }"
    first, second = (parse(text, w=np.float32([1e-5, scale * 1e-5, 3e-5])) for scale in (1.0, factor))
    report = converter.verify(first, second)
    assert report.verdict == verdict
    assert "--values" not in report.reason
