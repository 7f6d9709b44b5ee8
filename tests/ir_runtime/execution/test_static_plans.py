"""Plans for known shapes against ``evaluate``: views, parts of a Concat, parts with what follows them, other shapes."""

from __future__ import annotations

import functools
import itertools
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ir_runtime import ModelError, Output, Tensor, compile_model
from ir_runtime.graph import element_types
from tests.ir_runtime.execution.kernel_checks import (
    Array,
    Layers,
    biased,
    convolve,
    has_static_plans,
    model_of,
    normal,
    op,
    same,
)

Planned = namedtuple("Planned", "name group make inputs tolerance fallbacks")
GRAPHS: list[Planned] = []


def graphs(
    *inputs: Array, label: str = "", tolerance: float = 5e-6, fallbacks: Sequence[str] = (), **choices: Sequence[Any]
) -> Callable[..., Any]:
    """Plan what a function emits for these inputs and each combination of options."""

    def add(make: Callable[..., Any]) -> Callable[..., Any]:
        for values in itertools.product(*choices.values()):
            kind, chosen = label or make.__name__, functools.partial(make, **dict(zip(choices, values)))
            text = "-".join([kind, *(f"{value}".replace(" ", "") for value in values)])
            GRAPHS.append(Planned(text, f"static_plans/{kind}", chosen, inputs, tolerance, fallbacks))
        return make

    return add


# --- what follows, in parts ---

for _dimensions in ((1, 6, 5, 7), (2, 24, 61, 40), (2, 2, 61, 40), (1, 3, 1, 1), (5, 40, 9, 9)):

    @graphs(normal(*_dimensions), kernel=[1, 3, 5], stride=[1, 2, 3])
    def convolution(b: Layers, v: Output, kernel: int, stride: int) -> list[Output]:
        first = b.ReLU(biased(b, convolve(b, v, 16, kernel, strides=[stride, stride])))
        second = b.Add(biased(b, convolve(b, first, 16, 3)), first)
        return [b.HSwish(second), b.Sigmoid(biased(b, convolve(b, second, 200)))]


for _channels in (3, 16, 65):
    graphs(normal(2, _channels, 23, 19), label="depthwise", stride=[1, 2, 3], dilation=[1, 2],
           kernel=[(3, 3), (5, 2), (1, 7)])(
        lambda b, v, stride, dilation, kernel: b.Clamp(b.GroupConvolution(
            v, normal(v.shape[1].value, 1, 1, *kernel), strides=[stride] * 2, dilations=[dilation] * 2,
            pads_begin=[2, 0], pads_end=[0, 3]), min=-1, max=1))  # fmt: skip
graphs(normal(2, 48, 150, 45), label="depthwise_of_rows_that_are_copied_in_parts", stride=[1, 2])(
    lambda b, v, stride: biased(b, b.GroupConvolution(
        v, normal(48, 1, 1, 5, 3), strides=[stride] * 2, pads_begin=[3, 1], pads_end=[4, 1])))  # fmt: skip
_LINE = {"strides": [2], "pads_begin": [4], "pads_end": [1], "dilations": [2]}
graphs(normal(2, 12, 400), label="one_spatial_dimension")(
    lambda b, v: b.Tanh(b.Convolution(v, normal(24, 12, 5), **_LINE)))  # fmt: skip
