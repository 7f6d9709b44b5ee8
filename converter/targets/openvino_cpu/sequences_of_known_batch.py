"""Recurrent sequences whose states are of a known batch, and whose data are not.

The plug-in does not compile them. Constant states, as Keras writes them, are of batch 1:

    x [?, t, i], states [1, d, h] -> LSTMSequence      becomes      x -> Reshape([1, 0, 0]) -> LSTMSequence

The Reshape takes no other batch than that of the states.
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output
from ir_runtime.operations.recurrent import GRUSequence5, LSTMSequence5, RNNSequence5
from ir_runtime.rewriting import Builder, Replacement, fail, layers


@openvino_cpu.replaces("sequences_of_known_batch", GRUSequence5, LSTMSequence5, RNNSequence5, seen_in=("2026.4",))
def sequences_of_known_batch(builder: Builder, node: Node) -> Replacement:
    """Give data, states and lengths one batch."""
    assert isinstance(node.op, (GRUSequence5, LSTMSequence5, RNNSequence5))
    batched = 2 + node.op.states
    inputs = node.inputs[:batched]
    if not all(value.shape.has_rank for value in inputs):
        return fail("a rank is dynamic")
    batches = {value.shape[0].value for value in inputs if value.shape[0].is_static}
    if len(batches) != 1 or all(value.shape[0].is_static for value in inputs):
        return fail("the batch is that of all inputs, or of none")
    (batch,) = batches
    return builder.emit_all(node.op, *(_of_batch(builder, value, batch) for value in inputs), *node.inputs[batched:])


def _of_batch(builder: Builder, value: Output, batch: int) -> Output:
    if value.shape[0].is_static:
        return value
    return layers.reshape(builder, value, [batch, *[0] * (value.shape.rank - 1)])
