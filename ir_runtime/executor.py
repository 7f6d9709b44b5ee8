"""Runs a model in NumPy: a plan made once, values freed after their last use."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .boundary import described, expected_errors, own_work
from .constant_folding import as_tuple, fold
from .element_types import Array, ElementType
from .errors import ExecutionError, InternalError, ModelError
from .graph import Model, Node, Output
from .kernels import Kernel, Site, Step, prepare
from .kernels.threads import Unbuffered, Workers, processors
from .mapped_file import aligned
from .operation import Runner, TensorType
from .profile import Clock, Profile
from .rewrite import clone
from .shape_inference import infer_types
from .shapes import PartialShape
from .specialization import Specializations
from .specialized import SpecializedPlan
from .tensor import Tensor
from .wide_floats import in_float32

_BRIEF = 2e-4
"""Seconds. Shorter calls hold the interpreter's lock most of the time: to wait for their turn takes longer."""


@dataclass(frozen=True)
class Port:
    """An input or output of a compiled model.

    ``name`` is the first of its tensor ``names`` (or the layer's name where it has none), ``shape``
    has None for every extent that is only known at run time, and is None where the rank is unknown.
    """

    name: str
    names: tuple[str, ...]
    shape: tuple[int | None, ...] | None
    element_type: ElementType
    partial_shape: PartialShape

    def __str__(self) -> str:
        return f"{self.name}: {self.element_type}{self.partial_shape}"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the arrays that go through this port."""
        return self.element_type.dtype


class InferenceResult(Mapping[Any, Array]):
    """The outputs of one call: by any tensor name, or by position."""

    def __init__(self, ports: Sequence[Port], values: Sequence[Array]) -> None:
        self._ports = ports
        self._values = list(values)

    def __getitem__(self, key: str | int) -> Array:
        if isinstance(key, (int, np.integer)):
            return self._values[int(key)]
        for port, value in zip(self._ports, self._values):
            if key in port.names or key == port.name:
                return value
        raise KeyError(key)

    def __iter__(self) -> Any:
        return iter([port.name for port in self._ports])

    def __len__(self) -> int:
        return len(self._ports)

    def to_list(self) -> list[Array]:
        """The values in the model's order."""
        return list(self._values)


@dataclass
class _Step:
    """Work of the plan: slots it reads, slots it fills, slots that are free afterwards."""

    name: str
    type: str
    run: Callable[..., Array | tuple[Array, ...]]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    frees: tuple[int, ...]
    kernel: Kernel | None
    """Asked first; ``run`` computes what it leaves alone."""


class _Plan:
    """A graph made ready to run: slots for values, steps in order.

    With ``workers`` there are kernels and fused steps; without, each layer is a step of its own and evaluated.
    ``fallbacks`` counts the calls that kernels leave to ``evaluate``, by type of layer.
    """

    def __init__(self, model: Model, workers: Workers | None, fallbacks: Counter[str]) -> None:
        self._workers = workers
        self._fallbacks = fallbacks
        pending, arrays = worked_out(model)
        results = [node.inputs[0] for node in model.results]
        steps = self._prepared(pending, arrays, set(results))
        for output in {
            source for step in steps for source in step.reads if source in arrays and not _packs(step, source)
        }:
            arrays[output] = aligned(arrays[output])
        slots: dict[Output, int] = {}
        self._initial: list[Array | None] = []
        for output in [*model.inputs, *arrays, *(one for step in steps for one in step.writes)]:
            slots[output] = len(self._initial)
            self._initial.append(arrays.get(output))
        self.inputs = [slots[output] for output in model.inputs]
        self.outputs = [slots[output] for output in results]
        self._lay_out(steps, slots, arrays)

    def _prepared(self, pending: list[Node], arrays: dict[Output, Array], results: set[Output]) -> list[Step]:
        if self._workers is None:
            return [Step([node], list(node.inputs), list(node.outputs)) for node in pending]
        return prepare(Site(pending, arrays, results, self._workers))

    def _lay_out(self, steps: Sequence[Step], slots: Mapping[Output, int], arrays: Mapping[Output, Array]) -> None:
        last: dict[int, int] = {}
        for position, step in enumerate(steps):
            for output in [*step.reads, *step.writes]:
                last[slots[output]] = position
        kept = {*self.outputs, *(i for i, value in enumerate(self._initial) if value is not None)}
        self.steps: list[_Step] = []
        for position, step in enumerate(steps):
            reads = tuple(slots[source] for source in step.reads)
            writes = tuple(slots[output] for output in step.writes)
            frees = tuple(s for s in dict.fromkeys(reads + writes) if last[s] == position and s not in kept)
            kernel = None if step.prepared is None else step.prepared.run
            name = step.nodes[-1].name
            self.steps.append(
                _Step(
                    name, step.type, _runner(step, arrays, self._workers, self._fallbacks), reads, writes, frees, kernel
                )
            )

    def run(self, arguments: Sequence[Array], clock: Clock | None = None) -> list[Array]:
        values: list[Any] = self._initial.copy()
        for index, value in zip(self.inputs, arguments):
            values[index] = value
        for step in self.steps:
            if clock is not None:
                clock.start()
            inputs = [values[i] for i in step.reads]
            results = None
            if step.kernel is not None:
                results = _by_kernel(step.kernel, step.run, step.name, step.type, inputs)
                if results is None:
                    self._fallbacks[step.type] += 1
            by_kernel = results is not None
            if results is None:
                results = step.run(*inputs)
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


