"""Opens an ONNX model: everything but the weights as objects, the weights as views of the mapped files."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Union

import numpy as np

from converter.errors import ConversionError, InvalidModelError, UnsupportedModelError
from converter.onnx_file.messages import ModelProto, SparseTensorProto, TensorProto, from_onnx
from converter.onnx_file.types import element_type_of
from converter.onnx_file.wire_format import parse, parse_bytes
from ir_runtime.boundary import shorten
from ir_runtime.files.file_kinds import ONNX, kind_of_bytes, kind_of_folder
from ir_runtime.graph import Array, Tensor, element_types
from ir_runtime.graph.mapped_file import FileSpan, MappedFile, bytes_of, reader_of
from ir_runtime.graph.tensor import MOST_DIMENSIONS

_LARGEST_DENSE = 1 << 31
"""The most bytes that a sparse tensor may have as a dense one."""
_HEAD = 4096
"""The first bytes of a file, which tell its kind."""

if TYPE_CHECKING:
    import onnx

ModelSource = Union[str, "os.PathLike[str]", bytes, IO[bytes], "onnx.ModelProto"]


class OnnxFile:
    """A model whose large tensors stay in their files; :meth:`tensor` gives views of their data."""

    def __init__(
        self, proto: ModelProto, path: Path | None = None, embedded: Array | None = None, shares: bool = True
    ) -> None:
        self.proto = proto
        self.path = path
        self._embedded = embedded
        self._shares = shares
        """True if files are mapped instead of read."""
        self._mapped: dict[Path, Array] = {}
        self._original: onnx.ModelProto | None = None
        self._tensors: Mapping[str, Tensor] = {}

    @classmethod
    def of_parts(cls, model: onnx.ModelProto, tensors: Mapping[str, Tensor]) -> OnnxFile:
        """Return a model in memory, of whose initializers ``tensors`` holds the data by name."""
        file = cls(_of_onnx(model))
        file._original, file._tensors = model, tensors
        return file

    @property
    def name(self) -> str:
        """The path of the model, or the name of its graph where it was not given as a path."""
        return str(self.path) if self.path is not None else self.proto.graph.name or "the model"

    def as_onnx(self) -> onnx.ModelProto:
        """The model as onnx's own messages, for its tools. Large weights are references (see :mod:`.skeleton`)."""
        if self._original is None:
            import onnx  # converting needs none of it

            self._original = onnx.ModelProto()
            self._original.ParseFromString(self.skeleton())
        return self._original

    def skeleton(self) -> bytes:
        """The bytes of the file without its large weights; none where the model was given as an object."""
        from converter.onnx_file.skeleton import skeleton

        return skeleton(self.data.data)

    @property
    def data(self) -> Array:
        """The bytes of the file; none where the model was given as an object."""
        return np.empty(0, np.uint8) if self._embedded is None else self._embedded

    def with_proto(self, proto: ModelProto, original: onnx.ModelProto | None = None) -> OnnxFile:
        """Another model whose weights lie in the same files; ``original`` is the same as onnx's own messages."""
        file = OnnxFile(proto, self.path, self._embedded, self._shares)
        file._original, file._tensors = original, self._tensors
        return file

    @property
    def external_files(self) -> tuple[Path, ...]:
        """The files beside the model that its tensors were read from until now."""
        return tuple(self._mapped)

    def dense(self, proto: SparseTensorProto) -> Tensor:
        """A sparse tensor as a dense constant: its values at their places, and 0 everywhere else.

        The places are positions in the flattened tensor, or a row of indices each. Raises
        :class:`InvalidModelError` where values, places and shape contradict each other.
        """
        name = proto.values.name or "(unnamed)"
        if len(proto.dims) > MOST_DIMENSIONS:
            raise UnsupportedModelError(f"the sparse tensor '{name}' has {len(proto.dims)} dimensions")
        values, indices = self.tensor(proto.values), self.tensor(proto.indices)
        shape, count = tuple(proto.dims), proto.values.dims[0] if proto.values.dims else 0
        if len(values.shape) != 1:
            raise InvalidModelError(f"the values of the sparse tensor '{name}' must be a list, but are {values.shape}")
        if values.element_type.is_packed or values.element_type is element_types.string:
            raise UnsupportedModelError(f"the sparse tensor '{name}' of {values.element_type} is not supported")
        if min(shape, default=-1) < 0:
            raise InvalidModelError(f"the sparse tensor '{name}' has the shape {list(shape)}")
        if math.prod(shape) * values.element_type.bits // 8 > _LARGEST_DENSE:
            raise UnsupportedModelError(f"the sparse tensor '{name}' is too large with its zeros: {list(shape)}")
        if indices.element_type is not element_types.i64 or indices.shape not in ((count,), (count, len(shape))):
            raise InvalidModelError(f"the sparse tensor '{name}' has {count} values, but places {indices.shape}")
        at = indices.array()
        limits = np.array(shape if at.ndim == 2 else [math.prod(shape)], np.int64)
        if at.size and (at.min() < 0 or (at.reshape(count, -1) >= limits).any()):
            raise InvalidModelError(f"the sparse tensor '{name}' has places outside its shape {list(shape)}")
        dense_array = np.zeros(shape, values.element_type.dtype)
        if at.ndim == 2:
            dense_array[tuple(at.T)] = values.array()
        else:
            dense_array.reshape(-1)[at] = values.array()
        return Tensor.from_array(dense_array, values.element_type)

    def tensor(self, proto: TensorProto) -> Tensor:
        """The constant that ``proto`` describes, as a view wherever its encoding allows one.

        Raises :class:`InvalidModelError` where data and shape contradict each other or the data
        lies where it may not.
        """
        if proto.name in self._tensors and proto.data_location == TensorProto.EXTERNAL:
            return self._tensors[proto.name]
        name = proto.name or "(unnamed)"
        element_type = element_type_of(proto.data_type)
        shape = tuple(proto.dims)
        if any(dimension < 0 for dimension in shape):
            raise InvalidModelError(f"tensor '{name}' has a negative dimension in its shape {list(shape)}")
        if len(shape) > MOST_DIMENSIONS:
            raise UnsupportedModelError(f"tensor '{name}' has {len(shape)} dimensions; {MOST_DIMENSIONS} are possible")
        count = 1
        for dimension in shape:
            count *= dimension
        packed = self.packed(proto, name)
        if packed is None:
            return Tensor.from_array(_typed_data(proto, name, count).reshape(shape), element_type)
        if element_type is element_types.string:
            raise InvalidModelError(f"tensor '{name}' holds strings, which cannot be raw data")
        needed = element_type.byte_size(count)
        if len(packed) != needed:
            raise InvalidModelError(
                f"tensor '{name}': {element_type}{list(shape)} needs {needed} bytes of data, "
                f"but there are {len(packed)}"
            )
        return Tensor.from_packed(packed, element_type, shape)

    def packed(self, proto: TensorProto, name: str) -> Array | None:
        """The bytes of a tensor that has them as raw data, in whatever file; None where it has typed ones."""
        if proto.data_location == TensorProto.EXTERNAL:
            if proto.name in self._tensors:
                return np.frombuffer(b"".join(map(bytes, self._tensors[proto.name].chunks())), np.uint8)
            entries = {entry.key: entry.value for entry in proto.external_data}
            return _slice(self._external(entries.get("location", ""), name), entries, name)
        start, size = proto.raw_span
        if size and self._embedded is not None:
            return self._embedded[start : start + size]
        if proto.HasField("raw_data"):
            return np.frombuffer(proto.raw_data, np.uint8)
        return None

    def _external(self, location: str, name: str) -> Array:
        path = self._confined(location, name)
        if path not in self._mapped:
            mapped = _mapped(path, self._shares)
            self._mapped[path] = mapped if isinstance(mapped, np.ndarray) else bytes_of(mapped)
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
            return self._resolve_path(location, name)
        except (OSError, ValueError, RuntimeError) as error:  # names that no file can have, links in a circle
            reason = getattr(error, "strerror", None) or error
            raise InvalidModelError(
                f"tensor '{name}': its external data {shorten(location)!r} cannot be read: {reason}"
            ) from error

    def _resolve_path(self, location: str, name: str) -> Path:
        """The file at a relative location, which must lie in the model's folder."""
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
    """Open a model given as a path, bytes, a binary file object or a parsed ``onnx.ModelProto``.

    What is open already is returned as it is. Without ``share_weights`` files are read into memory, and may change
    afterwards. Raises :class:`ConversionError` where the file cannot be read or is not an ONNX model.
    """
    if isinstance(source, OnnxFile):
        return source
    if isinstance(source, (list, tuple)) and len(source) == 1:
        source = source[0]  # OpenVINO takes a list of the files that make a model
    if isinstance(source, (str, os.PathLike)):
        try:
            path = Path(source)
        except Exception as error:  # whatever a path of the user's own does
            raise ConversionError(f"the model's path cannot be read: {error}") from error
        mapped = _mapped(path, share_weights)
        data = mapped if isinstance(mapped, np.ndarray) else bytes_of(mapped)
        return OnnxFile(_parse(mapped, str(path), path), path, data, share_weights)
    if isinstance(source, (bytes, bytearray, memoryview)):
        content = source
    elif type(source).__module__.startswith("onnx.") and type(source).__name__ == "ModelProto":
        file = OnnxFile(_of_onnx(source))  # known without onnx, which few have imported
        file._original = source
        return file
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
    return OnnxFile(_parse(memoryview(content), "the model"), None, np.frombuffer(content, np.uint8))


