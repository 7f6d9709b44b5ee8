"""The compiled part of onnx, for a Pyodide that no wheel of onnx is built for: names without functions.

onnx's messages need protobuf alone; shape inference adds nothing, the checker and schemas raise.
"""

from __future__ import annotations

import sys
import types
from typing import Any

ONNX_ML = True
OPSETS = {"": (1, 28), "ai.onnx.ml": (1, 5), "ai.onnx.training": (1, 1), "ai.onnx.preview.training": (1, 1)}


class _Names(type):
    def __getattr__(cls, name: str) -> Any:
        return _absent(name)


class _Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        value = _absent(name)
        setattr(self, name, value)
        return value


def _absent(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name.endswith("Error"):
        return type(name, (Exception,), {})
    if name[0].isupper():
        return _Names(name, (), {})

    def function(*arguments: Any, **keywords: Any) -> Any:
        raise RuntimeError(f"the compiled part of onnx is absent: {name}")

    return function


for _name in ("checker", "defs", "inliner", "parser", "printer", "shape_inference", "version_converter"):
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = _Module(f"{__name__}.{_name}")
defs.schema_version_map = lambda: OPSETS  # type: ignore[name-defined]  # noqa: F821
shape_inference.infer_shapes = lambda model, *options: model  # type: ignore[name-defined]  # noqa: F821  # infers nothing
defs.get_all_schemas_with_history = list  # type: ignore[name-defined]  # noqa: F821