def _by_kernel(
    kernel: Kernel, evaluate: Callable[..., Any], name: str, type: str, inputs: Sequence[Array]
) -> Array | tuple[Array, ...] | None:
    """What the kernel makes of the inputs; None where it leaves them to ``evaluate``.

    A kernel that fails is a fault of this package, unless ``evaluate`` refuses the inputs, too: its error is the
    better one.
    """
    try:
        return kernel(*inputs)
    except MemoryError:
        raise
    except Exception as error:
        evaluate(*inputs)
        raise InternalError(
            f"layer '{name}' ({type}): its kernel failed, which is a fault of this package ({described(error)}): "
            "please report it, and use compile_model(model, optimize=False) until it is mended"
        ) from error


def _runner(
    step: Step, arrays: Mapping[Output, Array], workers: Workers | None, fallbacks: Counter[str]
) -> Callable[..., Array | tuple[Array, ...]]:
    """How the step is done by ``evaluate``."""
    if len(step.nodes) > 1:
        return _one_by_one(step, arrays)
    node = step.nodes[0]
    op = node.op
    if not op.subgraphs:
        return _located(node, op.evaluate)
    runners: list[Runner] = [_Plan(sub.body, workers, fallbacks).run for sub in op.subgraphs]
    return _located(node, lambda *inputs: op.execute(runners, inputs))


def _whole(step: Step, arrays: Mapping[Output, Array], workers: Workers, fallbacks: Counter[str]) -> Callable[..., Any]:
    """The step by its kernel where that holds, else by ``evaluate``, which ``fallbacks`` counts."""
    run = _runner(step, arrays, workers, fallbacks)
    if step.prepared is None:
        return run
    kernel = step.prepared.run
    name, kind = step.nodes[-1].name, step.type

    def whole(*inputs: Array) -> Any:
        results = _by_kernel(kernel, run, name, kind, inputs)
        if results is None:
            fallbacks[kind] += 1
            return run(*inputs)
        return results

    return whole


def worked_out(model: Model, *, refined: bool = False) -> tuple[list[Node], dict[Output, Array]]:
    """What is left to do of a graph once all that follows from constants and known extents is computed: its nodes, in
    order, and the constants that they, or the results, read.

    With ``refined`` the types of ``model`` become those that follow from these constants; bounds alone say less.
    """
    parameters = set(model.parameters)
    types: dict[Output, TensorType] = {node.outputs[0]: node.outputs[0].type for node in model.parameters}
    constants: dict[Output, Tensor] = {}
    pending: list[Node] = []
    changed: set[Output] = set()
    nodes = model.nodes()
    left = Counter(source for node in nodes for source in node.inputs)
    for node in nodes:
        if node in parameters or not node.outputs:
            continue
        inputs = [types[source] for source in node.inputs]
        if refined and not changed.isdisjoint(node.inputs):
            _refine(node, inputs)
            changed.update(node.outputs)
        made = _constants(node, inputs)
        for index, output in enumerate(node.outputs):
            types[output] = output.type
            if made is not None:
                # The values say more than the bounds that inference found.
                shape = PartialShape(made[index].shape)
                types[output] = replace(output.type, shape=shape, tensor=made[index], bounds=None)
                constants[output] = made[index]
                changed.add(output)
        if made is None:
            pending.append(node)
            continue
        # What only other constants are made from is forgotten on the way: weights go through several steps.
        for source in node.inputs:
            left[source] -= 1
            if left[source]:
                continue
            data = source.node.op.data
            span = None if data is None else data.span()
            if span is not None:
                span.forget()
            elif data is None and constants.pop(source, None) is not None:
                types[source] = replace(types[source], tensor=None)
    # Intermediate constants that only other constants were made from are forgotten.
    read = {source for node in [*pending, *model.results] for source in node.inputs}
    return pending, {output: tensor.array() for output, tensor in constants.items() if output in read}


