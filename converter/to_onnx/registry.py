"""Which function writes which IR operation as ONNX operators.

An exporter takes the context, the operation with its attributes, and one value for each of the layer's inputs; it
returns one value for each of its outputs, or the value alone where there is one output.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from converter.errors import ConversionError
from converter.passes.decomposition.registry import DECOMPOSITIONS, Decompose
from ir_runtime.graph.operation import Operation
from ir_runtime.lazy import import_modules_of
from ir_runtime.records import record

Export = Callable[..., Any]
F = TypeVar("F", bound=Export)

PACKAGE = "converter.to_onnx.operations"


@record
class Exporter:
    """The function that writes an operation."""

    operation: type[Operation]
    function: Export
    is_local_function: bool = False
    """Whether the nodes become a function of the model: what has no counterpart in ONNX stays one node."""

    def input_names(self, count: int) -> list[str]:
        """Return what the function calls the ``count`` inputs of a layer."""
        parameters = list(inspect.signature(self.function).parameters.values())
        names: list[str] = []
        for parameter in parameters[[one.name for one in parameters].index("op") + 1 :]:
            if parameter.kind is parameter.VAR_POSITIONAL:
                names += [f"{parameter.name}_{place}" for place in range(count - len(names))]
            else:
                names.append(parameter.name)
        return names[:count]


_EXPORTERS: dict[type[Operation], Exporter] = {}
_IDIOMS: dict[type[Operation], list[Export]] = {}
_REFUSED: dict[type[Operation], str] = {}
_INLINE: set[type[Operation]] = set()


def ir_op(*operations: type[Operation], replace: bool = False, local_function: bool = False) -> Callable[[F], F]:
    """Decorator: the function writes these operations, each of them one revision of one IR operation.

    Claiming an operation twice is an error unless ``replace`` is set. With ``local_function`` the nodes become a
    model-local function: the way of operations that have no counterpart in ONNX.
    """

    def register(function: F) -> F:
        for operation in operations:
            if operation in _EXPORTERS and not replace:
                raise ConversionError(f"the operation {operation.type}-{operation.opset} is claimed twice")
            _EXPORTERS[operation] = Exporter(operation, function, local_function)
        return function

    return register


def ir_idiom(*operations: type[Operation]) -> Callable[[F], F]:
    """Decorator: the function writes several layers, the last of which is one of these, as what they mean together.

    It takes the context and the operation, as an exporter does, and gives what that gives, or None where the layers in
    front are others. It comes before the exporter of the layer itself; nodes that nobody reads then are left out.
    """

    def register(function: F) -> F:
        for operation in operations:
            _IDIOMS.setdefault(operation, []).append(function)
        return function

    return register


def write_inline(*operations: type[Operation]) -> None:
    """Register that the decompositions of these operations, which are few layers, do not become functions."""
    _INLINE.update(operations)


def find_idioms(operation: type[Operation]) -> Sequence[Export]:
    """The functions that may write an operation together with layers in front of it."""
    import_all()
    return _IDIOMS.get(operation, ())


def refuse_ir_op(reason: str, *operations: type[Operation]) -> None:
    """Register why these operations cannot be written as ONNX operators; it ends the sentence of the error."""
    _REFUSED.update(dict.fromkeys(operations, reason))


def find_exporter(operation: type[Operation]) -> Exporter | str:
    """What writes an operation; where there is none, the reason."""
    import_all()
    found = _EXPORTERS.get(operation)
    if found is not None:
        return found
    function = DECOMPOSITIONS.get(operation)
    if function is not None:
        return _by_decomposition(operation, function)
    return _REFUSED.get(operation, "there is no ONNX operator for it, and nobody has written it by others")


def all_exporters() -> Iterator[Exporter]:
    """Every exporter, by type and opset of its operation."""
    import_all()
    decomposed = [_by_decomposition(*pair) for pair in DECOMPOSITIONS.entries().items() if pair[0] not in _EXPORTERS]
    yield from sorted([*_EXPORTERS.values(), *decomposed], key=lambda one: (one.operation.type, one.operation.opset))


def _by_decomposition(operation: type[Operation], function: Decompose) -> Exporter:
    """The exporter that writes the layers of the IR that a layer is decomposed into."""

    @functools.wraps(function)
    def export(ctx: Any, op: Operation, *inputs: Any) -> Any:
        return ctx.decompose()

    return Exporter(operation, export, is_local_function=operation not in _INLINE)


def refused_operations() -> dict[type[Operation], str]:
    """The operations that are known not to be expressible, with the reasons."""
    import_all()
    return dict(_REFUSED)


def import_all() -> None:
    """Import every module of the package: each registers what it writes."""
    import_modules_of(PACKAGE)
