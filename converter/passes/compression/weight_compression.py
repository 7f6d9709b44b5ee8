"""Weights of matrix multiplications, lookups and convolutions stored in 8 or 4 bits, without calibration data.

Before and after, in the layers that OpenVINO's plug-ins keep small and multiply with as they are:

    Const f32 [n, k] -> MatMul        Const u8 [n, k] -> Convert -> Subtract -> Multiply -> MatMul
                                      Const u8 [n, 1] -> Convert ---^           ^
                                      Const f16 [n, 1] -> Convert --------------'

without the Subtract where the codes are symmetric, and with groups as ``[n, k / 128, 128]``, followed by a Reshape.
The constant keeps its name, and the last layer has its tensor names. The conversion of the scales carries the
``decompression`` mark; that of the codes must not, because the plug-in would expand the weights. The model's
``rt_info`` records that its weights were rounded, unlike whole numbers of its own.

Which weights, and how, follows nncf's ``compress_weights``:

* constants of MatMul (either side), Gather and the convolutions; recurrent layers keep theirs;
* 8 bits: asymmetric, a scale for each output channel (each row of what Gather looks up);
* 4 bits: symmetric, a scale for each 128 weights of a channel. Look-ups, convolutions, and products that no
  layer with weights comes after take 8 bits, asymmetric, instead;
* where the depth is not a multiple of the group, the largest smaller power of two that divides it is taken, down
  to 32; where there is none, 8 bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from converter.errors import ConversionError
from converter.stages import progress_of
from ir_runtime.graph import Model, Node, Operation, Output, RuntimeInfo, Tensor, element_types, make_node
from ir_runtime.graph.invariants import COMPRESSION
from ir_runtime.operations.convolution import (
    Convolution1,
    ConvolutionBackpropData1,
    GroupConvolution1,
    GroupConvolutionBackpropData1,
)
from ir_runtime.operations.elementwise import Convert1, Multiply1, Subtract1
from ir_runtime.operations.generation import ShapeOf
from ir_runtime.operations.indexing import Gather1, Gather7
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Reshape1, Transpose1
from ir_runtime.records import record
from ir_runtime.rewriting import UniqueNames, graph_pass
from ir_runtime.threads import map_in_order

from .float16_constants import DECOMPRESSION
from .integer_grid import OnGrid, element_type_of_codes, put_on_grid

WEIGHT_COMPRESSION = "weight_compression"
"""The tag in a model's ``rt_info`` that marks compressed weights; nncf writes one of the same name."""
_MIN_BYTES_SAVED = 1024
"""Weights that save fewer bytes stay: the layers that compression adds are not worth it."""
_MIN_GROUP = 32
_LARGEST_IN_FLOAT16 = 60000.0
"""The ends of a grid must stay below it in float16, where that is the weights' own type."""
_DEFAULT_GROUP = 128
_REAL = (element_types.f32, element_types.f16)

_CONVOLUTIONS = (Convolution1, GroupConvolution1, ConvolutionBackpropData1, GroupConvolutionBackpropData1)


@record
class WeightCompression:
    """How weights are compressed: ``bits`` a weight, with a scale for each ``group_size`` weights of a channel.

    A ``group_size`` of -1 is one scale a channel. None is nncf's default: one scale a channel and a zero
    point with 8 bits, groups of 128 weights and no zero point with 4. ``symmetric`` weights have no zero point; None is
    the default of the bits. Raises :class:`ConversionError` for
    other bits and groups.
    """

    bits: int = 8
    group_size: int | None = None
    symmetric: bool | None = None

    def __post_init__(self) -> None:
        if self.bits not in (4, 8):
            raise ConversionError(f"weights are compressed to 4 or 8 bits, but {self.bits} were asked for")
        if self.group_size is not None and self.group_size != -1 and self.group_size < 2:
            raise ConversionError(
                f"a group has 2 weights or more, or -1 stands for a whole channel, but the group size is"
                f" {self.group_size}"
            )

    @classmethod
    def named(cls, name: str, group_size: int | None = None, symmetric: bool | None = None) -> WeightCompression:
        """The compression that the command line calls ``int8`` or ``int4``."""
        if name not in COMPRESSIONS:
            raise ConversionError(f"weights are compressed to {' or '.join(COMPRESSIONS)}, but not to {name!r}")
        return cls(int(name.removeprefix("int")), group_size, symmetric)

    @property
    def group(self) -> int:
        """The weights that share a scale; -1 for a whole channel."""
        return (_DEFAULT_GROUP if self.bits == 4 else -1) if self.group_size is None else self.group_size

    @property
    def is_symmetric(self) -> bool:
        """True if there is no zero point."""
        return self.bits == 4 if self.symmetric is None else self.symmetric


COMPRESSIONS = ("int8", "int4")


@dataclass
class CompressedWeights:
    """Counts of the compressed weights of a model, and the reasons for others."""

    count: Counter[str] = field(default_factory=Counter)
    """The number of weights by form: ``u8 by channel``, ``i4 in groups of 128``."""
    kept: Counter[str] = field(default_factory=Counter)
    """The number of unchanged ones by reason."""
    constants: set[Node] = field(default_factory=set)
    """The constants that hold codes, scales and zero points, which must keep their types."""