def _refine(node: Node, inputs: Sequence[TensorType]) -> None:
    """Infer the node's types anew, where all of them are known better then."""
    if node.op.subgraphs or node.op.data is not None:
        return
    try:
        found = infer_types(node.op, inputs)
    except ModelError:
        return  # execution will say so
    for output, kind in zip(node.outputs, found):
        output.type = kind


def _packs(step: Step, constant: Output) -> bool:
    return step.prepared is not None and constant in step.prepared.packed


def _located(node: Node, run: Callable[..., Any]) -> Callable[..., Any]:
    """``run`` with errors that say where they are from."""

    def located(*inputs: Array) -> Any:
        try:
            return run(*inputs)
        except ModelError as error:
            raise type(error)(_at(node, error)) from error
        except (ValueError, IndexError, OverflowError, MemoryError) as error:
            raise ExecutionError(_at(node, error)) from error
        except Exception as error:
            raise InternalError(_at(node, f"a fault of this package: {described(error)}")) from error

    return located


def _one_by_one(step: Step, arrays: Mapping[Output, Array]) -> Callable[..., Array | tuple[Array, ...]]:
    """The nodes of a fused step, each evaluated."""
    runners = [_located(node, node.op.evaluate) for node in step.nodes]
    constants = {source: arrays[source] for node in step.nodes for source in node.inputs if source in arrays}

    def run(*inputs: Array) -> tuple[Array, ...]:
        values: dict[Output, Array] = {**constants, **dict(zip(step.reads, inputs))}
        for node, evaluate in zip(step.nodes, runners):
            results = as_tuple(evaluate(*[values[source] for source in node.inputs]))
            values.update(zip(node.outputs, results))
        return tuple(values[output] for output in step.writes)

    return run


def _at(node: Node, error: Exception | str) -> str:
    return f"layer '{node.name}' ({node.op.type}, opset{node.op.opset}): {error or type(error).__name__}"


def _constants(node: Node, inputs: Sequence[TensorType]) -> list[Tensor] | None:
    """The node's outputs, where they follow from constants and from the extents that are known."""
    if node.op.data is not None:
        return [node.op.data]
    try:
        return fold(node.op, inputs, [output.type for output in node.outputs], limited=False)
    except (ModelError, MemoryError) as error:
        raise ExecutionError(f"layer '{node.name}' ({node.op.type}): {error}") from error


