"""The differences of two files: two IRs, two ONNX models, or one of each."""

from __future__ import annotations

from pathlib import Path

from converter.conversion.from_ir import is_ir
from converter.equivalence.derivation.rederivation import derived_like
from converter.onnx_file.model import OnnxModel
from converter.onnx_file.model_info import DeclaredInfo
from ir_runtime.files.xml_reader import read_model
from ir_runtime.graph import Model
from ir_runtime.graph.model_difference import LayerChange, ModelDifference, compare_models, different_entries


def compare_files(first: Path, second: Path) -> tuple[ModelDifference, Model]:
    """Return how two files differ, and the first as a model.

    An ONNX model beside an IR is converted as the IR records, or else with default options. Raises
    :class:`ConversionError` for a file that cannot be read or converted.
    """
    sides = [read_model(path) if is_ir(path) else None for path in (first, second)]
    if sides[0] is None and sides[1] is None:
        models = [OnnxModel(path, is_shown=True).graph for path in (first, second)]
        difference = compare_models(*models)
        changes = tuple(different_entries(*map(_header, models)))
        if changes:
            difference.changed.insert(0, LayerChange(models[0].name, models[1].name, "model", changes))
        return difference, models[0]
    left, right = sides
    if left is None and right is not None:
        left = derived_like(right, str(first))
    elif right is None and left is not None:
        right = derived_like(left, str(second))
    assert left is not None
    assert right is not None
    return compare_models(left, right), left


def _header(model: Model) -> dict[str, str]:
    """What stands around a graph: opsets, producer, metadata, and the names of inputs and outputs."""
    info = DeclaredInfo.of(model.runtime_info)
    header = {**info.values, **{f"opset of {domain}": str(version) for domain, version in info.opsets.items()}}
    header |= {f"metadata '{key}'": repr(value) for key, value in info.metadata.items()}
    for side, nodes in (("input", model.parameters), ("output", model.results)):
        header |= {f"{side} {number}": f"'{node.end_names[0]}'" for number, node in enumerate(nodes)}
    return header
