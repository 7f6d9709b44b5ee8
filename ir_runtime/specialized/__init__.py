"""Plans for known shapes: what computes a model whose inputs' shapes are known, with every array made once.

Importing the package registers what its modules bind.
"""

from __future__ import annotations

import importlib
import pkgutil

from .plan import SpecializedPlan

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")

__all__ = ["SpecializedPlan"]
