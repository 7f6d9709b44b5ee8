"""How to compare two models: the options of ``verify``, as those of :mod:`converter.options`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Union

from converter.options import SWITCH, TEXT, ConversionOptions, described, option, same_option
from ir_runtime.records import record

if TYPE_CHECKING:
    from converter.from_onnx.input_forms import InputShapes
    from ir_runtime.graph import Model

InputSource = Union[str, "os.PathLike[str]", Mapping[str, Any], None]
"""The file of arrays, or the arrays by name."""
_INPUTS, _COMPARISON, _OUTPUT = "Inputs", "Comparison", "Output"
_NOT_GIVEN, _NOT_IN_STEPS = ("given",), ("steps",)
_as_for_convert = partial(same_option, ConversionOptions, group=_INPUTS, unused_in=_NOT_IN_STEPS)


@described
@record
class VerificationOptions:
    """How to compare two models. The values are checked once, when the object is built.

    Raises :class:`VerificationError` for a value that no models could be compared with.

    {options}
    """

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
    inputs: InputSource = option(
        None,
        """Inputs as .npz (by name) or .npy (for the only one).

        Or a mapping of arrays. Without them inputs are random. They follow what the graph shows: token ids lie
        below the rows of their table, masks are ones and zeros, images lie between 0 and 1. Dimensions are tried
        until the reference takes them.
        """,
        "--inputs",
        group=_INPUTS,
        unused_in=_NOT_IN_STEPS,
        schema=TEXT,
        path="input",
    )
    seed: int = option(
        0,
        "Seed of the random inputs.",
        "--seed",
        group=_INPUTS,
        unused_in=_NOT_GIVEN,
        schema={"type": "integer", "minimum": 0},
        type=int,
    )
    samples: int = option(
        2,
        """How many random inputs.

        Where the IR has dynamic dimensions there is one more with other sizes.
        """,
        "--samples",
        group=_INPUTS,
        unused_in=[*_NOT_GIVEN, *_NOT_IN_STEPS],
        schema={"type": "integer", "minimum": 1},
    )
    values: Mapping[str, str] | None = option(
        None,
        "What to fill an input with: 0..1, zeros, ones, normal, mask.",
        "--values",
        parameter="ranges",
        group=_INPUTS,
        unused_in=[*_NOT_GIVEN, *_NOT_IN_STEPS],
        schema={"type": "object", "additionalProperties": TEXT},
        multiple=True,
        metavar="NAME=KIND",
    )
    stress: bool = option(
        False,
        """Also run on zeros, large, small and denormal numbers, infinities and NaN.

        Layers that decide on ties, equal operands, bounds and negative indices are compared, as ``layers`` does.
        """,
        "--stress",
        group=_INPUTS,
        unused_in=[*_NOT_GIVEN, *_NOT_IN_STEPS],
        schema=SWITCH,
    )
    rtol: float | None = option(
        None,
        "Relative tolerance instead of each type's own.",
        "--rtol",
        group=_COMPARISON,
        schema={"type": "number", "minimum": 0},
    )
    atol: float | None = option(
        None,
        "Absolute tolerance instead of each type's own.",
        "--atol",
        group=_COMPARISON,
        schema={"type": "number", "minimum": 0},
    )
    layers: bool | None = option(
        None,
        """Compare inner tensors; by default where an output fails.

        Or where it proves nothing because it is the same whatever the inputs. A layer that is wrong although its
        inputs are right fails.
        """,
        "--layers/--no-layers",
        group=_COMPARISON,
        unused_in=_NOT_IN_STEPS,
        schema=SWITCH,
    )
    weights: bool = option(
        True,
        "Look for every weight of the file in the IR, bit by bit; by default.",
        "--weights/--no-weights",
        group=_COMPARISON,
        unused_in=_NOT_IN_STEPS,
        schema=SWITCH,
    )
    engine: str = option(
        "numpy",
        "What runs the IR; openvino computes in float32, openvino-default in the precision that it chooses.",
        "--engine",
        group=_COMPARISON,
        schema={"enum": ["numpy", "openvino", "openvino-default"]},
    )
    device: str | None = option(
        None,
        """A device of OpenVINO that runs the IR: GPU, NPU, AUTO:GPU,CPU, HETERO:GPU,CPU, BATCH:GPU ...

        It computes in the precision that it chooses by itself, as the engine openvino-default; with the engine openvino
        in float32.
        """,
        "--device",
        group=_COMPARISON,
        schema=TEXT,
        metavar="NAME",
    )
    config: Mapping[str, Any] | str | os.PathLike[str] | None = option(
        None,
        """Properties of OpenVINO's device: KEY=VALUE, or a JSON file of them.

        In Python a mapping or the path of such a file. A key that names a single device has a mapping of properties
        for it.
        """,
        "--config",
        parameter="configuration",
        group=_COMPARISON,
        schema={"type": "object"},
        multiple=True,
        metavar="FILE|KEY=VALUE",
    )
    against: Model | str | os.PathLike[str] | None = option(
        None,
        "Another IR (.xml) that must have the same outputs.",
        "--against",
        group=_COMPARISON,
        unused_in=["several", *_NOT_IN_STEPS],
        schema=TEXT,
        path="input",
    )
    accept_unproven: bool = option(
        False,
        """Let models pass that nothing shows to be different, nor to be equal.

        The verdict is unproven where an output proves nothing, a weight is not accounted for, or a layer differs from
        its derivation without effect on the numbers.
        """,
        "--accept-unproven",
        group=_COMPARISON,
        schema=SWITCH,
    )
    attest: str | os.PathLike[str] | None = option(
        None,
        """Write an in-toto statement about the files and the verdict.

        It has the digests of both models, the options, versions, the verdict and the errors of each output. It is not
        signed.
        """,
        "--attest",
        group=_OUTPUT,
        unused_in=["several", *_NOT_IN_STEPS],
        schema=TEXT,
        path="output",
        metavar="FILE",
    )
    attestation: str | os.PathLike[str] | None = option(
        None,
        """Check such a statement: digests, options and the verdict have to be those of now.

        Options of the statement hold where they are not given.
        """,
        "--attestation",
        group=_COMPARISON,
        unused_in=["several", *_NOT_IN_STEPS],
        schema=TEXT,
        path="input",
        metavar="FILE",
    )
    minimise: str | os.PathLike[str] | None = option(
        None,
        "Write the smallest part of both models that shows the first wrong layer.",
        "--minimise",
        group=_OUTPUT,
        unused_in=["several", *_NOT_IN_STEPS],
        schema=TEXT,
        path="folder",
        metavar="FOLDER",
    )
    report: str | os.PathLike[str] | None = option(
        None,
        "Write an HTML page with the graph and all differences.",
        "--report",
        group=_OUTPUT,
        unused_in=["several", *_NOT_IN_STEPS],
        schema=TEXT,
        path="output",
        metavar="FILE",
    )

    def __post_init__(self) -> None:
        from converter.errors import VerificationError
        from converter.option_values import check_verification
        from ir_runtime.boundary import boundary

        with boundary("the arguments", error=VerificationError, reads=VerificationError):
            self.__dict__.update(check_verification(self))

    @property
    def running(self) -> dict[str, Any]:
        """The device of OpenVINO and its properties, as keywords of what runs the IR."""
        return {"device": self.device, "config": self.config}
