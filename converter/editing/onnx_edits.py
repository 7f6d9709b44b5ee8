"""The edits of an ONNX model, in place: a function for each option, as :mod:`.ir_edits` has them for an IR."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from converter.editing.onnx_model import (
    OnnxModel,
    defined_in,
    initializers_of,
    reads_of,
    rename_declared,
    rename_reads,
)
from converter.editing.operators import OperatorText
from converter.editing.values import dimension_of, input_of, listed, open_cut, split_dimension, weight_of
from converter.errors import InvalidModelError
from converter.from_onnx.input_forms import OptionError
from converter.from_onnx.options import suggestions
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.skeleton import graphs_in, place_of, refer, tensors_in
from converter.onnx_file.types import element_type_of, onnx_number


def cut(model: OnnxModel, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Leave what computes ``outputs`` from ``inputs``; without these from the model's inputs, or to its outputs."""
    graph = model.graph
    for name in (*inputs, *outputs):
        model.check_tensor(name, "cut")
    if not outputs:
        reached = model.dependents(inputs) - set(inputs)
        outputs = [name for name in model.outputs if name in reached]
        if not outputs:
            raise OptionError(f"cut: no output follows from {listed(inputs)}")
    starts = set(inputs)
    writers = model.writers()
    computed_by_nothing = [name for name in outputs if name not in writers]
    if computed_by_nothing:
        raise OptionError(f"cut: '{computed_by_nothing[0]}' is an input or a weight, which nothing computes")
    _, read = model.needed(outputs, starts)
    unread = [name for name in inputs if name not in read]
    if unread:
        raise OptionError(f"cut: {listed(outputs)} does not follow from '{unread[0]}'")
    declared = {value.name: value for value in graph.input}
    open_inputs = [name for name in model.inputs if name in read - starts]
    if inputs and open_inputs:
        raise OptionError(open_cut(inputs, outputs, open_inputs))
    ends = list(inputs or open_inputs)
    types = model.types([*ends, *(name for name in outputs if name not in model.outputs)])
    weights = [declared[name] for name in initializers_of(graph) if name in declared and name in read - starts]
    kept = {value.name: value for value in graph.output}
    returned = [_declared(kept.get(name, types[name]), name) for name in outputs]
    values = [_declared(declared.get(name, types.get(name)), name) for name in ends]
    del graph.output[:]
    graph.output.extend(returned)
    model.remove_unread([*values, *weights])


def _declared(value: onnx.ValueInfoProto | None, name: str) -> onnx.ValueInfoProto:
    copy = onnx.ValueInfoProto()
    assert value is not None
    copy.CopyFrom(value)
    copy.name = name
    return copy


def remove_output(model: OnnxModel, names: Sequence[str]) -> None:
    """Return less, and leave out what only these outputs need."""
    for name in names:
        model.check_tensor(name, "remove_output", model.outputs, "output")
    if set(names) >= set(model.outputs):
        raise OptionError("remove_output: no output would be left")
    for place in reversed(range(len(model.graph.output))):
        if model.graph.output[place].name in names:
            del model.graph.output[place]
    model.remove_unread()


def add_output(model: OnnxModel, name: str) -> None:
    """Return an inner tensor, too."""
    model.check_tensor(name, "add_output")
    if name in model.outputs:
        raise OptionError(f"add_output: '{name}' is an output already")
    if name not in model.writers():
        raise OptionError(f"add_output: '{name}' is an input or a weight, which nothing computes")
    model.graph.output.append(_declared(model.types([name])[name], name))


