"""Checks of the values of options, which are then in one form, whatever form the caller used.

The objects of :mod:`converter.options.conversion`, which call these functions, are not imported: that would be a
circle.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from converter.errors import VerificationError
from converter.options.input_forms import InputSpec, OptionError, input_specs, shown
from converter.options.inputs import extension_paths, make_options, suggestions
from converter.targets.registry import Target
from ir_runtime.boundary import boundary

if TYPE_CHECKING:
    from converter.passes.preprocessing.request import Request


def check_conversion(options: Any) -> dict[str, Any]:
    """Return the fields in one form, and what is derived from them.

    Raises :class:`ConversionError`.
    """
    runtime = Target.parse(options.target)
    input, request = _processing(options.input, options.preprocess, options.postprocess)
    stateful = options.stateful
    if request is not None and stateful:
        raise OptionError("preprocessing is for models without caches: give no stateful with it")
    if isinstance(stateful, Mapping):
        if not all(isinstance(name, str) for pair in stateful.items() for name in pair):
            raise OptionError("stateful must map names of inputs to names of outputs")
        stateful = dict(stateful)
    else:
        stateful = bool(stateful)
    specs = tuple(input_specs(input))  # an iterator can be read once, and arrays that files hold are read here
    bindings = make_options(specs, options.freeze, options.output, options.batch, stateful=bool(stateful))
    return {
        "input": specs,
        "freeze": None if options.freeze is None else dict(options.freeze),
        "output": bindings.outputs,
        "batch": bindings.batch,
        "static": bool(options.static),
        "fuse": bool(options.fuse),
        "exact": bool(options.exact),
        "skip_passes": pass_names(options.skip_passes, _passes),
        "extensions": extension_paths(options.extensions),
        "stateful": stateful,
        "preprocess": request,
        "postprocess": None,
        "_bindings": bindings,
        "_runtime": runtime,
    }


def _processing(input: Any, preprocess: Any, postprocess: Any) -> tuple[Any, Request | None]:
    """Return ``input`` without the types that callers pass, ``"image[u8]"``, and the steps; None for none."""
    has_types = isinstance(input, str) and re.search(r"\[\s*[a-z]", input) is not None
    if preprocess is None and postprocess is None and not has_types:
        return input, None
    from converter.passes.preprocessing.texts import element_types, request_of  # few models have it

    request = request_of(preprocess, postprocess)
    if has_types:
        input, entries = element_types(input)
        request = replace(request, entries=(*request.entries, *entries))
    return input, request or None


def pass_names(value: Any, optional: Callable[[], Collection[str]]) -> tuple[str, ...]:
    """Return the names of passes; raises :class:`ConversionError` for one that ``optional`` does not return."""
    parts = value.split(",") if isinstance(value, str) else tuple(value)
    names = tuple(name.strip() if isinstance(name, str) else name for name in parts)
    for name in names:
        if name not in optional():
            near = suggestions(str(name), optional())
            raise OptionError(f"skip_passes: {shown(name)} is no pass of cleanup or fusion{near}")
    return names


def _passes() -> Collection[str]:
    from converter.passes.registry import passes  # the command line reads options before it needs passes

    return passes.optional


def check_saving(options: Any) -> dict[str, Any]:
    """Return the fields in one form, and the compression of weights that they describe.

    Raises :class:`ConversionError`.
    """
    compress, group_size, symmetric = options.compress, options.group_size, options.symmetric
    compression = None
    if compress is not None:
        from converter.passes.compression.weight_compression import WeightCompression

        compression = (
            WeightCompression.named(compress, group_size, symmetric) if isinstance(compress, str) else compress
        )
        if not isinstance(compression, WeightCompression):
            raise OptionError(f'compress must be "int8", "int4" or a WeightCompression, but is {shown(compress)}')
    if group_size is not None or symmetric is not None:
        if compress is None:
            raise OptionError("group_size and symmetric need compress")
        if not isinstance(compress, str):
            raise OptionError("group_size and symmetric are fields of WeightCompression: set them there")
    return {
        "compress_to_fp16": bool(options.compress_to_fp16),
        "symmetric": None if symmetric is None else bool(symmetric),
        "record": bool(options.record),
        "_compression": compression,
    }


def check_verification(options: Any) -> dict[str, Any]:
    """Return the fields in one form; raises :class:`VerificationError`."""
    for name in ("seed", "samples"):
        number = getattr(options, name)
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 0:
            raise VerificationError(f"{name} must be a whole number from 0 on, but is {number!r}")
    if options.device is not None and not (
        isinstance(options.device, str) and options.device.strip() and options.device.isprintable()
    ):
        raise VerificationError(f"device must be the name of a device of OpenVINO, but is {options.device!r}")
    for name in ("minimise", "report", "attest", "attestation"):
        path = getattr(options, name)
        if path is not None and not (isinstance(path, (str, os.PathLike)) and isinstance(os.fspath(path), str)):
            raise VerificationError(f"{name} must be a path, but is {shown(path)}")
    config = {} if options.config is None else read_config(options.config)
    in_numpy = options.engine == "numpy"
    if config and in_numpy and options.device is None:
        raise VerificationError("config has properties of OpenVINO: give a device, or the engine openvino, with it")
    return {
        "engine": "openvino-default" if in_numpy and options.device is not None else options.engine,
        "device": options.device,
        "config": config,
        "layers": None if options.layers is None else bool(options.layers),
        "stress": bool(options.stress),
        "accept_unproven": bool(options.accept_unproven),
        "weights": bool(options.weights),
        **{name: tolerance_of(name, getattr(options, name)) for name in ("rtol", "atol")},
    }


@boundary("the configuration", reads=VerificationError)
def read_config(config: Mapping[str, Any] | str | os.PathLike[str]) -> dict[str, Any]:
    """Return properties of a device by name, of a mapping or a JSON file; raises :class:`VerificationError`."""
    values: Any = config
    if not isinstance(config, Mapping):
        path = os.fspath(config)
        try:
            values = json.loads(Path(path).read_bytes())
        except OSError as error:
            raise VerificationError(f"the configuration {path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise VerificationError(f"the configuration {path} is no JSON: {error}") from error
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise VerificationError(f"a configuration is an object of properties by name, not {values!r}")
    return dict(values)


@boundary("the tolerance", reads=VerificationError)
def tolerance_of(name: str, number: object) -> float | None:
    """Return a tolerance of a caller; raises :class:`VerificationError` for anything but a number from 0 on."""
    if number is None or (isinstance(number, (int, float, np.number)) and number >= 0):
        return None if number is None else float(number)
    raise VerificationError(f"{name} must be a number from 0 on, but is {number!r}")


def as_json(options: Any) -> dict[str, Any]:
    """Return the fields that have JSON and differ from their defaults; of a file its name alone."""
    values: dict[str, Any] = {}
    for entry in fields(options):
        value = getattr(options, entry.name)
        if entry.name == "preprocess" and value is not None:
            values[entry.name] = True  # the model has its steps in an element of their own
        is_empty = value is None or (isinstance(value, tuple) and not value)
        if entry.metadata["schema"] is None or is_empty or value is entry.default:
            continue
        if entry.name == "input":
            value = ",".join(map(_spec_text, value))
        elif entry.name == "extensions":
            value = [PurePath(path).name for path in value]
        elif entry.name == "freeze":
            value = sorted(value)
        elif entry.name == "compress" and not isinstance(value, str):
            details = {"group_size": value.group_size, "symmetric": value.symmetric}
            values.update({name: detail for name, detail in details.items() if detail is not None})
            value = f"int{value.bits}"
        elif isinstance(value, tuple):
            value = list(value)
        if value != entry.default:
            values[entry.name] = value
    return values


def _spec_text(spec: InputSpec) -> str:
    shape = "" if spec.shape is None else str(spec.shape)
    type_text = "" if spec.element_type is None else f"{{{spec.element_type}}}"
    return f"{spec.name or ''}{shape}{type_text}" + ("" if spec.value is None else "=...")
