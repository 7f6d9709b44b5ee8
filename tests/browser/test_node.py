"""The wheel under Pyodide in node, without a browser: the bytes of CPython."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import onnx
import pytest

import converter
from tests.browser import models
from tests.browser.assembled import HERE, NODE
from tests.commands import a_model

pytestmark = pytest.mark.full


def test_pyodide_writes_the_bytes_of_cpython(site: Path, tmp_path: Path) -> None:
    onnx.save(models.mobilenet_v3(), tmp_path / "mobilenet_v3.onnx")
    onnx.save(a_model(), tmp_path / "small.onnx")
    names = ["mobilenet_v3.onnx", "small.onnx"]
    for name in ("light_shufflenet", "light_squeezenet"):
        (tmp_path / f"{name}.onnx").write_bytes(models.exported()[name].read_bytes())
        names.append(f"{name}.onnx")
    assert NODE is not None
    command = [NODE, str(HERE / "convert.mjs"), str(site), str(tmp_path), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])["results"]
    assert {name: result["exit_code"] for name, result in results.items()} == dict.fromkeys(names, 0)
    for name in names:
        converter.save_model(converter.convert_model(tmp_path / name), tmp_path / name.replace(".onnx", ".xml"))
        for suffix in (".xml", ".bin"):
            own = tmp_path / name.replace(".onnx", suffix)
            assert (tmp_path / "node" / own.name).read_bytes() == own.read_bytes(), own.name
