"""The plan for any shapes: layers in order, by kernel or by ``evaluate``; values are freed after their last use."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..boundary import boundary, fault_of
from ..errors import ExecutionError, ModelError
from ..graph import Array, Model, Node, Output, SubGraph
from ..graph.mapped_file import aligned
from ..graph.operation import Runner
from ..rewriting.constant_folding import as_tuple
from .folded_graph import folded_graph
from .kernels import Kernel, Site, Step, prepare
from .kernels.threads import Workers
from .profile import Clock
from .static_plans import StaticPlan
from .static_plans.iterations import body_with_weights
from .static_plans.plans_by_shapes import StaticPlans

StepFunction = Callable[..., "Array | tuple[Array, ...]"]
"""Computes a step: arrays of what it reads in, arrays of what it writes out."""


@dataclass
class _PlanStep:
    """A step over slots: those that it reads, those that it fills, those that nobody reads afterwards."""

    name: str
    type: str
    evaluate: StepFunction
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    frees: tuple[int, ...]
    kernel: Kernel | None
    """Called first, where there is one; ``evaluate`` computes what it leaves alone."""


class Plan:
    """A graph prepared to run: a slot for each value, and steps in order.

    With ``workers`` there are kernels and fused steps; without, each layer is a step of its own, computed by
    ``evaluate``. ``fallbacks`` counts the calls that kernels leave to ``evaluate``, by type of layer. ``variables`` are
    the inputs that are values of variables.
    """

    def __init__(
        self, model: Model, workers: Workers | None, fallbacks: Counter[str], variables: Iterable[Output] = ()
    ) -> None:
        self._workers = workers
        self._variables = frozenset(variables)
        self._fallbacks = fallbacks
        nodes, constants = folded_graph(model)
        results = [node.inputs[0] for node in model.results]
        steps = self._steps_of(nodes, constants, set(results))
        for step in steps:
            for source in step.reads:
                if source in constants and not _is_packed(step, source):
                    constants[source] = aligned(constants[source])
        slots: dict[Output, int] = {}
        self._initial: list[Array | None] = []
        """The slots before a run: constants, and None for everything else."""
        for output in [*model.inputs, *constants, *(output for step in steps for output in step.writes)]:
            slots[output] = len(self._initial)
            self._initial.append(constants.get(output))
        self.inputs = [slots[output] for output in model.inputs]
        self.outputs = [slots[output] for output in results]
        self.steps = self._over_slots(steps, slots, constants)

    def _steps_of(self, nodes: list[Node], constants: dict[Output, Array], results: set[Output]) -> list[Step]:
        if self._workers is None:
            return [Step([node], list(node.inputs), list(node.outputs)) for node in nodes]
        return prepare(Site(nodes, constants, results, self._workers, self._variables))

    def _over_slots(
        self, steps: Sequence[Step], slots: Mapping[Output, int], constants: Mapping[Output, Array]
    ) -> list[_PlanStep]:
        last_use: dict[int, int] = {}
        for position, step in enumerate(steps):
            for output in [*step.reads, *step.writes]:
                last_use[slots[output]] = position
        kept_slots = {*self.outputs, *(i for i, value in enumerate(self._initial) if value is not None)}
        plan_steps: list[_PlanStep] = []
        for position, step in enumerate(steps):
            reads = tuple(slots[source] for source in step.reads)
            writes = tuple(slots[output] for output in step.writes)
            plan_steps.append(
                _PlanStep(
                    step.nodes[-1].name,
                    step.type,
                    _evaluation(step, constants, self._workers, self._fallbacks),
                    reads,
                    writes,
                    tuple(s for s in dict.fromkeys(reads + writes) if last_use[s] == position and s not in kept_slots),
                    None if step.prepared is None else step.prepared.run,
                )
            )
        return plan_steps

    def run(self, arguments: Sequence[Array], clock: Clock | None = None) -> list[Array]:
        """The outputs' values; they may be views of ``arguments`` or of constants, or one array twice."""
        values: list[Any] = self._initial.copy()
        for index, value in zip(self.inputs, arguments):
            values[index] = value
        for step in self.steps:
            if clock is not None:
                clock.start()
            inputs = [values[i] for i in step.reads]
            results = None
            if step.kernel is not None:
                results = _kernel_results(step.kernel, step.evaluate, step.name, step.type, inputs)
                if results is None:
                    self._fallbacks[step.type] += 1
            by_kernel = results is not None
            if results is None:
                results = step.evaluate(*inputs)
            if type(results) is tuple:
                for index, value in zip(step.writes, results):
                    values[index] = value
            else:
                values[step.writes[0]] = results
            for index in step.frees:
                values[index] = None
            if clock is not None:
                clock.stop(step.name, step.type, by_kernel)
        return [values[index] for index in self.outputs]


