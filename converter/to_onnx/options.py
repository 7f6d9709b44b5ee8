"""What the caller chooses when an IR is written as an ONNX model."""

from __future__ import annotations

from converter.errors import ConversionError
from ir_runtime.records import record

PRECISIONS = ("keep", "model", "unfold")


@record
class ExportOptions:
    """The arguments of :func:`converter.export_model`, which tells what they mean.

    Raises :class:`ConversionError` for values that there are not.
    """

    opset: int | None = None
    contrib: bool = False
    fp16: str = "keep"
    inline_functions: bool = False

    def __post_init__(self) -> None:
        if self.fp16 not in PRECISIONS:
            raise ConversionError(f"fp16 must be one of {', '.join(PRECISIONS)}, but is {self.fp16!r}")
