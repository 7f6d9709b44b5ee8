"""How to optimize an ONNX model: the options of ``optimize``, as those of :mod:`converter.options`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal

from converter.export_options import ExportOptions
from converter.options import ConversionOptions, described, option, same_option
from ir_runtime.records import record

if TYPE_CHECKING:
    from converter.from_onnx.input_forms import InputShapes

TARGETS = ("plain", "onnxruntime")


def _as_for_convert(name: str, text: str = "") -> Any:
    entry = ConversionOptions.__dataclass_fields__[name]
    return same_option(ConversionOptions, name, text or entry.metadata["text"], group="", unused_in=())


@described
@record
class OptimizationOptions:
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
    )
    target: Literal["plain", "onnxruntime"] = option(
        "plain",
        """The runtime: "plain" (ONNX's own operators), "onnxruntime" (also com.microsoft).

        Operators of com.microsoft that the file has stay with both.
        """,
        "--target",
        parameter="runtime",
        schema={"enum": list(TARGETS)},
    )
    fuse: bool = _as_for_convert("fuse")
    skip_passes: str | Sequence[str] = _as_for_convert("skip_passes")
    exact: bool = _as_for_convert("exact")

    def conversion(self) -> ConversionOptions:
        """Return the options of the conversion of a part to the plain IR, whose inputs have their shapes already."""
        return ConversionOptions(
            target="any", static=True, fuse=self.fuse, skip_passes=self.skip_passes, exact=self.exact
        )

    def bindings(self) -> ConversionOptions:
        """Return the shapes and values of the inputs as options of a conversion."""
        return ConversionOptions(input=self.input, freeze=self.freeze, batch=self.batch)

    def to_dict(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, by name."""
        return {e.name: value for e in fields(self) if (value := getattr(self, e.name)) is not e.default}

    def __post_init__(self) -> None:
        from converter.from_onnx.input_forms import OptionError, shown
        from converter.to_onnx.opsets import Opsets
        from ir_runtime.boundary import boundary

        with boundary("the arguments", error=OptionError, reads=OptionError):
            if not isinstance(self.target, str) or self.target not in TARGETS:
                raise OptionError(f"target must be one of {', '.join(TARGETS)}, but is {shown(self.target)}")
            Opsets.of(self.opset)
            self.bindings()
            self.conversion()
