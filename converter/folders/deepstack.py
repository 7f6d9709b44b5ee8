"""DeepStack inputs of Qwen3-VL's decoder: image states that its first layers add to their hidden states.

Exported decoders read ``deepstack_embeds [layers, batch, tokens, width]``, zeros at tokens of text. openvino-genai
passes the states of image tokens alone, and a mask of these tokens:

    visual_pos_masks [batch, tokens], deepstack_visual_embeds [layers, states, width]
        -> Gather(states, the number of earlier image tokens) -> Select(mask, ..., 0) -> states of all tokens

Without images the mask has a single element, which is broadcast to all tokens.
"""

from __future__ import annotations

from converter.errors import UnsupportedModelError
from converter.folders.inputs import new_input
from ir_runtime.graph import Model, PartialShape, element_types
from ir_runtime.graph.invariants import OPTIONS
from ir_runtime.operations.elementwise import Maximum1, Select1
from ir_runtime.operations.generation import CumSum3
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.movement import Broadcast3, Reshape1
from ir_runtime.rewriting import Builder, UniqueNames, graph_pass, layers
from ir_runtime.rewriting.shape_layers import concat_lists, product, shape_of
from ir_runtime.rewriting.type_updates import infer_stale

MASK, STATES = "visual_pos_masks", "deepstack_visual_embeds"


@graph_pass("states_of_images", OPTIONS)
def take_states_of_images(model: Model, name: str, embedded: str) -> int:
    """Compute the input ``name`` from openvino-genai's, in place; return the number of layers that add states.

    ``embedded`` is the name of the input ``[batch, tokens, width]``. Raises :class:`UnsupportedModelError` where
    ``name`` has another shape than ``[layers, batch, tokens, width]``.
    """
    old, tokens = (
        next(node for node in model.parameters if input_name in node.end_names) for input_name in (name, embedded)
    )
    shape = old.outputs[0].shape
    if not shape.has_rank or shape.rank != 4 or not (shape[0].is_static and shape[3].is_static):
        raise UnsupportedModelError(f"'{name}' must be [layers, batch, tokens, width] of a known width, but is {shape}")
    count, width = shape[0].value, shape[3].value
    mask = new_input(model, MASK, element_types.boolean, PartialShape([None, None]))
    states = new_input(model, STATES, old.outputs[0].element_type, PartialShape([count, None, width]))
    builder = Builder(UniqueNames(model))
    builder.begin(old)
    dims = shape_of(builder, tokens.outputs[0])
    flat = builder.emit(Broadcast3(), layers.reshape(builder, mask, [-1]), product(builder, tokens.outputs[0], [0, 1]))
    counts = builder.emit(CumSum3(), layers.in_type(builder, flat, element_types.i64), builder.constant(0))
    # Text before all images has index -1, which becomes 0: the mask does not select that state.
    index = builder.emit(Maximum1(), layers.subtract(builder, counts, builder.constant(1)), builder.constant(0))
    gathered = builder.emit(Gather8(), states, index, builder.constant(1))
    zero = builder.like(0, gathered)
    selected = builder.emit(Select1(), layers.unsqueeze(builder, flat, 1), gathered, zero)
    target = concat_lists(builder, [builder.constant([count]), dims])
    value = builder.emit(Reshape1(special_zero=False), selected, target)
    old.outputs[0].replace_by(value, move_names=False)
    model.parameters = [node for node in model.parameters if node is not old]
    infer_stale(model)
    return count
