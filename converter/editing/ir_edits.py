"""The edits of an IR, in place: a pass for each option, as :mod:`.onnx_edits` has functions for an ONNX model."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from converter.conversion import convert_model
from converter.derivation import TAG
from converter.editing.operators import OperatorText
from converter.editing.values import dimension_of, input_of, listed, open_cut, split_dimension, weight_of
from converter.from_ir import apply_options, cut_outputs, is_ir, known_tensors, read_ir
from converter.from_onnx.input_forms import OptionError
from converter.from_onnx.options import suggestions
from converter.onnx_file.types import onnx_number
from converter.options import ConversionOptions
from ir_runtime.graph import Model, Node, Output, PartialShape, RuntimeInfo, Tensor, make_node
from ir_runtime.graph.invariants import JOINED, OPTIONS, PROCESSING
from ir_runtime.operations.inputs_outputs import Const1, Parameter1, Result1
from ir_runtime.rewriting import UniqueNames, graph_pass

_OPSET = 21
"""The opset of ONNX's operators that are inserted."""


def _tensor(model: Model, name: str, option: str) -> Output:
    """Return the tensor, or the only output of the layer, of that name."""
    tensors = known_tensors(model)
    if name in tensors:
        return tensors[name]
    for node in model.nodes():
        for sub in node.op.subgraphs:
            if name in known_tensors(sub.body):
                raise OptionError(f"{option}: the tensor '{name}' is inside a body of layer '{node.name}'")
    raise OptionError(f"{option}: the model has no tensor '{name}'{suggestions(name, tensors)}")


def _ends(nodes: Sequence[Node]) -> dict[str, Node]:
    return {name: node for node in nodes for name in (*node.end_names, node.name)}


def _end(nodes: Sequence[Node], name: str, option: str, noun: str) -> Node:
    """Return the parameter or result of that name."""
    ends = _ends(nodes)
    if name not in ends:
        raise OptionError(f"{option}: the model has no {noun} '{name}'{suggestions(name, ends)}")
    return ends[name]


