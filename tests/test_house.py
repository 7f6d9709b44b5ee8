"""The rooms of the house and their boundary: what may import what, and whose fault an error is."""

from __future__ import annotations

import ast
import functools
import graphlib
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

# --- the rooms of the house: which packages a package may import, lazily in functions as well ---

ROOT = Path(__file__).parent.parent

RUNTIME = {
    "ir_runtime.lazy": set[str](),
    "ir_runtime.records": set[str](),
    "ir_runtime.errors": {"ir_runtime.records"},
    "ir_runtime.registry": {"ir_runtime.errors", "ir_runtime.lazy"},
    "ir_runtime.boundary": {"ir_runtime.errors"},
    "ir_runtime.displayed": set(),
    "ir_runtime.threads": set(),
}
"""What everything in `ir_runtime` may import."""

FLOORS = ["ir_runtime.graph", "ir_runtime.operations", "ir_runtime.analysis", "ir_runtime.rewriting"]
"""Each may import those before it; whole files and execution, which stand on them, do not import each other."""

RUNTIME |= {room: {*RUNTIME, *FLOORS[:place]} for place, room in enumerate(FLOORS)}
RUNTIME |= {room: set(RUNTIME) for room in ("ir_runtime.files", "ir_runtime.execution")}
RUNTIME["ir_runtime.report"] = set(RUNTIME)
RUNTIME["ir_runtime"] = set(RUNTIME)

MODEL_TO_MODEL = {"ir_runtime", "converter.errors"}
"""What takes and gives an IR knows nothing of ONNX."""

_PASSES = ["converter.passes.channel_factors", "converter.passes.compression"]
CONVERTER = {
    "converter.errors": {"ir_runtime"},
    **{f"converter.{_room}": set[str]() for _room in ("stages", "version")},
    "converter.passes.channel_factors": {"ir_runtime"},
    "converter.passes.derivation": {"ir_runtime", "converter.version"},
    "converter.passes": {*MODEL_TO_MODEL, "converter.passes.channel_factors"},
    "converter.passes.compression": {*MODEL_TO_MODEL, "converter.stages"},  # progress
    "converter.passes.states": {*MODEL_TO_MODEL, "converter.passes.compression", "converter.passes.derivation"},
    "converter.passes.preprocessing": {*MODEL_TO_MODEL, *_PASSES},
    "converter.targets": {*MODEL_TO_MODEL, "converter.passes"},  # decompositions
    "converter.onnx_file": {"ir_runtime", "converter.errors"},
    "converter.passes.before_export": {*MODEL_TO_MODEL, "converter.onnx_file"},
}
CONVERTER["converter.options"] = {"ir_runtime", *CONVERTER}  # those before it
CONVERTER["converter.from_onnx"] = {*MODEL_TO_MODEL, "converter.stages", "converter.onnx_file", "converter.options"}
CONVERTER["converter.to_onnx"] = {*CONVERTER["converter.options"], "converter.options"}
_ROOMS = ["conversion", "editing", "folders"]
_ROOMS += [
    f"equivalence.{_room}" for _room in ("reference", "inputs", "comparison", "derivation", "weights", "verdict")
]
for _room in (*_ROOMS, "equivalence", "workflow", "report", "command_line"):
    CONVERTER[f"converter.{_room}"] = {"ir_runtime", *CONVERTER}  # those before it
CONVERTER["converter.__main__"] = {"converter.command_line"}
CONVERTER["converter"] = {"ir_runtime", *CONVERTER}

ALLOWED = {**RUNTIME, **CONVERTER}
"""Room -> the rooms that it may import; `ir_runtime` stands for all of that package."""

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in ("converter", "ir_runtime")
    for path in sorted((ROOT / package).rglob("*.py"))
}
"""Every module by its dotted name."""


@functools.cache
def imports_in(path: Path) -> list[tuple[ast.AST, bool]]:
    """What imports in a file, wherever it stands, and whether it is for type checkers alone."""
    tree = ast.parse(path.read_bytes())
    blocks = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    ]
    for_types = {node for block in blocks for statement in block.body for node in ast.walk(statement)}
    imports = (ast.Import, ast.ImportFrom, ast.Call)
    return [(node, node in for_types) for node in ast.walk(tree) if isinstance(node, imports)]


@functools.cache
def imported_by(name: str, path: Path, *, runs: bool = False) -> set[str]:
    """The modules of the two packages that a module imports, wherever the import stands.

    `importlib.import_module("...")` of a name that is spelled out counts as well. With ``runs`` imports for type
    checkers alone do not.
    """
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in [node for node, is_for_types in imports_in(path) if not (runs and is_for_types)]:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {full if (full := f"{base}.{alias.name}") in MODULES else base for alias in node.names}
        elif getattr(node.func, "attr", "") == "import_module" and node.args:
            first = node.args[0]
            found |= {first.value} if isinstance(first, ast.Constant) and isinstance(first.value, str) else set()
    return {target for target in found if target.split(".")[0] in ("converter", "ir_runtime")}


def room_of(module: str) -> str:
    """The package or module directly in `converter` or `ir_runtime`, or the room that is listed within it."""
    names = module.split(".")
    inner = ".".join(names[:3])
    return inner if inner in ALLOWED else ".".join(names[:2])