def _of_another_kind(source: object) -> str:
    package = type(source).__module__.split(".")[0]
    if package in ("torch", "torchvision", "transformers"):
        return ": export it with torch.onnx.export first"
    if package in ("tensorflow", "keras"):
        return ": convert it with tf2onnx first"
    if package in ("openvino", "ir_runtime"):
        return ": it is converted already"
    return ""


def _parse(source: MappedFile | memoryview | Array | None, subject: str, path: Path | None = None) -> ModelProto:
    if isinstance(source, np.ndarray):
        source = source.data
    head = b"" if source is None else bytes(source[:_HEAD])
    file_kind = kind_of_bytes(head, path)
    if source is None or len(source) == 0:
        raise InvalidModelError(f"{subject} is {file_kind}")
    try:
        if isinstance(source, MappedFile):
            model = parse(ModelProto, reader_of(source), len(source))
        else:
            model = parse_bytes(ModelProto, source)
    except InvalidModelError as error:
        if file_kind is not None and file_kind is not ONNX:
            raise InvalidModelError(f"{subject} is not an ONNX model, but {file_kind}") from error
        raise InvalidModelError(f"{subject} is not an ONNX model: {error}") from error
    if not model.HasField("graph") and file_kind is not None and file_kind is not ONNX:
        raise InvalidModelError(f"{subject} is not an ONNX model, but {file_kind}")
    return model


