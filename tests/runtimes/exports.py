"""ONNX models that are written from the row's model, in onnxruntime and on their way back."""

from __future__ import annotations

from typing import Any

import converter
from tests.runtimes.work import Outputs, Work, in_onnxruntime


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
