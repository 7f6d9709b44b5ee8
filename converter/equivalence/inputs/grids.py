"""Inputs whose values count the rows of another input, as vision encoders have them.

Example: ``image_grid_thw`` has frames, height and width of each image in patches, and ``pixel_values`` a row for each
patch of all images. Nothing in the file tells so; such pairs are found by trial.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from converter.equivalence.inputs.dimensions import Shapes
from converter.equivalence.inputs.input_values import Values
from ir_runtime import Port
from ir_runtime.records import record

_ROWS: dict[int, list[tuple[int, ...]]] = {
    3: [(1, 4, 4), (1, 8, 8), (1, 2, 2), (1, 4, 8), (2, 4, 4), (1, 16, 16)],
    2: [(4, 4), (8, 8), (2, 2), (4, 8), (16, 16)],
}
"""Rows to try by their length: patches are merged by twos, in windows of several."""


@record
class Grid:
    """Every row of the input ``grid`` is ``row``; the input ``counted`` has as many rows as their products tell."""

    grid: str
    row: tuple[int, ...]
    counted: str

    def shapes(self, shapes: Shapes) -> Shapes:
        """``shapes`` with as many rows as the grid counts."""
        count = shapes[self.grid][0] * math.prod(self.row)
        return {**shapes, self.counted: (count, *shapes[self.counted][1:])}

    @property
    def values(self) -> Values:
        """What the grid is filled with."""
        return Values(f"rows {list(self.row)}", lambda _, shape: np.broadcast_to(self.row, shape))


def grids(ports: Sequence[Port]) -> Iterator[Grid]:
    """The grids that the inputs may be."""
    for port in ports:
        if not port.element_type.is_integral or not port.partial_shape.has_rank or port.partial_shape.rank != 2:
            continue
        columns = port.partial_shape[1]
        if not columns.is_static or columns.value not in _ROWS:
            continue
        for other in ports:
            shape = other.partial_shape
            if other is not port and other.element_type.is_real and shape.has_rank and _counts_rows(other):
                yield from (Grid(port.name, row, other.name) for row in _ROWS[columns.value])


def _counts_rows(port: Port) -> bool:
    shape = port.partial_shape
    return shape.rank >= 2 and not shape[0].is_static and all(dimension.is_static for dimension in shape.dims[1:])
