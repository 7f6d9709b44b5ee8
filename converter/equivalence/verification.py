"""verify: run the ONNX model and the IR on the same inputs and compare every output by name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Union

import numpy as np

from converter.equivalence.engines import Engine, engine_for
from converter.equivalence.findings import Findings
from converter.equivalence.inputs import given_inputs
from converter.equivalence.references import reference_for
from converter.equivalence.report import Report
from converter.equivalence.runs import Runs, ValuesOf
from converter.equivalence.sides import Sides
from converter.equivalence.tolerances import chosen_by, tolerance_of
from converter.errors import VerificationError
from converter.from_onnx.input_forms import InputShapes
from converter.from_onnx.options import make_options
from converter.onnx_file.reader import ModelSource
from converter.stages import inform, stage, verbosely
from ir_runtime import FileError, Model, read_model
from ir_runtime.boundary import boundary
from ir_runtime.displayed import display
from ir_runtime.files.whole_files import check_folder, check_writable

InputSource = Union[str, "os.PathLike[str]", Mapping[str, Any], None]


@verbosely
@boundary(error=VerificationError)
def verify(
    onnx_model: ModelSource | Model,
    ir: Model | str | os.PathLike[str],
    *,
    inputs: InputSource = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    layers: bool | None = None,
    freeze: Mapping[str, Any] | None = None,
    output: str | Sequence[str] | None = None,
    input: InputShapes = None,
    batch: int | None = None,
    samples: int = 2,
    values: ValuesOf | None = None,
    stress: bool = False,
    weights: bool = True,
    engine: str = "numpy",
    against: Model | str | os.PathLike[str] | None = None,
    minimise: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> Report:
    """Run both sides on the same inputs and compare every output by name.

    ``onnx_model`` is the reference: an ONNX model, or another IR (``.xml``). ``inputs`` is a mapping of arrays, an
    ``.npz`` or (for one input) an ``.npy``; without it they are random with ``seed``, ``samples`` times, and where
    the IR has dynamic dimensions once more with other sizes. They follow what the graph shows: token ids lie
    below the rows of their table, masks are ones and zeros, images lie between 0 and 1; ``values`` gives others by
    name (``"0..1"``, ``"zeros"``, ``"ones"``, ``"normal"``, ``"mask"``). Dimensions are tried until the reference
    takes them. ``stress`` adds runs of zeros, large and denormal numbers, NaN and infinities,
    and compares layers that decide on ties, equal operands, bounds and negative indices, as ``layers`` does.

    ``input``, ``batch``, ``freeze`` and ``output`` are those of the conversion; the ONNX model is given dynamic
    dimensions where they need that. ``rtol`` and ``atol`` replace the tolerance that each type has. ``weights`` looks
    for every tensor of the file in the IR, bit by bit. ``layers`` compares inner tensors, too: by default where an
    output fails, or proves nothing because it is the same whatever the inputs. A layer that is wrong although its
    inputs are right fails. ``minimise`` is a folder for the smallest part of both models that shows the first such
    layer, ``report`` an HTML file with the whole report.

    ``engine`` runs the IR: ``"numpy"``, ``"openvino"`` (in float32) or ``"openvino-default"``. ``against`` is
    another IR that must have the same outputs.

    Where the IR's weights were compressed, each output may also differ by the effect of their rounding, up to half of
    its largest value: see :mod:`converter.equivalence.rounded_weights`. The outputs of
    quantised models may differ by as much as onnxruntime's own optimised and plain runs do, and by a step where no
    single layer, given right inputs, is wrong. Where outputs differ by more and no layer is wrong, they count as equal
    if the IR is about as close to the result in float64 as onnxruntime is: see :mod:`converter.equivalence.exact`.

    ``verbose`` logs the stages with their times, at INFO, as ``converter``; to stderr where no logging is set up.

    A :class:`ir_runtime.FileError` is raised at once where ``minimise`` or ``report`` cannot be written. If writing
    fails later, ``unwritten`` of the report has the error.

    Raises :class:`converter.VerificationError` where a side cannot be run, and
    :class:`ir_runtime.ModelError` where the IR cannot be read.
    """
    if minimise is not None:
        check_folder(minimise)
    if report is not None:
        check_writable(report)
    layers = None if layers is None else bool(layers)
    stored = None if isinstance(ir, Model) else ir
    with stage("read"):
        model = ir if isinstance(ir, Model) else read_model(ir)
        if isinstance(onnx_model, os.PathLike):
            onnx_model = os.fspath(onnx_model)
        elif hasattr(onnx_model, "read"):
            onnx_model = onnx_model.read()  # it may be needed more than once
        reference = reference_for(onnx_model)
    options = make_options(input, freeze, output, batch).bound(list(reference.input_names))
    for name, number in (("seed", seed), ("samples", samples)):
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 0:
            raise VerificationError(f"{name} must be a whole number from 0 on, but is {number!r}")
    rtol, atol = (tolerance_of(name, number) for name, number in (("rtol", rtol), ("atol", atol)))
    running = engine_for(engine, model, stored)
    sides = Sides(
        reference,
        model,
        running,
        chosen_by(rtol, atol, running.precision),
        default_tolerance=rtol is None and atol is None,
        frozen=options.frozen,
        wanted=options.outputs,
    )
    sides.check_inputs()
    runs = Runs(sides)
    with stage("run"):
        if inputs is not None:
            runs.compare("given inputs", given_inputs(inputs, sides.ports))
        else:
            runs.set_values(values or {})
            runs.random(seed, max(1, samples), options.shapes, options.batch)
            if stress:
                runs.stress(seed)
    if not runs.runs[0].expected:
        raise VerificationError(f"{_name_of(onnx_model)} has no outputs, so that there is nothing to compare")
    for run in runs.runs:
        inform("run on %s %s: %s", run.description, run.shapes, "equal" if run.passed else "different")
    source = b"" if isinstance(onnx_model, Model) else onnx_model
    findings = Findings(runs, source, {"input": input, "freeze": freeze, "output": output, "batch": batch})
    found = findings.report(
        seed if inputs is None else None,
        layers=layers if layers is not None or report is None else True,
        weights=weights,
        against=None if against is None else _other(against, engine),
        folder=None if minimise is None else Path(minimise),
        histograms=report is not None,
        directed=stress and layers is not False,
    )
    if report is not None:
        title = f"{_name_of(onnx_model)} and {_name_of(ir)}"
        try:
            with stage("page"):
                display(found, "page", model, title, Path(report), None if stored is None else Path(stored))
            found = replace(found, page=str(report))
        except FileError as error:  # the report must not be lost with the page
            found = replace(found, unwritten=(*found.unwritten, str(error)))
    inform("%s", found.verdict)
    return found


def _name_of(side: object) -> str:
    return Path(side).name if isinstance(side, (str, os.PathLike)) else "the model"


def _other(against: Model | str | os.PathLike[str], engine: str) -> Engine:
    if isinstance(against, Model):
        return engine_for(engine, against)
    return engine_for(engine, read_model(against), against)