def _is_packed(step: Step, constant: Output) -> bool:
    return step.prepared is not None and constant in step.prepared.packed


WITHOUT_KERNELS = ", and use compile_model(model, optimize=False) until it is mended"
"""Advice where a kernel or a plan fails."""


def _kernel_results(
    kernel: Kernel, evaluate: StepFunction, name: str, type: str, inputs: Sequence[Array], **out: Array
) -> Array | tuple[Array, ...] | None:
    """The kernel's results for these inputs; None where it leaves them to ``evaluate``.

    An exception in a kernel is a fault of this package (:class:`InternalError`), unless ``evaluate`` refuses the
    inputs, too: its error is the better one.
    """
    try:
        return kernel(*inputs, **out)
    except MemoryError:
        raise
    except Exception as error:
        evaluate(*inputs)
        raise fault_of(f"layer '{name}' ({type}): its kernel", error, WITHOUT_KERNELS) from error


def step_function(
    step: Step, constants: Mapping[Output, Array], workers: Workers, fallbacks: Counter[str]
) -> StepFunction:
    """Computes the step by its kernel, or by ``evaluate`` where it has none or the kernel leaves the inputs alone.

    ``fallbacks`` counts the latter. For a kernel that fills, the function takes its argument ``out``.
    """
    evaluate = _evaluation(step, constants, workers, fallbacks)
    if step.prepared is None:
        return evaluate
    kernel = step.prepared.run
    name, types = step.nodes[-1].name, step.type

    def compute(*inputs: Array, **out: Array) -> Any:
        results = _kernel_results(kernel, evaluate, name, types, inputs, **out)
        if results is None:
            fallbacks[types] += 1
            return evaluate(*inputs)
        return results

    return compute


def layer_runner(node: Node) -> StepFunction:
    """Computes one layer from arrays of its inputs: by its kernel where it has one for these, else by ``evaluate``.

    When called it raises :class:`ModelError`, which names the layer.
    """
    workers = Workers(1)
    steps = prepare(Site([node], {}, set(node.outputs), workers))
    if len(steps) == 1 and tuple(steps[0].reads) == node.inputs:
        return step_function(steps[0], {}, workers, Counter())
    return _evaluation(Step([node], list(node.inputs), list(node.outputs)), {}, workers, Counter())


def _evaluation(
    step: Step, constants: Mapping[Output, Array], workers: Workers | None, fallbacks: Counter[str]
) -> StepFunction:
    """Computes the step by ``evaluate`` of its layers; their bodies get plans of their own."""
    if len(step.nodes) > 1:
        return _evaluation_of_each(step, constants)
    node = step.nodes[0]
    op = node.op
    if not op.subgraphs:
        return _with_location(node, op.evaluate)
    runners = [_runner(sub, node, constants, workers, fallbacks) for sub in op.subgraphs]
    return _with_location(node, lambda *inputs: op.execute(runners, inputs))


def _runner(
    sub: SubGraph, node: Node, constants: Mapping[Output, Array], workers: Workers | None, fallbacks: Counter[str]
) -> Runner:
    """Computes a body of the node by the schedules of :class:`Schedules`.

    They are made in the first run: a branch that is never taken needs neither plans nor their memory.
    """

    @functools.cache
    def schedules() -> Schedules:
        with boundary("making a plan"):
            body = body_with_weights(sub, node, constants)
            return Schedules(body, workers, fallbacks, repeats=_REPEATS_OF_BODIES)

    return lambda arguments: schedules().run(arguments)


