"""Emitting layers: what translators, passes, rules and tests make graphs with.

A layer whose inputs are constant is computed at once, one that was emitted before is emitted once only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph.element_types import ElementType, element_type
from ..graph.model import Node, Output
from ..graph.operation import Operation
from ..graph.shape_inference import make_node
from ..graph.tensor import Tensor
from ..operations.inputs_outputs import Const1
from .constant_folding import fold

_SHARED_BYTES = 256
"""Constants of at most this size are emitted once for equal values."""


class Builder:
    """Emits layers and constants, and remembers them in ``emitted``."""

    def __init__(self) -> None:
        self.emitted: list[Node] = []
        self._made: dict[Any, list[Output]] = {}

    def emit(self, op: Operation, *inputs: Output) -> Output:
        """Add a layer of one output (the first, where it has several); constants are folded."""
        return self.emit_all(op, *inputs)[0]

    def emit_all(self, op: Operation, *inputs: Output) -> list[Output]:
        """Add a layer and return all its outputs; where they follow from constants, those instead."""
        key = None
        if op.deterministic and not op.subgraphs and op.data is None:
            key = (type(op), *op.attributes().values(), *inputs)
            known = self._made.get(key)
            if known is not None:
                return known
        node = make_node(op, inputs)
        folded = fold(op, [source.type for source in inputs], [out.type for out in node.outputs])
        if folded is not None:
            outputs = [self.tensor(tensor) for tensor in folded]
        else:
            self.emitted.append(node)
            outputs = node.outputs
        if key is not None:
            self._made[key] = outputs
        return outputs

    def tensor(self, tensor: Tensor) -> Output:
        """A constant layer over existing data."""
        node = make_node(Const1(value=tensor), ())
        self.emitted.append(node)
        return node.outputs[0]

    def constant(self, value: Any, kind: ElementType | str = "i64") -> Output:
        """A constant of a number, a list or an array, of the given element type.

        Raises TypeError for real numbers without an element type, which would lose what is behind their points.
        """
        wanted = element_type(kind)
        given = np.asarray(value)
        if kind == "i64" and given.dtype.kind == "f" and given.size:
            raise TypeError(f"a constant of {value!r} needs an element type, which is i64 by default")
        array = np.asarray(value, wanted.dtype)
        if array.nbytes > _SHARED_BYTES or array.dtype.hasobject:
            return self.tensor(Tensor.from_array(array, wanted))
        key = (wanted, array.shape, array.tobytes())
        if key not in self._made:
            self._made[key] = [self.tensor(Tensor.from_array(array, wanted))]
        return self._made[key][0]

    def like(self, value: Any, other: Output) -> Output:
        """A scalar constant of the element type of ``other``."""
        return self.constant(value, other.element_type)
