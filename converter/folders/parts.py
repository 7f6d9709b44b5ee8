"""Parts of a pipeline: models without states of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from converter.conversion.convert import MakeStates, convert
from converter.errors import UnsupportedModelError
from converter.onnx_file.reader import OnnxFile
from converter.options.conversion import ConversionOptions
from converter.passes.states.stateful import compute_in_float32
from ir_runtime.graph import Model, PartialShape


def graph_names(file: OnnxFile) -> tuple[list[str], list[str]]:
    """Return the names of a file's inputs and outputs."""
    graph = file.proto.graph
    fixed = {tensor.name for tensor in graph.initializer}
    return [value.name for value in graph.input if value.name not in fixed], [value.name for value in graph.output]


def convert_part(
    file: OnnxFile,
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
    model = convert(file, options, make_states=make_states or _make_no_states).model
    names = names or {}
    for node in model.parameters:  # optimum-intel asks an input for any of its names
        value = node.outputs[0]
        value.names[:] = [names.get(value.names[0], value.names[0])]
    for node in model.results:
        stored = node.output_names or node.inputs[0].names
        stored[:] = [names.get(name, name) for name in stored]
    return model


def check_inputs(
    file: OnnxFile, needed: Sequence[str], expected: Sequence[str], gives: str, *, ignored: str = "\n"
) -> None:
    """Raise :class:`UnsupportedModelError` for a file without a ``needed`` input, or with others than ``expected``.

    ``gives`` says what gives the inputs, and which. Inputs whose names begin with ``ignored`` do not count.
    """
    names = [name for name in graph_names(file)[0] if not name.startswith(ignored)]
    others = [name for name in names if name not in expected]
    missing = [name for name in needed if name not in names]
    if others or missing:
        problem = f"reads '{others[0]}', too" if others else f"has no input '{missing[0]}'"
        raise UnsupportedModelError(f"{file.name} {problem}: {gives}")


def _make_no_states(model: Model, shapes: Mapping[str, PartialShape]) -> None:
    """Compute in float32, which runtimes expect of any part."""
    compute_in_float32(model)
