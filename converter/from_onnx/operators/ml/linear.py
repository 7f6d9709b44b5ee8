"""``ai.onnx.ml``: scaling, encoding and linear models on numbers.

Labels and categories may be numbers only, for the IR's layers do not compute with strings.
https://onnx.ai/onnx/operators/#ai-onnx-ml
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from converter.from_onnx.lowering import label_scores
from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.domains import ML
from converter.onnx_file.messages import TensorProto
from ir_runtime.graph import Output, element_types
from ir_runtime.operations import elementwise, movement, reduction
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.expressions import Expression, concat, where
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import as_list

_F32 = element_types.f32

Real = Sequence[float] | None
Whole = Sequence[int] | None


def _row(ctx: Context, x: Expression, values: Sequence[float], name: str) -> Expression:
    """One number, or one for each feature."""
    declared = ctx.declared(x.value).shape
    dimension = declared.dims[-1] if declared.has_rank and declared.rank else None
    if len(values) != 1 and dimension is not None and not dimension.contains(len(values)):
        raise ctx.invalid(
            f"{name} must have one number, or one for each of {dimension} features, but has {len(values)}"
        )
    return x.of(values)


# --- features ---


@onnx_op("Scaler", domain=ML, versions=(1,))
def scaler(ctx: Context, x: Expression, *, offset: Real = None, scale: Real = None) -> Expression:
    """(x - offset) scale."""
    scaled = label_scores.real(x)
    if offset:
        scaled = scaled - _row(ctx, scaled, offset, "offset")
    if scale:
        scaled = scaled * _row(ctx, scaled, scale, "scale")
    return scaled.as_type("f32")


@onnx_op("Binarizer", domain=ML, versions=(1,))
def binarizer(ctx: Context, x: Expression, *, threshold: float = 0.0) -> Expression:
    """1 where x is above the threshold, else 0."""
    wide = x if x.element_type.is_real else x.as_type("f64")
    return wide.greater(threshold).as_type(x.element_type)


@onnx_op("Normalizer", domain=ML, versions=(1,))
def normalizer(ctx: Context, x: Expression, *, norm: Literal["MAX", "L1", "L2"] = "MAX") -> Expression:
    """Each row divided by its greatest element, its sum of magnitudes, or the root of its sum of squares."""
    rank = ctx.rank(x.value, "the input", 1, 2)
    reductions = {"MAX": reduction.ReduceMax1, "L1": reduction.ReduceL1_4, "L2": reduction.ReduceL2_4}
    wide = label_scores.real(x)
    size = wide.emit(reductions[norm](keep_dims=True), wide.of([rank - 1], "i64"))
    return (wide / where(size.equal(0), size.of(1), size)).as_type("f32")


@onnx_op("Imputer", domain=ML, versions=(1,))
def imputer(
    ctx: Context,
    x: Expression,
    *,
    imputed_value_floats: Real = None,
    imputed_value_int64s: Whole = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Expression:
    """x with ``replaced_value`` (which may be NaN) replaced by one value, or by one for each feature."""
    if x.element_type.is_real:
        if not imputed_value_floats:
            raise ctx.invalid("imputed_value_floats is missing, which real numbers are replaced by")
        values = _row(ctx, x, imputed_value_floats, "imputed_value_floats")
        is_nan = np.isnan(replaced_value_float)
        return where(x.emit(elementwise.IsNaN10()) if is_nan else x.equal(replaced_value_float), values, x)
    if not imputed_value_int64s:
        raise ctx.invalid("imputed_value_int64s is missing, which integers are replaced by")
    values = _row(ctx, x, imputed_value_int64s, "imputed_value_int64s")
    return where(x.equal(replaced_value_int64), values, x)


@onnx_op("FeatureVectorizer", domain=ML, versions=(1,))
def feature_vectorizer(ctx: Context, *inputs: Output, inputdimensions: Whole = None) -> Output:
    """Features ``[n, f]`` of several inputs in one, as float32; a list is one row."""
    parts = []
    for index, value in enumerate(inputs):
        part = in_type(ctx, value, _F32)
        if ctx.rank(value, f"input {index}") == 1:
            part = layers.unsqueeze(ctx, part, 0)
        expected = inputdimensions[index] if inputdimensions and index < len(inputdimensions) else None
        if expected is not None and not ctx.declared(part).shape[1].contains(expected):
            raise ctx.invalid(f"input {index} should have {expected} features, but is {ctx.declared(value).shape}")
        parts.append(part)
    return parts[0] if len(parts) == 1 else ctx.emit(movement.Concat1(axis=1), *parts)


@onnx_op("ArrayFeatureExtractor", domain=ML, versions=(1,))
def array_feature_extractor(ctx: Context, x: Expression, y: Expression) -> Expression:
    """The elements along the last dimension that ``y`` lists; a list becomes a row."""
    rank = ctx.rank(x.value, "the input")
    picked = x.gather(Expression(ctx, as_list(ctx, y.value)), rank - 1)
    return picked.unsqueeze(0) if rank == 1 else picked


# --- categories ---


@onnx_op("OneHotEncoder", domain=ML, versions=(1,))
def one_hot_encoder(
    ctx: Context,
    x: Expression,
    *,
    cats_int64s: Whole = None,
    cats_strings: Sequence[str] | None = None,
    zeros: int = 1,
) -> Expression:
    """A further dimension that has 1 at the category, and 0 elsewhere."""
    label_scores.no_strings(ctx, cats_strings=cats_strings)
    if not cats_int64s:
        raise ctx.invalid("cats_int64s is missing")
    if not zeros:
        raise ctx.unsupported(
            "zeros=0 asks for an error where a category is missing, but no layer of the IR fails on a value"
        )
    return x.as_type("i64").unsqueeze(ctx.rank(x.value, "the input")).equal(cats_int64s).as_type("f32")


def _encoded(ctx: Context, x: Expression, keys: Expression, values: Expression, default: Expression) -> Expression:
    """The value of the first key that equals x, by comparing each element with every key."""
    if any(operand.element_type is element_types.string for operand in (x, keys, values)):
        raise ctx.unsupported("labels that are strings are not supported: the IR's layers do not compute with them")
    key_values, results = ctx.known(keys.value, "the keys"), values.value.shape[0].value
    count = len(key_values)
    if results != count:
        raise ctx.invalid(f"there are {count} keys, but {results} values")
    if keys.element_type is not x.element_type:
        raise ctx.invalid(f"the keys are {keys.element_type}, but the input is {x.element_type}")
    column = x.unsqueeze(ctx.rank(x.value, "the input"))
    is_match = column.equal(keys)
    if x.element_type.is_real and np.isnan(key_values).any():
        is_match = is_match | (column.emit(elementwise.IsNaN10()) & np.isnan(key_values))
    # The number of the first key that is equal; the count of keys where none is.
    first = where(is_match, is_match.of(np.arange(count), "i64"), count).min(-1)
    return concat([values, Expression(ctx, as_list(ctx, default.value))], 0).gather(first)


@onnx_op("LabelEncoder", domain=ML, versions=(1,))
def label_encoder_1(
    ctx: Context,
    x: Expression,
    *,
    classes_strings: Sequence[str] | None = None,
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Expression:
    """Strings to their places in a list, or back."""
    raise ctx.unsupported("labels are strings in this version, with which the IR's layers do not compute")


def _listed(ctx: Context, name: str, floats: Real, whole: Whole, tensor: TensorProto | None) -> Expression:
    if tensor is None and not floats and not whole:
        raise ctx.invalid(f"the {name} are missing")
    value = ctx.constant(floats or whole, "f32" if floats else "i64") if tensor is None else ctx.stored(tensor)
    return Expression(ctx, value)


@onnx_op("LabelEncoder", domain=ML, versions=(2,), without=("default_tensor", "keys_tensor", "values_tensor"))
@onnx_op("LabelEncoder", domain=ML, versions=(4,))
def label_encoder(
    ctx: Context,
    x: Expression,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: TensorProto | None = None,
    keys_floats: Real = None,
    keys_int64s: Whole = None,
    keys_strings: Sequence[str] | None = None,
    keys_tensor: TensorProto | None = None,
    values_floats: Real = None,
    values_int64s: Whole = None,
    values_strings: Sequence[str] | None = None,
    values_tensor: TensorProto | None = None,
) -> Expression:
    """Each number's value in a table."""
    label_scores.no_strings(ctx, keys_strings=keys_strings, values_strings=values_strings)
    keys = _listed(ctx, "keys", keys_floats, keys_int64s, keys_tensor)
    values = _listed(ctx, "values", values_floats, values_int64s, values_tensor)
    if default_tensor is not None:
        default = Expression(ctx, ctx.stored(default_tensor)).as_type(values.element_type)
    else:
        default = values.of(default_float if values.element_type.is_real else default_int64)
    if not keys.rank == values.rank == 1:
        raise ctx.invalid(f"keys and values must be lists, but are {keys.value.shape} and {values.value.shape}")
    return _encoded(ctx, x, keys, values, default)