def cut(model: Model, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Leave what computes ``outputs`` from ``inputs``; without these from the model's inputs, or to its outputs."""
    starts = {_tensor(model, name, "cut"): name for name in inputs}
    ends = [_tensor(model, name, "cut") for name in outputs]
    if model.sinks:
        raise OptionError("cut: the model has states: convert it with --stateless first")
    if not outputs:
        reached = _dependents(model, starts)
        outputs = [node.end_names[0] for node in model.results if node.inputs[0] in reached - starts.keys()]
        if not outputs:
            raise OptionError(f"cut: no output follows from {listed(inputs)}")
        ends = [_tensor(model, name, "cut") for name in outputs]
    unread = {name for value, name in starts.items() if not _dependents(model, [value]) & set(ends)}
    if unread:
        raise OptionError(f"cut: {listed(outputs)} does not follow from {listed(sorted(unread))}")
    open_inputs = [node.end_names[0] for node in _reached_parameters(model, ends, starts)]
    if inputs and open_inputs:
        raise OptionError(open_cut(inputs, outputs, open_inputs))
    if any(not value.node.inputs for value in ends):
        raise OptionError(f"cut: of {listed(outputs)} one is an input or a constant, which nothing computes")
    if inputs:
        _cut_inputs(model, starts, tuple(outputs))
    else:
        cut_outputs(model, tuple(outputs))


@graph_pass("cut_inputs", OPTIONS)
def _cut_inputs(model: Model, starts: Mapping[Output, str], outputs: tuple[str, ...]) -> None:
    cut_outputs.__wrapped__(model, outputs)  # type: ignore[attr-defined]
    unique = UniqueNames(model)
    parameters = []
    for value, name in starts.items():
        parameter = value.node
        if value.node.op.role != "parameter":
            op = Parameter1(shape=value.shape, element_type=value.element_type)
            parameter = make_node(op, (), unique(name))
            value.replace_by(parameter.outputs[0])
            parameter.outputs[0].add_name(name)
        parameters.append(parameter)
    model.parameters = parameters


def _dependents(model: Model, starts: Collection[Output]) -> set[Output]:
    reached = set(starts)
    for node in model.nodes():
        if not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
    return reached


def _reached_parameters(model: Model, ends: Sequence[Output], starts: Collection[Output]) -> list[Node]:
    pending, seen = [value for value in ends if value not in starts], set[Node]()
    while pending:
        node = pending.pop().node
        if node not in seen:
            seen.add(node)
            pending += [value for value in node.inputs if value not in starts]
    return [node for node in model.parameters if node in seen]


@graph_pass("remove_outputs", OPTIONS)
def remove_output(model: Model, names: Sequence[str]) -> None:
    """Return less, and leave out what only these outputs need."""
    gone = {_end(model.results, name, "remove_output", "output") for name in names}
    if len(gone) == len(model.results):
        raise OptionError("remove_output: no output would be left")
    used = [node for node in model.parameters if node.outputs[0].is_used]
    model.results = [node for node in model.results if node not in gone]
    model.parameters = [node for node in model.parameters if node.outputs[0].is_used or node not in used]


@graph_pass("add_output", OPTIONS)
def add_output(model: Model, name: str) -> None:
    """Return an inner tensor, too."""
    value = _tensor(model, name, "add_output")
    if not value.node.inputs:
        raise OptionError(f"add_output: '{name}' is an input or a constant, which nothing computes")
    if any(node.inputs[0] is value for node in model.results):
        raise OptionError(f"add_output: '{name}' is an output already")
    result = make_node(Result1(), [value], UniqueNames(model)(f"{name}/result"))
    result.output_names = [name]
    model.results = (*model.results, result)


@graph_pass("insert_after", PROCESSING)
def insert_after(model: Model, name: str, text: str) -> None:
    """Let the layers of an operator compute what the readers of a tensor read."""
    value, operator = _tensor(model, name, "insert_after"), OperatorText.read(text)
    attributes, types = operator.checked(_OPSET if not operator.domain else 1, value.element_type)
    after = _dependents(model, [value]) - {value}
    further: list[tuple[str, Output | Tensor]] = []
    for place, entry in enumerate(operator.inputs):
        source = _tensor(model, entry, "insert_after") if isinstance(entry, str) else None
        if source in after:
            raise OptionError(f"insert_after: '{entry}' follows from '{name}', which would follow from it")
        further.append((f"input{place}", source or input_of(entry, types[place])))
    part = convert_model(_model_of(operator, value, further, attributes), target="any")
    sources = {"x": value, **{label: source for label, source in further if isinstance(source, Output)}}
    unique = UniqueNames(model)
    readers = [(node, place) for node in value.uses for place, entry in enumerate(node.inputs) if entry is value]
    for node in part.nodes():
        node.name = unique(f"{name}/{node.name}" if node.op.data is None else f"{name}/{operator.op_type}/constant")
        for output in node.outputs if node.op.role != "parameter" else ():
            output.names = []
    _connect(part, sources)
    (result,) = part.outputs
    part.results = ()
    for reader, place in readers:
        reader.replace_input(place, result)


def _model_of(
    operator: OperatorText, value: Output, further: Sequence[tuple[str, Output | Tensor]], attributes: Mapping[str, Any]
) -> onnx.ModelProto:
    """Return a model of one node."""
    inputs, weights = [("x", value)], []
    for label, source in further:
        if isinstance(source, Output):
            inputs.append((label, source))
        else:
            weights.append(
                onnx.TensorProto(
                    name=label,
                    data_type=onnx_number(source.element_type),
                    dims=source.shape,
                    raw_data=b"".join(source.chunks()),
                )
            )
    node = helper.make_node(
        operator.op_type, ["x", *(label for label, _ in further)], ["y"], domain=operator.domain, **attributes
    )
    ends = []
    for label, entry in inputs:
        shape = [dim.value if dim.is_static else None for dim in entry.shape] if entry.shape.has_rank else None
        ends.append(helper.make_tensor_value_info(label, onnx_number(entry.element_type), shape))
    opsets = [helper.make_opsetid("", _OPSET)]
    opsets += [helper.make_opsetid(operator.domain, 1)] if operator.domain else []
    graph = helper.make_graph([node], operator.op_type, ends, [onnx.ValueInfoProto(name="y")], weights)
    return helper.make_model(graph, opset_imports=opsets)


def _connect(part: Model, sources: Mapping[str, Output]) -> None:
    """Let the readers of a model's inputs read other tensors."""
    for node in part.parameters:
        label = next((name for name in (*node.end_names, node.name) if name in sources), None)
        if label is not None:
            node.outputs[0].replace_by(sources[label], move_names=False)


@graph_pass("replace_weight", OPTIONS)
def replace_weight(model: Model, name: str, value: Any, *, cast: bool) -> None:
    """Give a constant, of a body too, another value of its type and shape."""
    constants: dict[str, list[Node]] = {}
    for part in model.parts():
        for node in part.nodes:
            for label in {node.name, *node.outputs[0].names} if node.op.data is not None else ():
                constants.setdefault(label, []).append(node)
    matches = constants.get(name, [])
    if not matches:
        raise OptionError(f"replace_weight: the model has no weight '{name}'{suggestions(name, constants)}")
    if len(matches) > 1:
        raise OptionError(f"replace_weight: {len(matches)} graphs have a weight '{name}'")
    (old,), held = matches, matches[0].op.data
    assert held is not None
    tensor = weight_of(name, value, held.element_type, held.shape, cast=cast)
    new = make_node(Const1(value=tensor), (), old.name)
    old.name = f"{old.name}/before"
    new.runtime_info = old.runtime_info
    old.outputs[0].replace_by(new.outputs[0])


def set_dim(model: Model, dimension: str, size: Any) -> None:
    """Set a dimension of an input."""
    value = dimension_of(dimension, size)
    name, axis = split_dimension(dimension)
    if axis is None:
        raise OptionError(f"set_dim: dimensions of an IR have no names: write INPUT:AXIS={size} instead of {dimension}")
    node = _end(model.parameters, name, "set_dim", "input")
    shape = node.outputs[0].shape
    rank = shape.rank if shape.has_rank else 0
    if not -rank <= axis < rank:
        raise OptionError(f"set_dim: the input '{name}' has {rank} dimensions, but {axis} is asked for")
    dims: list[Any] = list(shape)
    dims[axis] = value if isinstance(value, int) else "?"
    label = node.end_names[0] if node.end_names else node.name
    options = ConversionOptions(input={label: PartialShape(dims) if "?" not in dims else dims})
    apply_options(model, options.bindings, static=False)


@graph_pass("rename_tensors", OPTIONS)
def rename(model: Model, names: Mapping[str, str]) -> None:
    """Rename tensors, and the layers of these names, at once, so that names can be exchanged."""
    taken = {*known_tensors(model), *(node.name for node in model.nodes())} - names.keys()
    for old, new in names.items():
        _tensor(model, old, "rename")
        if new in taken:
            raise OptionError(f"rename: '{old}' cannot become '{new}', which the model has already")
        taken.add(new)
    for node in model.nodes():
        node.name = names.get(node.name, node.name)
        node.output_names = [names.get(name, name) for name in node.output_names]
        for output in node.outputs:
            output.names = [names.get(name, name) for name in output.names]


def merge(model: Model, source: Any, pairs: Mapping[str, str]) -> None:
    """Put another IR behind this one: its inputs read outputs, as ``pairs`` say."""
    if not is_ir(source):
        raise OptionError(f"merge: the model is an IR, and {source} is none: convert it first")
    other = read_ir(source)
    sources = {}
    for output, name in pairs.items():
        value = _end(model.results, output, "connect", "output").inputs[0]
        start = _end(other.parameters, name, "connect", "input of the other model").outputs[0]
        fits = value.element_type is start.element_type and value.shape.merge(start.shape) is not None
        if not fits:
            raise OptionError(f"connect: '{output}' is {value.type}, but '{name}' is {start.type}")
        sources[name] = value
    _join(model, other, sources, set(pairs), Path(str(source)).stem if not isinstance(source, Model) else "other")


@graph_pass("join_models", JOINED)
def _join(model: Model, other: Model, sources: Mapping[str, Output], returned: set[str], label: str) -> None:
    unique = UniqueNames(model)
    taken = set(known_tensors(model))
    fed = [node for node in other.parameters if sources.keys() & {node.name, *node.end_names}]
    for node in other.nodes():
        node.name = unique(node.name)
        for values in (output.names for output in node.outputs if node not in fed):
            values[:] = [f"{label}/{name}" if name in taken else name for name in values]
        node.output_names = [f"{label}/{name}" if name in taken else name for name in node.output_names]
    _connect(other, sources)
    results, sinks = other.results, other.sinks
    parameters = [node for node in other.parameters if node not in fed]
    kept = [node for node in model.results if not returned & {node.name, *node.end_names}]
    model.results, model.sinks = (*kept, *results), (*model.sinks, *sinks)
    model.parameters = (*model.parameters, *parameters)
    other.parameters, other.results, other.sinks = (), (), ()


@graph_pass("strip", OPTIONS)
def strip(model: Model, parts: Sequence[str]) -> None:
    """Leave out names of layers and inner tensors, and metadata; an IR has no descriptions."""
    ends = {*model.parameters, *model.results}
    kept = {name for node in ends for name in (node.end_names if node.inputs else [*node.end_names, node.name])}
    for part in model.parts():
        for number, node in enumerate(part.nodes):
            if "names" in parts:
                node.name = node.name if node in ends or node.name in kept else f"layer{number}"
                for output in node.outputs:
                    output.names = [name for name in output.names if name in kept]
            if "metadata" in parts:
                node.runtime_info = ()
                for output in node.outputs:
                    output.runtime_info = ()
    if "metadata" in parts:
        model.runtime_info = ()


@graph_pass("set_metadata", OPTIONS)
def set_metadata(model: Model, values: Mapping[str, str]) -> None:
    """Set elements of ``rt_info``; an empty value removes one."""
    for key, value in values.items():
        if not re.fullmatch(r"[A-Za-z_][\w.-]*", key) or key == TAG:
            raise OptionError(f"metadata: '{key}' cannot be an element of rt_info: letters, digits, '_', '-' and '.'")
        others = tuple(info for info in model.runtime_info if info.tag != key)
        if not value and len(others) == len(model.runtime_info):
            tags = [info.tag for info in model.runtime_info]
            raise OptionError(f"metadata: the model has no property '{key}'{suggestions(key, tags)}")
        model.runtime_info = (*others, RuntimeInfo(key, (("value", str(value)),))) if value else others
