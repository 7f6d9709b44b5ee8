"""Encoders of images as rows of patches, of any number of images: Qwen2-VL's and Qwen2.5-VL's.

An exporter leaves one model, which computes the positions of the patches and what each may see from the grids of the
images (``image_grid_thw``). openvino-genai computes these itself, and gives them the model:

    grids -> angles of the positions -> Cos, Sin      becomes      rotary_pos_emb [patches, width] -> Cos, Sin
    grids -> mask of attention                        becomes      attention_mask [1, patches, patches]

Qwen2.5-VL sorts the tokens, squares of patches, by windows of the image, which some layers see alone:

    grids -> order of the tokens -> Gather            becomes      window_index [tokens] -> Gather
    grids -> mask of attention in windows             becomes      window_attention_mask [1, patches, patches]

There ``rotary_pos_emb`` has the order of the image, and is sorted by ``window_index``, too.

Qwen3-VL adds embeddings of positions to those of patches: a table for a square of patches, between whose entries is
interpolated for the image. openvino-genai looks the four nearest entries up and adds their weighted sum:

    patches -> embeddings + positions of grids        becomes      patches -> embeddings; hidden_states
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from converter.errors import UnsupportedModelError
from ir_runtime.errors import ExecutionError
from ir_runtime.execution.executor import compile_model
from ir_runtime.graph import Array, ElementType, Model, Node, Output, PartialShape, Tensor, element_types, make_node
from ir_runtime.graph.invariants import OPTIONS
from ir_runtime.graph.operation import Operation
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.elementwise import Add1, Cos1, Sin1
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.inputs_outputs import Const1, Parameter1, Result1
from ir_runtime.operations.movement import Concat1
from ir_runtime.records import record
from ir_runtime.rewriting import Builder, UniqueNames, graph_pass, layers
from ir_runtime.rewriting.submodel import extract
from ir_runtime.rewriting.type_updates import infer_stale

GRIDS = ("image_grid_thw", "grid_thw")
"""Names of the inputs with the numbers of patches of each image: over time, from top to bottom, from left to right."""
PATCHES, ANGLES, MASK, STATES = "hidden_states", "rotary_pos_emb", "attention_mask", "last_hidden_state"
ORDER, WINDOW_MASK = "window_index", "window_attention_mask"
_MASK_AT = 3
_BASE = 10000.0
_HIDDEN = -1e4
"""The largest value of an additive mask that hides a patch."""


@graph_pass("positions_of_patches", OPTIONS)
def take_positions(model: Model, merge_size: int, window: int | None = None) -> None:
    """Let the model's angles and masks be inputs, and drop that of the grids, in place.

    ``merge_size`` is the side of the squares of patches that become one token, ``window`` the side of the windows of
    tokens where there are some; then the order of the tokens becomes an input, too. Raises
    :class:`UnsupportedModelError` where positions, masks or the order are others than openvino-genai computes, or grids
    are read for more than these.
    """
    grids = next((node for node in model.parameters if any(name in GRIDS for name in node.end_names)), None)
    if grids is None:
        raise UnsupportedModelError(f"the encoder of images must read the grids of its patches, '{GRIDS[0]}'")
    waves = _waves(model, grids, merge_size)
    angles = next(iter(waves))
    attentions = [node for node in model.nodes() if isinstance(node.op, ScaledDotProductAttention13)]
    if not attentions:
        raise UnsupportedModelError("the encoder of images has no attention that is one layer: a mask has no place")
    masks = list(dict.fromkeys(node.inputs[_MASK_AT] for node in attentions if len(node.inputs) > _MASK_AT))
    orders = [] if window is None else _orders(model, grids)
    own = _Image(merge_size, window)
    masks_of_windows, orders = _compare(model, grids, own, waves, masks, orders)
    copies = 2 if _is_doubled(angles) else 1
    width = angles.shape[1].value // copies
    new_angles = _input(model, ANGLES, PartialShape([None, width]))
    new_masks = {is_window: _input(model, name, PartialShape([1, None, None])) for is_window, name in own.masks.items()}
    for attention in attentions:
        mask = new_masks[len(attention.inputs) > _MASK_AT and attention.inputs[_MASK_AT] in masks_of_windows]
        attention.replace_inputs([*attention.inputs[:_MASK_AT], mask, *attention.inputs[_MASK_AT + 1 :]])
    builder = Builder(UniqueNames(model))
    builder.begin(angles.node)
    if window is not None:
        new_order = _input(model, ORDER, PartialShape([None]), element_types.i64)
        for order in orders:
            builder.begin(order.node)
            order.replace_by(layers.in_type(builder, new_order, order.element_type), move_names=False)
        builder.begin(angles.node)
        squares = layers.reshape(builder, new_angles, [-1, merge_size**2, width])
        squares = builder.emit(Gather8(), squares, new_order, builder.constant(0))
        new_angles = layers.reshape(builder, squares, [-1, width])
    new_angles = builder.emit(Concat1(axis=1), new_angles, new_angles) if copies == 2 else new_angles
    for value, wave in waves.items():
        value.replace_by(new_angles if wave is None else builder.emit(wave(), new_angles), move_names=False)
    infer_stale(model)
    if grids.outputs[0].uses:
        reader = grids.outputs[0].uses[0]
        raise UnsupportedModelError(
            f"'{grids.end_names[0]}' is read by '{reader.name}' for more than positions and masks of patches, which "
            "openvino-genai computes"
        )
    model.parameters = [node for node in model.parameters if node is not grids]


@record
class _Image:
    """An image whose positions are compared, and what openvino-genai computes for it."""

    merge_size: int
    window: int | None

    @property
    def grid(self) -> tuple[int, int, int]:
        """The numbers of patches, over time, from top to bottom, from left to right: more than one window of each."""
        rows, columns = (4, 6) if self.window is None else (self.window + 1, 2 * self.window + 1)
        return 1, rows * self.merge_size, columns * self.merge_size

    @property
    def windows(self) -> Array:
        """The number of each token's window."""
        rows, columns = (side // self.merge_size for side in self.grid[1:])
        if self.window is None:
            return np.zeros(rows * columns, np.int64)
        places = np.arange(rows)[:, None] // self.window, np.arange(columns)[None] // self.window
        return (places[0] * columns + places[1]).ravel()

    @property
    def order(self) -> Array:
        """The tokens, one window after the other."""
        return np.argsort(self.windows, kind="stable")

    @property
    def masks(self) -> Mapping[bool, str]:
        """The names of masks, by whether they are of windows."""
        return {False: MASK} if self.window is None else {False: MASK, True: WINDOW_MASK}

    @property
    def patches_of_windows(self) -> Array:
        """True if two patches are of one window, ``[patches, patches]``, in the order of the windows."""
        numbers = np.repeat(self.windows[self.order], self.merge_size**2)
        return numbers[:, None] == numbers

    def angles(self, width: int) -> Array:
        """The angles ``[patches, width]``, in the order of the windows."""
        squares = angles_of(self.grid, self.merge_size, width).reshape(-1, self.merge_size**2, width)
        return squares[self.order].reshape(-1, width)


def _derived_values(model: Model, source: Output) -> set[Output]:
    """The values that depend on ``source``."""
    derived = {source}
    for node in model.nodes():
        if any(value in derived for value in node.inputs):
            derived.update(node.outputs)
    return derived


def _orders(model: Model, grids: Node) -> list[Output]:
    """The values by which others are sorted, that may be the order of the tokens."""
    derived = _derived_values(model, grids.outputs[0])
    gathers = (node for node in model.nodes() if isinstance(node.op, Gather8))
    orders = dict.fromkeys(node.inputs[1] for node in gathers if node.inputs[1] in derived)
    return [value for value in orders if value.shape.has_rank and value.shape.rank == 1]


_Waves = Mapping[Output, "Callable[[], Operation] | None"]
"""Values ``[patches, width]`` and what they are of the angles; None for the angles themselves."""
_WAVES: Mapping[Callable[[], Operation], np.ufunc] = {Cos1: np.cos, Sin1: np.sin}


def _waves(model: Model, grids: Node, merge_size: int) -> _Waves:
    """The angles whose cosines and sines are taken, or cosines and sines that are looked up in tables."""
    derived = _derived_values(model, grids.outputs[0])
    waves = [node for node in model.nodes() if isinstance(node.op, (Cos1, Sin1))]
    values = {node.inputs[0] for node in waves if node.inputs[0] in derived}
    tables = {} if values else _waves_of_tables(model, grids, merge_size, derived)
    if tables:
        return tables
    if len(values) != 1:
        raise UnsupportedModelError(
            f"'{grids.end_names[0]}' must tell one matrix of angles, the positions of patches, but tells {len(values)}"
        )
    angles = values.pop()
    if not _is_matrix(angles):
        raise UnsupportedModelError(f"the angles of patches must be a matrix of known width, but are {angles.shape}")
    return {angles: None}


def _waves_of_tables(model: Model, grids: Node, merge_size: int, derived: set[Output]) -> _Waves:
    """Cosines and sines ``[patches, width]`` of the angles of an image, which values are is computed."""
    image = _Image(merge_size, None)
    candidates = [
        value
        for node in model.nodes()
        for value in node.outputs
        if value in derived and value.element_type.is_real and _is_matrix(value) and value.shape[1].value % 2 == 0
    ]
    results = _compute(model, grids, image.grid, candidates)
    return {
        value: wave
        for value, result in results.items()
        for wave, function in _WAVES.items()
        if _is_close(result, function(image.angles(value.shape[1].value)))
    }


def _is_matrix(value: Output) -> bool:
    return value.shape.has_rank and value.shape.rank == 2 and value.shape[1].is_static


def _is_close(value: Array, expected: Array) -> bool:
    return value.shape == expected.shape and np.allclose(value, expected, atol=1e-4)


def _is_doubled(angles: Output) -> bool:
    """True for ``Concat(x, x)`` along the last axis, also where x is a Concat that became part of it."""
    parts, middle = angles.node.inputs, len(angles.node.inputs) // 2
    is_last = isinstance(angles.node.op, Concat1) and angles.node.op.axis in (1, -1)
    return is_last and len(parts) % 2 == 0 and parts[:middle] == parts[middle:]


def _compare(
    model: Model, grids: Node, image: _Image, waves: _Waves, masks: list[Output], orders: list[Output]
) -> tuple[set[Output], list[Output]]:
    """Compute angles, masks and orders of one image, and compare them with openvino-genai's.

    Returns those of ``masks`` that are of windows, and those of ``orders`` that are the order of the tokens.
    """
    values = [*waves, *masks, *orders]
    results = _compute(model, grids, image.grid, values)
    orders = [order for order in orders if np.array_equal(results[order], image.order)]
    if image.window is not None and not orders:
        raise UnsupportedModelError(
            "the order of the tokens is another than openvino-genai computes from the 'window_size'"
        )
    for value, wave in waves.items():
        copies = 2 if _is_doubled(value) else 1
        angles = np.tile(image.angles(value.shape[1].value // copies), copies)
        if not _is_close(results[value], angles if wave is None else _WAVES[wave](angles)):
            raise UnsupportedModelError("the positions of patches are others than openvino-genai computes")
    of_windows = set()
    for mask in masks:
        added = results[mask]
        seen = added if added.dtype == bool else added > _HIDDEN
        if not (added.dtype == bool or (added[seen] == 0).all()):
            raise UnsupportedModelError("the mask of attention adds other numbers than 0 to what patches see")
        if seen.all():
            continue
        if image.window is None or not np.array_equal(np.squeeze(seen), image.patches_of_windows):
            raise UnsupportedModelError(
                "the mask of attention hides patches of the same image, in another way than openvino-genai"
            )
        of_windows.add(mask)
    return of_windows, orders


def _compute(model: Model, grids: Node, grid: tuple[int, int, int], values: Sequence[Output]) -> Mapping[Output, Array]:
    """Compute values for an image, which do not depend on its patches."""
    names = {value: f"value {index}" for index, value in enumerate(values)}
    part = extract(model, {}, names)
    count = int(np.prod(grid))
    feeds: dict[str, Array] = {}
    for node in part.parameters:
        name, value = node.end_names[0], node.outputs[0]
        if name in grids.end_names:
            feeds[name] = np.array([grid], value.element_type.dtype)
            continue
        dims = list(value.shape)[1:]
        feeds[name] = np.zeros((count, *(dim.value if dim.is_static else 1 for dim in dims)), value.element_type.dtype)
    try:
        results = compile_model(part, optimize=False)(feeds)
    except ExecutionError as error:
        raise UnsupportedModelError(
            f"the encoder computes no positions for an image of {grid[1]} by {grid[2]} patches: {error}"
        ) from error
    return {value: np.asarray(results[name]) for value, name in names.items()}


def angles_of(grid: tuple[int, int, int], merge_size: int, width: int) -> Array:
    """The angles ``[patches, width]`` of an image: rows in one half, columns in the other, squares of patches first."""
    time, height, length = grid
    rows, columns = np.meshgrid(np.arange(height), np.arange(length), indexing="ij")
    tiles = (height // merge_size, merge_size, length // merge_size, merge_size)
    places = [axis.reshape(tiles).transpose(0, 2, 1, 3).ravel() for axis in (rows, columns)]
    speeds = _BASE ** (-np.arange(0, width, 2) / width)
    return np.tile(np.concatenate([np.outer(place, speeds) for place in places], axis=1), (time, 1))


@record
class Embedded:
    """An encoder whose patches are embedded by a model of its own."""

    patches: Model
    """From ``hidden_states``, which are patches, to their embeddings."""
    positions: Model
    """From ``input``, numbers of positions, to their embeddings."""
    encoder: Model
    """From ``hidden_states``, which are the sums of both; it still reads the grids."""


def take_embeddings(model: Model, pixels: str, outputs: Sequence[str], merge_size: int, positions: int) -> Embedded:
    """Divide the model behind the sum of the embeddings of patches and of their positions.

    ``positions`` is the number of entries of their table. Raises :class:`UnsupportedModelError` where there is no such
    sum, or where the positions are interpolated in another way than openvino-genai does.
    """
    grids = next((node for node in model.parameters if any(name in GRIDS for name in node.end_names)), None)
    source = next(node.outputs[0] for node in model.parameters if pixels in node.end_names)
    if grids is None:
        raise UnsupportedModelError(f"the encoder of images must read the grids of its patches, '{GRIDS[0]}'")
    of_grids, of_patches = (_derived_values(model, value) for value in (grids.outputs[0], source))
    sums = [
        (node.outputs[0], own, other)
        for node in model.nodes()
        if isinstance(node.op, Add1) and _is_matrix(node.outputs[0])
        for own, other in (tuple(node.inputs), tuple(reversed(node.inputs)))
        if own in of_patches - of_grids and other in of_grids - of_patches
    ]
    side = math.isqrt(positions)
    if len(sums) != 1 or side**2 != positions or side % merge_size:
        raise UnsupportedModelError(
            "the encoder of images must add embeddings of a square of positions to those of patches once, but has "
            f"{len(sums)} such sums and {positions} positions"
        )
    total, patches, added = sums[0]
    table = _rows_of_image(_computed(model, grids, (1, side, side), added), (side, side), merge_size)
    grid = (1, 2 * merge_size, 5 * merge_size)
    if not _is_close(_computed(model, grids, grid, added), interpolated(table, grid[1:], merge_size)):
        raise UnsupportedModelError(
            "the embeddings of positions are interpolated in another way than openvino-genai does"
        )
    results = {name: node.inputs[0] for node in model.results for name in node.end_names}
    return Embedded(
        extract(model, {source: PATCHES}, {patches: STATES}),
        _look_up(table),
        extract(model, {total: PATCHES}, {results[name]: name for name in outputs}),
    )


def _computed(model: Model, grids: Node, grid: tuple[int, int, int], value: Output) -> Array:
    return _compute(model, grids, grid, [value])[value]


def _rows_of_image(values: Array, sides: tuple[int, int], merge_size: int) -> Array:
    """Values of patches, squares first, in the order of the image."""
    height, width = (side // merge_size for side in sides)
    squares = values.reshape(height, width, merge_size, merge_size, -1)
    return squares.transpose(0, 2, 1, 3, 4).reshape(sides[0] * sides[1], -1)


def interpolated(table: Array, sides: tuple[int, int], merge_size: int) -> Array:
    """The embeddings of the positions of an image, squares of patches first, between entries of a square ``table``."""
    side = math.isqrt(len(table))
    places = [np.arange(count) * ((side - 1) / max(count - 1, 1)) for count in sides]
    low = [np.floor(place).astype(int) for place in places]
    high = [np.minimum(index + 1, side - 1) for index in low]
    part = [place - index for place, index in zip(places, low)]
    rows = table.reshape(side, side, -1)
    weights = part[0][:, None, None]
    lines = rows[low[0]] * (1 - weights) + rows[high[0]] * weights
    weights = part[1][None, :, None]
    values = lines[:, low[1]] * (1 - weights) + lines[:, high[1]] * weights
    height, width = (count // merge_size for count in sides)
    squares = values.reshape(height, merge_size, width, merge_size, -1).transpose(0, 2, 1, 3, 4)
    return squares.reshape(sides[0] * sides[1], -1)


def _look_up(table: Array) -> Model:
    """``input [4, positions]`` to ``[4, positions, width]``."""
    indices = make_node(Parameter1(shape=PartialShape([4, None]), element_type=element_types.i64), (), "input")
    indices.outputs[0].add_name("input")
    rows = make_node(Const1(value=Tensor.from_array(table.astype(np.float32), element_types.f32)), (), "table")
    axis = make_node(Const1(value=Tensor.from_array(np.array(0), element_types.i64)), (), "axis")
    inputs = [rows.outputs[0], indices.outputs[0], axis.outputs[0]]
    gather = make_node(Gather8(), inputs, "positions")
    gather.outputs[0].add_name(STATES)
    return Model("positions", [indices], [make_node(Result1(), gather.outputs, f"{STATES}/result")])


def _input(model: Model, name: str, shape: PartialShape, element_type: ElementType = element_types.f32) -> Output:
    node = make_node(Parameter1(shape=shape, element_type=element_type), (), UniqueNames(model)(name))
    node.outputs[0].add_name(name)
    model.parameters = (*model.parameters, node)
    return node.outputs[0]


def pass_on(width: int | None) -> Model:
    """Return a model that returns rows of ``width`` numbers: the embeddings of patches are a part of the encoder."""
    shape = PartialShape([None, width])
    patches = make_node(Parameter1(shape=shape, element_type=element_types.f32), (), PATCHES)
    patches.outputs[0].add_name(PATCHES)
    result = make_node(Result1(), [patches.outputs[0]], f"{STATES}/result")
    result.output_names = [STATES]
    return Model("patches", [patches], [result])
