"""Opens an ONNX model: its skeleton through onnx, its weights as views of the mapped files."""

from __future__ import annotations

import math
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Union

import numpy as np
from google.protobuf.message import DecodeError
from onnx import ModelProto, SparseTensorProto, TensorProto, numpy_helper

from converter.errors import ConversionError, InvalidModelError, UnsupportedModelError
from converter.onnx_file.types import element_type_of
from converter.onnx_file.wire_format import EMBEDDED, skeleton
from ir_runtime import element_types
from ir_runtime.boundary import shortened
from ir_runtime.element_types import Array
from ir_runtime.file_kinds import ONNX, kind_of_bytes, kind_of_folder
from ir_runtime.mapped_file import FileSpan, MappedFile, bytes_of
from ir_runtime.tensor import MOST_DIMENSIONS, Tensor

_LARGEST_DENSE = 1 << 31
"""Bytes that a sparse tensor may have with all its zeros."""
_HEAD = 4096
"""Bytes by which a file of another kind is known."""

ModelSource = Union[str, "os.PathLike[str]", bytes, IO[bytes], ModelProto]


@dataclass
class OnnxFile:
    """A model whose large tensors are still where they were; :meth:`tensor` finds their data."""

    proto: ModelProto
    path: Path | None = None
    _embedded: Array | None = None
    _shares: bool = True
    """Whether files are mapped instead of read."""
    _mapped: dict[Path, Array] = field(default_factory=dict)

    def dense(self, proto: SparseTensorProto) -> Tensor:
        """The constant that a sparse tensor stands for: its values at their places, and 0 everywhere else.

        The places are positions in the flattened tensor, or a row of indices each. Raises
        :class:`InvalidModelError` where values, places and shape contradict each other.
        """
        name = proto.values.name or "(unnamed)"
        if len(proto.dims) > MOST_DIMENSIONS:
            raise UnsupportedModelError(f"the sparse tensor '{name}' has {len(proto.dims)} dimensions")
        values, places = self.tensor(proto.values), self.tensor(proto.indices)
        shape, count = tuple(proto.dims), proto.values.dims[0] if proto.values.dims else 0
        if len(values.shape) != 1:
            raise InvalidModelError(f"the values of the sparse tensor '{name}' must be a list, but are {values.shape}")
        if values.element_type.is_packed or values.element_type is element_types.string:
            raise UnsupportedModelError(f"the sparse tensor '{name}' of {values.element_type} is not supported")
        if min(shape, default=-1) < 0:
            raise InvalidModelError(f"the sparse tensor '{name}' has the shape {list(shape)}")
        if math.prod(shape) * values.element_type.bits // 8 > _LARGEST_DENSE:
            raise UnsupportedModelError(f"the sparse tensor '{name}' is too large with its zeros: {list(shape)}")
        if places.element_type is not element_types.i64 or places.shape not in ((count,), (count, len(shape))):
            raise InvalidModelError(f"the sparse tensor '{name}' has {count} values, but places {places.shape}")
        at = places.array()
        limits = np.array(shape if at.ndim == 2 else [math.prod(shape)], np.int64)
        if at.size and (at.min() < 0 or (at.reshape(count, -1) >= limits).any()):
            raise InvalidModelError(f"the sparse tensor '{name}' has places outside its shape {list(shape)}")
        made = np.zeros(shape, values.element_type.dtype)
        if at.ndim == 2:
            made[tuple(at.T)] = values.array()
        else:
            made.reshape(-1)[at] = values.array()
        return Tensor.from_array(made, values.element_type)

    def tensor(self, proto: TensorProto) -> Tensor:
        """The constant that ``proto`` describes, as a view wherever its encoding allows one.

        Raises :class:`InvalidModelError` where data and shape contradict each other or the data
        lies where it may not.
        """
        name = proto.name or "(unnamed)"
        kind = element_type_of(proto.data_type)
        shape = tuple(proto.dims)
        if any(extent < 0 for extent in shape):
            raise InvalidModelError(f"tensor '{name}' has a negative dimension in its shape {list(shape)}")
        if len(shape) > MOST_DIMENSIONS:
            raise UnsupportedModelError(f"tensor '{name}' has {len(shape)} dimensions; {MOST_DIMENSIONS} are possible")
        count = 1
        for extent in shape:
            count *= extent
        packed = self._packed(proto, name)
        if packed is None:
            return Tensor.from_array(_typed_data(proto, name, count).reshape(shape), kind)
        if kind is element_types.string:
            raise InvalidModelError(f"tensor '{name}' holds strings, which cannot be raw data")
        needed = kind.byte_size(count)
        if len(packed) != needed:
            raise InvalidModelError(
                f"tensor '{name}': {kind}{list(shape)} needs {needed} bytes of data, but there are {len(packed)}"
            )
        return Tensor.from_packed(packed, kind, shape)

    def _packed(self, proto: TensorProto, name: str) -> Array | None:
        entries = {entry.key: entry.value for entry in proto.external_data}
        if entries.get("location") == EMBEDDED and proto.data_location != TensorProto.EXTERNAL:
            if self._embedded is None:
                raise InvalidModelError(f"tensor '{name}' refers to data that is not there")
            return _slice(self._embedded, entries, name)
        if proto.data_location == TensorProto.EXTERNAL:
            return _slice(self._external(entries.get("location", ""), name), entries, name)
        if proto.HasField("raw_data"):
            return np.frombuffer(proto.raw_data, np.uint8)
        return None

    def _external(self, location: str, name: str) -> Array:
        path = self._confined(location, name)
        if path not in self._mapped:
            found = _mapped(path, self._shares)
            self._mapped[path] = found if isinstance(found, np.ndarray) else bytes_of(found)
        return self._mapped[path]

    def _confined(self, location: str, name: str) -> Path:
        """The file at ``location``, which must lie in the model's folder (logical or real)."""
        if self.path is None:
            raise InvalidModelError(
                f"tensor '{name}' has external data in {location!r}, but the model was not given as a path"
            )
        parts = location.replace("\\", "/").split("/")
        if not location or "\0" in location or os.path.isabs(location) or ".." in parts or ":" in parts[0]:
            raise InvalidModelError(f"tensor '{name}': external data may not lie at {location!r}")
        try:
            return self._found(location, name)
        except (OSError, ValueError, RuntimeError) as error:  # names that no file can have, links in a circle
            reason = getattr(error, "strerror", None) or error
            raise InvalidModelError(
                f"tensor '{name}': its external data {shortened(location)!r} cannot be read: {reason}"
            ) from error

    def _found(self, location: str, name: str) -> Path:
        """The file at a location that is relative, if it does lie in the model's folder."""
        assert self.path is not None
        logical, real = self.path.parent, self.path.resolve().parent
        for folder in (logical, real):
            candidate = folder / location
            if not candidate.exists():
                continue
            target = candidate.resolve()
            if not any(target.is_relative_to(allowed) for allowed in (logical.resolve(), real)):
                raise InvalidModelError(f"tensor '{name}': external data {location!r} leads out of the model's folder")
            if not stat.S_ISREG(target.stat().st_mode):
                raise InvalidModelError(f"tensor '{name}': external data {location!r} is not a file")
            return target
        raise InvalidModelError(f"tensor '{name}': its external data {location!r} does not exist beside the model")


