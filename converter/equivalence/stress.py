"""Inputs of special values: where formulas that agree on ordinary numbers part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from converter.equivalence.input_values import Values
from converter.equivalence.onnx_graph import OnnxGraph
from converter.equivalence.oracle import Oracle
from converter.errors import VerificationError
from converter.onnx_file.messages import NodeProto, TensorProto
from converter.onnx_file.node_order import node_name
from ir_runtime.element_types import Array

_SHARE = 0.1
"""Of the elements that become NaN or infinite; the others stay as they were."""

INFINITIES, NAN = "infinities", "NaN"
NOT_FINITE = (INFINITIES, NAN)


def feeds(
    ordinary: Mapping[str, Array], values: Mapping[str, Values], seed: int
) -> Iterator[tuple[str, dict[str, Array]]]:
    """Each kind of special values with inputs like ``ordinary``; inputs without real numbers stay as they are."""
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
    chosen = generator.random(value.shape) < _SHARE
    special = np.where(generator.random(value.shape) < 0.5, np.inf, -np.inf) if name == INFINITIES else np.nan
    return np.where(chosen, special, value).astype(value.dtype)


_ORDERING = ("ArgMax", "ArgMin", "NonMaxSuppression", "TopK")
_QUANTIZING = ("QuantizeLinear", "DynamicQuantizeLinear")
_WHOLE = {
    getattr(TensorProto, f"{sign}INT{bits}") for sign in ("", "U") for bits in (2, 4, 8, 16, 32, 64)
    if hasattr(TensorProto, f"{sign}INT{bits}")
}  # fmt: skip


def undefined(graph: OnnxGraph, oracle: Oracle, given: Mapping[str, Array]) -> str:
    """Which node of the main graph is given values for which ONNX defines no result; empty where none is.

    A cast to whole numbers has none for infinities and NaN, a quantisation and an order have none for NaN.
    """
    asked: dict[str, tuple[NodeProto, bool]] = {}
    for index in graph.needed(graph.outputs):
        node = graph.nodes[index]
        to = next((attribute.i for attribute in node.attribute if attribute.name == "to"), 0)
        is_cast = node.op_type == "Cast" and to in _WHOLE
        if is_cast or node.op_type in (*_ORDERING, *_QUANTIZING):
            for name in node.input[: 2 if node.op_type == "NonMaxSuppression" else 1]:
                asked.setdefault(name, (node, is_cast))
    try:
        made = [name for name in asked if name in graph.producer]
        values = {**given, **(oracle.run(given, made, plain=True, only=True) if made else {})}
    except VerificationError:
        return ""
    for name, (node, is_cast) in asked.items():
        value = values.get(name)
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            continue
        if bool(np.isnan(value).any()) or (is_cast and bool(np.isinf(value).any())):
            kind = NAN if bool(np.isnan(value).any()) else INFINITIES
            return f"node '{node_name(node)}' ({node.op_type}) is given {kind}, for which ONNX defines no result"
    return ""
