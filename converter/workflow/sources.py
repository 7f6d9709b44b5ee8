"""The models that folders, lists, patterns and files name, with the names that their IRs get."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from converter.errors import ConversionError
from ir_runtime.records import record

_MODEL_ENDINGS = (".onnx", ".xml")
"""Every other file is a list of models."""


@record
class Source:
    """The whole path of a model, and its path below the folder that counts as the root of all."""

    path: Path
    name: str


def find_models(patterns: Sequence[str | os.PathLike[str]]) -> list[Source]:
    """The models that ``patterns`` names, in order, each once.

    * a folder: every ``.onnx`` below it, sorted; names are paths below the folder;
    * a pattern with ``*``, ``?`` or ``[...]`` (``**`` for any depth): names are paths below its fixed part;
    * an ``.onnx`` or ``.xml`` file: its name is the path below the deepest folder that such files have in common;
    * any other file: a list, a path a line, relative to the current folder; ``#`` begins a comment. ``-`` is stdin.

    Raises :class:`ConversionError` where one of ``patterns`` does not exist, or where there is no model at all. A
    path of a list that does not exist is left to its row.
    """
    paths_and_roots: list[tuple[Path, Path | None]] = []
    texts = [os.fspath(pattern) for pattern in patterns]
    for text in texts:
        paths_and_roots += _find(text)
    if not paths_and_roots:
        raise ConversionError(f"there is no .onnx file in {', '.join(texts) or 'an empty list'}")
    loose = [Path(os.path.abspath(path)) for path, root in paths_and_roots if root is None]
    common = _common_folder(loose) if loose else Path()
    sources_by_path: dict[Path, Source] = {}
    for path, root in paths_and_roots:
        place = Path(os.path.abspath(path))
        sources_by_path.setdefault(place, Source(place, place.relative_to(root or common).as_posix()))
    return list(sources_by_path.values())


def _find(text: str) -> list[tuple[Path, Path | None]]:
    path = Path(text)
    if text == "-":
        return [(model, None) for model in _listed(sys.stdin.read())]
    if path.is_dir():
        root = Path(os.path.abspath(path))
        return [(model, root) for model in _below(path)]
    if path.is_file():
        if path.suffix.lower() in _MODEL_ENDINGS:
            return [(path, None)]
        try:
            return [(model, None) for model in _listed(path.read_text(encoding="utf-8-sig"))]
        except UnicodeDecodeError as error:
            raise ConversionError(f"{path} is neither a model (.onnx) nor a list of models, which is text") from error
    if glob.has_magic(text):
        root = _fixed_part(text)
        models = sorted(Path(match) for match in glob.glob(text, recursive=True))
        return [(model, root) for model in models if model.is_file() and model.suffix.lower() in _MODEL_ENDINGS]
    raise ConversionError(f"there is no file, folder or pattern '{text}'")


def _below(folder: Path) -> list[Path]:
    paths = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    return sorted(path for path in paths if path.suffix.lower() == ".onnx")


def _listed(text: str) -> list[Path]:
    lines = (line.strip() for line in text.splitlines())
    return [Path(line) for line in lines if line and not line.startswith("#")]


def _fixed_part(pattern: str) -> Path:
    """The folder in front of the first wildcard."""
    fixed: list[str] = []
    for part in Path(pattern).parts:
        if glob.has_magic(part):
            break
        fixed.append(part)
    return Path(os.path.abspath(Path(*fixed)))


def _common_folder(paths: Sequence[Path]) -> Path:
    try:
        return Path(os.path.commonpath([path.parent for path in paths]))
    except ValueError as error:  # drives of Windows
        raise ConversionError("the models lie on several drives: convert them in runs of their own") from error