def open_model(source: Any, share_weights: bool = True) -> OnnxFile:
    """Open a model given as a path, bytes, a binary file object or a parsed ``ModelProto``.

    Without ``share_weights`` files are read into memory, and may change afterwards. Raises
    :class:`ConversionError` where the file cannot be read or is not an ONNX model.
    """
    if isinstance(source, (list, tuple)) and len(source) == 1:
        source = source[0]  # OpenVINO takes a list of the files that make a model
    if isinstance(source, ModelProto):
        return OnnxFile(source)
    if isinstance(source, (str, os.PathLike)):
        try:
            path = Path(source)
        except TypeError as error:
            raise ConversionError(f"the model's path cannot be read: {error}") from error
        mapped = _mapped(path, share_weights)
        data = mapped if isinstance(mapped, np.ndarray) else bytes_of(mapped)
        proto = _parse(data, str(path), mapped if isinstance(mapped, MappedFile) else None, path)
        return OnnxFile(proto, path, data, share_weights)
    if isinstance(source, (bytes, bytearray, memoryview)):
        content = source
    elif callable(getattr(source, "read", None)):
        try:
            content = source.read()
        except Exception as error:  # whatever a file object of the user's own does
            raise ConversionError(f"the model's file object cannot be read: {type(error).__name__}: {error}") from error
    else:
        raise ConversionError(
            "the model must be a path, bytes, a binary file object or an onnx.ModelProto, but is an object of type "
            f"{type(source).__name__}{_of_another_kind(source)}"
        )
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise ConversionError("the model's file object must be opened in binary mode")
    data = np.frombuffer(content, np.uint8)
    return OnnxFile(_parse(data, "the model"), None, data)


def _of_another_kind(source: object) -> str:
    package = type(source).__module__.split(".")[0]
    if package in ("torch", "torchvision", "transformers"):
        return ": export it with torch.onnx.export first"
    if package in ("tensorflow", "keras"):
        return ": convert it with tf2onnx first"
    if package in ("openvino", "ir_runtime"):
        return ": it is converted already"
    return ""


