"""Engines that run the IR side of a comparison: NumPy, or OpenVINO where it is installed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import VerificationError
from ir_runtime import CompiledModel, Model, ModelError, Port, compile_model, model_to_bytes
from ir_runtime.boundary import boundary
from ir_runtime.execution.ports import ports_of
from ir_runtime.files.xml_writer import write_model
from ir_runtime.graph import Array, Output
from ir_runtime.records import record

ENGINES = ("numpy", "openvino", "openvino-default")


@record
class Engine:
    """``model`` ready to run: its ports, and a function from inputs by name to the outputs in order.

    ``precision`` is the element type in which it computes real numbers; empty for the model's own.
    """

    name: str
    model: Model
    inputs: Sequence[Port]
    outputs: Sequence[Port]
    run: Callable[[Mapping[str, Array]], list[Array]]
    precision: str = ""
    compile_part: Callable[[Model], Engine] | None = None
    """Another model in the same engine, such as a part of this one; None for NumPy."""


def engine_for(name: str, model: Model, path: str | os.PathLike[str] | None = None) -> Engine:
    """``model`` in the engine called ``name``; ``path`` is where it is stored, if it is.

    ``numpy`` is our executor, ``openvino`` OpenVINO's CPU plug-in computing float32 as such, ``openvino-default``
    the same in the precision that it chooses by itself. Raises :class:`VerificationError` for other names, and where
    the engine does not take the model.
    """
    check_engine(name)
    _check_results(model)
    if name == "numpy":
        compiled = compile_model(model)
        return Engine("NumPy", model, compiled.inputs, compiled.outputs, lambda feeds: _run_here(compiled, feeds))
    check_engine(name)
    precision = None if name == "openvino-default" else "f32"
    return replace(_openvino(model, path, precision), compile_part=lambda part: _openvino(part, None, precision))


@boundary("the engine", reads=VerificationError)
def check_engine(name: object) -> None:
    """Raises :class:`VerificationError` where there is no engine of this name."""
    if name not in ENGINES:
        raise VerificationError(f"the engine must be {', '.join(ENGINES)}, not {name!r}")


def _check_results(model: Model) -> None:
    """Raises :class:`VerificationError` where a name does not lead to one output: callers ask for outputs by name."""
    by_tensor: dict[Output, tuple[str, ...]] = {}
    by_name: dict[str, Output] = {}
    for node, port in zip(model.results, ports_of(model)[1]):
        source = node.inputs[0]
        names = by_tensor.setdefault(source, port.names)
        if set(names) != set(port.names):
            raise VerificationError(
                f"the outputs {list(names)} and {list(port.names)} of the IR share one tensor, that of "
                f"{source.node.where}, and a tensor keeps the names of one of them alone: "
                f"each Result needs a tensor of its own"
            )
        for name in port.names:
            if by_name.setdefault(name, source) is not source:
                raise VerificationError(f"two outputs of the IR are called '{name}': which one is meant is not known")


def _place(port: Port, index: int, known: Sequence[Collection[str]]) -> int:
    """Which output of a compiled model ``port`` is, by its names; by its place, ``index``, where it has none.

    ``known`` are the names of the compiled model's outputs. Raises :class:`VerificationError` where a name is missing
    or leads to another output.
    """
    found: dict[int, str] = {}
    for name in port.names:
        places = [place for place, names in enumerate(known) if name in names]
        if not places:
            there = [sorted(names) for names in known]
            raise VerificationError(f"the compiled model has no output '{name}'; its outputs are {there}")
        found.setdefault(index if index in places else places[0], name)
    if len(found) > 1:
        raise VerificationError(
            f"names of the output '{port.name}' lead to different outputs of the compiled model: {list(port.names)}"
        )
    return next(iter(found), index)


def _run_here(compiled: CompiledModel, feeds: Mapping[str, Array]) -> list[Array]:
    try:
        found = compiled(feeds)
        return [found[port.name] for port in compiled.outputs]
    except ModelError as error:
        raise VerificationError(f"the IR cannot be run on these inputs: {error}") from error


def _openvino(model: Model, path: str | os.PathLike[str] | None, precision: str | None) -> Engine:
    try:
        import openvino
    except ImportError as error:
        raise VerificationError("the engine openvino is not installed: pip install openvino") from error
    inputs, outputs = ports_of(model)
    core = openvino.Core()
    settings = {} if precision is None else _settings(core, precision)

    def compile_ir() -> Any:
        try:
            if path is not None:
                return core.compile_model(core.read_model(os.fspath(path)), "CPU", settings)
            # The compiled model no longer needs the files: their mapped pages stay readable.
            with tempfile.TemporaryDirectory() as folder:
                return core.compile_model(_stored(core, model, Path(folder)), "CPU", settings)
        except RuntimeError as error:
            raise VerificationError(f"OpenVINO does not take the IR: {error}") from error

    compiled = compile_ir()
    computed = str(compiled.get_property("INFERENCE_PRECISION_HINT").to_string())
    known = [set(output.names) for output in compiled.outputs]
    places = [_place(port, index, known) for index, port in enumerate(outputs)]

    def run(feeds: Mapping[str, Array]) -> list[Array]:
        nonlocal compiled
        given = {index: feeds[port.name] for index, port in enumerate(inputs)}
        compiled = compiled or compile_ir()
        try:
            request = compiled.create_infer_request()
            request.infer(given)
            return [
                np.array(request.get_output_tensor(place).data).astype(port.dtype, copy=False)
                for place, port in zip(places, outputs)
            ]
        except RuntimeError as error:
            # Once a shape was refused, the plug-in's results for others are wrong (2026.4).
            compiled = None
            raise VerificationError(f"OpenVINO cannot run the IR on these inputs: {error}") from error

    name = f"OpenVINO {openvino.__version__.partition('-')[0]} in {computed}"
    return Engine(name, model, inputs, outputs, run, computed if computed in ("bf16", "f16") else "")


_DYNAMIC_QUANTIZATION = "DYNAMIC_QUANTIZATION_GROUP_SIZE"


def _settings(core: Any, precision: str) -> dict[str, str]:
    """The plug-in's settings with which it computes everything in ``precision``."""
    settings = {"INFERENCE_PRECISION_HINT": precision}
    if _DYNAMIC_QUANTIZATION in core.get_property("CPU", "SUPPORTED_PROPERTIES"):
        # Products with compressed weights round the data to 8 bits, whatever the hint is.
        settings[_DYNAMIC_QUANTIZATION] = "0"
    return settings


