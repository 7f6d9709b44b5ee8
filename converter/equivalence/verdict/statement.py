"""The result of a verification as an in-toto statement, and the check of one.

The statement (https://github.com/in-toto/attestation, v1) has the files of the IR as subjects, and as its predicate
what was compared with what, how, and the verdict; ``docs/verifying.md`` describes each field. The same files, options
and versions give the same bytes. Nothing is signed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from converter.equivalence.verdict.report import VERDICTS, Report
from converter.errors import VerificationError
from converter.onnx_file.model import OnnxModel
from converter.options.verification import VerificationOptions
from converter.passes.derivation import Step
from ir_runtime.files.whole_files import write_whole

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:onnx2ir:verification:v1"
_FILES = ("inputs", "against")
"""Options that are files: the statement has their digests."""
_APART = frozenset({"report", "minimise", "attest", "attestation", *_FILES})
"""Options that do not change the result, or are files."""
_CHUNK = 1 << 20
_NO_MODELS = (".xml", ".npz", ".npy")

Files = Sequence[Mapping[str, Any]]
"""Names and digests, as in-toto's resource descriptors."""


def files_of(*paths: object) -> list[Path]:
    """Return the files of the models and arrays at ``paths``: weights and external data as well.

    Raises :class:`VerificationError` for an object in memory, which has no digest.
    """
    files: list[Path] = []
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise VerificationError("a statement is about files: give both models, and inputs, as paths")
        file = Path(path)
        files.append(file)
        if file.suffix.lower() == ".xml" and file.with_suffix(".bin").exists():
            files.append(file.with_suffix(".bin"))
        elif file.suffix.lower() not in _NO_MODELS:
            files += OnnxModel(file).files[1:]
    return files


def statement_of(report: Report, options: VerificationOptions, reference: object, ir: object) -> dict[str, Any]:
    """Return the statement about the ``report`` on the files ``reference`` and ``ir``, as plain values."""
    others = [getattr(options, name) for name in _FILES if getattr(options, name) is not None]
    predicate = {
        "verdict": report.verdict,
        "reason": report.reason,
        "materials": _describe(files_of(reference, *others)),
        "options": options_of(options),
        "reference": report.oracle,
        "engine": report.engine,
        "versions": {"onnx2ir": Step("verify").version, **{name: metadata.version(name) for name in ("numpy", "onnx")}},
        "outputs": [
            {
                "name": comparison.name,
                "type": comparison.element_type,
                "passed": comparison.passed,
                "max_absolute": comparison.max_absolute,
                "max_relative": comparison.max_relative,
                "tolerance": {"absolute": comparison.tolerance.absolute, "relative": comparison.tolerance.relative},
            }
            for comparison in report.outputs
        ],
        "weights": report.weight_states,
        "derivation": report.derivation.state,
    }
    subject = _describe(files_of(ir))
    return {"_type": TYPE, "subject": subject, "predicateType": PREDICATE_TYPE, "predicate": _plain(predicate)}


