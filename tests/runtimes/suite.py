"""What rows of ONNX's node suite show besides: other sizes, types of all values, a second export, the importer's IR."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import openvino

import converter
import ir_runtime
from ir_runtime.graph.element_types import Array
from ir_runtime.graph.model import Model, Output
from ir_runtime.graph.operation import Runner
from ir_runtime.rewriting.constant_folding import as_tuple
from tests.converter.to_onnx.graphs import second_pass
from tests.engines import run_numpy, run_openvino
from tests.ir_runtime.operations.relaxation import contradiction
from tests.rows.row import Tolerance
from tests.runtimes.work import NotApplicable, Runtime, Work, compare
from tests.suite.reshape import confirmed


def unchanged_by_a_second_pass(work: Work) -> None:
    found = second_pass(work.exported)
    assert found.same, found.to_dict()


def _of_other_sizes(engine: str) -> Runtime:
    """The IR given other dimensions, in one engine; what OpenVINO or the specification refuses is no fault."""

    def run(work: Work) -> None:
        if any(array.dtype.kind not in "iufb" for array in work.feeds.values()) or not work.feeds:
            raise NotApplicable
        if not work.of_other_sizes or any(isinstance(value, np.ma.MaskedArray) for value in work.expected):
            raise NotApplicable
        wrong = []
        for one, verdicts in work.of_other_sizes:
            verdict = verdicts[engine]
            if verdict.startswith("wrong") or (verdict != "right" and confirmed(work.model, one)):
                wrong.append(f"{one.label}: {verdict}")
        assert not wrong, wrong

    return run


def _models(work: Work) -> Iterator[tuple[str, Model]]:
    """The model as the file declares it, with open dimensions from the start, and opened afterwards."""
    yield "as declared", work.read(work.ir)
    shapes = {name: [-1] * np.ndim(array) for name, array in work.feeds.items() if np.ndim(array)}
    if shapes:
        with contextlib.suppress(converter.ConversionError):  # some operators have layers for static dimensions alone
            yield "open", work.read(work.opened_ir)
        with contextlib.suppress(ir_runtime.ModelError):
            model = work.read(work.ir).clone()
            model.reshape(shapes)
            yield "opened", model


def check_types(work: Work) -> None:
    """Raise AssertionError unless every value inside the model, bodies too, is of the type inferred for it."""
    for how, model in _models(work):
        arrays = [np.asarray(work.feeds[node.outputs[0].names[0]]) for node in model.parameters]
        wrong = _contradictions(model, arrays)
        assert not wrong, f"{how}: {wrong[:5]}"


def _contradictions(model: Model, arguments: Sequence[Array]) -> list[str]:
    """Return what is not of its inferred type when the model runs."""
    found: list[str] = []

    def run(graph: Model, arrays: Sequence[Array]) -> list[Array]:
        values: dict[Output, Array] = dict(zip(graph.inputs, arrays))
        for node in graph.nodes():
            if node.outputs and node.outputs[0] not in values:
                runners: list[Runner] = [lambda given, body=sub.body: run(body, given) for sub in node.op.subgraphs]
                results = as_tuple(node.op.execute(runners, [values[source] for source in node.inputs]))
                values.update(zip(node.outputs, results))
            for output in node.outputs:
                wrong = contradiction(output.type, values[output], values=node.op.deterministic)
                if wrong:
                    found.append(f"{node.name} ({node.op.type}-{node.op.opset}) {output.type}: {wrong}")
        return [values[output] for output in graph.outputs]

    with np.errstate(all="ignore"):
        run(model, arguments)
    return found


def imported(work: Work) -> None:
    """The IR of OpenVINO's importer in NumPy, with the numbers of the plug-in."""
    if len(work.feeds) < len(work.row.arguments):  # an input is a sequence
        raise NotApplicable
    with tempfile.TemporaryDirectory() as folder:
        source, xml = Path(folder, "m.onnx"), Path(folder, "m.xml")
        source.write_bytes(work.model.SerializeToString())
        try:
            openvino.save_model(openvino.convert_model(source), xml, compress_to_fp16=False)
            ir = xml.read_bytes(), xml.with_suffix(".bin").read_bytes()
            feeds = dict(enumerate(work.feeds.values()))
            expected = run_openvino(ir, feeds)
        except Exception as error:  # OpenVINO does not import the model, or does not run its own IR
            raise NotApplicable from error
    actual = run_numpy(ir, feeds)
    if any(node.op.type == "RandomUniform" for node in ir_runtime.read_model(*ir).nodes()):
        expected = [np.ma.array(value, mask=True) for value in expected]
    # Sums round by what their terms amount to, however small the sum itself is.
    tolerance = Tolerance(1e-3, 1e-5, of_greatest=1e-5)
    compare(dict(enumerate(actual)), dict(enumerate(expected)), tolerance)


OF_THE_SUITE: dict[str, Runtime] = {
    "inferred types": check_types,
    "second pass": unchanged_by_a_second_pass,
    "other sizes": _of_other_sizes("numpy"),
    "other sizes in OpenVINO": _of_other_sizes("openvino"),
    "OpenVINO's importer": imported,
}
"""Runtimes of the rows of ONNX's node suite, which compare by themselves."""
