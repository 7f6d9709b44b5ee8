"""If: one of two graphs; only one of them is translated where the condition is known while converting.

A branch can read all values around it, a body of the IR none. A value that a branch reads from outside becomes an
input of the layer and a parameter of the body.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from converter.from_onnx.operators.onnx.loops import condition, declared_rank, is_single
from converter.from_onnx.translation import Body, Context, onnx_op
from converter.from_onnx.translation.readers_in_branches import DifferentRanks
from converter.from_onnx.translation.values import Value
from converter.onnx_file.messages import GraphProto
from converter.stages import warn
from ir_runtime.graph import (
    InputMap,
    Model,
    Node,
    Operation,
    Output,
    OutputMap,
    PartialShape,
    SubGraph,
    Tensor,
    element_types,
    make_node,
)
from ir_runtime.operations import control_flow, elementwise, movement
from ir_runtime.operations.generation import ShapeOf3
from ir_runtime.operations.inputs_outputs import Const1, Parameter1, Result1


@onnx_op("If", versions=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def if_(ctx: Context, cond: Output, *, then_branch: GraphProto, else_branch: GraphProto) -> Sequence[Value]:
    """Run one of two graphs; where the condition is a constant, the layers of that graph without an If."""
    constant = cond.type.constant
    if constant is not None and constant.size == 1:
        return ctx.graphs.inline(then_branch if constant.reshape(-1)[0] else else_branch, [])
    branches = _branches(ctx, cond, then_branch, else_branch)
    results = [branch.model.outputs for branch in branches]
    if len(results[0]) != len(results[1]):
        raise ctx.invalid(f"then_branch has {len(results[0])} outputs, but else_branch has {len(results[1])}")
    different: dict[str, str] = {}
    for index, (then, otherwise) in enumerate(zip(*results)):
        if then.element_type is not otherwise.element_type:
            raise ctx.invalid(
                f"output {index} is {then.element_type} in then_branch, but {otherwise.element_type} in else_branch"
            )
        ranks = [branch.shape.rank if branch.shape.has_rank else None for branch in (then, otherwise)]
        if None in ranks or ranks[0] == ranks[1]:
            continue
        declared = {declared_rank(graph.output[index]) for graph in (then_branch, else_branch)}
        rank = declared.pop()
        if declared or rank is None or not (is_single(then) and is_single(otherwise)):
            name = ctx.output_names[index] if index < len(ctx.output_names) else ""
            different[name] = f"output {index} has rank {ranks[0]} in then_branch, but {ranks[1]} in else_branch"
            continue
        for branch in branches:
            _give_rank(branch.model, index, rank)
    if different:
        reason = next(iter(different.values()))
        condition_text = _describe_condition(ctx, cond)
        raise DifferentRanks(
            f"{reason}, and a tensor of the IR keeps its rank; which branch is taken {condition_text}", different
        )
    captures = list(dict.fromkeys([*branches[0].captures, *branches[1].captures]))
    places = {outer: index for index, outer in enumerate(captures)}
    subgraphs = tuple(
        SubGraph(
            branch.model,
            tuple(InputMap(1 + places[outer], i) for i, outer in enumerate(branch.captures)),
            tuple(OutputMap(i, i) for i in range(len(branch.model.results))),
        )
        for branch in branches
    )
    return ctx.emit_all(control_flow.If8(bodies=subgraphs), condition(ctx, cond), *captures)


def _give_rank(body: Model, index: int, rank: int) -> None:
    """Reshape a result of one element to the declared rank: exporters mix up [] and [1]."""
    old = body.results[index]
    ones = np.ones(rank, np.int64)
    shape = make_node(Const1(value=Tensor.from_array(ones, element_types.i64)), (), f"{old.name}/shape")
    node = make_node(movement.Reshape1(), [old.inputs[0], shape.outputs[0]], f"{old.name}/reshape")
    result = make_node(Result1(), node.outputs, old.name)
    body.results = (*body.results[:index], result, *body.results[index + 1 :])


def _branches(ctx: Context, cond: Output, *graphs: GraphProto) -> list[Body]:
    """Both branches as bodies; one that contradicts the shapes around it becomes a body that fails when it runs.

    In ONNX such a model is valid: a branch for another sampling rate may contradict the shapes of the inputs as long
    as it does not run.
    """
    branches = [ctx.graphs.body_or_contradictions(graph) for graph in graphs]
    bodies = [branch for branch in branches if isinstance(branch, Body)]
    reasons = "; ".join(str(problem) for branch in branches if not isinstance(branch, Body) for problem in branch)
    if not bodies:
        raise ctx.invalid(f"neither branch fits the graph around it: {reasons}")
    if len(bodies) < len(branches):
        name = "then_branch" if isinstance(branches[1], Body) else "else_branch"
        warn(
            "the %s of the If that makes '%s' contradicts the graph around it and fails when it is taken: %s",
            name,
            next(iter(ctx.output_names), ""),
            reasons,
        )
        # Other dimensions may fit the other branch, and change the types of the results.
        ctx.graphs.keep_dimensions()
        failing = _failing(cond, bodies[0], name)
        return [failing, *bodies] if name == "then_branch" else [*bodies, failing]
    return bodies


def _failing(cond: Output, other: Body, name: str) -> Body:
    """A body that has the outputs of ``other`` and fails when it runs: it reshapes one element too many or too few.

    The condition decides which, so that no engine can fold the Reshape or infer from bounds that it fails.
    """

    def layer(op: Operation, *inputs: Output) -> Output:
        node = make_node(op, inputs)
        node.name = f"{op.type}_{len(layers)}"
        layers.append(node)
        return node.outputs[0]

    def numbers(values: Sequence[int], type_name: str = "i64") -> Output:
        element_type = element_types.element_type(type_name)
        array = np.asarray(values, element_type.dtype)
        return layer(Const1(value=Tensor.from_array(array, element_type)))

    layers: list[Node] = []
    condition = layer(Parameter1(shape=cond.shape, element_type=cond.element_type))
    number = layer(elementwise.Convert1(destination_type=element_types.i64), condition)
    none_or_two = layer(elementwise.Multiply1(), layer(movement.Reshape1(), number, numbers([1])), numbers([2]))
    results = []
    for index, result in enumerate(other.model.outputs):
        dimensions = [d.value if d.is_static else 1 for d in result.shape] if result.shape.has_rank else []
        size = layer(elementwise.Add1(), none_or_two, numbers([math.prod(dimensions) - 1]))
        flat = layer(movement.Broadcast3(), numbers([0], result.element_type.name), size)
        out = layer(movement.Reshape1(), flat, numbers(dimensions))
        out.node.name = f"{name} contradicts the shapes around it, output {index}"
        results.append(make_node(Result1(), [out], f"result_{index}"))
    return Body(Model(name, [condition.node], results), (cond,))


def _describe_condition(ctx: Context, cond: Output) -> str:
    """The end of an error: the inputs whose values or dynamic dimensions a condition depends on, and what to do."""
    values: dict[str, None] = {}
    shapes: dict[str, PartialShape] = {}
    seen: set[tuple[Output, bool]] = set()
    pending = [(cond, False)]
    while pending:
        output, by_shape = pending.pop()
        if (output, by_shape) in seen or (by_shape and output.shape.is_static):
            continue
        seen.add((output, by_shape))
        node = output.node
        outer = ctx.graphs.captured(node) if node.op.role == "parameter" else None
        if outer is not None:
            pending.append((outer, by_shape))
        elif node.op.role == "parameter" and by_shape:
            shapes[node.name] = output.shape
        elif node.op.role == "parameter":
            values[node.name] = None
        else:
            pending.extend((source, by_shape or isinstance(node.op, ShapeOf3)) for source in node.inputs)
    reasons = [
        f"depends on {_unknown(shape)} of the input '{name}' {shape}: give it a shape" for name, shape in shapes.items()
    ]
    reasons += [f"depends on the value of the input '{name}': freeze it" for name in values]
    if not reasons:
        return "is only known at run time"
    return f"{', and '.join(reasons)}; {_describe_command(shapes, values)}"


def _describe_command(shapes: Mapping[str, PartialShape], values: Iterable[str]) -> str:
    """The option that makes a condition known, with placeholders for the user's numbers."""
    entries, placeholders = [], []
    for name, shape in shapes.items():
        dims = (
            ["N" if not dimension.is_static else str(dimension) for dimension in shape]
            if shape.has_rank
            else ["N", "..."]
        )
        entries.append(f"{name}[{','.join(dims)}]")
        placeholders = ["a dimension for each N"]
    for name in values:
        entries.append(f"{name}=VALUE")
        placeholders = [*placeholders[:1], "a number or a list for VALUE"]
    return f'write onnx2ir convert MODEL --input "{",".join(entries)}" with {" and ".join(placeholders)}'


def _unknown(shape: PartialShape) -> str:
    if not shape.has_rank:
        return "the unknown rank"
    unknown_axes = [str(axis) for axis, dimension in enumerate(shape) if not dimension.is_static]
    return f"the unknown dimension{'s' * (len(unknown_axes) > 1)} {' and '.join(unknown_axes)}"
