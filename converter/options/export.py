"""How to write an IR as an ONNX model: the options of exporting, as those of :mod:`converter.options.conversion`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from converter.options.conversion import SWITCH, TEXTS, Options, option

PRECISIONS = ("keep", "model", "unfold")


class ExportOptions(Options):
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
        read="opset",
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
        read="choice",
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
        read="export_pass_names",
    )


class ExternalData(Options):
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
