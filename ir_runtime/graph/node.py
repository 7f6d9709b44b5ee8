"""Nodes and their outputs, which know the nodes that use them. Nothing here knows an operation by name.

A node belongs to a graph from the moment at which a model has it as a parameter, result or sink, or a node of the
graph reads one of its outputs, until nothing of that holds any more. Only nodes of a graph count in
:attr:`Output.uses`; so layers that were emitted for an attempt that failed use nothing.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from ..errors import InternalError
from ..records import record
from .element_types import ElementType
from .operation import Operation, TensorType
from .shapes import PartialShape
from .tensor import Tensor
from .value_ranges import equal_bounds


class Edits:
    """The changes of all graphs, by which a model notices that what it remembers of its graph is old."""

    _numbers: ClassVar[Iterator[int]] = itertools.count(1)
    last: ClassVar[int] = 0
    """The number of the last change. No number comes twice: threads that change graphs at the same time may take each
    other's changes for their own, but never miss one."""
    passes: ClassVar[int] = 0
    """The number of running passes."""
    guard: ClassVar[Callable[[], None] | None] = None
    """A function that is called before each change of a graph: tests see that a pass makes it."""

    @classmethod
    def note(cls) -> None:
        """Note a change of a graph."""
        if cls.guard is not None:
            cls.guard()
        cls.last = next(cls._numbers)

    @classmethod
    def renew(cls) -> None:
        """Note that a graph has more or fewer nodes, which is not a change by itself: a model may be new."""
        cls.last = next(cls._numbers)


@record
class RuntimeInfo:
    """One element below ``<rt_info>``: a tag, its attributes and its children."""

    tag: str
    attributes: tuple[tuple[str, str], ...] = ()
    children: tuple[RuntimeInfo, ...] = ()


@record
class Origin:
    """The ONNX node that a layer was made from: its name and operator."""

    node: str
    op_type: str

    def __str__(self) -> str:
        return f"node '{self.node}' of {self.op_type}"


class Output:
    """One output of a node: its type, and the tensor names by which users know it."""

    __slots__ = ("_uses", "index", "names", "node", "runtime_info", "type")

    def __init__(self, node: Node, index: int, type: TensorType) -> None:
        self._uses: dict[Node, int] | Node | None = None
        """The nodes of the graph that read the value, and by how many of their inputs. Of most values one input reads
        them: its node alone takes a tenth of the memory of a dictionary."""
        self.node = node
        self.index = index
        self.type = type
        self.names: list[str] = []
        self.runtime_info: tuple[RuntimeInfo, ...] = ()

    @property
    def element_type(self) -> ElementType:
        """The type of the numbers."""
        return self.type.element_type

    @property
    def shape(self) -> PartialShape:
        """The dimensions, as far as they are known."""
        return self.type.shape

    @property
    def tensor(self) -> Tensor | None:
        """The constant that this output always holds, if it does."""
        return self.type.tensor

    @property
    def uses(self) -> list[Node]:
        """The nodes of the graph that read the value, each once."""
        return [user for user, _ in self.counted_uses()]

    @property
    def is_used(self) -> bool:
        """True if a node of the graph reads the value."""
        return self._uses is not None

    def counted_uses(self) -> Iterable[tuple[Node, int]]:
        """Each node of the graph that reads the value, and by how many of its inputs."""
        uses = self._uses
        if uses is None:
            return ()
        return ((uses, 1),) if isinstance(uses, Node) else uses.items()

    @property
    def only_user(self) -> Node | None:
        """The node that reads the value if there is exactly one."""
        uses = self._uses
        if uses is None or isinstance(uses, Node):
            return uses
        return next(iter(uses)) if len(uses) == 1 else None

    def _add_use(self, node: Node) -> None:
        """Count one more input of ``node`` that reads the value."""
        uses = self._uses
        if uses is None:
            self._uses = node
            return
        if not isinstance(uses, dict):
            uses = self._uses = {uses: 1}
        uses[node] = uses.get(node, 0) + 1

    def _remove_uses(self, node: Node) -> int:
        """Discount every input of ``node`` that reads the value; returns how many there were."""
        uses = self._uses
        if not isinstance(uses, dict):
            if uses is not node:
                return 0
            self._uses = None
            return 1
        count = uses.pop(node, 0)
        if not uses:
            self._uses = None
        return count

    def replace_by(self, new: Output, *, keep: Collection[Node] = (), move_names: bool = True) -> list[Node]:
        """Let every node that reads this value, except those of ``keep``, read ``new`` instead.

        Layers that compute ``new`` from this value continue to read it. Nodes of which an input gets another type are
        inferred again at the end of the pass. With ``move_names`` the tensor names move to ``new``, which must then
        be an equal value. Returns the nodes that left the graph because nothing uses them any more, constants excluded,
        inputs first.

        Raises :class:`InternalError` for an equal value of another element type, or of a shape that contradicts this.
        """
        if new is self:
            return []
        if move_names and not self.type.agrees_with(new.type):
            raise InternalError(
                f"output {self.index} of {self.node.where} is {self.type}, but is replaced by {new.type}"
            )
        removed: list[Node] = []
        for user in self.uses:
            if user not in keep:
                removed += user._redirect(self, new)
        if move_names:
            for name in self.names:
                new.add_name(name)
            self.names = []
        return [node for node in removed[::-1] if node.op.data is None]

    def add_name(self, name: str) -> None:
        """Give the tensor one more name, unless it has that."""
        if name not in self.names:
            self.names.append(name)

    def __repr__(self) -> str:
        names = f" {', '.join(map(repr, self.names))}" if self.names else ""
        return f"<Output {self.index} of layer {self.node.name!r} ({self.node.op.type}):{names} {self.type}>"


