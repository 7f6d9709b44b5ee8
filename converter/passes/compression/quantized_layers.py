"""The quantized layers of a model: those that quantize or dequantize, and those that runtimes compute in integers."""

from __future__ import annotations

from collections.abc import Collection

from ir_runtime.graph import ElementType, Model, Node, Output, element_types
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.elementwise import Add1, Convert1, Divide1, Multiply1, Round5, Subtract1

_CODES = (element_types.i4, element_types.u4, element_types.i8, element_types.u8)
"""Element types of quantized values."""
_DEQUANTIZING = (Subtract1, Multiply1)
"""Layers behind the Convert of a DequantizeLinear, in their order."""
_QUANTIZING = (Clamp1, Add1, Round5, Divide1, Multiply1)
"""Layers in front of the Convert of a QuantizeLinear, the last one first."""


def quantized_layers(model: Model, weights: bool, ends: Collection[str] = ()) -> set[Node]:
    """Return the float32 layers that quantize and dequantize activations, and those between such layers.

    Runtimes compute those between in integers, as long as no layer stands between a DequantizeLinear and its
    reader. ``weights`` includes the layers that dequantize weights of other layers. ``ends`` are the names of inputs
    that DequantizeLinear nodes outside the model compute, and of outputs that QuantizeLinear nodes outside read.
    """
    nodes = list(model.nodes())
    constants = _find_constants(nodes)
    edges = {node for node in model.results if any(name in ends for name in node.end_names)}
    codes = {node.outputs[0] for node in model.parameters if any(name in ends for name in node.end_names)}
    for node in nodes:
        if not isinstance(node.op, Convert1):
            continue
        source, output = node.inputs[0], node.outputs[0]
        if source.element_type in _CODES and output.element_type is element_types.f32:
            chain = _dequantization_chain(node, constants)
            if output not in constants:
                codes.add(chain[-1].outputs[0])
            if output not in constants or weights or not edges.isdisjoint(chain[-1].outputs[0].uses):
                edges.update(chain)
        elif output.element_type in _CODES and source.element_type is element_types.f32:
            edges.update(_quantization_chain(node, constants))
    between = _find_between(nodes, edges, codes, constants)
    return edges | between | _find_weight_dequantization(between, constants)


def _find_constants(nodes: list[Node]) -> set[Output]:
    """Return the values that are computed from constants alone."""
    constants: set[Output] = set()
    for node in nodes:
        if node.op.data is not None or (node.inputs and not node.op.role and constants.issuperset(node.inputs)):
            constants.update(node.outputs)
    return constants


def _dequantization_chain(convert: Node, constants: set[Output]) -> list[Node]:
    """Return a Convert from codes, and the Subtract of the zero point and Multiply by the scale behind it."""
    chain = [convert]
    for op_type in _DEQUANTIZING:
        uses = chain[-1].outputs[0].uses
        if len(uses) == 1 and isinstance(uses[0].op, op_type):
            others = [source for source in uses[0].inputs if source is not chain[-1].outputs[0]]
            if constants.issuperset(others):
                chain.append(uses[0])
    return chain


def _quantization_chain(convert: Node, constants: set[Output]) -> list[Node]:
    """Return a Convert to codes, and the layers of limits, zero point, rounding and scale in front of it."""
    chain = [convert]
    for op_type in _QUANTIZING:
        node = chain[-1].inputs[0].node
        if isinstance(node.op, op_type) and constants.issuperset(node.inputs[1:]):
            chain.append(node)
    return chain


def _find_between(nodes: list[Node], edges: set[Node], codes: set[Output], constants: set[Output]) -> set[Node]:
    """Return layers whose float inputs are all dequantized, and whose results are all quantized again."""
    candidates: list[Node] = []
    for node in nodes:
        floats = [source for source in node.inputs if _is_float(source) and source not in constants]
        if node in edges or node.op.role or node.op.subgraphs or not floats or not codes.issuperset(floats):
            continue
        codes.update(output for output in node.outputs if _is_float(output))
        candidates.append(node)
    between: set[Node] = set()
    for node in reversed(candidates):
        if all(use in edges or use in between for output in node.outputs for use in output.uses):
            between.add(node)
    return between


def _find_weight_dequantization(between: set[Node], constants: set[Output]) -> set[Node]:
    """Return the layers that compute the constants which ``between`` read."""
    pending = [source.node for node in between for source in node.inputs if source in constants and source.node.inputs]
    result: set[Node] = set()
    while pending:
        node = pending.pop()
        if node not in result:
            result.add(node)
            pending += [source.node for source in node.inputs if source.node.inputs]
    return result


def _is_float(source: Output) -> bool:
    element_type: ElementType = source.element_type
    return element_type is element_types.f32
