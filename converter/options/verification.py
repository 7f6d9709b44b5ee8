"""How to compare two models: the options of ``verify``, as those of :mod:`converter.options.conversion`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Union

from converter.errors import VerificationError
from converter.options.conversion import SWITCH, TEXT, ConversionOptions, Options, option, same_option

if TYPE_CHECKING:
    from converter.options.input_forms import InputShapes
    from ir_runtime.graph import Model

InputSource = Union[str, "os.PathLike[str]", Mapping[str, Any], None]
"""The file of arrays, or the arrays by name."""
_INPUTS, _COMPARISON, _OUTPUT = "Inputs", "Comparison", "Output"
_NOT_GIVEN, _NOT_IN_STEPS = ("given",), ("steps",)
_as_for_convert = partial(same_option, ConversionOptions, group=_INPUTS, unused_in=_NOT_IN_STEPS)
_of_inputs = partial(option, group=_INPUTS)
_of_runs = partial(_of_inputs, unused_in=[*_NOT_GIVEN, *_NOT_IN_STEPS])
_of_comparison = partial(option, group=_COMPARISON)
_of_results = partial(_of_comparison, unused_in=_NOT_IN_STEPS, schema=SWITCH)
_file = partial(option, None, unused_in=["several", *_NOT_IN_STEPS], schema=TEXT)
_written = partial(_file, read="path")
_tolerance = partial(_of_comparison, None, schema={"type": "number", "minimum": 0}, read="tolerance")


class VerificationOptions(Options):
    """How to compare two models. The values are checked once, when the object is built.

    Raises :class:`VerificationError` for a value that no models could be compared with.

    {options}
    """

    error = VerificationError

    input: InputShapes = _as_for_convert(
        "input",
        """As for convert: shapes and frozen values, "x[1,3,64,64],sr=16000".

        The ONNX model is given dynamic dimensions where they need that.
        """,
    )
    freeze: Mapping[str, Any] | None = _as_for_convert(
        "freeze", "As for convert: constant values that replace inputs, by name."
    )
    output: str | Sequence[str] | None = _as_for_convert("output", 'As for convert: "a,b".')
    batch: int | None = _as_for_convert("batch", "As for convert: the first dimension of every input.")
    inputs: InputSource = _of_inputs(
        None,
        """Inputs as .npz (by name) or .npy (for the only one).

        Or a mapping of arrays. Without them inputs are random. They follow what the graph shows: token ids lie
        below the rows of their table, masks are ones and zeros, images lie between 0 and 1. Dimensions are tried
        until the reference takes them.
        """,
        "--inputs",
        unused_in=_NOT_IN_STEPS,
        schema=TEXT,
        path="input",
    )
    seed: int = _of_inputs(
        0,
        "Seed of the random inputs.",
        "--seed",
        unused_in=_NOT_GIVEN,
        schema={"type": "integer", "minimum": 0},
        type=int,
        read="whole_number",
    )
    samples: int = _of_runs(
        2,
        """How many random inputs.

        Where the IR has dynamic dimensions there is one more with other sizes.
        """,
        "--samples",
        schema={"type": "integer", "minimum": 1},
        read="whole_number",
    )
    values: Mapping[str, str] | None = _of_runs(
        None,
        "What to fill an input with: 0..1, zeros, ones, normal, mask.",
        "--values",
        parameter="ranges",
        schema={"type": "object", "additionalProperties": TEXT},
        multiple=True,
        metavar="NAME=KIND",
    )
    stress: bool = _of_runs(
        False,
        """Also run on zeros, large, small and denormal numbers, infinities and NaN.

        Layers that decide on ties, equal operands, bounds and negative indices are compared, as ``layers`` does.
        """,
        "--stress",
    )
    rtol: float | None = _tolerance("Relative tolerance instead of each type's own.", "--rtol")
    atol: float | None = _tolerance("Absolute tolerance instead of each type's own.", "--atol")
    layers: bool | None = _of_results(
        None,
        """Compare inner tensors; by default where an output fails.

        Or where it proves nothing because it is the same whatever the inputs. A layer that is wrong although its
        inputs are right fails.
        """,
        "--layers/--no-layers",
    )
    weights: bool = _of_results(
        True, "Look for every weight of the file in the IR, bit by bit; by default.", "--weights/--no-weights"
    )
    engine: str = _of_comparison(
        "numpy",
        "What runs the IR; openvino computes in float32, openvino-default in the precision that it chooses.",
        "--engine",
        schema={"enum": ["numpy", "openvino", "openvino-default"]},
    )
    device: str | None = _of_comparison(
        None,
        """A device of OpenVINO that runs the IR: GPU, NPU, AUTO:GPU,CPU, HETERO:GPU,CPU, BATCH:GPU ...

        It computes in the precision that it chooses by itself, as the engine openvino-default; with the engine openvino
        in float32.
        """,
        "--device",
        schema=TEXT,
        metavar="NAME",
        read="device",
    )
    config: Mapping[str, Any] | str | os.PathLike[str] | None = _of_comparison(
        None,
        """Properties of OpenVINO's device: KEY=VALUE, or a JSON file of them.

        In Python a mapping or the path of such a file. A key that names a single device has a mapping of properties
        for it.
        """,
        "--config",
        parameter="configuration",
        schema={"type": "object"},
        multiple=True,
        metavar="FILE|KEY=VALUE",
        read="properties",
    )
    against: Model | str | os.PathLike[str] | None = _file(
        "Another IR (.xml) that must have the same outputs.", "--against", group=_COMPARISON, path="input"
    )
    accept_unproven: bool = _of_comparison(
        False,
        """Let models pass that nothing shows to be different, nor to be equal.

        The verdict is unproven where an output proves nothing, a weight is not accounted for, or a layer differs from
        its derivation without effect on the numbers.
        """,
        "--accept-unproven",
    )
    attest: str | os.PathLike[str] | None = _written(
        """Write an in-toto statement about the files and the verdict.

        It has the digests of both models, the options, versions, the verdict and the errors of each output. It is not
        signed.
        """,
        "--attest",
        group=_OUTPUT,
        path="output",
    )
    attestation: str | os.PathLike[str] | None = _written(
        """Check such a statement: digests, options and the verdict have to be those of now.

        Options of the statement hold where they are not given.
        """,
        "--attestation",
        group=_COMPARISON,
        path="input",
    )
    minimise: str | os.PathLike[str] | None = _written(
        "Write the smallest part of both models that shows the first wrong layer.",
        "--minimise",
        group=_OUTPUT,
        path="folder",
        metavar="FOLDER",
    )
    report: str | os.PathLike[str] | None = _written(
        "Write an HTML page with the graph and all differences.", "--report", group=_OUTPUT, path="output"
    )

    @classmethod
    def _read(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        read = super()._read(given)
        if read["engine"] == "numpy" and read["device"] is not None:
            read["engine"] = "openvino-default"
        return read

    def _check(self) -> None:
        if self.config and self.engine == "numpy":
            raise VerificationError("config has properties of OpenVINO: give a device, or the engine openvino, with it")

    @property
    def running(self) -> dict[str, Any]:
        """The device of OpenVINO and its properties, as keywords of what runs the IR."""
        return {"device": self.device, "config": self.config}
