"""Every call of every operation as an ONNX model: onnx's checker takes it, and onnxruntime computes what the IR does."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import onnx
import pytest

from converter import UnsupportedModelError, export_model
from converter.to_onnx.opsets import FORMS
from converter.to_onnx.registry import REFUSALS, all_exporters, find_exporter
from ir_runtime.graph.element_types import Array
from ir_runtime.graph.model import Model
from ir_runtime.graph.operation import all_operations
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.inputs_outputs import Const1, Result1
from tests.converter.to_onnx.single_layers import compare_outputs, model_of, run_exported
from tests.rows.layer import Layer
from tests.rows.table import layer_table

T = TypeVar("T")


ENDS_THE_PROCESS = {
    r"Divide-1\(int64\[2\]\[-9223372036854775808, ": "onnxruntime's process ends: the quotient overflows"
}
KNOWN = {
    r"Power-1\(.*(2147483647|4294967295|18446744073709551615|9223372036854775807|(?<!u)int8)": "powers that overflow",
    r"OneHot-\d+\(.*int64\[\]0": "onnxruntime takes no depth of 0",
    r"Pad-12\(normal\[3, 4\]float32 int64\[2\]\[-1, 2\] .*reflect": "onnxruntime counts cut rows when it mirrors",
    r"Interpolate-11\(.*\[3, 4\].*asymmetric, nearest_mode=round_prefer_ceil": "onnxruntime rounds a product of 2 and 3.5",
    r"MaxPool-1\(.*pads_begin=\(1, 0\), pads_end=\(0, 2\)": "a window in the padding alone is not minus infinity",
    r"GroupNormalization-12\(normal\[0, 6": "onnxruntime's expansion of the function reshapes nothing wrongly",
}
"""The start of a call's label -> why onnxruntime or onnx does not give the same."""

AMBIGUOUS = {
    r"ConvolutionBackpropData-1\(.*int64\[2\]\[10, 12\].*auto_pad=same": "onnxruntime refuses what no window reaches",
    r"PReLU-1\(normal\[2, 3, .*float32 normal\[[45]\]": "a list of slopes of unknown length is one slope a channel",
}
"""Calls that mean something else where no dimension is known."""

REFUSED = {
    r"ROIAlign-\d+\(.*sampling_ratio=0, mode=max": "maxima over points whose number depends on the region",
    r"PriorBox(Clustered)?-\d+\(": "the sizes of layer and image come at run time",
    r"DeformableConvolution-\d+\((?!.*bilinear_interpolation_pad=True)": "ONNX interpolates with zeros around the data",
    r"MaxPool-14\(.*kernel=\(1, 1\), strides=\(1, 1\), pads_begin=\(1, 1\)": "indices with pads as large as the kernel",
    r"MaxPool-(8|14)\(.*pads_begin=\(1, 0\), pads_end=\(0, 2\), rounding_type=(floor|ceil),": "indices with pads as large as the kernel",
    r"Reverse-1\(.*mode=mask": "a mask that comes at run time",
    r"StringTensorPack-15": "texts of bytes that come at run time",
}
"""Calls of single layers that have no counterpart, by reason."""


def _written() -> list[Layer]:
    """Return the layers of operations with an exporter; those outside all opsets need operators of com.microsoft."""
    return [call for call in layer_table() if call.op.opset and not isinstance(find_exporter(type(call.op)), str)]


def _reason(call: Layer, table: Mapping[str, T]) -> T | None:
    return next((reason for start, reason in table.items() if re.match(start, call.label)), None)


@pytest.mark.parametrize("call", _written(), ids=lambda call: call.label)
def test_onnxruntime_computes_what_the_layer_computes(call: Layer) -> None:
    if _reason(call, REFUSED):
        with pytest.raises(UnsupportedModelError, match="node 'layer'"):
            export_model(model_of(call)[0])
        return
    model, feeds = model_of(call)
    exported = export_model(model)
    _compare_unless_known(call, exported, feeds, KNOWN)


def _compare_unless_known(
    call: Layer, exported: onnx.ModelProto, feeds: dict[str, Array], known: Mapping[str, str]
) -> None:
    """Check the model, and compare with what onnxruntime computes; a call that is listed has to fail in one."""
    reason = _reason(call, ENDS_THE_PROCESS)
    if reason:
        process = multiprocessing.get_context("spawn").Process(target=run_exported, args=(exported, feeds))
        process.start()
        process.join(120)
        assert process.exitcode not in (0, 1, None), f"{process.exitcode}, but listed: {reason}"
        pytest.xfail(reason)
    reason = _reason(call, known)
    if not reason:
        _check(call, exported, feeds)
        return
    try:
        _check(call, exported, feeds)
    except Exception:  # onnxruntime's errors share no base class of their own
        pytest.xfail(reason)
    pytest.fail(f"it agrees, but is listed as different: {reason}")


def _check(call: Layer, exported: onnx.ModelProto, feeds: dict[str, Array]) -> None:
    if all(value.type.tensor_type.HasField("shape") for value in exported.graph.output):  # as the checker requires
        onnx.checker.check_model(exported, full_check=True)
    compare_outputs(call, run_exported(exported, feeds))


