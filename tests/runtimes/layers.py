"""Layers in NumPy and in OpenVINO's CPU plug-in, from files that this package writes, and that OpenVINO does."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import openvino
import pytest

import converter
import ir_runtime
from converter.passes.decomposition.registry import DECOMPOSITIONS, decompose_layers
from converter.to_onnx.opsets import FORMS
from converter.to_onnx.registry import find_exporter
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.rewriting import PassTrace
from tests.converter.to_onnx.graphs import compare_random, is_constant, model_of, run_exported
from tests.engines import made, openvino_tensor, written
from tests.rows.layer import Layer
from tests.runtimes.work import IR, Outputs, Runtime, Work

WITHOUT_NODES = {"Assign", "Const", "ReadValue", "Result"}
"""Operations that OpenVINO's factory makes no node of, and of which a model alone says nothing."""
NAMES = {"PReLU": "PRelu", "ReLU": "Relu", "SoftMax": "Softmax"}
"""What OpenVINO's factory calls operations whose names in files differ."""


class LayerWork(Work):
    """A layer on its way through the runtimes; the dimensions of ``opened_ir`` are open."""

    row: Layer

    @property
    def model(self) -> ir_runtime.Model:  # type: ignore[override]
        """The layer between parameters and results of their dimensions, made anew, as what runs it may change it."""
        return model_of(self.row)[0]

    @property
    def open_model(self) -> ir_runtime.Model:
        """The same without the dimensions that may be unknown."""
        return model_of(self.row, dynamic=True)[0]

    @functools.cached_property
    def ir(self) -> IR:
        return ir_runtime.model_to_bytes(self.model)

    @functools.cached_property
    def opened_ir(self) -> IR:
        model = self.open_model
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
    compiled = ir_runtime.compile_model(ir_runtime.read_model(*work.opened_ir))
    work.compare(compiled(dict(work.feeds)))
    return compiled(dict(work.feeds))


def written_by_openvino(work: LayerWork) -> Outputs:
    """The file that OpenVINO writes of its own node, in NumPy."""
    row = work.row
    if row.op.subgraphs or row.op.type in WITHOUT_NODES:
        return work.in_numpy(work.ir)
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
    return work.in_numpy(written(node.outputs(), parameters))


def _exported(model: ir_runtime.Model, work: LayerWork, opset: int | None = None) -> Outputs | None:
    """What onnxruntime computes of the exported model, which onnx's checker takes; random numbers are in their range."""
    exported = converter.export_model(model, opset=opset)
    assert opset is None or exported.opset_import[0].version == opset
    if all(value.type.tensor_type.HasField("shape") for value in exported.graph.output):  # as the checker requires
        onnx.checker.check_model(exported, full_check=True)
    outputs = run_exported(exported, work.feeds)
    if work.row.op.deterministic:
        return outputs
    compare_random(work.row, *outputs.values())
    return None


NEEDED = {
    "*DFT-*": 17,
    "*STFT-*": 17,
    "*/GridSample-*": 16,
    "*/ROIAlign-*": 16,
    "*/ExperimentalDetectronROIFeatureExtractor-*": 16,
    "*/DeformableConvolution-8*": 19,
    "*/AvgPool-16(*dilations=(*2*": 19,
    "*/FakeConvert-*": 19,
    "*/Convert-1(*destination_type=[iu]4*": 21,
    "*/Convert-1(*destination_type=f8e8m0*": 24,
}
"""Patterns on names of layers, and the first opset that expresses them, where that is not the oldest one."""


def exported_to_the_lowest_opset(work: LayerWork) -> Outputs | None:
    """The oldest opset gives the same, or is refused up to the one from which there is a counterpart."""
    model = work.model
    needed = next((opset for pattern, opset in NEEDED.items() if fnmatch.fnmatchcase(work.row.name, pattern)), FORMS)
    for opset in {FORMS, needed - 1} - {needed, FORMS - 1}:
        with pytest.raises(converter.UnsupportedModelError, match=f"opset {opset}"):
            converter.export_model(model, opset=opset)
    return _exported(model, work, needed)


def _decomposed(model: ir_runtime.Model, work: LayerWork) -> Outputs:
    """What the layers compute that older releases have instead."""
    trace = PassTrace()
    decompose_layers(model, tuple(DECOMPOSITIONS.entries()), trace)
    assert not any(type(node.op) is type(work.row.op) for node in model.nodes()), list(trace.reasons)
    return work.in_numpy(model)


IN_OPENVINO = {"layers in OpenVINO": "ir", "layers of open dimensions in OpenVINO": "opened_ir"}
LAYERS: Mapping[str, Runtime] = {
    "layers": evaluated,
    "layers of open dimensions": opened,
    "layers that OpenVINO wrote": written_by_openvino,
    "layers in OpenVINO": lambda work: work.in_openvino("ir"),
    "layers of open dimensions in OpenVINO": lambda work: work.in_openvino("opened_ir"),
    "exported layers": lambda work: _exported(work.model, work),
    "exported layers of open dimensions": lambda work: _exported(work.open_model, work),
    "exported layers of the lowest opset": exported_to_the_lowest_opset,
    "decomposed layers": lambda work: _decomposed(work.model, work),
    "decomposed layers of open dimensions": lambda work: _decomposed(work.open_model, work),
}


def runtimes_of_layer(layer: Layer) -> Mapping[str, Runtime]:
    """Return those that export or decompose a layer only where its operation has an exporter, or a decomposition."""
    has_exporter = layer.op.opset and not isinstance(find_exporter(type(layer.op)), str)
    left_out = [] if has_exporter else ["exported"]
    left_out += [] if type(layer.op) in DECOMPOSITIONS.entries() else ["decomposed"]
    return {name: runtime for name, runtime in LAYERS.items() if name.partition(" ")[0] not in left_out}
