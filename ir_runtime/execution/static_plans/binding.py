"""The arrays of the values of a static plan, and the registry of binders, which make the calls over them.

Each value has its array before anything runs: a constant, memory of its own, a view of another value, or a part of
a Concat's output. A list of calls without arguments, made once, computes it: they read and write these arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ir_runtime.execution.kernels import Site
from ir_runtime.execution.kernels.registry import Call as Call
from ir_runtime.execution.kernels.threads import aligned_empty
from ir_runtime.graph import Array, Model, Node, Output
from ir_runtime.graph.mapped_file import aligned
from ir_runtime.graph.operation import Operation
from ir_runtime.records import record

Runner = Callable[..., Any]
"""Computes a node from arrays, for any shapes."""


@dataclass(eq=False)
class Block:
    """Memory and the values in it; it is free for other values once all of them were read for the last time."""

    memory: Array
    live: set[Output] = field(default_factory=set)
    is_pinned: bool = False


@record
class Home:
    """The part of a Concat's output into which one of its inputs is computed directly."""

    whole: Output
    axis: int
    start: int
    stop: int


class Binding:
    """The arrays of one instance of a plan, made in the order of its steps; later values reuse memory that is free."""

    def __init__(
        self,
        site: Site,
        homes: dict[Output, Home],
        runner: Callable[[Node], Runner],
        body: Callable[[Node, Callable[[], Model]], Any],
    ) -> None:
        self.site = site
        self.runner = runner
        self.body = body
        """Gives arrays and calls for the body of a node: see :meth:`StaticPlan.body`."""
        self.homes = homes
        self.arrays: dict[Output, Array] = {}
        self.owners: dict[Output, Block] = {}
        self._free: list[Block] = []
        self._scratch: list[Block] = []
        self._reused: dict[str, Block] = {}

    def array(self, output: Output) -> Array | None:
        """The value's array; None where its shape is only known during a run."""
        array = self.arrays.get(output)
        if array is None:
            array = self.site.constants.get(output)
            if array is not None:
                array = self.site.constants[output] = aligned(array)
        return array

    def as_stored(self, output: Output) -> Array | None:
        """The value's array, which may be a constant that is not aligned."""
        array = self.arrays.get(output)
        return self.site.constants.get(output) if array is None else array

    def all_arrays(self, outputs: Sequence[Output]) -> list[Array] | None:
        arrays = [self.array(output) for output in outputs]
        return None if any(array is None for array in arrays) else arrays  # type: ignore[return-value]

    def constant(self, output: Output) -> Array | None:
        return self.site.constants.get(output)

    def is_bindable(self, output: Output) -> bool:
        """True if type and shape are static, so that there can be an array for it."""
        return output.shape.is_static and bool(output.element_type.bits) and not output.element_type.dtype.hasobject

    # --- memory ---

    def new(self, output: Output, order: Sequence[int] | None = None) -> Array:
        """Memory for a value. ``order`` names its axes from the outermost to the innermost one in memory.

        Where the value has a :class:`Home` in a Concat's output, it is a view of that output, with its strides.
        """
        home = self.homes.get(output)
        if home is None:
            array = self._take(output, order)
        else:
            whole = self.arrays.get(home.whole)
            if whole is None:
                whole = self._take(home.whole, order)
            index = [slice(None)] * whole.ndim
            index[home.axis] = slice(home.start, home.stop)
            array = whole[tuple(index)]
            self.owners[output] = self.owners[home.whole]
            self.owners[output].live.add(output)
        self.arrays[output] = array
        return array

    def _take(self, output: Output, order: Sequence[int] | None) -> Array:
        shape = output.shape.static()
        dtype = output.element_type.dtype
        block = self._block(math.prod(shape) * dtype.itemsize)
        block.live.add(output)
        array = laid_out(block.memory, shape, dtype, order)
        self.arrays[output] = array
        self.owners[output] = block
        return array

    def alias(self, output: Output, array: Array, source: Output) -> None:
        """Make ``array``, a view of the array of ``source``, the value's array."""
        self.arrays[output] = array
        block = self.owners.get(source)
        if block is not None:
            self.owners[output] = block
            block.live.add(output)

    def scratch(self, shape: Sequence[int], dtype: Any = np.float32) -> Array:
        """Memory for the step that is being bound, uninitialised when the step starts."""
        dtype = np.dtype(dtype)
        block = self._block(math.prod(shape) * dtype.itemsize)
        self._scratch.append(block)
        return laid_out(block.memory, tuple(shape), dtype, None)

    def reused(self, purpose: str, *shape: int) -> Array:
        """Float32 scratch memory that the parts of a step, which run one after the other, share for a purpose."""
        size = math.prod(shape) * 4
        block = self._reused.get(purpose)
        if block is None or block.memory.size < size:
            block = self._reused[purpose] = self._block(size)
            self._scratch.append(block)
        return laid_out(block.memory, shape, np.dtype(np.float32), None)

    def is_alone(self, output: Output) -> bool:
        """True if no other value is in the memory of this one, which may be written to: views that repeat may not."""
        block = self.owners.get(output)
        alone = block is not None and block.live == {output} and not block.is_pinned
        return alone and self.arrays[output].flags.writeable

    def pin(self, output: Output) -> None:
        """Keep the value's memory to the end of the run: layers computed by ``evaluate`` may return views of it."""
        block = self.owners.get(output)
        if block is not None:
            block.is_pinned = True

    def finish_step(self, dead: Sequence[Output]) -> None:
        """End a step, after which nothing reads the values ``dead``: their memory is free."""
        self._free.extend(reversed(self._scratch))
        self._scratch, self._reused = [], {}
        for output in dead:
            block = self.owners.get(output)
            if block is None:
                continue
            block.live.discard(output)
            if not block.live and not block.is_pinned:
                self._free.append(block)

    def _block(self, size: int) -> Block:
        best = None
        for block in reversed(self._free):
            if block.memory.size >= size and (best is None or block.memory.size < best.memory.size):
                best = block
        if best is None:
            return Block(aligned_empty((max(size, 1),), np.uint8))
        self._free.remove(best)
        return best


