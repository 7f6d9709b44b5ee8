"""Inputs whose value follows from another input that stays the same from call to call, as variables.

    encoder_hidden_states ... Transpose -> (returned)        (given) past_key_values.0.encoder.key -> attention

becomes

    encoder_hidden_states ... Transpose -> ReadValue -> { attention ; Assign }

The first call after a reset computes what the variable starts with, the others read it: the layers in front of a
ReadValue run only where the variable has no value. This is what optimum-intel writes for the keys and values of an
encoder's states. They are the same for all beams of a prompt, so ``beam_idx`` does not reorder them.
"""

from __future__ import annotations

from collections.abc import Mapping

from converter.errors import ConversionError
from ir_runtime.graph import Model, Output, PartialShape, make_node
from ir_runtime.graph.invariants import JOINED
from ir_runtime.operations.inputs_outputs import Assign6, ReadValue6
from ir_runtime.records import record
from ir_runtime.rewriting import UniqueNames, graph_pass
from ir_runtime.rewriting.type_updates import infer_stale

from .stateful import compute_in_float32


@record
class ComputedOnce:
    """A model that computes inputs of another one; ``names`` maps those inputs to its outputs."""

    model: Model
    names: Mapping[str, str]


@graph_pass("computed_once", JOINED)
def keep_computed(model: Model, once: ComputedOnce) -> int:
    """Put variables in the place of inputs, in place; how many.

    The inputs of ``once`` become inputs of ``model``, but those of a name that it has already. Raises
    :class:`ConversionError` where ``model`` has no such input, or where the value does not fit it.
    """
    added = once.model.clone()
    for part in (model, added):
        compute_in_float32(part)
    unique = UniqueNames(model)
    values = _join(model, added, unique)
    pasts = {name: node for node in model.parameters for name in node.end_names}
    replaced: dict[Output, Output] = {}
    for past, present in once.names.items():
        if past not in pasts:
            raise ConversionError(f"the model has no input '{past}'; there are {', '.join(pasts) or 'none'}")
        past_output, value = pasts[past].outputs[0], values[present]
        if past_output.element_type is not value.element_type or past_output.shape.merge(value.shape) is None:
            raise ConversionError(f"'{present}' {value.type} cannot be the value of input '{past}' {past_output.type}")
        # OpenVINO infers no bounds of dimensions, which a variable must not be narrower than.
        dims = [dim if dim.is_static else None for dim in value.shape]
        operation = ReadValue6(variable_id=past, variable_type=value.element_type, variable_shape=PartialShape(dims))
        read = make_node(operation, [value], unique(f"{past}/ReadValue"))
        model.sinks = (*model.sinks, make_node(Assign6(variable_id=past), read.outputs, unique(f"{past}/Assign")))
        replaced[past_output] = read.outputs[0]
    for old, new in replaced.items():
        old.replace_by(new, move_names=False)
    model.parameters = [node for node in model.parameters if node.outputs[0] not in replaced]
    return len(replaced)


def _join(model: Model, added: Model, unique: UniqueNames) -> Mapping[str, Output]:
    """Let ``added`` read the inputs of ``model``, which gets those that it lacks; the values of its outputs by name."""
    inputs = {name: node.outputs[0] for node in model.parameters for name in node.end_names}
    results = {name: node for node in added.results for name in node.end_names}
    taken = {name for node in model.nodes() for value in node.outputs for name in value.names}
    shared: dict[Output, Output] = {}
    for node in added.nodes():
        names = node.end_names if node.op.role == "parameter" else ()
        shared_input = next((inputs[name] for name in names if name in inputs), None)
        if shared_input is not None:
            shared[node.outputs[0]] = shared_input
            continue
        node.name = unique(node.name)
        for value in node.outputs:
            value.names = [name for name in value.names if name not in taken]
    for old, new in shared.items():
        old.replace_by(new, move_names=False)
    infer_stale(added)
    model.parameters = (*model.parameters, *(node for node in added.parameters if node.outputs[0] not in shared))
    added.parameters, added.results, added.sinks = (), (), ()  # the layers belong to ``model`` from now on
    return {name: node.inputs[0] for name, node in results.items()}
