"""The kind of a file that was given in place of an ONNX model or an IR, recognised by its first bytes.

Nothing is unpacked, unpickled or executed: files of strangers are not trusted.
"""

from __future__ import annotations

import os
from pathlib import Path

from ir_runtime.records import record

_HEAD_BYTES = 4096
"""The number of bytes that are read."""


@record
class FileKind:
    """A kind of file, as the middle of a sentence, and what to do with such a file, as its end."""

    description: str
    advice: str

    def __str__(self) -> str:
        return f"{self.description}: {self.advice}"


_EXPORT_TORCH = "export the model from PyTorch with torch.onnx.export and give the .onnx file"
_UNPACK = "unpack it and give the .onnx file that is in it"
_TF = "convert it with tf2onnx (python -m tf2onnx.convert) and give the .onnx file"

ONNX = FileKind("an ONNX model", "convert it first, with onnx2ir convert or converter.convert_model")
IR = FileKind(
    "OpenVINO IR already", "there is nothing to convert; read it with ir_runtime.read_model or onnx2ir inspect"
)
XML = FileKind("an XML document", "it is neither an ONNX model nor OpenVINO IR")
EMPTY = FileKind("empty", "the download or the export that made it has failed; make it again")

_BEGINNINGS: tuple[tuple[bytes, FileKind], ...] = (
    (
        b"version https://git-lfs",
        FileKind("a Git LFS pointer, not the file itself", "run 'git lfs pull' where it comes from"),
    ),
    (b"\x1f\x8b", FileKind("a gzip archive", _UNPACK)),
    (b"BZh", FileKind("a bzip2 archive", _UNPACK)),
    (b"\xfd7zXZ\x00", FileKind("an xz archive", _UNPACK)),
    (b"\x28\xb5\x2f\xfd", FileKind("a zstd archive", _UNPACK)),
    (b"7z\xbc\xaf\x27\x1c", FileKind("a 7z archive", _UNPACK)),
    (b"\x80\x02\x8a\x0al\xfc\x9c", FileKind("a PyTorch file (pickled)", _EXPORT_TORCH)),
    (
        b"\x89HDF\r\n\x1a\n",
        FileKind("an HDF5 file, such as Keras writes", "convert the model with tf2onnx and give the .onnx file"),
    ),
    (b"GGUF", FileKind("a GGUF file", "it holds weights for llama.cpp; export the original model to ONNX")),
    (b"\x93NUMPY", FileKind("a NumPy array", "give the model's .onnx file")),
    (b"\x7fELF", FileKind("a program or a library", "give the model's .onnx file")),
    (b"\x89PNG", FileKind("an image", "give the model's .onnx file")),
    (b"\xff\xd8\xff", FileKind("an image", "give the model's .onnx file")),
    (b"%PDF", FileKind("a PDF document", "give the model's .onnx file")),
)


def kind_of_path(path: str | os.PathLike[str]) -> FileKind | None:
    """The kind of the file or folder at ``path``, by its first bytes and its name; None where it is unknown."""
    path = Path(path)
    try:
        if path.is_dir():
            return kind_of_folder(path)
        if not path.is_file():
            return None
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return None
    return kind_of_bytes(head, path)


def kind_of_bytes(head: bytes, path: Path | None = None) -> FileKind | None:
    """The kind of a file that begins with ``head``; None where it is unknown."""
    head = head[:_HEAD_BYTES]
    if not head:
        return EMPTY
    for beginning, file_kind in _BEGINNINGS:
        if head.startswith(beginning):
            return file_kind
    return _kind_of_zip(head) or _kind_of_text(head) or _kind_of_fields(head, path) or _kind_by_name(path)


def kind_of_folder(path: Path) -> FileKind | None:
    """The kind of the folder at ``path``; None where there is no folder."""
    try:
        return _kind_of_folder(path) if path.is_dir() else None
    except (OSError, ValueError):
        return None


def _kind_of_folder(path: Path) -> FileKind:
    if (path / "saved_model.pb").exists():
        return FileKind("a TensorFlow SavedModel", _TF)
    names = sorted(file.name for file in path.iterdir() if file.suffix.lower() in (".onnx", ".xml"))[:3]
    return FileKind("a folder", f"give a file in it: {', '.join(names)}" if names else "give the file of the model")