graphs(normal(2, 12, 400), label="one_spatial_dimension", groups=[3, 12])(
    lambda b, v, groups: b.Tanh(b.GroupConvolution(v, normal(groups, 24 // groups, 12 // groups, 5), **_LINE))
)
graphs(normal(1, 700, 48), label="a_product")(
    lambda b, v: b.Gelu(b.Add(b.MatMul(v, normal(48, 300)), normal(300))))  # fmt: skip
for _rows in (1, 2, 9, 100, 201):
    graphs(normal(_rows, 600), label=f"{_rows}_rows_of_a_large_matrix")(lambda b, v: b.MatMul(v, normal(600, 1000)))
graphs(normal(2, 4, 5, 6), label="pads", mode=["constant", "edge", "reflect", "symmetric"],
       pads=[([0, 2, 0, 3], [0, 0, 1, 5]), ([1, 0, 4, 0], [0, 3, 0, 1]), ([0] * 4, [0] * 4)])(
    lambda b, v, mode, pads: [b.Abs(b.Pad(convolve(b, v, 4), *pads, pad_mode=mode)), b.Pad(v, *pads, 7.0)])  # fmt: skip
graphs(normal(2, 3, 7, 9), label="resizing", mode=["nearest", "linear", "linear_onnx", "cubic"],
       dimensions=[(14, 18), (5, 31), (7, 9), (200, 3)], is_convolved=[False, True])(
    lambda b, v, mode, dimensions, is_convolved: b.ReLU(b.Interpolate(
        convolve(b, v, 5) if is_convolved else v, list(dimensions), [2, 3], opset=11, mode=mode,
        shape_calculation_mode="sizes")))  # fmt: skip
graphs(normal(1, 2, 6, 7, 8), label="indices_that_nobody_reads")(
    lambda b, v: b.emit_all(op("MaxPool", 14, kernel=[2] * 3, strides=[1] * 3, dilations=[2] * 3, pads_begin=[0] * 3,
                               pads_end=[0] * 3), v)[0])  # fmt: skip
for _keeps in (False, True):  # the part is a matrix whose rows are apart in memory, so that no vector of it exists
    graphs(normal(8, 8, 8), normal(8, 3, 1) if _keeps else normal(8, 3), label="a_reduction_into_a_part_of_a_concat",
           name=["ReduceMean", "ReduceSum"], keep_dims=[_keeps])(
        lambda b, x, y, name, keep_dims: b.Concat(y, getattr(b, name)(x, [2], keep_dims=keep_dims), axis=1))  # fmt: skip

for _dimensions in ((3, 1), (1, 4), (3, 4)):  # a chain may compute in the memory of its input, but not of this view
    graphs(normal(*_dimensions), label="a_value_that_is_repeated")(
        lambda b, v: b.Add(b.Broadcast(b.Exp(v), [2, 3, 4]), normal(2, 3, 4)))  # fmt: skip


@graphs(normal(12))
def windows_that_share_numbers(b: Layers, v: Output) -> list[Output]:
    parts = [b.Reshape(b.Slice(b.Abs(v), [at], [at + 6], [1], [0]), [3, 2]) for at in (0, 2, 4)]
    longer = b.Sqrt(b.Concat(*parts, axis=1))
    return [longer, b.Multiply(b.Concat(*parts[:2], axis=1), normal(4))]


for _dimensions in ((33, 20), (20,), (7, 9, 8)):
    _numbers, _rank = normal(2, 2, 5, *_dimensions), len(_dimensions)
    _numbers[1, 0, 0, 4], _numbers[1, 0, 1, 3] = np.nan, -np.inf
    _sizes = {"kernel": [3] * _rank, "strides": [2] * _rank, "pads_begin": [1] * _rank, "pads_end": [0] * _rank}
    _pools = [op("MaxPool", opset, rounding_type=rounding, **_sizes)
              for opset in (8, 14, 1) for rounding in ("floor", "ceil")]  # fmt: skip
    _pools += [op("AvgPool", 14, rounding_type=rounding, exclude_pad=excludes, **_sizes)
               for rounding in ("floor", "ceil") for excludes in (False, True)]  # fmt: skip
    for _is_odd in (0, 1):
        graphs(_numbers[_is_odd], label="pooling", pool=_pools)(lambda b, v, pool: b.emit(pool, v))
for _dimensions in ((0, 4, 5, 5), (1, 4, 0, 5)):
    graphs(normal(*_dimensions), label="nothing_at_all")(
        lambda b, v: b.Concat(b.Transpose(b.Add(b.ReLU(v), normal(1, 4, 1, 1)), [0, 1, 2, 3]), v, axis=1))  # fmt: skip
_odd = normal(1, 4, 9, 9)
_odd[0, [0, 1, 2], [4, 0, 8], [4, 0, 8]] = np.nan, np.inf, -np.inf
graphs(_odd, label="numbers_that_are_none")(lambda b, v: b.ReLU(biased(b, convolve(b, v, 6, 3))))


for _dimensions in ((9, 11), (1, 1), (60, 50)):

    @graphs(normal(2, 5, *_dimensions), groups=[1, 2, 6, 24], mode=["INSIDE_SQRT", "OUTSIDE_SQRT"], tolerance=2e-5)
    def groups_of_channels(b: Layers, v: Output, groups: int, mode: str) -> list[Output]:
        shape = [2, 24, *v.shape.static()[2:]]

        def normalized(value: Output) -> Output:
            apart = b.Reshape(value, [2, groups, -1])
            made = b.MVN(apart, [-1], eps=1e-3, eps_mode=mode, normalize_variance=True)
            return b.Reshape(made, shape)

        first = b.ReLU(biased(b, normalized(convolve(b, v, 24, 3))))
        return [normalized(first), normalized(b.Reshape(first, shape))]

    @graphs(normal(2, 5, *_dimensions), groups=[1, 2, 6, 24], tolerance=2e-5)
    def group_normalization(b: Layers, v: Output, groups: int) -> list[Output]:
        """Of channels that lie last in memory, of channels that do not, and as a part of a Concat."""

        def normalized(value: Output) -> Output:
            return b.GroupNormalization(value, normal(24), normal(24), num_groups=groups, epsilon=1e-3)

        first = b.ReLU(normalized(convolve(b, v, 24, 3)))
        turned = b.Reshape(first, [2, 24, *v.shape.static()[2:]])
        return [normalized(turned), b.Concat(normalized(first), first, axis=1)]


@graphs(np.eye(240, dtype=np.float32)[None, None])
def an_even_background(b: Layers, v: Output) -> Output:
    """As a part of a Concat, where each position is a row: many equal squares are summed."""
    x = convolve(b, v, 4)
    return b.Concat(b.GroupNormalization(x, normal(4), normal(4), num_groups=4, epsilon=1e-9), x, axis=1)


@pytest.mark.parametrize("row", GRAPHS, ids=lambda row: row.name)
def test_graph(row: Planned) -> None:
    same(model_of(row.make, row.inputs), row.inputs, row.tolerance, None, row.fallbacks)


@pytest.mark.parametrize("values", ["both signs", "positive", "negative", "zero", "tiny", "infinite", "NaN"])
@pytest.mark.parametrize("reads_zero_point", [False, True])
def test_dynamic_quantization(values: str, reads_zero_point: bool) -> None:
    x = {
        "positive": np.abs(normal(3, 40)) + 1,
        "negative": -np.abs(normal(3, 40)) - 1,
        "zero": np.zeros((3, 40), np.float32),
        "tiny": normal(3, 40) * np.float32(1e-42),
    }.get(values, normal(3, 40))
    if values in ("infinite", "NaN"):
        x[1, 2] = np.inf if values == "infinite" else np.nan

    def make(b: Layers, v: Output) -> list[Output]:
        zero, axes = b.constant(np.float32(0), "f32"), b.constant([0, 1], "i64")
        highest = b.Maximum(b.ReduceMax(v, axes), zero)
        lowest = b.Minimum(b.ReduceMin(v, axes), zero)
        span = b.Subtract(highest, lowest)
        step = b.Divide(span, np.float32(255))
        scale = b.Select(b.Equal(span, zero), np.float32(1), step)
        below = b.Round(b.Divide(b.Subtract(zero, lowest), scale))
        zero_point = b.Clamp(below, min=0, max=255)
        level = b.Add(b.Round(b.Divide(v, scale)), zero_point)
        centred = b.Subtract(b.Clamp(level, min=0, max=255), zero_point)
        product = b.MatMul(centred, normal(40, 9))
        return [centred, b.Multiply(product, scale), zero_point if reads_zero_point else scale]

    compiled = same(model_of(make, [x]), [x], kernels=None)
    steps = [row.type for row in compiled.profile([x]).by_type()]
    assert ("ReduceMax" in steps) is reads_zero_point


def unaligned(array: Array) -> Array:
    """The same numbers where no file aligns them."""
    held = np.empty(array.nbytes + 1, np.uint8)
    made = held[1:].view(array.dtype).reshape(array.shape)
    made[...] = array
    assert not made.flags.aligned
    return made


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.float16])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("known", [False, True])
def test_picking_from_tables_that_are_not_aligned(kind: Any, axis: int, known: bool) -> None:
    table = unaligned((normal(30, 6, 4) * 100).astype(kind))
    picked = np.array([[3, -1, 0], [-4, 2, 2]])

    def make(b: Layers, v: Output) -> Output:
        held = b.tensor(Tensor.from_array(table, element_types.from_dtype(kind)))
        return b.Gather(held, b.constant(picked) if known else v, axis)

    model = model_of(make, [picked])
    (found,) = same(model, [picked], kernels=None)([picked]).to_list()
    np.testing.assert_array_equal(found, np.take(table, picked, axis))


# --- other numbers and shapes ---


def an_image(b: Layers, v: Output) -> list[Output]:
    made = b.Convolution(v, normal(6, 4, 3, 3), pads_begin=[1, 1], pads_end=[1, 1])
    flat = b.Reshape(made, [0, 6, -1], special_zero=True)
    return [flat, b.ShapeOf(flat), b.ReLU(made)]


def values_of_dynamic_dimensions(b: Layers, v: Output) -> list[Output]:
    a = b.Tanh(v)
    places = b.NonZero(b.ReLU(a))
    picked = b.GatherND(a, b.Transpose(places, [1, 0]))
    return [b.Concat(b.Exp(picked), b.Reshape(a, [24]), axis=0), places, b.Add(b.Exp(a), v)]


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (an_image, [(1, 4, 8, 8)] * 2 + [(2, 4, 5, 7), (1, 4, 8, 8)] + [(2, 4, 5, 7)] * 2 + [(0, 4, 5, 7)] * 2
         + [(3, 4, 9, 1)] * 2),
        (lambda b, v: b.Multiply(v, b.Sigmoid(v)), [(2, 3), (0, 4), (1, 1), (300, 700), (2, 3), (2, 3)]),
        (values_of_dynamic_dimensions, [(4, 6)] * 4),
    ],
)  # fmt: skip
def test_other_inputs_between_calls(make: Callable[..., Any], shapes: Sequence[tuple[int, ...]]) -> None:
    model = model_of(make, [normal(*shapes[0])], open_=len(set(shapes)) > 1)
    fast, slow = compile_model(model), compile_model(model, optimize=False)
    for dimensions in shapes:
        x = normal(*dimensions)
        for found, expected in zip(fast([x]).to_list(), slow([x]).to_list()):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert has_static_plans(fast)


