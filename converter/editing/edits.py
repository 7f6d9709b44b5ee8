"""The edits of a model, in place: a function for each option, for ONNX and for IRs alike.

An :class:`Editable` model says how its language writes an input, an output, a constant and an operator; all else is the
same graph. Each is run as a pass by :func:`converter.edit`, in the order of :data:`EDITS`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from converter.editing.operators import OperatorText
from converter.editing.values import dimension_of, input_of, listed, open_cut, split_dimension, weight_of
from converter.options.editing import EditOptions
from converter.options.input_forms import OptionError
from converter.options.inputs import suggestions
from ir_runtime.graph import ElementType, Model, Node, Output, Tensor
from ir_runtime.graph.invariants import JOINED, NAMES, OPTIONS, PROCESSING, REMOVALS, Stage
from ir_runtime.rewriting import graph_pass
from ir_runtime.rewriting.edits import dependents, needed_values

Found = TypeVar("Found")


class Editable(ABC):
    """A model that is edited: a graph in the language of its file."""

    graph: Model
    notes: list[str]
    """What else to know of the edits."""
    keeps_unread: ClassVar[bool] = False
    """True if what nothing reads takes effect, as the states of an IR do."""

    def inputs(self) -> Sequence[Node]:
        """Return the inputs that may be fed."""
        return self.graph.parameters

    @abstractmethod
    def tensors(self) -> Mapping[str, Output]:
        """Return the tensors of the graph by the names that options may call them."""

    @abstractmethod
    def inner_names(self) -> Mapping[str, str]:
        """Return the names of tensors of bodies alone, and where each is."""

    @abstractmethod
    def reserved_names(self) -> set[str]:
        """Return the names that no other tensor may get."""

    @abstractmethod
    def prepare(self, values: Iterable[Output]) -> None:
        """Find out the types of tensors that become inputs or outputs; raises an error where one is not known."""

    @abstractmethod
    def new_input(self, value: Output, name: str) -> Node:
        """Return a parameter of a value's type."""

    @abstractmethod
    def new_output(self, value: Output, name: str) -> Node:
        """Return a result that returns a value; an output of this name stays as it is declared."""

    @abstractmethod
    def is_computed(self, value: Output) -> bool:
        """Return whether a node computes a value, which is then neither an input nor a weight."""

    @abstractmethod
    def clean(self) -> None:
        """Leave out what outside the graph only removed nodes needed."""

    @abstractmethod
    def weights(self) -> Iterable[tuple[str, Node]]:
        """Yield the constants, of bodies too, with their names."""

    @abstractmethod
    def set_data(self, node: Node, tensor: Tensor) -> None:
        """Give a constant another value of its type and shape."""

    @abstractmethod
    def opset_of(self, domain: str) -> int:
        """Return the version of a domain in which operators are inserted."""

    @abstractmethod
    def element_type_of(self, value: Output) -> ElementType | None:
        """Return the element type of a tensor; None where it is not known."""

    @abstractmethod
    def insert(
        self,
        value: Output,
        name: str,
        operator: OperatorText,
        attributes: Mapping[str, Any],
        further: Sequence[Output | Tensor],
    ) -> None:
        """Let the readers of a value read what an operator computes from it and from ``further`` inputs."""

    @abstractmethod
    def set_axis(self, parameter: Node, axis: int, size: int | str | None) -> None:
        """Set a dimension of an input, and what follows from it."""

    @abstractmethod
    def set_named(self, name: str, size: int | str | None) -> None:
        """Set all dimensions of a name."""

    @abstractmethod
    def opened(self, source: Any) -> Editable:
        """Return another model of the same language."""

    @abstractmethod
    def check_pair(self, output: Node, other: Editable, parameter: Node) -> None:
        """Raise :class:`OptionError` where an input of another model cannot read an output."""

    @abstractmethod
    def adopt(self, other: Editable, prefix: str, fed: Collection[Node]) -> None:
        """Take over what another model has besides its graph; names that both have get a prefix in the other one."""

    @abstractmethod
    def infer_again(self, values: Iterable[Output]) -> None:
        """Infer the types of what follows from values anew."""

    @abstractmethod
    def strip(self, parts: Collection[str]) -> None:
        """Leave out names, descriptions or metadata."""

    @abstractmethod
    def set_property(self, key: str, value: str) -> None:
        """Set a property of the model; an empty value removes it."""

    def tensor(self, name: str, option: str) -> Output:
        """Return the tensor of a name; raises :class:`OptionError`, which names near ones."""
        return self._find(self.tensors(), name, option, "tensor")

    def end(self, nodes: Sequence[Node], name: str, option: str, noun: str) -> Node:
        """Return the parameter or result of a name."""
        ends = {label: node for node in nodes for label in (*node.end_names, *self.aliases(node))}
        return self._find(ends, name, option, noun)

    def _find(self, named: Mapping[str, Found], name: str, option: str, noun: str) -> Found:
        if name in named:
            return named[name]
        inner = self.inner_names().get(name)
        if inner is not None:
            raise OptionError(f"{option}: the tensor '{name}' is inside {inner}, where only its nodes read it")
        raise OptionError(f"{option}: the model has no {noun} '{name}'{suggestions(name, named)}")

    def aliases(self, node: Node) -> Sequence[str]:
        """Return other names of an input or output."""
        return ()


