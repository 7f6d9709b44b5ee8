"""``ai.onnx.ml``: scaling, encoding and linear models on numbers.

Labels and categories may be numbers only, for the IR's layers do not compute with strings.
https://onnx.ai/onnx/operators/#ai-onnx-ml
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.from_onnx.lowering.label_scores import chosen, greatest, no_strings, of_two_shares, real, transformed
from converter.from_onnx.translation.context import Context
from converter.from_onnx.translation.registry import onnx_op
from converter.onnx_file.domains import ML
from converter.onnx_file.messages import TensorProto
from ir_runtime.graph import Output, element_types
from ir_runtime.operations import elementwise, matmul, movement, reduction
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import as_i64, as_list

_F32 = element_types.f32


def _row(ctx: Context, x: Output, values: Sequence[float], name: str) -> Output:
    """One number, or one for each feature."""
    declared = ctx.declared(x).shape
    dimension = declared.dims[-1] if declared.has_rank and declared.rank else None
    if len(values) != 1 and dimension is not None and not dimension.contains(len(values)):
        raise ctx.invalid(
            f"{name} must have one number, or one for each of {dimension} features, but has {len(values)}"
        )
    return ctx.constant(list(values), x.element_type)


# --- features ---


@onnx_op("Scaler", domain=ML, versions=(1,))
def scaler(
    ctx: Context, x: Output, *, offset: Sequence[float] | None = None, scale: Sequence[float] | None = None
) -> Output:
    """(x - offset) scale."""
    scaled = real(ctx, x)
    if offset:
        scaled = layers.subtract(ctx, scaled, _row(ctx, scaled, offset, "offset"))
    if scale:
        scaled = layers.multiply(ctx, scaled, _row(ctx, scaled, scale, "scale"))
    return in_type(ctx, scaled, _F32)


@onnx_op("Binarizer", domain=ML, versions=(1,))
def binarizer(ctx: Context, x: Output, *, threshold: float = 0.0) -> Output:
    """1 where x is above the threshold, else 0."""
    wide = x if x.element_type.is_real else in_type(ctx, x, element_types.f64)
    above = layers.greater(ctx, wide, ctx.like(threshold, wide))
    return in_type(ctx, above, x.element_type)


@onnx_op("Normalizer", domain=ML, versions=(1,))
def normalizer(ctx: Context, x: Output, *, norm: str = "MAX") -> Output:
    """Each row divided by its greatest element, its sum of magnitudes, or the root of its sum of squares."""
    rank = ctx.rank(x, "the input")
    if rank not in (1, 2):
        raise ctx.invalid(f"the input must be a list or a matrix, but has the shape {x.shape}")
    kinds = {"MAX": reduction.ReduceMax1, "L1": reduction.ReduceL1_4, "L2": reduction.ReduceL2_4}
    if norm not in kinds:
        raise ctx.invalid(f"norm must be MAX, L1 or L2, but is '{norm}'")
    wide = real(ctx, x)
    size = ctx.emit(kinds[norm](keep_dims=True), wide, ctx.constant([rank - 1]))
    none = layers.equal(ctx, size, ctx.like(0, size))
    size = layers.select(ctx, none, ctx.like(1, size), size)
    return in_type(ctx, layers.divide(ctx, wide, size), _F32)


@onnx_op("Imputer", domain=ML, versions=(1,))
def imputer(
    ctx: Context,
    x: Output,
    *,
    imputed_value_floats: Sequence[float] | None = None,
    imputed_value_int64s: Sequence[int] | None = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Output:
    """x with ``replaced_value`` (which may be NaN) replaced by one value, or by one for each feature."""
    if x.element_type.is_real:
        if not imputed_value_floats:
            raise ctx.invalid("imputed_value_floats is missing, which real numbers are replaced by")
        values = _row(ctx, x, imputed_value_floats, "imputed_value_floats")
        if np.isnan(replaced_value_float):
            return layers.select(ctx, ctx.emit(elementwise.IsNaN10(), x), values, x)
        found = layers.equal(ctx, x, ctx.like(replaced_value_float, x))
        return layers.select(ctx, found, values, x)
    if not imputed_value_int64s:
        raise ctx.invalid("imputed_value_int64s is missing, which integers are replaced by")
    values = _row(ctx, x, imputed_value_int64s, "imputed_value_int64s")
    return layers.select(ctx, layers.equal(ctx, x, ctx.like(replaced_value_int64, x)), values, x)


@onnx_op("FeatureVectorizer", domain=ML, versions=(1,))
def feature_vectorizer(ctx: Context, *inputs: Output, inputdimensions: Sequence[int] | None = None) -> Output:
    """Features ``[n, f]`` of several inputs in one, as float32; a list is one row."""
    parts = []
    for index, value in enumerate(inputs):
        part = in_type(ctx, value, _F32)
        if ctx.rank(value, f"input {index}") == 1:
            part = layers.unsqueeze(ctx, part, 0)
        wanted = inputdimensions[index] if inputdimensions and index < len(inputdimensions) else None
        if wanted is not None and not ctx.declared(part).shape[1].contains(wanted):
            raise ctx.invalid(f"input {index} should have {wanted} features, but is {ctx.declared(value).shape}")
        parts.append(part)
    return parts[0] if len(parts) == 1 else ctx.emit(movement.Concat1(axis=1), *parts)


@onnx_op("ArrayFeatureExtractor", domain=ML, versions=(1,))
def array_feature_extractor(ctx: Context, x: Output, y: Output) -> Output:
    """The elements along the last dimension that ``y`` lists; a list becomes a row."""
    rank = ctx.rank(x, "the input")
    picked = layers.gather(ctx, x, as_list(ctx, y), ctx.constant(rank - 1))
    return layers.unsqueeze(ctx, picked, 0) if rank == 1 else picked


# --- categories ---


@onnx_op("OneHotEncoder", domain=ML, versions=(1,))
def one_hot_encoder(
    ctx: Context,
    x: Output,
    *,
    cats_int64s: Sequence[int] | None = None,
    cats_strings: Sequence[str] | None = None,
    zeros: int = 1,
) -> Output:
    """A further dimension that has 1 at the category, and 0 elsewhere."""
    no_strings(ctx, cats_strings=cats_strings)
    if not cats_int64s:
        raise ctx.invalid("cats_int64s is missing")
    if not zeros:
        raise ctx.unsupported(
            "zeros=0 asks for an error where a category is missing, but no layer of the IR fails on a value"
        )
    column = ctx.emit(movement.Unsqueeze1(), as_i64(ctx, x), ctx.constant([ctx.rank(x, "the input")]))
    return in_type(ctx, layers.equal(ctx, column, ctx.constant(list(cats_int64s))), _F32)


def _encoded(ctx: Context, x: Output, keys: Output, values: Output, default: Output) -> Output:
    """The value of the first key that equals x, by comparing each element with every key."""
    if any(value.element_type is element_types.string for value in (x, keys, values)):
        raise ctx.unsupported("labels that are strings are not supported: the IR's layers do not compute with them")
    count = keys.shape[0].value
    if values.shape[0].value != count:
        raise ctx.invalid(f"there are {count} keys, but {values.shape[0].value} values")
    if keys.element_type is not x.element_type:
        raise ctx.invalid(f"the keys are {keys.element_type}, but the input is {x.element_type}")
    column = layers.unsqueeze(ctx, x, ctx.rank(x, "the input"))
    found = layers.equal(ctx, column, keys)
    nan = ctx.known(keys, "the keys")
    if x.element_type.is_real and np.isnan(nan).any():
        both = ctx.emit(
            elementwise.LogicalAnd1(), ctx.emit(elementwise.IsNaN10(), column), ctx.constant(np.isnan(nan), "boolean")
        )
        found = layers.logical_or(ctx, found, both)
    # The number of the first key that is equal; the count of keys where none is.
    places = layers.select(ctx, found, ctx.constant(np.arange(count)), ctx.constant(count))
    first = ctx.emit(reduction.ReduceMin1(keep_dims=False), places, ctx.constant([-1]))
    table = ctx.emit(movement.Concat1(axis=0), values, as_list(ctx, default))
    return layers.gather(ctx, table, first, ctx.constant(0))


@onnx_op("LabelEncoder", domain=ML, versions=(1,))
def label_encoder_1(
    ctx: Context,
    x: Output,
    *,
    classes_strings: Sequence[str] | None = None,
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Output:
    """Strings to their places in a list, or back."""
    raise ctx.unsupported("labels are strings in this version, with which the IR's layers do not compute")


@onnx_op("LabelEncoder", domain=ML, versions=(2,))
def label_encoder_2(
    ctx: Context,
    x: Output,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    keys_floats: Sequence[float] | None = None,
    keys_int64s: Sequence[int] | None = None,
    keys_strings: Sequence[str] | None = None,
    values_floats: Sequence[float] | None = None,
    values_int64s: Sequence[int] | None = None,
    values_strings: Sequence[str] | None = None,
) -> Output:
    """Each number's value in a table."""
    no_strings(ctx, keys_strings=keys_strings, values_strings=values_strings)
    keys = _listed(ctx, "keys", keys_floats, keys_int64s)
    values = _listed(ctx, "values", values_floats, values_int64s)
    return _encoded(ctx, x, keys, values, ctx.like(default_float if values_floats else default_int64, values))


