"""Rows of one layer of the IR: an operation, its inputs, and what it gives.

    ROWS = [
        *layers("Gather", each(1, 7, 8), normal(5, 3), whole(-5, 5, 2, 2), one(each(0, -1))),
        *layers("SoftMax", 8, normal(2, 3, 4), axis=each(-1, 0, 1)),
    ]

Positional arguments are the inputs, those by keyword the attributes. :func:`tests.rows.row.each` stands for several
values anywhere, and ``also`` for attributes that vary together. Whole numbers behind the first input are constants, and
so are ``fixed`` inputs, as in models; what else comes at run time, also with open dimensions: all, or ``dims``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Union

import numpy as np
from numpy.random import Generator

from ir_runtime import compile_model
from ir_runtime.graph.element_types import Array, ElementType, from_dtype
from ir_runtime.graph.operation import Operation, TensorType, find_operation
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.rewriting.constant_folding import as_tuple
from tests.rows.row import F32, Each, Tolerance, combinations

Maker = Callable[[Generator], Array]
Input = Union[Array, Maker, tuple[Array, ElementType]]
"""An array, something that draws one, or an array whose type its dtype does not tell."""


@dataclass(frozen=True, eq=False)
class Layer:
    """An operation with inputs that it takes.

    Of ``fixed`` inputs inference must know everything, of ``shaped`` ones the shape.
    """

    op: Operation
    arrays: tuple[Array, ...]
    kinds: tuple[ElementType, ...]
    fixed: frozenset[int]
    shaped: frozenset[int]
    label: str
    attributes: Mapping[str, Any]
    dims: Mapping[int, Sequence[int | None]]
    expect: Any = None
    """Arrays, or a function of the inputs that returns them; None where OpenVINO alone tells what is right.

    Elements that are masked (``np.ma``) are not defined.
    """
    tolerance: Tolerance = F32
    name: str = field(default="", compare=False)
    group: str = field(default="", compare=False)

    @property
    def seed(self) -> int:
        return zlib.crc32(self.label.encode())

    @cached_property
    def outputs(self) -> tuple[Array, ...]:
        """What the operation gives."""
        with np.errstate(all="ignore"):
            if not self.op.subgraphs:
                return as_tuple(self.op.evaluate(*self.arrays))
            runners = [_runner(sub.body) for sub in self.op.subgraphs]
            return as_tuple(self.op.execute(runners, self.arrays))

    @cached_property
    def expected(self) -> Sequence[Array]:
        if self.expect is None:
            return self.outputs
        expected = self.expect(*self.arrays) if callable(self.expect) else self.expect
        return expected if isinstance(expected, list) else [expected]

    def exact(self, index: int) -> TensorType:
        """Everything about an input, its values too."""
        array, kind = self.arrays[index], self.kinds[index]
        return TensorType(kind, PartialShape(array.shape), Tensor.from_array(array, kind))


def _runner(body: Any) -> Callable[[Sequence[Array]], list[Array]]:
    compiled = compile_model(body)
    return lambda arrays: compiled(list(arrays)).to_list()


def layers(
    name: Any,
    opset: Any,
    *inputs: Any,
    fixed: Iterable[int] = (),
    shaped: Iterable[int] = (),
    dims: Mapping[int, Sequence[int | None]] | None = None,
    note: str = "",
    expect: Any = None,
    tolerance: Tolerance = F32,
    **attributes: Any,
) -> Iterator[Layer]:
    """Yield a layer for each combination of values, with inputs that are drawn for each anew.

    A ``note`` tells layers apart that differ in what their bodies do, or in the values of their inputs.
    """
    numbered = {f"input {index}": value for index, value in enumerate(inputs)}
    for values, _ in combinations({"op": name, "opset": opset, **numbered, **attributes}):
        op, revision = values.pop("op"), values.pop("opset")
        chosen = [values.pop(number) for number in numbered]
        cls = find_operation(op, revision)
        assert cls.opset == revision, f"{op} has no revision {revision}"
        shown = ", ".join(f"{key}={value}" for key, value in values.items() if key not in ("bodies", "value"))
        shapes = " ".join(_shown(value) for value in chosen)
        label = f"{op}-{revision}({shapes}{'; ' if shown else ''}{shown}){note}"
        random = np.random.default_rng(zlib.crc32(label.encode()))
        kinds, arrays = [], []
        for value in chosen:
            array, kind = value if isinstance(value, tuple) else (value(random) if callable(value) else value, None)
            arrays.append(np.asarray(array))
            kinds.append(kind or from_dtype(arrays[-1].dtype))
        parts = (tuple(arrays), tuple(kinds), frozenset(fixed), frozenset(shaped), label, values, dims or {})
        yield Layer(cls(**values), *parts, expect, tolerance)


def _shown(value: Input) -> str:
    if isinstance(value, tuple):
        value = value[0]
    if callable(value):
        return getattr(value, "__name__", "drawn")
    value = np.asarray(value)
    return f"{value.dtype}{list(value.shape)}" + (str(value.tolist()) if 0 < value.size < 7 else "")


def _named(maker: Maker, name: str) -> Maker:
    maker.__name__ = name
    return maker


def normal(*shape: int, dtype: Any = np.float32) -> Maker:
    """Normally distributed numbers."""
    return _named(lambda random: random.standard_normal(shape).astype(dtype), f"normal{list(shape)}{np.dtype(dtype)}")


def uniform(low: float, high: float, *shape: int, dtype: Any = np.float32) -> Maker:
    """Numbers between two others."""
    return _named(
        lambda random: random.uniform(low, high, shape).astype(dtype),
        f"uniform({low},{high}){list(shape)}{np.dtype(dtype)}",
    )


def whole(low: int, high: int, *shape: int, dtype: Any = np.int64) -> Maker:
    """Whole numbers from ``low`` to ``high``, the latter not included."""
    name = f"whole({low},{high}){list(shape)}{np.dtype(dtype)}"
    return _named(lambda random: random.integers(low, high, shape).astype(dtype), name)


def flags(*shape: int) -> Maker:
    """Booleans."""
    return _named(lambda random: random.random(shape) < 0.5, f"flags{list(shape)}")


def ints(*values: int, dtype: Any = np.int64) -> Array:
    """A list of whole numbers."""
    return np.array(values, dtype)


def one(value: Any, dtype: Any = np.int64) -> Any:
    """A scalar, or each of several."""
    return Each([one(item, dtype) for item in value.values]) if isinstance(value, Each) else np.array(value, dtype)
