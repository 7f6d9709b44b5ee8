"""Conversions: dimensions that stay dynamic, IRs as sources, and what large models take."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from onnx import TensorProto, helper

import converter
import ir_runtime
from benchmarks.growing_graphs import FORMS
from converter import ConversionError
from converter.command_line import main
from converter.conversion import convert as conversion
from ir_runtime import InferenceError, compile_model, read_model
from ir_runtime.graph.node import Edits
from ir_runtime.rewriting.checks import Checks
from tests.commands import PEAK, a_model, onnx2ir
from tests.converter.optimization.models import parse
from tests.engines import core, node_model, run_numpy, run_onnxruntime, run_openvino
from tests.rows.onnx.slicing import CHAIN
from tests.suite.reshape import check_reshaped

# --- dimensions are dynamic while translating, or stay static behind a layer that refuses others ---


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


MOST = {
    "none": (FLATTENED, 1),  # all dynamic
    "one of three": (
        SQUEEZED,
        2 + 3,
    ),  # all dynamic, all static, and one translation a group: the batch, the 1 and the 4
    "one of one": (with_rank_of_length(2), 2 + 0),  # the only group alone is all dynamic, which has been tried
    "three of three": (with_rank_of_length(2, 3, 4), 2 + 3),
    "28 of 28": (with_rank_of_length(*range(2, 30)), 2 + 12),  # no more than twelve groups are tried
}


@pytest.mark.parametrize(("model", "most"), MOST.values(), ids=MOST)
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


EMPTY = ["ReduceMax <axes = [1]>", "ReduceProd <axes = [0, 1]>", "ReduceL2 <axes = [2]>", "Softmax <axis = 2>",
         "Transpose <perm = [2, 0, 1]>", "Flatten", "Trilu", "ArgMax <axis = 2>"]  # fmt: skip
CACHE = """keys = Concat <axis = 2> (past, k) turned = Transpose <perm = [0, 1, 3, 2]> (keys)
    scores = MatMul (q, turned) weights = Softmax <axis = -1> (scores) y = MatMul (weights, keys)"""
RESHAPED: list[tuple[str, dict[str, tuple[int, ...]], list[dict[str, tuple[int, ...]]]]] = [
    # nodes, the declared shapes of the inputs, and other ones
    *((f"m = ReduceMean <axes = [1], keepdims = {keep}> (x) y = Add (m, k)", {"x": (1, 1, 4), "k": (4,)},
       [{"x": (2, size, 4)} for size in (1, 3)]) for keep in (0, 1)),
    *((f"y = {operator} (x)", {"x": (2, 0, 4)}, [{"x": (3, 0, 4)}, {"x": (2, 1, 4)}, {"x": (3, 5,
        4)}]) for operator in EMPTY),
    # A cache that is declared empty grows.
    (CACHE, {"past": (1, 2, 0, 4), "k": (1, 2, 1, 4), "q": (1, 2, 1, 4)}, [{"past": (1, 2, 6, 4)}]),
    # The tail of a classifier: pooled channels, of which the product of dimensions is known.
    ("c = Conv (x, w) p = GlobalAveragePool (c) y = Flatten (p)", {"x": (1, 3, 5, 5), "w": (4, 3, 3, 3)}, [{"x": (2, 3,
     6, 7)}]),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "shapes", "others"), RESHAPED, ids=[row[0][:40] for row in RESHAPED])
def test_models_of_ones_and_of_empty_inputs_can_be_reshaped(nodes: str, shapes: Any, others: Any) -> None:
    """They are converted for their declared shapes and run in both engines for others."""
    draw = np.random.default_rng(3)
    feeds = {name: draw.random(shape, np.float32) for name, shape in shapes.items()}
    inputs = ", ".join(f"float{list(shape)} {name}" for name, shape in shapes.items())
    model = parsed(f"g ({inputs}) => (y) {{ {nodes} }}", 14)
    changed = [{name: draw.random(shape, np.float32) for name, shape in other.items()} for other in others]
    check_reshaped(model, feeds, *({**feeds, **other} for other in changed))
    if "Flatten (p)" in nodes:
        assert layers(converter.convert_model(model)) == ["Convolution", "ReduceMean", "Reshape"]


def test_bit_cast_of_an_empty_input_refuses_other_dimensions() -> None:
    """Looking something up for no elements kills the plug-in; elsewhere a table is needed."""
    model = node_model("BitCast", {"x": np.zeros((2, 0), np.float16)}, opset=26, attributes={"to": TensorProto.UINT16})
    made = converter.convert_model(model)
    assert layers(made) == ["VariadicSplit", "VariadicSplit", "Convert"]
    with pytest.raises(InferenceError, match="dimension_1"):
        made.reshape([2, 3])


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


# --- an IR as the source of a conversion: shapes, types, values, outputs, target and compression of the new one ---


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """An IR that OpenVINO's own converter wrote."""
    onnx.save(a_model(), tmp_path / "model.onnx")
    openvino.save_model(
        openvino.convert_model(tmp_path / "model.onnx"), tmp_path / "theirs.xml", compress_to_fp16=False
    )
    return tmp_path / "theirs.xml"


FEEDS = {"image": np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32), "rate": np.array(2)}


@pytest.mark.parametrize("target", ["any", "cpu", "cpu@2023.3"])
@pytest.mark.parametrize("options", [{}, {"fuse": False}, {"exact": True}])
def test_the_numbers_stay(theirs: Path, target: str, options: dict[str, Any]) -> None:
    expected = compile_model(read_model(theirs))(FEEDS)["logits"]
    made = converter.convert_model(theirs, target=target, **options)
    np.testing.assert_allclose(compile_model(made)(FEEDS)["logits"], expected, rtol=1e-5)


