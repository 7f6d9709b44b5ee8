"""What a row of the type matrix should give: from onnxruntime, the node suite or ONNX's reference evaluator.

In this order: a formula that stands beside the seed; onnxruntime in the row's own types, or with another
version of the operator that the same node is valid in; the node suite's stored outputs, where nothing
was retyped; onnxruntime in a wider type, rounded to the row's type; ONNX's reference evaluator.
Texts that are only moved come from the same model with numbers, because onnxruntime's Gather and Loop
leave most of the texts that they copy in blocks empty.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, checker, defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from converter.equivalence.oracle import session_options
from converter.equivalence.unsigned_operands import with_unsigned_operands
from converter.onnx_file.types import element_type_of
from ir_runtime.graph import element_types
from ir_runtime.graph.element_types import ElementType, from_dtype
from tests.suite.type_matrix import Sample, sample

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

_PLAIN = "biufO"
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
    random = _is_random(case)
    for source, attempt in _SOURCES.items():
        outputs = attempt(case)
        if outputs is None:
            continue
        outputs = [np.asarray(v, np.object_ if np.asarray(v).dtype.kind == "U" else None) for v in outputs]
        if _fits(case.model, outputs):
            return Expected(outputs, source, not random)
    return Expected(_of_declared_shapes(case.model), "declared shapes", False) if random else None


def _fits(model: onnx.ModelProto, outputs: Sequence[np.ndarray]) -> bool:
    """Whether the outputs are of the declared types and shapes."""
    if len(outputs) != len(model.graph.output):
        return False
    for value, output, kind in zip(model.graph.output, outputs, declared(model)):
        dims = value.type.tensor_type.shape.dim
        dimensions = [d.dim_value if d.HasField("dim_value") else None for d in dims]
        if output.dtype != kind.dtype or len(dimensions) != output.ndim:
            return False
        if any(wanted not in (None, dimension) for wanted, dimension in zip(dimensions, output.shape)):
            return False
    return True


def _of_declared_shapes(model: onnx.ModelProto) -> list[np.ndarray]:
    shapes = [[d.dim_value for d in value.type.tensor_type.shape.dim] for value in model.graph.output]
    return [np.zeros(shape, kind.dtype) for shape, kind in zip(shapes, declared(model))]


def declared(model: onnx.ModelProto) -> list[ElementType]:
    """The types of the model's outputs."""
    return [element_type_of(value.type.tensor_type.elem_type) for value in model.graph.output]


def _is_random(case: Sample) -> bool:
    node = case.seed.node
    if node.op_type in RANDOM:
        return True
    return (
        node.op_type == "Dropout" and case.row.version >= 12 and len(case.seed.values) > 2 and bool(case.seed.values[2])
    )


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


