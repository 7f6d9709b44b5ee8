"""An ONNX model as a graph, to be shown, compared, edited and written again: :class:`OnnxModel`."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from converter.errors import ConversionError, InvalidModelError, UnsupportedModelError
from converter.onnx_file import messages
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.graph import INITIALIZER, GraphReader, OnnxGraph, OnnxOperator, function_message, graph_message
from converter.onnx_file.model_info import model_info, model_opsets
from converter.onnx_file.reader import ModelSource, OnnxFile, open_model
from converter.onnx_file.skeleton import EMBEDDED, place_of, refer, tensors_in
from converter.onnx_file.types import element_type_of, onnx_number
from ir_runtime.graph import Array, Tensor, element_types

_SMALL_BYTES = 1 << 10
"""Tensors of up to this size stay in the message."""


_IN_MEMORY = OnnxFile(messages.ModelProto())
"""A file of no data, to decode tensors that have theirs in their messages."""


class OnnxModel:
    """A model: its graph, its functions, and the rest of its message. Large tensors stay where they are.

    With ``is_shown`` functions are bodies of their first calls, with ``is_partial`` external data may be missing. Data
    is added to ``tensors``, which models may share.
    """

    def __init__(
        self,
        source: ModelSource,
        *,
        is_shown: bool = False,
        is_partial: bool = False,
        tensors: list[Tensor] | None = None,
    ) -> None:
        file = open_model(source)
        if not file.proto.HasField("graph"):
            raise InvalidModelError("the model has no graph")
        self.name = file.name
        self.file: OnnxFile | None = file
        """What the model was read from; None for one that was made."""
        self.tensor_data: list[Tensor] = [] if tensors is None else tensors
        """The data of large tensors, to which their messages refer."""
        self.has_external_data = False
        self.header = onnx.ModelProto()
        """The message without graph and functions."""
        self.header.CopyFrom(file.as_onnx())
        for tensor in tensors_in(self.header):
            self._take(tensor, file, is_partial)
        self.files = (*([] if file.path is None else [file.path]), *file.external_files)
        """What the weights are read from."""
        opsets = model_opsets(file)
        shown = {(normalize_domain(entry.domain), entry.name): entry for entry in self.header.functions}
        reader = GraphReader(self.data_of, opsets, shown if is_shown else {})
        self.take_graphs(self.header, reader)
        self.graph.runtime_info = model_info(file, opsets)

    def take_graphs(self, message: onnx.ModelProto, reader: GraphReader) -> None:
        """Let graph and functions be those of a message; what remains of it is the header."""
        self.graph: OnnxGraph = reader.graph(message.graph)
        self.functions: list[OnnxGraph] = [reader.function(entry) for entry in message.functions]
        self.header = message
        for field in ("graph", "functions"):
            self.header.ClearField(field)

    def _take(self, proto: onnx.TensorProto, file: OnnxFile, is_partial: bool) -> None:
        """Take the data of a large tensor out of its message."""
        entries = {entry.key: entry.value for entry in proto.external_data}
        is_external = proto.data_location == onnx.TensorProto.EXTERNAL
        if entries.get("location") == EMBEDDED and not is_external:
            start, length = (entries.get(key, "") for key in ("offset", "length"))
            if not (start.isdigit() and length.isdigit()):
                raise InvalidModelError(f"tensor '{proto.name}' has external data at no place")
            packed = file.data[int(start) : int(start) + int(length)]
        elif is_external:
            try:
                external = file.packed(messages.from_onnx(proto, messages.TensorProto), proto.name or "(unnamed)")
            except ConversionError:
                if is_partial:
                    return
                raise
            assert external is not None
            packed, self.has_external_data = external, True
        elif len(proto.raw_data) > _SMALL_BYTES:
            packed = np.frombuffer(proto.raw_data, np.uint8)
        else:
            return
        shape = tuple(proto.dims)
        tensor = _from_packed(packed, proto.data_type, shape)
        if tensor.byte_size != len(packed):
            raise InvalidModelError(
                f"tensor '{proto.name}': {tensor.element_type}{list(shape)} needs {tensor.byte_size} bytes of data, "
                f"but there are {len(packed)}"
            )
        store(proto, tensor, self.tensor_data)

    def data_of(self, proto: Any) -> Tensor | None:
        """Return the data of a tensor of the model, dense; None where it is not here."""
        if isinstance(proto, onnx.SparseTensorProto):
            dense = onnx.SparseTensorProto()
            dense.CopyFrom(proto)
            for tensor in (dense.values, dense.indices):
                self._restore(tensor)
            return _IN_MEMORY.dense(messages.from_onnx(dense, messages.SparseTensorProto))
        index = place_of(proto)
        if index is not None:
            return self.tensor_data[index]
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            return None
        message = messages.from_onnx(proto, messages.TensorProto)
        packed = _IN_MEMORY.packed(message, proto.name)
        return (
            _IN_MEMORY.tensor(message) if packed is None else _from_packed(packed, proto.data_type, tuple(proto.dims))
        )

    def _restore(self, proto: onnx.TensorProto) -> None:
        """Put the data of a tensor back into its message."""
        index = place_of(proto)
        if index is not None:
            proto.ClearField("external_data")
            proto.raw_data = b"".join(self.tensor_data[index].chunks())

    def as_file(self) -> OnnxFile:
        """Return the model for a conversion: its weights are views."""
        message, tensors = self.message(), dict[str, Tensor]()
        weights = {entry.name for entry in message.graph.initializer}
        for proto in tensors_in(message):
            index = place_of(proto)
            if index is not None:
                proto.data_location = onnx.TensorProto.EXTERNAL
                proto.name = proto.name if proto.name in weights else f"\0{index}"
                tensors[proto.name] = self.tensor_data[index]
        return OnnxFile.of_parts(message, tensors)

    @classmethod
    def of_parts(
        cls, header: onnx.ModelProto, graph: OnnxGraph, functions: list[OnnxGraph], tensor_data: list[Tensor]
    ) -> OnnxModel:
        """Return the model of a graph, whose large tensors refer to ``tensor_data``."""
        model = cls.__new__(cls)
        model.header, model.graph, model.functions, model.tensor_data = header, graph, functions, tensor_data
        model.name, model.has_external_data, model.files, model.file = graph.name, False, (), None
        return model

    @property
    def opset(self) -> int:
        """The version of ONNX's operators."""
        return next(entry.version for entry in self.header.opset_import if not normalize_domain(entry.domain))

    def message(self) -> onnx.ModelProto:
        """Return the message, in which large tensors refer to :attr:`tensor_data`."""
        message = onnx.ModelProto()
        message.CopyFrom(self.header)
        message.graph.CopyFrom(graph_message(self.graph))
        message.functions.extend(map(function_message, self.functions))
        return message

    def with_weights(self) -> onnx.ModelProto:
        """Return the message with the data of all tensors."""
        message = self.message()
        self.restore(message)
        return message

    def restore(self, message: onnx.ModelProto) -> None:
        """Put the data of tensors that refer to :attr:`tensor_data` into the message of the model, or of a part."""
        for proto in tensors_in(message):
            self._restore(proto)


