"""Fetches what the page "Try it" runs on, with pip and npm, and assembles the page.

python docs/site/try/vendor.py                  # the wheels of onnx2ir and onnx; the rest comes from the public CDN
python docs/site/try/vendor.py --all            # everything, so that the page needs no other host

It writes into ``docs/site/try/vendor/``, which is not committed. The site takes the page with what is there;
``--output FOLDER`` writes the page into a folder of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from base64 import b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
VENDOR = HERE / "vendor"

PYODIDE = "314.0.7"
ONNX = "1.23.2"
ONNX_PLATFORM = "pyemscripten_2026_0_wasm32"
"""The platform that this release of Pyodide is built for."""
ONNXRUNTIME = "1.30.0"
CDN = "https://cdn.jsdelivr.net"
DISTRIBUTION = f"{CDN}/pyodide/v{PYODIDE}/full/"
SESSIONS_AT_CDN = f"{CDN}/npm/onnxruntime-web@{ONNXRUNTIME}/dist/"
PACKAGES = ("click", "lxml", "ml-dtypes", "numpy", "protobuf", "pygments", "rich", "typing-extensions")
"""Packages of Pyodide's distribution that onnx2ir and onnx import."""
RUNTIME = ("pyodide.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide.asm.mjs", "pyodide.asm.js")
"""Files of Pyodide itself; the fourth, or in older releases the fifth, is its JavaScript."""
SESSIONS = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
"""Files of onnxruntime-web that run models on the CPU."""
PAGE = ("index.html", "page.js", "worker.js", "page.css", "sw.js")
POLICY = (
    ("default-src", "'none'"),
    ("script-src", "'self' 'wasm-unsafe-eval' {script} {cdn}"),
    ("worker-src", "'self' blob:"),
    ("connect-src", "'self' blob: {cdn}"),
    ("style-src", "'self' 'unsafe-inline'"),
    ("img-src", "'self' data:"),
    ("base-uri", "'none'"),
    ("form-action", "'none'"),
)
"""What the page may load. ``{script}`` is the digest of the script in the pages of ``--report``, which stand in it."""


