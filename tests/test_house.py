"""The rooms of the house: which packages a package may import, lazily in functions as well.

A room is a package or module directly in `converter` or `ir_runtime`. Imports go down one way; so there are no circles
of rooms.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

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

CONVERTER = {
    "converter.errors": {"ir_runtime"},
    "converter.stages": set(),
    "converter.channel_factors": {"ir_runtime"},
    "converter.derivation": {"ir_runtime", "converter"},  # the version
    "converter.passes": {*MODEL_TO_MODEL, "converter.channel_factors"},
    "converter.compression": {*MODEL_TO_MODEL, "converter.stages"},  # progress
    "converter.states": {*MODEL_TO_MODEL, "converter.compression", "converter.derivation"},
    "converter.targets": {*MODEL_TO_MODEL, "converter.passes"},  # decompositions
    "converter.preprocessing": {*MODEL_TO_MODEL, "converter.channel_factors", "converter.compression"},
    "converter.onnx_file": {"ir_runtime", "converter.errors"},
    "converter.from_onnx": {"ir_runtime", "converter.errors", "converter.stages", "converter.onnx_file"},
}
for _room in ("option_values", "options", "verification_options", "export_options"):
    CONVERTER[f"converter.{_room}"] = {"ir_runtime", *CONVERTER}  # those before it
CONVERTER["converter.to_onnx"] = {
    *CONVERTER["converter.from_onnx"],
    "converter.options",
    "converter.export_options",
    "converter.passes",
    "converter.compression",
    "converter.preprocessing",
    "converter.states",
    "converter.targets",
}
for _room in (
    "from_ir",
    "conversion",
    "optimization_options",
    "optimization",
    "editing_options",
    "editing",
    "language_models",
    "pipelines",
    "equivalence",
    "workflow",
    "round_trips",
    "batch",
    "report",
    "command_line",
    "browser",
):
    CONVERTER[f"converter.{_room}"] = {"ir_runtime", *CONVERTER}  # those before it
CONVERTER["converter.batch"].add("converter")  # the version
CONVERTER["converter.report"].add("converter")
CONVERTER["converter.command_line"].add("converter")
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
    """The package or module directly in `converter` or `ir_runtime`; these themselves for their own files."""
    return ".".join(module.split(".")[:2])


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


def test_imports_go_down() -> None:
    wrong = {arrow: where for arrow, where in arrows().items() if not is_allowed(*arrow)}
    assert not wrong


def test_there_are_no_circles_of_files() -> None:
    """Imports that run count, in functions as well: those for type checkers alone make no circle, but count above."""
    assert circles_in({name: imported_by(name, path, runs=True) for name, path in MODULES.items()}) == []


def circles_in(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module, by Tarjan's algorithm."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        path.append(name)
        for target in sorted(graph.get(name, set()) - {name}):
            if target not in number:
                visit(target)
                lowest[name] = min(lowest[name], lowest[target])
            elif target in path:
                lowest[name] = min(lowest[name], number[target])
        if lowest[name] == number[name]:
            circle = path[path.index(name) :]
            del path[path.index(name) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    for name in sorted(graph):
        if name not in number:
            visit(name)
    return found


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"d", "e"}, "e": set(), "f": {"g"}, "g": {"f", "a"}}
    assert circles_in(graph) == [["a", "b", "c"], ["f", "g"]]


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
    source = (
        "from .context import Context\n"
        "def lazy():\n"
        "    import converter.report\n"
        "    from converter.onnx_file import messages\n"
        "    importlib.import_module('ir_runtime.operations')\n"
        "if TYPE_CHECKING:\n"
        "    import ir_runtime.files\n"
    )
    (tmp_path / "module.py").write_text(source)
    run = {
        "converter.from_onnx.translation.context",
        "converter.report",
        "converter.onnx_file.messages",
        "ir_runtime.operations",
    }
    name = "converter.from_onnx.translation.module"
    assert imported_by(name, tmp_path / "module.py") == {*run, "ir_runtime.files"}
    assert imported_by(name, tmp_path / "module.py", runs=True) == run