def cut(model: Editable, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Leave what computes ``outputs`` from ``inputs``; without these from the model's inputs, or to its outputs."""
    graph = model.graph
    starts = {model.tensor(name, "cut"): name for name in inputs}
    ends = [model.tensor(name, "cut") for name in outputs]
    if model.keeps_unread and graph.sinks:
        raise OptionError("cut: the model has states: convert it with --stateless first")
    if not outputs:
        reached = dependents(graph, starts) - starts.keys()
        outputs = [node.end_names[0] for node in graph.results if node.inputs[0] in reached]
        if not outputs:
            raise OptionError(f"cut: no output follows from {listed(inputs)}")
        ends = [model.tensor(name, "cut") for name in outputs]
    computed_by_nothing = [name for name, value in zip(outputs, ends) if not model.is_computed(value)]
    if computed_by_nothing:
        raise OptionError(f"cut: '{computed_by_nothing[0]}' is an input or a weight, which nothing computes")
    read = needed_values(ends, starts)
    unread = [name for value, name in starts.items() if value not in read]
    if unread:
        raise OptionError(f"cut: {listed(outputs)} does not follow from '{unread[0]}'")
    needed = [node for node in graph.parameters if node.outputs[0] in read and node.outputs[0] not in starts]
    if inputs and needed:
        raise OptionError(open_cut(inputs, outputs, [node.end_names[0] for node in needed]))
    model.prepare([*starts, *ends])
    results = [model.new_output(value, name) for value, name in zip(ends, outputs)]
    parameters = [
        value.node if value.node.op.role == "parameter" else model.new_input(value, name)
        for value, name in starts.items()
    ]
    graph.results, graph.sinks = results, ()
    for value, parameter in zip(starts, parameters):
        value.replace_by(parameter.outputs[0])
    graph.parameters = parameters if inputs else needed
    model.clean()


def remove_output(model: Editable, names: Sequence[str]) -> None:
    """Return less, and leave out what only these outputs need."""
    graph = model.graph
    named = [model.end(graph.results, name, "remove_output", "output").end_names for name in names]
    gone = {node for node in graph.results if node.end_names in named}
    if len(gone) == len(graph.results):
        raise OptionError("remove_output: no output would be left")
    used = {node for node in graph.parameters if node.outputs[0].is_used}
    graph.results = [node for node in graph.results if node not in gone]
    if not model.keeps_unread:
        graph.sinks = ()
    unread = [node for node in graph.parameters if node in used and not node.outputs[0].is_used]
    graph.parameters = [node for node in graph.parameters if node not in unread]
    if unread:
        labels = ", ".join(node.end_names[0] for node in unread)
        model.notes.append(f"inputs that nothing reads any more are gone: {labels}")
    model.clean()


def add_output(model: Editable, name: str) -> None:
    """Return an inner tensor, too."""
    value = model.tensor(name, "add_output")
    if any(node.inputs[0] is value for node in model.graph.results):
        raise OptionError(f"add_output: '{name}' is an output already")
    if not model.is_computed(value):
        raise OptionError(f"add_output: '{name}' is an input or a weight, which nothing computes")
    model.prepare([value])
    model.graph.results = (*model.graph.results, model.new_output(value, name))


def insert_after(model: Editable, name: str, text: str) -> None:
    """Let an operator compute what the readers of a tensor read."""
    value, operator = model.tensor(name, "insert_after"), OperatorText.read(text)
    opset = model.opset_of(operator.domain)
    attributes, types = operator.checked(opset, model.element_type_of(value))
    after = dependents(model.graph, [value]) - {value}
    further: list[Output | Tensor] = []
    for entry, element_type in zip(operator.inputs, types):
        source = model.tensor(entry, "insert_after") if isinstance(entry, str) else input_of(entry, element_type)
        if source in after:
            raise OptionError(f"insert_after: '{entry}' follows from '{name}', which would follow from it")
        further.append(source)
    model.insert(value, name, operator, attributes, further)


def replace_weight(model: Editable, name: str, value: Any, *, cast: bool) -> None:
    """Give a constant, of a body too, another value of its type and shape."""
    weights: dict[str, list[Node]] = {}
    for label, node in model.weights():
        weights.setdefault(label, []).append(node)
    matches = weights.get(name, [])
    if not matches:
        raise OptionError(f"replace_weight: the model has no weight '{name}'{suggestions(name, weights)}")
    if len(matches) > 1:
        raise OptionError(f"replace_weight: {len(matches)} graphs have a weight '{name}': rename it in the file first")
    held = matches[0].op.data
    assert held is not None
    model.set_data(matches[0], weight_of(name, value, held.element_type, held.shape, cast=cast))


def set_dim(model: Editable, dimension: str, size: Any) -> None:
    """Set a dimension of an input, or all dimensions of a name."""
    value = dimension_of(dimension, size)
    name, axis = split_dimension(dimension)
    if axis is None:
        model.set_named(name, value)
    else:
        model.set_axis(model.end(model.inputs(), name, "set_dim", "input"), axis, value)


def check_axis(name: str, axis: int, rank: int) -> None:
    """Raise :class:`OptionError` for an axis that an input does not have."""
    if not -rank <= axis < rank:
        raise OptionError(f"set_dim: the input '{name}' has {rank} dimensions, but {axis} is asked for")


def rename(model: Editable, names: Mapping[str, str]) -> None:
    """Rename tensors of the main graph at once, so that names can be exchanged."""
    taken = model.reserved_names() - names.keys()
    for old, new in names.items():
        model.tensor(old, "rename")
        if new in taken:
            raise OptionError(f"rename: '{old}' cannot become '{new}', which the model has already")
        taken.add(new)
    rename_tensors(model.graph.nodes(), names)


def rename_tensors(nodes: Iterable[Node], names: Mapping[str, str]) -> None:
    """Rename tensors, and the layers of these names."""
    for node in nodes:
        node.name = names.get(node.name, node.name)
        node.output_names = [names.get(name, name) for name in node.output_names]
        for output in node.outputs:
            output.names = [names.get(name, name) for name in output.names]


def merge(model: Editable, source: Any, pairs: Mapping[str, str]) -> None:
    """Put another model behind this one: its inputs read outputs, as ``pairs`` say."""
    other, label = model.opened(source), Path(source).stem if isinstance(source, (str, os.PathLike)) else "other"
    if len(set(pairs.values())) < len(pairs):
        raise OptionError(f"connect feeds one input twice: {listed(pairs.values())}")
    fed: dict[Node, Node] = {}
    for output, name in pairs.items():
        result = model.end(model.graph.results, output, "connect", "output")
        parameter = other.end(other.inputs(), name, "connect", "input of the other model")
        model.check_pair(result, other, parameter)
        fed[parameter] = result
    returned = [node for node in other.graph.results if node.inputs[0].node in fed]
    if returned:
        raise OptionError(f"connect: the other model returns its input '{returned[0].end_names[0]}' as it is")
    own, theirs = model.reserved_names(), other.reserved_names()
    collisions = sorted(theirs & own - {name for node in fed for name in node.end_names})
    prefix = f"{label}/"
    while any(f"{prefix}{name}" in own or f"{prefix}{name}" in theirs for name in collisions):
        prefix = f"{label}_{prefix}"
    if collisions:
        shown = listed(collisions[:5]) + (" ..." if len(collisions) > 5 else "")
        model.notes.append(f"names of both models have the prefix '{prefix}' in the other one: {shown}")
    prefixed = {name: f"{prefix}{name}" for name in collisions}
    for part in other.graph.parts():
        rename_tensors((node for node in part.nodes if node not in fed), prefixed)
    model.adopt(other, prefix, fed)
    for parameter, result in fed.items():
        parameter.outputs[0].replace_by(result.inputs[0], move_names=False)
    graph, added = model.graph, other.graph
    results, sinks, parameters = added.results, added.sinks, [node for node in added.parameters if node not in fed]
    graph.results = (*(node for node in graph.results if node not in fed.values()), *results)
    graph.sinks, graph.parameters = (*graph.sinks, *sinks), (*graph.parameters, *parameters)
    added.parameters, added.results, added.sinks = (), (), ()
    model.infer_again(result.inputs[0] for result in fed.values())


def _of_each(edit: Callable[..., None], option: str) -> Callable[[Editable, EditOptions], None]:
    """Return a function that does an edit for each name or pair of an option."""

    def run(model: Editable, options: EditOptions) -> None:
        values = getattr(options, option)
        for arguments in values.items() if isinstance(values, Mapping) else ((name,) for name in values):
            edit(model, *arguments)

    return run


def _replace_weights(model: Editable, options: EditOptions) -> None:
    for name, value in options.pairs("replace_weight").items():
        replace_weight(model, name, value, cast=options.cast_weights)


def _as_pass(option: str, stage: Stage, edit: Callable[[Editable, EditOptions], None]) -> Callable[..., None]:
    """Return an edit as a pass, after which the graph is checked."""

    @graph_pass(option, stage)
    def run(graph: Model, model: Editable, options: EditOptions) -> None:
        edit(model, options)

    return lambda model, options: run(model.graph, model, options)


EDITS: Mapping[str, Callable[[Editable, EditOptions], None]] = {
    option: _as_pass(option, stage, edit)
    for option, stage, edit in (
        ("merge", JOINED, lambda model, options: merge(model, options.merge, options.pairs("connect"))),
        ("cut", REMOVALS, lambda model, options: cut(model, *options.cut)),
        ("remove_output", REMOVALS, lambda model, options: remove_output(model, options.names("remove_output"))),
        ("add_output", OPTIONS, _of_each(add_output, "add_output")),
        ("insert_after", PROCESSING, _of_each(insert_after, "insert_after")),
        ("replace_weight", OPTIONS, _replace_weights),
        ("set_dim", OPTIONS, _of_each(set_dim, "set_dim")),
        ("rename", NAMES, lambda model, options: rename(model, options.pairs("rename"))),
        ("strip", NAMES, lambda model, options: model.strip(options.names("strip"))),
        ("metadata", OPTIONS, _of_each(lambda model, *pair: model.set_property(*pair), "metadata")),
    )
}
"""The edits in their order, by the options that ask for them."""
