"""What the pages of the Python reference need beyond mkdocstrings."""

from __future__ import annotations

import re
from typing import Any

_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):(?=<code>|<a )")
"""The roles of Sphinx in docstrings, which Markdown does not know: what they name is code all the same."""


def on_page_content(html: str, **_: Any) -> str:
    """Called by MkDocs with the HTML of each page."""
    return _ROLE.sub("", html)
