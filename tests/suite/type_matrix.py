"""For every operator of ONNX's default domain a model for each type that its schema allows.

A row is (operator, type parameter, type). Its model comes from a seed, a case of ONNX's node suite
that holds nothing but that operator (or one of :mod:`tests.suite.type_seeds`, where there is none),
with everything of that type parameter turned into that type: the values of the inputs and the
attribute that decides the output's type.

Not rows, by rule:

- types that the IR does not have: complex numbers, the fnuz kinds of float8, float6, int2;
- sequences and optionals where a type parameter takes tensors, too: the IR carries nothing but tensors.
  Where it takes nothing else, the rows are the types of the elements, and the model makes the
  sequence from tensors and takes a tensor out of it;
- versions of an operator that newer ones have replaced, unless another translator is in charge of them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, checker, defs, helper, numpy_helper, shape_inference

import converter
from converter.from_onnx.translation.registry import find_translator
from converter.onnx_file.types import element_type_of, onnx_number
from ir_runtime.graph import Array, ElementType, element_types
from ir_runtime.graph.element_types import from_dtype
from tests.engines import ENGINES
from tests.suite.node_suite import node_cases
from tests.suite.type_seeds import Seed, Value, around, fitted, number_of, retyped

IR_VERSION = 13
"""The newest that onnxruntime reads."""
ONNX_NUMBERS = {name.lower(): number for name, number in TensorProto.DataType.items()}
"""A type as ONNX's schemas spell it -> its number."""
TYPE_ATTRIBUTES = ("to", "dtype", "output_datatype", "output_dtype", "stash_type")
"""Attributes that choose the type of an output."""
KNOWN_INPUTS = ("position", "split", "axis", "tiles")
"""Inputs that decide how many tensors or which dimensions there are, which the IR has to know."""
NEVER_ZERO = {("Div", 1), ("Mod", 1)}
"""Inputs in which a zero has no meaning for integers."""
_SWITCHES = ("broadcast", "is_test")
"""Attributes that old versions need for what newer ones always do."""
_BETWEEN = ("linear", "cubic", "bilinear", "bicubic")
"""Modes that make values between those of the elements."""
_ALL_PAIRS = ("Cast",)
"""Operators whose two types have nothing to do with each other."""
_NOT_INFERRED = ("MeanVarianceNormalization",)
"""Operators that ONNX's inference fails for in every type."""


@dataclass(frozen=True)
class Row:
    """``operator`` in ``version`` with ``parameters`` (one, or all that allow it) of the type ``kind``."""

    operator: str
    version: int
    parameters: tuple[str, ...]
    kinds: tuple[ElementType, ...]

    def __str__(self) -> str:
        chosen = "-".join(f"{name}={kind}" for name, kind in zip(self.parameters, self.kinds))
        return f"{self.operator}-{self.version}-{chosen or 'as_it_is'}"

    @property
    def schema(self) -> defs.OpSchema:
        return defs.get_schema(self.operator, self.version)

    @property
    def engines(self) -> tuple[str, ...]:
        """Those that the row runs in.

        OpenVINO's CPU plug-in copies the bytes of texts that are objects with pointers, and frees them
        twice: with most operations on strings the process ends, so strings run in NumPy alone.
        """
        return ("numpy",) if element_types.string in self.kinds else ENGINES

    @property
    def types(self) -> dict[str, ElementType]:
        return dict(zip(self.parameters, self.kinds))


@dataclass(frozen=True)
class Sample:
    """A row's model with inputs, and the outputs that the node suite has for them where nothing was retyped."""

    row: Row
    seed: Seed
    model: onnx.ModelProto
    feeds: dict[str, Any]
    stored: Sequence[Any] | None = None


# --- which rows there are ---


@cache
def history() -> dict[str, list[defs.OpSchema]]:
    """Each operator's schemas, oldest first, without those that only withdraw it."""
    found: dict[str, list[defs.OpSchema]] = {}
    for schema in sorted(defs.get_all_schemas_with_history(), key=lambda s: (s.name, s.since_version)):
        if schema.domain == "" and not schema.deprecated:
            found.setdefault(schema.name, []).append(schema)
    return found


