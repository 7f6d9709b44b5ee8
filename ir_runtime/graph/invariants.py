"""Invariants: what must hold for every model after every change.

Each invariant is a function that yields a sentence for every place that breaks it. The cheap ones check inputs,
outputs and names only; the others go through every layer, bodies included. A :class:`Promise`, made before the
change, holds what the change must keep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace

from ..errors import InternalError, ModelError
from ..records import record
from . import element_types
from .model import Model, Node, Output
from .operation import FOLD_LIMIT, TensorType
from .shape_inference import infer_types
from .tensor import Tensor


@record
class Promise:
    """Properties that users of a model rely on: the names of its inputs and outputs in order, its sinks, its size."""

    inputs: tuple[tuple[str, ...], ...]
    outputs: tuple[tuple[str, ...], ...]
    sinks: tuple[str, ...]
    constant_bytes: int
    tensors: Mapping[str, TensorType] = field(default_factory=dict)
    """The types of the main graph's values by tensor name; empty where layers are not checked."""
    repeated: Mapping[str, int] = field(default_factory=dict)
    """Names that layers or values of one graph share, as files of others have them, and how often at most."""

    @classmethod
    def of(cls, model: Model, *, thorough: bool = True) -> Promise:
        """The promise of ``model`` as it is now; its size is computed for thorough checks only."""
        return cls(
            tuple(_names(node) for node in model.parameters),
            tuple(_names(node) for node in model.results),
            tuple(_sink(node) for node in model.sinks),
            constant_bytes(model) if thorough else 0,
            _types_by_name(model) if thorough else {},
            _repeated_names(model) if thorough else {},
        )

    def renewed(self, model: Model, stage: Stage, *, thorough: bool) -> Promise:
        """The promise after a pass of ``stage``: what the stage may change is as ``model`` has it now."""
        if not stage.changes:
            return self
        now = Promise.of(model, thorough=thorough)
        return replace(self, **{field: getattr(now, field) for field in stage.changes})


@record
class Stage:
    """A stage of the conversion: what its passes may change, and what no model has after them."""

    name: str
    changes: frozenset[str] = frozenset()
    """The fields of :class:`Promise` that a pass may change."""
    removes: frozenset[str] = frozenset()
    """The types of the layers that no model has after a pass."""
    renames: bool = False
    """True if inputs and outputs may lose names."""


PASSES = Stage("passes")
"""Cleanup, fusion and the rules of a runtime: nothing changes for the users of a model."""
OPTIONS = Stage("options", frozenset({"inputs", "outputs", "constant_bytes", "tensors"}))
"""Shapes, values and types of inputs, and other outputs."""
REMOVALS = Stage("removals", OPTIONS.changes | {"sinks"})
"""Parts of a model, with all that takes effect in them, are gone."""
NAMES = Stage("names", frozenset({"inputs", "outputs", "tensors"}), renames=True)
"""Other names of inputs, outputs and tensors."""
STATES = Stage("states", frozenset({"inputs", "outputs", "sinks", "tensors"}))
"""Inputs and outputs become variables."""
JOINED = Stage("joined models", STATES.changes | {"constant_bytes"})
"""Another model computes what variables start with."""
WITHOUT_STATES = Stage("without states", STATES.changes, frozenset({"ReadValue", "Assign"}))
"""Variables become inputs and outputs."""
PROCESSING = Stage("preprocessing", frozenset({"tensors"}))
"""Layers in front of inputs and behind outputs: their tensors may have other shapes."""
COMPRESSION = Stage("compression")
"""Constants are stored in fewer bits."""
PRECISION = Stage("precision", frozenset({"constant_bytes", "tensors"}))
"""The model computes in other floats, or stores them in a wider type."""


def _names(node: Node) -> tuple[str, ...]:
    return tuple(node.end_names)


def _types_by_name(model: Model) -> dict[str, TensorType]:
    return {name: output.type for node in model.nodes() for output in node.outputs for name in output.names}


def _repeated_names(model: Model) -> dict[str, int]:
    repeated: dict[str, int] = {}
    for part in model.all_models():
        nodes = part.nodes()
        for names in ([node.name for node in nodes], _tensor_names_of(nodes)):
            for name, count in Counter(names).items():
                if count > 1:
                    repeated[name] = max(count, repeated.get(name, 0))
    return repeated


def _tensor_names_of(nodes: Iterable[Node]) -> list[str]:
    return [name for node in nodes for output in node.outputs for name in set(output.names)]


