"""Weights in 16, 8 and 4 bits: on which grid, in which layers, which of them, and what runs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from onnx import numpy_helper

import converter
import ir_runtime
from converter import WeightCompression
from converter.conversion.convert import compressed
from converter.passes.compression.half_precision import misfits, to_half
from converter.passes.compression.integer_grid import put_on_grid
from ir_runtime import Model
from ir_runtime.graph.tensor import Tensor
from tests.commands import onnx2ir
from tests.converter import option_models
from tests.converter.optimization.models import parse
from tests.converter.to_onnx import graphs
from tests.engines import EXACT, core, node_model, run_compiled, run_numpy, run_onnxruntime, run_openvino
from tests.random_data import generator

INT8, INT4 = WeightCompression(8), WeightCompression(4)
WAYS = [WeightCompression(bits, group, sym) for bits, group, sym in itertools.product((8, 4), (-1, 32), (True, False))]
TYPES = {(8, False): "u8", (8, True): "i8", (4, False): "u4", (4, True): "i4"}


def way_of(one: WeightCompression) -> str:
    return f"{TYPES[one.bits, bool(one.symmetric)]} {'by channel' if one.group_size == -1 else one.group_size}"


def chain(*layers: tuple[str, np.ndarray], dtype: Any = np.float32, outputs: int = 1) -> onnx.ModelProto:
    """Products one after the other, ``x`` times ``w0`` times ``w1`` ...: ("MatMul" or a Gemm's transB, weights)."""
    calls = {"MatMul": "MatMul", "Gemm": "Gemm <transB = 1>"}
    nodes = " ".join(f"y{at} = {calls[op]} ({f'y{at - 1}' if at else 'x'}, w{at})" for at, (op, _) in enumerate(layers))
    depth = layers[0][1].shape[-2 if layers[0][0] == "MatMul" else -1]
    ports = f"{'float16' if dtype is np.float16 else 'float'}[n,{depth}] x"
    results = ", ".join(f"y{len(layers) - 1 - at}" for at in range(outputs))
    stored = {f"w{at}": values.astype(dtype) for at, (_, values) in enumerate(layers)}
    return parse(f"g ({ports}) => ({results}) {{ {nodes} }}", **stored)


def rounded(model: onnx.ModelProto | Model, options: WeightCompression, half: bool = False, **conversion: Any) -> Any:
    plain = model if isinstance(model, Model) else converter.convert_model(model, **conversion)
    made = compressed(plain, options, half)
    assert made.weights is not None
    return made


def weights(seed: int, *shape: int) -> np.ndarray:
    """Rows of very different sizes, among them zeros, ones of one sign, and two that are equally far from zero."""
    made = generator(seed).standard_normal(shape).astype(np.float32)
    rows = made.reshape(-1, shape[-1])
    rows *= 10.0 ** generator(seed + 1).uniform(-3, 1, (len(rows), 1)).astype(np.float32)
    rows[1] = 0
    rows[2] = np.abs(rows[2])
    rows[3, :2] = np.abs(rows[3]).max() * np.array([1, -1])
    return made


def stored(model: Model) -> tuple[bytes, bytes]:
    """As it stands on disk, where reading and writing change nothing."""
    written = ir_runtime.model_to_bytes(model)
    assert ir_runtime.model_to_bytes(ir_runtime.read_model(*written)) == written
    return written


def constants(model: Model) -> dict[str, ir_runtime.Tensor]:
    return {node.name: node.op.data for part in model.all_models() for node in part.nodes() if node.op.data is not None}


def by_hand(model: Model, name: str, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The weights that codes, zero points and scales of a constant represent, and the step of each weight."""
    found = constants(model)
    codes, scale = found[name].array().astype(np.float64), found[f"{name}/scale"].array().astype(np.float64)
    zero = found[f"{name}/zero_point"].array().astype(np.float64) if f"{name}/zero_point" in found else 0.0
    return ((codes - zero) * scale).reshape(shape), np.broadcast_to(np.abs(scale), codes.shape).reshape(shape)


def executed(ir: tuple[bytes, bytes], feeds: Mapping[str, Any]) -> tuple[np.ndarray, list[tuple[str, str]]]:
    compiled = core().compile_model(core().read_model(*ir), "CPU", EXACT)
    layers = [(op.get_rt_info()["layerType"].astype(str), op) for op in compiled.get_runtime_model().get_ops()]
    ran = [(kind, op.input(int(kind != "Gather")).get_source_output().get_element_type().get_type_name())
           for kind, op in layers if kind in ("FullyConnected", "Gather")]  # fmt: skip
    return run_compiled(compiled, feeds)[0], ran


def near(model: Model, name: str, original: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What :func:`by_hand` gives, which is half a step from the original weights at most."""
    values, step = by_hand(model, name, original.shape)
    assert (np.abs(values - original.astype(np.float64)) <= 0.5001 * step).all()
    return values, step


def check_answers(
    made: Any, feeds: Mapping[str, Any], expected: np.ndarray, near: float = 1e-5
) -> list[tuple[str, str]]:
    """Hold the stored IR against the result in both engines; the layers that OpenVINO ran."""
    ir = stored(made.model)
    answer, ran = executed(ir, feeds)
    for found in (run_numpy(ir, feeds)[0], answer):
        np.testing.assert_allclose(found, expected, atol=near * np.abs(expected).max())
    return ran


@pytest.mark.parametrize("options", WAYS, ids=way_of)
@pytest.mark.parametrize("kind", ["MatMul", "Gemm"])
@pytest.mark.parametrize(("depth", "columns"), [(64, 48), (96, 33)])
def test_products(kind: str, depth: int, columns: int, options: WeightCompression) -> None:
    """Columns or rows of weights, even and odd numbers of them; the last product takes 8 bits anyway."""
    first, last = weights(1, columns, depth), weights(5, columns, 64)
    original = first if kind == "Gemm" else first.T
    made = rounded(chain((kind, original), ("MatMul", last)), options, target="any")  # which keeps columns as they are
    wanted = TYPES[options.bits, bool(options.symmetric)]
    assert f"{wanted} {'by channel' if options.group_size == -1 else 'in groups of 32'}" in made.weights.count

    values, step = near(made.model, "w0", original)
    spread = np.ptp(np.concatenate([first, np.zeros((columns, 1))], axis=1), axis=1)
    reach = np.maximum(spread, 2 * np.abs(first).max(axis=1)) if options.symmetric else spread
    longest = reach / (2**options.bits - 1 - bool(options.symmetric)) * (1 + 1 / 32)
    rows = step.max(axis=1 if kind == "Gemm" else 0)
    assert (rows[reach > 0] <= longest[reach > 0]).all()

    second, _ = by_hand(made.model, "w1", last.shape)
    x = generator(9).standard_normal((5, depth)).astype(np.float32)
    ran = check_answers(made, {"x": x}, x.astype(np.float64) @ (values.T if kind == "Gemm" else values) @ second)
    assert ("FullyConnected", wanted) in ran
    assert len(ran) == 2
    assert all(kind in ("u8", "i8", "u4", "i4") for _, kind in ran)


@pytest.mark.parametrize("options", [INT8, INT4], ids=["int8", "int4"])
@pytest.mark.parametrize(
    ("op", "group", "dims", "shape", "scales"),
    [
        # of the axes of the weights those that the layer sums over share a scale
        ("MatMul", 0, (3, 5, 64), (3, 64, 32), (3, 1, 32)), ("MatMul", 1, (64, 7), (48, 64), (48, 1)),
        ("Gather", 0, (2, 3), (100, 32), (100, 1)), ("Conv", 1, (1, 16, 9, 9), (24, 16, 3, 3), (24, 1, 1, 1)),
        ("Conv", 4, (1, 16, 9, 9), (32, 4, 3, 3), (4, 8, 1, 1, 1)),
        ("ConvTranspose", 1, (1, 16, 9, 9), (16, 12, 3, 3), (1, 12, 1, 1)),
        ("ConvTranspose", 4, (1, 16, 9, 9), (16, 6, 3, 3), (4, 1, 6, 1, 1)),
    ],
)  # fmt: skip
def test_layers(op: str, group: int, dims: Any, shape: Any, scales: Any, options: WeightCompression) -> None:
    """All of them take 8 bits, by channel: the products come last."""
    values, feeds = weights(15, *shape), {"x": generator(16).standard_normal(dims).astype(np.float32)}
    if op == "Gather":
        feeds = {"x": np.array([[3, 0, 99], [1, 2, 3]])}
    order = ["w", "x"] if op == "Gather" or dims == (64, 7) else ["x", "w"]
    attributes = {"group": group} if "Conv" in op else {}
    model = node_model(op, feeds, opset=17, attributes=attributes, constants={"w": values}, order=order)
    made = rounded(model, options)
    assert dict(made.weights.count) == {"u8 by channel": 1}
    (name,) = (name for name in constants(made.model) if name.endswith("/scale"))
    assert constants(made.model)[name].shape == scales
    found, _ = near(made.model, name.removesuffix("/scale"), values)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(found.astype(np.float32), "w"))
    ran = check_answers(made, feeds, run_onnxruntime(model, feeds)[0])
    assert ran == ([("Gather", "u8")] if op == "Gather" else [])


@pytest.mark.parametrize("orders", [[(1, 0, 2)], [(0, 2, 1)], [(1, 2, 0), (1, 2, 0)], [(0, 2, 1), (2, 1, 0)]], ids=str)
def test_transposes_move_the_axis_with_scales(orders: list[tuple[int, ...]]) -> None:
    """An IR may have several in a row."""
    value = graphs.constant(weights(4, 32, 33, 34), name="w")
    axes = np.arange(3)
    for index, order in enumerate(orders):
        value = graphs.layer(graphs.op("Transpose"), value, graphs.constant(order, "i64"), name=f"turn{index}")
        axes = axes[list(order)]
    x = graphs.parameter("x", 1, 5, value.shape[1].value)
    model = graphs.model([x], {"y": graphs.layer(graphs.op("MatMul"), x, value, name="product")})
    scale = constants(compressed(model, INT8, False).model)["w/scale"]
    assert scale.shape == tuple(1 if axis == axes[1] else size for axis, size in enumerate((32, 33, 34)))


@pytest.mark.parametrize("options", [*WAYS, INT8, INT4])
def test_a_tied_matrix_is_stored_once(options: WeightCompression) -> None:
    """An embedding that scores the result, too, through a Transpose."""
    matrix = weights(21, 300, 64)
    text = """g (int64[1,5] ids) => (y) { x = Gather (matrix, ids) turned = Transpose <perm = [1, 0]> (matrix)
        y = MatMul (x, turned) }"""
    made = rounded(parse(text, matrix=matrix), options)
    assert made.weights.count.total() == 1
    assert next(iter(made.weights.count)) in ("u8 by channel", "i8 by channel")
    assert len(stored(made.model)[1]) < 1.2 * matrix.size
    found, _ = by_hand(made.model, "matrix", matrix.shape)
    ids = np.array([[0, 3, 299, 1, 7]])
    ran = check_answers(made, {"ids": ids}, found[ids] @ found.T)
    assert [kind for _, kind in ran] == [next(iter(made.weights.count))[:2]] * 2


@pytest.mark.parametrize("options", WAYS, ids=way_of)
@pytest.mark.parametrize("source", ["float16", "halved", "cast"])
def test_float16(source: str, options: WeightCompression) -> None:
    """Weights of a model in float16, those that were halved before, and those that the model casts."""
    first, last = (w.astype(np.float16) for w in (weights(31, 64, 512), weights(32, 512, 64)))
    kind = np.float16 if source == "float16" else np.float32
    model = chain(("Gemm", first), ("Gemm", last), dtype=kind)
    if source == "cast":
        nodes = " ".join(f"w{at} = Cast <to = 1> (w{at}_compressed)" for at in (0, 1))
        text = f"{nodes} p = Gemm <transB = 1> (x, w0) y = Gemm <transB = 1> (p, w1)"
        model = parse(f"g (float[n,512] x) => (y) {{ {text} }}", w0_compressed=first, w1_compressed=last)
    plain = converter.convert_model(model)
    made = rounded(compressed(plain, None, True).model if source == "halved" else plain, options)
    assert made.weights.count.total() == 2
    assert not made.weights.kept
    name = "w0" if source == "float16" else "w0_compressed"
    values, _ = near(made.model, name, first)
    x = generator(33).standard_normal((3, 512)).astype(np.float16 if source == "float16" else np.float32)
    second, _ = by_hand(made.model, name.replace("0", "1", 1), last.shape)
    expected = x.astype(np.float64) @ values.T @ second.T
    ran = check_answers(made, {"x": x}, expected, 2e-2 if source == "float16" else 1e-5)
    assert ("FullyConnected", TYPES[options.bits, bool(options.symmetric)]) in ran


def test_the_rest_is_halved() -> None:
    """Biases; and no scale, which would no longer be that of the codes."""
    first = weights(35, 64, 64) * np.float32(1e-6)
    model = chain(("Gemm", first), ("Gemm", weights(36, 64, 64)))
    model.graph.initializer.append(numpy_helper.from_array(weights(37, 4, 64)[0], "bias"))
    model.graph.node[1].input.append("bias")
    made = compressed(converter.convert_model(model), INT8, True)
    assert made.half is not None
    assert made.half.count == 1
    types = {name: data.element_type.name for name, data in constants(made.model).items()}
    assert (types["w0/scale"], types["w1/scale"], types["bias_compressed"]) == ("f32", "f16", "f16")
    assert near(made.model, "w0", first)[1].max() < 1e-6
    stored(made.model)


def test_bodies() -> None:
    branches = ", ".join(
        f"{name}_branch = {name} () => (z) {{ z = MatMul (x, {name}_w) }}" for name in ("then", "else")
    )
    model = parse(f"g (bool c, float[2,64] x) => (float[2,48] y) {{ y = If (c) <{branches}> }}")
    for body, seed in zip(model.graph.node[0].attribute, (41, 42)):
        body.g.initializer.append(numpy_helper.from_array(weights(seed, 64, 48), f"{body.g.name}_w"))
    made = rounded(model, INT8)
    assert dict(made.weights.count) == {"u8 by channel": 2}
    x = generator(43).standard_normal((2, 64)).astype(np.float32)
    for chosen, name in ((True, "then_w"), (False, "else_w")):
        check_answers(made, {"c": np.array(chosen), "x": x}, x @ by_hand(made.model, name, (48, 64))[0].T)


GROUPS = [
    # the depth of the product, the group that is asked for, and what is done
    *((depth, None, f"i4 in groups of {size}") for depth, size in ((256, 128), (192, 64), (96, 32))),
    *((depth, group, f"i4 in groups of {size}") for depth, group, size in ((96, 64, 32), (96, 48, 48), (320, 100, 64))),
    (100, None, "u8 by channel"),
    (100, -1, "i4 by channel"),
]


@pytest.mark.parametrize(("depth", "group", "way"), GROUPS)
def test_groups_that_do_not_divide_the_depth(depth: int, group: int | None, way: str) -> None:
    model = chain(("Gemm", weights(51, 64, depth)), ("Gemm", weights(52, 128, 64)))
    made = rounded(model, WeightCompression(4, group))
    assert way in made.weights.count
    assert made.weights.count["u8 by channel"] == 1 + (way == "u8 by channel")
    stored(made.model)


def test_last_products_take_8_bits() -> None:
    """Those after which no weights come: not one whose result is merely returned as well."""
    layers = [("Gemm", weights(seed, 64, 64)) for seed in (61, 62, 63)]
    made = constants(rounded(chain(*layers, outputs=3), WeightCompression(4, 32)).model)
    assert [made[name].element_type.name for name in ("w0", "w1", "w2")] == ["i4", "i4", "u8"]


PRODUCT = "MatMul (x, w)"
STAYING: list[tuple[str, dict[str, Any], str]] = [
    # the layer, its weights, the reason that is told
    *((PRODUCT, {"w": np.where(np.arange(64) == 5, np.float32(value), weights(71, 64, 64))}, reason)
      for value, reason in (
        (np.nan, "are not finite"), (-np.inf, "are not finite"), (-3e38, "have values beyond 65504"))),
    ("Add (p, w) p = MatMul (x, w)", {"w": weights(72, 64, 64)}, "are read by other layers as well"),
    (PRODUCT, {"w": weights(73, 64, 4)}, "are too small"),
    (f"{PRODUCT} w = DequantizeLinear (q, s)", {"q": generator(75).integers(-128, 128, (64, 64)).astype(np.int8),
                                                "s": np.float32(0.1)}, ""),
    ("LSTM <hidden_size = 32> (t, w, r) t = Unsqueeze (x, a)",
     {"w": weights(76, 1, 128, 64), "r": weights(76, 1, 128, 32), "a": np.array([0])}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "stored", "reason"), STAYING)
@pytest.mark.parametrize("options", [INT8, INT4], ids=["int8", "int4"])
def test_weights_that_stay_uncompressed(nodes: str, stored: Any, reason: str, options: WeightCompression) -> None:
    plain = converter.convert_model(parse(f"g (float[64,64] x) => (y) {{ y = {nodes} }}", **stored))
    made = rounded(plain, options)
    assert (dict(made.weights.count), dict(made.weights.kept)) == ({}, {reason: 1} if reason else {})
    assert ir_runtime.model_to_bytes(made.model) == ir_runtime.model_to_bytes(plain)


@pytest.mark.parametrize("options", WAYS, ids=way_of)
def test_reshaping_and_saving_again_change_nothing(options: WeightCompression, tmp_path: Path) -> None:
    first, again, theirs = (tmp_path / f"{name}.xml" for name in ("first", "again", "theirs"))
    model = chain(("MatMul", weights(81, 64, 96)), ("Gemm", weights(82, 64, 96)))
    converter.save_model(converter.convert_model(model), first, compress=options)
    ours, read = ir_runtime.read_model(first), core().read_model(first)
    ours.reshape({"x": [4, 64]})
    read.reshape([4, 64])
    converter.save_model(ours, again)
    openvino.save_model(read, theirs, compress_to_fp16=False)
    assert again.with_suffix(".bin").read_bytes() == first.with_suffix(".bin").read_bytes()
    assert not rounded(ours, options).weights.count
    x = {"x": generator(83).standard_normal((4, 64)).astype(np.float32)}
    expected = None
    for path in (first, again, theirs):
        # Layer by layer, because a plan for known shapes adds in another order than one for any shapes.
        plain = ir_runtime.compile_model(ir_runtime.read_model(path), optimize=False)(x)[0]
        expected = plain if expected is None else expected
        np.testing.assert_allclose(plain, expected, rtol=1e-6)
        ir = (path.read_bytes(), path.with_suffix(".bin").read_bytes())
        np.testing.assert_allclose(executed(ir, x)[0], plain, atol=1e-5 * np.abs(plain).max())


def test_large_weights_are_worked_on_in_parts() -> None:
    """More than one part, of an odd number of weights each, gives what all at once would."""
    values = weights(84, 3, 701, 999)
    model = chain(("MatMul", values), ("MatMul", weights(85, 999, 65)))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    made = rounded(model, WeightCompression(4, -1)).model
    by_parts = ir_runtime.read_model(*ir_runtime.model_to_bytes(made))
    codes = constants(by_parts)["w0"].array().astype(np.int8)
    scale = constants(by_parts)["w0/scale"].array().astype(np.float32)
    np.testing.assert_array_equal(codes, np.clip(np.rint(values / scale), -8, 7).astype(np.int8))


@pytest.mark.parametrize(
    ("arguments", "ways"),
    [("int4", {"i4 in groups of 128": 1, "u8 by channel": 1}), ("int8 --symmetric", {"i8 by channel": 2})],
)
def test_the_command_line(arguments: str, ways: dict[str, int], tmp_path: Path) -> None:
    onnx.save(chain(*(("MatMul", generator(seed).standard_normal((256, 256))) for seed in (1, 2))), tmp_path / "m.onnx")
    command = ["convert", str(tmp_path / "m.onnx"), "--compress", *arguments.split()]
    code, out, messages = onnx2ir(*command, "--verify")
    assert (code, ", rounding " in out, "PASSED" in out) == (0, True, True), messages + out
    assert f"Compressed weights: {', '.join(f'{times} {way}' for way, times in ways.items())}\n" in messages
    result = json.loads(onnx2ir(*command, "--compress-to-fp16", "--json")[1])
    assert result["compressed"] == {"weights": ways, "kept": {}}
    assert result["float16"] == {"constants": 0, "kept": {}}


@pytest.mark.every_row
@pytest.mark.parametrize(
    ("bits", "symmetric", "low", "high", "fit"),
    [
        (8, False, -3, 3, True), (8, False, 0, 255, True), (8, False, -200, 55, True), (8, False, -1, 255, False),
        (8, True, -128, 127, True), (8, True, -127, 128, True), (8, True, -128, 128, False), (8, True, 0, 1, True),
        (4, False, -7, 8, True), (4, False, -8, 8, False), (4, True, -7, 8, True), (4, True, -8, 8, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(64, 32), (64, 2, 16)])
def test_whole_numbers_stay_exact(shape: Any, bits: int, symmetric: bool, low: int, high: int, fit: bool) -> None:
    """A rule may have left a Floor or a cast out because the results are whole."""
    weights = np.random.default_rng(0).integers(low, high + 1, shape).astype(np.float32)
    weights[..., :2] = low, high
    grid = put_on_grid(Tensor.from_array(weights), shape, (len(shape) - 1,), bits, symmetric)
    if not fit:
        assert grid == f"are whole numbers of more than {bits} bits"
        return
    assert not isinstance(grid, str)
    zero = 0 if grid.zero_point is None else grid.zero_point.array().astype(np.float32)
    np.testing.assert_array_equal((grid.codes.array() - zero) * grid.scale.array().astype(np.float32), weights)


def test_casts_removed_by_rules_keep_exact_products() -> None:
    """A cast to whole numbers and back behind a product of such, which the cpu target does not keep."""
    model = option_models.shared_outputs()
    made = converter.convert_model(model)
    x = 3 * generator(5).standard_normal((4, 32)).astype(np.float32)
    (m, y, same) = run_onnxruntime(model, {"x": x})
    found = ir_runtime.compile_model(compressed(made, WeightCompression.named("int8"), False).model)([x])
    for name, expected in {"m": m, "y": y, "same": same}.items():
        np.testing.assert_array_equal(found[name], expected)


# --- float16 ---


def types_of(model: Model) -> dict[str, str]:
    stored = [node for node in model.nodes() if node.op.data is not None and node.op.data.size > 1]
    return {node.name.removesuffix("_compressed"): node.op.data.element_type.name for node in stored}


def added(weights: np.ndarray) -> onnx.ModelProto:
    return node_model("Add", {"x": np.ones(len(weights), np.float32)}, opset=17, constants={"w": weights})


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.74, 0.76, 1.0])
@pytest.mark.parametrize("value", [1e-9, 1e-7, 6.2e-5, 0.0])
def test_small_numbers_stay_where_openvino_keeps_them(share: float, value: float, tmp_path: Path) -> None:
    weights = np.ones(100, np.float32)
    weights[: int(100 * share)] = value
    model = added(weights)
    ours = types_of(compressed(converter.convert_model(model), None, True).model)["w"]
    openvino.save_model(core().read_model(model.SerializeToString()), tmp_path / "m.xml", compress_to_fp16=True)
    theirs = next(op for op in core().read_model(tmp_path / "m.xml").get_ops() if op.get_type_name() == "Constant")
    assert ours == theirs.get_element_type().get_type_name()


