"""Move pads and factors into convolutions, poolings and products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.graph import Array, Node, Output, Tensor, make_node
from ir_runtime.graph.element_types import finfo
from ir_runtime.operations.convolution import (
    Convolution1,
    ConvolutionBackpropData1,
    GroupConvolution1,
    GroupConvolutionBackpropData1,
)
from ir_runtime.operations.elementwise import Add1, Divide1, Multiply1, Negative1, Subtract1
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Transpose1
from ir_runtime.operations.normalization import BatchNormInference5
from ir_runtime.operations.padding import Pad
from ir_runtime.operations.pooling import AvgPool, IndexedMaxPool, Pooling
from ir_runtime.records import record
from ir_runtime.rewriting import Builder, NotMatched, Replacement, UniqueNames, fail

from .channel_factors import SCALED, channel_axes, scaled
from .idioms import has_shape_of
from .registry import passes


@passes.replaces("folded_pads")
def folded_pad(builder: Builder, node: Node) -> Replacement:
    """Make pads in front of convolutions and poolings theirs.

        x -> Pad(0, 0, 1, 1 by 0) -> Convolution                        becomes      x -> Convolution(pads 1, 1)
        x -> Pad(0, 0, 1, 1 by 0) -> AvgPool(counts its pads)           becomes      x -> AvgPool(pads 1, 1)
        x -> Pad(0, 0, 1, 1 by -infinity) -> MaxPool                    becomes      x -> MaxPool(pads 1, 1)

    Only constant pads of the spatial dimensions; none that crop. Pads that anything else reads stay.
    """
    pad, op = node.inputs[0].node, node.op
    assert isinstance(op, (Convolution1, GroupConvolution1, Pooling))
    if not isinstance(pad.op, Pad):
        return fail(f"its data are made by {pad.op.type}, not by Pad")
    if pad.outputs[0].only_user is not node or node.inputs.count(pad.outputs[0]) != 1:
        return fail(f"layer '{pad.name}' is read elsewhere, too")
    if op.auto_pad not in ("explicit", "valid"):
        return fail("its own pads follow from the dimensions")
    added = _added_pads(pad)
    rank = len(op.strides)
    if len(added[0]) != rank:
        return fail("the rank of the pads is not that of the window")
    own = (op.pads_begin, op.pads_end) if op.auto_pad == "explicit" else ((0,) * rank, (0,) * rank)
    fill = np.zeros(1) if len(pad.inputs) < 4 else pad.inputs[3].type.constant
    if isinstance(op, Pooling):
        _check_pooling(op, own, added, fill, node)
    else:
        _check_zeros(fill)
    begins, ends = ([a + b for a, b in zip(mine, more)] for mine, more in zip(own, added))
    attributes: dict[str, object] = {"pads_begin": begins, "pads_end": ends, "auto_pad": "explicit"}
    if isinstance(op, AvgPool):
        attributes["exclude_pad"] = False
    return builder.emit_all(op.with_attributes(**attributes), pad.inputs[0], *node.inputs[1:])


def _added_pads(pad: Node) -> tuple[list[int], list[int]]:
    """The pads of the spatial dimensions."""
    before, after = (source.type.constant for source in pad.inputs[1:3])
    if pad.op.pad_mode != "constant" or before is None or after is None:  # type: ignore[attr-defined]
        raise fail("the pads are no constant, or not filled with one")
    begins, ends = before.reshape(-1).tolist(), after.reshape(-1).tolist()
    if min(begins + ends) < 0:
        raise fail("pads crop")
    if any(begins[:2] + ends[:2]):
        raise fail("pads are not of spatial dimensions alone")
    return begins[2:], ends[2:]


def _check_zeros(fill: Array | None) -> None:
    if fill is None or fill.size != 1 or fill.any():
        raise fail("the pads are not filled with 0")


def _check_pooling(
    op: Pooling,
    own: Sequence[Sequence[int]],
    added: Sequence[Sequence[int]],
    fill: Array | None,
    node: Node,
) -> None:
    """Raise why pads cannot become those of a pooling, whose windows all have to hold data."""
    dilations = getattr(op, "dilations", ()) or (1,) * len(op.kernel)
    if op.rounding_type != "floor":
        raise fail("windows that begin in the pads count otherwise")
    if any(d != 1 for d in dilations):
        raise fail("windows have gaps")
    if any(a + b >= size for sides in zip(own, added) for a, b, size in zip(*sides, op.kernel)):
        raise fail("a window could lie in the pads alone")
    if isinstance(op, AvgPool):
        if op.exclude_pad and any(any(side) for side in own):
            raise fail("its own pads do not count")
        _check_zeros(fill)
        return
    if fill is None or fill.size != 1 or not np.isneginf(fill.astype(np.float64)).all():
        raise fail("the pads are not filled with the least number")
    if isinstance(op, IndexedMaxPool) and node.outputs[1].uses:
        raise fail("indices count the pads, too")


_WEIGHTED = (Convolution1, GroupConvolution1, ConvolutionBackpropData1, GroupConvolutionBackpropData1, MatMul1)
_SCALES = (Multiply1, Divide1, Negative1, BatchNormInference5)
_STEPS = (*_SCALES, Add1, Subtract1, Transpose1)


@passes.edits("folded_scales")
def folded_scales(node: Node, unique: UniqueNames) -> int | NotMatched:
    """Scale the weights of convolutions and products in front of constant factors.

        x, weights -> Convolution -> Multiply(s)                becomes      x, weights * s -> Convolution
        x, weights -> Convolution -> Add(b) -> Multiply(s)      becomes      x, weights * s -> Convolution -> Add(b * s)
        x, weights -> Convolution -> BatchNormInference         becomes      x, weights * s -> Convolution -> Add(t)
        x, weights -> MatMul -> Transpose -> Multiply(s)        becomes      x, weights * s -> MatMul -> Transpose

    ``s`` and ``b`` are constants of one value, or of one for each output channel. MatMul with a constant matrix and all
    kinds of convolutions take part; so do Divide and Subtract by constants, and Negative. Transposes may stand in
    between: they take the channels along. All is computed in float64 and rounded once. Weights that anything else reads
    stay, and so do those of float16, which would be rounded a second time, and those that other layers make: whole
    numbers that are dequantised, FakeQuantize.
    """
    layers = _fold(node, unique)
    node.outputs[0].replace_by(layers[-1].outputs[0])
    return 1


@record
class _Channels:
    """The output channels of a layer: how many, and their axis counted from the end."""

    count: int
    from_end: int
    rank: int | None

    def of(self, value: Output) -> Array | None:
        """A constant as one number or one for each channel, in float64; None for anything else."""
        shape, tensor = value.shape, value.tensor
        if tensor is None or not value.element_type.is_real or len(tensor.shape) > (self.rank or self.from_end):
            return None
        sizes = tensor.shape
        other = [size for axis, size in enumerate(sizes) if shape.rank - axis != self.from_end]
        if any(size != 1 for size in other) or tensor.size not in (1, self.count):
            return None
        return tensor.array().astype(np.float64).reshape(-1)

    def behind(self, transpose: Node) -> _Channels | None:
        """The channels behind a Transpose; None where its order comes at run time, or is not explicit."""
        constant = transpose.inputs[1].type.constant
        order = [] if constant is None else constant.reshape(-1).tolist()
        if len(order) != (self.rank or len(order)) or len(order) < self.from_end:
            return None
        return _Channels(self.count, len(order) - order.index(len(order) - self.from_end), len(order))


def _fold(node: Node, unique: UniqueNames) -> list[Node]:
    """The layers from scaled weights on that compute what ``node`` does."""
    steps = [node]
    while not isinstance(_data(steps[-1]).node.op, _WEIGHTED):
        before = _data(steps[-1]).node
        if not isinstance(before.op, _STEPS):
            raise fail(f"what it scales is made by {before.op.type}, not by a layer with weights")
        steps.append(before)
    weighted = _data(steps[-1]).node
    for value in (weighted.outputs[0], *(step.outputs[0] for step in steps[1:])):
        if value.only_user is None:
            raise fail(f"what layer '{value.node.name}' returns is read elsewhere, too")
    at = 0 if weighted.inputs[1].tensor is None and isinstance(weighted.op, MatMul1) else 1
    weights = weighted.inputs[at]
    first = _channels(weighted, at)
    if weights.only_user is None or weighted.inputs.count(weights) != 1:
        raise fail("something else reads the weights, too")
    factor, shift, channels = np.ones(1), np.zeros(1), first
    for step in reversed(steps):
        followed = _follow(step, channels)
        if followed is None:
            raise fail(f"layer '{step.name}' has no constant for each output channel")
        channels, affine = followed
        with np.errstate(all="ignore"):
            factor, shift = factor * affine[0], shift * affine[0] + affine[1]
    reader = node.outputs[0].only_user
    while reader is not None and isinstance(reader.op, _STEPS):
        followed = _follow(reader, channels)
        if followed is None:
            break
        if isinstance(reader.op, _SCALES):
            raise fail("a layer behind it scales, too")
        channels, reader = followed[0], reader.outputs[0].only_user
    assert weights.tensor is not None
    constants = [
        source.tensor for step in steps for source in step.inputs if source is not _data(step) and source.tensor
    ]
    tensor = scaled(weights.tensor, channel_axes(weighted, at), factor, *constants)
    if isinstance(tensor, str):
        raise fail(tensor)
    if not (np.abs(shift) <= float(finfo(weights.element_type).max)).all():
        raise fail("the scaled bias is not finite in its type")
    constant = make_node(Const1(value=tensor), (), unique(f"{weights.node.name}/scaled"))
    constant.origin = weights.node.origin
    inputs = [constant.outputs[0] if source is weights else source for source in weighted.inputs]
    layers = [constant, make_node(weighted.op, inputs, weighted.name)]
    layers[1].origin, layers[1].runtime_info = weighted.origin, weighted.runtime_info
    if shift.any():
        batch = [] if isinstance(weighted.op, MatMul1) else [1]
        shape = [*batch, shift.size, *[1] * (first.from_end - 1)] if shift.size > 1 else [1]
        bias = Tensor.from_array(shift.astype(weights.element_type.dtype).reshape(shape))
        bias.derived(SCALED, *constants)
        layers.append(make_node(Const1(value=bias), (), unique(f"{node.name}/bias")))
        layers.append(make_node(Add1(), [layers[1].outputs[0], layers[2].outputs[0]], f"{node.name}/bias/Add"))
    for step in (step for step in reversed(steps) if isinstance(step.op, Transpose1)):
        layers.append(make_node(step.op, [layers[-1].outputs[0], step.inputs[1]], step.name))
    for layer in layers[2:]:
        layer.origin = node.origin
    layers[-1].name = node.name
    return layers


def _data(step: Node) -> Output:
    """The input of a scale or a shift that is not constant, or the first one."""
    return step.inputs[1] if step.op.commutative and step.inputs[0].tensor is not None else step.inputs[0]


def _channels(node: Node, weights: int) -> _Channels:
    """The output channels of a layer whose input ``weights`` is constant."""
    tensor, shape = node.inputs[weights].tensor, node.outputs[0].shape
    if tensor is None:
        raise fail("the weights are not constant")
    rank = shape.rank if shape.has_rank else None
    if not isinstance(node.op, MatMul1):
        assert rank is not None
        count = int(np.prod([tensor.shape[axis] for axis in channel_axes(node, weights)]))
        return _Channels(count, rank - 1, rank)
    data = node.inputs[1 - weights].shape
    if len(tensor.shape) != 2:
        raise fail("the weights are no matrix")
    if weights == 0 and not (data.has_rank and data.rank > 1):
        raise fail("what the weights are multiplied with is no matrix")
    return _Channels(tensor.shape[channel_axes(node, weights)[0]], 2 - weights, rank)


def _follow(step: Node, channels: _Channels) -> tuple[_Channels, tuple[Array, Array]] | None:
    """The channels behind a layer, and its factor and summand; None where it is none of those that take part."""
    if isinstance(step.op, Transpose1):
        behind = channels.behind(step)
        return None if behind is None else (behind, (np.ones(1), np.zeros(1)))
    affine = _affine(step, channels)
    return None if affine is None else (channels, affine)


def _affine(step: Node, channels: _Channels) -> tuple[Array, Array] | None:
    """The factor and the summand of a layer, of one number or one for each channel; None where it is no such layer."""
    if isinstance(step.op, BatchNormInference5):
        if channels.rank is None or channels.rank - channels.from_end != 1:
            return None
        tensors = [source.tensor for source in step.inputs[1:]]
        if any(tensor is None for tensor in tensors):
            return None
        gamma, beta, mean, variance = (tensor.array().astype(np.float64) for tensor in tensors if tensor is not None)
        factor = gamma / np.sqrt(variance + step.op.epsilon)
        return factor, beta - mean * factor
    if isinstance(step.op, Negative1):
        return -np.ones(1), np.zeros(1)
    data = _data(step)
    if step.inputs.count(data) != 1:
        return None
    (other,) = (source for source in step.inputs if source is not data)
    value = channels.of(other)
    if value is None:
        return None
    if isinstance(step.op, Multiply1):
        return value, np.zeros(1)
    if isinstance(step.op, Divide1):
        return 1 / value, np.zeros(1)
    return np.ones(1), value if isinstance(step.op, Add1) else -value


@passes.replaces("factors_before_convolutions")
def factor_before_convolution(builder: Builder, node: Node) -> Replacement:
    """Scale the weights of a convolution behind a factor of its data.

        x -> Multiply(c) -> Convolution(weights)      becomes      x -> Convolution(c * weights)

    Networks without normalisation scale what each block reads (NFNet). The pads stay zeros. Weights are computed in
    float64 and rounded once; those that anything else reads stay.
    """
    data, weights, *others = node.inputs
    scale = data.node
    if not isinstance(scale.op, (Multiply1, Divide1)) or data.only_user is not node:
        return fail("no product that nothing else reads is before it")
    if weights.tensor is None or weights.only_user is not node:
        return fail("the weights are not constant, or something else reads them, too")
    x, number = scale.inputs
    if isinstance(scale.op, Multiply1) and x.tensor is not None:
        x, number = number, x
    if number.tensor is None or number.tensor.size != 1:
        return fail("what it is multiplied by is not one constant number")
    if not has_shape_of(data, x):
        return fail("the number adds dimensions")
    with np.errstate(all="ignore"):
        factor = number.tensor.array().astype(np.float64).reshape(-1)
        tensor = scaled(weights.tensor, (), factor if isinstance(scale.op, Multiply1) else 1 / factor, number.tensor)
    return fail(tensor) if isinstance(tensor, str) else builder.emit(node.op, x, builder.tensor(tensor), *others)
