"""Models with variables as models without: one step of the model, and the initial values.

In the step each ReadValue is a further input, and what each Assign reads a further output. So plans and kernels know
nothing of variables. A variable that was neither assigned nor set has its initial value, which every ReadValue computes
from its own input, anew in each call.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ir_runtime.records import record

from ..errors import ExecutionError, ModelError, UnsupportedError
from ..graph import Array, ElementType, Model, Node, Output, PartialShape, element_types, make_node
from ..graph.node import copy_nodes
from ..graph.operation import TensorType
from ..operations.inputs_outputs import Assign, Parameter1, ReadValue, Result1
from .calls import Calls, owned_by_caller
from .kernels.caches import Caches, Room
from .plan import Plan
from .ports import Port, port_of
from .profile import Clock


@record
class Value:
    """The value of a variable in a session. The array is never written to, except for ``room`` behind it."""

    array: Array
    room: Room | None = None


@dataclass
class _Read:
    """A ReadValue: its variable, and the model of its initial value.

    The model comes with the places of its inputs among those of the step; there is none where the layer has no input.
    """

    node: Node
    variable: str
    initial: Model | None
    arguments: list[int]
    plan: Plan | None = None


class Steps:
    """Runs a model step by step; the values of its variables are handed in and out."""

    def __init__(self, model: Model, *, optimize: bool, threads: int) -> None:
        self.problem = _problem(model)
        """Why the model's variables cannot be kept from call to call; empty where they can."""
        step, reads, assigns = _without_variables(model)
        self._reads = [_read(node, parameter, step) for node, parameter in reads]
        self._assigns = assigns
        self.variables = _variables([(node, parameter.outputs[0].type) for node, parameter in reads], assigns)
        self.calls = Calls(step, optimize=optimize, threads=threads, variables=len(reads), assigned=len(assigns))
        self._lock = threading.Lock()

    def run(self, arguments: Sequence[Array], clock: Clock | None = None) -> list[Array]:
        """The outputs of a call in which all variables have their initial values."""
        values = [*arguments]
        for read in self._reads:
            values.append(self._initial_value(read, values, clock))
        results = self.calls.run(values, clock)
        return results[: len(results) - len(self._assigns)]

    def next(
        self, arguments: Sequence[Array], values: Mapping[str, Value], clock: Clock | None = None
    ) -> tuple[list[Array], dict[str, Value]]:
        """The outputs of a call in which variables have these values, and the values that it assigns."""
        inputs, initial = [*arguments], list[Array]()
        for read in self._reads:
            if read.variable in values:
                inputs.append(values[read.variable].array)
            else:
                inputs.append(self._initial_value(read, inputs, clock))
                initial.append(inputs[-1])
        held = [(value.array, value.room) for value in values.values()]
        with Caches(held + [(array, None) for array in initial]) as caches:
            results = self.calls.run(inputs, clock)
        count = len(results) - len(self._assigns)
        outputs = results[:count]
        own = {id(value.array) for value in values.values()}
        assigned: dict[str, Value] = {}
        for node, array in zip(self._assigns, results[count:]):
            array = np.asarray(array)
            variable = variable_of(node)
            port = self.variables[variable]
            if not port.partial_shape.accepts(array.shape):
                raise ExecutionError(
                    f"{node.where}: the variable '{variable}' must have the shape {port.partial_shape}, but is "
                    f"assigned a value of the shape {list(array.shape)}"
                )
            room = caches.room_of(array)
            if room is None and id(array) not in own:
                (array,) = owned_by_caller([array], [*arguments, *initial, *outputs])
            assigned[variable] = Value(array, room)
        for name, entry in assigned.items():
            if entry.room is not None:
                entry.room.keep(entry.array)
            if name in values and values[name].array.shape != entry.array.shape and self.calls.static_plans is not None:
                # Sessions that are equally long come with the same shapes in a row, but not again.
                self.calls.static_plans.stop()
        return outputs, assigned

    def _initial_value(self, read: _Read, values: Sequence[Array], clock: Clock | None) -> Array:
        """The value of a ReadValue whose variable has none; ``values`` are those of the inputs and the reads before."""
        if read.initial is None:
            initial = read.node.op.evaluate()
            assert not isinstance(initial, tuple)
        else:
            if read.plan is None:
                with self._lock:
                    read.plan = read.plan or self.calls.plan_of(read.initial)
            (initial,) = self.calls.run_plan(read.plan, [values[place] for place in read.arguments], clock)
        port = self.variables[read.variable]
        wrong_type = initial.dtype != port.dtype and not port.element_type.is_dynamic
        if wrong_type or not port.partial_shape.accepts(initial.shape):
            raise ExecutionError(
                f"{read.node.where}: the initial value of the variable '{read.variable}' must be {port.element_type}"
                f"{port.partial_shape}, but is an array of {initial.dtype} of the shape {list(initial.shape)}"
            )
        return initial


