"""The passes that a model goes through before it is exported."""

from __future__ import annotations

from ir_runtime.rewriting.pipeline import Pipeline

from .order import ORDER

before_export = Pipeline("converter.passes.before_export", ORDER)
