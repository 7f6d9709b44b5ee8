"""Writes an exported model to a file: the weights one after the other, never all of them in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import onnx

from converter.errors import ConversionError
from converter.onnx_file.model import OnnxModel
from converter.onnx_file.skeleton import place_of, restored, tensors_in
from ir_runtime.files.weights import write_blobs
from ir_runtime.files.whole_files import check_target, whole_folder, write_pair, write_whole
from ir_runtime.graph import Tensor

_MOST_BYTES = (1 << 31) - (1 << 24)
"""protobuf reads messages of less than 2 GB: beyond this size of all weights they go into a file of their own."""
_ALIGNMENT = 1 << 12
"""Alignment of weights in a file of their own: multiples of this can be mapped."""


def check_onnx_path(path: Path) -> None:
    """Raises :class:`ConversionError` where a model cannot be written under this name."""
    if path.suffix.lower() != ".onnx":
        raise ConversionError(f"the ONNX model's path must end in .onnx, but is '{path}'")
    check_target(path)


def write_onnx(model: OnnxModel, path: Path, external: bool | None, most: int | None = None) -> list[Path]:
    """Write a model; the files that were written. ``external`` is as for :func:`converter.save_onnx`.

    ``external`` writes the initializers to files beside the model, of at most ``most`` bytes each, unless one tensor is
    larger. Raises :class:`ConversionError` where the model is too large for one file.
    """
    check_onnx_path(path)
    message, tensors = model.message(), model.tensor_data
    total = sum(tensors[index].byte_size for tensor in tensors_in(message) if (index := place_of(tensor)) is not None)
    if external is None:
        external = total > _MOST_BYTES
    files: dict[Path, list[Tensor]] = {}
    data, end = path.with_name(f"{path.name}.data"), 0
    if external:
        check_target(data)
        files[data] = []
    for proto in message.graph.initializer if external else ():
        index = place_of(proto)
        if index is None:
            continue
        tensor = tensors[index]
        end += -end % _ALIGNMENT
        if most is not None and end and end + tensor.byte_size > most:
            data, end = path.with_name(f"{path.name}.data_{len(files)}"), 0
        files.setdefault(data, []).append(tensor)
        proto.ClearField("external_data")
        proto.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", data.name), ("offset", end), ("length", tensor.byte_size)):
            proto.external_data.add(key=key, value=str(value))
        end, total = end + tensor.byte_size, total - tensor.byte_size
    if total > _MOST_BYTES:
        raise ConversionError(f"{total} bytes of weights do not fit into one ONNX file: they need external data")
    if not files:
        write_whole(path, lambda file: _write_message(file, message, tensors))
    elif len(files) == 1:
        write_pair(path, lambda: _chunks(message, tensors), data, lambda file: _write(file, files[data]))
    else:
        with whole_folder(path.parent) as folder:
            for name, held in files.items():
                with open(folder / name.name, "wb") as file:
                    _write(file, held)
            with open(folder / path.name, "wb") as file:
                _write_message(file, message, tensors)
    return [path, *files]


def _write(file: IO[bytes], tensors: Sequence[Tensor]) -> None:
    blobs, end = [], 0
    for tensor in tensors:
        end += -end % _ALIGNMENT
        blobs.append((end, tensor))
        end += tensor.byte_size
    write_blobs(file, blobs)


def _write_message(file: IO[bytes], message: onnx.ModelProto, tensors: Sequence[Tensor]) -> None:
    position = 0
    for piece in restored(message, tensors):
        if isinstance(piece, Tensor):
            piece.write_to(file, position)
            position += piece.byte_size
        else:
            position += file.write(piece)


def _chunks(message: onnx.ModelProto, tensors: Sequence[Tensor]) -> Iterator[bytes | memoryview]:
    for piece in restored(message, tensors):
        yield from piece.chunks() if isinstance(piece, Tensor) else (piece,)
