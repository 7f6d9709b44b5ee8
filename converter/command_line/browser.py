"""The commands in a web page: what differs where Python runs as WebAssembly, as in Pyodide.

The page (``docs/site/try``) sends the name of a command, files and the values of a form; the command itself is that of
the command line, with its messages, errors and exit codes. onnxruntime is there as JavaScript alone, whose calls are
asynchronous: :func:`use_onnxruntime` provides the part of its Python interface that ``verify`` calls.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import io
import json
import os
import sys
import types
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from converter.command_line import main
from converter.command_line.option_groups import GROUPS
from converter.command_line.state import State
from converter.onnx_file.node_order import all_graphs
from converter.onnx_file.reader import open_model
from ir_runtime.report import size_text

COMMANDS = {"inspect": 1, "convert": 1, "verify": 2, "diff": 2, "export": 1, "optimize": 1}
"""The commands of the page, with the number of files that each takes."""
RESULTS = Path("results")
"""What commands write, below the folder of the files."""
MOST_BYTES = 1 << 30
"""The most bytes of a model that the page takes. Addresses have 32 bits, and a model is in memory up to three times:
as its file, as the weights that are converted, and as the IR.
"""
_PAGES_OWN = {"output_model", "report", "page", "as_json", "quiet", "verbose"}
"""Parameters that the page sets itself."""
_WITHOUT_PROCESSES = {"extensions", "device", "configuration", "attest", "attestation", "minimise"}
"""Parameters for files and devices of the machine, which a page cannot reach."""


def forms() -> list[dict[str, Any]]:
    """Return the commands with their options, which click has from the fields of the classes of options."""
    context = click.Context(main)
    commands = []
    for name, count in COMMANDS.items():
        command = main.get_command(context, name)
        assert command is not None
        options = [
            option
            for option in command.params
            if isinstance(option, click.Option) and option.name not in _PAGES_OWN | _WITHOUT_PROCESSES
        ]
        commands.append(
            {
                "name": name,
                "files": count,
                "help": (command.help or "").partition("\n\n")[0],
                "options": [_described(option, name) for option in options],
            }
        )
    return commands


def _described(option: click.Option, command: str) -> dict[str, Any]:
    """Return an option as the page needs it: how its value is typed in, its default, and its place in the form."""
    choices: Sequence[str] = ()
    category = "text"
    if option.is_flag:
        category = "switch" if not option.secondary_opts or isinstance(option.default, bool) else "choice"
        choices = [option.opts[0][2:], option.secondary_opts[0][2:]] if category == "choice" else ()
    elif isinstance(option.type, click.Choice):
        category, choices = "choice", list(option.type.choices)
    elif isinstance(option.type, click.Path):
        category = "file"
    elif isinstance(option.type, (click.types.IntParamType, click.types.FloatParamType)):
        category = "number"
    default = option.default if isinstance(option.default, (str, int, float, bool)) else None
    groups = GROUPS.get(command, {})
    return {
        "name": option.name,
        "label": max(option.opts, key=len),
        "category": category,
        "choices": list(choices),
        "default": default,
        "help": option.help or "",
        "group": next((group for group, names in groups.items() if option.name in names), "Options"),
    }


def arguments_of(command: str, files: Sequence[str], values: Mapping[str, Any]) -> list[str]:
    """Return the words of the command line for files and the values of a form, by the names of its options.

    Values that are None, empty or the default are left out. Results go to :data:`RESULTS`.
    """
    parameters = {option.name: option for option in _command(command).params if isinstance(option, click.Option)}
    words = [command, *files]
    for name, value in values.items():
        option = parameters[name]
        if value is None or value == "" or (not option.is_flag and value == option.default):
            continue
        if not option.is_flag:
            words += [max(option.opts, key=len), str(value)]
        elif isinstance(value, str):  # either of two words, without a default
            words.append(f"--{value}")
        elif value != bool(option.default is True):
            words.append((option.opts if value else option.secondary_opts)[-1])
    target = _target(command, files)
    if target is not None:
        words += ["-o", str(target)]
    page = "report" if "report" in parameters else "page"
    if page in parameters and _has_page(command, files, values):
        words += ["--report", str(_page(command))]
    return words


def _command(name: str) -> click.Command:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command


def _target(command: str, files: Sequence[str]) -> Path | None:
    """Return what a command writes for the first of its files, None for those that write nothing."""
    source = Path(files[0]) if files else Path()
    stem = source.stem or "folder"
    if source.is_dir():
        return RESULTS / stem if command in ("convert", "export") else None
    names = {"convert": f"{stem}.xml", "export": f"{stem}.onnx", "optimize": f"{stem}.optimized.onnx"}
    return RESULTS / names[command] if command in names else None


def _page(command: str) -> Path:
    return RESULTS / f"{command}.html"


def _has_page(command: str, files: Sequence[str], values: Mapping[str, Any]) -> bool:
    """True if a command writes an HTML page for these files and values."""
    if any(Path(name).is_dir() for name in files) or values.get("steps") or values.get("nodes"):
        return False
    return command != "export" or bool(values.get("check"))


class _Lines(io.TextIOBase):
    """A stream whose text a function gets."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show = show

    def write(self, text: str) -> int:
        if not isinstance(text, str):  # click asks streams whether they take bytes
            raise TypeError("text is required")
        self._show(text)
        return len(text)

    def isatty(self) -> bool:
        return False


