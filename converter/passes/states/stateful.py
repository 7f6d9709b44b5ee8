"""Caches as variables: what a model returns for its next call stays inside it.

    past -> Concat(past, new) -> present

becomes

    shape of the tokens -> Broadcast(0) -> ReadValue -> Gather(beam_idx) -> Concat(past, new) -> Assign

A variable starts with no keys, or as zeros where its shape is fixed. ``beam_idx`` ``[batch]`` is a new input: for each
row of the batch the row whose state it continues with. Recurrent models without tokens (``input_ids``, or
``inputs_embeds`` where another model embeds them), such as those of speech, get none. This is what optimum-intel
writes, and what the runtimes of language models expect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from converter.errors import ConversionError, UnsupportedModelError
from converter.passes.compression.float16_constants import DECOMPRESSION
from ir_runtime.execution.wide_floats import in_float32
from ir_runtime.graph import Model, Node, Output, PartialShape, RuntimeInfo, element_types, make_node
from ir_runtime.graph.invariants import PRECISION, STATES
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.operations.generation import ShapeOf3
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.inputs_outputs import Assign6, Parameter1, ReadValue6
from ir_runtime.operations.movement import Broadcast3
from ir_runtime.records import record
from ir_runtime.rewriting import Builder, UniqueNames, graph_pass, layers
from ir_runtime.rewriting.shape_layers import concat_lists

from .lengths import take_lengths
from .pairs import Pair, pairs_of
from .position_inputs import TOKENS, add_position_ids

BEAMS = "beam_idx"
_FLOAT_OPTIONS = RuntimeInfo(
    "runtime_options",
    (),
    (
        RuntimeInfo("KV_CACHE_PRECISION", (("value", "f16"),)),
        RuntimeInfo("ACTIVATIONS_SCALE_FACTOR", (("value", "8.0"),)),
    ),
)
_HALVES = (element_types.f16, element_types.bf16)
_MIN_WEIGHTS = 1024
"""Fewer numbers of 8 bits or less are no weights."""


@record
class _Variable:
    """A variable to make: its pair, its shape, and which dimensions are the batch and, in a cache, the keys."""

    pair: Pair
    shape: PartialShape
    batch_axis: int
    growing_axis: int | None
    has_open_batch: bool
    """True if the batch of the ONNX model's state is dynamic."""

    @property
    def identifier(self) -> str:
        """Both names, one after the other: by this OpenVINO finds the way back."""
        return self.pair.name + self.pair.present.end_names[0]


@graph_pass("stateful", STATES)
def make_stateful(
    model: Model, declared: Mapping[str, PartialShape] | None = None, names: Mapping[str, str] | None = None
) -> int:
    """Turn caches into variables, in place; how many.

    ``declared`` has the shapes that the inputs are to have, by name, where those of ``model`` are wider. ``names`` maps
    inputs to the outputs that are kept for them; without it, names and layers tell. Raises :class:`ConversionError`
    where the model has no caches, or the size of one is not known.
    """
    compute_in_float32(model)
    pairs = pairs_of(model, names)
    if not pairs:
        inputs = ", ".join(f"'{node.end_names[0]}'" for node in model.parameters)
        raise ConversionError(
            f"the model has no caches: none of its inputs ({inputs or 'none'}) is returned with parts added, and no "
            "names go together as past and present do"
        )
    tokens = _tokens(model, pairs)
    variables = [_variable(pair, tokens, declared or {}) for pair in pairs]
    add_position_ids(model, {state.pair.past: (state.shape, state.growing_axis) for state in variables})
    unique = UniqueNames(model)
    builder, beams = Builder(unique), None
    is_language_model = tokens is not None and _is_tokens(tokens)
    if any(state.growing_axis is not None or (is_language_model and state.has_open_batch) for state in variables):
        beams = _beams(model, unique)
    replaced: dict[Output, Output] = {}
    for variable in variables:
        builder.begin(variable.pair.name, variable.pair.past.origin)
        replaced[variable.pair.past.outputs[0]] = _read(builder, variable, tokens, beams)
    for past, read in replaced.items():
        past.replace_by(read, move_names=False)
    if tokens is not None:
        growing = [(state, axis) for state in variables for axis in (state.growing_axis,) if axis is not None]
        pasts = {replaced[state.pair.past.outputs[0]]: axis for state, axis in growing}
        presents = {state.pair.present.inputs[0]: axis for state, axis in growing}
        take_lengths(model, tokens, pasts, presents, unique)
    _store(model, variables, unique)
    model.runtime_info += _options(model)
    return len(variables)


@graph_pass("compute_in_float32", PRECISION)
def compute_in_float32(model: Model) -> None:
    """Let what is float16 or bfloat16 be float32, but for weights: runtimes read logits as float32."""
    in_float32(model, ends=True)
    for node in model.nodes():
        data = node.inputs[0].node.op.data if isinstance(node.op, Convert1) else None
        if data is not None and data.element_type in _HALVES and DECOMPRESSION not in node.runtime_info:
            node.runtime_info += (DECOMPRESSION,)


