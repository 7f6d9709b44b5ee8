"""Rules for inputs of a rank, or of a batch, that the plug-in refuses or gets wrong."""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output, Tensor
from ir_runtime.operations.activation import ReLU1, SoftMax
from ir_runtime.operations.elementwise import Negative1
from ir_runtime.operations.indexing import OneHot1
from ir_runtime.operations.movement import Broadcast3
from ir_runtime.operations.recurrent import GRUSequence5, LSTMSequence5, RNNSequence5
from ir_runtime.operations.reduction import Reduction
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.layers import reshape

from .opaque_identity import opaque_identity


@openvino_cpu.replaces("attention_of_lower_rank", seen_in=("2024.6", "2025.4", "2026.4"))
def attention_of_lower_rank(builder: Builder, node: Node) -> Replacement:
    """Give attention weights the rank of the values, by leading dimensions of 1.

    The plug-in fuses a SoftMax between two matrix multiplications, and fails to compile it where the values of the
    second one have a higher rank.

        SoftMax [h, q, k] -> MatMul(values [1, h, k, d])      becomes      SoftMax -> Unsqueeze([0]) -> MatMul
    """
    weights, values = node.inputs
    if not isinstance(weights.node.op, SoftMax):
        return fail("the first operand is not a SoftMax")
    if not (weights.shape.has_rank and values.shape.has_rank) or values.shape.rank <= weights.shape.rank:
        return fail("a rank is dynamic, or that of the values is not higher")
    if weights.shape.rank == 1:
        return fail("the weights are a vector, whose product has no rows; the plug-in computes that")
    axes = range(values.shape.rank - weights.shape.rank)
    return builder.emit(node.op, layers.unsqueeze(builder, weights, *axes), values)