def _listed(ctx: Context, name: str, floats: Sequence[float] | None, whole: Sequence[int] | None) -> Output:
    if floats:
        return ctx.constant(list(floats), "f32")
    if whole:
        return ctx.constant(list(whole))
    raise ctx.invalid(f"the {name} are missing")


@onnx_op("LabelEncoder", domain=ML, versions=(4,))
def label_encoder_4(
    ctx: Context,
    x: Output,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: TensorProto | None = None,
    keys_floats: Sequence[float] | None = None,
    keys_int64s: Sequence[int] | None = None,
    keys_strings: Sequence[str] | None = None,
    keys_tensor: TensorProto | None = None,
    values_floats: Sequence[float] | None = None,
    values_int64s: Sequence[int] | None = None,
    values_strings: Sequence[str] | None = None,
    values_tensor: TensorProto | None = None,
) -> Output:
    """Adds tables of other types."""
    no_strings(ctx, keys_strings=keys_strings, values_strings=values_strings)
    keys = _listed(ctx, "keys", keys_floats, keys_int64s) if keys_tensor is None else ctx.stored(keys_tensor)
    if values_tensor is None:
        values = _listed(ctx, "values", values_floats, values_int64s)
    else:
        values = ctx.stored(values_tensor)
    if default_tensor is not None:
        default = in_type(ctx, ctx.stored(default_tensor), values.element_type)
    else:
        default = ctx.like(default_float if values.element_type.is_real else default_int64, values)
    if not keys.shape.rank == values.shape.rank == 1:
        raise ctx.invalid(f"keys and values must be lists, but are {keys.shape} and {values.shape}")
    return _encoded(ctx, x, keys, values, default)


