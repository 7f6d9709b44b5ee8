"""verify: run the ONNX model and the IR on the same inputs and compare every output by name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Union

from converter.equivalence.engines import Engine, engine_for
from converter.equivalence.inputs import given_inputs
from converter.equivalence.references import reference_for
from converter.equivalence.report import Report
from converter.equivalence.runs import Runs, ValuesOf
from converter.equivalence.tolerances import chosen_by
from converter.input_forms import InputShapes
from converter.onnx_file.reader import ModelSource
from converter.options import make_options
from ir_runtime import FileError, Model, read_model
from ir_runtime.whole_files import check_folder, check_writable

InputSource = Union[str, "os.PathLike[str]", Mapping[str, Any], None]


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
) -> Report:
    """Run both sides on the same inputs and compare every output by name.

    ``onnx_model`` is the reference: an ONNX model, or another IR (``.xml``). ``inputs`` is a mapping of arrays, an
    ``.npz`` or (for one input) an ``.npy``; without it they are random with ``seed``, ``samples`` times, and where
    the IR leaves extents open once more with other extents. What the graph shows is respected: token ids lie below
    the rows of their table, masks are ones and zeros, images lie between 0 and 1; ``values`` says otherwise by name
    (``"0..1"``, ``"zeros"``, ``"ones"``, ``"normal"``, ``"mask"``). Extents are tried until the reference takes
    them. ``stress`` adds runs of zeros, large and denormal numbers, NaN and infinities.

    ``input``, ``batch``, ``freeze`` and ``output`` are what the conversion was told; the ONNX side is opened up for
    them. ``rtol`` and ``atol`` replace the tolerance that each type has. ``weights`` accounts for every tensor that
    the file states, bit by bit. ``layers`` compares inner tensors, too: by default where an output fails, or proves
    nothing because it is the same whatever the inputs. A layer that is wrong although its inputs are right fails.
    ``minimise`` is a folder for the smallest part of both models that shows the first such layer, ``report`` an HTML
    file to look at everything in.

    ``engine`` runs the IR: ``"numpy"``, ``"openvino"`` (in float32) or ``"openvino-default"``. ``against`` is
    another IR, which is to have the same outputs.

    Where the IR says that its weights were compressed, each output may differ by what their rounding costs it
    besides, up to half of its largest value: see :mod:`converter.equivalence.rounded_weights`. The outputs of
    quantised models may differ by as much as onnxruntime's own optimised and plain runs do, and by a step where no
    single layer, given right inputs, is wrong.

    Whether ``minimise`` and ``report`` can be written is found out first, and a :class:`ir_runtime.FileError` says so.
    Where writing fails after all, ``unwritten`` of what is returned says why.

    Raises :class:`converter.VerificationError` where a side cannot be run, and
    :class:`ir_runtime.ModelError` where the IR cannot be read.
    """
    if minimise is not None:
        check_folder(minimise)
    if report is not None:
        check_writable(report)
    stored = None if isinstance(ir, Model) else ir
    model = ir if isinstance(ir, Model) else read_model(ir)
    if hasattr(onnx_model, "read"):
        onnx_model = onnx_model.read()  # it may be needed more than once
    reference = reference_for(onnx_model)
    options = make_options(input, freeze, output, batch).bound(list(reference.input_names))
    running = engine_for(engine, model, stored)
    runs = Runs(
        onnx_model if not isinstance(onnx_model, Model) else b"",
        {"input": input, "freeze": freeze, "output": output, "batch": batch},
        reference,
        model,
        running,
        chosen_by(rtol, atol, running.precision),
        default_tolerance=rtol is None and atol is None,
        frozen=options.frozen,
        wanted=options.outputs,
    )
    runs.check_inputs()
    if inputs is not None:
        runs.compare("given inputs", given_inputs(inputs, runs.ports))
    else:
        runs.set_values(values or {})
        runs.random(seed, max(1, samples), options.shapes, options.batch)
        if stress:
            runs.stress(seed)
    found = runs.report(
        seed if inputs is None else None,
        layers=layers if layers is not None or report is None else True,
        weights=weights,
        against=None if against is None else _other(against, engine),
        folder=None if minimise is None else Path(minimise),
        histograms=report is not None,
    )
    if report is not None:
        from converter.report.verifications import write_verification

        title = f"{_called(onnx_model)} and {_called(ir)}"
        try:
            write_verification(found, model, title, Path(report), None if stored is None else Path(stored))
        except FileError as error:  # what was found is not lost with the page
            return replace(found, unwritten=(*found.unwritten, str(error)))
    return found


def _called(side: object) -> str:
    return Path(side).name if isinstance(side, (str, os.PathLike)) else "the model"


def _other(against: Model | str | os.PathLike[str], engine: str) -> Engine:
    if isinstance(against, Model):
        return engine_for(engine, against)
    return engine_for(engine, read_model(against), against)