def store(proto: onnx.TensorProto, tensor: Tensor, stored: list[Tensor]) -> None:
    """Let the data of a message be that of a tensor; large data is added to ``stored``, to which it then refers."""
    if tensor.element_type is element_types.string:
        values = tensor.array().reshape(-1).tolist()
        proto.string_data.extend(value if isinstance(value, bytes) else str(value).encode() for value in values)
        return
    refer(proto, len(stored))
    if tensor.byte_size > _SMALL_BYTES:
        stored.append(tensor)
    else:
        proto.ClearField("external_data")
        proto.raw_data = b"".join(tensor.chunks())


def constant_operator(tensor: Tensor, stored: list[Tensor]) -> OnnxOperator:
    """Return the operator of an initializer; data that is large is added to ``stored``."""
    proto = onnx.TensorProto(data_type=onnx_number(tensor.element_type), dims=tensor.shape)
    store(proto, tensor, stored)
    return OnnxOperator(INITIALIZER, proto=proto, read=lambda _: tensor)


def _from_packed(packed: Array, data_type: int, shape: tuple[int, ...]) -> Tensor:
    """Return the data as a tensor; of an element type that the IR does not have the bytes."""
    try:
        return Tensor.from_packed(packed, element_type_of(data_type), shape)
    except UnsupportedModelError:
        return Tensor.from_packed(packed, element_types.u8, packed.shape)
