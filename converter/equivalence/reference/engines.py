"""Engines that run the IR side of a comparison: NumPy, or OpenVINO where it is installed."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from converter.equivalence.reference.devices import Device
from converter.errors import VerificationError
from ir_runtime import CompiledModel, Model, ModelError, Port, compile_model
from ir_runtime.boundary import boundary
from ir_runtime.execution.ports import ports_of
from ir_runtime.graph import Array, Output
from ir_runtime.records import record

T = TypeVar("T")
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
    notes: Sequence[str] = ()
    """Remarks on what is compared."""


def by_names(ports: Iterable[Port], values: Iterable[T]) -> dict[str, T]:
    """Return what belongs to each port by every name of that port."""
    return {name: value for port, value in zip(ports, values) for name in (port.name, *port.names)}


_NOT_ASKED = "OpenVINO itself was not asked: the IR ran in NumPy (--engine openvino)"


def engine_for(
    name: str,
    model: Model,
    path: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    config: Mapping[str, Any] | None = None,
) -> Engine:
    """``model`` in the engine called ``name``; ``path`` is where it is stored, if it is.

    ``numpy`` is our executor, ``openvino`` OpenVINO's ``device`` (the CPU where it is None) computing float32 as such,
    ``openvino-default`` the same in the precision that it chooses by itself; ``config`` has properties of the device.
    Raises :class:`VerificationError` for other names, and where the engine does not take the model.
    """
    check_engine(name)
    _check_results(model)
    if name == "numpy":
        compiled = compile_model(model)
        run = functools.partial(_run_here, compiled)
        return Engine("NumPy", model, compiled.inputs, compiled.outputs, run, notes=[_NOT_ASKED])
    chosen = Device(device, config or {}, in_float32=name == "openvino")
    return replace(_openvino(model, path, chosen), compile_part=lambda part: _openvino(part, None, chosen))


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


def _place(port: Port, index: int, names_of_outputs: Sequence[Collection[str]]) -> int:
    """Find the output of a compiled model that is ``port``, by its names or, without any, by its ``index``.

    ``names_of_outputs`` are those of the compiled model. Raises :class:`VerificationError` where a name is missing or
    leads to another output.
    """
    names_by_place: dict[int, str] = {}
    for name in port.names:
        places = [place for place, names in enumerate(names_of_outputs) if name in names]
        if not places:
            there = [sorted(names) for names in names_of_outputs]
            raise VerificationError(f"the compiled model has no output '{name}'; its outputs are {there}")
        names_by_place.setdefault(index if index in places else places[0], name)
    if len(names_by_place) > 1:
        raise VerificationError(
            f"names of the output '{port.name}' lead to different outputs of the compiled model: {list(port.names)}"
        )
    return next(iter(names_by_place), index)


def _run_here(compiled: CompiledModel, feeds: Mapping[str, Array]) -> list[Array]:
    try:
        results = compiled(feeds)
        return [results[port.name] for port in compiled.outputs]
    except ModelError as error:
        raise VerificationError(f"the IR cannot be run on these inputs: {error}") from error


def _openvino(model: Model, path: str | os.PathLike[str] | None, device: Device) -> Engine:
    inputs, outputs = ports_of(model)
    compiled = device.compiled(model, path)
    name, precision = device.described(compiled)
    names_of_outputs = [set(output.names) for output in compiled.outputs]
    places = [_place(port, index, names_of_outputs) for index, port in enumerate(outputs)]

    def run(feeds: Mapping[str, Array]) -> list[Array]:
        nonlocal compiled
        inputs_by_place = {index: feeds[port.name] for index, port in enumerate(inputs)}
        compiled = compiled or device.compiled(model, path)
        try:
            request = compiled.create_infer_request()
            request.infer(inputs_by_place)
            return [
                np.array(request.get_output_tensor(place).data).astype(port.dtype, copy=False)
                for place, port in zip(places, outputs)
            ]
        except RuntimeError as error:
            # Once a shape was refused, the plug-in's results for others are wrong (2026.4).
            compiled = None
            raise VerificationError(f"OpenVINO cannot run the IR on these inputs: {error}") from error

    return Engine(name, model, inputs, outputs, run, precision)


@record
class StepEngine:
    """A stateful model ready to run step by step: a function from inputs to outputs by name, and a reset."""

    name: str
    run: Callable[[Mapping[str, Array]], dict[str, Array]]
    reset: Callable[[], None]


def session_in(
    name: str,
    model: Model,
    path: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    config: Mapping[str, Any] | None = None,
) -> StepEngine:
    """A session of ``model`` in the engine called ``name``: see :func:`engine_for`.

    The caches of the engine ``openvino`` are float32.
    """
    check_engine(name)
    if name == "numpy":
        session = compile_model(model).session()
        return StepEngine("NumPy", lambda feeds: dict(session(feeds)), session.reset)
    chosen = Device(device, config or {}, in_float32=name == "openvino")
    compiled = chosen.compiled(model, path)
    request = compiled.create_infer_request()

    def run(feeds: Mapping[str, Array]) -> dict[str, Array]:
        request.infer(dict(feeds))
        return {
            alias: np.array(request.get_tensor(port).data) for port in request.model_outputs for alias in port.names
        }

    return StepEngine(chosen.described(compiled)[0], run, request.reset_state)
