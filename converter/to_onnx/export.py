"""IR models to ONNX models: :func:`export_model` and :func:`save_onnx`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from converter.errors import ConversionError, InternalError, UnsupportedModelError
from converter.onnx_file.graph import OnnxOperator
from converter.onnx_file.model import OnnxModel
from converter.onnx_file.model_info import DeclaredInfo, names_of_each
from converter.onnx_file.types import onnx_number
from converter.options.conversion import options_from, takes
from converter.options.export import ExportOptions, ExternalData
from converter.passes.before_export.operators import written_as
from converter.passes.before_export.registry import before_export
from converter.passes.compression.float16_graph import compute_in_half, unfold_halves
from converter.passes.preprocessing.recorded import METADATA, Recorded
from converter.passes.states.stateless import make_stateless
from converter.stages import inform
from ir_runtime import read_model
from ir_runtime.analysis.shared_shapes import shared_shapes
from ir_runtime.boundary import boundary
from ir_runtime.graph import Model, Node, PartialShape, Tensor, TensorType
from ir_runtime.graph.invariants import PASSES
from ir_runtime.graph.shapes import NamedDimension
from ir_runtime.rewriting import graph_pass

from .file import write_onnx
from .graph import Graph
from .names import name_model
from .opsets import FORMS, Opsets, imported_opsets
from .translation import Translation

PRODUCER = "onnx2ir"
_IR_VERSION_OF_CONSTANTS = 4
"""The first version of ONNX files in which initializers are no inputs."""
_IR_VERSION_OF_FUNCTIONS = 8
"""The first version of ONNX files that holds functions."""


@boundary(error=ConversionError)
@takes(ExportOptions)
def export_model(
    model: Model | str | os.PathLike[str], *, options: ExportOptions | None = None, **keywords: Any
) -> onnx.ModelProto:
    """The ONNX model that computes what an IR computes.

    ``model`` is a :class:`ir_runtime.Model` or the path of an ``.xml``; it stays as it is. Names of inputs, outputs
    and tensors are the IR's. Variables become inputs and outputs. The weights are copied into the result, which holds
    up to 2 GB: :func:`save_onnx` writes models of any size.

    ``options`` are :class:`converter.ExportOptions`, or the keywords are their fields:

    {options}

    Raises :class:`UnsupportedModelError`, which lists every layer that has no counterpart, with the reason.
    """
    return export_graph(model, options_from(ExportOptions, options, keywords, "export_model")).with_weights()


@boundary(error=ConversionError)
@takes(ExportOptions, ExternalData)
def save_onnx(
    model: Model | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    external_data: bool | None = None,
    options: ExportOptions | None = None,
    **keywords: Any,
) -> None:
    """Write the ONNX model that computes what an IR computes.

    Weights go from file to file. Both files appear, or neither. ``options`` are those of :func:`export_model`, or the
    keywords are their fields:

    {options}
    """
    chosen = options_from(ExportOptions, options, keywords, "save_onnx")
    write_onnx(export_graph(model, chosen), Path(path), external_data)


def export_graph(
    model: Model | str | os.PathLike[str],
    options: ExportOptions,
    dimensions: Callable[[str], Sequence[str]] = lambda _: (),
    tensor_data: list[Tensor] | None = None,
) -> OnnxModel:
    """Return an IR as a model of ONNX, whose large constants stay where they are.

    ``dimensions`` gives the names of the dimensions of an input or output for which the IR has none. Large data is
    added to ``tensor_data``, to which nodes that stay refer.

    Raises :class:`ConversionError` where the model cannot be expressed.
    """
    chosen = Opsets.of(options.opset)
    if not isinstance(model, (Model, str, os.PathLike)):
        raise ConversionError(
            f"a model is required, such as read_model returns, or the path of an .xml, but got a {type(model).__name__}"
        )
    prepared = model.clone() if isinstance(model, Model) else read_model(model)
    with boundary("the export", error=ConversionError):
        if any(node.op.type == "ReadValue" for node in prepared.nodes()):
            make_stateless(prepared)
        if options.fp16 == "unfold":
            unfold_halves(prepared)
        elif options.fp16 == "model":
            compute_in_half(prepared)
        _check_ends(prepared)
        declared = DeclaredInfo.of(prepared.runtime_info)
        ends = {name: dimensions(name) for name in map(_name, (*prepared.parameters, *prepared.results))}
        declared = replace(declared, dimensions={**ends, **declared.dimensions})
        _name_dimensions(prepared, declared.dimensions)
        record = Recorded.of(prepared)
        opsets = chosen if chosen.is_chosen else Opsets.from_declared(declared.opsets.get("ai.onnx", FORMS))
        data = [] if tensor_data is None else tensor_data
        translation, written = _translate(prepared, opsets, options, data)
        opset = translation.opsets.version
        inputs, outputs = ([_name(node) for node in side] for side in (prepared.parameters, prepared.results))
        graph = name_model(written, inputs, outputs, opset, declared.dimensions)
    functions = translation.functions.called_in(graph)
    header = _header(imported_opsets(graph, opset), declared, bool(functions))
    if record:
        header.metadata_props.add(key=METADATA, value=record.text)
    return OnnxModel.of_parts(header, graph, functions, data)


def _header(
    imported: Sequence[onnx.OperatorSetIdProto], declared: DeclaredInfo, has_functions: bool
) -> onnx.ModelProto:
    """Return the message of a model without its graph, with what the file says that the IR was made from."""
    ir_version = max(helper.find_min_ir_version_for(list(imported), ignore_unknown=True), _IR_VERSION_OF_CONSTANTS)
    values = declared.values
    header = onnx.ModelProto(
        ir_version=max(ir_version, _IR_VERSION_OF_FUNCTIONS) if has_functions else ir_version,
        producer_name=values.get("producer_name", PRODUCER),
        producer_version=values.get("producer_version", ""),
        domain=values.get("model_domain", ""),
        doc_string=values.get("doc_string", ""),
        opset_import=imported,
    )
    version = values.get("model_version", "")
    if version.isdecimal() and int(version) < 1 << 63:
        header.model_version = int(version)
    for key, value in declared.metadata.items():
        header.metadata_props.add(key=key, value=value)
    return header


def _translate(model: Model, opsets: Opsets, options: ExportOptions, data: list[Tensor]) -> tuple[Translation, Graph]:
    """The graph of a model in the opset that its layers ask for, or in a lower one that the runtime has kernels for."""

    def translate(opsets: Opsets) -> tuple[Translation, Graph]:
        translation = Translation(opsets, options, data)
        return translation, translation.model(model)

    with shared_shapes():
        with written_as(options.opset, options.contrib):
            fused = before_export.run(model, skip=options.skip_passes)
        inform("fused before export: %s", fused)
        written = translate(opsets)
        if opsets.needed > opsets.version:
            opsets = Opsets(opsets.needed, is_chosen=False)
            written = translate(opsets)
            if opsets.needed > opsets.version:
                raise InternalError(f"the export asked for opset {opsets.needed} once {opsets.version} was chosen")
        if opsets.most < opsets.version and not opsets.is_chosen:
            lower = translate(Opsets(opsets.most, is_chosen=False))
            written = lower if lower[0].opsets.needed <= opsets.most else written
        return written


@graph_pass("dimension_names", PASSES)
def _name_dimensions(model: Model, dimensions: Mapping[str, Sequence[str]]) -> None:
    """Give the dynamic dimensions of inputs their names, in place: those of one name are equal."""
    for node in model.parameters:
        (output,) = node.outputs
        names = names_of_each(dimensions.get(_name(node), ()))
        if output.shape.has_rank and output.shape.rank == len(names):
            dims = [
                NamedDimension(own, dim.low, dim.high) if own and not dim.is_static else dim
                for own, dim in zip(names, output.shape)
            ]
            output.type = TensorType(output.element_type, PartialShape(dims))


def _name(end: Node) -> str:
    return (end.end_names or [end.name])[0]


def _check_ends(model: Model) -> None:
    """Raises :class:`UnsupportedModelError` for inputs of types that ONNX does not have."""
    wrong = [
        f"input '{_name(node)}' has the element type {node.outputs[0].element_type}"
        for node in model.parameters
        if not onnx_number(node.outputs[0].element_type) and not isinstance(node.op, OnnxOperator)
    ]
    if wrong:
        raise UnsupportedModelError(f"ONNX has no such element type: {', '.join(wrong)}")
