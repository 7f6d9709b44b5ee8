"""The context of an exporter: the layer, and functions that add ONNX nodes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from converter.errors import UnsupportedModelError
from converter.onnx_file import schema_table
from converter.onnx_file.types import of_spelling, onnx_number, spelling
from converter.targets.onnxruntime.kernels import has_kernel, last_opset
from ir_runtime.errors import InternalError
from ir_runtime.graph import Array, ElementType, PartialShape, Tensor, TensorType, element_types

from .graph import Graph, Value, is_computed, operator
from .older_forms import Replaced, older_form
from .opsets import FORMS, Opsets

if TYPE_CHECKING:
    from ir_runtime.analysis.polynomials import Polynomial
    from ir_runtime.graph import Model, Node, Output

    from .translation import Translation

T = TypeVar("T")
_WIDER = {
    **dict.fromkeys(("u1", "u2", "u4", "boolean"), ("u8", "i32", "i64", "f32")),
    "i4": ("i8", "i32", "i64", "f32"),
    **dict.fromkeys(("i8", "u8", "i16", "u16"), ("i32", "i64", "f32")),
    **dict.fromkeys(("i32", "u32"), ("i64", "f64")),
    "u64": ("i64",),
    **dict.fromkeys(("i64", "f32"), ("f64",)),
    **dict.fromkeys(("f8e4m3", "f8e5m2", "f8e8m0", "f4e2m1", "bf16", "f16", "f64"), ("f32",)),
}
"""The types that hold the values of a type, the first the nearest: see :meth:`Context.emit`. i64 in place of u64 and
f64 in place of 64-bit integers hold those below 2^63 and 2^53; f32 takes the place of f64 where there is no other."""
_SMALL = 64
"""Constants of up to this many elements are converted while exporting."""


class Context:
    """The layer that is written, and the graph that it is written into."""

    def __init__(
        self, translation: Translation, graph: Graph, node: Node, values: Mapping[Output, Value] | None = None
    ) -> None:
        self._translation = translation
        self._values = values or {}
        self.graph = graph
        self.node = node
        """The layer of the IR: its types tell what the values' do not."""

    @property
    def opsets(self) -> Opsets:
        return self._translation.opsets

    @property
    def opset(self) -> int:
        """The opset that is written, as far as it is known."""
        return max(self.opsets.version, self.opsets.needed)

    @property
    def contrib(self) -> bool:
        """True if operators of onnxruntime's own domain may be used."""
        return self._translation.options.contrib

    def at_least(self, version: int) -> bool:
        """True if operators of that opset may be used."""
        return self.opsets.at_least(version)

    def fail(self, reason: str) -> NoReturn:
        """Raises the error that the layer cannot be written, with the reason."""
        raise UnsupportedModelError(reason)

    def emit(
        self,
        op_type: str,
        *inputs: Value | None,
        domain: str = "",
        type: ElementType | None = None,
        shape: PartialShape | None = None,
        **attributes: Any,
    ) -> Value:
        """Add a node of one output. ``type`` is needed where the schema does not tell it from the inputs.

        Attributes that are None are left out. Inputs of types that the operator (in onnxruntime: its kernels) does not
        have are converted to wider ones, and the output back.
        """
        return self.emit_many(op_type, *inputs, count=1, domain=domain, types=[type], shapes=[shape], **attributes)[0]

    def emit_many(
        self,
        op_type: str,
        *inputs: Value | None,
        count: int,
        domain: str = "",
        types: Sequence[ElementType | None] | None = None,
        shapes: Sequence[PartialShape | None] | None = None,
        **attributes: Any,
    ) -> list[Value]:
        """As :meth:`emit`, with ``count`` outputs."""
        if not domain and self.opset < FORMS:
            try:
                op_type, inputs, attributes = older_form(self, op_type, inputs, attributes, count)
            except Replaced as replaced_by:
                return [replaced_by.value]
        schema = schema_table.find(op_type, domain, self.opset)
        if schema is None and domain == "":
            schemas = schema_table.versions(op_type, domain)
            if not schemas:
                raise InternalError(f"ONNX has no operator {op_type}")
            self.opsets.require(schemas[0].since_version, f"the operator {op_type}")
            schema = schemas[0]
        if schema is not None and not schema.has_function:
            last = last_opset(op_type, domain, schema.since_version)
            if last is not None:
                self.opsets.at_most(last)
        bound, replaced = dict[str, ElementType](), dict[str, ElementType]()
        if schema is not None:
            bound = _bound(schema, inputs)
            has_body = any(isinstance(value, Graph) for value in attributes.values())
            replaced = self._other_types(schema, bound, _bound_outputs(schema, bound, types or ()), has_body)
            inputs = tuple(
                value and self.cast(value, replaced.get(schema.input(index).type_str, value.element_type))
                for index, value in enumerate(inputs)
            )
        values = {key: value for key, value in attributes.items() if value is not None}
        op, read = operator(op_type, domain, inputs, values, count)
        computed_types, requested_types = list[TensorType](), list[ElementType]()
        for index in range(count):
            declared_type = types[index] if types is not None else None
            shape = shapes[index] if shapes is not None else None
            variable = "" if schema is None else schema.output_type(index)
            requested = declared_type or bound.get(variable) or _literal(schema, variable)
            if requested is None:
                raise InternalError(f"the type of output {index} of {op_type} must be given")
            computed = replaced.get(variable, requested)
            computed_types.append(TensorType(computed, PartialShape.dynamic() if shape is None else shape))
            requested_types.append(requested)
        node = self.graph.add(op, read, computed_types, self.node.name, origin=self.node.origin)
        return [self.cast(result, requested) for result, requested in zip(node.outputs, requested_types)]

    def _other_types(
        self,
        schema: schema_table.Schema,
        bound: Mapping[str, ElementType],
        changed_types: Mapping[str, ElementType],
        has_body: bool,
    ) -> dict[str, ElementType]:
        """Types in place of those of the inputs that the operator does not have; empty where it has all.

        ``changed_types`` are types of outputs, which attributes decide and which stay. The inputs of an operator that
        ``has_body`` keep their types, which are those of the body's inputs.
        """

        def names_of(types: Mapping[str, ElementType]) -> dict[str, str]:
            return {variable: spelling(bound_type) or "" for variable, bound_type in {**types, **changed_types}.items()}

        def is_allowed(types: Mapping[str, ElementType], of: schema_table.Schema) -> bool:
            return all(name in of.allowed[variable] for variable, name in names_of(types).items())

        def is_known(types: Mapping[str, ElementType], of: schema_table.Schema) -> bool:
            has = has_body or has_kernel(of.name, of.domain, of.since_version, names_of(types))
            return has and is_allowed(types, of)

        if not bound or is_known(bound, schema):
            return {}
        for other in schema_table.versions(schema.name, schema.domain):
            since = other.since_version
            is_later = since > self.opset and other.allowed.keys() >= bound.keys()
            if is_later and is_known(bound, other) and self.at_least(since):
                return {}
        wider = [[held, *map(element_types.element_type, _WIDER.get(held.name, ()))] for held in bound.values()]
        for types in () if schema.name == "Cast" or has_body else itertools.product(*wider):
            chosen = dict(zip(bound, types))
            if is_known(chosen, schema):
                return {variable: held for variable, held in chosen.items() if held is not bound[variable]}
        operator = f"{schema.name} of opset {self.opset}"
        if not has_body and is_allowed(bound, schema):
            type_names = " and ".join(
                sorted({str(element_type) for element_type in (*bound.values(), *changed_types.values())})
            )
            raise UnsupportedModelError(
                f"onnxruntime has no kernel of {operator} for {type_names}, nor for wider types"
            )
        type_names = ", ".join(sorted({str(bound_type) for bound_type in bound.values()}))
        raise UnsupportedModelError(
            f"{operator} takes no {type_names}"
            if has_body
            else f"{operator} takes neither {type_names} nor wider types"
        )

    def constant(self, value: Any, element_type: ElementType | None = None) -> Value:
        """A constant of a number, nested lists of numbers or an array.

        Python's numbers become int64, booleans and float32 where there is no ``element_type``.
        """
        if isinstance(value, Tensor):
            return self.initializer(value)
        array = np.asarray(value)
        if element_type is not None:
            array = array.astype(element_type.dtype)
        elif not isinstance(value, (np.ndarray, np.generic)):
            dtypes = {"f": np.float32, "b": np.bool_} if array.size else {}
            array = array.astype(dtypes.get(array.dtype.kind, np.int64))
        return self.initializer(Tensor.from_array(array, element_type))

    def initializer(self, tensor: Tensor, name: str = "") -> Value:
        """A constant that holds the data of ``tensor``; equal ones are one."""
        return self._translation.initializer(self.graph, tensor, name)

    def cast(self, value: Value, element_type: ElementType) -> Value:
        """``value`` in another element type; itself where it has that type."""
        if value.element_type is element_type:
            return value
        if not onnx_number(element_type):
            self.fail(f"ONNX has no element type {element_type}")
        constant = None if is_computed(value) or value.type.tensor is None else value.type.constant
        if (
            constant is not None
            and constant.size <= _SMALL
            and value.element_type.is_integral
            and element_type.is_integral
        ):
            converted = constant.astype(element_type.dtype)
            if np.array_equal(converted.astype(constant.dtype), constant) and ((converted < 0) == (constant < 0)).all():
                return self.constant(converted, element_type)
        # The IR's conversion to 8 bits gives NaN beyond the greatest number.
        saturate = 0 if element_type in (element_types.f8e4m3, element_types.f8e5m2) else None
        # The IR's conversion to powers of two rounds to the nearest one; ONNX's default is up.
        round_mode = "nearest" if element_type is element_types.f8e8m0 and value.element_type.is_real else None
        return self.emit(
            "Cast",
            value,
            type=element_type,
            shape=value.shape,
            to=onnx_number(element_type),
            saturate=saturate,
            round_mode=round_mode,
        )

    def like(self, number: Any, value: Value) -> Value:
        """A constant of the element type of ``value``."""
        return self.constant(number, value.element_type)

    def constant_values(self, value: Value) -> Array | None:
        """The values of a constant."""
        return value.type.constant

    def value(self, output: Output) -> Value:
        """Return the ONNX value of a tensor of the IR in front of the layer, in the same graph."""
        return self._values[output]

    def dims(self, output: Output) -> list[Polynomial] | None:
        """The dimensions of a tensor of the IR, with one symbol for those that are equal; None without a rank."""
        return self._translation.shapes.dims(output)

    def elements(self, output: Output) -> list[Polynomial] | None:
        """The elements of a small integer tensor of the IR, as :meth:`dims`; None where they are not known."""
        elements = self._translation.shapes.elements(output)
        return None if elements is None else elements.reshape(-1).tolist()

    def is_never_zero(self, size: Polynomial) -> bool:
        """True if a dimension or an element cannot be 0."""
        return self._translation.shapes.is_never(size, 0)

    def is_never(self, output: Output, number: int) -> bool:
        """True if no element of a small integer tensor of the IR can be ``number``."""
        shapes = self._translation.shapes
        elements = shapes.elements(output)
        return elements is not None and all(
            shapes.is_never(element, number) for element in elements.reshape(-1).tolist()
        )

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of ``make``, called once for this graph and ``key``: values that many layers need."""
        return self._translation.once(self.graph, key, make)

    def inside(self, graph: Graph) -> Context:
        """The same layer with another graph to write into: a body."""
        return Context(self._translation, graph, self.node, self._values)

    def decompose(self) -> list[Value]:
        """Write the layers of the IR that the layer is decomposed into; what its outputs became.

        Raises the error of the layer where it cannot be decomposed.
        """
        return self._translation.decompose(self.node, self.graph, self._values)

    def translate(self, model: Model, inputs: Mapping[Node, Value]) -> Mapping[Output, Value]:
        """Write the layers of a body into this graph; what each of its tensors became.

        ``inputs`` gives the values of its parameters: those of the graphs around it can be read as they are.
        """
        return self._translation.translate(model, self.graph, inputs)


def _bound(schema: schema_table.Schema, inputs: Sequence[Value | None]) -> dict[str, ElementType]:
    """The element type of each type variable."""
    bound_types: dict[str, ElementType] = {}
    for index, value in enumerate(inputs):
        if value is not None and (variable := schema.input(index).type_str) in schema.allowed:
            bound_types.setdefault(variable, value.element_type)
    return bound_types


def _bound_outputs(
    schema: schema_table.Schema, bound: Mapping[str, ElementType], types: Sequence[ElementType | None]
) -> dict[str, ElementType]:
    """The element type of each type variable that the outputs alone have."""
    pairs = zip(schema.output_types, types)
    return {
        name: element_type
        for name, element_type in pairs
        if element_type is not None and name in schema.allowed and name not in bound
    }


def _literal(schema: schema_table.Schema | None, variable: str) -> ElementType | None:
    """Return the only type that an output can have."""
    allowed = () if schema is None else schema.types_of(variable)
    return of_spelling(allowed[0]) if len(allowed) == 1 else None
