"""Guards against fusions of the plug-in (``tests/rows/onnx/fused_by_the_plug_in.py``): names, and how many there are."""

from __future__ import annotations

import numpy as np

import converter
from converter.targets.registry import openvino_cpu
from tests.rows.onnx.fused_by_the_plug_in import reduced_and
from tests.rows.row import const, several


def test_the_layer_keeps_its_names_and_the_tensor_its_shape() -> None:
    (row,) = reduced_and("ReduceMean", 2, 1, "Add")
    made = converter.convert_model(row.model, output=["r", "y"])
    (reduction,) = [node for node in made.nodes() if node.op.type == "ReduceMean"]
    assert reduction.name == "reduce"
    (tensor,) = [out for node in made.nodes() for out in node.outputs if "r" in out.names]
    assert str(tensor.shape) == "[5,3,1]"
    names = [node.name for node in made.nodes()]
    assert len(set(names)) == len(names)


def test_each_change_before_a_reduction_counts() -> None:
    """The derivation of an IR has the number of changes that each rule made."""
    nodes = "t = Unsqueeze (x, last) a = ReduceMean <axes = [1]> (t) b = ReduceMax <axes = [0]> (t)"
    (row,) = several(nodes, outputs="a, b", label="", x=np.zeros((4, 5, 3), np.float32), last=const([3]))
    assert openvino_cpu.run(converter.convert_model(row.model, target="any")) == {"fusion_guards": 2}
