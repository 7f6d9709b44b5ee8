"""Other routes from the model of a row to its outputs, each of which must give what the row's oracle says.

:func:`tests.engines.check_node` and the idioms hand their rows on. Each row takes one route, in turn, and with
``--routes`` all of them. A row that a route cannot take is listed in ``refusals``, with the reason.
"""

from __future__ import annotations

import logging
import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

import converter
import ir_runtime
from tests.engines import opened, output_names, run_onnxruntime

Arrays = Mapping[str, Any]
Compare = Callable[[str, Sequence[Any]], None]
"""Compares outputs with the oracle's; it gets the name of the route for its message."""

_NEEDS_DIMENSIONS = {
    "must be known|rank of what the iterations return": "dimensions decide which layers there are",
    r"the mask must be \[1, 1, \.\.\.\]": "onnxruntime reads other masks at shifted places",
    "output 0 has rank 1 in then_branch": "a tensor of the IR keeps its rank",
    "mode reflect can pad": "pads beyond the data repeat it, as often as its dimensions tell",
    "index 4 is out of bounds for axis 1 with size 4": "keys of length 0 stand for those of another layer",
    "axis 1 lies outside the range": "a scale of one element counts for all elements, one of more for those of an axis",
    r"cannot reshape array of size 24 into shape \(2,3\)": "a dimension that is left out is told from the rank",
}
_PLUG_IN_LACKS = {"does not compare strings": "the plug-in has no strings; the target 'any' writes the layers"}
_INEXACT = {
    "test_dft_irfft": "onnxruntime's DFT differs from the definition by 4e-5, as with the case itself",
}
"""Rows whose numbers a route through onnxruntime's types cannot hold."""
_ONNX_LACKS = {
    "must be known": "ONNX needs dimensions in attributes",
    "takes neither|onnxruntime has no kernel": "neither ONNX nor onnxruntime has the operator for the type",
    r"Identity\(25\)": "onnxruntime has no kernel that hands on types of 2, 4 and 8 bits",
    "running Reshape node": "onnxruntime refuses -1 beside dimensions of 0",
}


@dataclass(frozen=True)
class Route:
    """A way from a model and its inputs to its outputs, by name."""

    outputs: Callable[[onnx.ModelProto, Arrays], Arrays]
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Parts of messages, as regular expressions, and the reasons of these errors."""
    differences: Mapping[str, str] = field(default_factory=dict)
    """Parts of the names of tests whose outputs differ, and why."""
    in_onnxruntime: bool = False
    """True if it ends in onnxruntime, which may refuse or compute what it refuses or computes with the row's model."""


def _in_numpy(model: ir_runtime.Model, feeds: Arrays) -> Arrays:
    compiled = ir_runtime.compile_model(ir_runtime.read_model(*ir_runtime.model_to_bytes(model)))
    outputs = compiled(dict(feeds))
    return {port.names[0]: outputs[port.names[0]] for port in compiled.outputs if port.names}


def _in_onnxruntime(model: onnx.ModelProto, feeds: Arrays) -> Arrays:
    return dict(zip(output_names(model), run_onnxruntime(model, feeds)))


def _converted(**options: Any) -> Callable[[onnx.ModelProto, Arrays], Arrays]:
    return lambda model, feeds: _in_numpy(converter.convert_model(model, **options), feeds)


def _reshaped(model: onnx.ModelProto, feeds: Arrays) -> Arrays:
    """Convert with the declared dimensions, forget them, and set those of the inputs."""
    ir = converter.convert_model(model)
    ir.reshape({name: [None] * np.ndim(array) for name, array in feeds.items()})
    ir.reshape({name: list(np.shape(array)) for name, array in feeds.items()})
    return _in_numpy(ir, feeds)


def _exported(model: onnx.ModelProto) -> onnx.ModelProto:
    return converter.export_model(converter.convert_model(model, target="any"))


def _optimized(target: Any) -> Callable[[onnx.ModelProto, Arrays], Arrays]:
    return lambda model, feeds: _in_onnxruntime(converter.optimize(model, target=target).to_onnx(), feeds)


ROUTES = {
    "without fusion": Route(_converted(fuse=False)),
    "exact": Route(_converted(exact=True)),
    "static": Route(_converted(static=True)),
    "reshaped": Route(_reshaped, _NEEDS_DIMENSIONS),
    "of unknown dimensions": Route(
        lambda model, feeds: _in_numpy(converter.convert_model(opened(model)), feeds), _NEEDS_DIMENSIONS
    ),
    "for OpenVINO 2023.3": Route(
        _converted(target="cpu@2023.3"),
        {"has operations up to opset 13": "operations that have no older form"},
    ),
    "exported": Route(lambda model, feeds: _in_onnxruntime(_exported(model), feeds), _ONNX_LACKS, _INEXACT, True),
    "there and back": Route(
        lambda model, feeds: _in_numpy(converter.convert_model(_exported(model)), feeds), _ONNX_LACKS, _INEXACT
    ),
    "optimized": Route(_optimized("plain"), in_onnxruntime=True),
    "optimized for onnxruntime": Route(_optimized("onnxruntime"), in_onnxruntime=True),
}

takes_all = False
"""True if each row takes all routes, not one of them; ``conftest.py`` sets it."""
_place = ("", 0)
"""The running test, and the number of its rows so far."""


def _chosen() -> list[str]:
    """Return the names of the routes that the next row of the running test takes."""
    global _place
    test = os.environ["PYTEST_CURRENT_TEST"]
    _place = (test, _place[1] + 1 if test == _place[0] else 0)
    names = list(ROUTES)
    return names if takes_all else [names[(zlib.crc32(test.encode()) + _place[1]) % len(names)]]


def check_routes(model: onnx.ModelProto, feeds: Arrays, names: Sequence[str], compare: Compare) -> None:
    """Compare the outputs called ``names`` of each chosen route."""
    for name in _chosen():
        logging.disable()  # the warnings were shown before
        try:
            _check(name, ROUTES[name], model, feeds, names, compare)
        finally:
            logging.disable(logging.NOTSET)


def _check(
    name: str, route: Route, model: onnx.ModelProto, feeds: Arrays, names: Sequence[str], compare: Compare
) -> None:
    try:
        outputs = route.outputs(model, feeds)
        compare(name, [outputs[output] for output in names])
    except converter.InternalError:
        raise
    except Exception as error:  # onnxruntime's errors share no base class of their own
        is_different = isinstance(error, AssertionError)
        refusals = {**_PLUG_IN_LACKS, **route.refusals}
        listed, subject = (route.differences, _place[0]) if is_different else (refusals, str(error))
        if any(re.search(pattern, subject) for pattern in listed):
            return
        if not route.in_onnxruntime or isinstance(error, ir_runtime.ModelError):
            raise AssertionError(f"{name}: {error}") from error
        try:
            plain = _in_onnxruntime(model, feeds)
        except Exception:
            return  # onnxruntime refuses the row's model as well
        if not is_different:
            raise AssertionError(f"{name}: {error}") from error
        for output in names:
            np.testing.assert_array_equal(
                _comparable(outputs[output]), _comparable(plain[output]), f"{name}, output '{output}'"
            )


def _comparable(value: Any) -> np.ndarray:
    """The array, in float64 where NumPy does not know that its type has NaN."""
    array = np.asarray(value)
    return array.astype(np.float64) if array.dtype.isbuiltin == 2 else array
