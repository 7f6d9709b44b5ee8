"""Plans for known shapes against ``evaluate``: views, parts of a Concat, parts with what follows them, other shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir_runtime import ModelError, compile_model
from ir_runtime.graph import element_types
from ir_runtime.graph.model import Output
from ir_runtime.graph.tensor import Tensor
from ir_runtime.rewriting.builder import Builder
from tests.ir_runtime.execution.kernel_checks import (
    Array,
    alike,
    biased,
    called_at_once,
    convolve,
    has_static_plans,
    image,
    model_of,
    normal,
    op,
    same,
)

# --- what follows, in parts ---


@pytest.mark.parametrize("dimensions", [(1, 6, 5, 7), (2, 24, 61, 40), (2, 2, 61, 40), (1, 3, 1, 1), (5, 40, 9, 9)])
@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_a_convolution_with_what_follows(dimensions: tuple[int, ...], kernel: int, stride: int) -> None:
    x = image(*dimensions)

    def make(b: Builder, v: Output) -> list[Output]:
        first = b.emit(op("ReLU"), biased(b, convolve(b, v, 16, kernel, strides=[stride, stride])))
        second = b.emit(op("Add"), biased(b, convolve(b, first, 16, 3)), first)
        return [b.emit(op("HSwish"), second), b.emit(op("Sigmoid"), biased(b, convolve(b, second, 200)))]

    alike(model_of(make, [x]), [x])


@pytest.mark.parametrize("channels", [3, 16, 65])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("kernel", [(3, 3), (5, 2), (1, 7)])
def test_depthwise(channels: int, stride: int, dilation: int, kernel: tuple[int, int]) -> None:
    x = image(2, channels, 23, 19)
    weights = normal(channels, 1, 1, *kernel)
    made = op(
        "GroupConvolution", strides=[stride, stride], dilations=[dilation, dilation], pads_begin=[2, 0], pads_end=[0, 3]
    )
    alike(
        model_of(lambda b, v: b.emit(op("Clamp", min=-1, max=1), b.emit(made, v, b.constant(weights, "f32"))), [x]), [x]
    )


@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_of_rows_that_are_copied_in_parts(stride: int) -> None:
    x, weights = image(2, 48, 150, 45), normal(48, 1, 1, 5, 3)
    made = op("GroupConvolution", strides=[stride, stride], pads_begin=[3, 1], pads_end=[4, 1])
    alike(model_of(lambda b, v: biased(b, b.emit(made, v, b.constant(weights, "f32"))), [x]), [x])


@pytest.mark.parametrize("groups", [1, 3, 12])
def test_one_spatial_dimension(groups: int) -> None:
    x = image(2, 12, 400)
    weights = normal(groups, 24 // groups, 12 // groups, 5) if groups > 1 else normal(24, 12, 5)
    made = op("GroupConvolution" if groups > 1 else "Convolution", strides=[2], pads_begin=[4], pads_end=[1],
              dilations=[2])  # fmt: skip
    alike(model_of(lambda b, v: b.emit(op("Tanh"), b.emit(made, v, b.constant(weights, "f32"))), [x]), [x])


def test_a_product_with_what_follows() -> None:
    x, weights = normal(1, 700, 48), normal(48, 300)

    def make(b: Builder, v: Output) -> Output:
        made = b.emit(op("MatMul"), v, b.constant(weights, "f32"))
        return b.emit(op("Gelu"), b.emit(op("Add"), made, b.constant(normal(300), "f32")))

    alike(model_of(make, [x]), [x])


@pytest.mark.parametrize("rows", [1, 2, 9, 100, 201])
def test_a_product_with_few_rows_of_a_large_matrix(rows: int) -> None:
    x, weights = normal(rows, 600), normal(600, 1000)
    alike(model_of(lambda b, v: b.emit(op("MatMul"), v, b.constant(weights, "f32")), [x]), [x])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
@pytest.mark.parametrize("pads", [([0, 2, 0, 3], [0, 0, 1, 5]), ([1, 0, 4, 0], [0, 3, 0, 1]), ([0] * 4, [0] * 4)])
def test_pads(mode: str, pads: tuple[list[int], list[int]]) -> None:
    x = image(2, 4, 5, 6)

    def make(b: Builder, v: Output) -> list[Output]:
        behind = b.emit(op("Pad", pad_mode=mode), convolve(b, v, 4), *[b.constant(n, "i64") for n in pads])
        filled = b.emit(op("Pad"), v, *[b.constant(n, "i64") for n in pads], b.constant(np.float32(7), "f32"))
        return [b.emit(op("Abs"), behind), filled]

    alike(model_of(make, [x]), [x])


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

    def make(b: Builder, v: Output) -> list[Output]:
        zero, axes = b.constant(np.float32(0), "f32"), b.constant([0, 1], "i64")
        highest = b.emit(op("Maximum"), b.emit(op("ReduceMax"), v, axes), zero)
        lowest = b.emit(op("Minimum"), b.emit(op("ReduceMin"), v, axes), zero)
        span = b.emit(op("Subtract"), highest, lowest)
        step = b.emit(op("Divide"), span, b.constant(np.float32(255), "f32"))
        scale = b.emit(op("Select"), b.emit(op("Equal"), span, zero), b.constant(np.float32(1), "f32"), step)
        below = b.emit(op("Round"), b.emit(op("Divide"), b.emit(op("Subtract"), zero, lowest), scale))
        zero_point = b.emit(op("Clamp", min=0, max=255), below)
        level = b.emit(op("Add"), b.emit(op("Round"), b.emit(op("Divide"), v, scale)), zero_point)
        centred = b.emit(op("Subtract"), b.emit(op("Clamp", min=0, max=255), level), zero_point)
        product = b.emit(op("MatMul"), centred, b.constant(normal(40, 9), "f32"))
        return [centred, b.emit(op("Multiply"), product, scale), zero_point if reads_zero_point else scale]

    compiled = alike(model_of(make, [x]), [x])
    steps = [row.type for row in compiled.profile([x]).by_type()]
    assert ("ReduceMax" in steps) is reads_zero_point


def test_squeeze_and_excitation() -> None:
    x = image(2, 32, 14, 14)

    def make(b: Builder, v: Output) -> Output:
        v = b.emit(op("Swish"), convolve(b, v, 32))
        mean = b.emit(op("ReduceMean", keep_dims=True), v, b.constant([2, 3]))
        gate = b.emit(op("Sigmoid"), biased(b, convolve(b, mean, 32)))
        return b.emit(op("Multiply"), v, gate)

    alike(model_of(make, [x]), [x])


def test_layer_normalisation_of_channels() -> None:
    x = image(1, 24, 9, 11)

    def make(b: Builder, v: Output) -> Output:
        turned = b.emit(op("Transpose"), convolve(b, v, 24, 3), b.constant([0, 2, 3, 1]))
        made = b.emit(op("MVN", eps=1e-5, eps_mode="INSIDE_SQRT", normalize_variance=True), turned, b.constant([-1]))
        made = b.emit(
            op("Add"), b.emit(op("Multiply"), made, b.constant(normal(24), "f32")), b.constant(normal(24), "f32")
        )
        return b.emit(op("Transpose"), made, b.constant([0, 3, 1, 2]))

    alike(model_of(make, [x]), [x])


@pytest.mark.parametrize("groups", [1, 2, 6, 24])
@pytest.mark.parametrize("mode", ["INSIDE_SQRT", "OUTSIDE_SQRT"])
@pytest.mark.parametrize("dimensions", [(9, 11), (1, 1), (60, 50)])
def test_normalisation_of_groups_of_channels(groups: int, mode: str, dimensions: tuple[int, int]) -> None:
    x = image(2, 5, *dimensions)

    def normalised(b: Builder, v: Output) -> Output:
        apart = b.emit(op("Reshape"), v, b.constant([2, groups, -1]))
        made = b.emit(op("MVN", eps=1e-3, eps_mode=mode, normalize_variance=True), apart, b.constant([-1]))
        return b.emit(op("Reshape"), made, b.constant([2, 24, *dimensions]))

    def make(b: Builder, v: Output) -> list[Output]:
        first = b.emit(op("ReLU"), biased(b, normalised(b, convolve(b, v, 24, 3))))
        return [normalised(b, first), normalised(b, b.emit(op("Reshape"), first, b.constant([2, 24, *dimensions])))]

    alike(model_of(make, [x]), [x], 2e-5)


@pytest.mark.parametrize("groups", [1, 2, 6, 24])
@pytest.mark.parametrize("dimensions", [(9, 11), (1, 1), (60, 50)])
def test_group_normalization_layers(groups: int, dimensions: tuple[int, int]) -> None:
    """Of channels that lie last in memory, of channels that do not, and as a part of a Concat."""
    x = image(2, 5, *dimensions)

    def normalised(b: Builder, v: Output) -> Output:
        scale, bias = (b.constant(normal(24), "f32") for _ in range(2))
        return b.emit(op("GroupNormalization", num_groups=groups, epsilon=1e-3), v, scale, bias)

    def make(b: Builder, v: Output) -> list[Output]:
        first = b.emit(op("ReLU"), normalised(b, convolve(b, v, 24, 3)))
        turned = b.emit(op("Reshape"), first, b.constant([2, 24, *dimensions]))
        return [normalised(b, turned), b.emit(op("Concat", axis=1), normalised(b, first), first)]

    alike(model_of(make, [x]), [x], 2e-5)


# --- views and parts ---


def test_parts_of_a_concat() -> None:
    """Written to their places by what makes them; used twice, returned, or of one another they are copied."""
    x = image(1, 8, 12, 10)

    def make(b: Builder, v: Output) -> list[Output]:
        a, c = b.emit(op("ReLU"), convolve(b, v, 8)), convolve(b, v, 24, 3)
        one = b.emit(op("Concat", axis=1), a, c)
        d = b.emit(op("ReLU"), convolve(b, one, 16))
        two = b.emit(op("Concat", axis=1), a, c, d)
        three = b.emit(op("Concat", axis=1), d, d, two, v)
        e = biased(b, convolve(b, three, 4))
        returned = b.emit(op("Concat", axis=1), e, convolve(b, two, 2))
        return [returned, e, b.emit(op("Tanh"), one)]

    alike(model_of(make, [x]), [x])


def test_a_shuffle_of_channels() -> None:
    x = image(2, 8, 6, 5)

    def make(b: Builder, v: Output) -> Output:
        halves = b.emit_all(op("Split", num_splits=2), convolve(b, v, 16, 3), b.constant(1))
        joined = b.emit(op("Concat", axis=1), halves[0], b.emit(op("ReLU"), convolve(b, halves[1], 8)))
        apart = b.emit(op("Reshape"), joined, b.constant([2, 2, 8, 6, 5]))
        turned = b.emit(op("Transpose"), apart, b.constant([0, 2, 1, 3, 4]))
        return convolve(b, b.emit(op("Reshape"), turned, b.constant([2, 16, 6, 5])), 8)

    alike(model_of(make, [x]), [x])


def test_attention_from_its_parts() -> None:
    x = normal(2, 30, 32)

    def make(b: Builder, v: Output) -> Output:
        made = b.emit(
            op("Reshape"), b.emit(op("MatMul"), v, b.constant(normal(32, 96), "f32")), b.constant([2, 30, 3, 4, 8])
        )
        turned = b.emit(op("Transpose"), made, b.constant([2, 0, 3, 1, 4]))
        q, k, w = (b.emit(op("Gather"), turned, b.constant(i), b.constant(0)) for i in range(3))
        scores = b.emit(op("MatMul", transpose_b=True), b.emit(op("Multiply"), q, b.constant(0.35, "f32")), k)
        mixed = b.emit(op("MatMul"), b.emit(op("SoftMax", axis=-1), scores), w)
        back = b.emit(op("Reshape"), b.emit(op("Transpose"), mixed, b.constant([0, 2, 1, 3])), b.constant([2, 30, 32]))
        return b.emit(op("Add"), b.emit(op("MatMul"), back, b.constant(normal(32, 32), "f32")), v)

    alike(model_of(make, [x]), [x])


def test_flattened_images() -> None:
    x = image(2, 5, 7, 6)
    alike(model_of(lambda b, v: b.emit(op("Reshape"), convolve(b, v, 4, 3), b.constant([2, -1])), [x]), [x])


@pytest.mark.parametrize("mode", ["nearest", "linear", "linear_onnx", "cubic"])
@pytest.mark.parametrize("dimensions", [(14, 18), (5, 31), (7, 9), (200, 3)])
@pytest.mark.parametrize("laid_out", ["as the input", "by a convolution"])
def test_resizing(mode: str, dimensions: tuple[int, int], laid_out: str) -> None:
    x = image(2, 3, 7, 9)

    def make(b: Builder, v: Output) -> Output:
        v = convolve(b, v, 5) if laid_out == "by a convolution" else v
        made = op("Interpolate", 11, mode=mode, shape_calculation_mode="sizes")
        return b.emit(op("ReLU"), b.emit(made, v, b.constant(list(dimensions)), b.constant([2, 3])))

    alike(model_of(make, [x]), [x])


def test_padding_and_picking() -> None:
    x = image(1, 4, 6, 5)

    def make(b: Builder, v: Output) -> list[Output]:
        v = convolve(b, v, 6)
        padded = b.emit(
            op("Pad", pad_mode="constant"),
            v,
            b.constant([0, 1, 0, 2]),
            b.constant([0, 0, 3, 1]),
            b.constant(2.5, "f32"),
        )
        return [
            padded,
            b.emit(op("Gather"), v, b.constant([[3, -1], [0, 0]]), b.constant(1)),
            b.emit(op("Gather"), v, b.constant(-2), b.constant(3)),
        ]

    alike(model_of(make, [x]), [x])


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

    def make(b: Builder, v: Output) -> Output:
        held = b.tensor(Tensor.from_array(table, element_types.from_dtype(kind)))
        return b.emit(op("Gather"), held, b.constant(picked) if known else v, b.constant(axis))

    model = model_of(make, [picked])
    (found,) = alike(model, [picked])([picked]).to_list()
    np.testing.assert_array_equal(found, np.take(table, picked, axis))


@pytest.mark.parametrize("rounding", ["floor", "ceil"])
@pytest.mark.parametrize("name", ["AvgPool", "AvgPool excluding", "MaxPool"])
@pytest.mark.parametrize("dimensions", [(33, 20), (20,), (7, 9, 8)])
def test_pooling(name: str, rounding: str, dimensions: tuple[int, ...]) -> None:
    x = image(2, 5, *dimensions)
    rank = len(dimensions)
    attributes: dict[str, Any] = {
        "kernel": [3] * rank,
        "strides": [2] * rank,
        "pads_begin": [1] * rank,
        "pads_end": [0] * rank,
    }
    if name != "MaxPool":
        attributes["exclude_pad"] = "excluding" in name
    made = op(name.split()[0], 14, rounding_type=rounding, **attributes)
    model = model_of(lambda b, v: b.emit(made, v), [x])
    alike(model, [x])
    x[0, 0, 4] = np.nan
    x[0, 1, 3] = -np.inf
    alike(model, [x], fallbacks=["MaxPool"] if name == "MaxPool" else [])


def test_indices_that_nobody_reads_are_left_out() -> None:
    x = image(1, 2, 6, 7, 8)
    made = op(
        "MaxPool", 14, kernel=[2, 2, 2], strides=[1, 1, 1], dilations=[2, 2, 2], pads_begin=[0] * 3, pads_end=[0] * 3
    )
    alike(model_of(lambda b, v: b.emit_all(made, v)[0], [x]), [x])


# --- numbers and shapes ---


def test_numbers_that_are_none() -> None:
    x = image(1, 4, 9, 9)
    x[0, 0, 4, 4], x[0, 1, 0, 0], x[0, 2, 8, 8] = np.nan, np.inf, -np.inf
    model = model_of(lambda b, v: b.emit(op("ReLU"), biased(b, convolve(b, v, 6, 3))), [x])
    found, expected = compile_model(model)([x])[0], compile_model(model, optimize=False)([x])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dimensions", [(0, 4, 5, 5), (1, 4, 0, 5)])
def test_nothing_at_all(dimensions: tuple[int, ...]) -> None:
    x = image(*dimensions)

    def make(b: Builder, v: Output) -> Output:
        made = b.emit(op("Add"), b.emit(op("ReLU"), v), b.constant(normal(1, 4, 1, 1), "f32"))
        return b.emit(op("Concat", axis=1), b.emit(op("Transpose"), made, b.constant([0, 1, 2, 3])), v)

    same(model_of(make, [x]), [x], kernels=None)


def test_other_shapes_between_calls() -> None:
    x = image(1, 4, 8, 8)

    def make(b: Builder, v: Output) -> list[Output]:
        made = b.emit(op("Convolution", pads_begin=[1, 1], pads_end=[1, 1]), v, b.constant(normal(6, 4, 3, 3), "f32"))
        flat = b.emit(op("Reshape", special_zero=True), made, b.constant([0, 6, -1]))
        return [flat, b.emit(op("ShapeOf"), flat), b.emit(op("ReLU"), made)]

    model = model_of(make, [x], open_=True)
    fast, slow = compile_model(model), compile_model(model, optimize=False)
    for dimensions in [
        (1, 8, 8),
        (1, 8, 8),
        (2, 5, 7),
        (1, 8, 8),
        (2, 5, 7),
        (2, 5, 7),
        (0, 5, 7),
        (0, 5, 7),
        (3, 9, 1),
        (3, 9, 1),
    ]:
        x = image(dimensions[0], 4, *dimensions[1:])
        for found, expected in zip(fast([x]).to_list(), slow([x]).to_list()):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert has_static_plans(fast)


def test_values_of_dynamic_dimensions() -> None:
    x = normal(4, 6)

    def make(b: Builder, v: Output) -> list[Output]:
        a = b.emit(op("Tanh"), v)
        places = b.emit(op("NonZero"), b.emit(op("ReLU"), a))
        picked = b.emit(op("GatherND"), a, b.emit(op("Transpose"), places, b.constant([1, 0])))
        joined = b.emit(op("Concat", axis=0), b.emit(op("Exp"), picked), b.emit(op("Reshape"), a, b.constant([24])))
        return [joined, places, b.emit(op("Add"), b.emit(op("Exp"), a), v)]

    model = model_of(make, [x])
    alike(model, [x])
    fast, slow = compile_model(model), compile_model(model, optimize=False)
    for _ in range(3):
        x = normal(4, 6)
        for found, expected in zip(fast([x]).to_list(), slow([x]).to_list()):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert has_static_plans(fast)


def test_results_are_nobody_elses() -> None:
    x = image(1, 4, 6, 6)
    compiled = compile_model(
        model_of(lambda b, v: [v, convolve(b, v, 4), b.emit(op("Transpose"), v, b.constant([1, 0, 2, 3]))], [x])
    )
    first = compiled([x]).to_list()
    kept = [one.copy() for one in first]
    compiled([image(1, 4, 6, 6)])
    for one, before in zip(first, kept):
        np.testing.assert_array_equal(one, before)
        assert one.flags.writeable
        assert one.flags.c_contiguous
        one[...] = 0
    np.testing.assert_array_equal(compiled([x])[1], kept[1])


def test_an_error_says_where_it_is_from() -> None:
    x = np.array([1, 2])
    model = model_of(lambda b, v: b.emit(op("Gather"), b.constant(normal(5, 3), "f32"), v, b.constant(0)), [x])
    compiled = compile_model(model)
    with pytest.raises(ModelError, match=r"layer .*Gather.*out of bounds"):
        compiled([np.array([1, 7])])
    np.testing.assert_array_equal(compiled([x])[0], compile_model(model, optimize=False)([x])[0])
    assert has_static_plans(compiled)


def test_threads_at_the_same_time() -> None:
    images = [image(1, 8, 30, 31) for _ in range(6)]
    model = model_of(lambda b, v: b.emit(op("ReLU"), biased(b, convolve(b, v, 16, 3))), images[:1], open_=False)
    called_at_once(compile_model(model), images, 15)


@pytest.mark.parametrize("name", ["ReduceMean", "ReduceSum"])
@pytest.mark.parametrize("keep_dims", [False, True])
def test_a_reduction_into_a_part_of_a_concat(name: str, keep_dims: bool) -> None:
    """The part is a matrix whose rows are apart in memory, so that no vector of it exists."""
    inputs = [normal(8, 8, 8), normal(8, 3, 1) if keep_dims else normal(8, 3)]

    def make(b: Builder, x: Output, y: Output) -> list[Output]:
        reduced = b.emit(op(name, keep_dims=keep_dims), x, b.constant([2]))
        return [b.emit(op("Concat", axis=1), y, reduced)]

    alike(model_of(make, inputs), inputs)


# --- layers of other types ---

WHOLE = [np.arange(-6, 6).reshape(shape) for shape in [(3, 4), (1, 12), (12,)]]
TRUTH = [np.arange(12).reshape(3, 4) % 3 == 0, np.arange(4) % 2 == 0]
FUNCTIONS = [
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
]


@pytest.mark.parametrize(("name", "inputs"), FUNCTIONS, ids=lambda one: one if isinstance(one, str) else "")
@pytest.mark.parametrize("joined", [False, True])
def test_functions_of_any_type(name: str, inputs: list[Any], joined: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [np.asarray(value) for value in inputs]
    layer = op(name)

    def make(b: Builder, *values: Output) -> Output:
        made = b.emit(layer, *values)
        # A part of a Concat's output has other strides.
        return b.emit(op("Concat", axis=-1), made, made) if joined and made.shape.rank else made

    model = model_of(make, inputs)
    alike(model, inputs)
    expected = compile_model(model, optimize=False)(inputs)[0]
    compiled = compile_model(model)
    monkeypatch.setattr(type(layer), "evaluate", None)
    np.testing.assert_array_equal(compiled(inputs)[0], expected)


@pytest.mark.parametrize("name", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("axes", [[0], [-1, 0], [1], []])
@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_extremes(name: str, axes: list[int], keep_dims: bool, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = (5 * normal(3, 1, 4)).astype(kind)
    if kind is np.float32:
        x[0, 0, 1] = np.nan
    layer = op(name, keep_dims=keep_dims)
    model = model_of(lambda b, v: b.emit(layer, v, b.constant(np.array(axes, np.int64))), [x])
    alike(model, [x])
    expected = compile_model(model, optimize=False)([x])[0]
    compiled = compile_model(model)
    monkeypatch.setattr(type(layer), "evaluate", None)
    np.testing.assert_array_equal(compiled([x])[0], expected)
