"""Values that follow from constants, computed with the operations' own kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..boundary import boundary
from ..errors import InferenceError
from ..graph import Array, Tensor
from ..graph.operation import BOUNDS_LIMIT, FOLD_LIMIT, Operation, TensorType
from ..graph.provenance import computed


def as_tuple(result: Array | tuple[Array, ...]) -> tuple[Array, ...]:
    return result if isinstance(result, tuple) else (result,)


def is_decompression(op: Operation, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> bool:
    """True if the operation widens compressed weights: to floats those of 8 bits or fewer, or f16, and integers."""
    if len(inputs) != 1 or len(outputs) != 1 or inputs[0].tensor is None:
        return False
    source, target = inputs[0].element_type, outputs[0].element_type
    if not 0 < source.bits < target.bits:
        return False
    if target.is_integral:
        # Weights, which are factors of integer products; shorter lists are axes, dimensions and the like.
        return source.is_integral and source.bits <= 8 and inputs[0].tensor.size > BOUNDS_LIMIT
    return target.is_real and (source.bits <= 8 or source.is_real)


def fold(
    op: Operation, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, limited: bool = True
) -> list[Tensor] | None:
    """The constant outputs of ``op``, or None where they are not constant or not worth storing.

    Compressed weights are never unfolded: a conversion of 8 bits or fewer, or of a large constant in f16, to
    wider floats stays a layer. The result may not be larger than the inputs together, unless it is small.
    Without ``limited`` neither holds: for a graph that is run and not stored.

    Raises :class:`InferenceError` where the constants contradict the operation, :class:`InternalError` where the
    operation is wrong itself.
    """
    if not op.is_pure or not outputs:
        return None
    values = []
    for type in inputs:
        value = type.constant
        if value is None:
            return _from_bounds(outputs)
        values.append(value)
    if limited and not _is_worth_storing(op, inputs, outputs):
        return None
    tensors = _run(op, values, outputs)
    provenance = computed(op.type, (type.tensor.provenance for type in inputs if type.tensor is not None))
    for tensor in tensors:
        tensor.provenance = provenance
    return tensors


def _is_worth_storing(op: Operation, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> bool:
    if not all(out.shape.is_static and out.element_type.bits for out in outputs):
        return all(type.tensor is None or type.tensor.size * 8 <= FOLD_LIMIT for type in inputs)
    produced = sum(out.element_type.byte_size(out.shape.element_count().value) for out in outputs)
    consumed = sum(type.tensor.byte_size for type in inputs if type.tensor is not None)
    if produced > max(FOLD_LIMIT, consumed):
        return False
    if not is_decompression(op, inputs, outputs):
        return True
    # Quantised weights and their zero points are known by their type, however small they are; not single numbers.
    return outputs[0].shape.rank == 0 if inputs[0].element_type.is_integral else produced <= FOLD_LIMIT


def _from_bounds(outputs: Sequence[TensorType]) -> list[Tensor] | None:
    """A value that follows from dimensions, such as a known shape."""
    if len(outputs) != 1 or outputs[0].tensor is not None:
        return None
    constant = outputs[0].constant
    return None if constant is None else [Tensor.from_array(constant, outputs[0].element_type)]


def _run(op: Operation, values: Sequence[Array], outputs: Sequence[TensorType]) -> list[Tensor]:
    with boundary(op.type), np.errstate(all="ignore"):
        try:
            results = as_tuple(op.evaluate(*values))
        except (ValueError, IndexError, OverflowError) as error:
            raise InferenceError(f"{op.type} cannot be computed on its constant inputs: {error}") from error
    declared_types = [None if out.element_type.is_dynamic else out.element_type for out in outputs]
    return [Tensor.from_array(result, element_type) for result, element_type in zip(results, declared_types)]
