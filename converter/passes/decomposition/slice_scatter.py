"""Data with a slice replaced: updates are scattered to the places that the same slice takes."""

from __future__ import annotations

from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.slicing import Slice8, SliceScatter15
from ir_runtime.rewriting.expressions import Expression, positions


@decomposes(SliceScatter15)
def slice_scatter(op: SliceScatter15, x: Expression, updates: Expression, *bounds: Expression) -> Expression:
    """ScatterElementsUpdate to the places that the same Slice takes from the flat indices"""
    flat, sizes = x.reshape(-1), x.sizes()
    places = positions(flat.size(0)).reshape(*sizes).emit(Slice8(), *bounds)
    return flat.scatter(places.reshape(-1), updates.reshape(-1), 0).reshape(*sizes)
