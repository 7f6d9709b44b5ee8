"""What a row of the type matrix should give: from onnxruntime, the node suite or ONNX's reference evaluator.

In this order: a formula that stands beside the seed; onnxruntime in the row's own types, or with another
version of the operator that the same node is valid in; the node suite's stored outputs, where nothing
was retyped; onnxruntime in a wider type, rounded to the row's type; ONNX's reference evaluator.
Texts that are only moved come from the same model with numbers, because onnxruntime's Gather and Loop
leave most of the texts that they copy in blocks empty.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, checker, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from converter.equivalence.reference.oracle import session_options
from converter.equivalence.reference.unsigned_operands import with_unsigned_operands
from converter.onnx_file.types import element_type_of
from ir_runtime.graph import ElementType, element_types
from tests.suite.type_matrix import Sample, history, sample

# Opsets that are not released yet are what the newest versions of operators belong to.
os.environ["ALLOW_RELEASED_ONNX_OPSET_ONLY"] = "0"

RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
"""Operators whose values nobody can foretell; their types and shapes are compared."""

CONVERSIONS = ("Cast", "CastLike", "QuantizeLinear")
"""Operators whose result is rounded to the type by a rule of theirs."""

CHANGED_MEANING = ("Softmax", "LogSoftmax", "Hardmax")
"""Operators that mean something else from opset 13 on, and whose older meaning the reference evaluator lacks."""

CHARACTERS = ("Cast", "CastLike", "TfIdfVectorizer")
"""Operators that look into texts."""

Source = Callable[[Sample], list[np.ndarray] | None]
_REFUSALS = (
    RuntimeError, ValueError, TypeError, NotImplementedError, IndexError, KeyError, AttributeError, AssertionError,
)  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """Outputs, and where they come from. Without ``values`` only types and shapes count."""

    outputs: list[np.ndarray]
    source: str
    values: bool = True


def expected(case: Sample) -> Expected | None:
    """What the row's outputs should be; None where nobody can tell."""
    is_random = _is_random(case)
    for source, attempt in _SOURCES.items():
        outputs = [np.asarray(v, np.object_ if np.asarray(v).dtype.kind == "U" else None) for v in attempt(case) or ()]
        if _fits(case.model, outputs):
            return Expected(outputs, source, not is_random)
    if not is_random:
        return None
    shapes = [[dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in case.model.graph.output]
    zeros = [np.zeros(shape, kind.dtype) for shape, kind in zip(shapes, declared(case.model))]
    return Expected(zeros, "declared shapes", False)


def _fits(model: onnx.ModelProto, outputs: Sequence[np.ndarray]) -> bool:
    """Whether the outputs are of the declared types and shapes."""
    dims = [value.type.tensor_type.shape.dim for value in model.graph.output]
    return len(outputs) == len(dims) and all(
        (output.dtype, output.ndim) == (kind.dtype, len(of_output))
        and all(not dim.HasField("dim_value") or dim.dim_value == n for dim, n in zip(of_output, output.shape))
        for output, of_output, kind in zip(outputs, dims, declared(model))
    )


def declared(model: onnx.ModelProto) -> list[ElementType]:
    """The types of the model's outputs."""
    return [element_type_of(value.type.tensor_type.elem_type) for value in model.graph.output]


def _is_random(case: Sample) -> bool:
    row, values = case.row, case.seed.values
    trains = row.operator == "Dropout" and row.version >= 12 and len(values) > 2 and bool(values[2])
    return trains or row.operator in RANDOM


# --- onnxruntime ---


def _onnxruntime(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[np.ndarray] | None:
    """Its answer, types that Python's interface cannot carry being cast around the model."""
    wanted = declared(model)
    wrapped, given = _with_casts(model, feeds)
    options = session_options()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    try:
        serialized = with_unsigned_operands(wrapped).SerializeToString()
        session = onnxruntime.InferenceSession(serialized, options, providers=["CPUExecutionProvider"])
        outputs = session.run(None, given)
    except _REFUSALS:
        return None
    except Exception as error:
        if type(error).__module__.startswith("onnxruntime"):
            return None
        raise
    return [np.asarray(value).astype(kind.dtype) for value, kind in zip(outputs, wanted)]


def _is_plain(kind: ElementType) -> bool:
    return kind.dtype.kind in "biufO" and bool(kind.dtype.isbuiltin)


def _with_casts(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> tuple[onnx.ModelProto, dict[str, Any]]:
    wrapped = onnx.ModelProto()
    wrapped.CopyFrom(model)
    graph, before, after, given = wrapped.graph, list[onnx.NodeProto](), list[onnx.NodeProto](), dict(feeds)
    for values, nodes in ((graph.input, before), (graph.output, after)):
        for value in values:
            name, number = value.name, value.type.tensor_type.elem_type
            kind = element_type_of(number)
            if _is_plain(kind):
                continue
            wide, wide_number = (np.float32, TensorProto.FLOAT) if kind.is_real else (np.int32, TensorProto.INT32)
            value.name, value.type.tensor_type.elem_type = f"{name}_wide", wide_number
            ends = ([value.name], [name], number) if nodes is before else ([name], [value.name], wide_number)
            nodes.append(helper.make_node("Cast", *ends[:2], to=ends[2]))
            if name in given:
                given[value.name] = given.pop(name).astype(wide)
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    return wrapped, given


def _same_types(case: Sample) -> list[np.ndarray] | None:
    return _onnxruntime(case.model, case.feeds)


def _stored(case: Sample) -> list[np.ndarray] | None:
    if case.stored is None or any(isinstance(value, list) for value in case.stored):
        return None
    return [numpy_helper.to_array(v) if isinstance(v, TensorProto) else np.asarray(v) for v in case.stored]


def _formula(case: Sample) -> list[np.ndarray] | None:
    dtype = declared(case.model)[0].dtype
    return case.seed.formula and [case.seed.formula(dtype, *case.seed.values).astype(dtype)]


def _other_version(case: Sample) -> list[np.ndarray] | None:
    """For versions that onnxruntime does not have: those before, and those after in the form they have there."""
    row, schemas = case.row, history()[case.row.operator]
    versions = [schema.since_version for schema in schemas if row.operator not in CHANGED_MEANING]
    for index, version in reversed(list(enumerate(versions))):
        found = None
        if version < row.version:
            model = onnx.ModelProto()
            model.CopyFrom(case.model)
            model.opset_import[0].version = versions[index + 1] - 1  # just before what replaced it
            with contextlib.suppress(checker.ValidationError, onnx.shape_inference.InferenceError):
                checker.check_model(model, full_check=True)
                found = _onnxruntime(model, case.feeds)
        elif version > row.version and (other := _like(case, version=version)) is not None:
            found = _onnxruntime(other.model, case.feeds)
        if found is not None:
            return found
    return None


def _like(case: Sample, **changes: Any) -> Sample | None:
    """The same seed in a changed row; None where it has no place there."""
    other = sample(replace(case.row, **changes))
    is_same = other is not None and other.seed.name == case.seed.name and set(other.feeds) == set(case.feeds)
    return replace(other, stored=None) if other is not None and is_same else None


def _first_of(case: Sample, *attempts: Source) -> list[np.ndarray] | None:
    return next((found for attempt in attempts if (found := attempt(case)) is not None), None)


def _wider(case: Sample) -> list[np.ndarray] | None:
    """The same numbers in a type that onnxruntime computes in; of conversions only what is converted."""
    kinds = case.row.kinds
    parts = 1 if case.row.operator in CONVERSIONS else len(kinds)
    for name in (
        () if not kinds or case.row.operator == "BitCast" else ("f32", "f64") if kinds[0].is_real else ("i64", "i32")
    ):
        wide = element_types.element_type(name)
        if any(k is wide or k.is_real != wide.is_real or k is element_types.string for k in kinds[:parts]):
            continue
        other = _like(case, kinds=(*(wide,) * parts, *kinds[parts:]))
        if other is not None:
            feeds = {name: case.feeds[name].astype(array.dtype) for name, array in other.feeds.items()}
            found = _first_of(replace(other, feeds=feeds), _same_types, _other_version, _reference)
            if found is not None:
                return [value.astype(kind.dtype) for value, kind in zip(found, declared(case.model))]
    return None


def _numbered(case: Sample) -> list[np.ndarray] | None:
    """Texts that are only moved and compared: the same with their numbers in alphabetical order, 0 for none."""
    texts = {name: array for name, array in case.feeds.items() if array.dtype.kind == "O"}
    if not texts or element_types.string not in case.row.kinds or case.row.operator in CHARACTERS:
        return None
    other = _like(case, kinds=(element_types.i64,) * len(case.row.kinds))
    if other is None:
        return None
    table = np.array(["", *sorted({text for array in texts.values() for text in array.reshape(-1)})], np.object_)
    numbers = {name: np.searchsorted(table, array) for name, array in texts.items()}
    other = replace(other, feeds={**case.feeds, **numbers})
    outputs = _first_of(other, _same_types, _other_version, _wider, _reference)
    kinds = declared(case.model)
    return outputs and [table[v] if kind is element_types.string else v for v, kind in zip(outputs, kinds)]


def _reference(case: Sample) -> list[np.ndarray] | None:
    """ONNX's own evaluator."""
    if case.row.operator in CHANGED_MEANING and case.row.version < 13:
        return None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return [np.asarray(value) for value in ReferenceEvaluator(case.model).run(None, case.feeds)]
    except _REFUSALS:
        return None


_SOURCES: dict[str, Source] = {
    "formula": _formula,
    "texts by number": _numbered,
    "onnxruntime": _same_types,
    "onnxruntime, other version": _other_version,
    "node suite": _stored,
    "onnxruntime, wider type": _wider,
    "reference evaluator": _reference,
}