# --- linear models ---


def _linear(
    ctx: Context, x: Output, coefficients: Sequence[float], intercepts: Sequence[float] | None, count: int
) -> Output:
    """``[n, count]`` scores of features ``[n, f]``."""
    if count < 1 or not coefficients or len(coefficients) % count:
        raise ctx.invalid(f"{len(coefficients)} coefficients cannot be shared by {count} scores")
    if ctx.rank(x, "the input") == 1:
        x = layers.unsqueeze(ctx, x, 0)
    wide = in_type(ctx, x, _F32)
    weights = ctx.constant(np.reshape(coefficients, (count, -1)), _F32)
    made = ctx.emit(matmul.MatMul1(transpose_b=True), wide, weights)
    if not intercepts:
        return made
    if len(intercepts) not in (1, count):
        raise ctx.invalid(f"there are {len(intercepts)} intercepts for {count} scores")
    return layers.add(ctx, made, ctx.constant(list(intercepts), _F32))


@onnx_op("LinearRegressor", domain=ML, versions=(1,))
def linear_regressor(
    ctx: Context,
    x: Output,
    *,
    coefficients: Sequence[float] | None = None,
    intercepts: Sequence[float] | None = None,
    post_transform: str = "NONE",
    targets: int = 1,
) -> Output:
    """Linear functions of the features."""
    return transformed(ctx, _linear(ctx, x, coefficients or (), intercepts, targets), post_transform)


@onnx_op("LinearClassifier", domain=ML, versions=(1,))
def linear_classifier(
    ctx: Context,
    x: Output,
    *,
    classlabels_ints: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    coefficients: Sequence[float],
    intercepts: Sequence[float] | None = None,
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Output, Output]:
    """The label of the greatest of the linear scores, and the scores.

    With a single score for two labels the second one is chosen where it is positive.
    """
    no_strings(ctx, classlabels_strings=classlabels_strings)
    labels = list(classlabels_ints or ())
    count = len(intercepts) if intercepts else len(labels)
    scores = _linear(ctx, x, coefficients, intercepts, count)
    if count > 1:
        if len(labels) != count:
            raise ctx.invalid(f"there are {len(labels)} labels for {count} scores")
        return greatest(ctx, scores, labels), transformed(ctx, scores, post_transform)
    if len(labels) != 2:
        raise ctx.unsupported(f"{len(labels)} labels for a single score are not supported")
    of_two_shares(ctx, post_transform)
    positive = chosen(ctx, layers.greater(ctx, scores, ctx.like(0, scores)), labels)
    # onnxruntime turns a single score into a probability, or leaves it.
    kept = post_transform in ("NONE", "SOFTMAX", "SOFTMAX_ZERO")
    result = scores if kept else transformed(ctx, scores, post_transform)
    other = layers.subtract(ctx, ctx.like(1, result), result)
    return positive, ctx.emit(movement.Concat1(axis=1), other, result)
