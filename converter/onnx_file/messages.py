"""ONNX's messages as plain objects: what ``onnx.proto`` declares, as far as a conversion reads it.

They have the names, fields, numbers and defaults of onnx's own classes, which take protobuf and a tenth of a
second to import; a field that a file leaves out has its default and is not :meth:`Message.HasField`. What a conversion
does not use (strings for people, training) is not kept.

https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from converter.errors import InvalidModelError

if TYPE_CHECKING:
    from typing_extensions import Self

# What a field holds; of the singular kinds the last one in the file counts, messages are merged. Of SPANS the places
# are kept instead of what is there.
TEXT, BYTES, INT, FLOAT, MESSAGE = range(5)
TEXTS, BYTES_LIST, MESSAGES = range(5, 8)
INTS, UINTS, FLOATS, DOUBLES = range(8, 12)
RAW, SPANS = 12, 13

REPEATED = frozenset(range(TEXTS, RAW))
_WIRE_TYPES = {INT: 0, INTS: 0, UINTS: 0, DOUBLES: 1, FLOAT: 5, FLOATS: 5}


class Field(NamedTuple):
    """A field of a message."""

    wire_type: int
    name: str
    message: type[Message] | None
    """The class of the messages that it holds."""


class Message:
    """A message: an attribute for every field."""

    fields: ClassVar[Mapping[int, Field]] = {}
    """By tag: the number and the wire type. Numbers in a row have two, one for each way to write them."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def HasField(self, name: str) -> bool:  # noqa: N802 - onnx's own messages call it so
        """True if the file has a value for a field."""
        return name in self.__dict__

    def with_fields(self, **changed: Any) -> Self:
        """The same message with some fields changed."""
        return type(self)(**{**self.__dict__, **changed})


class StringStringEntryProto(Message):
    """A key and its value."""

    key: str = ""
    value: str = ""


class OperatorSetIdProto(Message):
    """A domain, and the version of it that a model uses."""

    domain: str = ""
    version: int = 0


class TensorProto(Message):
    """A constant; of raw data that is worth it only the place in the file is kept."""

    UNDEFINED, FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE = range(12)
    UINT32, UINT64, COMPLEX64, COMPLEX128, BFLOAT16 = range(12, 17)
    FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ, UINT4, INT4, FLOAT4E2M1 = range(17, 24)
    FLOAT8E8M0, UINT2, INT2, FLOAT6E2M3, FLOAT6E3M2 = range(24, 29)

    EXTERNAL: ClassVar[int] = 1
    """The ``data_location`` of data that lies in another file."""

    dims: Sequence[int] = ()
    data_type: int = 0
    float_data: Sequence[float] = ()
    int32_data: Sequence[int] = ()
    string_data: Sequence[bytes] = ()
    int64_data: Sequence[int] = ()
    name: str = ""
    raw_data: bytes = b""
    raw_span: tuple[int, int] = (0, 0)
    """The place and size in bytes of large raw data in the model's own file; no field of ONNX's."""
    double_data: Sequence[float] = ()
    uint64_data: Sequence[int] = ()
    external_data: Sequence[StringStringEntryProto] = ()
    data_location: int = 0


DATA_TYPES: Mapping[str, int] = {
    name: number for name, number in vars(TensorProto).items() if name.isupper() and name != "EXTERNAL"
}
"""``TensorProto.DataType``: name -> number."""


class SparseTensorProto(Message):
    """A constant of which only the values that are not 0 are kept, and their places."""

    values: TensorProto = TensorProto()
    indices: TensorProto = TensorProto()
    dims: Sequence[int] = ()


class DimensionProto(Message):
    """A dimension: a number, or the name of one."""

    dim_value: int = 0
    dim_param: str = ""


class TensorShapeProto(Message):
    """The dimensions of a tensor."""

    dim: Sequence[DimensionProto] = ()


class TensorTypeProto(Message):
    """The element type and the shape of a tensor."""

    elem_type: int = 0
    shape: TensorShapeProto = TensorShapeProto()


class SequenceTypeProto(Message):
    """The type of the values of a sequence or an optional."""

    elem_type: TypeProto


class MapTypeProto(Message):
    """The types of a map, of which it counts only that it is one."""


class TypeProto(Message):
    """The type of a value: one of these."""

    tensor_type: TensorTypeProto = TensorTypeProto()
    sequence_type: SequenceTypeProto = SequenceTypeProto()
    map_type: MapTypeProto = MapTypeProto()
    sparse_tensor_type: TensorTypeProto = TensorTypeProto()
    optional_type: SequenceTypeProto = SequenceTypeProto()


