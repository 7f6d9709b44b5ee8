"""Models with float16 weights that are converted to float32: compute in float16, or store the weights in float32."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

import numpy as np

from ir_runtime.errors import ModelError
from ir_runtime.graph import Array, ElementType, Model, Node, Output, Tensor, element_types, infer_types, make_node
from ir_runtime.graph.invariants import PRECISION
from ir_runtime.graph.operation import Operation
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.elementwise import Add1, Comparison, Convert1, Maximum1, Minimum1, Select1, Subtract1
from ir_runtime.operations.inputs_outputs import Const1, Result1
from ir_runtime.operations.movement import Concat1
from ir_runtime.rewriting import UniqueNames, graph_pass

from .float16_constants import constants_of_shapes
from .half_precision import LARGEST, SMALLEST, misfits, to_half
from .quantized_layers import quantized_layers

_INDEX_TYPES = (element_types.i32, element_types.i64, element_types.boolean)
"""Element types of positions, lengths and masks; integers of 8 bits are pixels and quantized weights."""
_LARGEST_OF_MASKS = LARGEST / 2
"""Replaces larger numbers in masks: scores are added to it, and the sum must not be infinite."""
_MAX_CONSTANT_BYTES = 1 << 12
"""Maximum size of constants in the arithmetic of positions: larger ones are weights."""
_SUMS = (Add1, Subtract1)
_OF_INDICES = "it computes from positions, lengths or masks alone: float16 has no whole numbers beyond 2048"
_OF_SHAPES = "its constants decide shapes or indices"
QUANTIZED = "it is quantized"
BEYOND = f"it computes with numbers beyond {LARGEST:.0f}, the largest of float16"
TINY = "it computes with numbers so small that float16 rounds them by more than 0.1 percent"
_LARGEST_TINY = SMALLEST / 2
"""Below it the steps of float16, 2^-24, round a number by up to 2^-10 of it."""


@graph_pass("unfold_float16", PRECISION)
def unfold_halves(model: Model) -> int:
    """Store float16 constants that are converted to a wider type in that type, in place; return their number."""
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
def compute_in_half(
    model: Model,
    refused: Mapping[str, str] = MappingProxyType({}),
    *,
    half_scales: bool = True,
    quantized: Collection[str] = (),
) -> dict[str, str]:
    """Convert the float32 layers of ``model`` and its bodies, if they are of IR layers, to float16, in place.

    Inputs and outputs, those of bodies included, keep their types. Values computed from positions, lengths and masks
    alone stay in float32 until they meet the data, as float16 does not represent all integers beyond 2048. Layers stay
    in float32 if they do not take float16, if they are in ``refused`` (name -> reason), if they are quantized, and if
    they compute with constants beyond float16's largest number or multiply by ones that it rounds by too much.
    Constants that are only moved or compared are limited to the largest number. Without ``half_scales`` weights are
    dequantized to float32. ``quantized`` are inputs that were dequantized before, and outputs that are quantized
    behind.

    Returns the layers that stay in float32, by name, and why.
    """
    reasons: dict[str, str] = {}
    models = [part for part in model.all_models() if all(isinstance(node.op, Result1) for node in part.results)]
    for part in reversed(models):
        halving = _Halving(part, refused, quantized_layers(part, not half_scales, quantized))
        halving.run()
        reasons.update(halving.reasons)
    return reasons


class _Halving:
    """Converts one graph; holds its values in both types."""

    def __init__(self, model: Model, refused: Mapping[str, str], quantized: set[Node]) -> None:
        self._model = model
        self._refused = refused
        self._names = UniqueNames(model)
        self._of_shapes = constants_of_shapes(model)
        self._quantized = quantized
        self.reasons: dict[str, str] = {}
        """Why layers stay in float32, by name."""
        self._single: set[Output] = set()
        """Values that were float32 before the conversion."""
        self._of_indices: set[Output] = set()
        """Values computed from positions, lengths and masks alone."""
        self._beyond: set[Output] = set()
        """Float32 values that may be beyond float16's largest number."""
        self._in_half: dict[Output, Output] = {}
        """Values -> the same in float16."""
        self._in_single: dict[Output, Output] = {}
        """Values that are float16 now -> the same in float32."""

    def run(self) -> None:
        """Convert the layers in their order."""
        for node in list(self._model.nodes()):
            outputs = [output for output in node.outputs if output.element_type is element_types.f32]
            self._single.update(outputs)
            if node.op.role in ("parameter", "constant"):
                continue
            if self._is_decompression(node):
                self._in_half[node.outputs[0]] = node.inputs[0]
            elif self._is_of_indices(node):
                self._keep_single(node, _OF_INDICES)
                self._of_indices.update(outputs)
                if any(source in self._beyond or _is_beyond(source) for source in node.inputs):
                    self._beyond.update(outputs)
            elif node.name in self._refused:
                self._keep_single(node, self._refused[node.name])
            elif node in self._quantized:
                self._keep_single(node, QUANTIZED)
            elif node.op.role or node.op.subgraphs:
                self._keep_single(node)
            elif reason := self._convert_to_half(node):
                self._keep_single(node, reason)
                if reason is BEYOND:
                    self._beyond.update(outputs)

    def _is_decompression(self, node: Node) -> bool:
        """True for a Convert of a float16 constant to float32."""
        return isinstance(node.op, Convert1) and node.outputs[0] in self._single and _is_half_constant(node.inputs[0])

    def _is_of_indices(self, node: Node) -> bool:
        """True if a layer computes from positions, lengths or masks, and small constants, alone."""
        floats = [source for source in node.inputs if source in self._single and source.tensor is None]
        if floats:
            sizes = [source.tensor.byte_size for source in node.inputs if source.tensor is not None]
            return self._of_indices.issuperset(floats) and max(sizes, default=0) <= _MAX_CONSTANT_BYTES
        is_convert = isinstance(node.op, Convert1) and node.outputs[0] in self._single
        return is_convert and node.inputs[0].tensor is None and node.inputs[0].element_type in _INDEX_TYPES

    def _misfit(self, node: Node) -> str:
        """Return why float16 does not hold the constants of a layer; empty where it does, or where that is harmless."""
        if _only_moves_or_compares(node.op):
            return ""
        reasons = [misfit_of(s.tensor) for s in node.inputs if s.tensor is not None and self._is_convertible(s)]
        # A sum loses no more by a tiny summand (an epsilon) than float16 rounds it by.
        return BEYOND if BEYOND in reasons else TINY if TINY in reasons and not isinstance(node.op, _SUMS) else ""

    def _keep_single(self, node: Node, reason: str = "") -> None:
        """Let a layer compute in float32, and note the reason."""
        if reason and not self._single.isdisjoint((*node.inputs, *node.outputs)):
            self.reasons[node.name] = reason
        node.replace_inputs([self._as_single(source) for source in node.inputs])

    def _convert_to_half(self, node: Node) -> str:
        """Let a layer compute in float16; return why it has to stay in float32, or an empty string."""
        is_mask = isinstance(node.op, Select1)
        inputs = [self._as_half(source, is_mask) if self._is_convertible(source) else source for source in node.inputs]
        op = _in_half(node.op)
        try:
            types = infer_types(op, [source.type for source in inputs])
        except ModelError:
            of_shapes = any(source.node in self._of_shapes for source in node.inputs)
            return _OF_SHAPES if of_shapes else f"{node.op.type} takes no float16"
        misfit = self._misfit(node)
        if not misfit:
            node.update(op, inputs, types)
        return misfit

    def _is_convertible(self, source: Output) -> bool:
        return source in self._single and source.node not in self._of_shapes

    def _as_half(self, source: Output, is_mask: bool = False) -> Output:
        """Return a value in float16, of a constant or of a float32 value with its numbers limited to the type."""
        if source.element_type is element_types.f16:
            return source
        if source not in self._in_half:
            limit = _LARGEST_OF_MASKS if is_mask or source in self._of_indices else LARGEST
            if source.tensor is not None:
                half = _constant(source, element_types.f16, self._names(f"{source.node.name}/float16"), limit)
            else:
                value = source
                if source in self._beyond:
                    name = self._names(f"{source.node.name}/clamp")
                    value = make_node(Clamp1(min=-limit, max=limit), [source], name).outputs[0]
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
    """Return the operation with float16 for each attribute that is float32."""
    changed = {name: element_types.f16 for name in op.declared if getattr(op, name) is element_types.f32}
    return op.with_attributes(**changed) if changed else op


