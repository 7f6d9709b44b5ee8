"""Conversions of the row's model, with various options, in NumPy and in OpenVINO's CPU plug-in."""

from __future__ import annotations

from typing import Any

import numpy as np

import converter
from tests.runtimes.work import Outputs, Work, in_onnxruntime


def numpy(work: Work) -> Outputs:
    """The IR for the CPU plug-in in NumPy."""
    return work.in_numpy(work.ir)


def plain(work: Work) -> Outputs:
    """The IR without rules of a target."""
    return work.in_numpy(work.plain)


def openvino(work: Work) -> Outputs:
    """The IR in the CPU plug-in."""
    return work.in_openvino("ir")


def openvino_of_open_dimensions(work: Work) -> Outputs:
    """The IR of the model with open dimensions in the CPU plug-in."""
    return work.in_openvino("opened_ir")


def opened(work: Work) -> Outputs:
    return work.in_numpy(work.opened_ir)


def reshaped(work: Work) -> Outputs:
    """The IR whose dimensions are forgotten, and set to those of the inputs."""
    model = work.read(work.ir).clone()
    model.reshape({name: [None] * np.ndim(array) for name, array in work.feeds.items()})
    model.reshape({name: list(np.shape(array)) for name, array in work.feeds.items()})
    return work.in_numpy(model)


def _with_options(**options: Any) -> Any:
    return lambda work: work.in_numpy(converter.convert_model(work.model, **options))


without_fusion = _with_options(fuse=False)
exact = _with_options(exact=True)
static = _with_options(static=True)
release_2023_3 = _with_options(target="cpu@2023.3")


def exported(work: Work) -> Outputs:
    return in_onnxruntime(work.exported, work.feeds)


def there_and_back(work: Work) -> Outputs:
    return work.in_numpy(converter.convert_model(work.exported))


def _optimized(**options: Any) -> Any:
    return lambda work: in_onnxruntime(converter.optimize(work.model, **options).to_onnx(), work.feeds)


optimized = _optimized(target="plain")
optimized_for_onnxruntime = _optimized(target="onnxruntime")

IN_ONNXRUNTIME = (exported, optimized, optimized_for_onnxruntime)
"""Runtimes that end in onnxruntime, which may refuse or compute what it refuses or computes with the row's model."""