SequenceTypeProto.elem_type = TypeProto()


class ValueInfoProto(Message):
    """A value's name and type."""

    name: str = ""
    type: TypeProto = TypeProto()


class AttributeProto(Message):
    """An attribute of a node."""

    FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS, TENSORS, GRAPHS = range(1, 11)
    SPARSE_TENSOR, SPARSE_TENSORS, TYPE_PROTO, TYPE_PROTOS = range(11, 15)

    name: str = ""
    ref_attr_name: str = ""
    type: int = 0
    f: float = 0.0
    i: int = 0
    s: bytes = b""
    t: TensorProto = TensorProto()
    g: GraphProto
    sparse_tensor: SparseTensorProto = SparseTensorProto()
    tp: TypeProto = TypeProto()
    floats: Sequence[float] = ()
    ints: Sequence[int] = ()
    strings: Sequence[bytes] = ()
    tensors: Sequence[TensorProto] = ()
    graphs: Sequence[GraphProto] = ()
    sparse_tensors: Sequence[SparseTensorProto] = ()


ATTRIBUTE_TYPES: Mapping[int, str] = {
    number: name for name, number in vars(AttributeProto).items() if name.isupper() and isinstance(number, int)
}
"""``AttributeProto.AttributeType``: number -> name."""


_VALUE_FIELDS = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPHS: "graphs",
}
"""``AttributeProto.AttributeType`` -> the field that has the value."""
_OF_LISTS = frozenset(range(AttributeProto.FLOATS, AttributeProto.GRAPHS + 1))


def attribute_value(attribute: AttributeProto) -> Any:
    """The Python value of an attribute, onnx's own or of this module: numbers, texts, lists of them, or a message."""
    if attribute.type not in _VALUE_FIELDS:
        raise InvalidModelError(f"attribute '{attribute.name}' has the unknown type {attribute.type}")
    value: Any = getattr(attribute, _VALUE_FIELDS[attribute.type])
    try:
        if attribute.type == AttributeProto.STRING:
            return value.decode()
        if attribute.type == AttributeProto.STRINGS:
            return [text.decode() for text in value]
    except UnicodeDecodeError as error:
        raise InvalidModelError(f"attribute '{attribute.name}' is not UTF-8") from error
    return list(value) if attribute.type in _OF_LISTS else value


class NodeProto(Message):
    """A call of an operator."""

    input: Sequence[str] = ()
    output: Sequence[str] = ()
    name: str = ""
    op_type: str = ""
    domain: str = ""
    attribute: Sequence[AttributeProto] = ()


class GraphProto(Message):
    """Nodes between inputs and outputs."""

    node: Sequence[NodeProto] = ()
    name: str = ""
    initializer: Sequence[TensorProto] = ()
    sparse_initializer: Sequence[SparseTensorProto] = ()
    input: Sequence[ValueInfoProto] = ()
    output: Sequence[ValueInfoProto] = ()
    value_info: Sequence[ValueInfoProto] = ()


AttributeProto.g = GraphProto()


class FunctionProto(Message):
    """Nodes under a name, which other nodes call."""

    name: str = ""
    input: Sequence[str] = ()
    output: Sequence[str] = ()
    attribute: Sequence[str] = ()
    attribute_proto: Sequence[AttributeProto] = ()
    node: Sequence[NodeProto] = ()
    opset_import: Sequence[OperatorSetIdProto] = ()
    domain: str = ""


class ModelProto(Message):
    """A graph: nodes, initializers, inputs, outputs and declared types."""

    ir_version: int = 0
    opset_import: Sequence[OperatorSetIdProto] = ()
    producer_name: str = ""
    producer_version: str = ""
    domain: str = ""
    model_version: int = 0
    doc_string: str = ""
    graph: GraphProto = GraphProto()
    metadata_props: Sequence[StringStringEntryProto] = ()
    functions: Sequence[FunctionProto] = ()


_SINGLE: Mapping[str, int] = {"str": TEXT, "bytes": BYTES, "int": INT, "float": FLOAT}
_REPEATED: Mapping[str, int] = {"str": TEXTS, "bytes": BYTES_LIST, "int": INTS, "float": FLOATS}
"""Annotation of a field, or of its items -> what it holds; other annotations are messages."""
_NARROWER: Mapping[str, int] = {"raw_data": RAW, "double_data": DOUBLES, "uint64_data": UINTS}
"""Fields that hold something narrower than their annotation says."""


