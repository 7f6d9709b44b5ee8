"""How to write an IR as an ONNX model: the options of exporting, as those of :mod:`converter.options.conversion`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from converter.options.conversion import SWITCH, TEXTS, described, option
from ir_runtime.records import record

PRECISIONS = ("keep", "model", "unfold")
OLDEST = 7
"""The first opset that can be written: since opset 7 operands broadcast as in NumPy."""
NEWEST = 28
"""The last opset that can be written."""


def check_opset(opset: object) -> None:
    """Raise :class:`ConversionError` for an opset that cannot be written; None leaves the choice to the export."""
    from converter.errors import ConversionError

    if opset is None:
        return
    if isinstance(opset, bool) or not isinstance(opset, int) or not OLDEST <= opset <= NEWEST:
        raise ConversionError(f"the opset must be a number from {OLDEST} to {NEWEST}, but is {opset!r}")


@described
@record
class ExportOptions:
    """How to write an IR as an ONNX model.

    Raises :class:`ConversionError` for a value that no model could be exported with.

    {options}
    """

    opset: int | None = option(
        None,
        """The version of ONNX's operators [the lowest that is compact, from 13 on].

        By default the lowest one that expresses the model compactly. From 7 on: what an older opset lacks is
        expressed by its operators, or all layers that need a later one are listed.
        """,
        "--opset",
        schema={"type": "integer", "minimum": 7},
        type=int,
        metavar="N",
    )
    contrib: bool = option(False, "Use onnxruntime's own operators (com.microsoft), too.", "--contrib")
    fp16: Literal["keep", "model", "unfold"] = option(
        "keep",
        """Weights in float16: keep them, compute the whole model in float16, or unfold them to float32.

        This decides about weights in float16 that are converted to float32: ``keep`` writes them so, ``unfold``
        writes them in float32, and ``model`` computes the whole model in float16, between inputs and outputs of
        float32.
        """,
        "--fp16",
        schema={"enum": list(PRECISIONS)},
    )
    inline_functions: bool = option(
        False,
        """Write no model-local functions, but their nodes.

        A layer that has no counterpart in ONNX becomes a call of a function that the model holds (of the domain
        ``onnx2ir``); with this its nodes stand in the graph, for readers that know no functions.
        """,
        "--inline-functions",
    )

    skip_passes: str | Sequence[str] = option(
        (),
        """Fusions into operators of ONNX or onnxruntime to leave out: "attentions,rotary_embeddings".

        The layers are then written one by one. The names are those that ``-v`` prints.
        """,
        "--skip-pass",
        schema=TEXTS,
        multiple=True,
        metavar="NAMES",
    )

    def __post_init__(self) -> None:
        from converter.errors import ConversionError

        check_opset(self.opset)
        if self.fp16 not in PRECISIONS:
            raise ConversionError(f"fp16 must be one of {', '.join(PRECISIONS)}, but is {self.fp16!r}")


@record
class ExternalData:
    """Where the weights of an ONNX file are: what :func:`converter.save_onnx` takes beside :class:`ExportOptions`."""

    external_data: bool | None = option(
        None,
        """Write the weights to a file of their own beside the model; by default from 2 GB on.

        The file has the model's name with ``.data`` behind it. A file of one piece of more than 2 GB cannot be
        read.
        """,
        "--external-data/--no-external-data",
        schema=SWITCH,
    )
