"""float16 in the whole graph, or nowhere: the two ways away from float16 weights that are converted to float32."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ir_runtime.errors import ModelError
from ir_runtime.graph import Array, ElementType, Model, Node, Output, Tensor, element_types, infer_types, make_node
from ir_runtime.graph.invariants import PRECISION
from ir_runtime.graph.operation import Operation
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.rewriting import UniqueNames, graph_pass

from .float16_constants import constants_of_shapes
from .half_precision import LARGEST, to_half

_INDEX_TYPES = (element_types.i32, element_types.i64, element_types.boolean)
"""Positions, lengths and masks; integers of 8 bits are pixels and codes of weights."""
_MAX_CONSTANT_BYTES = 1 << 12
"""Layers with larger constants compute with weights, not with positions."""


@graph_pass("unfold_float16", PRECISION)
def unfold_halves(model: Model) -> int:
    """Store float16 constants that are converted to a wider type in that type, in place; how many there were."""
    count = 0
    for part in model.all_models():
        for node in part.nodes():
            if not isinstance(node.op, Convert1) or not _is_half_constant(node.inputs[0]):
                continue
            (output,) = node.outputs
            if not output.element_type.is_real or output.element_type.bits < 32:
                continue
            wide = _constant(node.inputs[0], output.element_type, node.name)
            wide.runtime_info = output.runtime_info
            output.replace_by(wide)
            count += 1
    return count


@graph_pass("compute_in_float16", PRECISION)
def compute_in_half(model: Model) -> None:
    """Compute in float16 what ``model`` and its bodies compute in float32, in place.

    Inputs and outputs, of bodies too, keep their types. What is computed from positions, lengths and masks alone
    stays in float32 up to where it meets the data, as float16 has no whole numbers beyond 2048; so do layers that
    cannot take float16. Constants beyond float16's largest number become that.
    """
    for part in reversed(list(model.all_models())):
        _Halving(part).run()


class _Halving:
    """The values of one graph in both types."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._names = UniqueNames(model)
        self._of_shapes = constants_of_shapes(model)
        self._single: set[Output] = set()
        """Values that were float32."""
        self._of_indices: set[Output] = set()
        """Values computed from positions, lengths and masks alone."""
        self._beyond: set[Output] = set()
        """Those of them that may be beyond float16's largest number."""
        self._in_half: dict[Output, Output] = {}
        self._in_single: dict[Output, Output] = {}

    def run(self) -> None:
        for node in list(self._model.nodes()):
            outputs = [output for output in node.outputs if output.element_type is element_types.f32]
            self._single.update(outputs)
            if node.op.role in ("parameter", "constant"):
                continue
            if self._is_decompression(node):
                self._in_half[node.outputs[0]] = node.inputs[0]
            elif self._is_of_indices(node):
                self._keep(node)
                self._of_indices.update(outputs)
                if any(source in self._beyond or _is_beyond(source) for source in node.inputs):
                    self._beyond.update(outputs)
            elif node.op.role or node.op.subgraphs or not self._narrow(node):
                self._keep(node)

    def _is_decompression(self, node: Node) -> bool:
        return isinstance(node.op, Convert1) and node.outputs[0] in self._single and _is_half_constant(node.inputs[0])

    def _is_of_indices(self, node: Node) -> bool:
        floats = [source for source in node.inputs if source in self._single and source.tensor is None]
        if floats:
            sizes = [source.tensor.byte_size for source in node.inputs if source.tensor is not None]
            return self._of_indices.issuperset(floats) and max(sizes, default=0) <= _MAX_CONSTANT_BYTES
        is_convert = isinstance(node.op, Convert1) and node.outputs[0] in self._single
        return is_convert and node.inputs[0].tensor is None and node.inputs[0].element_type in _INDEX_TYPES

    def _keep(self, node: Node) -> None:
        """Let a layer compute in float32."""
        node.replace_inputs([self._as_single(source) for source in node.inputs])

    def _narrow(self, node: Node) -> bool:
        """Let a layer compute in float16; False where it cannot."""
        inputs = [self._as_half(source) if self._is_wanted(source) else source for source in node.inputs]
        op = _in_half(node.op)
        try:
            types = infer_types(op, [source.type for source in inputs])
        except ModelError:
            return False
        node.update(op, inputs, types)
        return True

    def _is_wanted(self, source: Output) -> bool:
        return source in self._single and source.node not in self._of_shapes

    def _as_half(self, source: Output) -> Output:
        if source.element_type is element_types.f16:
            return source
        if source not in self._in_half:
            if source.tensor is not None:
                half = _constant(source, element_types.f16, self._names(f"{source.node.name}/float16"))
            else:
                value = source
                if source in self._beyond:
                    name = self._names(f"{source.node.name}/clamp")
                    value = make_node(Clamp1(min=-LARGEST, max=LARGEST), [source], name).outputs[0]
                half = self._convert(value, element_types.f16)
            self._in_half[source] = half
        return self._in_half[source]

    def _as_single(self, source: Output) -> Output:
        if source not in self._single or source.element_type is element_types.f32:
            return source
        if source not in self._in_single:
            single = self._convert(source, element_types.f32)
            single.names, source.names = source.names, []
            self._in_single[source] = single
        return self._in_single[source]

    def _convert(self, source: Output, element_type: ElementType) -> Output:
        name = self._names(f"{source.node.name}/{element_type}")
        return make_node(Convert1(destination_type=element_type), [source], name).outputs[0]


def _in_half(op: Operation) -> Operation:
    """The operation with float16 where an attribute says float32."""
    changed = {name: element_types.f16 for name in op.declared if getattr(op, name) is element_types.f32}
    return op.with_attributes(**changed) if changed else op


def _is_half_constant(source: Output) -> bool:
    return source.tensor is not None and source.element_type in (element_types.f16, element_types.bf16)


def _is_beyond(source: Output) -> bool:
    if source.tensor is None or not source.element_type.is_real:
        return False
    values = np.abs(source.tensor.array().astype(np.float64))
    return bool((values > LARGEST).any())


def _constant(source: Output, element_type: ElementType, name: str) -> Output:
    """A constant in another type, computed while it is written."""
    tensor = source.tensor
    assert tensor is not None

    def parts(of: Tensor = tensor) -> Iterator[Array]:
        for part in of.parts():
            yield _limited_half(part) if element_type is element_types.f16 else part.astype(element_type.dtype)

    converted = Tensor.computed_in_parts(element_type, tensor.shape, parts, tensor.sample(), tensor, "Convert")
    if tensor.byte_size <= _MAX_CONSTANT_BYTES:
        converted = Tensor.from_array(converted.array(), element_type).derived("Convert", tensor)
    return make_node(Const1(value=converted), (), name).outputs[0]


def _limited_half(values: Array) -> Array:
    """The numbers as float16; finite ones stay finite."""
    return to_half(np.where(np.isfinite(values), np.clip(values, -LARGEST, LARGEST), values))
