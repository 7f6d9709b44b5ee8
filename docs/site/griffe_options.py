"""Options in the pages of the Python reference, which mkdocstrings writes from the source alone.

A field is shown with its default and its text instead of the call that declares it, and a function that takes options
as keywords with these keywords.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import griffe

import converter


class Options(griffe.Extension):
    """What :mod:`converter.options.conversion` derives when the package is imported."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Show the fields of a class of options."""
        documented = getattr(converter, cls.name, None) if cls.path.startswith("converter.") else None
        if cls.docstring is None or "{options}" not in cls.docstring.value or not is_dataclass(documented):
            return
        cls.docstring.value = cls.docstring.value.replace("{options}", "").rstrip()
        for entry in fields(documented):
            attribute = cls.members[entry.name]
            assert isinstance(attribute, griffe.Attribute)
            attribute.value = repr(entry.default)
            attribute.labels -= {"class-attribute"}
            attribute.docstring = griffe.Docstring(entry.metadata["text"], parent=attribute)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Show the keywords of a function that takes options."""
        documented = getattr(converter, func.name, None) if func.path.startswith("converter.") else None
        classes = getattr(documented, "option_classes", ())
        if not classes or "keywords" not in func.parameters:
            return
        del func.parameters["keywords"]
        for entry in (entry for cls in classes for entry in fields(cls)):
            if entry.name not in func.parameters:
                func.parameters.add(
                    griffe.Parameter(
                        entry.name,
                        annotation=str(entry.type),
                        kind=griffe.ParameterKind.keyword_only,
                        default=repr(entry.default),
                    )
                )
