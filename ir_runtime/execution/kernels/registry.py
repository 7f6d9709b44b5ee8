"""The registry of kernels, and what a plan and its kernels know of each other.

A *kernel* computes one node, a *fusion* several at once. Both are prepared when the plan is made. A kernel may return
None for arrays that it is not made for: ``evaluate`` then computes that call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ir_runtime.errors import InternalError
from ir_runtime.graph import Array, Node, Output, PartialShape, element_types
from ir_runtime.graph.mapped_file import file_of, forget_pages
from ir_runtime.graph.operation import Operation, TensorType
from ir_runtime.records import record

from .formulas import has_formula
from .threads import Workers, aligned_empty

Kernel = Callable[..., "Array | tuple[Array, ...] | None"]
"""Computes arrays from arrays; returns None for arrays that it leaves to ``evaluate``."""
Call = Callable[[], Any]
Scratch = Callable[..., Array]
"""Gives float32 memory for a purpose and a shape: ``scratch("left", 3, 4)``."""


@record
class Prepared:
    """A kernel prepared for one node.

    A kernel that ``fills`` has an argument ``out``, an array for its only output, and returns that, or another one.
    ``out`` is C-contiguous, or has the ``order`` in memory that is returned for the first input.
    """

    run: Kernel
    fills: bool = False
    order: Callable[[Array], Sequence[int] | None] | None = None
    packed: tuple[Output, ...] = ()
    """Constants that the kernel keeps in a packed form of its own; ``calls`` takes the other inputs."""
    calls: Callable[..., list[Call]] | None = None
    """Returns the calls that compute the only output from arrays of the inputs in ``out``, C-contiguous, with memory
    from ``reused``, a :data:`Scratch`. A plan for known shapes makes them once."""


@dataclass
class Step:
    """Nodes that are computed at once, the outputs that they read and those that others read, and their kernel."""

    nodes: list[Node]
    reads: list[Output]
    writes: list[Output]
    prepared: Prepared | None = None

    @property
    def type(self) -> str:
        """The types of its nodes, in order."""
        return "+".join(node.op.type for node in self.nodes)


@dataclass
class Site:
    """A graph after constant folding, as kernels and fusions see it when a plan is made."""

    nodes: list[Node]
    """The nodes that remain after constant folding, in order."""
    constants: dict[Output, Array]
    results: set[Output]
    """The outputs that the plan returns."""
    workers: Workers
    variables: frozenset[Output] = frozenset()
    """The inputs of the graph that are values of variables."""
    users: dict[Output, list[Node]] = field(default_factory=dict)
    kernels: dict[Node, Prepared | None] = field(default_factory=dict)
    """The kernels that were prepared: see :meth:`kernel_of`."""
    packs: dict[Any, tuple[Array, Array]] = field(default_factory=dict)
    """Packed constants, with their sources: while a source is referenced, no other array can get its address."""

    def __post_init__(self) -> None:
        for node in self.nodes:
            for source in dict.fromkeys(node.inputs):
                self.users.setdefault(source, []).append(node)

    def is_constant(self, output: Output) -> bool:
        return output in self.constants

    def packed(
        self,
        array: Array,
        purpose: Any,
        make: Callable[[], Array],
        output: Output | None = None,
        restored: Callable[[Array], Array] | None = None,
    ) -> Array:
        """The constant ``array`` packed by ``make``: C-contiguous, and shared by all sets of arrays of a plan.

        ``restored`` gives the constant ``output`` as a view of its packed form, which it is from then on where it is in
        no file: it is not in memory twice.
        """
        key = (array.__array_interface__["data"][0], array.shape, array.strides, purpose)
        entry = self.packs.get(key)
        if entry is not None:
            return entry[0]
        packed_array = make()
        if not packed_array.flags.c_contiguous or not packed_array.flags.aligned:
            source, packed_array = packed_array, aligned_empty(packed_array.shape, packed_array.dtype)
            np.copyto(packed_array, source)
        if not np.may_share_memory(packed_array, array):
            if output is not None and restored is not None and file_of(array) is None:
                # Other instances pack this view, which needs no copy.
                self.constants[output] = restored(packed_array)
                return packed_array
            forget_pages(array)
        self.packs[key] = (packed_array, array)
        return packed_array

    def add_constant(self, node: Node, value: Array) -> Output:
        """Add a constant that is not in the model, computed for ``node``."""
        value = np.array(value, order="C")
        value.flags.writeable = False
        shape = PartialShape(value.shape)
        output = Output(node, 0, TensorType(element_types.from_dtype(value.dtype), shape))
        self.constants[output] = value
        return output

    def kernel_of(self, node: Node) -> Prepared | None:
        """The kernel of one node, prepared once; None where there is none for it."""
        if node not in self.kernels:
            maker = _MAKERS.get(type(node.op))
            self.kernels[node] = None if maker is None else maker(node, self)
        return self.kernels[node]

    def only_user(self, output: Output) -> Node | None:
        """The only node that reads ``output``; None where there are several, or the plan returns it."""
        users = self.users.get(output, [])
        return users[0] if len(users) == 1 and output not in self.results else None


Maker = Callable[[Node, Site], "Prepared | None"]
Fusion = Callable[[Site], "list[Step]"]

_MAKERS: dict[type[Operation], Maker] = {}
_FUSIONS: list[Fusion] = []


def kernel(*operations: type[Operation]) -> Callable[[Maker], Maker]:
    """Decorator: registers a function that prepares the kernels for nodes of these operations.

    Raises :class:`InternalError` for an operation that has a kernel or a formula: chains would claim its nodes first.
    """

    def register(maker: Maker) -> Maker:
        for operation in operations:
            if has_formula(operation):
                raise InternalError(
                    f"{operation.type}-{operation.opset} has a formula (kernels/formulas.py), before which a kernel "
                    f"would never run: change the formula, or remove it"
                )
            if operation in _MAKERS:
                raise InternalError(f"the kernel of {operation.type}-{operation.opset} is registered twice")
            _MAKERS[operation] = maker
        return maker

    return register


def fusion(fusion: Fusion) -> Fusion:
    """Decorator: registers a function that finds steps of several nodes; no two of its steps may share a node."""
    _FUSIONS.append(fusion)
    return fusion


def is_float32(*outputs: Output) -> bool:
    return all(output.element_type is element_types.f32 for output in outputs)


def has_kernel(op: Operation) -> bool:
    """True if there may be a kernel for nodes of this operation."""
    return type(op) in _MAKERS


def prepare(site: Site) -> list[Step]:
    """The steps of the plan, in order."""
    claimed: dict[Node, Step] = {}
    for find in _FUSIONS:
        for step in find(site):
            if not any(node in claimed for node in step.nodes):
                claimed.update(dict.fromkeys(step.nodes, step))
    steps: list[Step] = []
    for node in site.nodes:
        fused = claimed.get(node)
        if fused is None:
            steps.append(Step([node], list(node.inputs), list(node.outputs)))
        elif node is fused.nodes[-1]:
            steps.append(fused)
    for step in steps:
        if step.prepared is None and len(step.nodes) == 1:
            step.prepared = site.kernel_of(step.nodes[0])
    # Kernels know the site: a circle would keep their packed constants when the plan is dropped.
    site.kernels.clear()
    return steps
