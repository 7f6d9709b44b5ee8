"""Variables as inputs and outputs: what a model keeps itself is given to it, and returned, again.

    initial value -> ReadValue -> Gather(beam_idx) -> Concat(past, new) -> Assign

becomes

    past -> Concat(past, new) -> present

The names are those that :mod:`~converter.passes.states.stateful` and optimum-intel join to the variable's
(``past_key_values.0.keypresent.0.key``); of another name ``state`` they are ``state`` and ``state.next``. ``beam_idx``
goes where nothing else reads it: the caller orders the rows. The initial value is left out: the caller starts with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from converter.errors import ConversionError
from converter.passes.derivation import Derivation, Step
from ir_runtime.boundary import boundary
from ir_runtime.graph import Model, Node, Output, make_node
from ir_runtime.graph.invariants import WITHOUT_STATES
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.inputs_outputs import Assign3, Assign6, Parameter1, ReadValue3, ReadValue6, Result1
from ir_runtime.rewriting import UniqueNames, graph_pass

from .stateful import BEAMS, without_float_options

_JOINED = re.compile(r"(?P<past>past.*?)(?P<present>present.*)")


@boundary(error=ConversionError)
def make_stateless(model: Model) -> int:
    """Turn variables into inputs and outputs, in place; how many.

    Raises :class:`ConversionError` where the model has none, or reads one in several places.
    """
    if not isinstance(model, Model):
        raise ConversionError(
            f"make_stateless needs a model, such as read_model returns, but got {type(model).__name__}"
        )
    Derivation.begin(model)
    count = _make_stateless(model)
    Derivation.of(model).then(Step("make_stateless"), model).write(model)
    return count


@graph_pass("stateless", WITHOUT_STATES)
def _make_stateless(model: Model) -> int:
    nodes = model.nodes()
    reads = [node for node in nodes if isinstance(node.op, (ReadValue3, ReadValue6))]
    assigns = {node.op.variable_id: node for node in model.sinks if isinstance(node.op, (Assign3, Assign6))}
    if not reads:
        raise ConversionError("the model has no variables: it is stateless already")
    _check(reads)
    unique = UniqueNames(model)
    replaced: dict[Output, Output] = {}
    for node in reads:
        identifier = node.op.variable_id  # type: ignore[attr-defined]
        past, present = _names(identifier)
        tensor_type = node.outputs[0].type
        op = Parameter1(shape=tensor_type.shape, element_type=tensor_type.element_type)
        parameter = make_node(op, (), unique(past))
        parameter.outputs[0].add_name(past)
        model.parameters = (*model.parameters, parameter)
        replaced[node.outputs[0]] = parameter.outputs[0]
        replaced.update((gather.outputs[0], parameter.outputs[0]) for gather in _by_beams(node))
        if identifier in assigns:
            result = make_node(Result1(), assigns[identifier].inputs, unique(f"{present}/result"))
            result.output_names = [present]
            model.results = (*model.results, result)
    model.sinks = [node for node in model.sinks if node not in assigns.values()]
    for old, new in replaced.items():
        old.replace_by(new, move_names=False)
    model.parameters = [node for node in model.parameters if BEAMS not in node.end_names or node.outputs[0].is_used]
    without_float_options(model)
    return len(reads)


def _check(reads: Sequence[Node]) -> None:
    seen: dict[str, Node] = {}
    for node in reads:
        identifier = node.op.variable_id  # type: ignore[attr-defined]
        if identifier in seen:
            raise ConversionError(
                f"the variable '{identifier}' is read by '{seen[identifier].name}' and by '{node.name}': an input has "
                "one value"
            )
        seen[identifier] = node


def _by_beams(node: Node) -> list[Node]:
    """The layers that order the rows of a variable by ``beam_idx``."""
    return [
        reader for reader in node.outputs[0].uses if isinstance(reader.op, Gather8) and BEAMS in reader.inputs[1].names
    ]


def _names(identifier: str) -> tuple[str, str]:
    joined = _JOINED.fullmatch(identifier)
    return (joined["past"], joined["present"]) if joined else (identifier, f"{identifier}.next")
