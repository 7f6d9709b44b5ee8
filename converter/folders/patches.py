"""Image encoders that read the patches of any number of images as rows: Qwen2-VL's, Qwen2.5-VL's and Qwen3-VL's.

Exporters write one model, which computes the positions of the patches and the attention masks from the grids of the
images (``image_grid_thw``). openvino-genai computes these itself and passes them to the model:

    grids -> angles of the positions -> Cos, Sin      becomes      rotary_pos_emb [patches, width] -> Cos, Sin
    grids -> mask of attention                        becomes      attention_mask [1, patches, patches]

Qwen2.5-VL sorts the tokens, squares of patches, by windows of the image, to which some layers restrict attention:

    grids -> order of the tokens -> Gather            becomes      window_index [tokens] -> Gather
    grids -> mask of attention in windows             becomes      window_attention_mask [1, patches, patches]

Its ``rotary_pos_emb`` has the order of the image, and is sorted by ``window_index`` as well.

Qwen3-VL adds embeddings of positions to those of patches. They are interpolated between the entries of a table for a
square of patches. openvino-genai looks up the four nearest entries and adds their weighted sum:

    patches -> embeddings + positions of grids        becomes      patches -> embeddings; hidden_states
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from converter.errors import UnsupportedModelError
from converter.folders.inputs import new_input
from ir_runtime.errors import ExecutionError
from ir_runtime.execution.executor import compile_model
from ir_runtime.graph import Array, Model, Node, Operation, Output, PartialShape, Tensor, element_types, make_node
from ir_runtime.graph.invariants import OPTIONS
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
"""Names of the input with the numbers of patches of each image: over time, in a column, and in a row."""
PATCHES, ANGLES, MASK, STATES = "hidden_states", "rotary_pos_emb", "attention_mask", "last_hidden_state"
ORDER, WINDOW_MASK = "window_index", "window_attention_mask"
_MASK_AT = 3
"""The index of the mask among the inputs of ScaledDotProductAttention."""
_BASE = 10000.0
"""The base of the rotary embedding's frequencies."""
_HIDDEN = -1e4
"""The largest value of an additive mask that hides a patch."""


