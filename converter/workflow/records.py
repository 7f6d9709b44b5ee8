"""Records beside an IR, by which a later run knows what is done: contents, options and versions.

A record has the hash of every file that was read and written. It counts where all of them have the same contents,
and options and versions are the same.
"""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from converter.version import __version__
from converter.workflow.jobs import Job
from converter.workflow.rows import WITH_IR, Row
from ir_runtime.files.digests import blake2b
from ir_runtime.files.whole_files import write_whole

_FORM = 1
"""The version of the record's own form."""
_VERIFIED_WITH = ("numpy", "onnx", "onnxruntime")
"""The packages whose versions may change a verdict."""


def write_record(job: Job, row: Row, read: Iterable[Path]) -> None:
    """Write the record of a model that was converted, from the files ``read``."""
    xml = Path(job.xml)
    entry = {
        "form": _FORM,
        "key": _key(job),
        "read": {str(path): _hash(path) for path in read},
        "written": {path.name: _hash(path) for path in (xml, xml.with_suffix(".bin"))},
        "row": row.to_dict(),
    }
    text = json.dumps(entry, indent=1).encode()
    write_whole(job.record, lambda file: file.write(text))


def earlier_row(job: Job) -> Row | None:
    """The row of an earlier run, where that is still right; else None."""
    try:
        entry = json.loads(job.record.read_text(encoding="utf-8"))
        row = Row.from_dict(entry["row"])
        folder = Path(job.xml).parent
        unchanged = (
            entry["form"] == _FORM
            and entry["key"] == _key(job)
            and row.verdict in WITH_IR
            and all(_hash(Path(path)) == value for path, value in entry["read"].items())
            and all(_hash(folder / name) == value for name, value in entry["written"].items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # there is none, or it is of another form or damaged: the model is converted again
    return replace(row, name=job.name, model=job.model, xml=job.xml, reused=True) if unchanged else None


def _key(job: Job) -> str:
    """Settings that decide the result besides the contents of files."""
    settings = job.settings
    decides: list[Any] = [__version__, Path(job.model).name, settings.options, settings.saving]
    if settings.verify:
        decides += [settings.seed, [(name, _version(name)) for name in _VERIFIED_WITH]]
    text = io.BytesIO()
    pickler = pickle.Pickler(text, protocol=4)
    pickler.fast = True  # equal values have the same bytes, also where some of them are one object
    pickler.dump(decides)
    return blake2b(text.getvalue()).hexdigest()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _hash(path: Path) -> str:
    digest = blake2b()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()