class CompiledModel:
    """A model that can be called. Made by :func:`compile_model`."""

    def __init__(self, model: Model, *, optimize: bool = True, threads: int = 1) -> None:
        if not isinstance(model, Model):
            raise ExecutionError(
                f"a Model is required, which read_model and convert_model return, but got {type(model).__name__}"
            )
        if not isinstance(threads, int) or threads < 1:
            raise ExecutionError(f"threads must be a number of 1 or more, but are {threads!r}")
        self._workers = Workers(threads) if optimize else None
        # More calls at a time than processors only take each other's cache, and the interpreter's lock.
        self._running = threading.Semaphore(processors())
        self._shortest = math.inf
        """The seconds of the shortest call up to now, until one is brief."""
        self._general: _Plan | None = None
        self._fallbacks: Counter[str] = Counter()
        self._is_mixed = False
        """Whether other shapes came when there was a plan for known ones."""
        with own_work("making a plan"):
            # Plans are made when shapes come: of the model as it is now.
            self._model = in_float32(clone(model)) if optimize else clone(model)
            self._special = Specializations(self._model, self._specialized) if optimize else None
            if self._special is None or not self._special.is_certain:
                self._general = _Plan(self._model, self._workers, self._fallbacks)
        constants = [node.op.data for part in model.parts() for node in part.nodes if node.op.data is not None]
        spans = [tensor.span() for tensor in constants]
        self._files = {id(span.file): span.file for span in spans if span is not None}
        self.inputs, self.outputs = ports_of(model)

    @property
    def _plan(self) -> _Plan:
        """The plan for inputs of any shapes."""
        plan = self._general
        if plan is None:
            self._is_mixed = True
            plan = self._general = _Plan(self._model, self._workers, self._fallbacks)
        return plan

    def _specialized(self, model: Model) -> SpecializedPlan:
        assert self._workers is not None
        workers = self._workers
        pending, arrays = worked_out(model, refined=True)
        site = Site(pending, arrays, {node.inputs[0] for node in model.results}, workers)
        fallbacks = self._fallbacks
        return SpecializedPlan(model, site, lambda step: _whole(step, arrays, workers, fallbacks), fallbacks)

    @property
    def fallbacks(self) -> Counter[str]:
        """How many calls kernels left to ``evaluate`` since the model was compiled, by type of layer."""
        return self._fallbacks.copy()

    @property
    def input_names(self) -> list[str]:
        """The name of each input, in order."""
        return [port.name for port in self.inputs]

    @property
    def output_names(self) -> list[str]:
        """The name of each output, in order."""
        return [port.name for port in self.outputs]

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, ports)) for ports in (self.inputs, self.outputs))
        return f"<CompiledModel ({inputs}) -> ({outputs})>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise ModelError("a compiled model cannot be pickled or copied: pickle the Model, and compile it again")

    @expected_errors(ExecutionError)
    def __call__(self, inputs: Any = None) -> InferenceResult:
        """Execute the model.

        ``inputs`` maps tensor names (or positions) to arrays, or lists the arrays in order; a single
        array serves a model of one input. Arrays must have the port's dtype and shape; plain Python
        numbers and lists are converted. Raises :class:`ExecutionError` for anything else.
        """
        return self._called(inputs, None)

    @expected_errors(ExecutionError)
    def profile(self, inputs: Any = None, *, repeat: int = 1) -> Profile:
        """Execute the model ``repeat`` times (once more before that, which does not count), and say where the time
        went: by layer and by type of layer. Inputs are those of a call.
        """
        if repeat < 1:
            raise ExecutionError(f"repeat must be 1 or more, but is {repeat}")
        self._called(inputs, None)
        clock = Clock()
        for _ in range(repeat):
            with clock:
                self._called(inputs, clock)
        return clock.profile()

    def _called(self, inputs: Any, clock: Clock | None) -> InferenceResult:
        for file in self._files.values():
            file.check()
        arguments = self._arguments(inputs)
        arrays = [_accept(port, value) for port, value in zip(self.inputs, arguments)]
        with own_work("the run"):
            if self._shortest < _BRIEF:
                return InferenceResult(self.outputs, self._run(arrays, clock))
            with self._running:
                started = time.perf_counter()
                values = self._run(arrays, clock)
                self._shortest = min(self._shortest, time.perf_counter() - started)
            return InferenceResult(self.outputs, values)

    def _run(self, arrays: list[Array], clock: Clock | None) -> list[Array]:
        with np.errstate(all="ignore"), Unbuffered() if self._special else contextlib.nullcontext():
            plan = None if self._special is None else self._special.plan_for(arrays)
            if plan is not None:
                if not self._is_mixed:
                    # Each plan arranges the weights anew: one of them is enough while the shapes stay as they are.
                    self._general = None
                try:
                    return plan.run(arrays, clock)
                except MemoryError:
                    # It holds all values at once. The plan for any shapes frees them on the way.
                    assert self._special is not None
                    self._special.drop(arrays)
                except Exception as error:
                    # The plan for any shapes knows best what is wrong with the inputs.
                    self._plan.run(arrays, clock)
                    raise InternalError(
                        f"the plan for inputs of the shapes {[list(array.shape) for array in arrays]} failed, which is "
                        f"a fault of this package ({described(error)}): please report it, and use "
                        "compile_model(model, optimize=False) until it is mended"
                    ) from error
            return _owned(self._plan.run(arrays, clock), arrays)

    def _arguments(self, inputs: Any) -> list[Any]:
        if inputs is None:
            inputs = {}
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if not isinstance(inputs, Mapping):
            if not isinstance(inputs, Iterable) or isinstance(inputs, (str, bytes)):
                raise ExecutionError(
                    f"the inputs must map names to arrays, or list arrays, but are a {type(inputs).__name__}"
                )
            inputs = dict(zip(range(len(self.inputs) + 1), inputs))
        given: dict[int, Any] = {}
        for key, value in inputs.items():
            given[self._position(key)] = value
        missing = [port.name for i, port in enumerate(self.inputs) if i not in given]
        if missing:
            raise ExecutionError(f"no value was given for the inputs {missing}")
        return [given[i] for i in range(len(self.inputs))]

    def _position(self, key: Any) -> int:
        for index, port in enumerate(self.inputs):
            if key in port.names or key == port.name:
                return index
        if isinstance(key, int) and 0 <= key < len(self.inputs):
            return key
        raise ExecutionError(f"the model has no input {key!r}; its inputs are {self.input_names}")


