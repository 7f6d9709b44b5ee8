"""Small models of every kind, which mutations start from."""

from __future__ import annotations

import functools
import random
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from converter.stages import silent
from tests.suite.node_suite import node_cases

_LARGEST = 12_000
"""Bytes of a file: mutations of larger ones are spent on weights."""


@functools.cache
def onnx_files(count: int = 400) -> tuple[bytes, ...]:
    """ONNX files: those that are installed with onnx, and cases of its node suite, with functions and bodies."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    found = [path.read_bytes() for path in sorted(folder.rglob("*.onnx")) if path.stat().st_size <= _LARGEST]
    random.Random(0).shuffle(found)
    cases = [case.model.SerializeToString() for case in node_cases()]
    random.Random(0).shuffle(cases)
    return tuple([*found[:60], *(case for case in cases if len(case) <= _LARGEST)][:count])


@functools.cache
def irs(count: int = 150) -> tuple[tuple[bytes, bytes], ...]:
    """IRs of this package's own making: ``.xml`` and ``.bin``."""
    made: list[tuple[bytes, bytes]] = []
    with silent():
        for data in onnx_files():
            try:
                made.append(ir_runtime.model_to_bytes(converter.convert_model(data, target="any")))
            except (converter.ConversionError, ir_runtime.ModelError):
                continue
            if len(made) == count:
                break
    return tuple(made)


def with_external_data(location: str, offset: str, length: str) -> bytes:
    """y = x + w, where w lies in another file."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64]) for name in "xy"]
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[64], data_location=TensorProto.EXTERNAL)
    for key, text in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=text)
    zero = numpy_helper.from_array(np.zeros(64, np.float32), "zero")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", value[:1], value[1:], [tensor, zero])
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())
