"""The smallest part of both models that shows a wrong layer, as files for a report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from converter.equivalence.comparison.compare import compare
from converter.equivalence.comparison.layers import LayerDifference, anchors
from converter.equivalence.comparison.parts import between
from converter.equivalence.reference.engines import Engine
from converter.equivalence.reference.reference_model import read_by, written_by
from converter.equivalence.reference.references import OnnxReference
from converter.errors import VerificationError
from ir_runtime import Model, compile_model
from ir_runtime.files.xml_writer import write_model
from ir_runtime.graph import Array, Output
from ir_runtime.rewriting.submodel import extract


def minimise(
    reference: OnnxReference,
    model: Model,
    fault: LayerDifference,
    input_values: Mapping[str, Array],
    folder: Path,
    engine: Engine,
) -> str:
    """Write ``model.onnx``, ``model.xml``, ``model.bin``, ``inputs.npz`` and ``expected.npz`` into ``folder``.

    They hold the layers of ``fault`` and the ONNX nodes that make the same tensor, between the nearest tensors that
    both sides have; ``inputs.npz`` has the oracle's values for these, ``expected.npz`` the right outputs. Returns
    a sentence about the files. Raises :class:`VerificationError` where the part alone cannot be run, :class:`OSError`
    where it cannot be written.
    """
    graph = reference.graph
    names = anchors(graph, model.nodes())
    target = next(output for output, tensor_names in names.items() if fault.comparison.name in tensor_names)
    part = between(target, names)
    outside: dict[Output, str] = {}
    for source in part.sources:
        names_in_graph = [name for name in source.names if name in names.get(source, ()) or name in input_values]
        if not names_in_graph:
            raise VerificationError(f"{source.node.where} has no name in the ONNX model to cut it off at")
        outside[source] = names_in_graph[0]
    fault_name = fault.comparison.name
    missing = [name for name in outside.values() if name not in input_values]
    values = {**input_values, **reference.run(input_values, missing, plain=True)} if missing else dict(input_values)
    feeds = {name: values[name] for name in outside.values()}
    nodes = graph.needed([fault_name], feeds)
    # Other inputs of the ONNX nodes, such as one that became a constant of the IR.
    more = read_by(nodes) - {*written_by(nodes), *feeds}
    feeds.update({name: values[name] for name in sorted(more) if name in values})
    expected = reference.part(nodes, feeds, [fault_name])(feeds)[fault_name]
    small = extract(model, outside, {target: fault_name})
    inputs = {name: feeds[name] for name in outside.values()}
    if engine.compile_part is None:
        actual = compile_model(small, optimize=False)(inputs)[0]
    else:
        actual = engine.compile_part(small).run(inputs)[0]
    comparison = compare(fault_name, expected, actual, fault.local.tolerance)
    folder.mkdir(parents=True, exist_ok=True)
    cut = graph.embedded(graph.part(nodes, feeds, [fault_name]))
    (folder / "model.onnx").write_bytes(cut.SerializeToString())
    write_model(small, folder / "model.xml")
    _save(folder / "inputs.npz", feeds)
    _save(folder / "expected.npz", {fault_name: expected})
    layers = f"{len(fault.part)} layer" + ("s" if len(fault.part) != 1 else "")
    shows = f"shows it: {comparison.reason}" if not comparison.passed else "does not show it by itself"
    return f"{folder} holds {layers} and {len(nodes)} ONNX nodes; this part alone {shows}"


def _save(path: Path, arrays: Mapping[str, Array]) -> None:
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