# --- linear models ---


def _linear(ctx: Context, x: Expression, coefficients: Sequence[float], intercepts: Real, count: int) -> Expression:
    """``[n, count]`` scores of features ``[n, f]``."""
    if count < 1 or not coefficients or len(coefficients) % count:
        raise ctx.invalid(f"{len(coefficients)} coefficients cannot be shared by {count} scores")
    wide = (x.unsqueeze(0) if ctx.rank(x.value, "the input") == 1 else x).as_type("f32")
    scores = wide.matmul(wide.of(np.reshape(coefficients, (count, -1))), transpose_b=True)
    if not intercepts:
        return scores
    if len(intercepts) not in (1, count):
        raise ctx.invalid(f"there are {len(intercepts)} intercepts for {count} scores")
    return scores + intercepts


@onnx_op("LinearRegressor", domain=ML, versions=(1,))
def linear_regressor(
    ctx: Context,
    x: Expression,
    *,
    coefficients: Real = None,
    intercepts: Real = None,
    post_transform: str = "NONE",
    targets: int = 1,
) -> Expression:
    """Linear functions of the features."""
    return label_scores.transformed(ctx, _linear(ctx, x, coefficients or (), intercepts, targets), post_transform)


@onnx_op("LinearClassifier", domain=ML, versions=(1,))
def linear_classifier(
    ctx: Context,
    x: Expression,
    *,
    classlabels_ints: Whole = None,
    classlabels_strings: Sequence[str] | None = None,
    coefficients: Sequence[float],
    intercepts: Real = None,
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Expression, Expression]:
    """The label of the greatest of the linear scores, and the scores.

    With a single score for two labels the second one is chosen where it is positive.
    """
    label_scores.no_strings(ctx, classlabels_strings=classlabels_strings)
    labels = list(classlabels_ints or ())
    count = len(intercepts) if intercepts else len(labels)
    scores = _linear(ctx, x, coefficients, intercepts, count)
    if count > 1:
        if len(labels) != count:
            raise ctx.invalid(f"there are {len(labels)} labels for {count} scores")
        return label_scores.greatest(scores, labels), label_scores.transformed(ctx, scores, post_transform)
    if len(labels) != 2:
        raise ctx.unsupported(f"{len(labels)} labels for a single score are not supported")
    label_scores.refuse_probit_of_two_labels(ctx, post_transform)
    positive = label_scores.chosen(scores.greater(0), labels)
    # onnxruntime turns a single score into a probability, or leaves it.
    keeps_scores = post_transform in ("NONE", "SOFTMAX", "SOFTMAX_ZERO")
    result = scores if keeps_scores else label_scores.transformed(ctx, scores, post_transform)
    return positive, concat([1 - result, result], 1)
