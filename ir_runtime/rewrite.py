"""Changing a model: who uses a value, replacing values, unique names, copies, inferring anew, reshaping.

Everything that works on a finished graph stands on these few functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple, cast

from .boundary import expected_errors
from .errors import ModelError
from .graph import Model, Node, Output, Part, uses_in
from .operation import Operation, TensorType
from .shape_inference import infer_types
from .shapes import Dimension, PartialShape

Uses = dict[Output, list[Node]]


def uses_of(model: Model) -> Uses:
    """For every value that is read the nodes that read it, in the graph's order; bodies apart."""
    return uses_in(model.nodes())


def replace_uses(old: Output, new: Output, readers: Iterable[Node]) -> None:
    """Let each of ``readers`` read ``new`` wherever it reads ``old``."""
    for reader in readers:
        reader.inputs = [new if source is old else source for source in reader.inputs]


def replace_all_uses(model: Model, replaced: Mapping[Output, Output]) -> None:
    """Let every node read the value that stands for the one it reads.

    A value may be replaced by one that is made from it: nodes that ``replaced`` leads to keep reading
    the old value.
    """
    makers = {new.node for new in replaced.values()}
    for node in model.nodes():
        if node not in makers:
            node.inputs = [replaced.get(source, source) for source in node.inputs]


class UniqueNames:
    """Layer names of which none is given twice."""

    def __init__(self, of: Model | Part | None = None) -> None:
        self._taken: Set[str] = set()
        if isinstance(of, Model):
            self._taken = {node.name for node in of.nodes()}
        elif of is not None:
            self._taken = of.names
        self._next: dict[str, int] = {}

    def __call__(self, wanted: str) -> str:
        """``wanted``, or the first of ``wanted_1``, ``wanted_2`` ... that is free."""
        name, number = wanted, self._next.get(wanted, 0)
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._next[wanted] = number
        if isinstance(self._taken, frozenset):  # what many may have of a part is copied for the first new name
            self._taken = set(self._taken)
        cast("set[str]", self._taken).add(name)
        return name


def copy_node(node: Node, inputs: Sequence[Output]) -> Node:
    """The same layer over other inputs: operation, types, names and marks are kept."""
    made = Node(node.op, inputs, [output.type for output in node.outputs], node.name)
    made.output_names = list(node.output_names)
    made.runtime_info = node.runtime_info
    made.origin = node.origin
    for old, new in zip(node.outputs, made.outputs):
        new.names = list(old.names)
        new.runtime_info = old.runtime_info
    return made


def clone(model: Model) -> Model:
    """A copy whose nodes, those of bodies too, may be changed without touching ``model``."""
    copies: dict[Node, Node] = {}
    values: dict[Output, Output] = {}
    for node in model.nodes():
        made = copies[node] = copy_node(node, [values[source] for source in node.inputs])
        made.op = in_bodies(node.op, clone)
        values.update(zip(node.outputs, copies[node].outputs))
    return Model(
        model.name,
        [copies[node] for node in model.parameters],
        [copies[node] for node in model.results],
        [copies[node] for node in model.sinks],
        model.runtime_info,
        model.version,
    )


def in_bodies(op: Operation, change: Callable[[Model], Model]) -> Operation:
    """``op`` with ``change(body)`` in the place of each of its bodies; itself where none changes."""
    subgraphs = op.subgraphs
    bodies = [change(sub.body) for sub in subgraphs]
    if all(new is sub.body for new, sub in zip(bodies, subgraphs)):
        return op
    return op.with_bodies(bodies)


class Inferred(NamedTuple):
    """What inference found for a layer: its operation, and the types of its inputs and outputs."""

    op: Operation
    inputs: Sequence[TensorType]
    outputs: Sequence[TensorType]


