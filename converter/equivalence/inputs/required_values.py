"""Values of inputs that layers require: indices below the dimension of what they index, axes that differ, lengths.

The nodes of a graph network, or the data of a Scatter, have as many rows as another input of the run, so requirements
follow from the shapes of all inputs. The operations know them: see :meth:`ir_runtime.graph.Operation.required`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ir_runtime import Model
from ir_runtime.graph import Node, Operation, Output, TensorType
from ir_runtime.graph.operation import Required
from ir_runtime.operations.elementwise import Convert1, Select1
from ir_runtime.operations.movement import Concat1


class RequiredValues:
    """The layers of ``model`` that require something of the elements of its inputs."""

    def __init__(self, model: Model) -> None:
        uses = {position: list(_uses(output)) for position, output in enumerate(model.inputs)}
        self._uses = {position: readers for position, readers in uses.items() if readers}

    @property
    def positions(self) -> Collection[int]:
        """The positions of these inputs."""
        return self._uses.keys()

    def of(self, types: Mapping[Output, TensorType]) -> dict[int, Required]:
        """What each input must hold, by position, where ``types`` are those of a run."""
        requirements = {
            position: [
                required
                for node, index in uses
                if (required := node.op.required([types[source] for source in node.inputs]).get(index)) is not None
            ]
            for position, uses in self._uses.items()
        }
        return {position: _joined(required) for position, required in requirements.items() if required}


def _joined(required: Sequence[Required]) -> Required:
    return Required(
        max(requirement.low for requirement in required),
        min(requirement.high for requirement in required),
        distinct=any(requirement.distinct for requirement in required),
        rising=any(requirement.rising for requirement in required),
        total=next((requirement.total for requirement in required if requirement.total is not None), None),
    )


def _uses(start: Output) -> Iterator[tuple[Node, int]]:
    """The layers that may require something of elements of ``start``, and the input that has these elements."""
    pending, seen = [start], {start}
    while pending:
        value = pending.pop()
        for node in value.uses:
            if type(node.op).required is not Operation.required:
                yield from ((node, index) for index, source in enumerate(node.inputs) if source is value)
            if _hands_on(node, value):
                new = [output for output in node.outputs if output not in seen]
                seen.update(new)
                pending.extend(new)


def _hands_on(node: Node, value: Output) -> bool:
    """True if elements of ``value`` are elements of the layer's outputs."""
    if isinstance(node.op, (Concat1, Select1)):
        return True
    return node.inputs[0] is value and (node.op.movement or isinstance(node.op, Convert1))
