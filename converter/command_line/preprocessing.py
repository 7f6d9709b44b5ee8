"""The options of ``convert`` for preprocessing, written as ``mo`` has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter.command_line.state import INPUT_FILE
from ir_runtime.records import record

if TYPE_CHECKING:
    from converter.preprocessing.request import Request

_TEXTS = {
    "--mean-values": 'Numbers to subtract: "data[123.7,116.3,103.5]", "(127.5,127.5,127.5)" or "127.5".',
    "--scale-values": 'Numbers to divide by: "data[58.4,57.1,57.4]", or "255".',
    "--layout": 'The model\'s layout, and the layout that the IR is to take: "nchw", "data(nchw->nhwc)".',
    "--source-layout": 'The model\'s layout: "nchw", "data(nchw)".',
    "--target-layout": 'The layout that the IR is to take: "nhwc", "data(nhwc)".',
    "--resize": 'Take pictures of any height and width: "linear", "cubic", "nearest", "data(linear)".',
    "--color": 'What pictures come in: "rgb", "bgr", "nv12", "i420", "data(nv12->bgr)"; the model takes rgb, or what '
    "stands behind the arrow.",
}


@record
class Given:
    """What the command line asks for."""

    texts: Mapping[str, tuple[str, ...]]
    scale: float | None
    reverse: bool
    fold: bool
    file: Path | None

    @property
    def given(self) -> dict[str, object]:
        """The options by name, for those who cannot use them."""
        single = {
            "--scale": self.scale,
            "--reverse-input-channels": self.reverse,
            "--fold-preprocessing": self.fold,
            "--preprocess": self.file,
        }
        return {**self.texts, **single}

    def request(self, input_text: str) -> tuple[str, Request | None]:
        """``--input`` without types that callers give, and what is asked for; None for nothing."""
        if not any(self.given.values()) and "[" not in input_text:
            return input_text, None
        from converter.preprocessing import texts
        from converter.preprocessing.request import Request

        rest, entries = texts.element_types(input_text)
        readers: dict[str, Callable[..., Any]] = {
            **dict.fromkeys(("--mean-values", "--scale-values"), texts.numbers),
            **dict.fromkeys(("--layout", "--source-layout", "--target-layout"), texts.layouts),
            **dict.fromkeys(("--resize", "--color"), texts.choices),
        }
        for option, values in self.texts.items():
            entries += tuple(readers[option](option, ",".join(values))) if values else ()
        request = Request() if self.file is None else texts.read_file(self.file)
        request = replace(request, entries=entries, scale=self.scale, reverse_channels=self.reverse, fold=self.fold)
        return rest, request or None


def preprocessing_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the options, which arrive as ``processing``."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        found = {option: kwargs.pop(_parameter(option)) for option in _TEXTS}
        switches = kwargs.pop("reverse_input_channels"), kwargs.pop("fold_preprocessing")
        given = Given(found, kwargs.pop("scale"), *switches, kwargs.pop("preprocess"))
        return function(*args, processing=given, **kwargs)

    decorated: Callable[..., Any] = click.option(
        "--preprocess", type=INPUT_FILE, metavar="FILE", help="A TOML file that describes inputs and outputs."
    )(wrapper)
    decorated = click.option(
        "--fold-preprocessing",
        is_flag=True,
        help="Make mean and scale part of the first convolutions; a mean stays a layer in front of those that pad.",
    )(decorated)
    decorated = click.option(
        "--reverse-input-channels/--no-reverse-input-channels",
        default=False,
        help="Swap red and blue in every picture, before mean and scale.",
    )(decorated)
    for option, help_text in reversed(_TEXTS.items()):
        decorated = click.option(option, multiple=True, metavar="TEXT", help=help_text)(decorated)
        if option == "--layout":
            decorated = click.option("--scale", type=float, help="A number to divide every input by.")(decorated)
    return decorated


def _parameter(option: str) -> str:
    return option.lstrip("-").replace("-", "_")