def allowed_types(schema: defs.OpSchema, parameter: str) -> list[ElementType]:
    """The types that a type parameter may be, as far as the IR has them.

    Those of tensors; where it takes none, those of the elements of its sequences and optionals.
    """
    spelled = next((c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == parameter), [])
    names = [text[7:-1] for text in spelled if text.startswith("tensor(")]
    found = set()
    for name in names or [re.sub(r".*tensor\((\w+)\).*", r"\1", text) for text in spelled]:
        with contextlib.suppress(converter.ConversionError):
            found.add(element_type_of(ONNX_NUMBERS[name]))
    return sorted(found, key=element_types.ALL.index)


def _rows_of(schema: defs.OpSchema) -> Iterator[Row]:
    used = {formal.type_str for formal in (*schema.inputs, *schema.outputs)}
    constraints = [c.type_param_str for c in schema.type_constraints if c.type_param_str in used]
    allowed = {parameter: allowed_types(schema, parameter) for parameter in constraints}
    name, version = schema.name, schema.since_version
    if not allowed:
        yield Row(name, version, (), ())
    for parameter, kinds in allowed.items():
        yield from (Row(name, version, (parameter,), (kind,)) for kind in kinds)
    if name in _ALL_PAIRS:
        first, second = allowed
        for source in allowed[first] if schema is history()[name][-1] else ():
            yield from (Row(name, version, (first, second), (source, target)) for target in allowed[second])
        return
    # What models have most: everything in the same type.
    for kind in element_types.ALL:
        together = tuple(p for p, kinds in allowed.items() if kind in kinds and len(kinds) > 1)
        if len(together) > 1:
            yield Row(name, version, together, (kind,) * len(together))


def rows() -> list[Row]:
    """Every operator's newest version, and of the older ones the newest of each other registration."""
    found: list[Row] = []
    for name, schemas in history().items():
        seen = set()
        for schema in reversed(schemas):
            chosen = find_translator(name, "", schema.since_version)
            # Versions that share a function have rows of their own where they lack some of its parameters.
            meaning = chosen if isinstance(chosen, str) else (chosen[0].function, chosen[0].without)
            if meaning not in seen:
                seen.add(meaning)
                found += _rows_of(schema)
    return found


# --- seeds ---


@cache
def _suite_seeds() -> dict[str, list[Seed]]:
    found: dict[str, list[Seed]] = {}
    for case in node_cases():
        graph = case.model.graph
        if len(graph.node) == 1 and not graph.node[0].domain and case.data_sets:
            inputs, outputs = case.data_sets[0]
            given = {"": None, **dict(zip((value.name for value in graph.input), map(_value, inputs)))}
            seed = Seed(case.name, graph.node[0], tuple(map(given.get, graph.node[0].input)), stored=tuple(outputs))
            if all(map(_is_of_the_ir, seed.values)):
                found.setdefault(graph.node[0].op_type, []).append(seed)
    return found


def _is_of_the_ir(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(map(_is_of_the_ir, value))
    known = {kind.dtype for kind in element_types.ALL}
    return value is None or (isinstance(value, np.ndarray) and (value.dtype in known or value.dtype.kind in "UO"))


def _value(value: Any) -> Any:
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list):
        return [np.asarray(item) for item in value]
    return np.asarray(value) if isinstance(value, np.generic) else value


# --- the model ---


def sample(row: Row) -> Sample | None:
    """The first of the operator's seeds that can be turned into a valid model of the row.

    Valid is what ONNX's checker and its inference agree to.
    """
    if any(kind not in allowed_types(row.schema, parameter) for parameter, kind in row.types.items()):
        return None
    seeds = around(row.operator, _suite_seeds().get(row.operator, []))
    attempts = (_sample(row, seed, chosen) for chosen in (row, *_together(row)) for seed in seeds)
    return next(filter(None, attempts), None)


