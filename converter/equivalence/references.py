"""What an IR is compared with: an ONNX model, or another IR."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from converter.equivalence.engines import Engine, engine_for
from converter.equivalence.onnx_graph import OnnxGraph
from converter.equivalence.oracle import Oracle
from converter.onnx_file.reader import ModelSource
from converter.preprocessing.recorded import METADATA, Recorded
from ir_runtime import Model, read_model
from ir_runtime.graph.element_types import Array


class OnnxReference:
    """An ONNX model and what runs it."""

    def __init__(self, source: ModelSource) -> None:
        self.graph = OnnxGraph(source)
        self.oracle = Oracle(self.graph)
        self.processing = Recorded.from_text(_metadata(self.graph).get(METADATA, ""))
        """The preprocessing that the model has itself."""

    @property
    def name(self) -> str:
        return self.oracle.name

    @property
    def input_names(self) -> Collection[str]:
        """The inputs that can be given, also those that have an initializer."""
        return {**self.graph.inputs, **self.graph.defaults}

    def required_inputs(self, outputs: Sequence[str] | None) -> Collection[str]:
        """The inputs without an initializer that ``outputs`` need; None stands for the outputs of the model."""
        wanted = self.graph.outputs if outputs is None else outputs
        read = set().union(*(self.graph.reads[index] for index in self.graph.needed(wanted)), wanted)
        return [name for name in self.graph.inputs if name in read]

    def run(
        self, feeds: Mapping[str, Array], extra: Sequence[str] = (), *, plain: bool = False, only: bool = False
    ) -> dict[str, Array]:
        """The outputs by name, and ``extra`` ones, or these alone; sequences as arrays of their elements."""
        found = self.oracle.run(feeds, extra, plain=plain, only=only)
        return {name: _as_array(value) for name, value in found.items()}

    def run_by_definition(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
        """``outputs`` by name, from onnx's own evaluator."""
        found = self.oracle.run_by_definition(feeds, outputs)
        return {name: _as_array(value) for name, value in found.items()}


class IrReference:
    """Another IR, executed in NumPy."""

    def __init__(self, model: Model) -> None:
        self._engine = engine_for("numpy", model)
        self.name = "the other IR in NumPy"
        self.processing = Recorded.of(model)

    @property
    def input_names(self) -> Collection[str]:
        """Every name that an input has."""
        return {name for port in self._engine.inputs for name in (port.name, *port.names)}

    def required_inputs(self, outputs: Sequence[str] | None) -> Collection[str]:
        """None: the engine raises an error for missing inputs."""
        return []

    def run(
        self, feeds: Mapping[str, Array], extra: Sequence[str] = (), *, plain: bool = False, only: bool = False
    ) -> dict[str, Array]:
        """The outputs by name."""
        values = run_by_names(self._engine, feeds)
        return {port.name: values[port.name] for port in self._engine.outputs}


def run_by_names(engine: Engine, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of ``engine`` by each of their names, for inputs by any of theirs, in whatever types."""
    ports = {alias: port for port in engine.inputs for alias in (port.name, *port.names)}
    given = {ports[name].name: np.asarray(value, ports[name].dtype) for name, value in feeds.items() if name in ports}
    values = zip(engine.outputs, engine.run(given))
    return {alias: value for port, value in values for alias in (port.name, *port.names)}


def reference_for(source: ModelSource | Model) -> OnnxReference | IrReference:
    """The reference ``source``: an IR where it is a model of the IR or a path that ends in ``.xml``."""
    if isinstance(source, Model):
        return IrReference(source)
    if isinstance(source, (str, os.PathLike)) and Path(source).suffix.lower() == ".xml":
        return IrReference(read_model(source))
    return OnnxReference(source)


def _metadata(graph: OnnxGraph) -> dict[str, str]:
    return {entry.key: entry.value for entry in graph.proto.metadata_props}


def _as_array(value: Any) -> Array:
    return np.asarray(value)
