"""Translators of ONNX operators: a package a domain, a module a family. Importing it registers all of them."""

from __future__ import annotations

import importlib
import pkgutil

from converter.translation.registry import onnx_op

# What users register comes after these, so that theirs may replace them: they get onnx_op from here.
__all__ = ["onnx_op"]

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