def insert_after(model: OnnxModel, name: str, text: str) -> None:
    """Let a node compute what the readers of a tensor read."""
    model.check_tensor(name, "insert_after")
    graph, operator = model.graph, OperatorText.read(text)
    declared = model.types([name], is_needed=False).get(name, onnx.ValueInfoProto())
    number = declared.type.tensor_type.elem_type
    element_type = element_type_of(number) if number else None
    opsets = {normalize_domain(entry.domain): entry.version for entry in model.proto.opset_import}
    attributes, types = operator.checked(opsets.get(operator.domain, 1), element_type)
    names = model.unique()
    is_computed = name in model.writers()
    other = names.unique(f"{name}/before_{operator.op_type}" if is_computed else f"{name}/{operator.op_type}")
    further = [_further_input(model, names.unique, name, *entry) for entry in zip(operator.inputs, types)]
    further = [other if entry == name and is_computed else entry for entry in further]
    node = helper.make_node(
        operator.op_type, [], [], f"{name}/{operator.op_type}", domain=operator.domain, **attributes
    )
    if is_computed:  # the result has the tensor's name, so that an output keeps its own
        place = model.writers()[name] + 1
        writer = graph.node[place - 1]
        writer.output[:] = [other if entry == name else entry for entry in writer.output]
        node.input[:], node.output[:] = [other, *further], [name]
    else:
        place = 0
        for reader in graph.node:
            rename_reads(reader, {name: other})
        node.input[:], node.output[:] = [name, *further], [other]
    graph.node.insert(place, node)
    if operator.domain not in opsets:
        model.proto.opset_import.add(domain=operator.domain, version=1)
    _sort(model, f"insert_after: {operator.op_type} behind '{name}'")
    model.infer_again([node.output[0]])


def _further_input(model: OnnxModel, unique: Any, name: str, value: Any, element_type: Any) -> str:
    """Return the name of an input: that of a tensor, or of a new weight for a number or a list."""
    if isinstance(value, str):
        model.check_tensor(value, "insert_after")
        if value in model.dependents([name]) - {name}:
            raise OptionError(f"insert_after: '{value}' follows from '{name}', which would follow from it")
        return value
    tensor = input_of(value, element_type)
    proto = onnx.TensorProto(
        name=unique(f"{name}/value"), data_type=onnx_number(tensor.element_type), dims=tensor.shape
    )
    model.fill(proto, tensor)
    model.graph.initializer.append(proto)
    return proto.name


def _sort(model: OnnxModel, edit: str) -> None:
    """Bring the nodes into an order in which each comes behind those that it reads from."""
    graph, writers = model.graph, model.writers()
    waiting = [{writers[name] for name in reads_of(node) if name in writers} for node in graph.node]
    if all(max(sources, default=-1) < place for place, sources in enumerate(waiting)):
        return
    done, order = set[int](), list[int]()
    while len(order) < len(waiting):
        ready = [place for place, sources in enumerate(waiting) if place not in done and sources <= done]
        if not ready:
            raise OptionError(f"{edit} would make a cycle")
        done.update(ready)
        order += ready
    nodes = [onnx.NodeProto.FromString(graph.node[place].SerializeToString()) for place in order]
    del graph.node[:]
    graph.node.extend(nodes)


def replace_weight(model: OnnxModel, name: str, value: Any, *, cast: bool) -> None:
    """Give an initializer, of a body too, or the result of a Constant node another value of its type and shape."""
    weights: dict[str, list[onnx.TensorProto]] = {}
    _collect_weights(model.graph, weights)
    matches = weights.get(name, [])
    if not matches:
        raise OptionError(f"replace_weight: the model has no weight '{name}'{suggestions(name, weights)}")
    if len(matches) > 1:
        raise OptionError(f"replace_weight: {len(matches)} graphs have a weight '{name}': rename it in the file first")
    (proto,) = matches
    tensor = weight_of(name, value, element_type_of(proto.data_type), tuple(proto.dims), cast=cast)
    for field in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        proto.ClearField(field)
    model.fill(proto, tensor)


def _collect_weights(graph: onnx.GraphProto, weights: dict[str, list[onnx.TensorProto]]) -> None:
    for tensor in graph.initializer:
        weights.setdefault(tensor.name, []).append(tensor)
    for node in graph.node:
        values = [entry.t for entry in node.attribute if entry.name == "value"]
        if node.op_type == "Constant" and not normalize_domain(node.domain) and values:
            weights.setdefault(node.output[0], []).append(values[0])
        for body in graphs_in(node):
            _collect_weights(body, weights)