def _is_half_constant(source: Output) -> bool:
    return source.tensor is not None and source.element_type in (element_types.f16, element_types.bf16)


def _is_beyond(source: Output) -> bool:
    return source.tensor is not None and misfit_of(source.tensor) is BEYOND


def misfit_of(tensor: Tensor) -> str:
    """Return :data:`BEYOND` or :data:`TINY` for a float32 or float64 tensor that float16 does not hold, else ``""``.

    Beyond is a finite number larger than float16's largest. A tensor is tiny if its largest number is: what is small
    beside other numbers of a tensor is lost in sums with these.
    """
    if tensor.element_type not in (element_types.f32, element_types.f64):
        return ""
    largest = 0.0
    for part in tensor.parts():
        if misfits(part)[0]:
            return BEYOND
        largest = max(largest, float(np.abs(part).max(initial=0)))
    return TINY if 0 < largest < _LARGEST_TINY else ""


def _only_moves_or_compares(op: Operation) -> bool:
    """True if results are elements of the inputs, or comparisons of them, so that the inputs can be limited instead."""
    return isinstance(op, (Maximum1, Minimum1, Select1, Clamp1, Concat1, Convert1, Comparison)) or bool(op.movement)


def _constant(source: Output, element_type: ElementType, name: str, limit: float = LARGEST) -> Output:
    assert source.tensor is not None
    return make_node(Const1(value=_convert_tensor(source.tensor, element_type, limit)), (), name).outputs[0]


def _convert_tensor(tensor: Tensor, element_type: ElementType, limit: float) -> Tensor:
    def parts() -> Iterator[Array]:
        for part in tensor.parts():
            yield (
                _to_limited_half(part, limit) if element_type is element_types.f16 else part.astype(element_type.dtype)
            )

    converted = Tensor.computed_in_parts(element_type, tensor.shape, parts, tensor.sample(), tensor, "Convert")
    if tensor.byte_size <= _MAX_CONSTANT_BYTES:
        converted = Tensor.from_array(converted.array(), element_type).derived("Convert", tensor)
    return converted


def _to_limited_half(values: Array, limit: float) -> Array:
    """Convert to float16; finite numbers beyond float16's largest become ``limit`` with their sign.

    A single number does not become 0, as an epsilon of 1e-12 keeps a divisor from that.
    """
    is_beyond = np.isfinite(values) & (np.abs(values) > LARGEST)
    halves = to_half(np.where(is_beyond, np.copysign(values.dtype.type(limit), values), values))
    if values.size == 1 and values[0] != 0 and halves[0] == 0:
        return np.copysign(np.nextafter(np.float16(0), np.float16(1)), values).astype(np.float16)
    return halves
