"""References for an IR: an ONNX model, or another IR."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from converter.equivalence.reference.engines import Engine, by_names, engine_for
from converter.equivalence.reference.oracle import Evaluate, define, load
from converter.equivalence.reference.reference_model import ReferenceModel, read_by
from converter.errors import VerificationError
from converter.onnx_file.reader import ModelSource
from converter.passes.preprocessing.recorded import METADATA, Recorded
from ir_runtime import Model, Port, read_model
from ir_runtime.graph import Array, Node, PartialShape


class Reference(ABC):
    """The side that is right. What it cannot show by itself is answered by nothing here."""

    name: str
    processing: Recorded
    """The preprocessing that the reference has itself."""

    @property
    @abstractmethod
    def input_names(self) -> Collection[str]:
        """Every name that an input has."""

    @property
    def output_names(self) -> Collection[str]:
        """The outputs of the file; none where the reference has no variables that became inputs."""
        return ()

    @abstractmethod
    def run(
        self, feeds: Mapping[str, Array], extra: Sequence[str] = (), *, plain: bool = False, only: bool = False
    ) -> dict[str, Any]:
        """The outputs by name, and ``extra`` ones, or these alone; ``plain`` without fusions of the runtime."""

    def required_inputs(self, outputs: Sequence[str] | None) -> Collection[str]:
        """The inputs that ``outputs`` need; None stands for the outputs of the model."""
        return []  # the engine raises an error for missing inputs

    def run_by_definition(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Any]:
        """``outputs`` by name, from an evaluator that is the definition."""
        raise VerificationError(f"{self.name} has no other evaluator")

    def declared(self, name: str) -> PartialShape:
        """The shape that the reference declares for an input."""
        return PartialShape.dynamic()

    def typed(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """``feeds`` in the types that the reference declares."""
        return feeds

    def inner_outputs(self, ports: Sequence[Port]) -> tuple[str, ...]:
        """Inner tensors that are outputs of the IR with these ``ports``."""
        return ()


class OnnxReference(Reference):
    """An ONNX model, which runs in onnxruntime where it is installed, else in onnx's own evaluator.

    Its results are arrays, and lists of them for sequences. Raises :class:`VerificationError`, in every method, where
    the model or a part of it cannot be loaded or run.
    """

    def __init__(self, source: ModelSource) -> None:
        self.graph = ReferenceModel(source)
        self.name = ""
        self.by_definition = False
        """True where onnx's own evaluator runs everything, because onnxruntime refused what the other side takes."""
        self.processing = Recorded.from_text(
            next((entry.value for entry in self.graph.header.metadata_props if entry.key == METADATA), "")
        )
        self._evaluators: dict[tuple[Any, ...], Evaluate] = {}

    @property
    def input_names(self) -> Collection[str]:
        """The inputs that can be given, also those that have an initializer."""
        return {**self.graph.inputs, **self.graph.defaults}

    @property
    def output_names(self) -> Collection[str]:
        return self.graph.outputs

    def required_inputs(self, outputs: Sequence[str] | None) -> Collection[str]:
        """The inputs without an initializer that ``outputs`` need; None stands for the outputs of the model."""
        requested = self.graph.outputs if outputs is None else outputs
        read = read_by(self.graph.needed(requested)).union(requested)
        return [name for name in self.graph.inputs if name in read]

    def run(
        self, feeds: Mapping[str, Any], extra: Sequence[str] = (), *, plain: bool = False, only: bool = False
    ) -> dict[str, Any]:
        # Sessions are kept for later runs.
        relaxed = tuple(name for name in self.graph.inputs if not self.graph.is_accepted(name, feeds.get(name)))
        relaxed += tuple(name for name in self.graph.defaults if name in feeds)
        key = (relaxed, tuple(extra), plain, only, self.by_definition)
        if key not in self._evaluators:
            as_it_is = not relaxed and not only and all(name in self.graph.outputs for name in extra)
            source = None if as_it_is else self.graph.whole(feeds, extra, only=only)
            self._evaluators[key] = self._load(source, plain=plain)
        return self._evaluators[key](feeds)

    def run_by_definition(self, feeds: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
        """``outputs`` as onnx's own evaluator computes them, from the operators' definitions."""
        evaluate = define(self.graph, self.graph.whole(feeds, outputs, only=True))
        with np.errstate(all="ignore"):
            return evaluate(feeds)

    def part(self, nodes: Sequence[Node], feeds: Mapping[str, Any], outputs: Sequence[str]) -> Evaluate:
        """Prepare some nodes alone, without fusions, for inputs of the types and shapes of ``feeds``."""
        return self._load(self.graph.part(nodes, feeds, outputs), plain=True)

    def define_part(self, nodes: Sequence[Node], feeds: Mapping[str, Any], output: str) -> Array | None:
        """A tensor of some nodes alone by onnx's own evaluator; None where it cannot."""
        try:
            with np.errstate(all="ignore"):
                return np.asarray(define(self.graph, self.graph.part(nodes, feeds, [output]))(feeds)[output])
        except VerificationError:
            return None

    def _load(self, model: onnx.ModelProto | None, *, plain: bool) -> Evaluate:
        evaluate, self.name = load(self.graph, model, plain=plain, by_definition=self.by_definition)
        return evaluate

    def declared(self, name: str) -> PartialShape:
        return self.graph.declared(name)

    def typed(self, feeds: dict[str, Array]) -> dict[str, Array]:
        return {name: self.graph.typed(name, value) for name, value in feeds.items()}

    def inner_outputs(self, ports: Sequence[Port]) -> tuple[str, ...]:
        graph = self.graph
        return tuple(
            next(name for name in port.names if name in graph.computed)
            for port in ports
            if not any(name in graph.outputs for name in (port.name, *port.names))
            and any(name in graph.computed for name in port.names)
        )


class IrReference(Reference):
    """Another IR, executed in NumPy."""

    def __init__(self, model: Model) -> None:
        self._engine = engine_for("numpy", model)
        self.name = "the other IR in NumPy"
        self.processing = Recorded.of(model)

    @property
    def input_names(self) -> Collection[str]:
        return by_names(self._engine.inputs, self._engine.inputs)

    def run(
        self, feeds: Mapping[str, Array], extra: Sequence[str] = (), *, plain: bool = False, only: bool = False
    ) -> dict[str, Array]:
        values = run_by_names(self._engine, feeds)
        return {port.name: values[port.name] for port in self._engine.outputs}


def run_by_names(engine: Engine, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of ``engine`` by each of their names, for inputs by any of theirs, in whatever types."""
    ports = by_names(engine.inputs, engine.inputs)
    feeds_by_port = {
        ports[name].name: np.asarray(value, ports[name].dtype) for name, value in feeds.items() if name in ports
    }
    return by_names(engine.outputs, engine.run(feeds_by_port))


def reference_for(source: ModelSource | Model) -> Reference:
    """The reference ``source``: an IR where it is a model of the IR or a path that ends in ``.xml``."""
    if isinstance(source, Model):
        return IrReference(source)
    if isinstance(source, (str, os.PathLike)) and Path(source).suffix.lower() == ".xml":
        return IrReference(read_model(source))
    return OnnxReference(source)
