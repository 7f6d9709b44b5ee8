"""The graph: models, nodes and their outputs. Nothing here knows an operation by name."""

from __future__ import annotations

import contextlib
import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from .element_types import ElementType
from .errors import ModelError
from .operation import Operation, TensorType
from .records import record
from .shapes import PartialShape
from .tensor import Tensor


@record
class RuntimeInfo:
    """One element below ``<rt_info>``: a tag, its attributes and its children."""

    tag: str
    attributes: tuple[tuple[str, str], ...] = ()
    children: tuple[RuntimeInfo, ...] = ()


class Output:
    """One output of a node: its type, and the tensor names by which users know it."""

    __slots__ = ("index", "names", "node", "runtime_info", "type")

    def __init__(self, node: Node, index: int, type: TensorType) -> None:
        self.node = node
        self.index = index
        self.type = type
        self.names: list[str] = []
        self.runtime_info: tuple[RuntimeInfo, ...] = ()

    @property
    def element_type(self) -> ElementType:
        return self.type.element_type

    @property
    def shape(self) -> PartialShape:
        return self.type.shape

    @property
    def tensor(self) -> Tensor | None:
        """The constant that this output always holds, if it does."""
        return self.type.tensor

    def add_name(self, name: str) -> None:
        if name not in self.names:
            self.names.append(name)

    def __repr__(self) -> str:
        names = f" {', '.join(map(repr, self.names))}" if self.names else ""
        return f"<Output {self.index} of layer {self.node.name!r} ({self.node.op.type}):{names} {self.type}>"


class Node:
    """An operation with its inputs (outputs of other nodes) and its outputs."""

    __slots__ = ("inputs", "name", "op", "origin", "output_names", "outputs", "runtime_info")

    def __init__(
        self,
        op: Operation,
        inputs: Iterable[Output] = (),
        types: Iterable[TensorType] = (),
        name: str = "",
    ) -> None:
        self.op = op
        self.inputs = list(inputs)
        self.outputs = [Output(self, i, type) for i, type in enumerate(types)]
        self.name = name
        self.output_names: list[str] = []
        """On a result: the names of the model's output."""
        self.runtime_info: tuple[RuntimeInfo, ...] = ()
        self.origin = ""
        """What the layer was made from, as messages say it; not part of the file."""

    @property
    def end_names(self) -> list[str]:
        """On a parameter or a result: the tensor names by which callers know the model's input or output."""
        return list(self.output_names or (self.inputs or self.outputs)[0].names)

    @property
    def where(self) -> str:
        """The layer as messages call it."""
        made_from = f", made from {self.origin}" if self.origin else ""
        return f"layer '{self.name}' ({self.op.type}{made_from})"

    def __repr__(self) -> str:
        inputs = ", ".join(str(source.type) for source in self.inputs)
        outputs = ", ".join(str(output.type) for output in self.outputs)
        return f"<Node {self.name!r}: {self.op.type}-{self.op.opset}({inputs}) -> ({outputs})>"


