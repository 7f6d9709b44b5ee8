"""What the pages of the Python reference need beyond mkdocstrings, and the page that runs in the browser."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import markdown

import converter
from converter.options.conversion import reference

_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):(?=<code>|<a )")
"""The roles of Sphinx in docstrings, which Markdown does not know: what they name is code all the same."""


_OPTIONS = re.compile(r"<p>\{options\}</p>")
"""Where a docstring gets the texts of the options, which mkdocstrings does not see: it reads the source alone."""
_OBJECT = re.compile(r'id="converter\.(\w+)"')


def on_page_content(html: str, **_: Any) -> str:
    """Called by MkDocs with the HTML of each page."""
    html = _OPTIONS.sub(lambda match: _options_of(_OBJECT.findall(html[: match.start()])[-1]), html)
    return _ROLE.sub("", html)


def _options_of(name: str) -> str:
    """Return the HTML of the options that an object of the converter takes, or is."""
    documented = getattr(converter, name)
    text = reference(*getattr(documented, "option_classes", (documented,)))
    return markdown.markdown(text.replace("``", "`"))


def on_post_build(config: Any, **_: Any) -> None:
    """Called by MkDocs at the end: adds the page that runs in the browser."""
    spec = importlib.util.spec_from_file_location("vendor", Path(__file__).parent / "try" / "vendor.py")
    assert spec is not None
    assert spec.loader is not None
    vendor = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(vendor)
    vendor.assemble(Path(config["site_dir"]) / "try")