def _sink(node: Node) -> str:
    return f"{node.op.type} {node.op.attributes()}"


Check = Callable[[Model, Promise], Iterator[str]]


@record
class Invariant:
    """An invariant's name and its check."""

    name: str
    check: Check
    is_cheap: bool


INVARIANTS: list[Invariant] = []
"""All invariants in the order in which they are checked: later ones rely on earlier ones."""


def invariant(name: str, *, cheap: bool = False) -> Callable[[Check], Check]:
    """Decorator: adds a check to :data:`INVARIANTS`."""

    def add(check: Check) -> Check:
        INVARIANTS.append(Invariant(name, check, cheap))
        return check

    return add


def violations(
    model: Model, promise: Promise | None = None, stage: Stage = PASSES, *, thorough: bool = True
) -> list[str]:
    """A sentence for each place of ``model`` that breaks an invariant.

    ``promise`` was made before the model was changed; without ``thorough`` only the cheap checks run. A model with a
    cycle is not checked any further.
    """
    if thorough:
        try:
            model.nodes()
        except ModelError as error:
            return [str(error)]
    promised = replace(Promise.of(model, thorough=thorough), repeated={}) if promise is None else promise
    broken = [
        f"{invariant_.name}: {problem}"
        for invariant_ in INVARIANTS
        if invariant_.is_cheap or thorough
        for problem in invariant_.check(model, promised)
    ]
    for part in model.parts() if stage.removes else ():
        left = [node.where for node in part.nodes if node.op.type in stage.removes]
        broken += [f"no {' or '.join(sorted(stage.removes))} is left: there is {where}" for where in left]
    return broken


def check(model: Model, promise: Promise, change: str, stage: Stage = PASSES, *, thorough: bool) -> None:
    """Raises :class:`InternalError`, which names the change, where the model breaks an invariant."""
    problems = violations(model, promise, stage, thorough=thorough)
    if problems:
        problems_text = "; ".join(problems[:_MAX_LISTED])
        more = f"; and {len(problems) - _MAX_LISTED} more" if len(problems) > _MAX_LISTED else ""
        raise InternalError(f"{change} left an invalid model, which is a fault of this package: {problems_text}{more}")


_MAX_LISTED = 5


# --- cheap: inputs, outputs, sinks ---


@invariant("the inputs keep their names and order", cheap=True)
def _inputs(model: Model, promise: Promise) -> Iterator[str]:
    yield from _differing("input", [_names(node) for node in model.parameters], promise.inputs)


@invariant("the outputs keep their names and order", cheap=True)
def _outputs(model: Model, promise: Promise) -> Iterator[str]:
    yield from _differing("output", [_names(node) for node in model.results], promise.outputs)


