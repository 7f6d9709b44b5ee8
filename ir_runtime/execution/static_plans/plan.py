"""A plan for inputs of static shapes: every array and every call is made once, and a run goes through the calls.

Values of dynamic shapes, such as that of NonZero, and the layers after them, are computed layer by layer, as in the
plan for any shapes.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ir_runtime.errors import ModelError
from ir_runtime.execution.kernels import Site, Step, has_kernel
from ir_runtime.execution.kernels.elementwise_chains import Layer, chains_of
from ir_runtime.execution.profile import Clock
from ir_runtime.graph import Array, Model, Node, Output, normalize_axis
from ir_runtime.operations.movement import Concat1
from ir_runtime.rewriting.constant_folding import as_tuple
from ir_runtime.rewriting.matching import Match

from .binding import BINDERS, Binding, Call, Home, Runner
from .dynamic_quantization import bind_dynamic_quantization, dynamic_quantization
from .elementwise import bind_chain, bind_function


@dataclass
class _Work:
    """Nodes that are bound together: a single node, an elementwise chain, or a dynamic quantization."""

    nodes: list[Node]
    layers: list[Layer] | None = None
    quantization: Match | None = None


@dataclass
class _Timed:
    name: str
    type: str
    kernel: bool
    calls: list[Call]


class _Instance:
    """One set of arrays, and the calls over them; it serves one run at a time."""

    def __init__(self, plan: StaticPlan) -> None:
        binding = Binding(plan.site, _homes(plan.site), plan.runner, plan.body)
        read = set(plan.outputs).union(plan.site.users)
        self.inputs = [binding.new(output) if output in read else None for output in plan.inputs]
        self.cells: dict[Output, list[Any]] = {}
        self.steps = [_Timed(*plan.described(work), self._bound(work, plan, binding)) for work in plan.works]
        self.calls = [call for step in self.steps for call in step.calls]
        self._fallbacks = plan.fallbacks
        self._outputs = [self.cells.get(output) or [binding.array(output)] for output in plan.outputs]

    @property
    def outputs(self) -> list[Array]:
        """The arrays of the outputs, which the next run fills again; None before a run where shapes are dynamic."""
        return [cell[0] for cell in self._outputs]

    def _bound(self, work: _Work, plan: StaticPlan, binding: Binding) -> list[Call]:
        dead = plan.dead_after[work.nodes[-1]]
        calls = _calls_of(work, binding, dead)
        if calls is None:
            # One after the other.
            calls = []
            for node in work.nodes:
                single = _calls_of(_Work([node]), binding, ())
                calls += self._evaluate(node, plan, binding) if single is None else single
        binding.finish_step(dead)
        calls += [partial(self.cells[output].__setitem__, 0, None) for output in dead if output in self.cells]
        return calls

    def _evaluate(self, node: Node, plan: StaticPlan, binding: Binding) -> list[Call]:
        """The node by its kernel for any shapes, or by ``evaluate``; the results are copied into their arrays."""
        arrays = binding.all_arrays(node.inputs)
        run = plan.runner(node)
        if arrays is not None and all(binding.is_bindable(output) for output in node.outputs):
            targets = [binding.new(output) for output in node.outputs]
            return [partial(_run_into, run, arrays, targets)]
        for source in node.inputs:
            if source not in self.cells:
                binding.pin(source)
        for output in node.outputs:
            binding.arrays.pop(output, None)  # the array that its inputs were written into, where it is a Concat
        reads = [self.cells.get(source) or [binding.array(source)] for source in node.inputs]
        writes = [self.cells.setdefault(output, [None]) for output in node.outputs]
        return [partial(_run_loose, run, reads, writes)]

    def run(self, arguments: Sequence[Array], clock: Clock | None) -> list[Array]:
        for target, value in zip(self.inputs, arguments):
            if target is not None:
                np.copyto(target, value)
        if clock is None:
            for call in self.calls:
                call()
        else:
            for step in self.steps:
                before = self._fallbacks.total()
                clock.start()
                for call in step.calls:
                    call()
                clock.stop(step.name, step.type, step.kernel and self._fallbacks.total() == before)
        # The arrays serve the next run; the caller gets copies.
        return [np.array(cell[0], order="C") for cell in self._outputs]


def _run_into(run: Runner, arrays: Sequence[Array], targets: Sequence[Array]) -> None:
    for target, value in zip(targets, as_tuple(run(*arrays))):
        if value is not None:  # a kernel may leave out an output that nothing reads
            _copy(value, target)


def _fill(run: Runner, arrays: Sequence[Array], out: Array) -> None:
    value = run(*arrays, out=out)
    if value is not out:
        _copy(value, out)


def _copy(value: Array, target: Array) -> None:
    if np.shape(value) != target.shape:
        raise ValueError(f"a value of the shape {target.shape} was expected, but has {np.shape(value)}")
    np.copyto(target, value)


def _run_loose(run: Runner, reads: Sequence[list[Any]], writes: Sequence[list[Any]]) -> None:
    for cell, value in zip(writes, as_tuple(run(*[cell[0] for cell in reads]))):
        cell[0] = value


def _calls_of(work: _Work, binding: Binding, dead: Sequence[Output]) -> list[Call] | None:
    if not all(binding.is_bindable(output) for output in work.nodes[-1].outputs):
        return None
    if work.quantization is not None:
        return bind_dynamic_quantization(work.nodes[-1], work.quantization, binding)
    if work.layers is None:
        return _calls_of_node(work.nodes[0], binding)
    return bind_chain(work.nodes[-1].outputs[0], work.layers, binding, dead)


def _calls_of_node(node: Node, b: Binding) -> list[Call] | None:
    """The calls of a single node: those of its binder, or its kernel, if that fills the array of the output."""
    kernel = b.site.kernel_of(node)
    if kernel is None or not (kernel.fills or kernel.calls):
        return BINDERS.get(type(node.op), bind_function)(node, b)
    # What the kernel packs is not kept as it was, too.
    arrays = b.all_arrays([source for source in node.inputs if kernel.calls is None or source not in kernel.packed])
    if arrays is None or not all(array.size for array in arrays):
        return None
    order = None if kernel.order is None else kernel.order(arrays[0])
    out = b.new(node.outputs[0], order)
    target = out if order is not None or out.flags.c_contiguous else b.scratch(out.shape, out.dtype)
    if kernel.calls is None:
        calls: list[Call] = [partial(_fill, b.runner(node), arrays, target)]
    else:
        calls = kernel.calls(*arrays, out=target, reused=b.reused)
    if target is not out:
        calls.append(partial(np.copyto, out, target))
    return calls


class StaticPlan:
    """A plan for a graph whose inputs have static shapes.

    ``site`` is the graph after constant folding, ``runner`` gives the function that computes a step for any shapes,
    ``fallbacks`` counts the calls that kernels left to ``evaluate``, ``make_plan`` makes the plans of bodies.
    """

    def __init__(
        self,
        model: Model,
        site: Site,
        runner: Callable[[Step], Runner],
        fallbacks: Counter[str],
        make_plan: Callable[[Model], StaticPlan],
    ) -> None:
        self.site = site
        self.fallbacks = fallbacks
        self.inputs = list(model.inputs)
        self.outputs = [node.inputs[0] for node in model.results]
        self._make_runner = runner
        self._runners: dict[Node, Runner] = {}
        self._make_plan = make_plan
        self._bodies: dict[Node, StaticPlan | None] = {}
        self.works = _works(site)
        self.dead_after = self._last_uses()
        self._instances: list[_Instance] = [_Instance(self)]
        self._lock = threading.Lock()

    def runner(self, node: Node) -> Runner:
        """The function that computes the node for any shapes."""
        runner = self._runners.get(node)
        if runner is None:
            step = Step([node], list(node.inputs), list(node.outputs), self.site.kernel_of(node))
            runner = self._runners[node] = self._make_runner(step)
        return runner

    def body(self, node: Node, make_body: Callable[[], Model]) -> _Instance | None:
        """Arrays of their own for the body of a node, whose plan is made once; None where it has no such plan."""
        if node not in self._bodies:
            try:
                self._bodies[node] = self._make_plan(make_body())
            except (ModelError, MemoryError):  # which a run raises, if it gets there
                self._bodies[node] = None
        plan = self._bodies[node]
        return None if plan is None else plan.take()

    def take(self) -> _Instance:
        """A set of arrays that is free, or a new one."""
        try:
            return self._instances.pop()
        except IndexError:
            with self._lock:
                return _Instance(self)

    def described(self, work: _Work) -> tuple[str, str, bool]:
        """A step's name and type, and whether there is a binder or kernel for it."""
        is_bound = work.layers is not None or type(work.nodes[0].op) in BINDERS
        fast = is_bound or has_kernel(work.nodes[0].op)
        return work.nodes[-1].name, "+".join(node.op.type for node in work.nodes), fast

    def run(self, arguments: Sequence[Array], clock: Clock | None = None) -> list[Array]:
        """The outputs' values, which belong to the caller, for arguments of the shapes that the plan was made for."""
        instance = self.take()
        results = instance.run(arguments, clock)
        # After an error the instance is dropped: values may be left in its cells. There are never more instances than
        # runs at a time, which :class:`Calls` limits.
        self._instances.append(instance)
        return results

    def _last_uses(self) -> Mapping[Node, list[Output]]:
        last: dict[Output, Node] = {}
        for work in self.works:
            for node in work.nodes:
                for output in [*node.inputs, *node.outputs]:
                    last[output] = work.nodes[-1]
        last_uses: dict[Node, list[Output]] = {work.nodes[-1]: [] for work in self.works}
        for output, node in last.items():
            if output not in self.site.results:
                last_uses[node].append(output)
        return last_uses