NEEDED = {
    r"(I?R?DFT|STFT|ISTFT)-": 17,
    r"GridSample-": 16,
    r"ROIAlign-|ExperimentalDetectronROIFeatureExtractor-": 16,
    r"DeformableConvolution-8": 19,
    r"AvgPool-16\(.*dilations=(?!\(1, 1\))": 19,
    r"FakeConvert-": 19,
    r"Convert-1\(.*destination_type=[iu]4": 21,
    r"Convert-1\(.*destination_type=f8e8m0": 24,
}
"""The start of a call's label -> the first opset that expresses it, where that is not the oldest one."""


@pytest.mark.parametrize("call", _written(), ids=lambda call: call.label)
def test_the_lowest_opset(call: Layer) -> None:
    """The oldest opset gives the same, or is refused up to the one from which the call has a counterpart."""
    refused = _reason(call, REFUSED)
    if refused:
        pytest.skip(refused)
    model, feeds = model_of(call)
    needed = _reason(call, NEEDED) or FORMS
    for opset in {FORMS, needed - 1} - {needed, FORMS - 1}:
        with pytest.raises(UnsupportedModelError, match=f"opset {opset}"):
            export_model(model, opset=opset)
    exported = export_model(model, opset=needed)
    assert exported.opset_import[0].version == needed
    _compare_unless_known(call, exported, feeds, KNOWN)


def _exported(model: Model) -> onnx.ModelProto | str:
    """The ONNX model, or why there is none."""
    try:
        return export_model(model)
    except UnsupportedModelError as error:
        return str(error)


DYNAMIC_REFUSED = {
    "AvgPool-14", "AvgPool-16", "AdaptiveAvgPool-8", "AdaptiveMaxPool-8", "Convolution-1", "GroupConvolution-1",
    "GroupConvolutionBackpropData-1", "Interpolate-11", "LSTMCell-1", "LSTMCell-4", "GRUCell-3", "RNNCell-1",
    "MaxPool-8", "MaxPool-14", "Squeeze-15", "StringTensorPack-15", "DeformableConvolution-1",
    "DeformableConvolution-8", "DeformablePSROIPooling-1", "Reverse-1",
}  # fmt: skip
"""Operations of which some calls need a dimension that is known."""


@pytest.mark.parametrize("call", _written(), ids=lambda call: call.label)
def test_dynamic_dimensions(call: Layer) -> None:
    """Without a known dimension of the inputs the result is the same, or the layer is refused with the reason."""
    model, feeds = model_of(call, dynamic=True)
    exported = _exported(model)
    if isinstance(exported, str):
        if not _reason(call, REFUSED):
            assert "known" in exported
            assert f"{call.op.type}-{call.op.opset}" in DYNAMIC_REFUSED, exported
        return
    if any(0 in np.asarray(array).shape for array in call.arrays):
        pytest.skip("a Reshape of nothing follows from dimensions that are known")
    _compare_unless_known(call, exported, feeds, {**KNOWN, **AMBIGUOUS})


def test_every_operation_is_written_or_refused_with_a_reason() -> None:
    refused = REFUSALS.entries()
    missing = {
        operation.type
        for operation in all_operations()
        if operation.role not in ("parameter", "result")
        and isinstance(find_exporter(operation), str)
        and operation not in refused
    }
    assert not missing, (
        "write an exporter (@ir_op) or a decomposition (@decomposes) of these operations, or refuse them (REFUSALS.add)"
    )


NEED_RANK = {"ErfInv-17": "it is decomposed, which takes the number of dimensions"}
"""Elementwise operations that are not written where the rank is unknown, and why."""


def test_elementwise_layers_of_unknown_rank() -> None:
    """An exporter by decomposition refuses them, where one of its own may do without the rank."""
    calls = {
        f"{call.op.type}-{call.op.opset}": call for call in _written() if call.op.elementwise and not _by_rank(call)
    }
    refused = set()
    for name, call in calls.items():
        model, _ = model_of(call, dynamic=True)
        model.reshape({node.end_names[0]: PartialShape(None) for node in model.parameters})
        if isinstance(_exported(model), str):
            refused.add(name)
    assert not refused - NEED_RANK.keys(), (
        "write exporters (@ir_op) that need no rank, or name these operations in NEED_RANK with the reason"
    )
    assert not NEED_RANK.keys() - refused, "these are written: take them off NEED_RANK"


def _by_rank(call: Layer) -> bool:
    """True if the call aligns dimensions from the first one on, which takes their number."""
    return getattr(call.op, "auto_broadcast", "numpy") == "pdpd"


@pytest.mark.parametrize(
    "call", [call for call in layer_table() if call.op.type.startswith("PriorBox")], ids=lambda c: c.label
)
def test_priors_of_known_sizes_are_constants(call: Layer) -> None:
    sizes = [make_node(Const1(value=Tensor.from_array(array)), (), "size").outputs[0] for array in call.arrays]
    result = make_node(Result1(), make_node(call.op, sizes, "priors").outputs, "result")
    result.output_names = ["y0"]
    exported = export_model(Model("m", [], [result]))
    assert [node.op_type for node in exported.graph.node] == ["Identity"]
    compare_outputs(call, run_exported(exported, {}))


def test_exporters_say_what_they_write() -> None:
    assert all(one.function.__doc__ for one in all_exporters())