def _with_casts(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> tuple[onnx.ModelProto, dict[str, Any]]:
    wrapped = onnx.ModelProto()
    wrapped.CopyFrom(model)
    graph, before, given = wrapped.graph, [], dict(feeds)
    for value in graph.input:
        array = given[value.name]
        if array.dtype.kind in _PLAIN and array.dtype.isbuiltin:
            continue
        wide = np.dtype(np.float32 if from_dtype(array.dtype).is_real else np.int32)
        tensor = value.type.tensor_type
        before.append(helper.make_node("Cast", [f"{value.name}_wide"], [value.name], to=tensor.elem_type))
        given[f"{value.name}_wide"] = given.pop(value.name).astype(wide)
        value.name, tensor.elem_type = f"{value.name}_wide", helper.np_dtype_to_tensor_dtype(wide)
    nodes = [*before, *graph.node]
    for value in graph.output:
        kind = element_type_of(value.type.tensor_type.elem_type)
        if kind.dtype.kind in _PLAIN and kind.dtype.isbuiltin:
            continue
        wide_type = TensorProto.FLOAT if kind.is_real else TensorProto.INT32
        nodes.append(helper.make_node("Cast", [value.name], [f"{value.name}_wide"], to=wide_type))
        value.name, value.type.tensor_type.elem_type = f"{value.name}_wide", wide_type
    del graph.node[:]
    graph.node.extend(nodes)
    return wrapped, given


def _same_types(case: Sample) -> list[np.ndarray] | None:
    return _onnxruntime(case.model, case.feeds)


def _stored(case: Sample) -> list[np.ndarray] | None:
    if case.stored is None or any(isinstance(value, list) for value in case.stored):
        return None
    values = [numpy_helper.to_array(v) if isinstance(v, TensorProto) else np.asarray(v) for v in case.stored]
    if len(values) != len(case.model.graph.output):
        return None
    return values


def _formula(case: Sample) -> list[np.ndarray] | None:
    if case.seed.formula is None:
        return None
    dtype = declared(case.model)[0].dtype
    return [case.seed.formula(dtype, *case.seed.values).astype(dtype)]


@cache
def _versions(operator: str) -> tuple[int, ...]:
    found = {s.since_version for s in defs.get_all_schemas_with_history() if s.name == operator and s.domain == ""}
    return tuple(sorted(found, reverse=True))


def _other_version(case: Sample) -> list[np.ndarray] | None:
    """For versions that onnxruntime does not have: those before, and those after in the form they have there."""
    if case.row.operator in CHANGED_MEANING:
        return None
    for version in _versions(case.row.operator):
        if version == case.row.version:
            continue
        if version < case.row.version:
            outputs = _in_older_version(case, version)
        else:
            other = sample(replace(case.row, version=version))
            same = other is not None and other.seed.name == case.seed.name and set(other.feeds) == set(case.feeds)
            outputs = _onnxruntime(other.model, case.feeds) if other is not None and same else None
        if outputs is not None:
            return outputs
    return None


def _in_older_version(case: Sample, version: int) -> list[np.ndarray] | None:
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    # Just before what replaced it.
    model.opset_import[0].version = min(v for v in _versions(case.row.operator) if v > version) - 1
    try:
        checker.check_model(model, full_check=True)
    except (checker.ValidationError, onnx.shape_inference.InferenceError):
        return None
    return _onnxruntime(model, case.feeds)


def _wider(case: Sample) -> list[np.ndarray] | None:
    """The same numbers in a type that onnxruntime computes in; of conversions only what is converted."""
    row = case.row
    parts = 1 if row.operator in CONVERSIONS else len(row.kinds)
    if not row.kinds:
        return None
    for wide in _WIDE_FLOATS if row.kinds[0].is_real else _WIDE_INTEGERS:
        if not all(_is_wider(kind, wide) for kind in row.kinds[:parts]):
            continue
        other = sample(replace(row, kinds=(*(wide,) * parts, *row.kinds[parts:])))
        if other is None or other.seed.name != case.seed.name or set(other.feeds) != set(case.feeds):
            continue
        feeds = {name: case.feeds[name].astype(other.feeds[name].dtype) for name in case.feeds}
        other = replace(other, feeds=feeds, stored=None)
        for attempt in (_same_types, _other_version, _reference):
            outputs = attempt(other)
            if outputs is not None:
                return [value.astype(kind.dtype) for value, kind in zip(outputs, declared(case.model))]
    return None


_WIDE_FLOATS = (element_types.f32, element_types.f64)
_WIDE_INTEGERS = (element_types.i64, element_types.i32)


def _is_wider(kind: ElementType, wide: ElementType) -> bool:
    return kind is not wide and kind.is_real == wide.is_real and kind is not element_types.string


def _numbered(case: Sample) -> list[np.ndarray] | None:
    """Texts that are only moved and compared: the same with their numbers in alphabetical order, 0 for none."""
    row = case.row
    if element_types.string not in row.kinds or row.operator in CHARACTERS:
        return None
    other = sample(replace(row, kinds=(element_types.i64,) * len(row.kinds)))
    if other is None or other.seed.name != case.seed.name or set(other.feeds) != set(case.feeds):
        return None
    if not any(array.dtype.kind == "O" for array in case.feeds.values()):
        return None
    texts = sorted({text for array in case.feeds.values() if array.dtype.kind == "O" for text in array.reshape(-1)})
    names = ["", *texts]
    numbers = {text: number for number, text in enumerate(names)}
    feeds = {}
    for name, array in case.feeds.items():
        feeds[name] = array
        if array.dtype.kind == "O":
            feeds[name] = np.array([numbers[text] for text in array.reshape(-1)], np.int64).reshape(array.shape)
    other = replace(other, feeds=feeds, stored=None)
    for attempt in (_same_types, _other_version, _wider, _reference):
        outputs = attempt(other)
        if outputs is not None:
            kinds = declared(case.model)
            table = np.array(names, np.object_)
            return [table[np.asarray(v)] if kind is element_types.string else v for v, kind in zip(outputs, kinds)]
    return None


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


_SOURCES: dict[str, Callable[[Sample], list[np.ndarray] | None]] = {
    "formula": _formula,
    "texts by number": _numbered,
    "onnxruntime": _same_types,
    "onnxruntime, other version": _other_version,
    "node suite": _stored,
    "onnxruntime, wider type": _wider,
    "reference evaluator": _reference,
}