def _evaluation_of_each(step: Step, constants: Mapping[Output, Array]) -> StepFunction:
    """Computes a fused step by ``evaluate`` of one layer after the other."""
    functions = [_with_location(node, node.op.evaluate) for node in step.nodes]
    constants = {source: constants[source] for node in step.nodes for source in node.inputs if source in constants}

    def compute(*inputs: Array) -> tuple[Array, ...]:
        values: dict[Output, Array] = {**constants, **dict(zip(step.reads, inputs))}
        for node, evaluate in zip(step.nodes, functions):
            results = as_tuple(evaluate(*[values[source] for source in node.inputs]))
            values.update(zip(node.outputs, results))
        return tuple(values[output] for output in step.writes)

    return compute


def _with_location(node: Node, evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """``evaluate`` with errors that name the layer."""
    where = f"layer '{node.name}' ({node.op.type}, opset{node.op.opset})"

    @boundary(where)
    def compute(*inputs: Array) -> Any:
        try:
            return evaluate(*inputs)
        except (ModelError, ValueError, IndexError, OverflowError, MemoryError) as error:
            error_class = type(error) if isinstance(error, ModelError) else ExecutionError
            raise error_class(f"{where}: {str(error) or type(error).__name__}") from error

    return compute


_REPEATS_OF_BODIES = 16
"""Iterations of the same shapes before a body gets a static plan: making one takes as long as some ten iterations."""


class Schedules:
    """The plans of one model: static ones for shapes that repeat, and one for any shapes, each made when needed.

    Without ``workers`` there is only the plan for any shapes, without kernels. A model that ``grows`` has other shapes
    in each call. Inputs of dynamic shapes get a static plan where the same shapes come ``repeats`` times in a row.
    """

    def __init__(
        self,
        model: Model,
        workers: Workers | None,
        fallbacks: Counter[str],
        variables: Iterable[Output] = (),
        *,
        grows: bool = False,
        repeats: int = 2,
    ) -> None:
        self._model, self._workers, self._fallbacks = model, workers, fallbacks
        self._variables = frozenset(variables)
        self._plan: Plan | None = None
        self._had_other_shapes = False
        """True if inputs came for which there was no static plan, after one was made."""
        self.static_plans: StaticPlans | None = None
        if workers is not None:
            self.static_plans = StaticPlans(model, self._new_static_plan, grows=grows, repeats=repeats)
        if self.static_plans is None or not self.static_plans.is_certain:
            self._plan = self._new_plan()

    def run(self, arguments: Sequence[Array], clock: Clock | None = None) -> list[Array]:
        """The outputs' values; they may be views of ``arguments`` or of constants, or one array twice."""
        static_plan = None if self.static_plans is None else self.static_plans.plan_for(arguments)
        if static_plan is not None:
            if not self._had_other_shapes:
                # Each plan holds packed weights of its own: one is enough while the shapes stay the same.
                self._plan = None
            try:
                return static_plan.run(arguments, clock)
            except MemoryError:
                # A static plan holds all values at once. The plan for any shapes frees them after their last use.
                assert self.static_plans is not None
                self.static_plans.drop(arguments)
            except Exception as error:
                # Where the inputs are at fault, the plan for any shapes raises the better error.
                self.plan_for_any_shapes().run(arguments, clock)
                shapes = [list(array.shape) for array in arguments]
                raise fault_of(f"the plan for inputs of the shapes {shapes}", error, WITHOUT_KERNELS) from error
        return self.plan_for_any_shapes().run(arguments, clock)

    def plan_for_any_shapes(self) -> Plan:
        """The plan for inputs of any shapes, made where there is none."""
        plan = self._plan
        if plan is None:
            self._had_other_shapes = True
            plan = self._plan = self._new_plan()
        return plan

    def _new_plan(self) -> Plan:
        return Plan(self._model, self._workers, self._fallbacks, self._variables)

    def _new_static_plan(self, model: Model) -> StaticPlan:
        assert self._workers is not None
        workers, fallbacks = self._workers, self._fallbacks
        nodes, constants = folded_graph(model, refine_types=True)
        site = Site(nodes, constants, {node.inputs[0] for node in model.results}, workers)
        return StaticPlan(
            model,
            site,
            lambda step: step_function(step, constants, workers, fallbacks),
            fallbacks,
            self._new_static_plan,
        )
