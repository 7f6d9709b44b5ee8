"""Holds this package's executor against OpenVINO on models that OpenVINO itself built and wrote."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino
from openvino.utils.node_factory import NodeFactory

import ir_runtime
from ir_runtime.graph.shapes import PartialShape
from tests.engines import assert_close, run_numpy, run_openvino


def made(name: str, opset: int, inputs: Sequence[Any], **attributes: Any) -> Any:
    """OpenVINO's node of any operation, those without a function of their own too."""
    sources = [node.output(0) if hasattr(node, "output") else node for node in inputs]
    return NodeFactory(f"opset{opset}").create(name, sources, attributes)


def written_by_openvino(outputs: Sequence[Any], parameters: Sequence[Any]) -> tuple[bytes, bytes]:
    """The XML and the weights that OpenVINO saves for a model of its own nodes."""
    model = openvino.Model([out.output(0) if hasattr(out, "output") else out for out in outputs], list(parameters))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.xml"
        openvino.save_model(model, path, compress_to_fp16=False)
        return path.read_bytes(), path.with_suffix(".bin").read_bytes()


def check_peers(
    outputs: Sequence[Any],
    parameters: Sequence[Any],
    feeds: Sequence[Any],
    *,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> tuple[bytes, bytes]:
    """Read what OpenVINO wrote, write it again, and compare both engines; returns OpenVINO's file."""
    written = written_by_openvino(outputs, parameters)
    model = ir_runtime.read_model(*written)
    ours = ir_runtime.model_to_bytes(model)
    named = {index: np.asarray(value) for index, value in enumerate(feeds)}
    expected = run_openvino(written, named)
    for ir in (written, ours):
        actual = run_numpy(ir, named)
        assert len(actual) == len(expected)
        for value, want in zip(actual, expected):
            assert_close(value, want, rtol=rtol, atol=atol)
    for value, want in zip(run_openvino(ours, named), expected):
        assert_close(value, want, rtol=rtol, atol=atol)
    return written


def check_inference(outputs: Sequence[Any], parameters: Sequence[Any], *, exact: bool = True) -> None:
    """Hold the element types and shapes that are inferred here against OpenVINO's.

    Where that is not ``exact``, ours may know more than OpenVINO does, but nothing else.
    """
    model = ir_runtime.read_model(*written_by_openvino(outputs, parameters))
    theirs = [out.output(0) if hasattr(out, "output") else out for out in outputs]
    assert len(model.outputs) == len(theirs)
    for found, wanted in zip(model.outputs, theirs):
        assert str(found.element_type) == wanted.get_element_type().get_type_name()
        shape = PartialShape.parse(str(wanted.get_partial_shape()))
        assert found.shape == (shape if exact else found.shape.merge(shape))