def run(
    command: str, files: Sequence[str], values: Mapping[str, Any], show: Callable[[str, str], object]
) -> dict[str, Any]:
    """Run a command in the folder of the files; ``show`` gets tasks and messages (``task`` or ``message``, the text).

    The result has the exit code, the words of the command, what it printed, the page that it wrote, and its files.
    """
    arguments = arguments_of(command, files, values)
    RESULTS.mkdir(exist_ok=True)
    before = {path: path.stat().st_mtime_ns for path in _files(RESULTS)}
    _page(command).unlink(missing_ok=True)
    output = io.StringIO()
    messages = _Lines(lambda text: show("message", text))
    State.show_task = staticmethod(lambda task: show("task", task))
    exit_code = 0
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(messages):
            main.main(arguments, prog_name="onnx2ir")
    except SystemExit as end:
        exit_code = end.code if isinstance(end.code, int) else 1
    finally:
        State.show_task = None
    written = [path for path in _files(RESULTS) if before.get(path) != path.stat().st_mtime_ns]
    page = _page(command) if _page(command) in written else None
    return {
        "exit_code": exit_code,
        "arguments": arguments,
        "output": output.getvalue(),
        "page": page.read_text(encoding="utf-8") if page is not None else "",
        "files": [{"path": path.as_posix(), "size": path.stat().st_size} for path in written],
    }


def models() -> list[str]:
    """Return what commands may be given: folders that are recognised, then models, in the folder of the files."""
    from converter.errors import ConversionError
    from converter.folders.recognition import recognise

    files = [path for path in _files(Path()) if path.suffix.lower() in (".onnx", ".xml")]
    folders = sorted({parent for path in files for parent in path.parents if RESULTS not in (parent, *parent.parents)})
    recognised = []
    for folder in folders:
        with contextlib.suppress(ConversionError, OSError):
            recognise(folder)
            recognised.append(folder)
    return [path.as_posix() for path in (*recognised, *files)]


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def refusal_of(sizes: Mapping[str, int]) -> str:
    """Return why files of these sizes cannot be opened, before any is read; an empty text where they can."""
    total = sum(sizes.values())
    if total <= MOST_BYTES:
        return ""
    largest = max(sizes, key=lambda name: sizes[name])
    return (
        f"error: {largest} has {size_text(sizes[largest])}, all files {size_text(total)}, and this page takes "
        f"{size_text(MOST_BYTES)} at most: a browser gives it no more memory. Install the package: it has no such limit"
    )