class Node:
    """An operation with its inputs (outputs of other nodes) and its outputs.

    Assigning ``inputs`` or ``op`` keeps :attr:`Output.uses` and everything that models remember up to date.
    """

    __slots__ = ("_ends", "inputs", "is_stale", "name", "op", "origin", "output_names", "outputs", "runtime_info")

    _ends: int
    """The number of times a model has the node as an end; -1 while it is in no graph."""
    op: Operation
    inputs: tuple[Output, ...]
    outputs: list[Output]
    name: str
    output_names: list[str]
    """On a result: the names of the model's output."""
    runtime_info: tuple[RuntimeInfo, ...]
    origin: Origin | None
    """The ONNX node that the layer was made from; None where there is none. Not part of the file."""
    is_stale: bool
    """True after an input was replaced by a value of another type, until the outputs' types are inferred again."""

    def __init__(
        self,
        op: Operation,
        inputs: Iterable[Output] = (),
        types: Iterable[TensorType] = (),
        name: str = "",
    ) -> None:
        _set_inputs(self, tuple(inputs))
        _set_op(self, op)
        _set_outputs(self, [Output(self, i, type) for i, type in enumerate(types)])
        _set_name(self, name)
        _set_output_names(self, [])
        _set_runtime_info(self, ())
        _set_origin(self, None)
        _set_is_stale(self, False)
        _set_ends(self, -1)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "inputs":
            self.replace_inputs(value)
        else:
            if name == "op" and self._ends >= 0:
                Edits.note()
            _set_attribute(self, name, value)

    @property
    def orders(self) -> tuple[tuple[Output, ...], ...]:
        """The inputs, and the same in the other order where the operation is commutative."""
        return (self.inputs, self.inputs[::-1]) if self.op.commutative else (self.inputs,)

    @property
    def is_in_graph(self) -> bool:
        """True if a model has the node as an end, or a node of the graph uses one of its outputs."""
        return self._ends >= 0

    def replace_inputs(self, inputs: Iterable[Output]) -> list[Node]:
        """Replace all inputs; returns the nodes that left the graph because nothing uses them any more, users first."""
        old, new = self.inputs, tuple(inputs)
        if len(old) != len(new) or any(a is not b and differs(a.type, b.type) for a, b in zip(old, new)):
            self.is_stale = True
        _set_inputs(self, new)
        if self._ends < 0:
            return []
        Edits.note()
        _use(self, new)
        return _release(self, old)

    def update(self, op: Operation, inputs: Iterable[Output], types: Iterable[TensorType]) -> None:
        """Replace the operation, all inputs and the types of the outputs at once."""
        self.op, self.inputs = op, tuple(inputs)
        for output, type in zip(self.outputs, types):
            output.type = type
        self.is_stale = False

    def _redirect(self, old: Output, new: Output) -> list[Node]:
        """As :meth:`replace_inputs`, for the inputs that read ``old``: the work does not depend on the other inputs."""
        count, inputs, index = old._remove_uses(self), list(self.inputs), -1
        for _ in range(count):
            index = inputs.index(old, index + 1)
            inputs[index] = new
        if differs(old.type, new.type):
            self.is_stale = True
        _set_inputs(self, tuple(inputs))
        Edits.note()
        _use(self, [new] * count)
        return [] if old.is_used else _leave(old.node)

    def replace_input(self, index: int, value: Output) -> None:
        """Let the input ``index`` read ``value``."""
        inputs = list(self.inputs)
        inputs[index] = value
        self.replace_inputs(inputs)

    @property
    def end_names(self) -> list[str]:
        """On a parameter or a result: the tensor names by which callers know the model's input or output.

        That of the layer comes first: OpenVINO writes aliases in alphabetical order, and the name of an output with
        the number of the port that it comes from.
        """
        names = self.output_names or (self.inputs or self.outputs)[0].names
        return sorted(names, key=lambda name: name != self.name.partition("/sink_port_")[0])

    @property
    def where(self) -> str:
        """The layer's name, type and origin, for messages."""
        made_from = "" if self.origin is None else f", made from {self.origin}"
        return f"layer '{self.name}' ({self.op.type}{made_from})"

    def __repr__(self) -> str:
        inputs = ", ".join(str(source.type) for source in self.inputs)
        outputs = ", ".join(str(output.type) for output in self.outputs)
        return f"<Node {self.name!r}: {self.op.type}-{self.op.opset}({inputs}) -> ({outputs})>"


