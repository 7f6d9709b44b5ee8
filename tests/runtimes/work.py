"""What the runtimes of a row share: its conversions, what onnxruntime computes, and how outputs are compared."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import onnx

import converter
import ir_runtime
from tests.engines import assert_close, opened, output_names, run, run_onnxruntime
from tests.rows.row import Row, Tolerance
from tests.suite.reshape import Reshaping, outcomes

Outputs = Mapping[str, Any]
IR = tuple[bytes, bytes]


class Work:
    """A row on its way through the runtimes; ``together`` has what a batch computed of it."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.together: Mapping[str, list[Any]] = {}
        self._models: dict[IR, ir_runtime.Model] = {}
        self._computed: dict[IR, Outputs] = {}

    @property
    def model(self) -> onnx.ModelProto:
        return self.row.model

    @property
    def feeds(self) -> Mapping[str, Any]:
        return self.row.feeds

    @functools.cached_property
    def opened(self) -> onnx.ModelProto:
        """The model with open dimensions."""
        return opened(self.model)

    @functools.cached_property
    def ir(self) -> IR:
        """The IR for the CPU plug-in."""
        return self._converted(self.model)

    @functools.cached_property
    def plain(self) -> IR:
        """The IR for any runtime."""
        return self._converted(self.model, "any")

    @functools.cached_property
    def opened_ir(self) -> IR:
        return self._converted(self.opened)

    @functools.cached_property
    def exported(self) -> onnx.ModelProto:
        return converter.export_model(ir_runtime.read_model(*self.plain))

    @functools.cached_property
    def by_onnxruntime(self) -> list[Any]:
        """What onnxruntime computes of the row's model."""
        return run_onnxruntime(self.model, self.feeds)

    @functools.cached_property
    def of_other_sizes(self) -> Sequence[tuple[Reshaping, Mapping[str, str]]]:
        """The row's model given other dimensions, and how each engine did with them."""
        return list(outcomes(self.model, self.feeds, convert=lambda model: self.ir))

    def is_as_by_onnxruntime(self, outputs: Outputs | None) -> bool:
        """True if onnxruntime computes these outputs of the row's model, or refuses it where there are none."""
        try:
            values = self.by_onnxruntime
        except Exception:  # onnxruntime's errors share no base class of their own
            return outputs is None
        return outputs is not None and all(_are_equal(outputs[name], value) for name, value in zip(self.names, values))

    @property
    def expected(self) -> Sequence[Any]:
        return self.row.expected

    @property
    def names(self) -> list[str]:
        return output_names(self.model)[: len(self.expected)]

    def _converted(self, model: onnx.ModelProto, target: str = "cpu") -> IR:
        """The IR as it would stand on disk, after a round trip through the reader that must not change it."""
        ir = ir_runtime.model_to_bytes(converter.convert_model(model, target=target))
        if _key(ir) not in self._models:
            assert ir_runtime.model_to_bytes(self.read(ir)) == ir
        return ir

    def read(self, ir: IR) -> ir_runtime.Model:
        """The model of an IR's file; it is shared, and not to be changed."""
        key = _key(ir)
        if key not in self._models:
            self._models[key] = ir_runtime.read_model(*ir)
        return self._models[key]

    def in_numpy(self, model: ir_runtime.Model | IR) -> Outputs:
        """Execute an IR in NumPy, as a reader of its file does; once where several conversions give it."""
        ir = ir_runtime.model_to_bytes(model) if isinstance(model, ir_runtime.Model) else model
        key = _key(ir)
        if key not in self._computed:
            compiled = ir_runtime.compile_model(self.read(ir))
            outputs = compiled(dict(self.feeds))
            named = {port.names[0]: outputs[port.names[0]] for port in compiled.outputs if port.names}
            self._computed[key] = named
        return self._computed[key]

    def in_openvino(self, name: str) -> Outputs:
        """Execute ``ir`` or ``opened_ir`` in the CPU plug-in, alone unless a batch computed what is expected."""
        if name in self.together:
            outputs = dict(zip(self.names, self.together[name]))
            with suppress(AssertionError):
                self.compare(outputs)
                return outputs
        return dict(zip(self.names, run("openvino", getattr(self, name), self.feeds, self.names)))

    def compare(self, outputs: Outputs | None) -> None:
        """Raise AssertionError unless the outputs are the expected ones; without any the runtime compared itself."""
        if outputs is not None:
            compare(outputs, dict(zip(self.names, self.expected, strict=True)), self.row.tolerance)


Runtime = Callable[[Work], "Outputs | None"]


class NotApplicable(Exception):
    """A row is not of the kind that a runtime is for."""


def compare(outputs: Mapping[Any, Any], wanted: Mapping[Any, Any], tolerance: Tolerance) -> None:
    """Raise AssertionError unless the outputs are as wanted; what is masked may be anything."""
    for name, expected in wanted.items():
        value = outputs[name]
        if isinstance(expected, np.ma.MaskedArray):
            value, expected = (np.ma.array(each, mask=expected.mask).filled(0) for each in (value, expected))
        absolute = tolerance.absolute
        if tolerance.of_greatest and expected.dtype.kind == "f":
            greatest = float(np.abs(np.nan_to_num(expected, posinf=0, neginf=0)).max(initial=0))
            absolute = max(absolute, tolerance.of_greatest * greatest)
        try:
            assert_close(value, expected, rtol=tolerance.relative, atol=absolute, is_coarse=tolerance.is_coarse)
        except AssertionError as error:
            raise AssertionError(f"output '{name}': {error}") from error


def _are_equal(value: Any, other: Any) -> bool:
    arrays = [np.asarray(value), np.asarray(other)]
    if any(array.dtype.isbuiltin == 2 for array in arrays):  # NumPy does not know that such types have NaN
        arrays = [array.astype(np.float64) for array in arrays]
    return np.array_equal(*arrays, equal_nan=arrays[0].dtype.kind == "f")


def _key(ir: IR) -> IR:
    """Return an IR without the options of its conversion, which it keeps and which compute nothing."""
    return _OPTIONS.sub(b"", ir[0]), ir[1]


_OPTIONS = re.compile(rb'<options value="[^"]*"/>')


def in_onnxruntime(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> Outputs:
    """Execute an ONNX model without its fusions."""
    return {name: np.asarray(value) for name, value in zip(output_names(model), run_onnxruntime(model, feeds))}