def write_zip(paths: Sequence[str], target: str) -> None:
    """Pack files, by their names below :data:`RESULTS`, without compression: weights have next to none."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for path in paths:
            name = Path(path)
            archive.write(name, name.relative_to(RESULTS) if RESULTS in name.parents else name)


def use_onnxruntime(
    version: str, create: Callable[..., Any], run_session: Callable[..., Any], wait: Callable[[Any], Any]
) -> None:
    """Make ``import onnxruntime`` give sessions of JavaScript's onnxruntime-web.

    Both functions return, behind ``wait``, JSON and buffers; the JSON is ``{"error": text}`` where they fail.
    ``create(model, options, files)`` gives the number of a session, its ``inputs`` and its ``outputs`` (``name`` and
    ``type``). ``run_session(number, inputs, buffers)`` gives the ``outputs``: ``dims`` and ``type``, and ``strings``
    where these are the values; the others are the buffers. ``inputs`` is JSON of the same form.
    """

    def answer_of(promise: Any) -> tuple[dict[str, Any], Iterator[Any]]:
        text, buffers = wait(promise)
        answer = json.loads(text)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer, iter(buffers)

    class SessionOptions(types.SimpleNamespace):
        def __init__(self) -> None:
            super().__init__(entries={}, graph_optimization_level="extended", log_severity_level=3)

        def add_session_config_entry(self, key: str, value: str) -> None:
            self.entries[key] = value

    class OrtValue:
        @staticmethod
        def ortvalue_from_numpy_with_onnx_type(value: object, element_type: int) -> Any:
            raise TypeError("onnxruntime-web takes no bfloat16, float8 or types of 4 bits or fewer")

    class InferenceSession:
        def __init__(self, source: str | bytes, options: SessionOptions, providers: Sequence[str]) -> None:
            folder = options.entries.pop(_FOLDER, None)
            path = Path(source) if isinstance(source, str) else None
            root = Path(folder) if folder is not None else path.parent if path is not None else None
            files = [] if root is None else _external_files(source, root)
            described = {
                "graphOptimizationLevel": options.graph_optimization_level,
                "logSeverityLevel": options.log_severity_level,
                "entries": options.entries,
            }
            model = path.read_bytes() if path is not None else source
            session, _ = answer_of(create(model, json.dumps(described), files))
            self._number = session["session"]
            self._inputs, self._outputs = (
                [types.SimpleNamespace(name=port["name"], type=f"tensor({port['type']})") for port in session[side]]
                for side in ("inputs", "outputs")
            )

        def get_inputs(self) -> list[Any]:
            return self._inputs

        def get_outputs(self) -> list[Any]:
            return self._outputs

        def get_overridable_initializers(self) -> list[Any]:
            return []

        def run(self, names: None, feeds: Mapping[str, Any]) -> list[Any]:
            inputs, buffers = [], []
            for name, value in feeds.items():
                array = np.asarray(value)
                entry: dict[str, Any] = {"name": name, "dims": list(array.shape)}
                if array.dtype.char in "OSU":
                    entry.update(type="string", strings=[str(text) for text in array.reshape(-1)])
                else:
                    entry["type"] = array.dtype.name
                    buffers.append(np.ascontiguousarray(array).tobytes())
                inputs.append(entry)
            result, remaining = answer_of(run_session(self._number, json.dumps(inputs), buffers))
            return [_array(entry, remaining) for entry in result["outputs"]]

    module: Any = types.ModuleType("onnxruntime")
    module.__spec__ = importlib.machinery.ModuleSpec("onnxruntime", None)
    module.__version__ = f"{version} (WebAssembly)"
    module.SessionOptions, module.InferenceSession, module.OrtValue = SessionOptions, InferenceSession, OrtValue
    module.GraphOptimizationLevel = types.SimpleNamespace(
        ORT_DISABLE_ALL="disabled", ORT_ENABLE_EXTENDED="extended", ORT_ENABLE_LAYOUT="layout"
    )
    sys.modules["onnxruntime"] = module


_FOLDER = "session.model_external_initializers_file_folder_path"


def _external_files(source: str | bytes, folder: Path) -> list[tuple[str, bytes]]:
    """Return the files in which a model has weights, by the paths that it names, where these exist."""
    locations: dict[str, None] = {}
    for graph in all_graphs(open_model(source).proto.graph):
        attributes = [attribute for node in graph.node for attribute in node.attribute]
        tensors = (
            *graph.initializer,
            *(value for attribute in attributes for value in (attribute.t, *attribute.tensors)),
        )
        entries = (entry for tensor in tensors for entry in tensor.external_data)
        locations.update((entry.value, None) for entry in entries if entry.key == "location")
    return [(name, path.read_bytes()) for name in locations if (path := folder / name).is_file()]


def _array(entry: Mapping[str, Any], buffers: Iterator[Any]) -> Any:
    shape = tuple(entry["dims"])
    if entry["type"] == "string":
        return np.array(entry["strings"], object).reshape(shape)
    return np.frombuffer(bytes(next(buffers)), np.dtype(entry["type"])).reshape(shape)


def call(name: str, arguments: str, show: Callable[[str, str], object]) -> str:
    """Call a function of this module by name, with a list as JSON; the result is JSON, too."""
    functions: dict[str, Callable[..., Any]] = {
        "forms": forms,
        "models": models,
        "refusal_of": refusal_of,
        "write_zip": write_zip,
        "run": lambda command, files, values: run(command, files, values, show),
    }
    return json.dumps(functions[name](*json.loads(arguments)))


def open_folder(folder: str) -> None:
    """Work in ``folder``, so that messages have the names that the files were chosen by."""
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
