"""Memory and work of a run of the IR in given shapes, and the available memory.

A graph of a few kilobytes may compute attention over all pixels of an image: at 640 pixels a side that takes gigabytes.
The estimate follows from the shapes of all values, before anything is run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ir_runtime import Model, ModelError
from ir_runtime.graph import Output, TensorType
from ir_runtime.records import record

_MOST_BYTES = 1 << 29
_MEMORY_SHARE = 1 / 16
"""The live values of a run that needs no choice take at most so many bytes, and this share of the available memory.
Both sides run, and kernels and comparisons copy: values of 4.3 GB, scores of attention, took 12.9 GB."""
_MOST_OPERATIONS = 5e11
"""Multiplications of a run that need no choice: 5 to 20 seconds on two cores. ResNet-50 has 3e9 for two images of 128
pixels a side, a language model of 8 billion weights 1.3e11 for 16 tokens."""
_CGROUP_FILES = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)


@record
class Cost:
    """The bytes of all values that are alive at a time, at most, and the multiplications of a run."""

    peak: int
    operations: float

    @classmethod
    def of(cls, model: Model, types: Mapping[Output, TensorType]) -> Cost:
        """The cost of ``model`` where its values have these ``types``.

        Bodies count once, and a value of a dynamic shape not at all.
        """
        nodes = model.nodes()
        last = {source: at for at, node in enumerate(nodes) for source in node.inputs}
        live = peak = 0
        operations = 0.0
        for at, node in enumerate(nodes):
            if node.op.data is not None:
                continue
            live += sum(byte_size(types[output]) for output in node.outputs)
            peak = max(peak, live)
            sources, results = ([types[value] for value in values] for values in (node.inputs, node.outputs))
            operations += node.op.multiplications(sources, results)
            read = [source for source in dict.fromkeys(node.inputs) if last[source] == at]
            unread = [output for output in node.outputs if output not in last]
            live -= sum(byte_size(types[output]) for output in (*read, *unread) if output.node.op.data is None)
        return cls(peak, operations)

    @property
    def is_small(self) -> bool:
        """True if a run takes little of the memory that there is, and seconds."""
        memory = available_memory()
        most = _MOST_BYTES if memory is None else min(_MOST_BYTES, _MEMORY_SHARE * memory)
        return self.peak <= most and self.operations <= _MOST_OPERATIONS

    @property
    def fits(self) -> bool:
        """True if there is enough memory at all: each side has a copy of the values."""
        memory = available_memory()
        return memory is None or 2 * self.peak <= memory


def types_for_shapes(model: Model, shapes: Mapping[int, tuple[int, ...]]) -> dict[Output, TensorType] | None:
    """The type of every value of ``model`` for inputs of these shapes, by position; None where it refuses them."""
    outputs = [output for node in model.nodes() for output in node.outputs]
    if all(output.shape.is_static for output in model.inputs):
        return {output: output.type for output in outputs}
    shaped = model.clone()
    try:
        shaped.reshape(dict(shapes))
    except ModelError:
        return None
    return dict(zip(outputs, (output.type for node in shaped.nodes() for output in node.outputs)))


def byte_size(tensor_type: TensorType) -> int:
    """The bytes of a value; 0 where its shape is dynamic or its elements have no size."""
    return tensor_type.element_type.byte_size(tensor_type.element_count) if tensor_type.element_type.bits else 0


def available_memory() -> int | None:
    """The bytes of memory that this process can still use; None where the system does not tell."""
    amounts = [size for size in (_available_in_system(), *map(_left_in_group, _CGROUP_FILES)) if size is not None]
    return min(amounts, default=None)


def _available_in_system() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # such as Windows
        return None


def _left_in_group(files: tuple[Path, Path]) -> int | None:
    """Return the memory that the limit of a container leaves."""
    try:
        limit, used = (int(file.read_text(encoding="ascii")) for file in files)
    except (OSError, ValueError):  # there is none, or it is "max"
        return None
    return max(0, limit - used)
