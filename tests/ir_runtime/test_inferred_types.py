"""What is inferred of every operation holds what it computes, however little is known of its inputs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

from ir_runtime.graph.operation import Operation, TensorType, all_operations
from ir_runtime.graph.shape_inference import infer_types
from tests.ir_runtime.calls import CALLS, Call
from tests.ir_runtime.relaxation import contradiction, relaxed

RELAXATIONS = 20
"""How often less than everything about the inputs of a call is told."""

UNCALLED = {"Parameter-1": "its value comes from the caller, and its type from its attributes"}
RANDOM = {"RandomUniform-8", "Multinomial-13"}
"""Their values differ from call to call, but their types do not."""


def name_of(cls: type[Operation]) -> str:
    return f"{cls.type}-{cls.opset}"


def _by_revision() -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = defaultdict(list)
    for call in CALLS:
        found[name_of(type(call.op))].append(call)
    return found


OF_REVISION = _by_revision()


def test_every_operation_is_called() -> None:
    assert {name_of(cls) for cls in all_operations()} - set(OF_REVISION) == set(UNCALLED)
    assert {name for name, count in Counter(call.label for call in CALLS).items() if count > 1} == set()


def _knowledge(call: Call) -> Iterator[list[TensorType]]:
    """First everything about the inputs, then less."""
    yield [call.exact(index) for index in range(len(call.arrays))]
    random = np.random.default_rng(call.seed)
    for _ in range(RELAXATIONS):
        yield relaxed(call, random)


def _shown(types: list[TensorType]) -> str:
    parts = []
    for kind in types:
        bounds = kind.known_bounds
        parts.append(str(kind) if bounds is None else f"{kind} of {bounds.lower.tolist()} to {bounds.upper.tolist()}")
    return "; ".join(parts)


@pytest.mark.parametrize("name", sorted(OF_REVISION))
def test_inferred_types_hold_the_outputs(name: str) -> None:
    for call in OF_REVISION[name]:
        for types in _knowledge(call):
            what = f"{call.label} with {_shown(types)}"
            try:
                found = infer_types(call.op, types)
            except Exception as error:
                raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
            assert len(found) == len(call.outputs), what
            for index, (kind, value) in enumerate(zip(found, call.outputs)):
                wrong = contradiction(kind, value, values=name not in RANDOM)
                assert not wrong, f"{what}, output {index}: {wrong}"
