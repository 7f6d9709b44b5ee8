"""The seam between the plan and its kernels.

A *kernel* does the work of one node, a *fusion* that of several. Both are asked once, when the plan is made, and
both may hand a call back: what returns None is done by ``evaluate`` for that call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ir_runtime import element_types
from ir_runtime.element_types import Array
from ir_runtime.graph import Node, Output
from ir_runtime.operation import Operation, TensorType
from ir_runtime.shapes import PartialShape

from .threads import Workers

Kernel = Callable[..., "Array | tuple[Array, ...] | None"]
"""Arrays in, arrays out; None where these arrays are none of its business."""


@dataclass(frozen=True)
class Prepared:
    """A kernel made ready for one node.

    ``fresh`` says that its outputs are memory of their own, C-contiguous, which nobody else holds.
    """

    run: Kernel
    fresh: bool = False
    packed: tuple[Output, ...] = ()
    """Constants of which the kernel keeps what it needs itself."""


@dataclass
class Step:
    """Nodes that are done at once: what they read, what others read of them, and how."""

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
    """A finished plan as kernels and fusions see it."""

    nodes: list[Node]
    """What is left to do, in order; everything constant is gone."""
    constants: dict[Output, Array]
    results: set[Output]
    """What the plan returns."""
    workers: Workers
    users: dict[Output, list[Node]] = field(default_factory=dict)
    fresh: set[Output] = field(default_factory=set)
    """Outputs in memory of their own."""

    def __post_init__(self) -> None:
        for node in self.nodes:
            for source in dict.fromkeys(node.inputs):
                self.users.setdefault(source, []).append(node)

    def is_constant(self, output: Output) -> bool:
        return output in self.constants

    def add_constant(self, node: Node, value: Array) -> Output:
        """A constant of the plan's own, made for ``node``."""
        value = np.array(value, order="C")
        value.flags.writeable = False
        shape = PartialShape(value.shape)
        output = Output(node, 0, TensorType(element_types.from_dtype(value.dtype), shape))
        self.constants[output] = value
        return output

    def only_user(self, output: Output) -> Node | None:
        """The one node that reads ``output``, where the plan does not return it, too."""
        users = self.users.get(output, [])
        return users[0] if len(users) == 1 and output not in self.results else None

    def is_private(self, output: Output, readers: Sequence[Node]) -> bool:
        """Whether the readers may write into ``output``: nobody else has it, neither under another name."""
        return output in self.fresh and output not in self.results and set(self.users[output]) <= set(readers)


Maker = Callable[[Node, Site], "Prepared | None"]
Fusion = Callable[[Site], "list[Step]"]

_MAKERS: dict[type[Operation], Maker] = {}
_FUSIONS: list[Fusion] = []


def kernel(*operations: type[Operation]) -> Callable[[Maker], Maker]:
    """Registers what makes kernels for nodes of these operations."""

    def register(maker: Maker) -> Maker:
        for operation in operations:
            _MAKERS[operation] = maker
        return maker

    return register


def fusion(made: Fusion) -> Fusion:
    """Registers what finds steps of several nodes; no two steps may share one."""
    _FUSIONS.append(made)
    return made


def is_float32(*outputs: Output) -> bool:
    return all(output.element_type is element_types.f32 for output in outputs)


def has_kernel(op: Operation) -> bool:
    """Whether there may be a kernel for nodes of this operation."""
    return type(op) in _MAKERS


def prepared(node: Node, site: Site) -> Prepared | None:
    """The kernel of one node, if there is one for it."""
    maker = _MAKERS.get(type(node.op))
    return None if maker is None else maker(node, site)


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
            step.prepared = prepared(step.nodes[0], site)
        if step.prepared is not None and step.prepared.fresh:
            site.fresh.update(step.writes)
    return steps