@expected_errors(ExecutionError)
def compile_model(model: Model, *, optimize: bool = True, threads: int = 1) -> CompiledModel:
    """Make ``model`` ready to run in NumPy: order the work, compute what is constant, choose kernels.

    Inputs of known shapes, and shapes that come a second time in a row, get a plan of their own, which uses the threads
    that NumPy's own library has for products. In the plan for any other shapes kernels share their work among
    ``threads`` threads, beside these.
    A plan of its own rounds otherwise than the one for any shapes: with dynamic inputs the second call's results may
    differ from the first's in the last bits (about 1e-6 of the largest value). Any number of threads may call the
    model; as many run at a time as there are processors.
    Without ``optimize`` each layer is evaluated by itself, slowly; that is what all kernels are held against.
    """
    return CompiledModel(model, optimize=optimize, threads=threads)


def ports_of(model: Model) -> tuple[list[Port], list[Port]]:
    """The inputs and outputs of ``model`` as a caller sees them."""
    inputs = [_port(node.outputs[0], node.outputs[0].names, node) for node in model.parameters]
    sources = [(node, node.inputs[0]) for node in model.results]
    return inputs, [_port(source, node.output_names or source.names, source.node) for node, source in sources]


def _port(output: Output, names: Sequence[str], node: Node) -> Port:
    shape = tuple(d.value if d.is_static else None for d in output.shape) if output.shape.has_rank else None
    return Port(names[0] if names else node.name, tuple(names), shape, output.element_type, output.shape)


def _accept(port: Port, value: Any) -> Array:
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if not isinstance(value, (np.ndarray, np.generic)) and array.dtype != port.dtype:
        array = array.astype(port.dtype)
    if array.dtype.kind in "UT":
        array = array.astype(np.object_)
    if not port.element_type.is_dynamic and array.dtype != port.dtype:
        raise ExecutionError(
            f"input '{port.name}' must have dtype {port.dtype} ({port.element_type}), but has {array.dtype}"
        )
    if not port.partial_shape.accepts(array.shape):
        raise ExecutionError(
            f"input '{port.name}' must have the shape {port.partial_shape}, but has {list(array.shape)}"
        )
    return array


def _owned(values: Sequence[Array], arguments: Sequence[Array]) -> list[Array]:
    """Results the caller may write to: never views of an input or a constant, nor one array twice."""
    made: list[Array] = []
    for value in values:
        value = np.asarray(value)
        shared = any(value is other for other in [*arguments, *made])
        made.append(value.copy() if shared or not value.flags.writeable or value.base is not None else value)
    return made


def layer_runner(node: Node) -> Callable[..., Array | tuple[Array, ...]]:
    """One layer by itself, from arrays of its inputs to that of its output, or to several.

    By its kernel where one holds, else by ``evaluate``. Raises, when called, :class:`ModelError`, which names it.
    """
    workers = Workers(1)
    steps = prepare(Site([node], {}, set(node.outputs), workers))
    if len(steps) == 1 and list(steps[0].reads) == node.inputs:
        return _whole(steps[0], {}, workers, Counter())
    return _runner(Step([node], list(node.inputs), list(node.outputs)), {}, workers, Counter())
