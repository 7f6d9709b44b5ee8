"""Weights of products, stored in the order in which the plug-in packs them.

The plug-in computes a product with constant weights from weights [n, k], a row for each output, as PyTorch stores them
in its own files. Weights [k, n] are transposed each time that the model is compiled.

    x -> MatMul(weights [k, n])      becomes      x -> MatMul(weights [n, k], transpose_b)

The transposed weights are a view of those of the model: bytes move once, when the IR is written. OpenVINO's converter
stores them in this order, too. Weights that any other layer reads stay.
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Model, Node, make_node
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.rewriting import NotMatched, PassTrace, fail


@openvino_cpu.register("transposed_weights", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def transposed_weights(model: Model, trace: PassTrace) -> int:
    """Transpose the weights of products, and tell the products so."""
    count = 0
    for part in model.parts():
        factors = [product.inputs[1].node for product in part.nodes_of((MatMul1,))]
        for node in dict.fromkeys(factors):
            why_not = _why_not(node)
            for reader in node.outputs[0].uses:
                if why_not is not None:
                    trace.not_matched(reader, why_not)
                else:
                    trace.matched(reader)
                    count += 1
            if why_not is None:
                _transpose(node)
    return count


def _why_not(node: Node) -> NotMatched | None:
    tensor = node.op.data
    if tensor is None or not tensor.element_type.is_real or tensor.element_type.is_packed:
        return fail("the second input is not a constant of floats")
    if len(tensor.shape) < 2 or any(dimension != 1 for dimension in tensor.shape[:-2]):
        return fail("the weights are no single matrix")
    for reader in node.outputs[0].uses:
        if not isinstance(reader.op, MatMul1) or reader.inputs[0] is node.outputs[0]:
            return fail("another layer reads the weights, too")
        if reader.op.transpose_b:
            return fail("the weights are transposed already")
    return None


def _transpose(node: Node) -> None:
    """Replace ``node`` by the transposed constant, under its name; the tensor of the model is gone."""
    assert node.op.data is not None
    transposed = make_node(Const1(value=node.op.data.transposed()), (), node.name)
    transposed.origin, transposed.runtime_info = node.origin, node.runtime_info
    for reader in node.outputs[0].uses:
        assert isinstance(reader.op, MatMul1)
        reader.op = MatMul1(transpose_a=reader.op.transpose_a, transpose_b=True)
        reader.replace_input(1, transposed.outputs[0])