def set_dim(model: OnnxModel, dimension: str, size: Any) -> None:
    """Set a dimension of an input, or all dimensions of a name."""
    value = dimension_of(dimension, size)
    name, axis = split_dimension(dimension)
    graph = model.graph
    if axis is not None:
        model.check_tensor(name, "set_dim", model.inputs, "input")
        declared = next(entry for entry in graph.input if entry.name == name)
        dims = declared.type.tensor_type.shape.dim
        if not -len(dims) <= axis < len(dims):
            raise OptionError(f"set_dim: the input '{name}' has {len(dims)} dimensions, but {axis} is asked for")
        _set(dims[axis], value)
        model.infer_again([name])
        return
    values = [*graph.input, *graph.output, *graph.value_info]
    named = [dim for entry in values for dim in entry.type.tensor_type.shape.dim if dim.dim_param]
    if all(dim.dim_param != name for dim in named):
        present = {dim.dim_param for dim in named}
        more = "" if name not in model.inputs else f": for the input write '{name}:AXIS'"
        raise OptionError(f"set_dim: the model has no dimension '{name}'{more or suggestions(name, present)}")
    for dim in named:
        if dim.dim_param == name:
            _set(dim, value)
    if not isinstance(value, str):
        model.infer_again(
            entry.name for entry in graph.input if any(dim in entry.type.tensor_type.shape.dim for dim in named)
        )


def _set(dim: Any, value: int | str | None) -> None:
    dim.Clear()
    if isinstance(value, str):
        dim.dim_param = value
    elif value is not None:
        dim.dim_value = value


def rename(model: OnnxModel, names: Mapping[str, str]) -> None:
    """Rename tensors of the main graph at once, so that names can be exchanged."""
    taken = {*defined_in(model.graph), *model.inner_names()} - names.keys()
    for old, new in names.items():
        model.check_tensor(old, "rename")
        if new in taken:
            raise OptionError(f"rename: '{old}' cannot become '{new}', which the model has already")
        taken.add(new)
    model.rename(names)


def merge(model: OnnxModel, path: Any, pairs: Mapping[str, str]) -> None:
    """Put another model behind this one: its inputs read outputs, as ``pairs`` say."""
    other, label = OnnxModel(path), Path(path).stem if isinstance(path, (str, os.PathLike)) else "other"
    types, there = model.types(model.outputs, is_needed=False), {value.name: value for value in other.graph.input}
    for output, name in pairs.items():
        model.check_tensor(output, "connect", model.outputs, "output")
        other.check_tensor(name, "connect", [value.name for value in other.graph.input], "input of the other model")
        _check_types(output, types[output], name, there[name])
    if len(set(pairs.values())) < len(pairs):
        raise OptionError(f"connect feeds one input twice: {listed(pairs.values())}")
    _join_opsets(model.proto, other.proto)
    own = {*defined_in(model.graph), *model.inner_names()}
    inner = other.inner_names()
    collisions = sorted((defined_in(other.graph) | inner.keys()) & own - set(pairs.values()))
    prefix = f"{label}/"
    while any(f"{prefix}{name}" in own or f"{prefix}{name}" in inner for name in collisions):
        prefix = f"{label}_{prefix}"
    renamed = {name: f"{prefix}{name}" for name in collisions}
    if renamed:
        shown = listed(collisions[:5]) + (" ..." if len(collisions) > 5 else "")
        model.notes.append(f"names of both models have the prefix '{prefix}' in the other one: {shown}")
    _rename_everywhere(other, {**renamed, **{name: output for output, name in pairs.items()}})
    _rename_nodes_and_functions(model.proto, other.proto, prefix)
    _append(model, other, pairs)


