"""FP16 compression: float32 and float64 weights stored as float16, each with a Convert back.

The pattern is OpenVINO's: a Const called ``<name>_compressed`` in f16, and a Convert that takes over
the constant's name and carries the ``decompression`` mark, so that plug-ins keep the weights small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from functools import partial

from ir_runtime.errors import ModelError
from ir_runtime.graph import Array, Model, Node, RuntimeInfo, Tensor, TensorType, element_types, infer_types, make_node
from ir_runtime.graph.invariants import COMPRESSION
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.elementwise import Binary, Convert1, Unary
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.rewriting import UniqueNames, graph_pass
from ir_runtime.threads import map_in_order

from .half_precision import LARGEST, misfits, to_half

DECOMPRESSION = RuntimeInfo("attribute", (("name", "decompression"), ("version", "0")))
"""The mark of the Convert back to the type that a constant had before it was compressed."""
PREPROCESSING = RuntimeInfo("attribute", (("name", "preprocessing"), ("version", "0")))
"""The mark of layers and constants of preprocessing, whose few numbers stay as they are."""
_ELEMENTWISE = (Binary, Unary, Convert1, Clamp1)
_TINY_SHARE = 0.75
"""A tensor of which so many values are below float16's normal numbers stays as it is: OpenVINO's own limit."""


@dataclass
class Halved:
    """Counts of the float constants of a model that are stored as float16, and the reasons for others."""

    count: int = 0
    """The number of constants stored as float16."""
    kept: Counter[str] = field(default_factory=Counter)
    """The number of unchanged ones by reason."""


@graph_pass("float16_constants", COMPRESSION)
def halve(model: Model, exact: Set[Node] = frozenset()) -> Halved:
    """Store the float weights of ``model`` and its bodies as float16, in place.

    What stays: scalars, which gain nothing; tensors of which a value would become infinite, or three quarters
    lie below the normal float16 numbers; constants that shapes and indices are computed from; those of
    preprocessing; and the constants ``exact``.
    """
    result = Halved()
    for part in model.all_models():
        unique = UniqueNames(part)
        nodes = [node for node in part.nodes() if _is_weights(node) and node not in exact]
        byte_count = sum(node.op.data.byte_size for node in nodes if node.op.data is not None)
        of_shapes = constants_of_shapes(part)
        reasons = map_in_order(partial(_reason_against, of_shapes), nodes, byte_count)
        for node, reason in zip(nodes, list(reasons)):
            if reason:
                result.kept[reason] += 1
            else:
                node.outputs[0].replace_by(_compressed(node, unique).outputs[0])
                result.count += 1
    return result


def _is_weights(node: Node) -> bool:
    """True for float constants of several values that are not those of preprocessing."""
    tensor = node.op.data
    if tensor is None or tensor.element_type not in (element_types.f32, element_types.f64) or tensor.size < 2:
        return False
    return PREPROCESSING not in node.runtime_info


def _reason_against(of_shapes: Set[Node], node: Node) -> str:
    """Return the reason why a constant stays; empty where float16 holds it."""
    assert node.op.data is not None
    return "decide shapes or indices" if node in of_shapes else _unfit(node.op.data)


def constants_of_shapes(model: Model) -> set[Node]:
    """Constants that a shape or an integer is computed from, through elementwise layers."""
    pending: list[Node] = []
    for node in model.nodes():
        if any(output.element_type.is_integral for output in node.outputs) and isinstance(node.op, _ELEMENTWISE):
            pending += [source.node for source in node.inputs if source.element_type.is_real]
        for index, source in enumerate(node.inputs):
            if source.tensor is not None and source.element_type.is_real and _decides_the_shape(node, index):
                pending.append(source.node)
    nodes: set[Node] = set()
    while pending:
        node = pending.pop()
        if node not in nodes and (node.op.data is not None or isinstance(node.op, _ELEMENTWISE)):
            nodes.add(node)
            pending += [source.node for source in node.inputs]
    return nodes


def _decides_the_shape(node: Node, index: int) -> bool:
    """True if inference finds other output shapes without the values of the input ``index``."""
    types = [source.type for source in node.inputs]
    types[index] = TensorType(types[index].element_type, types[index].shape)
    try:
        without_values = infer_types(node.op, types)
    except ModelError:
        return True
    return any(new.shape != old.shape for new, old in zip(without_values, [output.type for output in node.outputs]))


def _compressed(node: Node, unique: UniqueNames) -> Node:
    """The Convert back, which takes over the constant's name."""
    tensor = node.op.data
    assert tensor is not None

    def halves(source: Tensor = tensor) -> Iterator[Array]:
        for part in source.parts():
            yield to_half(part)

    # The float32 sample identifies equal tensors, so that these are stored once.
    stored = Tensor.computed_in_parts(element_types.f16, tensor.shape, halves, tensor.sample(), tensor, "float16")
    small = make_node(Const1(value=stored), (), unique(f"{node.name}_compressed"))
    back = make_node(Convert1(destination_type=tensor.element_type), small.outputs, node.name)
    back.runtime_info = (*node.runtime_info, DECOMPRESSION)
    back.origin = small.origin = node.origin
    back.outputs[0].runtime_info = node.outputs[0].runtime_info
    return back


def _unfit(tensor: Tensor) -> str:
    """Why float16 does not hold the values; empty where it does."""
    tiny = 0
    for part in tensor.in_stored_order().parts():
        beyond, small = misfits(part)
        if beyond:
            return f"have values beyond {LARGEST:.0f}"
        tiny += small
    return "are mostly smaller than float16's normal numbers" if tiny >= _TINY_SHARE * tensor.size else ""
