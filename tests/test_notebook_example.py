"""The notebook from PyTorch to a verified IR runs, and is committed as it runs."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import onnx
import pytest
from nbclient import NotebookClient
from onnx import TensorProto, helper, numpy_helper

NOTEBOOK = Path(__file__).parent.parent / "examples" / "from_torch_to_ir.ipynb"
HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "onnxscript"))


def small_model() -> onnx.ModelProto:
    """Inputs and outputs as the notebook's network has them."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["image", "k"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "main_graph",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 32, 32])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])],
        [
            numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
            for name, shape in {"k": (32, 3, 3, 3), "w": (32, 10)}.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(cell: Mapping[str, Any]) -> str:
    """Everything that a cell shows, as text."""
    return "".join(one.get("text") or one["data"]["text/plain"] for one in cell["outputs"])


def check(notebook: nbformat.NotebookNode) -> None:
    """What the cells behind the export show."""
    shown, sizes, plain, small, result, classes = code_cells(notebook)[-6:]
    assert outputs(shown) == "<Model 'main_graph': (image: u8[?,32,32,3]) -> (scores: f32[?,10])>"
    assert "<table>" in shown["outputs"][0]["data"]["text/html"]
    bytes_of = json.loads(outputs(sizes).replace("'", '"'))
    assert bytes_of["small.bin"] < 0.6 * bytes_of["network.bin"]
    assert outputs(plain).startswith("Report(derived against onnxruntime")
    assert "PASSED" in plain["outputs"][0]["data"]["text/html"]
    assert re.search(r"^PASSED against onnxruntime", outputs(small), re.M)
    assert re.search(r"^weights: \d+ compressed", outputs(small), re.M)
    assert outputs(result) == "<InferenceResult 'scores': float32[4, 10]>"
    assert re.fullmatch(r"array\(\[\d, \d, \d, \d\]\)", outputs(classes))


def run(notebook: nbformat.NotebookNode, folder: Path) -> None:
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}, record_timing=False
    )
    client.execute()


@pytest.mark.skipif(not HAS_TORCH, reason="the export needs torch and onnxscript, which the tests do not depend on")
def test_the_whole_notebook(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, 4)
    run(notebook, tmp_path)
    check(notebook)
    committed = nbformat.read(NOTEBOOK, 4)
    assert [outputs(cell) for cell in code_cells(notebook)[1:3]] == [
        outputs(cell) for cell in code_cells(committed)[1:3]
    ]


def test_the_notebook_behind_the_export(tmp_path: Path) -> None:
    """Without torch: another model of the same inputs and outputs takes the place of what the first cell writes."""
    notebook = nbformat.read(NOTEBOOK, 4)
    exports = [cell for cell in notebook.cells if "export" in cell.metadata.get("tags", ())]
    assert len(exports) == 1
    assert 'save("network.onnx")' in exports[0].source
    notebook.cells.remove(exports[0])
    onnx.save(small_model(), tmp_path / "network.onnx")
    exports[0].source = "from pathlib import Path"
    exports[0].outputs, exports[0].execution_count = [], None
    notebook.cells.insert(0, exports[0])
    run(notebook, tmp_path)
    check(notebook)


def test_the_notebook_is_committed_executed() -> None:
    notebook = nbformat.read(NOTEBOOK, 4)
    nbformat.validate(notebook)
    assert [cell.execution_count for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1))
    assert not [one for cell in code_cells(notebook) for one in cell.outputs if one.get("name") == "stderr"]
    check(notebook)
    assert NOTEBOOK.stat().st_size < 50_000