def _stored(core: Any, model: Model, folder: Path) -> Any:
    write_model(model, folder / "model.xml")
    return core.read_model(str(folder / "model.xml"))


@record
class StepEngine:
    """A stateful model ready to run step by step: outputs by name from inputs by name, and what forgets the past."""

    name: str
    run: Callable[[Mapping[str, Array]], dict[str, Array]]
    reset: Callable[[], None]


def session_in(name: str, model: Model, path: str | os.PathLike[str] | None = None) -> StepEngine:
    """A session of ``model`` in the engine called ``name``: see :func:`engine_for`. OpenVINO's caches are float32."""
    check_engine(name)
    if name == "numpy":
        session = compile_model(model).session()
        return StepEngine("NumPy", lambda feeds: dict(session(feeds)), session.reset)
    try:
        import openvino
    except ImportError as error:
        raise VerificationError("the engine openvino is not installed: pip install openvino") from error
    core = openvino.Core()
    settings = {} if name == "openvino-default" else {**_settings(core, "f32"), "KV_CACHE_PRECISION": "f32"}
    read = core.read_model(path) if path is not None else core.read_model(*model_to_bytes(model))
    request = core.compile_model(read, "CPU", settings).create_infer_request()

    def run(feeds: Mapping[str, Array]) -> dict[str, Array]:
        request.infer(dict(feeds))
        return {
            alias: np.array(request.get_tensor(port).data) for port in request.model_outputs for alias in port.names
        }

    return StepEngine(f"OpenVINO {openvino.__version__.split('-')[0]}", run, request.reset_state)
