"""The ONNX files of a folder: where exporters put them, and in which variants.

Optimum writes ``model.onnx`` beside the settings. Folders for transformers.js and of sentence-transformers have a
folder ``onnx`` with several variants of each file: ``model.onnx``, ``model_q4.onnx``, ``model_qint8_avx512.onnx``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from converter.errors import ConversionError
from ir_runtime.records import record

_BASES = (
    *("model", "encoder_model", "decoder_model", "decoder_model_merged", "decoder_with_past_model"),
    *("vision_encoder", "embed_tokens", "decoder_postnet_and_vocoder"),
)
"""Names of files that are no variants of each other, though one may begin as another does."""
_PLACES = ("", "onnx")
PLAIN = "fp32"
"""The variant whose file transformers.js names without a suffix."""


@record
class ModelFiles:
    """The ONNX files of a folder."""

    path: Path
    variants: Mapping[str, str]
    """The requested variant by the name of a file; under ``""`` that of all others. Empty where none is requested."""

    @classmethod
    def of(cls, path: Path, variant: str | None = None) -> ModelFiles:
        """The files in ``path``. ``variant`` is as in ``q4`` or ``q4,vision_encoder=fp16``.

        Raises :class:`ConversionError` for another form, and for a variant of a file that is not there.
        """
        variants: dict[str, str] = {}
        for text in (variant or "").split(",") if variant is not None else ():
            name, sign, value = text.strip().rpartition("=")
            if not value or (sign and not name) or name in variants:
                raise ConversionError(
                    f"variant must be as in 'q4' or 'q4,vision_encoder=fp16', one for each file, but is {variant!r}"
                )
            variants[name.strip()] = value.strip()
        files = cls(path, variants)
        for name in sorted(variants.keys() - {""}):
            if not files.has(name):
                raise ConversionError(f"variant names '{name}', but {path} has {files.listed()}")
        return files

    def has(self, *names: str) -> bool:
        """True if there is a file of each name, in any variant."""
        return all(self._choices(name) for name in names)

    def get(self, name: str) -> Path | None:
        """The file of this name: the requested variant, else that without an ending, else the only one.

        None where there is none at all. Raises :class:`ConversionError` where the requested variant is not there, and
        where several are there and none is requested.
        """
        choices = self._choices(name)
        if not choices:
            return None
        requested = self.variants.get(name, self.variants.get("", ""))
        offered = ", ".join(sorted(choices))
        if requested:
            if requested not in choices:
                raise ConversionError(f"{self.path} has no variant '{requested}' of {name}.onnx, but {offered}")
            return choices[requested]
        if PLAIN in choices:
            return choices[PLAIN]
        if len(choices) > 1:
            raise ConversionError(
                f"{self.path} has no {name}.onnx, but several variants of it: choose with --variant, one of {offered}"
            )
        return next(iter(choices.values()))

    def all(self) -> list[Path]:
        """All ONNX files that the folder has at the places where models lie."""
        return [file for place in _PLACES for file in sorted((self.path / place).glob("*.onnx"))]

    def listed(self) -> str:
        """The names of the ONNX files, as messages list them."""
        return listed([str(file.relative_to(self.path)) for file in self.all()], "no ONNX file")

    def _choices(self, name: str) -> Mapping[str, Path]:
        """Files by variant."""
        choices: dict[str, Path] = {}
        longer = tuple(base for base in _BASES if base.startswith(f"{name}_"))
        for file in self.all():
            stem = file.stem
            if any(stem == base or stem.startswith(f"{base}_") for base in longer):
                continue
            if stem == name:
                choices.setdefault(PLAIN, file)
            elif stem.startswith(f"{name}_"):
                choices.setdefault(stem.removeprefix(f"{name}_"), file)
        return choices


def listed(names: list[str], none: str, limit: int = 12) -> str:
    """Names for a message, the first ``limit``; ``none`` where there are none."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return (", ".join(names[:limit]) or none) + more


def all_files(folder: str | os.PathLike[str]) -> list[str]:
    """List the files of a folder and of its subfolders, for a message."""
    path = Path(folder)
    nested = (entry for entry in path.glob("*/*") if entry.is_file())
    return sorted(str(entry.relative_to(path)) for entry in (*(e for e in path.iterdir() if e.is_file()), *nested))
