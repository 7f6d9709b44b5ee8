"""Plans for static shapes: every array and every call is made once, and a run goes through the calls.

Importing the package registers the binders and producers of its modules.
"""

from __future__ import annotations

import importlib
import pkgutil

from .plan import StaticPlan

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")

__all__ = ["StaticPlan"]