def _works(site: Site) -> list[_Work]:
    """Return the groups of nodes to bind, in order; a chain takes the place of its last layer."""
    roots: dict[Node, _Work] = {}
    taken: set[Node] = set()
    position = {node: index for index, node in enumerate(site.nodes)}
    for node in site.nodes:
        match = dynamic_quantization(node, site, position)
        if match is not None and taken.isdisjoint(match.nodes):
            taken.update(match.nodes)
            roots[node] = _Work(sorted(match.nodes, key=position.__getitem__), quantization=match)
    for members, layers in chains_of(site, taken):
        taken.update(members)
        roots[members[-1]] = _Work(members, layers)
    return [roots.get(node) or _Work([node]) for node in site.nodes if node in roots or node not in taken]


def _homes(site: Site) -> dict[Output, Home]:
    """Values that are computed directly into the output of a Concat; into the largest one, where several read them."""
    homes: dict[Output, Home] = {}
    concats = [node for node in site.nodes if isinstance(node.op, Concat1) and node.outputs[0].shape.is_static]
    concats.sort(key=lambda node: -node.outputs[0].shape.element_count().value)
    nodes_of_site = set(site.nodes)
    for node in concats:
        op: Any = node.op
        whole = node.outputs[0]
        if not whole.element_type.bits or whole.element_type.dtype.hasobject or whole in homes:
            continue
        axis = normalize_axis(op.axis, whole.shape.rank)
        start = 0
        for source in node.inputs:
            if not source.shape.is_static:
                break
            stop = start + source.shape.dims[axis].value
            free = source.node in nodes_of_site and source not in homes and source not in site.results
            if free and node.inputs.count(source) == 1 and not isinstance(source.node.op, Concat1):
                homes[source] = Home(whole, axis, start, stop)
            start = stop
    return homes
