"""Parts of a pipeline: models without states of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from converter.conversion.convert import MakeStates, convert
from converter.onnx_file.reader import open_model
from converter.options.conversion import ConversionOptions
from converter.passes.states.stateful import compute_in_float32
from ir_runtime.graph import Model, PartialShape


def graph_names(path: Path) -> tuple[list[str], list[str]]:
    """Return the names of a file's inputs and outputs."""
    graph = open_model(path).proto.graph
    fixed = {tensor.name for tensor in graph.initializer}
    return [value.name for value in graph.input if value.name not in fixed], [value.name for value in graph.output]


def convert_part(
    path: Path,
    options: ConversionOptions,
    outputs: Sequence[str] | None = None,
    *,
    freeze: Mapping[str, Any] | None = None,
    make_states: MakeStates | None = None,
    names: Mapping[str, str] | None = None,
) -> Model:
    """Convert a part of a pipeline to float32, with the ``outputs`` alone where they are given.

    ``names`` maps names of inputs and outputs to those that the pipeline asks for.
    """
    # Attention of a stateful model takes masks and positions as runtimes of language models set them. Models with
    # preprocessing, which are those of images alone, have no such inputs.
    options = replace(options, freeze=freeze, output=outputs, stateful=options.request is None)
    model = convert(path, options, make_states=make_states or _make_no_states).model
    names = names or {}
    for node in model.parameters:  # optimum-intel asks an input for any of its names
        value = node.outputs[0]
        value.names[:] = [names.get(value.names[0], value.names[0])]
    for node in model.results:
        stored = node.output_names or node.inputs[0].names
        stored[:] = [names.get(name, name) for name in stored]
    return model


def _make_no_states(model: Model, shapes: Mapping[str, PartialShape]) -> None:
    """Compute in float32, which runtimes expect of any part."""
    compute_in_float32(model)
