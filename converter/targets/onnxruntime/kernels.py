"""The element types that onnxruntime's CPU provider has kernels for.

ONNX allows most operators more types than that. ``kernels.json`` lists the kernels as onnxruntime itself tells them;
``docs/generate.py`` writes it, and a test compares it with the installed release.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ir_runtime.records import record

TABLE = Path(__file__).parent / "kernels.json"
_NO_END = 2**31 - 1
_COMPUTED_BY = {"HardSwish": "HardSigmoid", "Mish": "Softplus"}
"""Operators without kernels, and the operator in their functions that has kernels for the fewest types."""


@record
class Kernel:
    """The opsets from the first to the last that a kernel is for, and the types of each type variable."""

    first: int
    last: int
    types: Mapping[str, frozenset[str]]

    def is_for(self, since: int) -> bool:
        """True if it is for an operator as opset ``since`` defined it; a kernel without end is for one definition."""
        return self.first == since if self.last == _NO_END else self.first <= since <= self.last


def has_kernel(op_type: str, domain: str, since: int, types: Mapping[str, str]) -> bool:
    """True if onnxruntime runs an operator with these types (``tensor(float)``) of the type variables.

    ``since`` is the opset that defined it. Operators that have no kernel at all are made of others, which decide.
    onnxruntime computes float16 as float32 where there is no kernel for it.
    """
    if not domain and op_type in _COMPUTED_BY:
        kernels = list(_kernels()[domain, _COMPUTED_BY[op_type]])
    else:
        kernels = [kernel for kernel in _kernels().get((domain, op_type), ()) if kernel.is_for(since)]
    if not kernels:
        return True
    return any(
        all(
            _fits(spelled_type, kernel.types[variable])
            for variable, spelled_type in types.items()
            if variable in kernel.types
        )
        for kernel in kernels
    )


def last_opset(op_type: str, domain: str, since: int) -> int | None:
    """The last opset with kernels for an operator that has none as opset ``since`` defined it; None if it has one."""
    kernels = _kernels().get((domain, op_type), ())
    if any(kernel.is_for(since) for kernel in kernels) or not any(kernel.first < since for kernel in kernels):
        return None
    return since - 1


def _fits(spelled_type: str, supported: frozenset[str]) -> bool:
    return spelled_type in supported or (spelled_type == "tensor(float16)" and "tensor(float)" in supported)


@functools.cache
def _kernels() -> Mapping[tuple[str, str], Sequence[Kernel]]:
    table: dict[str, Any] = json.loads(TABLE.read_text())
    type_sets = [frozenset(kinds) for kinds in table["types"]]
    return {
        (domain, op_type): [
            Kernel(first, last or _NO_END, {variable: type_sets[place] for variable, place in types.items()})
            for first, last, types in rows
        ]
        for domain, operators in table["kernels"].items()
        for op_type, rows in operators.items()
    }


def table_of(definitions: Iterable[Any]) -> str:
    """The text of ``kernels.json`` for the definitions that onnxruntime gives (``get_all_opkernel_def``)."""
    numbers_of_types: dict[tuple[str, ...], int] = {}
    kernels: dict[str, dict[str, list[Any]]] = {}
    for definition in sorted(
        definitions, key=lambda d: (d.domain, d.op_name, d.version_range, str(d.type_constraints))
    ):
        if definition.provider != "CPUExecutionProvider" or definition.domain not in ("", "com.microsoft"):
            continue
        types = {
            variable: numbers_of_types.setdefault(tuple(sorted(allowed)), len(numbers_of_types))
            for variable, allowed in sorted(definition.type_constraints.items())
        }
        first, last = definition.version_range
        row = [first, 0 if last >= _NO_END else last, types]
        rows = kernels.setdefault(definition.domain, {}).setdefault(definition.op_name, [])
        if row not in rows:
            rows.append(row)
    lines = [
        f"{json.dumps(domain)}: {{\n"
        + ",\n".join(
            f"{json.dumps(name)}: {json.dumps(sorted(rows, key=json.dumps))}"
            for name, rows in sorted(operators.items())
        )
        + "\n}"
        for domain, operators in sorted(kernels.items())
    ]
    types_text = ",\n".join(json.dumps(spelled_type) for spelled_type in numbers_of_types)
    return f'{{"types": [\n{types_text}\n],\n"kernels": {{\n' + ",\n".join(lines) + "\n}}\n"