def variable_of(node: Node) -> str:
    """The name of the variable that the node reads or assigns."""
    op = node.op
    assert isinstance(op, (ReadValue, Assign))
    return op.variable_id


def _without_variables(model: Model) -> tuple[Model, list[tuple[Node, Node]], list[Node]]:
    """The step of ``model``; each ReadValue with its input of the step; the Assigns in the order of their outputs."""
    copies = copy_nodes(model.nodes())
    instead: dict[Output, Output] = {}
    reads: list[tuple[Node, Node]] = []
    assigns: list[Node] = []
    for node in copies.values():  # which belong to no graph yet
        node.replace_inputs([instead.get(source, source) for source in node.inputs])
        output = node.outputs[0] if node.outputs else None
        if isinstance(node.op, ReadValue) and output is not None:
            type = TensorType(output.element_type, output.shape)
            parameter = Node(Parameter1(shape=type.shape, element_type=type.element_type), (), [type], node.name)
            instead[output] = parameter.outputs[0]
            reads.append((node, parameter))
        elif isinstance(node.op, Assign):
            assigns.append(node)
            if output is not None:
                instead[output] = node.inputs[0]
    parameters = [*(copies[node] for node in model.parameters), *(parameter for _, parameter in reads)]
    results = [
        *(copies[node] for node in model.results),
        *(make_node(Result1(), [node.inputs[0]]) for node in assigns),
    ]
    sinks = [copies[node] for node in model.sinks if not isinstance(node.op, Assign)]
    return Model(model.name, parameters, results, sinks, model.runtime_info, model.version), reads, assigns


def _read(node: Node, parameter: Node, step: Model) -> _Read:
    if not node.inputs:
        return _Read(node, variable_of(node), None, [])
    result = make_node(Result1(), node.inputs)
    place = {needed_node: index for index, needed_node in enumerate(step.parameters)}
    needed = sorted(
        (dependency for dependency in Model(results=[result]).nodes() if dependency in place), key=place.__getitem__
    )
    return _Read(
        node,
        variable_of(node),
        Model(parameters=needed, results=[result]),
        [place[needed_node] for needed_node in needed],
    )


def _variables(reads: Sequence[tuple[Node, TensorType]], assigns: Sequence[Node]) -> dict[str, Port]:
    """The variables by name: those that are read, in the graph's order, and those that are only assigned."""
    types: dict[str, TensorType] = {}
    for node, tensor_type in [*reads, *((node, node.inputs[0].type) for node in assigns)]:
        earlier = types.setdefault(variable_of(node), tensor_type)
        if isinstance(node.op, ReadValue):
            merged = earlier.shape.merge(tensor_type.shape)
            types[variable_of(node)] = earlier if merged is None else TensorType(earlier.element_type, merged)
    return {name: port_of([name], name, variable_type) for name, variable_type in types.items()}


def _problem(model: Model) -> str:
    """A sentence why no session can keep the model's variables; empty where one can."""
    variables_by_name: dict[str, tuple[Node, ElementType, PartialShape]] = {}
    assigned: dict[str, Node] = {}
    for node in model.nodes():
        for sub in node.op.subgraphs:
            parts = sub.body.parts()
            inner = next((layer for part in parts for layer in part.nodes if _has_variable(layer)), None)
            if inner is not None:
                return f"{node.where} has the variable '{variable_of(inner)}' in its body ({inner.where})"
        if not _has_variable(node):
            continue
        name = variable_of(node)
        source = node.outputs[0] if isinstance(node.op, ReadValue) else node.inputs[0]
        if isinstance(node.op, Assign):
            if name in assigned:
                return f"the variable '{name}' is assigned twice: by {assigned[name].where} and by {node.where}"
            assigned[name] = node
        first, element_type, shape = variables_by_name.setdefault(name, (node, source.element_type, source.shape))
        types = {element_type, source.element_type} - {element_types.dynamic}
        if len(types) > 1 or shape.merge(source.shape) is None:
            return (
                f"the variable '{name}' has two types: {element_type}{shape} in {first.where}, "
                f"{source.element_type}{source.shape} in {node.where}"
            )
    return ""


def _has_variable(node: Node) -> bool:
    return isinstance(node.op, (ReadValue, Assign))


def unsupported(problem: str) -> ModelError:
    """The error of a session for a model with this problem."""
    return UnsupportedError(f"the variables of this model cannot be kept from call to call: {problem}")
