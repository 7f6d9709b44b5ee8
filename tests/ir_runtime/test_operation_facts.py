"""Facts that operation classes declare, checked against what they compute.

A declared fact holds in every call, and a fact that holds in every call is declared.
"""

from __future__ import annotations

import numpy as np
import pytest

from ir_runtime.errors import ModelError
from ir_runtime.graph import Array
from ir_runtime.graph.operation import Operation, all_operations
from ir_runtime.rewriting.constant_folding import as_tuple
from tests.ir_runtime.calls import Call
from tests.ir_runtime.test_inferred_types import OF_REVISION, RANDOM, name_of

UNEXAMINED = {
    **dict.fromkeys(RANDOM, "its values differ from call to call"),
    **dict.fromkeys(("ReadValue-3", "ReadValue-6"), "it returns its input only where the variable has no value yet"),
}
REVISIONS = sorted((cls for cls in all_operations() if name_of(cls) in {*OF_REVISION} - {*UNEXAMINED}), key=name_of)


def _evaluate(call: Call, inputs: list[Array]) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        return as_tuple(call.op.evaluate(*inputs))


def _labels(data: Array, seed: int) -> Array | None:
    """Distinct numbers in random order, of both signs and with fractions where the type has them; None for few."""
    if data.dtype.kind not in "fiu" or data.dtype.itemsize < 4:
        return None
    labels = np.random.default_rng(seed).permutation(data.size) + 1
    if data.dtype.kind != "u":
        labels = labels * np.where(labels % 2, 300, -300)
    if data.dtype.kind == "f":
        labels = labels + 0.25
    return labels.reshape(data.shape).astype(data.dtype)


def _moves(call: Call) -> bool | None:
    """Whether other elements in the same places come out in the same places; None where the call cannot tell."""
    if call.op.subgraphs or call.op.role or not call.arrays:
        return False
    first, second = (_labels(call.arrays[0], seed) for seed in (1, 2))
    if first is None or second is None or first.size < 3:
        return None
    rest = list(call.arrays[1:])
    try:
        pairs = list(zip(_evaluate(call, [first, *rest]), _evaluate(call, [second, *rest])))
    except (ModelError, ValueError, IndexError):
        return False  # the first input holds lengths or places
    renamed = dict(zip(first.reshape(-1).tolist(), second.reshape(-1).tolist()))
    if not any(before.size for before, _ in pairs):
        return None
    return all(
        before.shape == after.shape
        and [renamed.get(value) for value in before.reshape(-1).tolist()] == after.reshape(-1).tolist()
        for before, after in pairs
    )


def _is_elementwise(call: Call) -> bool | None:
    """Whether elements in other places come out in these places; None where the call cannot tell."""
    if call.op.subgraphs or call.op.role or not call.arrays:
        return False
    if getattr(call.op, "auto_broadcast", "numpy") == "pdpd":
        return None
    try:
        shape = np.broadcast_shapes(*[array.shape for array in call.arrays])
    except ValueError:
        return False
    if len(call.outputs) != 1 or call.outputs[0].shape != shape:
        return False
    order = np.random.default_rng(call.seed).permutation(call.outputs[0].size)
    if order.size < 3 or (order == np.arange(order.size)).all():
        return None

    def shuffled(array: Array) -> Array:
        return np.broadcast_to(array, shape).reshape(-1)[order].reshape(shape)

    inputs = [array if array.size == 1 else shuffled(array) for array in call.arrays]
    try:
        (result,) = _evaluate(call, inputs)
    except (ModelError, ValueError, IndexError, TypeError):
        return False
    expected = shuffled(call.outputs[0])
    if result.dtype.kind in "fV":
        return bool(np.allclose(result.astype(float), expected.astype(float), rtol=1e-6, atol=0, equal_nan=True))
    return np.array_equal(result, expected)


@pytest.mark.parametrize("cls", [cls for cls in REVISIONS if cls.movement], ids=name_of)
def test_movement_takes_symbols(cls: type[Operation]) -> None:
    """Shapes are inferred by moving polynomials, which NumPy holds as objects."""
    for call in OF_REVISION[name_of(cls)]:
        data, *rest = call.arrays
        for result, expected in zip(_evaluate(call, [data.astype(np.object_), *rest]), call.outputs):
            np.testing.assert_array_equal(np.asarray(result).astype(expected.dtype), expected)


@pytest.mark.parametrize(("fact", "holds"), [("movement", _moves), ("elementwise", _is_elementwise)])
def test_a_fact_is_declared_where_it_holds(fact: str, holds: object) -> None:
    wrong = []
    for cls in REVISIONS:
        results = [holds(call) for call in OF_REVISION[name_of(cls)]]  # type: ignore[operator]
        decided = [result for result in results if result is not None]
        if (bool(decided) and all(decided)) is not getattr(cls, fact):
            wrong.append(f"{name_of(cls)}.{fact} is {getattr(cls, fact)}")
    assert not wrong, "; ".join(wrong)
