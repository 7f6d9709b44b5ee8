"""Arithmetic with a constant whose rank is higher than that of the data.

Such a constant adds dimensions of 1 to the result. OpenVINO fuses the layers of an activation or a normalization
(Clamp, Swish, HSwish, Gelu, SoftPlus, MVN, RMS ...) into one layer, which has the rank of the data, as a matrix
multiplication with a bias has; a PReLU with such slopes ends the process. It takes a constant that is one number
everywhere for a scalar, whatever its shape.

    x [2, 3] -> Add([[[1, 2, 3]]])      becomes      x -> Add([1, 2, 3]) -> Unsqueeze([0])

The plug-in sees through the Unsqueeze of a variance that several layers read. Behind a reduction a Maximum of the
value and itself follows, which changes nothing.
"""

from __future__ import annotations

from converter.targets.openvino_cpu.opaque_identity import opaque_identity
from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Tensor
from ir_runtime.operations.movement import Broadcast3
from ir_runtime.operations.reduction import Reduction
from ir_runtime.rewriting import Builder, Replacement, fail, layers


@openvino_cpu.replaces("constants_of_higher_rank", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def constants_of_higher_rank(builder: Builder, node: Node) -> Replacement:
    """Compute with a scalar or with a constant of the data's rank, and add the dimensions afterwards."""
    if node.op.auto_broadcast != "numpy":  # type: ignore[attr-defined]
        return fail("the shapes do not broadcast as in NumPy")
    for place, source in enumerate(node.inputs):
        data, tensor = node.inputs[1 - place].shape, source.tensor
        if tensor is None or not data.has_rank or tensor.size == 0:
            continue
        added = range(source.shape.rank - data.rank)
        if not added:
            continue
        adds_ones = all(tensor.shape[axis] == 1 for axis in added)
        if not adds_ones and not _is_one_number(tensor):
            continue
        values = tensor.array()
        scalar_or_row = values.reshape(tensor.shape[len(added) :]) if adds_ones and tensor.size > 1 else values.flat[0]
        inputs = list(node.inputs)
        inputs[place] = builder.constant(scalar_or_row, source.element_type)
        result = builder.emit(node.op, *inputs)
        if adds_ones:
            result = layers.unsqueeze(builder, result, *added)
        else:
            result = builder.emit(Broadcast3(mode="bidirectional"), result, builder.constant(list(tensor.shape)))
        if isinstance(node.inputs[1 - place].node.op, Reduction):
            return builder.emit(opaque_identity(result.element_type), result, result)
        return result
    return fail("no input is a constant that adds dimensions of 1, or is one number everywhere")


def _is_one_number(tensor: Tensor) -> bool:
    """True if all elements are equal; weights mostly differ at their ends, and are then not read between these."""
    values = tensor.array()
    return bool(values.flat[0] == values.flat[-1] and (values == values.flat[0]).all())