def infer_again(
    model: Model,
    parameters: Mapping[Node, TensorType] | None = None,
    inferred: Mapping[Node, Inferred] | None = None,
) -> None:
    """Infer the type of every value anew, from the parameters on; bodies take part.

    ``parameters`` gives parameters other types. ``inferred`` is what is known of layers for these: it is taken where
    operation and types of inputs are the very same objects. Raises :class:`InferenceError`, which names the layer,
    and leaves the model as it was.
    """
    given, known = parameters or {}, inferred or {}
    types: dict[Output, TensorType] = {}
    found: list[tuple[Node, Operation, Sequence[TensorType]]] = []
    for node in model.nodes():
        inputs = [types[source] for source in node.inputs]
        if node not in given and _are_same(inputs, [source.type for source in node.inputs]):
            types.update([(output, output.type) for output in node.outputs])  # nothing before it has changed
            continue
        before = known.get(node)
        op = node.op
        if before is not None and before.op is op and not op.subgraphs and _are_same(before.inputs, inputs):
            outputs = before.outputs
        else:
            try:
                if node in given:
                    op, outputs = op.of_type(given[node]), [given[node]]
                else:
                    op = op.specialized(inputs) if op.subgraphs else op
                    outputs = infer_types(op, inputs)
            except ModelError as error:
                raise type(error)(f"{node.where}: {error}") from error
        found.append((node, op, outputs))
        types.update(zip(node.outputs, outputs))
    for node, op, outputs in found:
        node.op = op
        for output, kind in zip(node.outputs, outputs):
            output.type = kind


def _are_same(some: Sequence[TensorType], others: Sequence[TensorType]) -> bool:
    return len(some) == len(others) and False not in [one is other for one, other in zip(some, others)]


def with_parameters(body: Model, parameters: Sequence[TensorType]) -> Model:
    """A copy of ``body`` whose parameters have these types, and everything that follows from them."""
    made = clone(body)
    infer_again(made, {node: TensorType(k.element_type, k.shape) for node, k in zip(made.parameters, parameters)})
    return made


@expected_errors()
def reshape(model: Model, shapes: Any) -> None:
    """Give inputs of ``model`` other shapes, in place; everything that follows from them is inferred anew.

    ``shapes`` maps inputs (tensor names, positions or :class:`~ir_runtime.Port`) to shapes; for a model
    of one input a shape alone will do. A shape is a :class:`PartialShape`, its text
    (``"[1,3,?,1..8]"``), or a list of numbers, ``-1``, ``None``, ``(low, high)`` pairs, texts and
    dimensions: the forms of OpenVINO's ``Model.reshape``.

    Raises :class:`ModelError` for what is no input or no shape, :class:`InferenceError` where a layer
    cannot take what the new shapes lead to; the model is then unchanged.
    """
    wanted: dict[Node, TensorType] = {}
    for key, shape in _by_input(model, shapes).items():
        node = _input(model, key)
        if node in wanted:
            raise ModelError(f"the input {key!r} is given two shapes")
        kind = node.outputs[0].element_type
        wanted[node] = TensorType(kind, _shape(key, shape))
    infer_again(model, wanted)


def _by_input(model: Model, shapes: Any) -> Mapping[Any, Any]:
    if isinstance(shapes, Mapping):
        return shapes
    if len(model.parameters) != 1:
        raise ModelError(f"the model has {len(model.parameters)} inputs: say which of them gets which shape")
    return {0: shapes}


def _input(model: Model, key: Any) -> Node:
    names = getattr(key, "names", None)
    for index, node in enumerate(model.parameters):
        output = node.outputs[0]
        if key is output or (not isinstance(key, (str, int)) and names and set(names) & set(output.names)):
            return node
        if isinstance(key, str) and (key in output.names or key == node.name):
            return node
        if isinstance(key, int) and not isinstance(key, bool) and key == index:
            return node
    known = [node.outputs[0].names[0] if node.outputs[0].names else node.name for node in model.parameters]
    raise ModelError(f"the model has no input {key!r}; its inputs are {known}")


def _shape(key: Any, shape: Any) -> PartialShape:
    try:
        if isinstance(shape, PartialShape):
            return shape
        if isinstance(shape, str):
            return PartialShape.parse(shape)
        return PartialShape([_dimension(extent) for extent in shape])
    except (ModelError, TypeError, ValueError) as error:
        raise ModelError(f"the shape {shape!r} of the input {key!r} cannot be read: {error}") from error


def _dimension(extent: Any) -> Dimension | int | None:
    if isinstance(extent, str):
        return PartialShape.parse(extent)[0]
    if isinstance(extent, (tuple, list)):
        low, high = extent
        return Dimension(max(int(low), 0)) if high == -1 else Dimension(int(low), int(high))
    return extent if extent is None or isinstance(extent, Dimension) else int(extent)
