"""Output for people: HTML pages, tables for notebooks, text for terminals, notes for GitHub. Nothing else displays."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

_FORMS = {
    ("Report", "html"): "notebook.html_of",
    ("Report", "draw"): "terminal.draw_report",
    ("Report", "page"): "verifications.write_verification",
    ("StepsReport", "html"): "notebook.html_of_steps",
    ("StepsReport", "draw"): "terminal.draw_steps",
    ("RoundTrip", "html"): "notebook.html_of_round_trip",
    ("RoundTrip", "draw"): "terminal.draw_round_trip",
}
"""The function in this package that shows a result: see :mod:`ir_runtime.displayed`."""


def form_of(result: str, form: str) -> Callable[..., Any]:
    """The function that gives results of this class a form."""
    if form == "text":
        from .terminal import plain_text

        draw = form_of(result, "draw")
        return lambda shown: plain_text(lambda console: draw(shown, console))
    module, _, function = _FORMS[result, form].partition(".")
    shows: Callable[..., Any] = getattr(importlib.import_module(f"{__name__}.{module}"), function)
    return shows