def _declare(message: type[Message], **numbers: int) -> None:
    """Give the fields of a message their numbers in ``onnx.proto``."""
    fields: dict[int, Field] = {}
    for name, number in numbers.items():
        annotation = message.__annotations__[name]
        item = annotation.removeprefix("Sequence[").removesuffix("]")
        is_single = item == annotation
        held = _NARROWER.get(name, (_SINGLE if is_single else _REPEATED).get(item))
        if held is None:
            fields[number << 3 | 2] = Field(MESSAGE if is_single else MESSAGES, name, globals()[item])
        else:
            fields[number << 3 | _WIRE_TYPES.get(held, 2)] = Field(held, name, None)
            if held in (INTS, UINTS, FLOATS, DOUBLES):
                fields[number << 3 | 2] = Field(held, name, None)
    message.fields = fields


_declare(StringStringEntryProto, key=1, value=2)
_declare(OperatorSetIdProto, domain=1, version=2)
_declare(
    TensorProto,
    dims=1,
    data_type=2,
    float_data=4,
    int32_data=5,
    string_data=6,
    int64_data=7,
    name=8,
    raw_data=9,
    double_data=10,
    uint64_data=11,
    external_data=13,
    data_location=14,
)
_declare(SparseTensorProto, values=1, indices=2, dims=3)
_declare(DimensionProto, dim_value=1, dim_param=2)
_declare(TensorShapeProto, dim=1)
_declare(TensorTypeProto, elem_type=1, shape=2)
_declare(SequenceTypeProto, elem_type=1)
_declare(TypeProto, tensor_type=1, sequence_type=4, map_type=5, sparse_tensor_type=8, optional_type=9)
_declare(ValueInfoProto, name=1, type=2)
_declare(
    AttributeProto,
    name=1,
    ref_attr_name=21,
    type=20,
    f=2,
    i=3,
    s=4,
    t=5,
    g=6,
    sparse_tensor=22,
    tp=14,
    floats=7,
    ints=8,
    strings=9,
    tensors=10,
    graphs=11,
    sparse_tensors=23,
)
_declare(NodeProto, input=1, output=2, name=3, op_type=4, domain=7, attribute=5)
_declare(GraphProto, node=1, name=2, initializer=5, sparse_initializer=15, input=11, output=12, value_info=13)
_declare(FunctionProto, name=1, input=4, output=5, attribute=6, attribute_proto=11, node=7, opset_import=9, domain=10)
_declare(
    ModelProto,
    ir_version=1,
    opset_import=8,
    producer_name=2,
    producer_version=3,
    domain=4,
    model_version=5,
    doc_string=6,
    graph=7,
    metadata_props=14,
    functions=25,
)


_BY_NAME: dict[type[Message], dict[str, Field]] = {}


def _fields_of(message: type[Message]) -> dict[str, Field]:
    if message not in _BY_NAME:
        _BY_NAME[message] = {field.name: field for field in message.fields.values()}
    return _BY_NAME[message]


def from_onnx(source: Any, message: type[Message]) -> Any:
    """The message with the contents of an object of onnx's own class, data included.

    Raises :class:`UnicodeDecodeError` where a text is not UTF-8.
    """
    fields_by_name = _fields_of(message)
    parsed = message()
    for descriptor, value in source.ListFields():
        field = fields_by_name.get(descriptor.name)
        if field is None:
            continue
        if field.message is not None:
            inner = field.message
            value = (
                [from_onnx(item, inner) for item in value] if field.wire_type == MESSAGES else from_onnx(value, inner)
            )
        elif field.wire_type in REPEATED:
            value = list(value)
        texts = [value] if field.wire_type == TEXT else value if field.wire_type == TEXTS else []
        for text in texts:
            if isinstance(text, bytes):  # protobuf's way to hand out what is not UTF-8
                text.decode()
        parsed.__dict__[field.name] = value
    return parsed


def to_onnx(message: Message, target: Any) -> Any:
    """``target``, an object of onnx's own class, with the fields of ``message``; without data left in the file.

    Raises :class:`InvalidModelError` for numbers that the fields do not hold.
    """
    for field in _fields_of(type(message)).values():
        if not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if field.wire_type == MESSAGE:
            inner = getattr(target, field.name)
            inner.SetInParent()
            to_onnx(value, inner)
        elif field.wire_type == MESSAGES:
            for item in value:
                to_onnx(item, getattr(target, field.name).add())
        else:
            try:
                if field.wire_type in REPEATED:
                    getattr(target, field.name).extend(value)
                else:
                    setattr(target, field.name, value)
            except ValueError as error:
                raise InvalidModelError(f"the field '{field.name}' cannot be {value!r:.80}: {error}") from error
    return target
