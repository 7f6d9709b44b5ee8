"""The options of ``convert`` for preprocessing, written as ``mo`` has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.options.conversion import option
from ir_runtime.records import record

if TYPE_CHECKING:
    from converter.passes.preprocessing.request import Request


def _words(flags: str, text: str, **click: Any) -> Any:
    """Return a field for an option that neither a folder nor ``--stateless`` has a use for."""
    default = None if click else False
    return option(default, text, flags, group="Preprocessing", unused_in=("stateless", "folder"), **click)


def _texts(flags: str, text: str) -> Any:
    """Return a field for an option that can be repeated."""
    return _words(flags, text, multiple=True, metavar="TEXT")


@record
class PreprocessingOptions:
    """The preprocessing that the command line asks for; options that are repeated are joined by commas."""

    preprocess: Path | None = _words(
        "--preprocess", "A TOML file that describes inputs and outputs.", path="input", metavar="FILE"
    )
    mean_values: str | None = _texts(
        "--mean-values", 'Numbers to subtract: "data[123.7,116.3,103.5]", "(127.5,127.5,127.5)" or "127.5".'
    )
    scale_values: str | None = _texts("--scale-values", 'Numbers to divide by: "data[58.4,57.1,57.4]", or "255".')
    scale: float | None = _words("--scale", "A number to divide every input by.", type=float)
    reverse_input_channels: bool = _words(
        "--reverse-input-channels/--no-reverse-input-channels",
        "Swap red and blue in every image, before mean and scale.",
    )
    layout: str | None = _texts(
        "--layout", 'The model\'s layout, and the layout that the IR is to take: "nchw", "data(nchw->nhwc)".'
    )
    source_layout: str | None = _texts("--source-layout", 'The model\'s layout: "nchw", "data(nchw)".')
    target_layout: str | None = _texts("--target-layout", 'The layout that the IR is to take: "nhwc", "data(nhwc)".')
    resize: str | None = _texts(
        "--resize",
        'Take images of any height and width: "linear", "cubic", "nearest", "bilinear_pillow", "data(linear)".',
    )
    color: str | None = _texts(
        "--color",
        'Colour format of images: "rgb", "bgr", "nv12", "i420", "data(nv12->bgr)"; the model takes rgb, or what stands '
        "behind the arrow.",
    )
    fold_preprocessing: bool = _words(
        "--fold-preprocessing",
        "Make mean and scale part of the first convolutions; a mean stays a layer in front of those that pad.",
    )

    def request(self) -> Request | None:
        """Return the steps; None for none."""
        if self == PreprocessingOptions():
            return None
        from converter.passes.preprocessing import texts
        from converter.passes.preprocessing.request import Entry, Request

        readers: dict[str, Callable[[str, str], Iterator[Entry]]] = {
            **dict.fromkeys(("mean_values", "scale_values"), texts.numbers),
            **dict.fromkeys(("layout", "source_layout", "target_layout"), texts.layouts),
            **dict.fromkeys(("resize", "color"), texts.choices),
        }
        entries: tuple[Entry, ...] = ()
        for entry in fields(self):
            if entry.name in readers and (text := getattr(self, entry.name)) is not None:
                entries += tuple(readers[entry.name](entry.metadata["flags"], text))
        request = Request() if self.preprocess is None else texts.read_file(self.preprocess)
        reverse, fold = self.reverse_input_channels, self.fold_preprocessing
        return replace(request, entries=entries, scale=self.scale, reverse_channels=reverse, fold=fold) or None