@pytest.mark.parametrize(("value", "kept"), [(65505.0, 1), (-1e30, 1), (-np.inf, 0)])
def test_a_number_that_would_become_infinite_keeps_its_tensor(value: float, kept: int, tmp_path: Path) -> None:
    """OpenVINO writes 65504 instead, which is another model."""
    model = added(np.array([1, value, 2], np.float32))
    stored = compressed(converter.convert_model(model), None, True)
    assert stored.half is not None
    assert types_of(stored.model) == {"w": "f32" if kept else "f16"}
    assert dict(stored.half.kept) == ({"have values beyond 65504": 1} if kept else {})
    onnx.save(model, tmp_path / "m.onnx")
    messages = onnx2ir("convert", str(tmp_path / "m.onnx"), "--compress-to-fp16")[2]
    assert ("0 constants are float16, but not 1 that have values beyond 65504" in messages) == bool(kept)


def test_numbers_that_decide_shapes_stay() -> None:
    """12 times float32's 4/3 is 16, and 15 with float16's."""
    scales = np.array([1, 1, 4 / 3, 4 / 3], np.float32)
    x = np.random.default_rng(1).random((1, 2, 12, 12), np.float32)
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    model = node_model(
        "Resize", {"x": x}, opset=13, attributes=attributes, constants={"s": scales}, order=["x", "", "s"]
    )
    stored = compressed(converter.convert_model(model), None, True)
    assert stored.half is not None
    assert stored.half.kept.total() == 1
    ir, expected = ir_runtime.model_to_bytes(stored.model), run_onnxruntime(model, {"x": x})[0]
    for run in (run_numpy, run_openvino):
        np.testing.assert_allclose(run(ir, {"x": x})[0], expected, rtol=1e-6)