def test_results_are_nobody_elses() -> None:
    x = normal(1, 4, 6, 6)
    compiled = compile_model(model_of(lambda b, v: [v, convolve(b, v, 4), b.Transpose(v, [1, 0, 2, 3])], [x]))
    first = compiled([x]).to_list()
    kept = [one.copy() for one in first]
    compiled([normal(1, 4, 6, 6)])
    for one, before in zip(first, kept):
        np.testing.assert_array_equal(one, before)
        assert one.flags.writeable
        assert one.flags.c_contiguous
        one[...] = 0
    np.testing.assert_array_equal(compiled([x])[1], kept[1])


def test_an_error_says_where_it_is_from() -> None:
    x = np.array([1, 2])
    model = model_of(lambda b, v: b.Gather(normal(5, 3), v, 0), [x])
    compiled = compile_model(model)
    with pytest.raises(ModelError, match=r"layer .*Gather.*out of bounds"):
        compiled([np.array([1, 7])])
    np.testing.assert_array_equal(compiled([x])[0], compile_model(model, optimize=False)([x])[0])
    assert has_static_plans(compiled)


# --- layers of other types ---

WHOLE = [np.arange(-6, 6).reshape(shape) for shape in [(3, 4), (1, 12), (12,)]]
TRUTH = [np.arange(12).reshape(3, 4) % 3 == 0, np.arange(4) % 2 == 0]
FUNCTIONS: list[tuple[str, list[Any], dict[str, Any]]] = [
    *((name, inputs, {}) for name, inputs in [
        ("Add", [WHOLE[0], WHOLE[0][:, :1]]),
        ("Equal", [WHOLE[0].astype(np.int32), np.int32([-1, 0, 1, 2])]),
        ("Less", [normal(3, 4), normal(1, 4)]),
        ("LogicalAnd", TRUTH),
        ("BitwiseAnd", [WHOLE[1].astype(np.uint8), WHOLE[2].astype(np.uint8)]),
        ("Maximum", [np.zeros((0, 4), np.int64), np.zeros(4, np.int64)]),
        ("Negative", [np.int64(3)]),
        ("IsNaN", [np.float32([1, np.nan])]),
        ("Select", [TRUTH[0], WHOLE[0], WHOLE[0][:1]]),
        ("Select", [TRUTH[1], np.float32(2), normal(3, 4)]),
        ("Select", [np.array(True), np.float32([np.nan, 1]), np.float32([2])]),
    ]),
    *((name, [x, np.array(axes, np.int64)], {"keep_dims": keeps}) for name, axes, keeps, x in itertools.product(
        ("ReduceMax", "ReduceMin"), ([0], [-1, 0], [1], []), (False, True),
        (np.float32([[[3, np.nan, -2, 8]], [[1, 5, -7, 0]], [[0, 2, 4, -1]]]), WHOLE[0].reshape(3, 1, 4)))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "inputs", "options"), FUNCTIONS, ids=lambda one: one if isinstance(one, str) else "")
@pytest.mark.parametrize("joined", [False, True])
def test_functions_of_any_type(
    name: str, inputs: list[Any], options: dict[str, Any], joined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, layer = [np.asarray(value) for value in inputs], op(name, **options)
    given, axes = (inputs[:1], inputs[1:]) if options else (inputs, [])

    def make(b: Layers, *values: Output) -> Output:
        made = b.emit(layer, *values, *map(b.constant, axes))
        # A part of a Concat's output has other strides.
        return b.Concat(made, made, axis=-1) if joined and made.shape.rank else made

    model = model_of(make, given)
    same(model, given, kernels=None)
    expected = compile_model(model, optimize=False)(given)[0]
    compiled = compile_model(model)
    monkeypatch.setattr(type(layer), "evaluate", None)
    np.testing.assert_array_equal(compiled(given)[0], expected)