def _together(row: Row) -> Iterator[Row]:
    """The row with every parameter of that type, for operators whose types go together."""
    for kind in row.kinds[:1] if len(row.kinds) == 1 else ():
        names = tuple(c.type_param_str for c in row.schema.type_constraints if len(c.allowed_type_strs) > 1)
        names = tuple(name for name in names if kind in allowed_types(row.schema, name))
        if len(names) > 1:
            yield replace(row, parameters=names, kinds=(kind,) * len(names))


def _has_meaning(row: Row, seed: Seed) -> bool:
    """Whether ONNX defines the result of the seed's operation in the row's types."""
    kinds = set(row.kinds)
    if row.operator in ("Cast", "CastLike") and any(kind.is_packed and kind.is_integral for kind in kinds):
        # The result for fractions is not defined: the reference truncates, onnxruntime rounds.
        values = seed.values[0]
        return isinstance(values, np.ndarray) and bool((values == np.rint(values)).all())
    if row.operator not in ("GridSample", "Resize", "Upsample"):
        return True
    default = "linear" if row.operator == "GridSample" else "nearest"
    mode = next((a.s.decode() for a in seed.node.attribute if a.name == "mode"), default)
    discrete = row.operator == "GridSample" and any(not kind.is_real for kind in kinds)
    return mode not in _BETWEEN or not (discrete or kinds & {element_types.boolean, element_types.string})


def _sample(wanted: Row, original: Seed, row: Row) -> Sample | None:
    seed = _in_version(original, row) if _has_meaning(row, original) else None
    if seed is None:
        return None
    schema, types = row.schema, row.types
    bound, values = set[str](), list[Value]()
    for index, value in enumerate(seed.values):
        formal = _formal(schema.inputs, index) if schema.inputs else None
        if value is None or formal is None or formal.type_str not in types:
            values.append(value)
            continue
        kind = types[formal.type_str]
        bound.add(formal.type_str)
        changed = retyped(value, kind)
        if "zero_point" in formal.name and kind.is_real:
            changed = np.zeros_like(changed)  # floats have no other
        if (row.operator, index) in NEVER_ZERO and kind.is_integral:
            changed = np.asarray(np.where(changed == 0, changed.dtype.type(1), changed))  # type: ignore[union-attr]
        values.append(changed)
    _set_type_attributes(seed.node, schema, types, bound)
    if seed.graphs is not None:
        graphs = seed.graphs([number_of(value) for value in values], types)
        seed.node.attribute.extend(helper.make_attribute(name, graph) for name, graph in graphs.items())
    try:
        model, feeds = _model(seed, values, row)
    except (checker.ValidationError, shape_inference.InferenceError):
        return None
    if not (row.operator in _NOT_INFERRED or _is_of_the_row(model, wanted)):
        return None
    if any(not value.type.tensor_type.elem_type for value in model.graph.output):
        return None
    is_same = all(value is before for value, before in zip(values, seed.values))
    is_same &= not any(attribute.name in TYPE_ATTRIBUTES for attribute in seed.node.attribute)
    return Sample(wanted, replace(seed, values=tuple(values)), model, feeds, seed.stored if is_same else None)


def _in_version(seed: Seed, row: Row) -> Seed | None:
    """The seed for the row's version, in which some of its inputs may be attributes; None where it has no place."""
    schema, newest = row.schema, history()[row.operator][-1]
    given = {a.name for a in seed.node.attribute}
    if given - set(schema.attributes):
        return None
    node = onnx.NodeProto()
    node.CopyFrom(seed.node)
    switches = [name for name in _SWITCHES if name in schema.attributes and name not in given]
    node.attribute.extend(helper.make_attribute(name, 1) for name in switches)
    count = len(schema.inputs)
    if schema.since_version == newest.since_version or len(seed.values) <= _most_inputs(schema, newest):
        return replace(seed, node=node)
    for index, value in enumerate(seed.values[count:], count):
        if value is None:
            continue
        name = _formal(newest.inputs, index).name
        if name not in schema.attributes or not isinstance(value, np.ndarray):
            return None
        node.attribute.append(helper.make_attribute(name, value.tolist()))
    del node.input[count:]
    return replace(seed, node=node, values=seed.values[:count])