_NOT_FETCHED = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Try onnx2ir in the browser</title></head><body>
<p>This copy of the site was built without the packages that the page runs on:
run <code>python docs/site/try/vendor.py</code>, and build the site again.</p></body></html>
"""


def main() -> None:
    """Fetch what is needed, and assemble the page where an output is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="place Pyodide and all packages beside the page, too")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="also write the page into this folder")
    arguments = parser.parse_args()
    shutil.rmtree(VENDOR, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheels = [project_wheel(folder), onnx_wheel(folder)]
        runtime = npm_package("pyodide", PYODIDE, folder)
        lock = json.loads((runtime / "pyodide-lock.json").read_text())
        packages = needed(lock["packages"], PACKAGES)
        if arguments.all:
            for entry in packages.values():
                address = f"{DISTRIBUTION}{entry['file_name']}#sha256={entry['sha256']}"
                pip("download", "--no-deps", "-d", str(runtime), address)
            place(VENDOR, lock, packages, wheels, runtime, npm_package("onnxruntime-web", ONNXRUNTIME, folder) / "dist")
        else:
            place(VENDOR, lock, packages, wheels, None, None)
    if arguments.output:
        assemble(arguments.output)
    print(f"{VENDOR}: {sum(path.stat().st_size for path in VENDOR.rglob('*') if path.is_file()) >> 20} MiB")


def pip(*words: str) -> None:
    """Run pip. Raises :class:`subprocess.CalledProcessError`."""
    subprocess.run([sys.executable, "-m", "pip", words[0], "-q", "--disable-pip-version-check", *words[1:]], check=True)


def project_wheel(folder: Path) -> Path:
    """Build the wheel of the checkout."""
    pip("wheel", "--no-deps", "-w", str(folder), str(ROOT))
    return next(folder.glob("onnx2ir-*.whl"))


def onnx_wheel(folder: Path) -> Path:
    """Download onnx for Pyodide."""
    platform = ["--platform", ONNX_PLATFORM, "--python-version", "3.14", "--implementation", "cp", "--abi", "abi3"]
    pip("download", "--no-deps", "--only-binary=:all:", *platform, "-d", str(folder), f"onnx=={ONNX}")
    return next(folder.glob("onnx-*.whl"))


def npm_package(name: str, version: str, folder: Path) -> Path:
    """Download and unpack a package of npm; the folder of its files."""
    target = folder / name
    target.mkdir()
    subprocess.run(["npm", "pack", "--silent", f"{name}@{version}"], cwd=target, check=True, stdout=subprocess.DEVNULL)
    with tarfile.open(next(target.glob("*.tgz"))) as archive:
        archive.extractall(target, filter="data")
    return target / "package"


def needed(packages: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the entries of a lock for packages and for all that these depend on."""
    entries: dict[str, Any] = {}
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in entries:
            entries[name] = packages[name]
            pending += packages[name]["depends"]
    return entries


def entry_of(wheel: Path, depends: Iterable[str]) -> dict[str, Any]:
    """Return the entry of a lock for a wheel."""
    name, version = wheel.name.split("-")[:2]
    with zipfile.ZipFile(wheel) as archive:
        imports = {
            entry.partition("/")[0].removesuffix(".py") for entry in archive.namelist() if ".dist-info" not in entry
        }
    return {
        "name": name,
        "version": version,
        "file_name": wheel.name,
        "install_dir": "site",
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "package_type": "package",
        "imports": sorted(imports),
        "depends": list(depends),
        "unvendored_tests": False,
    }


def place(
    folder: Path,
    lock: Mapping[str, Any],
    packages: Mapping[str, Any],
    wheels: Iterable[Path],
    runtime: Path | None,
    sessions: Path | None,
) -> None:
    """Write what the page loads into ``folder``: wheels, Pyodide, onnxruntime-web, the lock and a manifest.

    ``packages`` are entries of the distribution's lock, ``wheels`` come beside them. ``runtime`` and ``sessions`` are
    the folders of Pyodide and of onnxruntime-web, None for those of the public CDN.
    """
    target = folder / "pyodide"
    target.mkdir(parents=True)
    entries = {name: dict(entry) for name, entry in packages.items()}
    for entry in entries.values():
        if runtime is not None:
            shutil.copy(runtime / entry["file_name"], target)
        else:
            entry["file_name"] = f"{DISTRIBUTION}{entry['file_name']}"
    names = list(entries)
    for wheel in wheels:
        shutil.copy(wheel, target)
        made = entry_of(wheel, names)
        entries[made["name"].replace("_", "-").lower()] = made
    for name in RUNTIME:
        if runtime is not None and (runtime / name).exists():
            shutil.copy(runtime / name, target)
    (target / "pyodide-lock.json").write_text(json.dumps({**lock, "packages": entries}))
    if sessions is not None:
        (folder / "onnxruntime").mkdir()
        for name in SESSIONS:
            shutil.copy(sessions / name, folder / "onnxruntime")
    placed = sorted(path for path in folder.rglob("*") if path.is_file())
    away = [entry["file_name"] for entry in entries.values() if entry["file_name"].startswith(CDN)]
    away += [] if sessions is not None else [f"{SESSIONS_AT_CDN}{name}" for name in SESSIONS]
    away += [] if runtime is not None else [f"{DISTRIBUTION}{name}" for name in RUNTIME[:4]]
    manifest = {
        "version": entries["onnx2ir"]["version"],
        "digest": hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in placed)).hexdigest(),
        "runtime": DISTRIBUTION if runtime is None else "vendor/pyodide/",
        "lock": "vendor/pyodide/pyodide-lock.json",
        "packages": ["onnx2ir"],
        "onnxruntime": {
            "version": ONNXRUNTIME,
            "folder": SESSIONS_AT_CDN if sessions is None else "vendor/onnxruntime/",
        },
        "files": [f"vendor/{path.relative_to(folder).as_posix()}" for path in placed] + away,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))


def assemble(target: Path, vendor: Path = VENDOR) -> None:
    """Write the page into ``target``, with the policy for what is in ``vendor``.

    Where nothing was fetched the page says how to fetch it.
    """
    if not (vendor / "manifest.json").exists():
        target.mkdir(parents=True, exist_ok=True)
        (target / "index.html").write_text(_NOT_FETCHED, encoding="utf-8")
        return
    sys.path.insert(0, str(ROOT))
    from converter.report.page import asset, script

    manifest = json.loads((vendor / "manifest.json").read_text())
    shutil.copytree(vendor, target / "vendor", dirs_exist_ok=True)
    digest = b64encode(hashlib.sha256(script().encode()).digest()).decode()
    folders = {address.rpartition("/")[0] + "/" for address in manifest["files"] if address.startswith(CDN)}
    cdn = " ".join(sorted(folders))  # these folders alone: the host has packages of everybody
    policy = "; ".join(f"{name} {value}".format(script=f"'sha256-{digest}'", cdn=cdn).strip() for name, value in POLICY)
    texts = {name: (HERE / name).read_text(encoding="utf-8") for name in PAGE}
    texts["report.css"] = asset("converter.report", "assets/page.css")
    page = hashlib.sha256("".join(texts.values()).encode()).hexdigest()
    texts["index.html"] = texts["index.html"].replace("{policy}", policy)
    texts["sw.js"] = texts["sw.js"].replace("{digest}", f"{manifest['digest'][:16]}-{page[:16]}")
    for name, text in texts.items():
        (target / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
