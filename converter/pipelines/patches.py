"""Encoders of images as rows of patches, of any number of images: Qwen2-VL's.

An exporter leaves one model, which computes the positions of the patches and what each may see from the grids of the
images (``image_grid_thw``). openvino-genai computes these itself, and gives them the model:

    grids -> angles of the positions -> Cos, Sin      becomes      rotary_pos_emb [patches, width] -> Cos, Sin
    grids -> mask of attention                        becomes      attention_mask [1, patches, patches]
"""

from __future__ import annotations

import numpy as np

from converter.errors import UnsupportedModelError
from ir_runtime.execution.executor import compile_model
from ir_runtime.graph import Array, Model, Node, Output, PartialShape, element_types, make_node
from ir_runtime.graph.invariants import OPTIONS
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.elementwise import Cos1, Sin1
from ir_runtime.operations.inputs_outputs import Parameter1, Result1
from ir_runtime.operations.movement import Concat1
from ir_runtime.rewriting import Builder, UniqueNames, graph_pass
from ir_runtime.rewriting.submodel import extract
from ir_runtime.rewriting.type_updates import infer_stale

GRIDS = ("image_grid_thw", "grid_thw")
"""What exporters call the numbers of patches of each image: over time, from top to bottom, from left to right."""
PATCHES, ANGLES, MASK, STATES = "hidden_states", "rotary_pos_emb", "attention_mask", "last_hidden_state"
_MASK_AT = 3
_GRID = (1, 4, 6)
_BASE = 10000.0


@graph_pass("positions_of_patches", OPTIONS)
def take_positions(model: Model, merge_size: int) -> None:
    """Let the model's angles and masks be inputs, and drop that of the grids, in place.

    ``merge_size`` is the side of the squares of patches that become one token. Raises :class:`UnsupportedModelError`
    where positions or masks are others than openvino-genai computes, or grids are read for more than these.
    """
    grids = next((node for node in model.parameters if any(name in GRIDS for name in node.end_names)), None)
    if grids is None:
        raise UnsupportedModelError(f"the encoder of images must read the grids of its patches, '{GRIDS[0]}'")
    angles = _angles(model, grids)
    attentions = [node for node in model.nodes() if isinstance(node.op, ScaledDotProductAttention13)]
    if not attentions:
        raise UnsupportedModelError("the encoder of images has no attention that is one layer: a mask has no place")
    masks = list(dict.fromkeys(node.inputs[_MASK_AT] for node in attentions if len(node.inputs) > _MASK_AT))
    _check(model, grids, angles, masks, merge_size)
    copies = 2 if _is_doubled(angles) else 1
    new_angles = _input(model, ANGLES, PartialShape([None, angles.shape[1].value // copies]))
    new_mask = _input(model, MASK, PartialShape([1, None, None]))
    for attention in attentions:
        inputs = [*attention.inputs[:_MASK_AT], new_mask, *attention.inputs[_MASK_AT + 1 :]]
        attention.replace_inputs(inputs)
    builder = Builder(UniqueNames(model))
    builder.begin(angles.node)
    new_angles = builder.emit(Concat1(axis=1), new_angles, new_angles) if copies == 2 else new_angles
    angles.replace_by(new_angles, move_names=False)
    infer_stale(model)
    if grids.outputs[0].uses:
        reader = grids.outputs[0].uses[0]
        raise UnsupportedModelError(
            f"'{grids.end_names[0]}' is read by '{reader.name}' for more than positions and masks of patches, which "
            "openvino-genai computes"
        )
    model.parameters = [node for node in model.parameters if node is not grids]


def _angles(model: Model, grids: Node) -> Output:
    """The angles ``[patches, width]`` whose cosines and sines are taken."""
    derived = {grids.outputs[0]}
    for node in model.nodes():
        if any(value in derived for value in node.inputs):
            derived.update(node.outputs)
    waves = [node for node in model.nodes() if isinstance(node.op, (Cos1, Sin1))]
    values = {node.inputs[0] for node in waves if node.inputs[0] in derived}
    if len(values) != 1:
        raise UnsupportedModelError(
            f"'{grids.end_names[0]}' must tell one matrix of angles, the positions of patches, but tells {len(values)}"
        )
    angles = values.pop()
    if not angles.shape.has_rank or angles.shape.rank != 2 or not angles.shape[1].is_static:
        raise UnsupportedModelError(f"the angles of patches must be a matrix of known width, but are {angles.shape}")
    return angles


def _is_doubled(angles: Output) -> bool:
    """True for ``Concat(x, x)`` along the last axis, also where x is a Concat that became part of it."""
    parts, middle = angles.node.inputs, len(angles.node.inputs) // 2
    is_last = isinstance(angles.node.op, Concat1) and angles.node.op.axis in (1, -1)
    return is_last and len(parts) % 2 == 0 and parts[:middle] == parts[middle:]


def _check(model: Model, grids: Node, angles: Output, masks: list[Output], merge_size: int) -> None:
    """Compute angles and masks of one image, and compare them with openvino-genai's."""
    names = {angles: "angles", **{mask: f"mask {index}" for index, mask in enumerate(masks)}}
    part = extract(model, {}, names)
    count = int(np.prod(_GRID))
    feeds: dict[str, Array] = {}
    for node in part.parameters:
        name, value = node.end_names[0], node.outputs[0]
        if name in grids.end_names:
            feeds[name] = np.array([_GRID], value.element_type.dtype)
            continue
        dims = list(value.shape)[1:]
        feeds[name] = np.zeros((count, *(dim.value if dim.is_static else 1 for dim in dims)), value.element_type.dtype)
    results = compile_model(part, optimize=False)(feeds)
    copies = 2 if _is_doubled(angles) else 1
    expected = np.tile(angles_of(_GRID, merge_size, angles.shape[1].value // copies), copies)
    own = np.asarray(results["angles"])
    if own.shape != expected.shape or not np.allclose(own, expected, atol=1e-4):
        raise UnsupportedModelError("the positions of patches are others than openvino-genai computes")
    for index in range(len(masks)):
        mask = np.asarray(results[f"mask {index}"])
        if not (mask if mask.dtype == bool else mask == 0).all():
            raise UnsupportedModelError("the mask of attention hides patches of the same image, as windows do")


def angles_of(grid: tuple[int, int, int], merge_size: int, width: int) -> Array:
    """The angles ``[patches, width]`` of an image: rows in one half, columns in the other, squares of patches first."""
    time, height, length = grid
    rows, columns = np.meshgrid(np.arange(height), np.arange(length), indexing="ij")
    tiles = (height // merge_size, merge_size, length // merge_size, merge_size)
    places = [axis.reshape(tiles).transpose(0, 2, 1, 3).ravel() for axis in (rows, columns)]
    speeds = _BASE ** (-np.arange(0, width, 2) / width)
    return np.tile(np.concatenate([np.outer(place, speeds) for place in places], axis=1), (time, 1))


def _input(model: Model, name: str, shape: PartialShape) -> Output:
    node = make_node(Parameter1(shape=shape, element_type=element_types.f32), (), UniqueNames(model)(name))
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
