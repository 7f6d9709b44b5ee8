"""The schema of what commands print with ``--json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

SCHEMA: dict[str, Any] = json.loads((Path(__file__).parents[3] / "docs" / "json_output.schema.json").read_text())


def check(name: str, found: Any) -> None:
    """Raises where ``found`` is not what the command ``name`` prints."""
    jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}).validate(found)
