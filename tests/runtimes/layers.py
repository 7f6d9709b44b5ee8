"""Layers in NumPy and in OpenVINO's CPU plug-in, from files that this package writes, and that OpenVINO does."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import openvino

import ir_runtime
from ir_runtime.graph.shapes import PartialShape
from tests.converter.to_onnx.single_layers import is_constant, model_of
from tests.engines import made, openvino_tensor, written
from tests.rows.layer import Layer
from tests.runtimes.work import IR, Outputs, Runtime, Work, in_numpy

WITHOUT_NODES = {"Assign", "Const", "ReadValue", "Result"}
"""Operations that OpenVINO's factory makes no node of, and of which a model alone says nothing."""
NAMES = {"PReLU": "PRelu", "ReLU": "Relu", "SoftMax": "Softmax"}
"""What OpenVINO's factory calls operations whose names in files differ."""


class LayerWork(Work):
    """A layer on its way through the runtimes; the dimensions of ``opened_ir`` are open."""

    row: Layer

    @functools.cached_property
    def ir(self) -> IR:
        return ir_runtime.model_to_bytes(model_of(self.row)[0])

    @functools.cached_property
    def opened_ir(self) -> IR:
        model, _ = model_of(self.row, dynamic=True)
        model.reshape({f"x{index}": PartialShape(list(dims)) for index, dims in self.row.dims.items()})
        return ir_runtime.model_to_bytes(model)

    @functools.cached_property
    def feeds(self) -> Mapping[str, Any]:
        return {f"x{i}": array for i, array in enumerate(self.row.arrays) if not is_constant(self.row, i)}

    @property
    def expected(self) -> Sequence[Any]:
        return self.row.expected

    @property
    def names(self) -> list[str]:
        return [f"y{index}" for index in range(len(self.expected))]


def evaluated(work: LayerWork) -> Outputs:
    """The operation itself."""
    return dict(zip(work.names, work.row.outputs))


def opened(work: LayerWork) -> Outputs:
    """A file without dimensions in NumPy: twice, as the second time dimensions are known to a plan."""
    in_numpy(work.opened_ir, work.feeds)
    compiled = ir_runtime.compile_model(ir_runtime.read_model(*work.opened_ir))
    work.compare(compiled(dict(work.feeds)))
    return compiled(dict(work.feeds))


def written_by_openvino(work: LayerWork) -> Outputs:
    """The file that OpenVINO writes of its own node, in NumPy."""
    row = work.row
    if row.op.subgraphs or row.op.type in WITHOUT_NODES:
        return in_numpy(work.ir, work.feeds)
    sources, parameters = [], []
    for index, (array, kind) in enumerate(zip(row.arrays, row.kinds)):
        if f"x{index}" in work.feeds:
            parameters.append(openvino.opset16.parameter(list(array.shape), getattr(openvino.Type, kind.name)))
            parameters[-1].output(0).set_names({f"x{index}"})
            sources.append(parameters[-1])
        else:
            sources.append(openvino.opset16.constant(openvino_tensor(array)))
    attributes = {"exclude-pad" if name == "exclude_pad" else name: value for name, value in row.attributes.items()}
    node = made(NAMES.get(row.op.type, row.op.type), row.op.opset, sources, **attributes)
    for index, output in enumerate(node.outputs()):
        output.set_names({f"y{index}"})
    return in_numpy(written(node.outputs(), parameters), work.feeds)


IN_OPENVINO = {"layers in OpenVINO": "ir", "layers of open dimensions in OpenVINO": "opened_ir"}
LAYERS: Mapping[str, Runtime] = {
    "layers": evaluated,
    "layers of open dimensions": opened,
    "layers that OpenVINO wrote": written_by_openvino,
    "layers in OpenVINO": lambda work: work.in_openvino("ir"),
    "layers of open dimensions in OpenVINO": lambda work: work.in_openvino("opened_ir"),
}
