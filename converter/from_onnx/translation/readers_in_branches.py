"""An If whose branches return different ranks takes along the nodes that read these outputs.

    y = If(c) { x squeezed } else { x };  z = Unsqueeze(y)       becomes       z = If(c) { ... } else { ... }

``squeeze(dim)`` of PyTorch is such an If, and a recurrent layer behind it asks for the rank of what it reads. Within a
branch the rank is known, so both questions have an answer, and what is returned in the end may have one rank.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from converter.errors import UnsupportedModelError
from converter.onnx_file.messages import AttributeProto, GraphProto, NodeProto, ValueInfoProto
from converter.onnx_file.node_order import read_names


class DifferentRanks(UnsupportedModelError):
    """Outputs of an If have different ranks in its branches."""

    def __init__(self, message: str, outputs: Collection[str]) -> None:
        super().__init__(message)
        self.outputs = outputs
        """The names of these outputs."""


def take_readers_along(
    node: NodeProto, different: Collection[str], following: Sequence[NodeProto], results: Collection[str]
) -> list[NodeProto] | None:
    """Return a node whose graphs end with the readers of ``different`` outputs, and the other nodes that follow.

    None where nothing reads these outputs, or where the graph around the node returns them (``results``).
    """
    taken = _readers(node, different, following)
    if not taken or any(name in results for name in different):
        return None
    remaining = [reader for reader in following if id(reader) not in taken]
    readers = [reader for reader in following if id(reader) in taken]
    read = set(results).union(*map(read_names, remaining))
    computed = [name for writer in (node, *readers) for name in writer.output if name]
    outputs = [name for name in computed if name in read and name not in different]
    extended = NodeProto(
        input=node.input,
        output=outputs,
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        attribute=[_extended(attribute, node.output, readers, outputs) for attribute in node.attribute],
    )
    return [extended, *remaining]


def _readers(node: NodeProto, different: Collection[str], following: Sequence[NodeProto]) -> set[int]:
    """The identities of nodes that read these outputs, and of those between the node and them."""
    reads = [read_names(reader) for reader in following]
    taken = [not names.isdisjoint(different) for names in reads]
    dependent, depends = set(node.output), []
    for reader, names in zip(following, reads):
        depends.append(not names.isdisjoint(dependent))
        if depends[-1]:
            dependent.update(reader.output)
    needed = set[str]()
    for index in reversed(range(len(following))):
        taken[index] = taken[index] or (depends[index] and not needed.isdisjoint(following[index].output))
        if taken[index]:
            needed |= reads[index]
    return {id(reader) for reader, is_taken in zip(following, taken) if is_taken}


def _extended(
    attribute: AttributeProto, names: Sequence[str], readers: Sequence[NodeProto], outputs: Sequence[str]
) -> AttributeProto:
    if not attribute.HasField("g"):
        return attribute
    graph = attribute.g
    # The readers know the outputs of the graph by the names that they have outside.
    named = [
        NodeProto(op_type="Identity", input=[value.name], output=[name])
        for value, name in zip(graph.output, names)
        if name and name != value.name
    ]
    extended = GraphProto(
        node=[*graph.node, *named, *readers],
        name=graph.name,
        initializer=graph.initializer,
        sparse_initializer=graph.sparse_initializer,
        input=graph.input,
        output=[ValueInfoProto(name=name) for name in outputs],
        value_info=graph.value_info,
    )
    return AttributeProto(name=attribute.name, type=attribute.type, g=extended)
