"""Makes the pictures of the site, in a headless Chromium.

python docs/screenshots.py

They show a small network: its conversion, and what ``verify`` says of an IR in which a weight
was changed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import onnx
from onnx import numpy_helper

import converter
from tests.commands import a_model

IMAGES = Path(__file__).parent / "images"
SIZE = "1280,1180"


def main() -> None:
    """Write every picture. Raises :class:`FileNotFoundError` where there is no Chromium."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        raise FileNotFoundError("the pictures need chromium")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(a_model(), folder / "model.onnx")
        _run("convert", "model.onnx", "--report", "conversion.html", folder=folder)
        changed = a_model()
        weights = max(changed.graph.initializer, key=lambda one: len(one.raw_data))
        values = numpy_helper.to_array(weights).copy()
        values.reshape(-1)[0] += 1
        weights.CopyFrom(numpy_helper.from_array(values, weights.name))
        converter.save_model(converter.convert_model(changed), folder / "changed.xml")
        _run("verify", "model.onnx", "changed.xml", "--report", "verification.html", folder=folder, code=1)
        for page in ("conversion", "verification"):
            target = IMAGES / f"{page}.png"
            options = [
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                f"--window-size={SIZE}",
                "--virtual-time-budget=4000",
            ]
            command = [browser, *options, f"--screenshot={target}", (folder / f"{page}.html").as_uri()]
            subprocess.run(command, check=True, capture_output=True)
            print(f"{target}: {target.stat().st_size >> 10} KiB")


def _run(*arguments: str, folder: Path, code: int = 0) -> None:
    done = subprocess.run([sys.executable, "-m", "converter", "--quiet", *arguments], cwd=folder, check=False)
    if done.returncode != code:
        raise RuntimeError(f"onnx2ir {' '.join(arguments)} ended with {done.returncode}, not {code}")


if __name__ == "__main__":
    main()
