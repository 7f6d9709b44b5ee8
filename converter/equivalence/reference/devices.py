"""Devices of OpenVINO: which exist, their properties, and models compiled for them."""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from converter.errors import VerificationError
from ir_runtime import Model
from ir_runtime.files.xml_writer import write_model

_VIRTUAL = ("AUTO", "MULTI", "HETERO", "BATCH")
"""Devices that share the work out to others."""
_DYNAMIC_QUANTIZATION = "DYNAMIC_QUANTIZATION_GROUP_SIZE"
_PRECISION = "INFERENCE_PRECISION_HINT"
_EXACT = {_PRECISION: "f32", _DYNAMIC_QUANTIZATION: "0", "KV_CACHE_PRECISION": "f32"}
"""Properties with which a device computes and keeps everything in float32. Dynamic quantization rounds the data of
products with compressed weights to 8 bits, whatever the precision hint is."""
_NARROW = ("bf16", "f16")
_SHOWN = 5


class Device:
    """A device of OpenVINO with its properties: ``CPU``, ``GPU.1``, ``AUTO:GPU,CPU``, ``HETERO:...``, ``BATCH:CPU``.

    ``config`` has values by the names of properties, and mappings of such by the names of single devices. With
    ``in_float32`` the device computes in float32, else in the precision that it chooses. Raises
    :class:`VerificationError` where OpenVINO is not installed, has no such device or property, or refuses a value.
    """

    def __init__(self, name: str | None, config: Mapping[str, Any], *, in_float32: bool) -> None:
        try:
            import openvino
        except ImportError as error:
            raise VerificationError("OpenVINO, which runs the IR, is not installed: pip install openvino") from error
        self._core = openvino.Core()
        self._name = name or "CPU"
        self._virtual, self._members = self._parts()
        self._settings: dict[str, Any] = {}
        self._version = openvino.__version__.partition("-")[0]
        self._is_default = name is None
        supported = {member: self._properties_of(member) for member in self._members}
        if self._virtual:
            supported[self._virtual] = self._properties_of(self._virtual)
        self._supported = supported
        if self._virtual == "AUTO":
            # Otherwise the CPU answers as long as the chosen device compiles.
            self._settings["ENABLE_STARTUP_FALLBACK"] = False
        for member in self._members if in_float32 else ():
            property_names = supported[member]
            self._core.set_property(member, {key: value for key, value in _EXACT.items() if key in property_names})
        for key, value in config.items():
            self._set(key, value)

    def _parts(self) -> tuple[str, list[str]]:
        """Return the virtual device of the name, empty for none, and the devices that compute."""
        virtual, _, rest = self._name.partition(":")
        if virtual not in _VIRTUAL:
            return "", [self._name]
        names = [name.strip() for name in rest.split(",") if name.strip()]
        excluded = [name[1:] for name in names if name.startswith("-")]
        # BATCH:GPU(16) has the size of the batch behind the device.
        included = [name.partition("(")[0] for name in names if not name.startswith("-")]
        return virtual, included or [name for name in self._core.available_devices if name not in excluded]

    def _properties_of(self, device: str) -> list[str]:
        try:
            return [str(name) for name in self._core.get_property(device, "SUPPORTED_PROPERTIES")]
        except RuntimeError as error:
            raise VerificationError(
                f"OpenVINO {self._version} has no device '{device}' here ({reason_of(error)}); it has "
                f"{', '.join([*self._core.available_devices, *_VIRTUAL])}"
            ) from error

    def _set(self, key: str, value: Any) -> None:
        """Set a property of the devices that have it, or, where ``value`` is a mapping, several of one device."""
        if isinstance(value, Mapping):
            if key not in self._members:
                raise VerificationError(
                    f"the configuration has properties for the device '{key}', but {self._name} computes on "
                    f"{', '.join(self._members)}"
                )
            for name, single in value.items():
                self._set_on([key], name, single)
        elif key in self._supported.get(self._virtual, ()):
            self._settings[key] = value
        else:
            self._set_on(self._members, key, value)

    def _set_on(self, devices: Sequence[str], key: str, value: Any) -> None:
        errors = []
        for device in devices:
            try:
                self._core.set_property(device, {key: value})
            except (RuntimeError, TypeError, ValueError) as error:
                errors.append((device, error))
        if len(errors) < len(devices):
            return
        property_names = [name for device in (*devices, self._virtual) for name in self._supported.get(device, ())]
        if key in property_names:
            raise VerificationError(
                f"the property {key} of {errors[0][0]} cannot be {value!r}: {reason_of(errors[0][1])}"
            )
        near = difflib.get_close_matches(key.upper(), property_names, _SHOWN, 0.5) or sorted(property_names)[:_SHOWN]
        raise VerificationError(
            f"{' and '.join(devices)} of OpenVINO {self._version} has no property '{key}': it has {', '.join(near)} ..."
        )

    def compiled(self, model: Model, path: str | os.PathLike[str] | None) -> Any:
        """Return ``model`` compiled; ``path`` is where it is stored, if it is.

        Raises :class:`VerificationError` where the device does not take it.
        """
        try:
            if path is not None:
                return self._compile(self._core.read_model(os.fspath(path)))
            # The compiled model no longer needs the files: their mapped pages stay readable.
            with tempfile.TemporaryDirectory() as folder:
                stored = Path(folder) / "model.xml"
                write_model(model, stored)
                return self._compile(self._core.read_model(str(stored)))
        except RuntimeError as error:
            raise VerificationError(f"OpenVINO does not take the IR{self._where}: {error}") from error

    def _compile(self, read: Any) -> Any:
        return self._core.compile_model(read, self._name, self._settings)

    @property
    def _where(self) -> str:
        return "" if self._is_default else f" on {self._name}"

    def described(self, compiled: Any) -> tuple[str, str]:
        """Return what runs a compiled model, in words, and the type that it computes in; empty where not known."""
        precisions = _precisions(compiled)
        computed = next((name for name in _NARROW if name in precisions), precisions[0] if precisions else "")
        text = f"OpenVINO {self._version}{self._where}{' in ' if computed else ''}{computed}"
        return text, computed


def _precisions(compiled: Any) -> list[str]:
    """Return the types that the devices of a compiled model compute in; none where they do not say."""
    reads: Sequence[Callable[[], Sequence[Any]]] = (
        lambda: [compiled.get_property(_PRECISION)],
        lambda: [values[_PRECISION] for values in compiled.get_property("DEVICE_PROPERTIES").values()],
    )
    for read in reads:
        try:
            return [value.to_string() for value in read()]
        except (RuntimeError, KeyError):
            continue
    return []


def reason_of(error: Exception) -> str:
    """Return what OpenVINO's message says, without the places in its source."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
