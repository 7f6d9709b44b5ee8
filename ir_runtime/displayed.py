"""Results that people read hold data; the room ``report`` of their package knows what they look like.

So a result imports nothing that displays: ``report`` lists what it shows by the names of classes.
"""

from __future__ import annotations

import importlib
from typing import Any


class Displayed:
    """A result that a notebook shows."""

    def _repr_html_(self) -> str:
        """The result in a notebook."""
        html: str = display(self, "html")
        return html


class Printed(Displayed):
    """A result that a terminal shows, too."""

    def draw(self, console: Any) -> None:
        """Print the result to a console of rich."""
        display(self, "draw", console)

    def to_text(self) -> str:
        """Return what the command prints, without colours."""
        text: str = display(self, "text")
        return text

    def __str__(self) -> str:
        return self.to_text()


def display(result: Displayed, form: str, *arguments: Any, **options: Any) -> Any:
    """Return ``result`` in a ``form``: ``html``, ``text``, or ``draw`` and ``page``, which write to the arguments."""
    (printed_class,) = [
        cls for cls in type(result).__mro__ if {Displayed, Printed} & {*cls.__bases__} and cls is not Printed
    ]
    report = importlib.import_module(f"{printed_class.__module__.partition('.')[0]}.report")
    return report.form_of(printed_class.__name__, form)(result, *arguments, **options)