@record
class _Use:
    """A layer that has a constant as its weights; ``reduced`` are the axes of the constant within a channel."""

    node: Node
    reduced: tuple[int, ...]


@record
class _Weights:
    """A constant, the value that layers read (the constant, or a Convert of it), and these layers."""

    constant: Node
    value: Output
    uses: tuple[_Use, ...]

    @property
    def tensor(self) -> Tensor:
        assert self.constant.op.data is not None
        return self.constant.op.data


@record
class _Way:
    """The form of a compressed constant: the type of its codes, and the number of weights that share a scale."""

    bits: int
    symmetric: bool
    group: int

    def __str__(self) -> str:
        element_type = element_type_of_codes(self.bits, self.symmetric)
        return f"{element_type} {'by channel' if self.group == -1 else f'in groups of {self.group}'}"


@graph_pass("weight_compression", COMPRESSION)
def compress_weights(model: Model, options: WeightCompression) -> CompressedWeights:
    """Store the weights of ``model`` and its bodies in 8 or 4 bits, in place; the codes are computed when written.

    What stays: constants that other layers read as well, that are too small, that are not finite or beyond float16.
    """
    result = CompressedWeights()
    for part in model.all_models():
        all_weights = [weights for node in part.nodes() if (weights := _weights(node)) is not None]
        last = _last_products(part, {use.node for weights in all_weights for use in weights.uses})
        unique = UniqueNames(part)
        ways = [_way(weights, options, last) for weights in all_weights]
        byte_count = sum(weights.tensor.byte_size for weights in all_weights)
        grids, progress = [], progress_of("Compressing weights")
        for grid in map_in_order(_grid, [*zip(all_weights, ways)], byte_count):
            grids.append(grid)
            progress(len(grids) / len(ways))
        for weights, way, grid in zip(all_weights, ways, grids):
            if isinstance(grid, str):
                result.kept[grid] += 1
                continue
            new_layers = _layers(weights, grid, unique)
            weights.value.replace_by(new_layers[-1].outputs[0], move_names=False)
            result.count[str(way)] += 1
            result.constants.update(layer for layer in new_layers if layer.op.data is not None)
    if result.count:
        before = (info for info in model.runtime_info if info.tag != WEIGHT_COMPRESSION)
        model.runtime_info = (*before, _record_of(options))
    return result


def _record_of(options: WeightCompression) -> RuntimeInfo:
    """The options, with the names that nncf gives them."""
    record = {
        "group_size": options.group,
        "mode": f"int{options.bits}_{'sym' if options.is_symmetric else 'asym'}",
    }
    return RuntimeInfo(WEIGHT_COMPRESSION, (), tuple(RuntimeInfo(k, (("value", str(v)),)) for k, v in record.items()))


def _weights(node: Node) -> _Weights | None:
    """A real constant of two or more dimensions that some layer has as its weights; None for other nodes."""
    tensor = node.op.data
    if tensor is None or tensor.element_type not in _REAL or len(tensor.shape) < 2:
        return None
    value = node.outputs[0]
    readers = value.uses
    if len(readers) == 1 and isinstance(readers[0].op, Convert1) and readers[0].outputs[0].element_type in _REAL:
        value = readers[0].outputs[0]
    weight_uses = tuple(_uses_as_weights(value, tuple(range(len(tensor.shape)))))
    return _Weights(node, value, weight_uses) if weight_uses else None


def _uses_as_weights(value: Output, axes: tuple[int, ...]) -> Iterable[_Use]:
    """The layers that ``value`` is the weights of; its dimensions are those of the constant in the order ``axes``."""
    for reader in value.uses:
        if isinstance(reader.op, Transpose1) and reader.inputs[1].tensor is not None:
            order = reader.inputs[1].tensor.array().tolist() or range(len(axes))[::-1]
            yield from _uses_as_weights(reader.outputs[0], tuple(axes[axis] for axis in order))
            continue
        reduced = _reduced_axes(reader, value)
        if reduced is not None:
            yield _Use(reader, tuple(sorted(axes[axis] for axis in reduced)))


def _reduced_axes(reader: Node, value: Output) -> tuple[int, ...] | None:
    """The axes of the weights ``value`` that a layer sums over, or looks up at once; None where it has no weights."""
    op, rank = reader.op, len(value.shape)
    if isinstance(op, MatMul1):
        if reader.inputs[0] is value:
            return (rank - 2 if op.transpose_a else rank - 1,)
        return (rank - 1 if op.transpose_b else rank - 2,)
    if isinstance(op, (Gather1, Gather7)):
        axis = reader.inputs[2].tensor
        if reader.inputs[0] is not value or axis is None or (isinstance(op, Gather7) and op.batch_dims):
            return None
        column_axis = int(axis.array().reshape(-1)[0]) % rank
        return tuple(other for other in range(rank) if other != column_axis)
    if not isinstance(op, _CONVOLUTIONS) or reader.inputs[1] is not value:
        return None
    return tuple(axis for axis in range(rank) if axis not in op.channel_axes)