def _parse(data: Array, what: str, mapped: MappedFile | None = None, path: Path | None = None) -> ModelProto:
    kind = kind_of_bytes(data[:_HEAD].tobytes(), path)
    if len(data) == 0:
        raise InvalidModelError(f"{what} is {kind}")
    model = ModelProto()
    try:
        model.ParseFromString(skeleton(data.data, mapped.forget) if mapped is not None else skeleton(data.data))
    except (InvalidModelError, DecodeError) as error:
        if kind is not None and kind is not ONNX:
            raise InvalidModelError(f"{what} is not an ONNX model, but {kind}") from error
        raise InvalidModelError(f"{what} is not an ONNX model: {error}") from error
    if not model.HasField("graph") and kind is not None and kind is not ONNX:
        raise InvalidModelError(f"{what} is not an ONNX model, but {kind}")
    _check_text(model)
    return model


def _check_text(model: ModelProto) -> None:
    """Names that are not UTF-8 reach Python as bytes; nothing after this would expect them."""
    texts: list[object] = [model.producer_name, model.producer_version, model.domain]
    texts += [text for entry in model.metadata_props for text in (entry.key, entry.value)]
    texts += [entry.domain for entry in model.opset_import]
    graphs, functions = [model.graph], list(model.functions)
    node_lists = [function.node for function in functions]
    texts += [text for f in functions for text in (f.name, f.domain, *f.input, *f.output, *f.attribute)]
    while graphs or node_lists:
        if graphs:
            graph = graphs.pop()
            values = [*graph.input, *graph.output, *graph.value_info, *graph.initializer]
            texts += [graph.name, *(value.name for value in values)]
            texts += [sparse.values.name for sparse in graph.sparse_initializer]
            node_lists.append(graph.node)
            continue
        for node in node_lists.pop():
            texts += [node.name, node.op_type, node.domain, *node.input, *node.output]
            for attribute in node.attribute:
                texts += [attribute.name, attribute.ref_attr_name]
                graphs += [attribute.g] if attribute.HasField("g") else []
                graphs += attribute.graphs
    broken = next((text for text in texts if not isinstance(text, str)), None)
    if broken is not None:
        raise InvalidModelError(f"the name {broken!r} in the model is not UTF-8")


def _mapped(path: Path, share: bool = True) -> MappedFile | Array | None:
    """The file mapped, or read; None where it is mapped and empty."""
    try:
        file = MappedFile.open(path)
        if share or file is None:
            return file
        return np.frombuffer(b"".join(FileSpan(file, 0, len(file)).chunks()), np.uint8)
    except (OSError, ValueError) as error:
        kind = kind_of_folder(path)
        if kind is not None:
            raise ConversionError(f"{path} is not an ONNX model, but {kind}") from error
        raise ConversionError(
            f"{shortened(str(path))} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error


def _slice(data: Array, entries: dict[str, str], name: str) -> Array:
    offset = _number(entries.get("offset", "0"), "offset", name)
    length = _number(entries.get("length", str(max(0, len(data) - offset))), "length", name)
    if offset + length > len(data):
        raise InvalidModelError(
            f"tensor '{name}': its data ends at byte {offset + length}, but the file has {len(data)}"
        )
    return data[offset : offset + length]


def _number(text: str, what: str, name: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise InvalidModelError(f"tensor '{name}': the {what} of its data must be a number, but is {text[:80]!r}")
    return int(text)


def _typed_data(proto: TensorProto, name: str, count: int) -> Array:
    if proto.data_type == TensorProto.STRING:
        values = np.empty(len(proto.string_data), np.object_)
        try:
            values[:] = [item.decode() for item in proto.string_data]
        except UnicodeDecodeError as error:
            raise InvalidModelError(f"tensor '{name}' holds a string that is not UTF-8") from error
        return _counted(values, count, name)
    if count == 0 or not any(len(getattr(proto, name)) for name in _TYPED_FIELDS):
        return _counted(np.empty(0, element_type_of(proto.data_type).dtype), count, name)
    try:
        return _counted(_flat_array(proto), count, name)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidModelError(f"tensor '{name}': its data and its shape contradict each other: {error}") from error


def _flat_array(proto: TensorProto) -> Array:
    """The typed data as one row: onnx's reader wants the shape to fit, and says less when it does not."""
    flat = TensorProto()
    flat.CopyFrom(proto)
    stored = max(len(getattr(proto, name)) for name in _TYPED_FIELDS)
    kind = element_type_of(proto.data_type)
    del flat.dims[:]
    # Values narrower than a byte stand several to a number, with the last number filled up.
    flat.dims.append(min(stored * (8 // kind.bits), math.prod(proto.dims)) if kind.is_packed else stored)
    return numpy_helper.to_array(flat).reshape(-1)


_TYPED_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


def _counted(values: Array, count: int, name: str) -> Array:
    if values.size != count:
        raise InvalidModelError(f"tensor '{name}' needs {count} values, but has {values.size}")
    return values
