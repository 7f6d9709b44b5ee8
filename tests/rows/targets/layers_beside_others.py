"""What the plug-in computes wrongly beside certain layers: tiles of quotients, transposed attention, gates."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from tests.converter.targets.probes.computation import attention
from tests.converter.targets.probes.rows import ints, numbers
from tests.rows.row import Row, const, several

TILED = [
    ((7, 3, 1, 5, 4), (2, 1, 2, 1, 2)),
    ((2, 3, 1, 5, 4), (2, 3, 2, 1, 2)),
    ((7, 3, 2, 5), (2, 2, 2, 2)),
    ((7, 3, 1, 5), (2, 1, 2, 0)),
    ((7, 3, 4), (2, 1, 3)),
    ((2, 1, 3, 2, 1, 4), (2, 2, 1, 1, 3, 1)),
]
"""The layers that replace Tile after arithmetic have no more dimensions than the plug-in computes correctly."""
DIVIDED = "q = Div (x, n) y = Tile (q, r)"
QUERIES = [(1, 2, 2, 2, 8), (3, 4, 4, 9, 16), (1, 8, 8, 8, 32), (2, 4, 5, 4, 8)]


def weighted() -> Iterator[Row]:
    """Weights and values of other ranks: a vector of weights gives no dimension to the product."""
    for rows, values, weights, scores in itertools.product(
        (1, 5), ((), (2,), (1, 2)), ((), (3,), (2, 3)), ("s = Identity (q)", "s = MatMul (q, k)")
    ):
        feeds = {"q": numbers(*weights, rows) / 9, "v": numbers(*values, rows, 4)}
        if "k" in scores:
            feeds["k"] = numbers(rows, rows) / 30
        yield from several(f"{scores} w = Softmax (s) y = MatMul (w, v)", label="weights_of_other_ranks", **feeds)


SECOND = {"Conv": ", w", "Add": ", b", "Mul": ", v0", "Abs": ""}


def gated(
    activation: str, *between: str, x: np.ndarray, shape: Sequence[str | int], outputs: str = "y"
) -> Iterator[Row]:
    """Squeeze-and-excitation as in MobileNet: ``activation``, layers with constants, HardSigmoid, and the product."""
    nodes = f"v0 = GlobalAveragePool (x) v1 = {activation} (v0{', low, high' if activation == 'Clip' else ''})"
    for index, op_type in enumerate(between, 1):
        nodes += f" v{index + 1} = {op_type} (v{index}{SECOND[op_type]})"
    nodes += f" s = HardSigmoid <alpha = 0.16666667> (v{len(between) + 1}) y = Mul (x, s)"
    constants = {"w": numbers(8, 8, 1, 1), "b": numbers(8, 1, 1), "low": np.float32(0), "high": np.float32(6)}
    used = {name: const(value) for name, value in constants.items() if f", {name}" in nodes}
    return several(
        nodes, label=f"gated-{activation}-{'-'.join(between)}", dims={"x": shape}, outputs=outputs, x=x, **used
    )


GATES: list[tuple[tuple[str, ...], bool]] = [
    (("Relu", "Conv", "Add"), True),
    (("Clip", "Conv"), True),
    (("Relu",), True),
    (("Tanh", "Conv", "Add"), False),
    (("Relu", "Conv", "Mul"), False),
    (("Relu", "Conv", "Abs"), False),
]
"""Layers in front of HardSigmoid, and whether no NaN comes through them, so that it stays one layer."""
OPEN = ["n", 8, "h", "w"]
NAN = np.array([np.nan, 1, -5, 5, 0.3], np.float32)
ROWS = [
    *(
        row
        for (shape, repeats), at in itertools.product(TILED, (const, np.asarray))
        for row in several(
            DIVIDED, label=f"tiled-{at is const}", x=numbers(*shape), n=np.asarray(np.float32(4)), r=at(ints(*repeats))
        )
    ),
    *(row for is_fused, dims in itertools.product((False, True), QUERIES) for row in attention(is_fused, dims)),
    *(row for is_fused in (False, True) for row in attention(is_fused, transposed=True)),
    *weighted(),
    *(row for layers, _ in GATES for row in gated(*layers, x=numbers(2, 8, 5, 5), shape=OPEN)),
    *several("s = HardSigmoid <alpha = 0.16666667> (x) y = Mul (x, s)", label="gate", x=NAN, layers=["HSwish"]),
]  # fmt: skip
