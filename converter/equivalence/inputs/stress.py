"""Inputs of special values, for which formulas that agree on ordinary numbers may differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from converter.equivalence.inputs.input_values import Values
from converter.equivalence.reference.reference_model import operator_name
from converter.equivalence.reference.references import OnnxReference
from converter.errors import VerificationError
from converter.onnx_file.graph import operator_of
from converter.onnx_file.messages import TensorProto
from ir_runtime.graph import Array, Node

_SPECIAL_SHARE = 0.1
"""The share of elements that become NaN or infinite; the others stay."""

INFINITIES, NAN = "infinities", "NaN"
NOT_FINITE = (INFINITIES, NAN)


def feeds(
    ordinary: Mapping[str, Array], values: Mapping[str, Values], seed: int
) -> Iterator[tuple[str, dict[str, Array]]]:
    """Inputs like ``ordinary`` for each kind of special values, with its name; inputs of other types stay."""
    if not any(value.dtype.kind == "f" for value in ordinary.values()):
        return
    generator = np.random.default_rng(seed)
    for name in ("zeros", "large numbers", "small numbers", "denormal numbers", INFINITIES, NAN):
        yield (
            name,
            {
                key: _special(name, value, generator) if value.dtype.kind == "f" else value
                for key, value in ordinary.items()
            },
        )


def _special(name: str, value: Array, generator: np.random.Generator) -> Array:
    limits = np.finfo(value.dtype)
    with np.errstate(all="ignore"):
        if name == "zeros":
            return np.zeros_like(value)
        if name == "large numbers":
            return np.asarray(value * value.dtype.type(1e4), value.dtype)
        if name == "small numbers":
            return np.asarray(value * value.dtype.type(1e-4), value.dtype)
        if name == "denormal numbers":
            return np.asarray(value * limits.tiny, value.dtype)
    chosen = generator.random(value.shape) < _SPECIAL_SHARE
    special = np.where(generator.random(value.shape) < 0.5, np.inf, -np.inf) if name == INFINITIES else np.nan
    return np.where(chosen, special, value).astype(value.dtype)


_ORDERING = ("ArgMax", "ArgMin", "NonMaxSuppression", "TopK")
_QUANTIZING = ("QuantizeLinear", "DynamicQuantizeLinear")
_WHOLE = {
    getattr(TensorProto, f"{sign}INT{bits}") for sign in ("", "U") for bits in (2, 4, 8, 16, 32, 64)
    if hasattr(TensorProto, f"{sign}INT{bits}")
}  # fmt: skip


def undefined(reference: OnnxReference, reference_inputs: Mapping[str, Array]) -> str:
    """A sentence on the first node of the main graph whose inputs have no result that ONNX defines; empty for none.

    Casts to whole numbers have no result for infinities and NaN, quantisation and sorting have none for NaN.
    """
    graph = reference.graph
    requested: dict[str, tuple[Node, bool]] = {}
    for node in graph.needed(graph.outputs):
        op_type = operator_of(node).op_type
        is_cast = op_type == "Cast" and operator_of(node).values.get("to") in _WHOLE
        if is_cast or op_type in (*_ORDERING, *_QUANTIZING):
            for source in node.inputs[: 2 if op_type == "NonMaxSuppression" else 1]:
                requested.setdefault(source.names[0], (node, is_cast))
    try:
        computed = [name for name in requested if name in graph.computed]
        inner = reference.run(reference_inputs, computed, plain=True, only=True) if computed else {}
        values = {**reference_inputs, **inner}
    except VerificationError:
        return ""
    for name, (node, is_cast) in requested.items():
        value = values.get(name)
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            continue
        if bool(np.isnan(value).any()) or (is_cast and bool(np.isinf(value).any())):
            category = NAN if bool(np.isnan(value).any()) else INFINITIES
            operator = operator_of(node).op_type
            return f"node '{operator_name(node)}' ({operator}) is given {category}, for which ONNX defines no result"
    return ""
