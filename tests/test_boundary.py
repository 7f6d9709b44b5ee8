"""One boundary: what is public returns, or raises an error that says whose fault it is."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter import errors
from ir_runtime.boundary import boundary
from ir_runtime.execution.session import Session, States
from tests.commands import two_inputs
from tests.ir_runtime.execution.stateful import counter

DECORATORS = {
    "onnx_op": "runs while the module of its author is imported, which shows the traceback",
    "operation": "runs while the module of its author is imported, which shows the traceback",
}
"""Public functions without a boundary, with the reason."""

METHODS: list[Callable[..., Any]] = [
    ir_runtime.Model.reshape,
    ir_runtime.CompiledModel.__call__,
    ir_runtime.CompiledModel.profile,
    Session.__call__,
    Session.profile,
    States.__setitem__,
]
"""Public methods that use objects of the caller."""


def functions() -> dict[str, Callable[..., Any]]:
    """The functions that both packages export."""
    public = [(name, getattr(package, name)) for package in (converter, ir_runtime) for name in package.__all__]
    return {name: value for name, value in public if inspect.isfunction(value) and name not in DECORATORS}


PUBLIC = [*functions().values(), *METHODS]


class Planted(Exception):
    """What no function of the packages raises."""


def raise_in(code: Any, call: Callable[[], Any]) -> None:
    """Run ``call``; :class:`Planted` is raised as the first line of the function with ``code``."""

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is code and event == "line":
            raise Planted("here")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("function", PUBLIC, ids=lambda function: function.__qualname__)
def test_everything_public_goes_through_the_boundary(function: Callable[..., Any]) -> None:
    """An exception that nobody expects, raised in the function, leaves it as one that callers may expect."""
    required = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
    ]
    positional = [None for parameter in required if parameter.kind is not parameter.KEYWORD_ONLY]
    named = {parameter.name: None for parameter in required if parameter.kind is parameter.KEYWORD_ONLY}
    with pytest.raises(ir_runtime.ModelError, match=rf"{function.__name__} cannot use .*Planted: here") as caught:
        raise_in(inspect.unwrap(function).__code__, lambda: function(*positional, **named))
    assert not isinstance(caught.value, ir_runtime.InternalError)
    with pytest.raises(ir_runtime.ModelError, match="no_such_argument"):
        function(*positional, **named, no_such_argument=1)


def test_there_is_one_root_and_one_internal_error() -> None:
    assert converter.InternalError is ir_runtime.InternalError is errors.InternalError
    assert issubclass(converter.InternalError, converter.ConversionError)
    for package in (converter, ir_runtime):
        public = [value for name in package.__all__ if inspect.isclass(value := getattr(package, name))]
        for error in [value for value in public if issubclass(value, Exception)]:
            assert issubclass(error, ir_runtime.ModelError)
    named = [one for one in subclasses(Exception) if one.__module__.split(".")[0] in ("converter", "ir_runtime")]
    assert [one for one in named if one.__name__ == "InternalError"] == [ir_runtime.InternalError]


def subclasses(kind: type) -> set[type]:
    return {one for direct in kind.__subclasses__() for one in (direct, *subclasses(direct))}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("boundary")
    onnx.save(two_inputs(), folder / "m.onnx")
    model = converter.convert_model(folder / "m.onnx")
    converter.save_model(model, folder / "m.xml")
    ir_runtime.write_model(counter(6), folder / "counter.xml")
    return folder


FEEDS = {"x": np.ones((1, 3), np.float32), "y": np.ones((1, 3), np.float32)}
WORK: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "convert_model": (
        "converter.conversion.translate_dynamic",
        lambda files: converter.convert_model(files / "m.onnx"),
    ),
    "save_model": (
        "ir_runtime.files.xml_writer._document",
        lambda files: converter.save_model(ir_runtime.read_model(files / "m.xml"), files / "n.xml"),
    ),
    "export_model": ("converter.to_onnx.export._check_ends", lambda files: converter.export_model(files / "m.xml")),
    "save_onnx": (
        "converter.to_onnx.export.graph_message",
        lambda files: converter.save_onnx(files / "m.xml", files / "n.onnx"),
    ),
    "verify": (
        "converter.equivalence.runs.Runs.compare",
        lambda files: converter.verify(files / "m.onnx", files / "m.xml", inputs=FEEDS),
    ),
    "make_stateless": (
        "converter.states.stateless._check",
        lambda files: converter.make_stateless(ir_runtime.read_model(files / "counter.xml")),
    ),
    "round_trip": (
        "ir_runtime.graph.model_difference.ModelDifference.__init__",
        lambda files: converter.round_trip(files / "m.xml"),
    ),
    "read_model": ("ir_runtime.files.xml_reader.find_operation", lambda files: ir_runtime.read_model(files / "m.xml")),
    "write_model": (
        "ir_runtime.files.xml_writer._document",
        lambda files: ir_runtime.write_model(ir_runtime.read_model(files / "m.xml"), files / "n.xml"),
    ),
    "compile_model": (
        "ir_runtime.execution.variables.Calls",
        lambda files: ir_runtime.compile_model(ir_runtime.read_model(files / "m.xml")),
    ),
    "reshape": (
        "ir_runtime.graph.reshaping.infer_types",
        lambda files: ir_runtime.read_model(files / "m.xml").reshape({"x": [2, 3], "y": [2, 3]}),
    ),
    "call": (
        "ir_runtime.execution.variables.Steps.run",
        lambda files: ir_runtime.compile_model(ir_runtime.read_model(files / "m.xml"))(FEEDS),
    ),
}
"""A public function -> what it calls, in which a fault is planted, and a call that is right."""


@pytest.mark.parametrize("name", WORK)
def test_a_fault_in_the_work_is_not_blamed_on_arguments(
    name: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, call = WORK[name]

    space: dict[str, Any] = {"__name__": "ir_runtime.planted", "Planted": Planted}  # as the function that it replaces
    exec("def fail(*arguments, **named):\n    raise Planted('here')", space)
    monkeypatch.setattr(place, space["fail"])
    with pytest.raises(converter.InternalError, match=r"a fault of this package .*Planted: here.*: please report it"):
        call(files)


def test_lack_of_memory_and_refusals_of_the_system_are_told_from_faults() -> None:
    @boundary(error=ir_runtime.ExecutionError)
    def work(cause: Exception) -> None:
        with boundary("inside"):
            raise cause

    with pytest.raises(ir_runtime.ExecutionError, match=r"work needs more memory than there is"):
        work(MemoryError())
    with pytest.raises(ir_runtime.FileError, match="'there' cannot be used: No such file"):
        work(FileNotFoundError(2, "No such file", "there"))
    with pytest.raises(ir_runtime.InternalError, match=r"^inside failed by a fault of this package \(KeyError: 1\)"):
        work(KeyError(1))
    with pytest.raises(ir_runtime.FormatError, match=r"^as it is$"):
        work(ir_runtime.FormatError("as it is"))


def test_a_callback_that_fails_is_not_our_fault(files: Path) -> None:
    def each(row: Any) -> None:
        raise Planted("here")

    with pytest.raises(converter.ConversionError, match="Planted: here") as caught:
        converter.convert_many(files / "m.onnx", files / "many", each=each)
    assert not isinstance(caught.value, converter.InternalError)