@graph_pass("positions_of_patches", OPTIONS)
def take_positions(model: Model, merge_size: int, window: int | None = None) -> None:
    """Replace the computed angles and masks by inputs, and remove the input of the grids, in place.

    ``merge_size`` is the side of the squares of patches that become one token, ``window`` the side of the windows of
    tokens, with which the order of the tokens becomes an input, too. Raises :class:`UnsupportedModelError` where
    positions, masks or the order differ from what openvino-genai computes, or where more depends on the grids.
    """
    grids = _find_grids(model)
    waves = _find_waves(model, grids, merge_size)
    angles = next(iter(waves))
    attentions = [node for node in model.nodes() if isinstance(node.op, ScaledDotProductAttention13)]
    if not attentions:
        raise UnsupportedModelError("the encoder of images has no ScaledDotProductAttention, which would read the mask")
    masks = list(dict.fromkeys(node.inputs[_MASK_AT] for node in attentions if len(node.inputs) > _MASK_AT))
    orders = [] if window is None else _find_orders(model, grids)
    image = _Image(merge_size, window)
    masks_of_windows, orders = _compare(model, grids, image, waves, masks, orders)
    # Some encoders concatenate the angles with themselves before they take cosines and sines.
    copies = 2 if _is_doubled(angles) else 1
    width = angles.shape[1].value // copies
    new_angles = new_input(model, ANGLES, element_types.f32, PartialShape([None, width]))
    new_masks = {
        is_window: new_input(model, name, element_types.f32, PartialShape([1, None, None]))
        for is_window, name in image.masks.items()
    }
    for attention in attentions:
        mask = new_masks[len(attention.inputs) > _MASK_AT and attention.inputs[_MASK_AT] in masks_of_windows]
        attention.replace_inputs([*attention.inputs[:_MASK_AT], mask, *attention.inputs[_MASK_AT + 1 :]])
    builder = Builder(UniqueNames(model))
    builder.begin(angles.node)
    if window is not None:
        new_order = new_input(model, ORDER, element_types.i64, PartialShape([None]))
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
    """A sample image, for which the model's values are compared with those that openvino-genai computes."""

    merge_size: int
    window: int | None

    @property
    def grid(self) -> tuple[int, int, int]:
        """The numbers of patches over time, in a column and in a row: more than one window in both directions."""
        rows, columns = (4, 6) if self.window is None else (self.window + 1, 2 * self.window + 1)
        return 1, rows * self.merge_size, columns * self.merge_size

    @property
    def windows(self) -> Array:
        """The index of each token's window."""
        rows, columns = (side // self.merge_size for side in self.grid[1:])
        if self.window is None:
            return np.zeros(rows * columns, np.int64)
        row, column = np.arange(rows)[:, None] // self.window, np.arange(columns)[None] // self.window
        return (row * columns + column).ravel()

    @property
    def order(self) -> Array:
        """The indices of the tokens, one window after the other."""
        return np.argsort(self.windows, kind="stable")

    @property
    def masks(self) -> Mapping[bool, str]:
        """The names of the mask inputs; the keys are True for masks of windows."""
        return {False: MASK} if self.window is None else {False: MASK, True: WINDOW_MASK}

    @property
    def patches_of_windows(self) -> Array:
        """True where two patches are in one window, ``[patches, patches]``, in the order of the windows."""
        indices = np.repeat(self.windows[self.order], self.merge_size**2)
        return indices[:, None] == indices

    def angles(self, width: int) -> Array:
        """Return the angles ``[patches, width]``, in the order of the windows."""
        squares = angles_of(self.grid, self.merge_size, width).reshape(-1, self.merge_size**2, width)
        return squares[self.order].reshape(-1, width)


def _derived_values(model: Model, source: Output) -> set[Output]:
    """Return the values that depend on ``source``, and itself."""
    derived = {source}
    for node in model.nodes():
        if any(value in derived for value in node.inputs):
            derived.update(node.outputs)
    return derived


def _find_orders(model: Model, grids: Node) -> list[Output]:
    """Return the indices of Gathers that depend on the grids: candidates for the order of the tokens."""
    derived = _derived_values(model, grids.outputs[0])
    gathers = (node for node in model.nodes() if isinstance(node.op, Gather8))
    orders = dict.fromkeys(node.inputs[1] for node in gathers if node.inputs[1] in derived)
    return [value for value in orders if value.shape.has_rank and value.shape.rank == 1]


_Waves = Mapping[Output, "Callable[[], Operation] | None"]
"""Values ``[patches, width]`` -> Cos or Sin if they are these of the angles, None if they are the angles."""
_WAVES: Mapping[Callable[[], Operation], np.ufunc] = {Cos1: np.cos, Sin1: np.sin}


def _find_grids(model: Model) -> Node:
    """Return the input of the grids of patches; raise :class:`UnsupportedModelError` where there is none."""
    grids = next((node for node in model.parameters if any(name in GRIDS for name in node.end_names)), None)
    if grids is None:
        raise UnsupportedModelError(f"the encoder of images must read the grids of its patches, '{GRIDS[0]}'")
    return grids


def _find_waves(model: Model, grids: Node, merge_size: int) -> _Waves:
    """Return the angles whose cosines and sines are computed, or cosines and sines that are gathered from tables."""
    derived = _derived_values(model, grids.outputs[0])
    waves = [node for node in model.nodes() if isinstance(node.op, (Cos1, Sin1))]
    values = {node.inputs[0] for node in waves if node.inputs[0] in derived}
    tables = {} if values else _find_waves_in_tables(model, grids, merge_size, derived)
    if tables:
        return tables
    if len(values) != 1:
        raise UnsupportedModelError(
            f"'{grids.end_names[0]}' must determine one matrix of angles, the positions of patches, but determines "
            f"{len(values)}"
        )
    angles = values.pop()
    if not _is_matrix(angles):
        raise UnsupportedModelError(f"the angles of patches must be a matrix of known width, but are {angles.shape}")
    return {angles: None}


def _find_waves_in_tables(model: Model, grids: Node, merge_size: int, derived: set[Output]) -> _Waves:
    """Return the values ``[patches, width]`` that equal cosines or sines of the angles of a sample image."""
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
    """True for ``Concat(x, x)`` along the last axis, also where x is a Concat that was merged into it."""
    parts, middle = angles.node.inputs, len(angles.node.inputs) // 2
    is_last = isinstance(angles.node.op, Concat1) and angles.node.op.axis in (1, -1)
    return is_last and len(parts) % 2 == 0 and parts[:middle] == parts[middle:]


def _compare(
    model: Model, grids: Node, image: _Image, waves: _Waves, masks: list[Output], orders: list[Output]
) -> tuple[set[Output], list[Output]]:
    """Compute angles, masks and orders of a sample image, and compare them with openvino-genai's.

    Returns the masks of windows, and the candidates of ``orders`` that are the order of the tokens. Raises
    :class:`UnsupportedModelError` where values differ.
    """
    values = [*waves, *masks, *orders]
    results = _compute(model, grids, image.grid, values)
    orders = [order for order in orders if np.array_equal(results[order], image.order)]
    if image.window is not None and not orders:
        raise UnsupportedModelError(
            "the order of the tokens differs from what openvino-genai computes from the 'window_size'"
        )
    for value, wave in waves.items():
        copies = 2 if _is_doubled(value) else 1
        angles = np.tile(image.angles(value.shape[1].value // copies), copies)
        if not _is_close(results[value], angles if wave is None else _WAVES[wave](angles)):
            raise UnsupportedModelError("the positions of patches differ from what openvino-genai computes")
    masks_of_windows = set()
    for mask in masks:
        values_of_mask = results[mask]
        is_boolean = values_of_mask.dtype == bool
        is_visible = values_of_mask if is_boolean else values_of_mask > _HIDDEN
        if not (is_boolean or (values_of_mask[is_visible] == 0).all()):
            raise UnsupportedModelError(
                "the mask of attention adds other values than 0 to patches that it does not hide"
            )
        if is_visible.all():
            continue
        if image.window is None or not np.array_equal(np.squeeze(is_visible), image.patches_of_windows):
            raise UnsupportedModelError(
                "the mask of attention hides patches of the same image, in another way than openvino-genai"
            )
        masks_of_windows.add(mask)
    return masks_of_windows, orders


def _compute(model: Model, grids: Node, grid: tuple[int, int, int], values: Sequence[Output]) -> Mapping[Output, Array]:
    """Compute values that do not depend on the pixels, for an image of the size ``grid``."""
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
    """Return the angles ``[patches, width]`` of an image: of rows in one half, of columns in the other.

    The patches of a square follow each other, in the order of the squares.
    """
    time, height, length = grid
    rows, columns = np.meshgrid(np.arange(height), np.arange(length), indexing="ij")
    tiles = (height // merge_size, merge_size, length // merge_size, merge_size)
    positions = [axis.reshape(tiles).transpose(0, 2, 1, 3).ravel() for axis in (rows, columns)]
    frequencies = _BASE ** (-np.arange(0, width, 2) / width)
    return np.tile(np.concatenate([np.outer(position, frequencies) for position in positions], axis=1), (time, 1))


@record
class Embedded:
    """The models of an encoder whose patches and positions are embedded by models of their own."""

    patches: Model
    """Maps patches, ``hidden_states``, to their embeddings."""
    positions: Model
    """Maps indices of positions, ``input``, to their embeddings."""
    encoder: Model
    """Reads the sums of both as ``hidden_states``, and the grids."""


def take_embeddings(model: Model, pixels: str, outputs: Sequence[str], merge_size: int, positions: int) -> Embedded:
    """Split the model behind the sum of the embeddings of patches and of their positions.

    ``positions`` is the number of entries of their table. Raises :class:`UnsupportedModelError` where there is no such
    sum, or where the positions are interpolated in another way than openvino-genai does.
    """
    grids = _find_grids(model)
    source = next(node.outputs[0] for node in model.parameters if pixels in node.end_names)
    from_grids, from_patches = (_derived_values(model, value) for value in (grids.outputs[0], source))
    sums = [
        (node.outputs[0], first, second)
        for node in model.nodes()
        if isinstance(node.op, Add1) and _is_matrix(node.outputs[0])
        for first, second in (tuple(node.inputs), tuple(reversed(node.inputs)))
        if first in from_patches - from_grids and second in from_grids - from_patches
    ]
    side = math.isqrt(positions)
    if len(sums) != 1 or side**2 != positions or side % merge_size:
        raise UnsupportedModelError(
            "the encoder of images must add embeddings of a square of positions to those of patches once, but has "
            f"{len(sums)} such sums and {positions} positions"
        )
    total, patches, added = sums[0]
    table = _to_image_order(_compute_one(model, grids, (1, side, side), added), (side, side), merge_size)
    grid = (1, 2 * merge_size, 5 * merge_size)
    if not _is_close(_compute_one(model, grids, grid, added), interpolate(table, grid[1:], merge_size)):
        raise UnsupportedModelError(
            "the embeddings of positions are interpolated in another way than openvino-genai does"
        )
    results = {name: node.inputs[0] for node in model.results for name in node.end_names}
    return Embedded(
        extract(model, {source: PATCHES}, {patches: STATES}),
        _lookup_model(table),
        extract(model, {total: PATCHES}, {results[name]: name for name in outputs}),
    )


def _compute_one(model: Model, grids: Node, grid: tuple[int, int, int], value: Output) -> Array:
    return _compute(model, grids, grid, [value])[value]


def _to_image_order(values: Array, sides: tuple[int, int], merge_size: int) -> Array:
    """Reorder values of patches from the order of squares to that of the rows of the image."""
    height, width = (side // merge_size for side in sides)
    squares = values.reshape(height, width, merge_size, merge_size, -1)
    return squares.transpose(0, 2, 1, 3, 4).reshape(sides[0] * sides[1], -1)


def interpolate(table: Array, sides: tuple[int, int], merge_size: int) -> Array:
    """Interpolate the embeddings of an image's positions bilinearly between the entries of a square ``table``.

    The patches of a square follow each other, in the order of the squares.
    """
    side = math.isqrt(len(table))
    positions = [np.arange(count) * ((side - 1) / max(count - 1, 1)) for count in sides]
    low = [np.floor(position).astype(int) for position in positions]
    high = [np.minimum(index + 1, side - 1) for index in low]
    fractions = [position - index for position, index in zip(positions, low)]
    rows = table.reshape(side, side, -1)
    weights = fractions[0][:, None, None]
    lines = rows[low[0]] * (1 - weights) + rows[high[0]] * weights
    weights = fractions[1][None, :, None]
    values = lines[:, low[1]] * (1 - weights) + lines[:, high[1]] * weights
    height, width = (count // merge_size for count in sides)
    squares = values.reshape(height, merge_size, width, merge_size, -1).transpose(0, 2, 1, 3, 4)
    return squares.reshape(sides[0] * sides[1], -1)


def _lookup_model(table: Array) -> Model:
    """Return a model that looks up the rows of ``table``: ``input [4, positions]`` to ``[4, positions, width]``."""
    indices = make_node(Parameter1(shape=PartialShape([4, None]), element_type=element_types.i64), (), "input")
    indices.outputs[0].add_name("input")
    rows = make_node(Const1(value=Tensor.from_array(table.astype(np.float32), element_types.f32)), (), "table")
    axis = make_node(Const1(value=Tensor.from_array(np.array(0), element_types.i64)), (), "axis")
    inputs = [rows.outputs[0], indices.outputs[0], axis.outputs[0]]
    gather = make_node(Gather8(), inputs, "positions")
    gather.outputs[0].add_name(STATES)
    return Model("positions", [indices], [make_node(Result1(), gather.outputs, f"{STATES}/result")])


def pass_on(width: int | None) -> Model:
    """Return a model that returns its input ``[patches, width]``, for encoders that embed the patches themselves."""
    shape = PartialShape([None, width])
    patches = make_node(Parameter1(shape=shape, element_type=element_types.f32), (), PATCHES)
    patches.outputs[0].add_name(PATCHES)
    result = make_node(Result1(), [patches.outputs[0]], f"{STATES}/result")
    result.output_names = [STATES]
    return Model("patches", [patches], [result])