class Model:
    """A graph between parameters and results; bodies of operations are models, too.

    The order of ``parameters`` and ``results`` is the order of the model's inputs and outputs.
    ``sinks`` are nodes that take effect without being anyone's input (Assign).
    """

    def __init__(
        self,
        name: str = "",
        parameters: Iterable[Node] = (),
        results: Iterable[Node] = (),
        sinks: Iterable[Node] = (),
        runtime_info: tuple[RuntimeInfo, ...] = (),
        version: int = 11,
    ) -> None:
        self.name = name
        self.parameters = list(parameters)
        self.results = list(results)
        self.sinks = list(sinks)
        self.runtime_info = runtime_info
        self.version = version
        self._walked: list[Part] | None = None
        self._remembers = False

    def nodes(self) -> list[Node]:
        """Every node, each after its inputs; the same order each time.

        Raises :class:`ModelError` where the graph has a cycle.
        """
        order: list[Node] = []
        state: dict[Node, bool] = {}
        for root in [*self.parameters, *self.results, *self.sinks]:
            _visit(root, state, order)
        return order

    def parts(self) -> list[Part]:
        """This model and every body below it, each with its nodes."""
        if self._walked is not None:
            return self._walked
        found: list[Part] = []
        pending = [self]
        while pending:
            part = Part(pending.pop())
            found.append(part)
            for node in part.nodes:
                pending.extend(sub.body for sub in node.op.subgraphs)
        if self._remembers:
            self._walked = found
        return found

    @contextlib.contextmanager
    def walked_once(self) -> Iterator[None]:
        """Within it :meth:`parts` is found out once; who changes the graph calls :meth:`changed`."""
        self._remembers = True
        try:
            yield
        finally:
            self._remembers, self._walked = False, None

    def changed(self) -> None:
        """Within :meth:`walked_once`: what was found out of the graph holds no longer."""
        self._walked = None

    def all_models(self) -> Iterator[Model]:
        """This model and every body below it."""
        pending = [self]
        while pending:
            model = pending.pop()
            yield model
            for node in model.nodes():
                pending.extend(sub.body for sub in node.op.subgraphs)

    def __repr__(self) -> str:
        inputs = ", ".join(_label(node.outputs[0], node) for node in self.parameters)
        outputs = ", ".join(_label(node.inputs[0], node) for node in self.results)
        return f"<Model {self.name!r}: ({inputs}) -> ({outputs})>"

    def __reduce__(self) -> tuple[Any, ...]:
        from .pickling import flattened, rebuilt  # which stands on this module

        return rebuilt, flattened(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        """A copy of the graph, which shares with this one what does not change: operations and weights."""
        from .rewrite import clone

        return clone(self)

    def reshape(self, shapes: Any) -> None:
        """Give inputs other shapes, in place: see :func:`ir_runtime.rewrite.reshape`."""
        from .rewrite import reshape  # which stands on this module

        reshape(self, shapes)

    @property
    def inputs(self) -> list[Output]:
        """The parameters' outputs."""
        return [node.outputs[0] for node in self.parameters]

    @property
    def outputs(self) -> list[Output]:
        """What the results return."""
        return [node.inputs[0] for node in self.results]


def _label(output: Output, end: Node) -> str:
    """A tensor as a model's input or output: its name and its type."""
    names = end.output_names or output.names
    return f"{names[0] if names else end.name}: {output.type}"


def _visit(root: Node, state: dict[Node, bool], order: list[Node]) -> None:
    """Depth first without recursion; ``state`` is False while a node is open, True when done."""
    stack = [root]
    known = state.get
    while stack:
        node = stack[-1]
        done = known(node)
        if done is None:
            state[node] = False
            for source in reversed(node.inputs):
                before = source.node
                known_before = known(before)
                if known_before is None:
                    stack.append(before)
                elif not known_before:
                    raise ModelError(f"layer '{before.name}' ({before.op.type}) is part of a cycle")
            if stack[-1] is not node:
                continue
        # Nothing that it reads is left to do.
        stack.pop()
        if not done:
            state[node] = True
            order.append(node)


class Part:
    """A model or a body, and what was found out of its graph by walking through it, as long as it stays as it is."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.nodes = model.nodes()

    @functools.cached_property
    def _classes(self) -> frozenset[type[Operation]]:
        return frozenset([type(node.op) for node in self.nodes])

    def nodes_of(self, operations: tuple[type[Operation], ...]) -> list[Node]:
        """Its nodes of these operations, and of those derived from them; in the graph's order."""
        classes = {cls for cls in self._classes if issubclass(cls, operations)}
        return [node for node in self.nodes if type(node.op) in classes] if classes else []

    @functools.cached_property
    def uses(self) -> dict[Output, list[Node]]:
        """For every value that is read the nodes that read it, in the graph's order.

        Who changes the graph either changes this, too, or asks no more for it.
        """
        return uses_in(self.nodes)

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """The names of its nodes."""
        return frozenset([node.name for node in self.nodes])


def uses_in(nodes: Iterable[Node]) -> dict[Output, list[Node]]:
    """For every value that is read the nodes that read it, in the order of ``nodes``."""
    found: dict[Output, list[Node]] = defaultdict(list)
    for node in nodes:
        inputs = node.inputs
        if len(inputs) == 1:
            found[inputs[0]].append(node)
            continue
        for source in dict.fromkeys(inputs):
            found[source].append(node)
    return found


@record
class PortMap:
    """One entry of a port map: a port of the layer, and what belongs to it inside the body.

    With ``axis`` the tensor is cut into slices, or joined from them.
    """

    external: int | None
    internal: int
    axis: int | None = None
    start: int = 0
    end: int = -1
    stride: int = 1
    part_size: int = 1


class InputMap(PortMap):
    """Which input of the layer feeds which parameter of the body; None is a Loop's iteration counter."""

    @property
    def parameter(self) -> int:
        return self.internal


class OutputMap(PortMap):
    """Which result of the body becomes which output of the layer; None is a Loop's execution condition.

    With ``axis`` the iterations' values are concatenated; without, the last one counts.
    """

    @property
    def result(self) -> int:
        return self.internal


@record
class SubGraph:
    """A body with what ties it to its layer."""

    body: Model
    inputs: tuple[InputMap, ...]
    outputs: tuple[OutputMap, ...]
    back_edges: tuple[tuple[int, int], ...] = ()
    """(result, parameter): the result's value is the parameter's in the next iteration."""