def _last_products(model: Model, weighted: set[Node]) -> set[Node]:
    """The products with weights that no other layer with weights comes after."""
    followed: set[Node] = set()
    last: set[Node] = set()
    for node in reversed(model.nodes()):
        if node in weighted and node not in followed and isinstance(node.op, MatMul1):
            last.add(node)
        if node in weighted or node in followed or node.op.subgraphs:
            followed.update(source.node for source in node.inputs)
    return last


def _way(weights: _Weights, options: WeightCompression, last: set[Node]) -> _Way:
    """Choose the form of a constant by the layers that read it and by its depth."""
    backup = _Way(8, options.is_symmetric if options.bits == 8 else False, -1)
    reduced = weights.uses[0].reduced
    if not all(isinstance(use.node.op, MatMul1) and use.reduced == reduced for use in weights.uses):
        return backup
    if options.bits == 4 and any(use.node in last for use in weights.uses):
        return backup
    if options.group == -1:
        return _Way(options.bits, options.is_symmetric, -1)
    depth, group = weights.tensor.shape[reduced[0]], options.group
    if depth % group:
        group = 1 << (group.bit_length() - 1)
        while depth % group:
            group //= 2
        if group < _MIN_GROUP:
            return backup
    return _Way(options.bits, options.is_symmetric, group)


def _grid(weights_and_way: tuple[_Weights, _Way]) -> OnGrid | str:
    """Return the codes of the weights, or the reason why these stay."""
    weights, way = weights_and_way
    tensor = weights.tensor
    if not _read_as_weights(weights):
        return "are read by other layers as well"
    reduced = next((use.reduced for use in weights.uses if isinstance(use.node.op, MatMul1)), weights.uses[0].reduced)
    shape = tensor.shape
    if way.group != -1:
        axis = reduced[0]
        shape = (*shape[:axis], shape[axis] // way.group, way.group, *shape[axis + 1 :])
        reduced = (axis + 1,)
    scales = int(np.prod([dimension for axis, dimension in enumerate(shape) if axis not in reduced], dtype=np.int64))
    if tensor.byte_size - tensor.size * way.bits // 8 - 3 * scales < _MIN_BYTES_SAVED:
        return "are too small"
    grid = put_on_grid(tensor, shape, reduced, way.bits, way.symmetric)
    if isinstance(grid, str):
        return grid
    if weights.value.element_type is element_types.f16:
        scale = grid.scale.array()
        if (
            grid.scale.element_type is not element_types.f16
            or np.abs(scale).max() * (1 << way.bits) > _LARGEST_IN_FLOAT16
        ):
            return "have steps that float16 does not hold"
    return grid


def _read_as_weights(weights: _Weights) -> bool:
    """True if only layers that have the constant as weights read it; others may read its shape."""
    allowed = {use.node for use in weights.uses}
    pending = [weights.value]
    while pending:
        value = pending.pop()
        for reader in value.uses:
            if isinstance(reader.op, Transpose1) and reader.inputs[0] is value:
                pending.append(reader.outputs[0])
            elif isinstance(reader.op, ShapeOf):
                continue
            elif reader not in allowed or reader.inputs.count(value) != 1:
                return False
    return True


def _layers(weights: _Weights, grid: OnGrid, unique: UniqueNames) -> list[Node]:
    """The layers from codes to weights; the last one has the names of the weights."""
    node, value = weights.constant, weights.value
    new_layers: list[Node] = []

    def emit(op: Operation, inputs: Iterable[Output], name: str) -> Output:
        layer = make_node(op, list(inputs), name)
        layer.origin = node.origin
        new_layers.append(layer)
        return layer.outputs[0]

    def wide(tensor: Tensor, name: str) -> Output:
        """A constant in the weights' type."""
        constant = emit(Const1(value=tensor), (), name)
        if tensor.element_type is value.element_type:
            return constant
        converted = emit(Convert1(destination_type=value.element_type), [constant], unique(f"{name}/convert"))
        if tensor.element_type.is_real:
            new_layers[-1].runtime_info = (DECOMPRESSION,)
        return converted

    result = wide(grid.codes, node.name)
    if grid.zero_point is not None:
        zero = wide(grid.zero_point, unique(f"{node.name}/zero_point"))
        result = emit(Subtract1(), [result, zero], unique(f"{node.name}/zero_point/subtract"))
    scale = wide(grid.scale, unique(f"{node.name}/scale"))
    result = emit(Multiply1(), [result, scale], unique(f"{node.name}/scale/multiply"))
    if grid.codes.shape != weights.tensor.shape:
        shape = emit(
            Const1(value=Tensor.from_array(np.array(weights.tensor.shape))), (), unique(f"{node.name}/reshape/shape")
        )
        result = emit(Reshape1(special_zero=False), [result, shape], unique(f"{node.name}/reshape"))
    if value is not node.outputs[0]:
        new_layers[-1].name = value.node.name
    new_layers[0].runtime_info = node.runtime_info
    result.names = list(value.names)
    result.runtime_info = value.runtime_info
    return new_layers