def write_statement(statement: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a statement; raises :class:`ir_runtime.FileError` where that is not possible."""
    text = json.dumps(statement, indent=2, sort_keys=True, allow_nan=False) + "\n"
    write_whole(Path(path), lambda file: file.write(text.encode()))


def options_of(options: VerificationOptions) -> dict[str, Any]:
    """Return the options that differ from their defaults, as JSON has them.

    Raises :class:`VerificationError` for a value that has no JSON.
    """
    values_by_name = {}
    for entry in fields(options):
        value = getattr(options, entry.name)
        if entry.name in _APART or value == entry.default or value in (None, {}):
            continue
        try:
            values_by_name[entry.name] = json.loads(json.dumps(value))
        except (TypeError, ValueError) as error:
            raise VerificationError(
                f"a statement has no form for {entry.name}={value!r}: give it as a string, or as numbers and lists"
            ) from error
    return values_by_name


class Statement:
    """A statement that was read from a file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read it. Raises :class:`VerificationError` for a file that is no statement of :func:`statement_of`."""
        try:
            values = json.loads(Path(path).read_bytes())
        except OSError as error:
            raise VerificationError(f"the statement {path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise VerificationError(f"the statement {path} is no JSON: {error}") from error
        if isinstance(values, dict) and "payload" in values:
            raise VerificationError(
                f"{path} is a signed envelope: check its signature, and give the statement that is its payload"
            )
        for name, expected in (("_type", TYPE), ("predicateType", PREDICATE_TYPE)):
            actual = values.get(name) if isinstance(values, dict) else None
            if actual != expected:
                raise VerificationError(f"{path} is no statement of onnx2ir: {name} is {actual!r}, not {expected!r}")
        predicate = values.get("predicate")
        try:
            self.verdict = str(predicate["verdict"])
            self.options = dict(predicate["options"])
            self.versions = dict(predicate["versions"])
            self.subject = [_check_entry(entry) for entry in values["subject"]]
            self.materials = [_check_entry(entry) for entry in predicate["materials"]]
        except (KeyError, TypeError, ValueError) as error:
            raise VerificationError(f"the statement {path} is not complete: {error!r}") from error
        if self.verdict not in VERDICTS or not self.subject or not self.materials:
            raise VerificationError(f"the statement {path} has no verdict, no subject or no materials")

    def adopt(self, options: VerificationOptions) -> VerificationOptions:
        """Return ``options`` with those of the statement that the caller left out.

        Raises :class:`VerificationError` for options that this version does not have.
        """
        defaults = {entry.name: entry.default for entry in fields(options) if entry.name not in _APART}
        unknown = sorted(set(self.options) - set(defaults))
        if unknown:
            raise VerificationError(f"the statement has options that this version does not have: {', '.join(unknown)}")
        own = options_of(options)
        return replace(options, **{name: value for name, value in self.options.items() if name not in own})

    def mismatches(self, statement: Mapping[str, Any]) -> tuple[str, ...]:
        """Return what ``statement``, which is about the files of now, has otherwise; each in one sentence."""
        predicate = statement["predicate"]
        differences = [
            *_of_files(self.subject, statement["subject"]),
            *_of_files(self.materials, predicate["materials"]),
        ]
        for name in sorted({*self.options, *predicate["options"]}):
            pair = self.options.get(name), predicate["options"].get(name)
            if pair[0] != pair[1]:
                differences.append(f"the option {name} is {pair[1]!r}, in the statement {pair[0]!r}")
        if self.verdict != predicate["verdict"]:
            differences.append(f"the verdict is '{predicate['verdict']}', in the statement '{self.verdict}'")
        return tuple(differences)

    def notes(self, statement: Mapping[str, Any]) -> tuple[str, ...]:
        """Return which versions are others than those of the statement."""
        now = statement["predicate"]["versions"]
        others = [f"{name} {old} (now {now.get(name)})" for name, old in self.versions.items() if now.get(name) != old]
        return (f"the statement was made with {', '.join(others)}",) if others else ()


def _of_files(recorded: Files, files: Files) -> list[str]:
    """Return which files have other digests than the recorded ones. Names alone may differ: files are renamed."""
    differences = []
    digests = [file["digest"] for file in files]
    left = [file for file in files if file["digest"] not in [entry["digest"] for entry in recorded]]
    for entry in recorded:
        if entry["digest"] in digests:
            continue
        other = next((file for file in left if file["name"] == entry["name"]), None)
        if other is None:
            differences.append(f"no file has the digest that '{entry['name']}' has in the statement")
            continue
        left.remove(other)
        pair = other["digest"]["sha256"][:12], entry["digest"]["sha256"][:12]
        differences.append(f"the file '{entry['name']}' has the SHA-256 {pair[0]}..., in the statement {pair[1]}...")
    return differences + [f"the file '{file['name']}' is not in the statement" for file in left]


def _check_entry(entry: Any) -> dict[str, Any]:
    return {"name": str(entry["name"]), "digest": {"sha256": str(entry["digest"]["sha256"])}}


def _describe(paths: Iterable[Path]) -> list[dict[str, Any]]:
    return [{"name": path.name, "digest": {"sha256": _digest(path)}} for path in paths]


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """Return ``value`` with numbers that JSON does not have as strings."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
