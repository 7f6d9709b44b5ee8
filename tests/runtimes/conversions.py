"""Conversions of the row's model, with various options, in NumPy and in OpenVINO's CPU plug-in."""

from __future__ import annotations

from typing import Any

import numpy as np

import converter
import ir_runtime
from tests.runtimes.work import Outputs, Work, in_numpy


def numpy(work: Work) -> Outputs:
    """The IR for the CPU plug-in in NumPy."""
    return in_numpy(work.ir, work.feeds)


def plain(work: Work) -> Outputs:
    """The IR without rules of a target."""
    return in_numpy(work.plain, work.feeds)


def openvino(work: Work) -> Outputs:
    """The IR in the CPU plug-in."""
    return work.in_openvino("ir")


def openvino_of_open_dimensions(work: Work) -> Outputs:
    """The IR of the model with open dimensions in the CPU plug-in."""
    return work.in_openvino("opened_ir")


def opened(work: Work) -> Outputs:
    return in_numpy(work.opened_ir, work.feeds)


def reshaped(work: Work) -> Outputs:
    """The IR whose dimensions are forgotten, and set to those of the inputs."""
    model = ir_runtime.read_model(*work.ir)
    model.reshape({name: [None] * np.ndim(array) for name, array in work.feeds.items()})
    model.reshape({name: list(np.shape(array)) for name, array in work.feeds.items()})
    return in_numpy(model, work.feeds)


def _with_options(**options: Any) -> Any:
    return lambda work: in_numpy(converter.convert_model(work.model, **options), work.feeds)


without_fusion = _with_options(fuse=False)
exact = _with_options(exact=True)
static = _with_options(static=True)
release_2023_3 = _with_options(target="cpu@2023.3")