def _check_types(output: str, ours: onnx.ValueInfoProto, name: str, theirs: onnx.ValueInfoProto) -> None:
    first, second = ours.type.tensor_type, theirs.type.tensor_type
    if ours.type.WhichOneof("value") != theirs.type.WhichOneof("value") or first.elem_type != second.elem_type:
        kinds = [onnx.TensorProto.DataType.Name(entry.elem_type) for entry in (first, second)]
        raise OptionError(f"connect: '{output}' is {kinds[0]}, but '{name}' is {kinds[1]}: insert_after has Cast")
    if first.HasField("shape") and second.HasField("shape"):
        shapes = [[dim.dim_value or dim.dim_param or "?" for dim in entry.shape.dim] for entry in (first, second)]
        fits = len(shapes[0]) == len(shapes[1]) and all(
            a == b or isinstance(a, str) or isinstance(b, str) for a, b in zip(*shapes)
        )
        if not fits:
            raise OptionError(f"connect: '{output}' has the shape {shapes[0]}, but '{name}' needs {shapes[1]}")


def _join_opsets(model: onnx.ModelProto, other: onnx.ModelProto) -> None:
    opsets = {normalize_domain(entry.domain): entry.version for entry in model.opset_import}
    for entry in other.opset_import:
        domain = normalize_domain(entry.domain)
        if domain not in opsets:
            model.opset_import.add(domain=domain, version=entry.version)
        elif opsets[domain] != entry.version:
            newest = max(opsets[domain], entry.version)
            raise OptionError(
                f"merge: the models have the opsets {opsets[domain]} and {entry.version} of {domain or 'ai.onnx'}: "
                f"bring both to one, such as with 'onnx2ir optimize MODEL --opset {newest}'"
            )


def _rename_everywhere(model: OnnxModel, names: Mapping[str, str]) -> None:
    """Rename the tensors of the main graph and those of bodies."""
    model.rename({name: new for name, new in names.items() if name in defined_in(model.graph)})
    for node in model.graph.node:
        for body in graphs_in(node):
            _rename_in_body(body, names)


def _rename_in_body(body: onnx.GraphProto, names: Mapping[str, str]) -> None:
    own = {name: names[name] for name in defined_in(body) if name in names}
    rename_declared(body, own)
    for node in body.node:
        rename_reads(node, own)
        node.output[:] = [own.get(name, name) for name in node.output]
        for inner in graphs_in(node):
            _rename_in_body(inner, names)


def _rename_nodes_and_functions(model: onnx.ModelProto, other: onnx.ModelProto, prefix: str) -> None:
    nodes = {node.name for node in model.graph.node}
    for node in other.graph.node:
        if node.name and node.name in nodes:
            node.name = f"{prefix}{node.name}"
    functions = {(entry.domain, entry.name): entry.SerializeToString(deterministic=True) for entry in model.functions}
    keys = [(entry.domain, entry.name) for entry in other.functions]
    differing = {
        key
        for key, entry in zip(keys, other.functions)
        if functions.get(key, text := entry.SerializeToString(deterministic=True)) != text
    }
    for function in other.functions:
        _rename_calls(function.node, differing, prefix)
        if (function.domain, function.name) in differing:
            function.name = f"{prefix}{function.name}".replace("/", "_")
        elif (function.domain, function.name) in functions:
            continue
        model.functions.append(function)
    _rename_calls(other.graph.node, differing, prefix)


def _rename_calls(nodes: Any, differing: set[tuple[str, str]], prefix: str) -> None:
    for node in nodes:
        if (node.domain, node.op_type) in differing:
            node.op_type = f"{prefix}{node.op_type}".replace("/", "_")
        for body in graphs_in(node):
            _rename_calls(body.node, differing, prefix)


