"""Emitting layers: what translators, passes, rules and tests make graphs with.

A layer whose inputs are constant is computed at once, one that was emitted before is emitted once only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from ..errors import InternalError
from ..graph import Array, ElementType, Node, Origin, Output, Tensor, make_node
from ..graph.element_types import element_type
from ..graph.operation import Operation
from ..graph.provenance import computed
from ..operations.inputs_outputs import Const1
from .constant_folding import fold
from .unique_names import UniqueNames

T = TypeVar("T")
_SHARED_BYTES = 256
"""Constants of at most this size are emitted once for equal values."""


class Builder:
    """Emits layers and constants, and remembers them in ``emitted``.

    With ``names`` it names what it emits after the layer of the last :meth:`begin`.
    """

    def __init__(self, names: UniqueNames | None = None) -> None:
        self.emitted: list[Node] = []
        self._emitted_before: dict[Any, Any] = {}
        self._names = names
        self._prefix = ""
        self._origin: Origin | None = None
        self._start = 0
        """The number of layers that were emitted before the last :meth:`begin`."""

    def begin(self, node: Node | str, origin: Origin | None = None) -> None:
        """Name the following layers after ``node``, a layer or a prefix, and note its origin."""
        self._prefix = node.name if isinstance(node, Node) else node
        self._origin = node.origin if isinstance(node, Node) else origin
        self._start = len(self.emitted)

    def cancel(self) -> None:
        """Forget the layers that were emitted since :meth:`begin`, so that they are not emitted for another layer."""
        if len(self.emitted) > self._start:
            self.emitted, self._emitted_before, self._start = [], {}, 0

    def replace(self, node: Node, values: Sequence[Output], *, is_same_value: bool = True) -> list[Node]:
        """Replace the outputs of ``node`` by ``values``, which may be computed from them.

        The first layer takes over the name, its runtime information and, if it ``is_same_value``, each value the tensor
        names. Layers emitted since :meth:`begin` continue to read the old outputs. Returns the layers that left the
        graph, constants excluded, inputs first.

        Raises :class:`InternalError` if the number or the types of the values differ from those of the outputs.
        """
        if len(values) != len(node.outputs):
            raise InternalError(f"{len(values)} values replace the {len(node.outputs)} outputs of {node.where}")
        emitted = self.emitted[self._start :]
        main = values[0].node
        if main in emitted:
            main.name, main.runtime_info = node.name, node.runtime_info
        removed: list[Node] = []
        for old, new in zip(node.outputs, values):
            if not is_same_value:
                old.names = []
            removed += old.replace_by(new, keep=emitted, move_names=is_same_value)
        return removed

    def _emit(self, node: Node) -> Node:
        if self._names is not None:
            node.name = self._names(f"{self._prefix}/{node.op.type}")
            node.origin = self._origin
        self.emitted.append(node)
        return node

    def emit(self, op: Operation, *inputs: Output) -> Output:
        """Add a layer of one output (the first, where it has several); constants are folded."""
        return self.emit_all(op, *inputs)[0]

    def emit_all(self, op: Operation, *inputs: Output) -> list[Output]:
        """Add a layer and return all its outputs; where they follow from constants, those instead."""
        key = None
        if op.is_pure:
            key = (type(op), *op.attributes().values(), *inputs)
            earlier: list[Output] | None = self._emitted_before.get(key)
            if earlier is not None:
                return earlier
        node = make_node(op, inputs)
        folded = fold(op, [source.type for source in inputs], [out.type for out in node.outputs])
        outputs = self._emit(node).outputs if folded is None else [self.tensor(tensor) for tensor in folded]
        if key is not None:
            self._emitted_before[key] = outputs
        return outputs

    def once(self, key: tuple[object, ...], emit: Callable[[], T]) -> T:
        """Return what ``emit`` returned when it was called first for the key: layers that several others share."""
        if key not in self._emitted_before:
            self._emitted_before[key] = emit()
        result: T = self._emitted_before[key]
        return result

    def emit_unfolded(self, op: Operation, *inputs: Output) -> Output:
        """Add a layer of one output even if it is constant, for a runtime that looks for the layer."""
        return self._emit(make_node(op, inputs)).outputs[0]

    def tensor(self, tensor: Tensor) -> Output:
        """A constant layer over existing data."""
        return self._emit(make_node(Const1(value=tensor), ())).outputs[0]

    def constant(self, value: Any, target_type: ElementType | str = "i64") -> Output:
        """A constant of a number, a list or an array, of the given element type.

        Raises TypeError for real numbers without an element type, which would lose what is behind their points.
        """
        target = element_type(target_type)
        values = np.asarray(value)
        if target_type == "i64" and values.dtype.kind == "f" and values.size:
            raise TypeError(f"a constant of {value!r} needs an element type, which is i64 by default")
        array = np.asarray(value, target.dtype)
        if array.nbytes > _SHARED_BYTES or array.dtype.hasobject:
            return self.tensor(Tensor.from_array(array, target))
        key = (target, array.shape, array.tobytes())
        if key not in self._emitted_before:
            self._emitted_before[key] = [self.tensor(Tensor.from_array(array, target))]
        constant: Output = self._emitted_before[key][0]
        return constant

    def computed(self, step: str, value: Array, target_type: ElementType, sources: Iterable[Output]) -> Output:
        """A constant of the given element type that ``step`` computed from the constants ``sources``."""
        result = self.constant(value, target_type)
        assert result.tensor is not None
        # A constant that was emitted before for an equal value is computed from the sources of both.
        provenances = [result.tensor.provenance, *(source.tensor.provenance for source in sources if source.tensor)]
        result.tensor.provenance = computed(step, provenances)
        return result

    def like(self, value: Any, other: Output) -> Output:
        """A scalar constant of the element type of ``other``."""
        return self.constant(value, other.element_type)