def _most_inputs(schema: defs.OpSchema, newest: defs.OpSchema) -> int:
    """How many leading inputs mean in this version what they mean in the newest."""
    if schema.max_input > len(schema.inputs):
        return schema.max_input
    names = [formal.name for formal in newest.inputs]
    others = (a.name.lower() != b.lower() and b in schema.attributes for a, b in zip(schema.inputs, names))
    return next((index for index, is_other in enumerate(others) if is_other), min(len(schema.inputs), len(names)))


def _set_type_attributes(
    node: onnx.NodeProto, schema: defs.OpSchema, types: Mapping[str, ElementType], bound: set[str]
) -> None:
    """Set the attribute that decides the output's type, where there is one."""
    given = {a.name: a for a in node.attribute}
    outputs = {_formal(schema.outputs, index).type_str for index in range(len(node.output))}
    for parameter, kind in types.items():
        if parameter not in outputs:
            continue
        number, is_free = onnx_number(kind), parameter not in bound
        made: dict[str, Any] = {}
        for name in TYPE_ATTRIBUTES:
            if name in given or (name in schema.attributes and is_free):
                is_text = schema.attributes[name].type == defs.OpSchema.AttrType.STRING
                made[name] = TensorProto.DataType.Name(number) if is_text else number
        if "value" in schema.attributes and is_free:
            value = numpy_helper.to_array(given["value"].t) if "value" in given else np.array([3], np.float32)
            made["value"] = numpy_helper.from_array(fitted(value, kind))
        for name, value in made.items():
            if name in given:
                node.attribute.remove(given[name])
            node.attribute.append(helper.make_attribute(name, value))