def _append(model: OnnxModel, other: OnnxModel, pairs: Mapping[str, str]) -> None:
    """Add the other model's graph, whose connected inputs have the names of outputs by now."""
    for tensor in tensors_in(other.proto):
        place = place_of(tensor)
        if place is not None:
            refer(tensor, place + len(model.tensors))
    model.tensors += other.tensors
    model.has_external_data |= other.has_external_data
    model.files = (*model.files, *other.files)
    model.notes += other.notes
    graph, added = model.graph, other.graph
    returned = {value.name for value in added.output} & pairs.keys()
    if returned:
        raise OptionError(f"connect: the other model returns its input '{pairs[min(returned)]}' as it is")
    for place in reversed(range(len(graph.output))):
        if graph.output[place].name in pairs:
            del graph.output[place]
    graph.output.extend(added.output)
    graph.input.extend(value for value in added.input if value.name not in pairs)
    graph.value_info.extend(added.value_info)
    graph.initializer.extend(entry for entry in added.initializer if entry.name not in pairs)
    graph.sparse_initializer.extend(added.sparse_initializer)
    graph.quantization_annotation.extend(added.quantization_annotation)
    graph.node.extend(added.node)
    model.proto.ir_version = max(model.proto.ir_version, other.proto.ir_version)
    present = {entry.key for entry in model.proto.metadata_props}
    model.proto.metadata_props.extend(entry for entry in other.proto.metadata_props if entry.key not in present)
    model.infer_again(pairs)


def strip(model: OnnxModel, parts: Sequence[str]) -> None:
    """Leave out names of nodes and inner tensors, descriptions, and metadata."""
    fields = [field for name, field in (("docs", "doc_string"), ("metadata", "metadata_props")) if name in parts]
    if fields:
        _clear(model.proto, fields)
    if "names" in parts:
        stay = {*(value.name for value in model.graph.input), *model.outputs}
        inner = sorted(model.inner_names())
        own = [name for node in model.graph.node for name in node.output if name and name not in stay]
        own += [name for name in initializers_of(model.graph) if name not in stay]
        names, number = dict[str, str](), 0
        for name in dict.fromkeys([*own, *inner]):
            while f"t{number}" in stay:
                number += 1
            names[name], number = f"t{number}", number + 1
        _rename_everywhere(model, names)
        nodes = [*model.graph.node, *(node for entry in model.proto.functions for node in entry.node)]
        while nodes:
            node = nodes.pop()
            node.ClearField("name")
            nodes += [inner for body in graphs_in(node) for inner in body.node]


def _clear(message: Any, fields: Sequence[str]) -> None:
    """Clear fields of a message and of all in it."""
    for field, value in message.ListFields():
        if field.name in fields:
            message.ClearField(field.name)
        elif field.message_type is not None:
            for entry in [value] if hasattr(value, "ListFields") else value:
                _clear(entry, fields)


def set_metadata(model: OnnxModel, values: Mapping[str, str]) -> None:
    """Set properties of the model; an empty value removes one."""
    proto = model.proto
    for key, value in values.items():
        others = [entry for entry in proto.metadata_props if entry.key != key]
        if not value and len(others) == len(proto.metadata_props):
            present = [entry.key for entry in proto.metadata_props]
            raise OptionError(f"metadata: the model has no property '{key}'{suggestions(key, present)}")
        pairs = [(entry.key, entry.value) for entry in others] + ([(key, str(value))] if value else [])
        del proto.metadata_props[:]
        for name, text in pairs:
            proto.metadata_props.add(key=name, value=text)


def check_edited(model: OnnxModel, before: onnx.ModelProto) -> None:
    """Raise :class:`InvalidModelError` where the model breaks ONNX's rules and the file did not; else note it."""
    problem = _problem(model.proto)
    if problem is None:
        return
    if _problem(before) is None:
        raise InvalidModelError(f"the edited model would be invalid: {problem}")
    model.notes.append(f"the file itself is invalid, as onnx.checker says: {problem}")


def _problem(proto: onnx.ModelProto) -> str | None:
    """What onnx's checker and its strict inference of shapes say of a model; None for nothing."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    try:
        onnx.shape_inference.infer_shapes(copy, check_type=True, strict_mode=True)
        for tensor in tensors_in(copy):
            if place_of(tensor) is not None:
                tensor.ClearField("external_data")
                tensor.dims[:] = [0]
                tensor.raw_data = b""
        onnx.checker.check_model(copy)
    except Exception as error:  # onnx raises several types
        return str(error).strip().split("\n\n")[0]
    return None