def _kind_of_zip(head: bytes) -> FileKind | None:
    if not head.startswith(b"PK\x03\x04"):
        return None
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    if b"/data.pkl" in name or b"data.pkl" in head[:512] or name.endswith((b"/.format_version", b"/byteorder")):
        return FileKind("a PyTorch file (a zip of pickles)", _EXPORT_TORCH)
    if name in (b"metadata.json", b"config.json", b"model.weights.h5"):
        return FileKind("a Keras file", "convert the model with tf2onnx and give the .onnx file")
    if name.endswith(b".npy"):
        return FileKind("an archive of NumPy arrays (.npz)", "give the model's .onnx file")
    return FileKind("a zip archive", _UNPACK)


def _kind_of_text(head: bytes) -> FileKind | None:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = head.decode("utf-16", "ignore")
    else:
        try:
            text = head.decode()
        except UnicodeDecodeError as error:
            if error.start < len(head) - 4 or len(head) < _HEAD_BYTES:  # the last character may be cut off
                return None
            text = head[: error.start].decode()
    if any(ord(character) < 32 and character not in "\t\n\r\f" for character in text):
        return None
    start = text.lstrip("\ufeff \t\r\n")
    lowered = start[:200].lower()
    if lowered.startswith(("<!doctype html", "<html")):
        return FileKind("an HTML page, not the file itself", "the download needs another address, or a login")
    if lowered.startswith("<"):
        is_ir = "<net" in lowered or "<net " in start
        return IR if is_ir else XML
    if lowered.startswith(("{", "[")):
        return FileKind("a JSON document", "give the file of the model itself")
    return FileKind("plain text", "give the file of the model itself")


def _kind_of_fields(head: bytes, path: Path | None) -> FileKind | None:
    """Formats without a fixed beginning: flatbuffers, safetensors, and protobuf messages of ONNX and TensorFlow."""
    if head[4:8] == b"TFL3":
        return FileKind("a TFLite model", "convert it with tf2onnx (--tflite) and give the .onnx file")
    if head[4:8] == b"ORTM":
        return FileKind("a model in onnxruntime's own format", "give the .onnx file that it was made from")
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 30:
        return FileKind("a safetensors file, which holds weights alone", _EXPORT_TORCH)
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return FileKind("a Python pickle, which is not opened", _EXPORT_TORCH)
    is_saved_model = head[:3] == b"\x08\x01\x12" and _is_meta_graph(head[3:])
    if is_saved_model or (path is not None and path.name == "saved_model.pb"):
        return FileKind("a TensorFlow SavedModel", _TF)
    if _is_tf_graph(head):
        return FileKind("a frozen TensorFlow graph", _TF)
    if head[257:262] == b"ustar":
        return FileKind("a tar archive", _UNPACK)
    # ModelProto: ir_version, and then a text, a number or the graph.
    if (
        head[:1] == b"\x08"
        and 0 < int.from_bytes(head[1:2], "little") < 32
        and head[2:3] in (b"\x12", b"\x1a", b"\x22", b"\x28", b"\x32", b"\x3a", b"\x42")
    ):
        return ONNX
    return None


def _is_meta_graph(rest: bytes) -> bool:
    """True if a field's length comes next, and then a message whose first field is a message."""
    after = next((index for index, byte in enumerate(rest[:10]) if byte < 128), 9) + 1
    return rest[after : after + 1] == b"\x0a"


def _is_tf_graph(head: bytes) -> bool:
    """A list of nodes, each a name and then an operator's name."""
    after = next((index for index, byte in enumerate(head[1:10]) if byte < 128), 9) + 2
    if head[:1] != b"\x0a" or head[after : after + 1] != b"\x0a" or len(head) < after + 2:
        return False
    end = after + 2 + head[after + 1]
    return head[end : end + 1] == b"\x12" and head[end + 2 : end + 5].isalpha()


def _kind_by_name(path: Path | None) -> FileKind | None:
    if path is None:
        return None
    name = path.name.lower()
    if name.endswith((".onnx.data", ".onnx_data", ".onnx.data_0", ".data", ".weight", ".weights")):
        beside = sorted(file.name for file in path.parent.glob("*.onnx"))[:3]
        give = f"give the model that refers to it: {', '.join(beside)}" if beside else "give the .onnx file beside it"
        return FileKind("external data of an ONNX model, it seems", give)
    if name.endswith(".bin") and path.with_suffix(".xml").exists():
        return FileKind("the weights of an IR, it seems", f"give {path.with_suffix('.xml').name}")
    return None
