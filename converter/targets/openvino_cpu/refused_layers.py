"""Layers that the plug-in refuses, and that no rule can express."""

from __future__ import annotations

from collections.abc import Iterator

from ir_runtime.graph import Model


def refused_layers(model: Model) -> Iterator[str]:
    """Yield a sentence for each kind of layer of which the plug-in will refuse the model, and what to do."""
    # Layers that follow from the first ones are refused as well.
    open_ranks = [
        node.where
        for part in model.parts()
        for node in part.nodes
        if not all(output.shape.has_rank for output in node.outputs)
        and all(source.shape.has_rank for source in node.inputs)
    ]
    if open_ranks:
        more = f" and {len(open_ranks) - 1} more return" if len(open_ranks) > 1 else " returns"
        yield (
            f"OpenVINO's CPU plug-in takes no tensors of unknown rank, such as {open_ranks[0]}{more}; give the "
            "shapes of inputs (--input), or axes in the model"
        )