def _model(seed: Seed, values: Sequence[Value], row: Row) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A valid model of the seed's node, sequences made from tensors before it and taken apart after it.

    Inputs whose type is no parameter of the operator, such as axes, are initializers, as in most models,
    and so are :data:`KNOWN_INPUTS`. Raises the errors of ONNX's checker and its inference.
    """
    allowed = {c.type_param_str: c.allowed_type_strs for c in row.schema.type_constraints}
    graph = onnx.GraphProto(name="types")
    feeds: dict[str, Any] = {}
    main = onnx.NodeProto()
    main.CopyFrom(seed.node)
    main.name, main.input[:] = "node", [name and f"x{index}" for index, name in enumerate(main.input)]

    def tensor(name: str, array: Array, is_known: bool = False) -> str:
        if is_known:
            graph.initializer.append(numpy_helper.from_array(array, name))
        else:
            feeds[name] = array
            kind = onnx_number(from_dtype(array.dtype))
            graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
        return name

    for index, value in enumerate(values):
        name = f"x{index}"
        if isinstance(value, list):
            items = [tensor(f"{name}_{number}", item) for number, item in enumerate(value)]
            graph.node.append(helper.make_node("SequenceConstruct", items, [name]))
        elif value is not None:
            formal = _formal(row.schema.inputs, index)
            spelled = allowed.get(formal.type_str, [])
            is_wrapped = bool(spelled) and not any(text.startswith("tensor(") for text in spelled)
            tensor(f"{name}_0" if is_wrapped else name, value, not spelled or formal.name in KNOWN_INPUTS)
            if is_wrapped:
                graph.node.append(helper.make_node("Optional", [f"{name}_0"], [name]))
    graph.node.append(main)
    names = [name for name in main.output if name]
    if seed.appended is not None:
        appended = tensor("appended", fitted(seed.appended, row.kinds[0]))
        graph.node.append(helper.make_node("SequenceInsert", [names[0], appended], ["longer"]))
        names = ["longer"]
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", row.version)], ir_version=IR_VERSION)
    _add_outputs(model, names, row)
    for value, shape in zip(model.graph.output, _output_shapes(seed)):
        # Old versions and values known at run time have no inferred shape, without which no model is valid.
        if not value.type.tensor_type.HasField("shape"):
            value.CopyFrom(helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, shape))
    checker.check_model(model, full_check=row.operator not in _NOT_INFERRED)
    return model, feeds


def _output_shapes(seed: Seed) -> Sequence[Sequence[int]]:
    if seed.shapes is not None or seed.stored is None or any(isinstance(value, list) for value in seed.stored):
        return seed.shapes or ()
    return [value.dims if isinstance(value, TensorProto) else np.shape(value) for value in seed.stored]


def _inferred(model: onnx.ModelProto, row: Row) -> onnx.GraphProto:
    is_strict = row.operator not in _NOT_INFERRED
    return shape_inference.infer_shapes(model, check_type=is_strict, strict_mode=is_strict, data_prop=True).graph


def _add_outputs(model: onnx.ModelProto, names: list[str], row: Row) -> None:
    """Declare outputs as inference has them; of a sequence its length and first element, of an optional its element."""
    graph = model.graph
    del graph.output[:]
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    found = {value.name: value for value in _inferred(model, row).output}
    following = []
    for name in names:
        kind = found[name].type.WhichOneof("value")
        if kind == "sequence_type":
            first = helper.make_tensor(f"{name}_0", TensorProto.INT64, [], [0])
            graph.node.append(helper.make_node("Constant", [], [f"{name}_at"], value=first))
            graph.node.append(helper.make_node("SequenceAt", [name, f"{name}_at"], [f"{name}_first"]))
            graph.node.append(helper.make_node("SequenceLength", [name], [f"{name}_length"]))
            following += [f"{name}_first", f"{name}_length"]
        elif kind == "optional_type":
            graph.node.append(helper.make_node("OptionalGetElement", [name], [f"{name}_element"]))
            following.append(f"{name}_element")
        else:
            following.append(name)
    if following != names:
        _add_outputs(model, following, row)
    for value in graph.output if following == names else ():
        value.CopyFrom(found[value.name])
        if not value.type.tensor_type.elem_type:
            value.type.tensor_type.elem_type = _declared_type(graph, row, value.name)


def _formal(formals: Sequence[defs.OpSchema.FormalParameter], index: int) -> defs.OpSchema.FormalParameter:
    """The formal parameter that input or output ``index`` belongs to."""
    return formals[min(index, len(formals) - 1)]


def _declared_type(graph: onnx.GraphProto, row: Row, name: str) -> int:
    """The type by the schema of an output that inference gives none."""
    node = next(node for node in graph.node if name in node.output)
    spelled = _formal(defs.get_schema(node.op_type, row.version).outputs, list(node.output).index(name)).type_str
    if spelled in row.types:
        return onnx_number(row.types[spelled])
    for attribute in node.attribute:
        if attribute.name == "to":
            return attribute.i or ONNX_NUMBERS[attribute.s.decode().lower()]
    return ONNX_NUMBERS.get(spelled.removeprefix("tensor(").removesuffix(")"), 0)


def _is_of_the_row(model: onnx.ModelProto, row: Row) -> bool:
    """Whether every type parameter of the row is there and has its type; the values may decide it otherwise."""
    node = next(node for node in model.graph.node if node.name == "node")
    inferred = _inferred(model, row)
    types = {v.name: v.type for v in (*inferred.input, *inferred.output, *inferred.value_info)}
    types |= {t.name: helper.make_tensor_type_proto(t.data_type, t.dims) for t in model.graph.initializer}
    sides = ((row.schema.inputs, node.input), (row.schema.outputs, node.output))
    found = {
        (_formal(formals, index).type_str, _element_of(types[name]))
        for formals, names in sides
        for index, name in enumerate(names)
        if name and _formal(formals, index).type_str in row.types
    }
    return found == {(parameter, onnx_number(kind)) for parameter, kind in row.types.items()}


def _element_of(kind: onnx.TypeProto) -> int:
    while (which := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
        kind = getattr(kind, which).elem_type
    return kind.tensor_type.elem_type
