"""FP16 compression: float32 and float64 weights stored as float16, each with a conversion back.

The pattern is OpenVINO's: a Const called ``<name>_compressed`` in f16, and a Convert that takes over
the constant's name and carries the ``decompression`` mark, so that plug-ins keep the weights small.
"""

from __future__ import annotations

import numpy as np

from ir_runtime import element_types
from ir_runtime.element_types import Array
from ir_runtime.graph import Model, Node, Output, RuntimeInfo
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.shape_inference import make_node
from ir_runtime.tensor import Tensor

_MARK = RuntimeInfo("attribute", (("name", "decompression"), ("version", "0")))
_LARGEST = 65504.0
_SMALLEST = 2.0**-24


def compress_weights_to_fp16(model: Model) -> Model:
    """A copy of ``model`` whose float weights are stored as float16.

    A constant of which a value would become infinite or vanish in float16 keeps its type, and so
    do scalars, which gain nothing. Bodies are left as they are.
    """
    replaced: dict[Output, Output] = {}
    copies: dict[Node, Node] = {}
    for node in model.nodes():
        copy = _compressed(node) or _copied(node, replaced)
        copies[node] = copy
        for old, new in zip(node.outputs, copy.outputs):
            replaced[old] = new
    return Model(
        model.name,
        [copies[node] for node in model.parameters],
        [copies[node] for node in model.results],
        [copies[node] for node in model.sinks],
        model.runtime_info,
        model.version,
    )


def _copied(node: Node, replaced: dict[Output, Output]) -> Node:
    copy = Node(node.op, [replaced[source] for source in node.inputs], [o.type for o in node.outputs], node.name)
    copy.output_names = list(node.output_names)
    copy.runtime_info = node.runtime_info
    for old, new in zip(node.outputs, copy.outputs):
        new.names = list(old.names)
        new.runtime_info = old.runtime_info
    return copy


def _compressed(node: Node) -> Node | None:
    tensor = node.op.data
    if tensor is None or tensor.element_type not in (element_types.f32, element_types.f64):
        return None
    if tensor.size < 2 or not _fits(tensor.array()):
        return None

    def halves(source: Tensor = tensor) -> Array:
        return source.array().astype(np.float16)

    small = make_node(
        Const1(value=Tensor.computed(element_types.f16, tensor.shape, halves)), (), f"{node.name}_compressed"
    )
    back = make_node(Convert1(destination_type=tensor.element_type), small.outputs, node.name)
    back.runtime_info = (*node.runtime_info, _MARK)
    back.outputs[0].names = list(node.outputs[0].names)
    back.outputs[0].runtime_info = node.outputs[0].runtime_info
    return back


def _fits(values: Array) -> bool:
    """Whether float16 holds every value: none overflows, and none but a zero becomes zero."""
    finite = np.abs(values[np.isfinite(values)])
    return bool((finite <= _LARGEST).all() and ((finite == 0) | (finite >= _SMALLEST)).all())