def laid_out(memory: Array, shape: tuple[int, ...], dtype: np.dtype[Any], order: Sequence[int] | None) -> Array:
    """An array over the beginning of ``memory`` whose axes have this ``order`` in memory."""
    count = math.prod(shape) * dtype.itemsize
    flat = memory[:count].view(dtype)
    if order is None or tuple(order) == tuple(range(len(shape))):
        return flat.reshape(shape)
    back = [0] * len(shape)
    for position, axis in enumerate(order):
        back[axis] = position
    return flat.reshape([shape[axis] for axis in order]).transpose(back)


Binder = Callable[[Node, Binding], "list[Call] | None"]
"""Makes the arrays of a node's outputs (with :meth:`Binding.new` or ``alias``) and returns the calls that compute them;
None, with no array made, where it cannot bind the node."""

BINDERS: dict[type[Operation], Binder] = {}


def binder(*operations: type[Operation]) -> Callable[[Binder], Binder]:
    """Decorator: registers a :data:`Binder` for nodes of these operations."""

    def register(binder: Binder) -> Binder:
        BINDERS.update(dict.fromkeys(operations, binder))
        return binder

    return register


def is_float32(*arrays: Array) -> bool:
    return all(array.dtype == np.float32 for array in arrays)


def as_matrix(array: Array) -> Array | None:
    """``[rows, columns]`` over the array's memory where all but its last axis are equally far apart, else None."""
    columns = array.shape[-1]
    rows = math.prod(array.shape[:-1])
    step = None
    reach = None
    for dimension, stride in zip(reversed(array.shape[:-1]), reversed(array.strides[:-1])):
        if dimension == 1:
            continue
        if reach is not None and stride != reach:
            return None
        if step is None:
            step = stride
        reach = stride * dimension
    if step is None:
        step = columns * array.itemsize
    return np.lib.stride_tricks.as_strided(array, (rows, columns), (step, array.strides[-1]))
