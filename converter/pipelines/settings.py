"""Settings and other files that a folder keeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from converter.language_models.source import SourceFolder, kept_files


def copied(source: SourceFolder, *folders: str) -> tuple[tuple[Path, str], ...]:
    """The files of the folder, and of ``folders`` in it, that stay as they are, with their paths in the output."""
    return tuple(
        (file, str(Path(folder) / file.name)) for folder in ("", *folders) for file in kept_files(source.path / folder)
    )


def missing_settings(
    source: SourceFolder, settings: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Mapping[str, Any]]:
    """Those of ``settings`` that say something and that the folder has no file for."""
    return {name: values for name, values in settings.items() if values and not (source.path / name).is_file()}