def arrows() -> dict[tuple[str, str], list[str]]:
    """(room, room that it imports) -> the modules that do."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, path in MODULES.items():
        for target in imported_by(name, path):
            if room_of(target) != room_of(name):
                found.setdefault((room_of(name), room_of(target)), []).append(f"{name} imports {target}")
    return found


def is_allowed(room: str, target: str) -> bool:
    allowed = ALLOWED[room]
    return target in allowed or (not room.startswith("ir_runtime") and target.split(".")[0] in allowed - {"converter"})


def test_every_room_is_listed() -> None:
    assert {room_of(name) for name in MODULES} == set(ALLOWED)
    assert len({".".join(name.split(".")[:2]) for name in MODULES if name.startswith("converter.")}) <= 18


def test_imports_go_down() -> None:
    wrong = {arrow: where for arrow, where in arrows().items() if not is_allowed(*arrow)}
    assert not wrong


def test_there_are_no_circles_of_files() -> None:
    """Imports that run count, in functions as well: those for type checkers alone make no circle, but count above."""
    graph = {name: imported_by(name, path, runs=True) - {name} for name, path in MODULES.items()}
    graphlib.TopologicalSorter(graph).prepare()  # it raises an error with the circle


def test_nothing_displays_but_reports() -> None:
    """Whoever needs rich or HTML asks `report` of the package; data and commands do not draw."""
    display = {"rich", "html"}
    drawing = {
        name
        for name, path in MODULES.items()
        for node, _ in imports_in(path)
        if (isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in display and not node.level)
        or (isinstance(node, ast.Import) and display & {alias.name.split(".")[0] for alias in node.names})
    }
    assert {room_of(name) for name in drawing} == {"converter.report", "ir_runtime.report"}


FLOORS_OF_FROM_ONNX = ["translation", "lowering", "operators", "support"]


def test_imports_go_down_within_from_onnx() -> None:
    """A node's translation knows no building block, a building block no operator."""
    floors = {f"converter.from_onnx.{name}": place for place, name in enumerate(FLOORS_OF_FROM_ONNX)}
    wrong = [
        f"{name} imports {target}"
        for name, path in MODULES.items()
        for target in imported_by(name, path)
        if floors.get(_floor_of(target), 0) > floors.get(_floor_of(name), len(floors))
    ]
    assert not wrong


def _floor_of(module: str) -> str:
    return ".".join(module.split(".")[:3])


def test_imports_in_functions_and_relative_ones_are_seen(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("""
from .context import Context
def lazy():
    import converter.report
    from converter.onnx_file import messages
    importlib.import_module('ir_runtime.operations')
if TYPE_CHECKING:
    import ir_runtime.files
""")
    run = {"converter.from_onnx.translation.context", "converter.report", "converter.onnx_file.messages"}
    run |= {"ir_runtime.operations"}
    name = "converter.from_onnx.translation.module"
    assert imported_by(name, tmp_path / "module.py") == {*run, "ir_runtime.files"}
    assert imported_by(name, tmp_path / "module.py", runs=True) == run


# --- one boundary: what is public returns, or raises an error that says whose fault it is ---

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


def ir(files: Path, name: str = "m") -> ir_runtime.Model:
    return ir_runtime.read_model(files / f"{name}.xml")


FEEDS = {"x": np.ones((1, 3), np.float32), "y": np.ones((1, 3), np.float32)}
WORK: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "convert_model": ("converter.conversion.convert.translate_dynamic",
        lambda files: converter.convert_model(files / "m.onnx")),
    "save_model": ("ir_runtime.files.xml_writer._document", lambda files: converter.save_model(ir(files),
        files / "n.xml")),
    "export_model": ("converter.to_onnx.export._check_ends", lambda files: converter.export_model(files / "m.xml")),
    "save_onnx": ("converter.to_onnx.export.name_model",
                  lambda files: converter.save_onnx(files / "m.xml", files / "n.onnx")),
    "verify": ("converter.equivalence.comparison.runs.Runs.compare",
               lambda files: converter.verify(files / "m.onnx", files / "m.xml", inputs=FEEDS)),
    "make_stateless": ("converter.passes.states.stateless._check", lambda files: converter.make_stateless(ir(files,
        "counter"))),
    "round_trip": ("ir_runtime.graph.model_difference.ModelDifference.__init__",
                   lambda files: converter.round_trip(files / "m.xml")),
    "read_model": ("ir_runtime.files.xml_reader.find_operation", lambda files: ir(files)),
    "write_model": ("ir_runtime.files.xml_writer._document", lambda files: ir_runtime.write_model(ir(files),
        files / "n.xml")),
    "compile_model": ("ir_runtime.execution.variables.Calls", lambda files: ir_runtime.compile_model(ir(files))),
    "reshape": ("ir_runtime.graph.reshaping.infer_types", lambda files: ir(files).reshape({"x": [2, 3], "y": [2, 3]})),
    "call": ("ir_runtime.execution.variables.Steps.run", lambda files: ir_runtime.compile_model(ir(files))(FEEDS)),
}  # fmt: skip
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
