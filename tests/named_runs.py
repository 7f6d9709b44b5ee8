"""Runs an IR in both engines, and looks its outputs up by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import ir_runtime
from tests.engines import array_of, core, openvino_tensor

Named = dict[str, np.ndarray[Any, Any]]


def run_by_name(ir: tuple[bytes, bytes], feeds: Mapping[str, Any]) -> dict[str, Named]:
    """For each engine every output by the one name that it has there, in the model's order."""
    return {"numpy": _numpy(ir, feeds), "openvino": _openvino(ir, feeds)}


def _numpy(ir: tuple[bytes, bytes], feeds: Mapping[str, Any]) -> Named:
    compiled = ir_runtime.compile_model(ir_runtime.read_model(*ir))
    result = compiled(dict(feeds))
    return {port.name: result[port.name] for port in compiled.outputs}


def _openvino(ir: tuple[bytes, bytes], feeds: Mapping[str, Any]) -> Named:
    xml, weights = ir
    model = core().read_model(xml, weights) if weights else core().read_model(xml)
    # The IR gives each output one name. What the plug-in leaves out hands its name on, so that there may be more then.
    names = [name for output in model.outputs for name in sorted(output.get_names())]
    request = core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    request.infer({name: openvino_tensor(array) for name, array in feeds.items()})
    return {name: array_of(request.get_tensor(name)) for name in names}
