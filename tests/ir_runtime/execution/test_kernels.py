"""Kernels against ``evaluate``, over random shapes and values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ir_runtime import ExecutionError, InternalError, ModelError, Output, compile_model
from ir_runtime.execution import calls
from ir_runtime.execution.kernels import elementwise_chains, product_calls, recurrent, registry, threads
from ir_runtime.execution.static_plans import plan
from ir_runtime.graph.operation import find_operation
from tests.converter.to_onnx.graphs import model_of as single
from tests.ir_runtime.execution.kernel_checks import RNG, Layers, called_at_once, model_of, normal, op, same
from tests.rows.layer import Layer, flags, ints, one, uniform, whole
from tests.rows.layer import layers as rows
from tests.rows.layer import normal as draw
from tests.rows.layers.networks import recurrent as sequences
from tests.rows.row import each

# --- single layers ---

UNARY = {
    "Abs": {}, "Negative": {}, "Floor": {}, "Ceiling": {}, "Exp": {}, "Tanh": {}, "Sqrt": {}, "Log": {},
    "ReLU": {}, "Sigmoid": {}, "Swish": {}, "HSwish": {}, "HSigmoid": {}, "Mish": {}, "SoftPlus": {}, "Erf": {},
    "Gelu": {}, "Elu": {"alpha": 0.7}, "Clamp": {"min": -0.5, "max": 1.5}, "Round": {},
}  # fmt: skip
SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 88.0, -88.0, 1e4, -1e4, 3.9, -3.95, 20.0, -20.0],
    np.float32,
)
SINGLE: list[tuple[Layer, int, Sequence[str]]] = []
"""Layers, how many steps have a kernel, and the types of those whose kernels leave these arrays to ``evaluate``."""


def layers(
    name: str, *inputs: Any, kernels: int = 1, fallbacks: Sequence[str] = (), opset: int = 16, **more: Any
) -> None:
    """Add a layer of the newest revision up to ``opset`` for each combination of values."""
    for row in rows(name, find_operation(name, opset).opset, *inputs, **more):
        SINGLE.append((row, kernels, fallbacks))


def attentions(*heads: int) -> None:
    name, inputs = "ScaledDotProductAttention", [draw(*heads, 7, 8), draw(*heads, 9, 8), draw(*heads, 9, 5)]
    layers(name, *inputs, causal=each(False, True))
    layers(name, *inputs, flags(7, 9))
    layers(name, *inputs, draw(*heads, 1, 9))
    layers(name, *inputs, draw(*heads, 1, 9), np.array([0.3], np.float32))


def softmaxes(*shape: int) -> None:
    """Far apart are rows that are zero where they are shifted by the maximum of others."""
    forms = {name: np.clip(normal(*shape), -5, 5) for name in ("narrow", "far apart", "masked", "-90", "first", "NaN")}
    forms["wide"] = 30 * normal(*shape)
    forms["wide"].reshape(-1)[::7] = -np.inf
    forms["far apart"][:1] += 200
    forms["masked"][..., 1::2] = -np.inf
    forms["-90"][..., 1::2] = -90
    forms["first"][..., 0] = -np.inf
    forms["NaN"].reshape(-1)[3] = np.nan
    for name, x in forms.items():
        layers("SoftMax", x, axis=-1, note=f" {name}")
        layers("SoftMax", x, axis=0, note=f" {name}", fallbacks=() if len(shape) == 1 else ["SoftMax"])


def products(a: Sequence[int], b: Sequence[int]) -> None:
    for flip_a, flip_b in itertools.product((False, True), repeat=2):
        first, second = ((*shape[:-2], *shape[:-3:-1]) if flip else shape for shape, flip in ((a, flip_a), (b, flip_b)))
        layers("MatMul", draw(*first), draw(*second), transpose_a=flip_a, transpose_b=flip_b)


for _name, _attributes in UNARY.items():
    layers(_name, each(*(uniform(-6, 6, *shape) for shape in ((), (7,), (3, 1, 5), (2, 40, 700)))), **_attributes)
layers("Gelu", uniform(-6, 6, 5, 33), approximation_mode="TANH")
for _shapes in (
    ((3, 4), (4,)), ((2, 1, 5), (3, 1)), ((), (6,)), ((1, 300, 41, 9), (1, 300, 1, 1)), ((90, 800), (90, 1)),
):  # fmt: skip
    for _name in ("Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum", "SquaredDifference"):
        layers(_name, *[draw(*shape) for shape in _shapes])
layers("Power", uniform(0.1, 3, 4, 50), one(each(2.0, 3.0, 0.5, -1.5), np.float32), fixed=(1,))
layers("PReLU", draw(4, 50), one(each(0.1, -0.3, 1.7), np.float32), fixed=(1,))
layers("PReLU", draw(4, 50), one(0.0, np.float32), fixed=(1,), kernels=0)
layers("Add", draw(4, 5, dtype=np.float64), draw(4, 5, dtype=np.float64), kernels=0)
layers("Add", whole(-9, 9, 4, 5, dtype=np.int32), whole(-9, 9, 4, 5, dtype=np.int32), kernels=0)
layers("Round", np.array([-2.5, -0.5, 0.5, 1.5, 2.5], np.float32), mode="half_away_from_zero", kernels=0)
for _levels, _limits in ((256, (-1.5, 1.2, -1.5, 1.2)), (16, (0.0, 2.0, -1.0, 3.0))):
    layers("FakeQuantize", np.concatenate([normal(500), SPECIAL, np.float32(_limits[:2])]),
           *np.float32(_limits).reshape(4, 1), fixed=(1, 2, 3, 4), levels=_levels)  # fmt: skip
layers("GroupConvolution", draw(1, 5, 30, 90), draw(5, 1, 1, 3, 3), fixed=(1,), pads_begin=(1, 1), pads_end=(1, 1))
layers("Convolution", draw(1, 24, 150, 170), draw(10, 24, 3, 3), fixed=(1,))  # unfolded in parts
for _dimensions, _kernel in (((640,), (256,)), ((9, 20), (8, 7))):
    _rank = len(_kernel)
    layers("Convolution", draw(1, 2, *_dimensions), draw(50, 2, *_kernel), fixed=(1,), strides=(3,) * _rank,
           pads_begin=(2,) * _rank, pads_end=(0,) * _rank, dilations=(1,) * _rank)  # fmt: skip
for _a, _b in (
    ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 7, 4), (2, 3, 4, 6)), ((2, 1, 3, 4), (5, 4, 2)),
    ((1, 1, 9, 3), (1, 1, 3, 8)), ((300, 200), (200, 250)), ((6, 130, 200), (6, 200, 130)), ((0, 4), (4, 5)),
    ((3, 0), (0, 5)), ((40, 500), (500, 1300)),
):  # fmt: skip
    products(_a, _b)
for _rows in (1, 16, 49, 64, 300):
    layers("MatMul", draw(2, _rows, 700), draw(700, 900), fixed=(1,))
    layers("MatMul", draw(2, _rows, 700), draw(900, 700), fixed=(1,), transpose_b=True)
for _shape in ((7,), (0, 7), (4, 0), (2, 9, 7)):
    layers("MatMul", draw(*_shape), draw(_shape[-1], 5), fixed=(1,))
for _a, _b in (((4,), (4,)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,))):
    layers("MatMul", draw(*_a), draw(*_b), fallbacks=["MatMul"])
for _shape in ((5,), (3, 7), (2, 300, 401)):
    softmaxes(*_shape)
for _shape in ((2, 3), (1, 1), (4,)):
    attentions(*_shape)
layers("MVN", draw(3, 40, 65), each(*(ints(*axes) for axes in ((-1,), (1, 2), (2, 1), (0,), (1,), (0, 2), (0, 1, 2)))),
       eps=1e-5, eps_mode=each("INSIDE_SQRT", "OUTSIDE_SQRT"), normalize_variance=each(True, False))  # fmt: skip
layers("MVN", np.eye(600, dtype=np.float32)[None, None], ints(2, 3), opset=6, eps=1e-5, eps_mode="INSIDE_SQRT",
       normalize_variance=True, note=" sum of equal squares")  # fmt: skip
for _shape in ((2, 6, 7), (1, 6, 40, 65), (2, 6, 2, 3, 4), (3, 6), (0, 6, 4)):
    layers("GroupNormalization", draw(*_shape), draw(6), draw(6), num_groups=each(1, 3, 6), epsilon=1e-3,
           fallbacks=() if _shape[0] else ["GroupNormalization"])  # fmt: skip
for _name in ("ReduceMean", "ReduceSum"):
    layers(_name, draw(2, 30, 7, 11), each(ints(-1), ints(2, 3), ints(1, 2, 3), ints(0), ints(1, 2)),
           keep_dims=each(True, False))  # fmt: skip
for _kind, _direction in itertools.product(("LSTM", "GRU", "RNN"), ("forward", "reverse", "bidirectional")):
    for _lengths, _ends in ((ints(4, 4, 4), ()), (ints(4, 2, 3), [f"{_kind}Sequence"])):
        SINGLE += [(row, 1, _ends) for row in sequences(_kind, _direction, _lengths)]
        SINGLE += [(row, 1, _ends) for row in sequences("GRU", _direction, _lengths, True) if _kind == "GRU"]
SINGLE += [(row, 0, ()) for kind in ("LSTM", "GRU", "RNN") for row in sequences(kind, "forward", ints(4, 4), clip=0.2)]
layers("MaxPool", draw(1, 3, 6, 6), kernel=(2, 2), strides=(2, 2), opset=8, kernels=0)  # its indices are read


@pytest.mark.parametrize(("row", "kernels", "fallbacks"), SINGLE, ids=lambda value: getattr(value, "label", None))
def test_single_layers(row: Layer, kernels: int, fallbacks: Sequence[str]) -> None:
    model, feeds = single(row)
    same(model, list(feeds.values()), kernels=kernels, fallbacks=fallbacks)


_NUMBERS = [draw(6), draw(6), draw(6), uniform(0.1, 2, 6)]
NORMALIZED = [
    *rows("BatchNormInference", 5, draw(2, 6, 5, 4), *_NUMBERS, fixed=(1, 2, 3, 4), epsilon=1e-3),
    *rows("BatchNormInference", 1, *_NUMBERS[:2], draw(2, 6, 5, 4), *_NUMBERS[2:], fixed=(0, 1, 3, 4), epsilon=1e-3),
]


@pytest.mark.parametrize("row", NORMALIZED, ids=lambda row: row.label)
def test_batch_norm(row: Layer) -> None:
    model, feeds = single(row)
    same(model, list(feeds.values()))


# --- elementwise chains ---


@pytest.mark.every_value
@pytest.mark.parametrize("name", UNARY)
def test_activation_in_the_memory_of_its_input(name: str) -> None:
    x = 2 * normal(40, 700)
    wide = model_of(lambda b, v: b.emit(op(name, **UNARY[name]), b.Multiply(v, b.like(2, v))), [x])
    same(wide, [x])


@pytest.mark.parametrize("name", UNARY)
def test_special_numbers(name: str) -> None:
    model = model_of(lambda b, v: b.emit(op(name, **UNARY[name]), v), [SPECIAL])
    fast, slow = compile_model(model)([SPECIAL])[0], compile_model(model, optimize=False)([SPECIAL])[0]
    np.testing.assert_allclose(fast, slow, rtol=2e-6, atol=1e-37)


@pytest.mark.parametrize(
    ("operation", "message"), [("Mish-4", "Mish-4 has a formula .* change the formula"), ("MVN-6", "registered twice")]
)
def test_a_kernel_that_would_never_run_is_refused(operation: str, message: str) -> None:
    name, opset = operation.split("-")
    with pytest.raises(InternalError, match=message):
        registry.kernel(type(op(name, int(opset))))(lambda node, site: None)


def test_the_error_function_is_exact_near_zero() -> None:
    x = np.geomspace(1e-30, 5, 4001).astype(np.float32)
    model = model_of(lambda b, v: b.Erf(v), [x])
    np.testing.assert_allclose(compile_model(model)([x])[0], compile_model(model, optimize=False)([x])[0], rtol=6e-7)


@pytest.mark.parametrize("inner", [(), (1,), (1, 5)], ids=str)
def test_a_chain_whose_inner_layer_is_smaller(inner: tuple[int, ...]) -> None:
    inputs = [np.abs(normal(*inner)) + 1, np.abs(normal(*inner)) + 1, normal(4, 5)]
    made = model_of(lambda b, x, y, z: b.Subtract(b.Divide(x, y), z), inputs)
    same(made, [np.asarray(value, np.float32) for value in inputs])


@pytest.mark.parametrize("zero_point", [0, 3, 128, 255])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (40, 700)])
def test_fake_quantize_rounds_like_quantize_linear(zero_point: int, shape: tuple[int, ...]) -> None:
    scale = np.float32(0.0173)
    limits = [np.float32(-zero_point) * scale, np.float32(255 - zero_point) * scale]
    # Halves of the scale: every second value lies between two levels.
    x = (RNG.integers(-600, 600, shape) / 2).astype(np.float32) * scale

    def make(b: Layers, v: Output) -> Output:
        return b.FakeQuantize(v, *[b.constant(limit, "f32") for limit in 2 * limits], levels=256)

    levels = np.clip(np.rint(x / scale) + zero_point, 0, 255) - zero_point
    np.testing.assert_array_equal(compile_model(model_of(make, [x]))([x])[0], levels * scale)


# --- convolutions ---


def convolution(rank: int, groups: int, outputs: int, depth: int, case: dict[str, Any]) -> None:
    kernel = [int(v) for v in RNG.integers(1, case["kernel"], rank)]
    dilations = [int(v) for v in RNG.choice([1, 1, 2, 3], rank)]
    dimensions = [(k - 1) * d + 1 + int(RNG.integers(0, 24)) for k, d in zip(kernel, dilations)]
    attributes: dict[str, Any] = {
        "strides": [int(v) for v in RNG.integers(1, 4, rank)],
        "dilations": dilations,
        "pads_begin": [int(v) for v in RNG.integers(0, 4, rank)],
        "pads_end": [int(v) for v in RNG.integers(0, 4, rank)],
        "auto_pad": str(RNG.choice(["explicit", "explicit", "same_upper", "same_lower", "valid"])),
    }
    x = normal(int(RNG.integers(1, 3)), groups * depth, *dimensions)
    weights = normal(*([groups] if groups > 1 else []), outputs, depth, *kernel)
    name = "GroupConvolution" if groups > 1 else "Convolution"
    model = model_of(lambda b, v: b.emit(op(name, **attributes), v, b.constant(weights, "f32")), [x], case["open"])
    same(model, [x])


@pytest.mark.parametrize("open_", [False, True])
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize(
    ("groups", "outputs", "depth", "kernel"),
    [
        (1, 40, 5, 2), (1, 7, 3, 5), (1, 150, 20, 4), (1, 40, 20, 4), (1, 3, 2, 30), (3, 5, 4, 4), (40, 1, 1, 6),
        (6, 2, 1, 4),
    ],
)  # fmt: skip
def test_convolution(groups: int, outputs: int, depth: int, kernel: int, rank: int, open_: bool) -> None:
    for _ in range(6):
        convolution(rank, groups, outputs, depth, {"kernel": kernel, "open": open_})


def test_a_convolution_whose_image_is_too_small_says_what_is_wrong() -> None:
    x = normal(1, 2, 9, 9)
    model = model_of(lambda b, v: b.Convolution(v, normal(3, 2, 5, 5)), [x], True)
    with pytest.raises(ModelError, match=r"layer .*Convolution.* a window of 5 elements does not fit"):
        compile_model(model)([normal(1, 2, 3, 3)])


# --- recurrent ---


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "GRU linear", "RNN"])
@pytest.mark.parametrize(("batch", "hidden"), [(1, 1), (1, 7), (4, 1), (5, 9)])
def test_sequence_one_direction_after_the_other(
    kind: str, batch: int, hidden: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrent, "_MAX_BYTES_OF_DIRECTIONS", 0)
    (row,) = sequences(kind.split()[0], "bidirectional", ints(*[4] * batch), "linear" in kind, hidden)
    model, feeds = single(row)
    same(model, list(feeds.values()))


# --- the plan ---


def block(b: Layers, x: Output) -> list[Output]:
    """A residual block whose inner values are read by several, one of them returned."""
    made = b.Convolution(x, 0.2 * normal(8, 8, 3, 3), pads_begin=[1, 1], pads_end=[1, 1])
    made = b.ReLU(b.Add(made, normal(1, 8, 1, 1)))
    turned = b.Transpose(made, [0, 2, 3, 1])
    back = b.Transpose(b.Sigmoid(turned), [0, 3, 1, 2])
    total = b.Add(b.Multiply(made, back), x)
    return [b.Tanh(total), made, b.Abs(total), x]


@pytest.mark.parametrize("value", [[1, 2, 3], [1.0, 2.0, 3.0], (1, 2.0, 3), np.array([1, 2, 3], np.float32)], ids=repr)
def test_lists_are_converted(value: Any) -> None:
    model = model_of(lambda b, v: b.Abs(v), [normal(3)])
    assert compile_model(model)([value])[0].tolist() == [1, 2, 3]


def test_arrays_are_not_converted() -> None:
    model = model_of(lambda b, v: b.Abs(v), [normal(3)])
    with pytest.raises(ExecutionError, match="must have dtype float32"):
        compile_model(model)([np.ones(3)])


def test_several_threads_call_one_model() -> None:
    x = [normal(1, 8, 40, 41) for _ in range(4)]
    called_at_once(compile_model(model_of(block, x[:1]), threads=2), x, 10)


def test_numpy_is_left_as_it_was() -> None:
    before = np.getbufsize(), np.geterr()
    x = normal(2, 3)
    compile_model(model_of(lambda b, v: b.Tanh(v), [x]))([x])
    assert (np.getbufsize(), np.geterr()) == before


def test_an_error_in_a_helper_thread_is_raised() -> None:
    def work(parts: Sequence[int]) -> None:
        if 7 in parts:
            raise ValueError("seven")

    with pytest.raises(ValueError, match="seven"):
        threads.Workers(2).each(work, range(8), threads.ENOUGH)


def test_profile() -> None:
    x = normal(1, 8, 40, 41)
    profile = compile_model(model_of(block, [x])).profile([x], repeat=3)
    assert profile.calls == 3
    assert sum(row.share for row in profile.by_type()) == pytest.approx(1)
    assert sum(layer.seconds for layer in profile.layers) <= profile.seconds
    assert [layer.seconds for layer in profile.layers] == sorted((one.seconds for one in profile.layers), reverse=True)
    assert "Add+ReLU" in {row.type for row in profile.by_type()}


def test_blocks_cover_the_output_once() -> None:
    for shape in [(3,), (5, 40000), (200, 300), (4, 3, 70000), (2, 20000, 3)]:
        seen = np.zeros(shape, np.int64)
        for dimensions, index in elementwise_chains.blocks_of(shape):
            assert seen[index].shape == dimensions
            seen[index] += 1
        assert (seen == 1).all()


# --- reductions and pooling ---


@pytest.mark.parametrize(
    ("rows", "effort", "counts"),
    [
        (0, 1 << 13, [0]),
        (64, 1 << 13, [64]),  # 2**19 multiplications wake no thread
        (200, 1 << 13, [50, 50, 50, 50]),  # 3.1 times as many
        (1025, 1 << 13, [1025]),  # more than 2**23 are worth a thread
        (64, 1 << 14, [64]),  # 48 rows would be too many multiplications
    ],
)
def test_rows_that_are_multiplied_at_once(rows: int, effort: int, counts: list[int]) -> None:
    cuts = product_calls._cuts(rows, effort)
    assert [cut.stop - cut.start for cut in cuts] == counts
    assert [cut.start for cut in cuts] == [0, *[cut.stop for cut in cuts[:-1]]]


@pytest.mark.parametrize(
    ("shape", "width"),
    [
        ((1, 700, 900), None),  # a vector
        ((2, 700, 700), None),  # packed by nobody
        ((2, 700, 900), 64),
        ((2, 700, 50_000), 64),
        ((20, 700, 5000), 32),  # outputs of 1200 elements
        ((8, 7000, 900), 16),
        ((8, 16_000, 900), None),  # 8 columns are too many multiplications
        ((24, 700, 5000), 32),
        ((25, 700, 5000), None),  # worth a second thread
        ((64, 256, 320), 16),
        ((64, 255, 320), None),  # not deep enough
        ((65, 256, 320), None),
        ((40, 2000, 20), 8),
    ],
)
def test_columns_that_are_multiplied_at_once(shape: tuple[int, int, int], width: int | None) -> None:
    assert product_calls._block_width(*shape) == width


def test_no_more_calls_at_a_time_than_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them only take each other's cache, and each wants arrays of its own."""
    monkeypatch.setattr(calls, "processors", lambda: 2)
    monkeypatch.setattr(calls, "_SHORT_CALL_SECONDS", 0.0)
    made: list[object] = []
    make = plan._Instance.__init__
    monkeypatch.setattr(plan._Instance, "__init__", lambda self, *args: (made.append(self), make(self, *args))[1])
    x = [normal(1, 8, 40, 41) for _ in range(8)]
    called_at_once(compile_model(model_of(block, x[:1])), x, 5)
    assert 1 <= len(made) <= 2
