"""The passes that every model goes through between translation and target."""

from __future__ import annotations

from ir_runtime.rewriting.pipeline import Pipeline

from .order import ORDER

passes = Pipeline("converter.passes", ORDER)
