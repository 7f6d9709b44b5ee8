"""Plans for static shapes: every array and every call is made once, and a run goes through the calls.

Importing the package registers the binders of its modules.
"""

from __future__ import annotations

from ir_runtime.lazy import import_modules_of

from .plan import StaticPlan

import_modules_of(__name__)

__all__ = ["StaticPlan"]
