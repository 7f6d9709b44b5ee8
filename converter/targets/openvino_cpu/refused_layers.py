"""Layers that the plug-in refuses, and that no rule can express."""

from __future__ import annotations

from collections.abc import Iterator

from ir_runtime.graph import Model


def refused_layers(model: Model) -> Iterator[str]:
    """Yield a sentence for each layer of which the plug-in will refuse the model, and what to do."""
    for part in model.parts():
        for node in part.nodes:
            if all(output.shape.has_rank for output in node.outputs):
                continue
            # Those that follow from it are refused as well; the first one is the reason.
            if all(source.shape.has_rank for source in node.inputs):
                yield (
                    f"OpenVINO's CPU plug-in takes no tensors of unknown rank, such as {node.where} returns; give the "
                    "shapes of its inputs (--input), or the axes in the model"
                )