def test_shapes_values_types_and_outputs(theirs: Path) -> None:
    before = read_model(theirs)
    made = converter.convert_model(
        before, input="image[2,3,4,5]{f64}", freeze={"rate": 2}, output=["logits", "hidden"], static=True
    )
    assert not before.inputs[0].shape.is_static, "a model in memory stays as it is"
    assert [str(one.type) for one in made.inputs] == ["f64[2,3,4,5]"]
    assert "ShapeOf" not in made.types
    result = compile_model(made)({"image": FEEDS["image"].astype(np.float64)})
    expected = compile_model(before)(FEEDS)["logits"]
    # Sums of numbers of up to 9, of which some come close to 0: they are added in another order.
    np.testing.assert_allclose(result["logits"], expected, rtol=1e-5, atol=1e-6)
    assert result["hidden"].shape == (2, 64, 4, 5)
    made = converter.convert_model(theirs, batch=2, output="hidden")
    assert str(made.inputs[0].shape[0]) == "2"
    assert [node.end_names[0] for node in made.parameters] == ["image"]


@pytest.mark.parametrize(("options", "message"), [
    ({"input": "picture[1,3,4,4]"}, "no input 'picture'.*'image'"),
    ({"output": "hiden"}, "no tensor 'hiden'.*'hidden'"),
    ({"freeze": {"rate": 2.5}}, "rate"),
    ({"static": True}, "'image'.*dynamic"),
    ({"input": {"image": [1, 4, 4, 4]}}, "channels|Convolution"),
])  # fmt: skip
def test_options_that_do_not_fit(theirs: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ConversionError, Exception), match=message) as caught:
        converter.convert_model(theirs, **options)
    assert type(caught.value).__module__.startswith(("converter.", "ir_runtime."))


def test_the_command(theirs: Path) -> None:
    target = theirs.parent / "new.xml"
    code, out, messages = onnx2ir(
        *("convert", str(theirs), "-o", str(target), "--target", "cpu@2024.6", "--compress", "int8", "--verify")
    )
    assert code == 0, messages
    assert "PASSED" in out + messages
    assert target.with_suffix(".bin").stat().st_size < theirs.with_suffix(".bin").stat().st_size
    code, _, messages = onnx2ir("convert", str(theirs))
    assert (code, "-o PATH" in messages) == (2, True)


# --- calls grow no faster than the nodes, memory not with the weights ---

SMALL, LARGE = 400, 1600


def model_of(form: str, count: int) -> bytes:
    opset = [helper.make_opsetid("", 17)]
    made = helper.make_model(FORMS[form](count), opset_imports=opset, ir_version=9)
    data: bytes = made.SerializeToString()
    return data


def calls_of(data: bytes) -> int:
    """How many functions, of Python and of C, are called for a conversion and for writing the result."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        ir_runtime.model_to_bytes(converter.convert_model(data))
    finally:
        sys.setprofile(None)
    return count


@pytest.fixture
def as_for_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every layer is checked after every pass."""
    monkeypatch.setattr(Checks, "is_thorough", False)
    monkeypatch.setattr(Edits, "guard", None)


@pytest.mark.usefixtures("as_for_users")
@pytest.mark.parametrize("form", FORMS)
def test_the_number_of_calls_is_linear_in_the_number_of_nodes(form: str) -> None:
    calls_of(model_of(form, 10))  # what is imported and cached once
    small, large = (calls_of(model_of(form, count)) for count in (SMALL, LARGE))
    assert large < 1.25 * small * LARGE / SMALL


@pytest.mark.full
@pytest.mark.usefixtures("as_for_users")
@pytest.mark.parametrize("form", ["chain", "sums", "ifs"])
def test_models_of_many_nodes_are_converted(form: str) -> None:
    model = converter.convert_model(model_of(form, 20_000))
    assert sum(len(part.nodes) for part in model.parts()) > 20_000


SCRIPT = f"""{PEAK}
import sys, converter
converter.save_model(converter.convert_model(sys.argv[1]), sys.argv[2], compress_to_fp16=sys.argv[3] == "half")
print(peak())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak of memory from /proc")
@pytest.mark.parametrize("external", [False, True], ids=["embedded", "external"])
@pytest.mark.parametrize("precision", ["full", "half"])
def test_memory_does_not_follow_the_weights(tmp_path: Path, external: bool, precision: str) -> None:
    peaks = [peak(tmp_path / str(dimension), dimension, external, precision) for dimension in (64, 4096)]
    assert peaks[1] - peaks[0] < 24 * 1024  # KiB, of 128 MiB of weights


def peak(folder: Path, dimension: int, external: bool, precision: str) -> int:
    """KiB at most in a process of its own."""
    folder.mkdir()
    weights = {f"w{at}": np.full((dimension, dimension), at + 1, np.float32) for at in range(2)}
    text = f"g (float[1,{dimension}] x) => (float[1,{dimension}] y) {{ v = MatMul (x, w0) y = MatMul (v, w1) }}"
    where = {"save_as_external_data": True, "location": "m.data", "size_threshold": 0} if external else {}
    onnx.save(parse(text, **weights), folder / "m.onnx", **where)
    command = [sys.executable, "-c", SCRIPT, str(folder / "m.onnx"), str(folder / "m.xml"), precision]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\d+", done.stdout.strip())
    return int(done.stdout)
