"""A model without its preprocessing: what it was before, as far as its layers still show where that ends."""

from __future__ import annotations

from collections.abc import Mapping

from converter.passes.preprocessing.channel_order import reverse_back
from converter.passes.preprocessing.insertion import inner_name
from converter.passes.preprocessing.recorded import Recorded
from ir_runtime.graph import Model, Node, Output, make_node
from ir_runtime.graph.invariants import PROCESSING
from ir_runtime.operations.inputs_outputs import Parameter1
from ir_runtime.rewriting import graph_pass
from ir_runtime.rewriting.edits import replace_parameter


def inner_inputs(model: Model, record: Recorded) -> Mapping[str, Output] | None:
    """Return the inputs that the model itself takes in place of those with steps.

    None where a later change removed one, and where weights hold mean and scale.
    """
    if any(steps.fold for steps in record.inputs.values()):
        return None
    values = {name: output for node in model.nodes() for output in node.outputs for name in output.names}
    parameters = {node.end_names[0]: node.outputs[0] for node in model.parameters if node.end_names}
    values_by_name = {name: values.get(inner_name(name), parameters.get(name)) for name in record.inputs}
    return (
        {name: value for name, value in values_by_name.items() if value is not None}
        if all(values_by_name.values())
        else None
    )


def without_preprocessing(model: Model, record: Recorded) -> Model | None:
    """A copy that takes and returns what the model did before; None where a later change hides where that is."""
    copy = model.clone()
    return copy if _remove(copy, record) else None


@graph_pass("without_preprocessing", PROCESSING)
def _remove(copy: Model, record: Recorded) -> bool:
    inner = inner_inputs(copy, record)
    if inner is None:
        return False
    for name, value in inner.items():
        (node,) = [candidate for candidate in copy.parameters if name in candidate.end_names]
        if value is node.outputs[0]:
            continue
        parameter = make_node(Parameter1(shape=value.shape, element_type=value.element_type), (), node.name)
        node.outputs[0].names, parameter.outputs[0].names = [], list(node.outputs[0].names)
        parameter.output_names = list(node.output_names)
        replace_parameter(copy, node, parameter)
        value.replace_by(parameter.outputs[0], move_names=False)
    values = {name: output for node in copy.nodes() for output in node.outputs for name in output.names}
    for result in copy.results:
        _return_inner(result, record, values)
    if not reverse_back(copy, list(record.reversed_layers)):
        return False
    Recorded({}, {}).write(copy)
    return True


def _return_inner(result: Node, record: Recorded, values: Mapping[str, Output]) -> None:
    name = next((name for name in result.end_names if name in record.outputs), None)
    before = None if name is None else values.get(inner_name(name))
    if before is None:
        return
    names = list(result.end_names)
    result.inputs[0].names = []
    before.names = [*names, *(other for other in before.names if other not in names)]
    result.replace_inputs([before])