def _of_onnx(source: Any) -> ModelProto:
    try:
        proto: ModelProto = from_onnx(source, ModelProto)
    except UnicodeDecodeError as error:
        raise InvalidModelError(f"the name {error.object!r} in the model is not UTF-8") from error
    return proto


def _mapped(path: Path, share: bool = True) -> MappedFile | Array | None:
    """The file mapped, or read; None where it is mapped and empty."""
    try:
        file = MappedFile.open(path)
        if share or file is None:
            return file
        return np.frombuffer(b"".join(FileSpan(file, 0, len(file)).chunks()), np.uint8)
    except (OSError, ValueError) as error:
        file_kind = kind_of_folder(path)
        if file_kind is not None:
            raise ConversionError(f"{path} is not an ONNX model, but {file_kind}") from error
        raise ConversionError(
            f"{shorten(str(path))} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error


def _slice(data: Array, entries: dict[str, str], name: str) -> Array:
    offset = _number(entries.get("offset", "0"), "offset", name)
    length = _number(entries.get("length", str(max(0, len(data) - offset))), "length", name)
    if offset + length > len(data):
        raise InvalidModelError(
            f"tensor '{name}': its data ends at byte {offset + length}, but the file has {len(data)}"
        )
    return data[offset : offset + length]


def _number(text: str, subject: str, name: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise InvalidModelError(f"tensor '{name}': the {subject} of its data must be a number, but is {text[:80]!r}")
    return int(text)


def _typed_data(proto: TensorProto, name: str, count: int) -> Array:
    """The data of a tensor that has them in a typed field (``float_data`` ...) and not as raw bytes."""
    if proto.data_type == TensorProto.STRING:
        values = np.empty(len(proto.string_data), np.object_)
        try:
            values[:] = [item.decode() for item in proto.string_data]
        except UnicodeDecodeError as error:
            raise InvalidModelError(f"tensor '{name}' holds a string that is not UTF-8") from error
        return _check_count(values, count, name)
    element_type = element_type_of(proto.data_type)
    field = _FIELD_OF.get(proto.data_type, "int32_data")
    stored = np.array(getattr(proto, field), _STORED[field])
    if not stored.size and any(len(getattr(proto, other)) for other in _STORED):
        raise InvalidModelError(f"tensor '{name}': its data must stand in the field {field}, where there is none")
    if field != "int32_data":
        return _check_count(stored.astype(element_type.dtype, copy=False), count, name)
    if proto.data_type == TensorProto.INT32:
        return _check_count(stored.astype(np.int32), count, name)
    if element_type.is_packed:
        octets = stored.astype(np.uint8)
        # A byte holds several numbers; the last byte may hold more than there are.
        held = min(stored.size * (8 // element_type.bits), count)
        return _check_count(element_types.unpack(octets, element_type, (held,)), count, name)
    # The rest are the bits of numbers of 8 and 16 bits.
    bits = stored.astype(np.uint16 if element_type.bits == 16 else np.uint8)
    return _check_count(bits.view(element_type.dtype), count, name)


_STORED = {
    "float_data": np.float32,
    "int32_data": np.int64,
    "int64_data": np.int64,
    "double_data": np.float64,
    "uint64_data": np.uint64,
}
"""The fields of typed data, and the types in which their numbers are read: int32_data with 64 bits."""
_FIELD_OF = {
    TensorProto.FLOAT: "float_data",
    TensorProto.INT64: "int64_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.UINT32: "uint64_data",
    TensorProto.UINT64: "uint64_data",
}


def _check_count(values: Array, count: int, name: str) -> Array:
    if values.size != count:
        raise InvalidModelError(f"tensor '{name}' needs {count} values, but has {values.size}")
    return values
