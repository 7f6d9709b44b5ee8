"""Settings and other files that a folder keeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from converter.folders.language_models.source import SourceFolder, kept_files, read_json

PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"
"""The settings of images, alone and, since transformers 5, among others."""


def image_settings(folder: Path) -> Mapping[str, Any] | None:
    """The settings by which images are prepared; None where the folder has none."""
    if (folder / PREPROCESSOR).is_file():
        return read_json(folder / PREPROCESSOR)
    nested = read_json(folder / PROCESSOR).get("image_processor")
    return nested if isinstance(nested, dict) else None


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
