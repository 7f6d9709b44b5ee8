"""Valid models of one ONNX operator, with sequences and optionals made and taken apart around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, checker, defs, helper, numpy_helper, shape_inference

from converter.onnx_file.types import onnx_number
from ir_runtime.graph.element_types import ElementType, from_dtype
from tests.suite.type_values import Value

IR_VERSION = 13
"""The newest that onnxruntime reads."""

ONNX_NUMBERS = {name.lower(): number for name, number in TensorProto.DataType.items()}
"""A type as ONNX's schemas spell it -> its number."""


KNOWN_INPUTS = ("position", "split", "axis", "tiles")
"""Inputs that decide how many tensors or which dimensions there are, which the IR has to know."""


def formal_of(formals: Sequence[defs.OpSchema.FormalParameter], index: int) -> defs.OpSchema.FormalParameter:
    """The formal parameter that input or output ``index`` belongs to."""
    return formals[min(index, len(formals) - 1)]


def build(
    node: onnx.NodeProto,
    values: Sequence[Value],
    opset: int,
    types: Mapping[str, ElementType],
    *,
    appended: np.ndarray | None = None,
    shapes: Sequence[Sequence[int]] = (),
    inferred: bool = True,
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A valid model of the node, sequences made from tensors before it and taken apart after it.

    Inputs whose type is no parameter of the operator, such as axes, are initializers, as in most models,
    and so are :data:`KNOWN_INPUTS`.
    ``types`` are those of the type parameters, ``appended`` is inserted into the sequence that comes
    out, ``shapes`` are for outputs whose shape inference does not give. Raises the errors of ONNX's
    checker and its inference, which is not asked where ``inferred`` is false.
    """
    schema = defs.get_schema(node.op_type, opset)
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    graph = onnx.GraphProto(name="types")
    feeds: dict[str, Any] = {}
    main = onnx.NodeProto()
    main.CopyFrom(node)
    del main.input[:]

    def tensor(name: str, array: np.ndarray, known: bool) -> None:
        if known:
            graph.initializer.append(numpy_helper.from_array(array, name))
            return
        feeds[name] = array
        kind = onnx_number(from_dtype(array.dtype))
        graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))

    for index, value in enumerate(values):
        formal = formal_of(schema.inputs, index)
        if value is None:
            main.input.append("")
            continue
        name = f"x{index}"
        main.input.append(name)
        if isinstance(value, list):
            for number, item in enumerate(value):
                tensor(f"{name}_{number}", item, False)
            graph.node.append(helper.make_node("SequenceConstruct", [f"{name}_{i}" for i in range(len(value))], [name]))
            continue
        spelled = allowed.get(formal.type_str, [])
        wrapped = bool(spelled) and not any(text.startswith("tensor(") for text in spelled)
        tensor(f"{name}_0" if wrapped else name, value, not spelled or formal.name in KNOWN_INPUTS)
        if wrapped:
            graph.node.append(helper.make_node("Optional", [f"{name}_0"], [name]))
    main.name = "node"
    graph.node.append(main)
    names = [name for name in main.output if name]
    if appended is not None:
        tensor("appended", appended, False)
        graph.node.append(helper.make_node("SequenceInsert", [names[0], "appended"], ["longer"]))
        names = ["longer"]
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)
    if inferred:
        _add_outputs(model, names, types)
    else:
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        for value in model.graph.output:
            value.type.tensor_type.elem_type = _declared_type(main, schema, value.name, types)
    for value, shape in zip(model.graph.output, shapes):
        # Old versions and values known at run time have no inferred shape, without which no model is valid.
        if not value.type.tensor_type.HasField("shape"):
            value.CopyFrom(helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, shape))
    checker.check_model(model, full_check=inferred)
    return model, feeds


def _add_outputs(model: onnx.ModelProto, names: Sequence[str], types: Mapping[str, ElementType]) -> None:
    """Declare outputs as inference has them; of a sequence its length and first element, of an optional its element."""
    pending, graph = list(names), model.graph
    while pending:
        del graph.output[:]
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in pending)
        inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        found = {value.name: value for value in inferred.graph.output}
        following = []
        for name in pending:
            kind = found[name].type.WhichOneof("value")
            if kind == "sequence_type":
                first = helper.make_tensor(f"{name}_0", TensorProto.INT64, [], [0])
                graph.node.append(helper.make_node("Constant", [], [f"{name}_at"], value=first))
                graph.node.append(helper.make_node("SequenceAt", [name, f"{name}_at"], [f"{name}_first"]))
                graph.node.append(helper.make_node("SequenceLength", [name], [f"{name}_length"]))
                following += [f"{name}_first", f"{name}_length"]
            elif kind == "optional_type":
                graph.node.append(helper.make_node("OptionalGetElement", [name], [f"{name}_element"]))
                following.append(f"{name}_element")
            else:
                following.append(name)
        if following == pending:
            del graph.output[:]
            for name in pending:
                if not found[name].type.tensor_type.elem_type:
                    # An operator without inference.
                    node = next(n for n in graph.node if name in n.output)
                    schema = defs.get_schema(node.op_type, model.opset_import[0].version)
                    found[name].type.tensor_type.elem_type = _declared_type(node, schema, name, types)
                graph.output.append(found[name])
        pending = following if following != pending else []


def _declared_type(node: onnx.NodeProto, schema: defs.OpSchema, name: str, types: Mapping[str, ElementType]) -> int:
    """The type of an output by the schema."""
    spelled = formal_of(schema.outputs, list(node.output).index(name)).type_str
    if spelled in types:
        return onnx_number(types[spelled])
    for attribute in node.attribute:
        if attribute.name == "to":
            return attribute.i or ONNX_NUMBERS[attribute.s.decode().lower()]
    return ONNX_NUMBERS.get(spelled.removeprefix("tensor(").removesuffix(")"), 0)
