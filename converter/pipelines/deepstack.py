"""States of images that layers of a decoder add, as Qwen3-VL's: for each token, or for those of images alone.

An exporter leaves ``deepstack_embeds [layers, batch, tokens, width]``, zeros where no image is. openvino-genai gives
the states of images alone, and tells where they belong:

    visual_pos_masks [batch, tokens], deepstack_visual_embeds [layers, states, width]
        -> Gather(states, the number of earlier ones) -> Select(mask, ..., 0) -> those of all tokens

Without images the mask has one token for all.
"""

from __future__ import annotations

from converter.errors import UnsupportedModelError
from ir_runtime.graph import Model, PartialShape, element_types, make_node
from ir_runtime.graph.invariants import OPTIONS
from ir_runtime.operations.elementwise import Maximum1, Select1
from ir_runtime.operations.generation import CumSum3
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.inputs_outputs import Parameter1
from ir_runtime.operations.movement import Broadcast3, Reshape1
from ir_runtime.rewriting import Builder, UniqueNames, graph_pass, layers
from ir_runtime.rewriting.shape_layers import concat_lists, product, shape_of
from ir_runtime.rewriting.type_updates import infer_stale

MASK, STATES = "visual_pos_masks", "deepstack_visual_embeds"


@graph_pass("states_of_images", OPTIONS)
def take_states_of_images(model: Model, name: str, embedded: str) -> int:
    """Compute the input ``name`` from those of openvino-genai, in place; the number of layers that add states.

    ``embedded`` is the input ``[batch, tokens, width]``. Raises :class:`UnsupportedModelError` for an input of another
    shape.
    """
    old, tokens = (next(node for node in model.parameters if each in node.end_names) for each in (name, embedded))
    shape = old.outputs[0].shape
    if not shape.has_rank or shape.rank != 4 or not (shape[0].is_static and shape[3].is_static):
        raise UnsupportedModelError(f"'{name}' must be [layers, batch, tokens, width] of a known width, but is {shape}")
    count, width = shape[0].value, shape[3].value
    mask = make_node(Parameter1(shape=PartialShape([None, None]), element_type=element_types.boolean), (), MASK)
    states = make_node(
        Parameter1(shape=PartialShape([count, None, width]), element_type=old.outputs[0].element_type), (), STATES
    )
    for node, own in ((mask, MASK), (states, STATES)):
        node.outputs[0].add_name(own)
    builder = Builder(UniqueNames(model))
    builder.begin(old)
    dims = shape_of(builder, tokens.outputs[0])
    flat = builder.emit(
        Broadcast3(), layers.reshape(builder, mask.outputs[0], [-1]), product(builder, tokens.outputs[0], [0, 1])
    )
    before = builder.emit(CumSum3(), layers.in_type(builder, flat, element_types.i64), builder.constant(0))
    index = builder.emit(Maximum1(), layers.subtract(builder, before, builder.constant(1)), builder.constant(0))
    taken = builder.emit(Gather8(), states.outputs[0], index, builder.constant(1))
    zero = builder.like(0, taken)
    shown = builder.emit(Select1(), layers.unsqueeze(builder, flat, 1), taken, zero)
    target = concat_lists(builder, [builder.constant([count]), dims])
    value = builder.emit(Reshape1(special_zero=False), shown, target)
    old.outputs[0].replace_by(value, move_names=False)
    model.parameters = (*(node for node in model.parameters if node is not old), mask, states)
    infer_stale(model)
    return count
