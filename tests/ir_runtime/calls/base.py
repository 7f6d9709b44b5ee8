"""What a call is, and the makers of its inputs."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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

Maker = Callable[[Generator], Array]
Input = Union[Array, Maker, tuple[Array, ElementType]]
"""An array, something that draws one, or an array whose type its dtype does not tell."""


@dataclass(frozen=True, eq=False)
class Call:
    """An operation with inputs that it takes.

    Of ``fixed`` inputs inference must know everything, of ``shaped`` ones the shape.
    """

    op: Operation
    arrays: tuple[Array, ...]
    kinds: tuple[ElementType, ...]
    fixed: frozenset[int]
    shaped: frozenset[int]
    label: str

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

    def exact(self, index: int) -> TensorType:
        """Everything about an input, its values too."""
        array, kind = self.arrays[index], self.kinds[index]
        return TensorType(kind, PartialShape(array.shape), Tensor.from_array(array, kind))


def _runner(body: Any) -> Callable[[Sequence[Array]], list[Array]]:
    compiled = compile_model(body)
    return lambda arrays: compiled(list(arrays)).to_list()


def calls(
    name: str,
    opsets: int | Iterable[int],
    *inputs: Input,
    fixed: Iterable[int] = (),
    shaped: Iterable[int] = (),
    note: str = "",
    **attributes: Any,
) -> list[Call]:
    """A call of each of the revisions with the same inputs, which are drawn for each anew.

    A ``note`` tells calls apart that differ in what their bodies do.
    """
    found = []
    for opset in [opsets] if isinstance(opsets, int) else opsets:
        cls = find_operation(name, opset)
        assert cls.opset == opset, f"{name} has no revision {opset}"
        given = ", ".join(f"{key}={value}" for key, value in attributes.items() if key not in ("bodies", "value"))
        shapes = " ".join(_shown(value) for value in inputs)
        label = f"{name}-{opset}({shapes}{'; ' if given else ''}{given}){note}"
        random = np.random.default_rng(zlib.crc32(label.encode()))
        kinds, arrays = [], []
        for value in inputs:
            array, kind = value if isinstance(value, tuple) else (value(random) if callable(value) else value, None)
            arrays.append(array)
            kinds.append(kind or from_dtype(array.dtype))
        op = cls(**attributes)
        found.append(Call(op, tuple(arrays), tuple(kinds), frozenset(fixed), frozenset(shaped), label))
    return found


def _shown(value: Input) -> str:
    if isinstance(value, tuple):
        value = value[0]
    if not isinstance(value, np.ndarray):
        return getattr(value, "__name__", "drawn")
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


def one(value: Any, dtype: Any = np.int64) -> Array:
    """A scalar."""
    return np.array(value, dtype)
