"""Values at which operations decide, for single layers: ties, equal operands, bounds, zeros of both signs, NaN.

Random inputs hardly ever have them: a Round that takes ties away from zero instead of to the even number, or a Less
that became a LessEqual, pass every run on normal values. Layers that decide are computed alone, on values of which many
lie where they do, and compared with the same ONNX nodes on the same values.

A conversion may leave out what the values before a layer make needless: a Cast of whole numbers to integers, the lower
bound of a Clip behind a Sigmoid. So inner tensors only get values like those of the run: in their range, and whole
where all of them are. Inputs of the model get all values, NaN and infinities among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from converter.equivalence.comparison.compare import Comparison, compare
from converter.equivalence.comparison.parts import Part, Run
from converter.equivalence.comparison.tolerances import strict_tolerance
from converter.equivalence.reference.oracle import Evaluate
from converter.equivalence.reference.reference_model import MOVING, read_by, written_by
from converter.equivalence.reference.references import OnnxReference
from converter.onnx_file.graph import operator_of
from converter.onnx_file.messages import TensorProto
from ir_runtime import ModelError
from ir_runtime.graph import Array, Node, Output
from ir_runtime.operations.quantization import FakeQuantize1

_COMPARING = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Max", "Min"}
_ROUNDING = {"Round", "Floor", "Ceil", "QuantizeLinear", "Cast"}
_SHAPING = {"Clip", "Relu", "LeakyRelu", "PRelu", "ThresholdedRelu", "HardSigmoid", "Abs", "Neg", "Sign", "Not"}
_ORDERING = {"ArgMax", "ArgMin", "TopK"}
_INDEXING = {"Gather": 0, "GatherElements": 0, "ScatterElements": 0}
"""Operators whose second input has indices along an axis; with the default of the axis."""
_WITH_BOUNDS = {"Clip", "QuantizeLinear"}
"""Operators whose further inputs must fit each other: bounds in order, positive scales."""
DECIDING = {*_COMPARING, *_ROUNDING, *_SHAPING, *_ORDERING, *_INDEXING, "IsNaN", "IsInf"}
_WITHOUT_NAN = {*_ORDERING, "QuantizeLinear", "Cast"}
"""Operators for which ONNX defines no result of NaN, or none of infinities."""
_CASTABLE = {getattr(TensorProto, name) for name in ("FLOAT", "FLOAT16", "DOUBLE", "INT32", "INT64", "BOOL")}
"""Types to which each of the values can be cast."""
_VALUES = (0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.5, -3.5, 0.0, -0.0, 1.0, -1.0, 2.0, -60000.0, 60000.0)
_NOT_FINITE = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0)
_MOST_CONSTANTS = 8
MOST_ROUNDS = 8
_TIMES = 2
"""Minimum number of occurrences of each value."""


class DirectedValues:
    """Compares parts of a model on directed values.

    ``run`` computes a layer, ``names`` has the ONNX names of the IR's values.
    """

    def __init__(self, reference: OnnxReference, run: Run, names: Mapping[Output, Sequence[str]]) -> None:
        self._reference = reference
        self._graph = reference.graph
        self._run = run
        self._names = names

    def difference(self, name: str, output: Output, part: Part, values: Mapping[Output, Array]) -> Comparison | None:
        """The comparison of the tensor ``name`` that fails on directed values; None where none does.

        ``part`` lists the layers that make it, ``values`` what they read from outside, which gives the shapes.
        """
        names_of = {source: self._name(source) for source in part.sources}
        if not names_of or any(not name or source not in values for source, name in names_of.items()):
            return None
        nodes = self._nodes(name, set(names_of.values()))
        if not nodes or any(isinstance(node.op, FakeQuantize1) for node in part):
            return None  # its formula may put a tie to either side
        ordinary = {name: values[source] for source, name in names_of.items()}
        strict = strict_tolerance(output.element_type.dtype, "", [node.op.type for node in part])
        evaluate: Evaluate | None = None
        for feeds, is_finite in self._feeds(nodes, ordinary):
            try:
                if evaluate is None:
                    evaluate = self._reference.part(nodes, feeds, [name])
                expected = np.asarray(evaluate(feeds)[name])
                sources = {source: feeds[name] for source, name in names_of.items()}
                actual = np.asarray(part.values(sources, self._run)[output])
            except ModelError:
                return None  # onnxruntime has no kernel for the type, or the values do not go together
            comparison = compare(name, expected, actual, strict)
            defined = None if comparison.passed else self._reference.define_part(nodes, feeds, name)
            # onnxruntime differs from ONNX at some of these values.
            if not comparison.passed and (defined is None or not compare(name, defined, actual).passed):
                which = "ties, bounds and equal operands" if is_finite else "NaN, infinities and zeros"
                return replace(comparison, reason=f"{comparison.reason}, on {which}")
        return None

    def _name(self, source: Output) -> str:
        names_in_graph = [*self._names.get(source, ()), *(name for name in source.names if name in self._graph.inputs)]
        return names_in_graph[0] if names_in_graph else ""

    def _nodes(self, name: str, boundary_names: set[str]) -> Sequence[Node]:
        """The ONNX nodes from ``boundary_names`` to ``name`` if all of them decide or move values; else none."""
        graph = self._graph
        nodes = graph.needed([name], boundary_names)
        operators = {operator_of(node).op_type for node in nodes}
        if not operators <= DECIDING | MOVING or operators.isdisjoint(DECIDING):
            return []
        if any(operator_of(node).domain not in ("", "ai.onnx") or not _is_defined(node) for node in nodes):
            return []
        constants = {node.name for node in graph.constants}
        return nodes if read_by(nodes) <= {*boundary_names, *constants, *written_by(nodes)} else []

    def _feeds(self, nodes: Sequence[Node], ordinary: Mapping[str, Array]) -> Iterator[tuple[dict[str, Array], bool]]:
        """Inputs of the part, each with whether they are finite."""
        operators = {operator_of(node).op_type for node in nodes}
        indices = {node.inputs[1].names[0]: node for node in nodes if operator_of(node).op_type in _INDEXING}
        finite = (*_VALUES, *self._bounds(nodes))
        special_sets = [(finite, True)]
        if operators.isdisjoint(_WITHOUT_NAN):
            special_sets.append((_NOT_FINITE, False))
        bounded = [value for node in nodes if operator_of(node).op_type in _WITH_BOUNDS for value in node.inputs[1:]]
        fixed = {*indices, *(value.names[0] for value in bounded)}
        free = [name for name, value in ordinary.items() if _is_free(value, operators) and name not in fixed]
        for specials, is_finite in special_sets if free else ():
            smallest = max(1, min(ordinary[name].size for name in free))
            for number in range(min(MOST_ROUNDS, -(-_TIMES * len(specials) // smallest))):
                shifts = {name: number * smallest + place * (number % 2) for place, name in enumerate(free)}
                changed = {name: self._fill(name, ordinary[name], specials, shifts[name]) for name in free}
                yield {**ordinary, **changed}, is_finite
        for name in indices.keys() & self._graph.inputs.keys() & ordinary.keys():
            size = self._indexed_axis(indices[name], ordinary)
            if size is not None and ordinary[name].dtype.kind == "i":
                yield {**ordinary, name: np.asarray(ordinary[name] % size - size, ordinary[name].dtype)}, True

    def _fill(self, name: str, like: Array, specials: Sequence[float], shift: int) -> Array:
        """An array of the type and shape of ``like`` that has the ``specials`` in turn, from place ``shift`` on.

        Of an inner tensor those that lie in the range of ``like``, which is returned itself where there are none.
        """
        if not like.size:
            return like
        table = np.asarray(specials)
        if like.dtype.kind == "i":
            table = np.clip(np.trunc(table[np.isfinite(table)]), -100, 100)
        if name not in self._graph.inputs:
            table = table[(table >= like.min()) & (table <= like.max())]
            if np.array_equal(like, np.rint(like)):
                table = table[table == np.rint(table)]
        if not table.size:
            return like
        with np.errstate(all="ignore"):
            return table[(np.arange(like.size) + shift) % len(table)].astype(like.dtype).reshape(like.shape)

    def _bounds(self, nodes: Sequence[Node]) -> list[float]:
        """The numbers among the constants of the nodes, their neighbours, and ties of those that are scales."""
        bounds: list[float] = []
        for node in nodes:
            numbers = [value for value in operator_of(node).values.values() if isinstance(value, float)]
            for tensor in filter(None, (value.node.op.data for value in node.inputs)):
                if tensor.size <= _MOST_CONSTANTS and tensor.element_type.is_real:
                    numbers += [float(number) for number in tensor.array().reshape(-1)]
            for number in (finite for finite in numbers if np.isfinite(finite)):
                narrow = np.float32(number)
                bounds += [number, float(np.nextafter(narrow, np.float32(np.inf)))]
                bounds.append(float(np.nextafter(narrow, np.float32(-np.inf))))
                # Quotients by other scales are rounded, so that a tie may go to either side.
                if operator_of(node).op_type == "QuantizeLinear" and np.frexp(number)[0] == 0.5:
                    bounds += [number * tie for tie in (-1.5, -0.5, 0.5, 1.5, 2.5)]
        return bounds

    def _indexed_axis(self, node: Node, ordinary: Mapping[str, Array]) -> int | None:
        """The dimension that the node's indices choose from."""
        data, operator = node.inputs[0], operator_of(node)
        table = ordinary.get(data.names[0], self._graph.constant(data.names[0]))
        shape = () if table is None else table.shape
        axis = operator.values.get("axis", _INDEXING[operator.op_type])
        return int(shape[axis]) if shape and -len(shape) <= axis < len(shape) and shape[axis] else None


def _is_defined(node: Node) -> bool:
    """True if ONNX defines the node's result for every finite value."""
    operator = operator_of(node)
    if operator.op_type == "Cast":
        return operator.values["to"] in _CASTABLE
    return operator.op_type != "TopK" or bool(operator.values.get("sorted", 1))


def _is_free(value: Array, operators: set[str]) -> bool:
    """True if an input may have any value: real ones, and whole numbers that are only compared or changed in sign."""
    return value.dtype.kind == "f" or (value.dtype.kind == "i" and operators <= _COMPARING | {"Abs", "Neg", "Sign"})