def _tokens(model: Model, pairs: Sequence[Pair]) -> Output | None:
    """An input that tells the batch; None where no other has dimensions."""
    pasts = {pair.past for pair in pairs}
    others = [node.outputs[0] for node in model.parameters if node not in pasts]
    ranked = [value for value in others if value.shape.has_rank and value.shape.rank]
    return next((value for value in ranked if _is_tokens(value)), next(iter(ranked), None))


def _is_tokens(value: Output) -> bool:
    return any(name in TOKENS for name in value.names)


def _variable(pair: Pair, tokens: Output | None, declared: Mapping[str, PartialShape]) -> _Variable:
    past, present = pair.past.outputs[0].shape, pair.present.inputs[0].shape
    own = declared.get(pair.name, past)
    own = own if own.has_rank else past
    if not own.has_rank or not present.has_rank:
        raise UnsupportedModelError(f"the rank of the cache '{pair.name}' must be known, but is not")
    batch = _batch_axis(own, tokens, declared)
    dims = [
        old if old.is_static or axis == batch or not new.is_static else new
        for axis, (old, new) in enumerate(zip(own, present))
    ]
    growing = [axis for axis, dim in enumerate(dims) if axis != batch and not dim.is_static]
    if len(growing) > 1:
        axes = ", ".join(map(str, growing))
        raise ConversionError(
            f"of the cache '{pair.name}' {own} the dimensions {axes} are dynamic, but only the number of keys may be: "
            f'give its shape, as in --input "{pair.name}[?,8,?,64]"'
        )
    shape = PartialShape([None if axis in (batch, *growing) else dim for axis, dim in enumerate(dims)])
    return _Variable(pair, shape, batch, growing[0] if growing else None, not own[batch].is_static)


def _batch_axis(own: PartialShape, tokens: Output | None, declared: Mapping[str, PartialShape]) -> int:
    """The first dimension that is declared as that of the tokens: keys and values may be one tensor of two parts."""
    if tokens is None:
        return 0
    batch = declared.get(tokens.names[0] if tokens.names else "", tokens.shape)[0]
    return next((axis for axis, dim in enumerate(own) if dim == batch), 0)


def _beams(model: Model, unique: UniqueNames) -> Output:
    node = make_node(Parameter1(shape=PartialShape([None]), element_type=element_types.i32), (), unique(BEAMS))
    node.outputs[0].add_name(BEAMS)
    model.parameters = (*model.parameters, node)
    return node.outputs[0]


def _read(builder: Builder, variable: _Variable, tokens: Output | None, beams: Output | None) -> Output:
    """The state of the rows that the batch continues with."""
    element_type = variable.pair.past.outputs[0].element_type
    lengths = [builder.constant(dim.value if dim.is_static else 0) for dim in variable.shape]
    if tokens is not None:
        batch = layers.gather(builder, builder.emit(ShapeOf3(), tokens), builder.constant(0), builder.constant(0))
        lengths[variable.batch_axis] = batch
    else:
        lengths[variable.batch_axis] = builder.constant(1)
    none = builder.emit(Broadcast3(mode="numpy"), builder.constant(0, element_type), concat_lists(builder, lengths))
    read = builder.emit(
        ReadValue6(variable_id=variable.identifier, variable_type=element_type, variable_shape=variable.shape), none
    )
    if beams is None:
        return read
    return builder.emit(Gather8(batch_dims=0), read, beams, builder.constant(variable.batch_axis))


def _store(model: Model, variables: Sequence[_Variable], unique: UniqueNames) -> None:
    gone: set[Node] = set()
    for variable in variables:
        pair = variable.pair
        gone.update((pair.past, pair.present))
        assign = make_node(
            Assign6(variable_id=variable.identifier), pair.present.inputs, unique(f"{pair.present.end_names[0]}/Assign")
        )
        model.sinks = (*model.sinks, assign)
    model.parameters = [node for node in model.parameters if node not in gone]
    model.results = [node for node in model.results if node not in gone]


def _options(model: Model) -> tuple[RuntimeInfo, ...]:
    """Metadata as optimum-intel writes it for models with weights in floats.

    The plug-in stores caches in 8 bits otherwise, which changes the tokens.
    """
    if any(_is_quantised(node) for node in model.nodes()):
        return ()
    return (_FLOAT_OPTIONS,)


def _is_quantised(node: Node) -> bool:
    data = node.op.data
    return data is not None and data.element_type.bits <= 8 and data.size >= _MIN_WEIGHTS


def without_float_options(model: Model) -> None:
    """Drop the options for weights in floats: the model's are compressed."""
    model.runtime_info = tuple(info for info in model.runtime_info if info != _FLOAT_OPTIONS)