def test_halves_are_those_of_numpy() -> None:
    """Random bits of float32, and every number halfway between two of float16 with its neighbours."""
    random = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, np.uint64).astype(np.uint32).view(np.float32)
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    between = ((halves[1:] + halves[:-1]) / 2).astype(np.float32)
    near = [np.nextafter(between, np.float32(limit)) for limit in (-np.inf, np.inf)]
    ends = np.array([65504, 65519.99, 65520, 1e30, np.inf, np.nan, 0.0, 2.0**-14, 2.0**-25], np.float32)
    values = np.concatenate([random, between, *near, -between, ends, -ends])
    with np.errstate(all="ignore"):
        fits = np.abs(values) < 65520
        for given in (values, values[fits], values[fits & (np.abs(values) > 2**-14)], values[:3], values[:0]):
            expected = given.astype(np.float16)
            np.testing.assert_array_equal(to_half(given).view(np.uint16), expected.view(np.uint16))
        wide = values[fits].astype(np.float64)
        np.testing.assert_array_equal(to_half(wide), wide.astype(np.float16))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_beyond_float16_are_counted(dtype: type) -> None:
    values = np.array([0.0, -0.0, 1.0, -65504, np.inf, np.nan, 2.0**-14, -(2.0**-15), 1e-40], dtype)
    assert misfits(values) == (False, 2)
    assert misfits(np.append(values, dtype(-65505))) == (True, 2)
    assert misfits(np.tile(values, 10_000)) == (False, 20_000)
    assert misfits(values[:0]) == (False, 0)
