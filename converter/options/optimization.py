"""How to optimize an ONNX model: the options of ``optimize``, as those of :mod:`converter.options.conversion`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from converter.errors import OptionError
from converter.options.conversion import ConversionOptions, Options, option, same_option
from converter.options.export import ExportOptions

if TYPE_CHECKING:
    from converter.options.input_forms import InputShapes

TARGETS = ("plain", "onnxruntime")
_as_for_convert = partial(same_option, ConversionOptions)


class OptimizationOptions(Options):
    """How to optimize an ONNX model. The values are checked once, when the object is built.

    Raises :class:`ConversionError` for a value that no model could be optimized with.

    {options}
    """

    input: InputShapes = _as_for_convert(
        "input",
        """As for convert: shapes and constant values of inputs, "x[1,3,64,64],sr=16000".

        What follows from dimensions that are numbers is computed now.
        """,
    )
    freeze: Mapping[str, Any] | None = _as_for_convert("freeze")
    batch: int | None = _as_for_convert("batch")
    opset: int | None = option(
        None,
        """The version of ONNX's operators, from 7 on [the file's].

        A later one may need fewer nodes: from 17 on a LayerNormalization is one. What an older one lacks is expressed
        by its operators.
        """,
        "--opset",
        schema=ExportOptions.__dataclass_fields__["opset"].metadata["schema"],
        type=int,
        metavar="N",
        read="opset",
    )
    target: Literal["plain", "onnxruntime"] = option(
        "plain",
        """The runtime: "plain" (ONNX's own operators), "onnxruntime" (also com.microsoft).

        Operators of com.microsoft that the file has stay with both.
        """,
        "--target",
        parameter="runtime",
        schema={"enum": list(TARGETS)},
        read="choice",
    )
    fuse: bool = _as_for_convert("fuse")
    skip_passes: str | Sequence[str] = _as_for_convert("skip_passes")
    exact: bool = _as_for_convert("exact")

    fp16: bool = option(
        False,
        """Compute in float16: weights and activations become float16, between inputs and outputs of float32.

        What needs float32 keeps it, between Casts: operators that have no float16, what is computed from positions or
        with numbers beyond 65504, and quantized nodes. The result lists these nodes.
        """,
        "--fp16",
        parameter="float16",  # it is a choice for export
    )
    fp16_io: bool = option(
        False, "With fp16: inputs and outputs become float16, too.", "--fp16-io", unused_in=["float32"]
    )
    fp16_except: str | Sequence[str] = option(
        (),
        """With fp16: names of nodes, or operators, that stay as they are, in float32: "Softmax,/head/MatMul".

        For nodes whose results are too large or not exact enough in float16.
        """,
        "--fp16-except",
        schema=ConversionOptions.__dataclass_fields__["skip_passes"].metadata["schema"],
        multiple=True,
        metavar="NAMES",
        unused_in=["float32"],
        read="names_of_nodes",
    )

    def excepted(self) -> set[str]:
        """Return the names of ``fp16_except``."""
        texts = [self.fp16_except] if isinstance(self.fp16_except, str) else self.fp16_except
        return {name.strip() for text in texts for name in text.split(",") if name.strip()}

    def conversion(self) -> ConversionOptions:
        """Return the options of the conversion of a part to the plain IR, whose inputs have their shapes already."""
        return ConversionOptions(
            target="any", static=True, fuse=self.fuse, skip_passes=self.skip_passes, exact=self.exact
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, by name."""
        return {e.name: value for e in fields(self) if (value := getattr(self, e.name)) is not e.default}

    def _check(self) -> None:
        for name in ("fp16_io", "fp16_except"):
            if getattr(self, name) and not self.fp16:
                raise OptionError(f"{name} needs fp16")
        _ = self.excepted(), self.bindings, self.conversion()
