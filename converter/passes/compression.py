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
from ir_runtime.rewrite import UniqueNames, replace_all_uses
from ir_runtime.shape_inference import make_node
from ir_runtime.tensor import Tensor

from .pipeline import model_pass

_MARK = RuntimeInfo("attribute", (("name", "decompression"), ("version", "0")))
_LARGEST = 65504.0
_SMALLEST = 2.0**-24


@model_pass("compress_to_fp16", on_request=True)
def compress_weights_to_fp16(model: Model) -> int:
    """Store the float weights of ``model`` and its bodies as float16, in place.

    A constant of which a value would become infinite or vanish in float16 keeps its type, and so
    do scalars, which gain nothing.
    """
    acted = 0
    for part in model.all_models():
        unique = UniqueNames(part)
        replaced: dict[Output, Output] = {}
        for node in part.nodes():
            if _is_worth_it(node):
                back = _compressed(node, unique)
                replaced[node.outputs[0]] = back.outputs[0]
        replace_all_uses(part, replaced)
        acted += len(replaced)
    return acted


def _is_worth_it(node: Node) -> bool:
    tensor = node.op.data
    if tensor is None or tensor.element_type not in (element_types.f32, element_types.f64):
        return False
    return tensor.size >= 2 and _fits(tensor.array())


def _compressed(node: Node, unique: UniqueNames) -> Node:
    """The conversion back, which takes over the constant's name."""
    tensor = node.op.data
    assert tensor is not None

    def halves(source: Tensor = tensor) -> Array:
        return source.array().astype(np.float16)

    small = make_node(
        Const1(value=Tensor.computed(element_types.f16, tensor.shape, halves)), (), unique(f"{node.name}_compressed")
    )
    back = make_node(Convert1(destination_type=tensor.element_type), small.outputs, node.name)
    back.runtime_info = (*node.runtime_info, _MARK)
    back.origin = small.origin = node.origin
    back.outputs[0].names = list(node.outputs[0].names)
    back.outputs[0].runtime_info = node.outputs[0].runtime_info
    return back


def _fits(values: Array) -> bool:
    """Whether float16 holds every value: none overflows, and none but a zero becomes zero."""
    finite = np.abs(values[np.isfinite(values)])
    return bool((finite <= _LARGEST).all() and ((finite == 0) | (finite >= _SMALLEST)).all())