_set_attribute = object.__setattr__
_set_ends, _set_inputs, _set_op, _set_outputs, _set_origin, _set_output_names, _set_runtime_info, _set_is_stale = (
    getattr(Node, name).__set__
    for name in ("_ends", "inputs", "op", "outputs", "origin", "output_names", "runtime_info", "is_stale")
)
_set_name = Node.__dict__["name"].__set__
"""The slots themselves: several times as fast as :meth:`Node.__setattr__`, and graphs have thousands of nodes."""


def differs(tensor_type: TensorType, other: TensorType) -> bool:
    """True if other types may follow from two types: those of readers depend on values, too, where these are known."""
    if tensor_type.element_type is not other.element_type or tensor_type.shape != other.shape:
        return True
    tensor, other_tensor = tensor_type.tensor, other.tensor
    if tensor is not other_tensor and (tensor is None or other_tensor is None or not tensor.element_type.is_real):
        return True
    return not equal_bounds(tensor_type.bounds, other.bounds)


def enter_graph(ends: Iterable[Node]) -> None:
    """Add nodes to a graph as parameters, results or sinks of a model, with everything that they read."""
    for node in ends:
        if node._ends < 0:
            _enter(node)
        _set_ends(node, node._ends + 1)
    Edits.renew()


def leave_graph(ends: Iterable[Node]) -> None:
    """Undo :func:`enter_graph`; nodes that nothing uses leave the graph with everything that only they read."""
    for node in ends:
        _set_ends(node, node._ends - 1)
        _leave(node)
    Edits.renew()


def _enter(node: Node) -> None:
    """Count the reads of a node, and of those that it is computed from, unless they are in a graph already."""
    opened = {node}
    stack = [(node, iter(node.inputs))]
    while stack:
        node, sources = stack[-1]
        for source in sources:
            before = source.node
            if before._ends < 0 and before not in opened:
                opened.add(before)
                stack.append((before, iter(before.inputs)))
                break
        else:
            stack.pop()
            _set_ends(node, 0)
            _count(node, node.inputs)


def _use(node: Node, values: Iterable[Output]) -> None:
    """Count the reads of ``values`` by a node of the graph, which their nodes enter."""
    for source in values:
        if source.node._ends < 0:
            _enter(source.node)
    _count(node, values)


def _count(node: Node, values: Iterable[Output]) -> None:
    for source in values:
        if source._uses is None:
            source._uses = node
        else:
            source._add_use(node)


def _release(node: Node, values: Iterable[Output]) -> list[Node]:
    """Discount the reads of ``values`` by a node; returns the nodes that left the graph, users first."""
    removed: list[Node] = []
    for source in values:
        uses = source._uses
        if isinstance(uses, dict) and uses[node] > 1:
            uses[node] -= 1
        else:
            source._remove_uses(node)
            if not source.is_used:
                removed += _leave(source.node)
    return removed


def _leave(node: Node) -> list[Node]:
    """Let a node leave the graph unless it is an end or used; returns the nodes that left, users first."""
    removed: list[Node] = []
    pending = [node]
    while pending:
        node = pending.pop()
        if node._ends != 0 or any(output.is_used for output in node.outputs):
            continue
        _set_ends(node, -1)
        removed.append(node)
        for source in node.inputs:
            source._remove_uses(node)
            if not source.is_used:
                pending.append(source.node)
    return removed


def copy_node(node: Node, inputs: Sequence[Output]) -> Node:
    """The same layer over other inputs, with its operation, types, names, origin and runtime information."""
    copied = Node(node.op, inputs, [output.type for output in node.outputs], node.name)
    copied.output_names = list(node.output_names)
    copied.runtime_info = node.runtime_info
    copied.origin = node.origin
    for old, new in zip(node.outputs, copied.outputs):
        new.names = list(old.names)
        new.runtime_info = old.runtime_info
    return copied


def copy_nodes(nodes: Iterable[Node]) -> dict[Node, Node]:
    """A copy of each of the nodes, which come in the graph's order; their bodies are copied, too."""
    copies: dict[Node, Node] = {}
    for node in nodes:
        copied = copy_node(node, [copies[source.node].outputs[source.index] for source in node.inputs])
        copied.op = copy.deepcopy(node.op)
        copies[node] = copied
    return copies