@openvino_cpu.replaces("constants_of_higher_rank", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def constants_of_higher_rank(builder: Builder, node: Node) -> Replacement:
    """Compute with a scalar or with a constant of the data's rank, and add the dimensions afterwards.

    Such a constant adds dimensions of 1 to the result. OpenVINO fuses the layers of an activation or a normalization
    (Clamp, Swish, HSwish, Gelu, SoftPlus, MVN, RMS ...) into one layer, which has the rank of the data, as a matrix
    multiplication with a bias has; a PReLU with such slopes ends the process. It takes a constant that is one number
    everywhere for a scalar, whatever its shape.

        x [2, 3] -> Add([[[1, 2, 3]]])      becomes      x -> Add([1, 2, 3]) -> Unsqueeze([0])

    The plug-in sees through the Unsqueeze of a variance that several layers read. Behind a reduction a Maximum of the
    value and itself follows, which changes nothing.
    """
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


@openvino_cpu.replaces("group_normalization_of_rank_2", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def group_normalization_of_rank_2(builder: Builder, node: Node) -> Replacement:
    """Add a dimension after the channels of a GroupNormalization of ``[batch, channels]``.

    The plug-in refuses it where the dimensions are dynamic.

        x -> GroupNormalization      becomes      x -> Unsqueeze(2) -> GroupNormalization -> Squeeze(2)
    """
    data, scale, bias = node.inputs
    if not data.shape.has_rank or data.shape.rank != 2:
        return fail("the rank is not 2")
    normalized = builder.emit(node.op, layers.unsqueeze(builder, data, 2), scale, bias)
    return layers.squeeze(builder, normalized, builder.constant([2]))


@openvino_cpu.replaces("matmul_by_stacked_weights", since="2025.1", seen_in=("2025.4", "2026.4"))
def matmul_by_stacked_weights(builder: Builder, node: Node) -> Replacement:
    """Repeat a matrix of dynamic dimensions for each of a stored stack of matrices.

    The plug-in gives the product one batch instead of one for each stored matrix, and fails.

        x [1, t, i] -> MatMul(weights [e, i, o])      becomes      x -> Broadcast [e, 1, 1] -> MatMul(weights)

    The product of static dimensions is right, and so is that of weights of more dimensions.
    """
    data, weights = node.inputs
    if data.shape.is_static or not data.shape.has_rank or data.shape.rank not in (2, 3):
        return fail("the first input has a static shape, or its rank is not 2 or 3")
    if not weights.shape.has_rank or weights.shape.rank != 3 or not _is_stored(weights):
        return fail("the second input is not made of constants alone, or its rank is not 3")
    count = weights.shape[0]
    single = data.shape.rank == 2 or data.shape[0].contains(1)
    if not single or not count.is_static or count.value < 2:
        return fail("the first input is never a single matrix, or the second one has less than 2 matrices")
    shape = builder.constant([count.value, 1, 1])
    copies = builder.emit(Broadcast3(mode="bidirectional"), data, shape)
    return builder.emit(node.op, copies, weights)


def _is_stored(value: Output, deepest: int = 6) -> bool:
    """True if it is computed from constants alone; weights may be compressed and transposed."""
    if value.tensor is not None or not value.node.inputs:
        return value.tensor is not None
    return deepest > 0 and all(_is_stored(source, deepest - 1) for source in value.node.inputs)


@openvino_cpu.replaces("nms_dynamic_boxes", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def nms_dynamic_boxes(builder: Builder, node: Node) -> Replacement:
    """Give boxes and scores of NonMaxSuppression a rank, and boxes 4 coordinates.

    The plug-in requires the rank, and 4 coordinates as a static dimension.

        boxes [n, k, ?] -> NonMaxSuppression      becomes      boxes -> Reshape [0, 0, 4] -> NonMaxSuppression
    """
    boxes, scores, *others = node.inputs
    if not boxes.shape.has_rank or not boxes.shape[2].is_static:
        boxes = reshape(builder, boxes, [0, 0, 4])
    if not scores.shape.has_rank:
        scores = reshape(builder, scores, [0, 0, 0])
    sources = (boxes, scores, *others)
    if sources == node.inputs:
        return fail("the rank of boxes and scores and the number of coordinates are static")
    return builder.emit_all(node.op, *sources)


@openvino_cpu.replaces("one_hot_of_a_scalar", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def one_hot_of_a_scalar(builder: Builder, node: Node) -> Replacement:
    """Reshape a scalar index of OneHot to a list where the depth comes at run time.

    The plug-in refuses a scalar, but supports a list of one index.

        index -> OneHot(axis 0)      becomes      index -> Unsqueeze(0) -> OneHot(axis 1) -> Squeeze(0)
    """
    index, *others = node.inputs
    if not index.shape.has_rank or index.shape.rank or others[0].type.constant is not None:
        return fail("the index is not known to be a scalar, or the depth is constant")
    rows = builder.emit(OneHot1(axis=1), layers.unsqueeze(builder, index, 0), *others)
    return layers.squeeze(builder, rows, builder.constant([0]))


@openvino_cpu.replaces("sequences_of_known_batch", GRUSequence5, LSTMSequence5, RNNSequence5, seen_in=("2026.4",))
def sequences_of_known_batch(builder: Builder, node: Node) -> Replacement:
    """Give data, states and lengths of recurrent sequences one batch.

    The plug-in does not compile them. Constant states, as Keras writes them, are of batch 1:

        x [?, t, i], states [1, d, h] -> LSTMSequence      becomes      x -> Reshape([1, 0, 0]) -> LSTMSequence

    The Reshape takes no other batch than that of the states.
    """
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


@openvino_cpu.replaces("slopes_of_columns", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def slopes_of_columns(builder: Builder, node: Node) -> Replacement:
    """Give the slopes of a PReLU along the last axis two dimensions.

    The plug-in fuses both branches into one PRelu, which applies slopes of one dimension along the channels (axis 1).

        x -> Negative -> ReLU -> Multiply([8])      becomes      x -> Negative -> ReLU -> Multiply([1, 8])
    """
    for index, source in enumerate(node.inputs):
        tensor, data = source.tensor, node.inputs[1 - index]
        if tensor is None or len(tensor.shape) != 1 or tensor.size == 1:
            continue
        branch = data.node.inputs[0] if isinstance(data.node.op, Negative1) else data
        if isinstance(branch.node.op, ReLU1) and data.shape.has_rank and data.shape.rank > 2:
            inputs = list(node.inputs)
            inputs[index] = builder.constant(tensor.array().reshape(1, -1), source.element_type)
            return builder.emit(node.op, *inputs)
    return fail("it does not multiply a ReLU of three or more dimensions by a constant of one dimension")