def _differing(role: str, actual: list[tuple[str, ...]], promised: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    if len(actual) != len(promised):
        yield f"there were {len(promised)} {role}s, but are {len(actual)}"
        return
    for number, (names, expected) in enumerate(zip(actual, promised)):
        # A replacement may have further names of its own, after the promised ones.
        if not set(expected) <= set(names) or names[:1] != expected[:1]:
            yield f"{role} {number} must be called {list(expected)}, but is called {list(names)}"


@invariant("each Result has a tensor of its own", cheap=True)
def _own_tensors(model: Model, promise: Promise) -> Iterator[str]:
    returned: dict[Output, Node] = {}
    for node in model.results:
        other = returned.setdefault(node.inputs[0], node)
        if set(_names(other)) != set(_names(node)):
            yield f"{list(_names(other))} and {list(_names(node))} are the output {_label(node.inputs[0])}"


@invariant("Results are known by names that their tensors have", cheap=True)
def _known_names(model: Model, promise: Promise) -> Iterator[str]:
    for node in model.results:
        missing = set(_names(node)) - set(node.inputs[0].names)
        if missing:
            yield f"{node.where} promises {sorted(missing)}, which {_label(node.inputs[0])} is not called"


@invariant("the sinks are kept", cheap=True)
def _sinks(model: Model, promise: Promise) -> Iterator[str]:
    lost = Counter(promise.sinks) - Counter(_sink(node) for node in model.sinks)
    if lost:
        yield f"lost are {', '.join(lost)}"


# --- thorough: every layer ---


@invariant("every Parameter is listed")
def _parameters(model: Model, promise: Promise) -> Iterator[str]:
    for part in model.all_models():
        counts = Counter(part.parameters)
        for node in part.nodes():
            if node.op.role == "parameter" and counts[node] != 1:
                yield f"{node.where} is listed {counts[node]} times"
        for node in part.parameters:
            if node.op.role != "parameter":
                yield f"{node.where} is listed, but is none"


@invariant("no layer's name is given twice")
def _layer_names(model: Model, promise: Promise) -> Iterator[str]:
    for part in model.all_models():
        yield from _twice((node.name for node in part.nodes()), promise)


@invariant("no tensor's name is given twice")
def _tensor_names(model: Model, promise: Promise) -> Iterator[str]:
    for part in model.all_models():
        yield from _twice(_tensor_names_of(part.nodes()), promise)


@invariant("a tensor's name stays on a value of its type")
def _named_values(model: Model, promise: Promise) -> Iterator[str]:
    for node in model.nodes():
        for output in node.outputs:
            for name in output.names:
                before = promise.tensors.get(name)
                if before is not None and not before.agrees_with(output.type):
                    yield f"'{name}' was called a value of type {before}, but {_label(output)} is {output.type}"


@invariant("uses are the layers that read a value")
def _uses(model: Model, promise: Promise) -> Iterator[str]:
    for part in model.all_models():
        nodes = part.nodes()
        read = Counter((source, node) for node in nodes for source in node.inputs)
        counted = Counter(
            {
                (output, user): count
                for node in nodes
                for output in node.outputs
                for user, count in output.counted_uses()
            }
        )
        for output, user in {pair: None for pair in (*read, *counted) if read[pair] != counted[pair]}:
            times = f"{read[output, user]} times, but {counted[output, user]} are counted"
            yield f"{user.where} reads {_label(output)} {times}"


def _twice(names: Iterable[str], promise: Promise) -> Iterator[str]:
    for name, count in Counter(names).items():
        if count > max(1, promise.repeated.get(name, 0)):
            yield f"'{name}' {count} times"


@invariant("types are what inference finds")
def _types(model: Model, promise: Promise) -> Iterator[str]:
    """Infer from the parameters on, as a reader of the file does: bounds of values are not part of a file."""
    for part in model.all_models():
        types: dict[Output, TensorType] = {}
        for node in part.nodes():
            if node.op.role == "parameter":
                types.update((output, output.type) for output in node.outputs)
                continue
            inputs = [types[source] for source in node.inputs]
            try:
                op = node.op.specialized(inputs) if node.op.subgraphs else node.op
                inferred = infer_types(op, inputs)
            except ModelError as error:
                yield f"{node.where}: {error}"
                inferred = [output.type for output in node.outputs]
            if len(inferred) != len(node.outputs):
                yield f"{node.where} has {len(node.outputs)} outputs, but must have {len(inferred)}"
                inferred = [output.type for output in node.outputs]
            types.update(zip(node.outputs, inferred))
            for output, inferred_type in zip(node.outputs, inferred):
                if not _is_as_tight(output.type, inferred_type):
                    yield f"{_label(output)} is declared {output.type}, but inference finds {inferred_type}"


def _is_as_tight(declared: TensorType, inferred: TensorType) -> bool:
    """True if a declared type is the inferred one: the same element type, and the same dimensions."""
    if declared.element_type is not inferred.element_type:
        return False
    return declared.shape == inferred.shape or (declared.element_type is element_types.dynamic)


@invariant("constants are not unfolded")
def _constants(model: Model, promise: Promise) -> Iterator[str]:
    size = constant_bytes(model)
    if size > promise.constant_bytes + allowed_growth(promise.constant_bytes):
        yield f"there were {promise.constant_bytes} bytes of constants, but are {size}"


_MAX_GROWTH_PARTS = 10
"""Constants may grow by one part in this many: some layers need zeros and ones as constants."""


def allowed_growth(size: int) -> int:
    """Return the number of bytes that constants of ``size`` bytes may grow by."""
    return FOLD_LIMIT + size // _MAX_GROWTH_PARTS


def constant_bytes(model: Model) -> int:
    """The bytes of a model's constants, bodies included; a tensor that several hold counts once."""
    held: dict[int, Tensor] = {}
    for part in model.parts():
        for node in part.nodes:
            if node.op.data is not None:
                held[id(node.op.data)] = node.op.data
    return sum(tensor.byte_size for tensor in held.values())


def _label(output: Output) -> str:
    return f"output {output.index} of {output.node.where}"
