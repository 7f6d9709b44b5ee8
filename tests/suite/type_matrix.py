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
from ir_runtime.graph import element_types
from ir_runtime.graph.element_types import ElementType
from tests.engines import ENGINES
from tests.suite.node_suite import node_cases
from tests.suite.type_models import ONNX_NUMBERS, build, formal_of
from tests.suite.type_seeds import Seed, further, written
from tests.suite.type_values import fitted, number_of, retyped

TYPE_ATTRIBUTES = ("to", "dtype", "output_datatype", "output_dtype", "stash_type")
"""Attributes that choose the type of an output."""

_SWITCHES = ("broadcast", "is_test")
"""Attributes that old versions need for what newer ones always do."""

_BETWEEN = ("linear", "cubic", "bilinear", "bicubic")
"""Modes that make values between those of the elements."""

NEVER_ZERO = {("Div", 1), ("Mod", 1)}
"""Inputs in which a zero has no meaning for integers."""


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
def _history() -> dict[str, list[defs.OpSchema]]:
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
    names = [text.removeprefix("tensor(").removesuffix(")") for text in spelled if text.startswith("tensor(")]
    if not names:
        names = [re.sub(r".*tensor\((\w+)\).*", r"\1", text) for text in spelled]
    found = []
    for name in dict.fromkeys(names):
        try:
            found.append(element_type_of(ONNX_NUMBERS[name]))
        except converter.ConversionError:
            continue
    return sorted(found, key=element_types.ALL.index)


def _rows_of(schema: defs.OpSchema) -> Iterator[Row]:
    used = {formal.type_str for formal in (*schema.inputs, *schema.outputs)}
    constraints = [c.type_param_str for c in schema.type_constraints if c.type_param_str in used]
    allowed = {parameter: allowed_types(schema, parameter) for parameter in constraints}
    name, version = schema.name, schema.since_version
    if not allowed:
        yield Row(name, version, (), ())
    for parameter, kinds in allowed.items():
        for kind in kinds:
            yield Row(name, version, (parameter,), (kind,))
    # What models have most: everything in the same type.
    for kind in element_types.ALL:
        together = tuple(p for p, kinds in allowed.items() if kind in kinds and len(kinds) > 1)
        if len(together) > 1 and name not in _ALL_PAIRS:
            yield Row(name, version, together, (kind,) * len(together))
    if name in _ALL_PAIRS:
        first, second = allowed
        for source in allowed[first] if schema is _history()[name][-1] else ():
            for target in allowed[second]:
                yield Row(name, version, (first, second), (source, target))


_ALL_PAIRS = ("Cast",)
"""Operators whose two types have nothing to do with each other."""


def rows() -> list[Row]:
    """Every operator's newest version, and of the older ones the newest of each other registration."""
    found: list[Row] = []
    for name, schemas in _history().items():
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
        if len(graph.node) != 1 or graph.node[0].domain or not case.data_sets:
            continue
        inputs, outputs = case.data_sets[0]
        given = dict(zip((value.name for value in graph.input), inputs))
        node = graph.node[0]
        values = tuple(_value(given[name]) if name else None for name in node.input)
        if all(_is_of_the_ir(value) for value in values):
            seed = Seed(case.name, node, values, stored=tuple(outputs))
            found.setdefault(node.op_type, []).append(seed)
    return found


def _is_of_the_ir(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, list):
        return bool(value) and all(_is_of_the_ir(item) for item in value)
    known = {kind.dtype for kind in element_types.ALL}
    return isinstance(value, np.ndarray) and (value.dtype in known or value.dtype.kind in "UO")


def _value(value: Any) -> Any:
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list):
        return [np.asarray(item) for item in value]
    return np.asarray(value) if isinstance(value, np.generic) else value


def seeds(operator: str) -> list[Seed]:
    """The operator's seeds, the most suitable ones first."""
    return [*written(operator), *_suite_seeds().get(operator, []), *further(operator)]


# --- the model ---


def sample(row: Row) -> Sample | None:
    """The first of the operator's seeds that can be turned into a valid model of the row.

    Valid is what ONNX's checker and its inference agree to; the checker alone, where inference fails
    in every type.
    """
    if any(kind not in allowed_types(row.schema, parameter) for parameter, kind in row.types.items()):
        return None
    attempts = [(row, True), *((together, True) for together in _together(row)), (row, False)]
    for chosen, inferred in attempts:
        for seed in seeds(row.operator):
            if not _has_meaning(chosen, seed):
                continue
            found = _sample(row, seed, chosen, inferred)
            if found is not None:
                return found
    return None


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


def _together(row: Row) -> Iterator[Row]:
    """The row with every parameter of that type, for operators whose types go together."""
    if len(row.parameters) == 1:
        kind = row.kinds[0]
        others = tuple(
            c.type_param_str
            for c in row.schema.type_constraints
            if kind in allowed_types(row.schema, c.type_param_str) and len(c.allowed_type_strs) > 1
        )
        if len(others) > 1:
            yield replace(row, parameters=others, kinds=(kind,) * len(others))


def _sample(wanted: Row, seed: Seed, row: Row, inferred: bool) -> Sample | None:
    adapted = _in_version(seed, row)
    if adapted is None:
        return None
    seed = adapted
    schema = row.schema
    bound = dict.fromkeys(row.parameters, False)
    values, changed = list(seed.values), False
    for index, value in enumerate(seed.values):
        parameter = formal_of(schema.inputs, index).type_str if schema.inputs else ""
        if value is None or parameter not in row.types:
            continue
        bound[parameter] = True
        values[index] = retyped(value, row.types[parameter])
        changed |= values[index] is not value
        if "zero_point" in formal_of(schema.inputs, index).name and row.types[parameter].is_real:
            # Floats have no other.
            values[index] = np.zeros_like(values[index])
        if (row.operator, index) in NEVER_ZERO and row.types[parameter].is_integral:
            values[index] = np.asarray(np.where(values[index] == 0, values[index].dtype.type(1), values[index]))
    node = onnx.NodeProto()
    node.CopyFrom(seed.node)
    _set_type_attributes(node, schema, row, bound)
    if seed.graphs is not None:
        kinds = [number_of(value) for value in values]
        node.attribute.extend(helper.make_attribute(name, g) for name, g in seed.graphs(kinds, row.types).items())
    try:
        model, feeds = build(
            node,
            values,
            row.version,
            row.types,
            appended=_appended(seed, row),
            shapes=_output_shapes(seed),
            inferred=inferred,
        )
    except (checker.ValidationError, shape_inference.InferenceError):
        return None
    if inferred and not _is_of_the_row(model, wanted):
        return None
    if any(not value.type.tensor_type.elem_type for value in model.graph.output):
        return None
    same = not changed and not any(a.name in TYPE_ATTRIBUTES for a in node.attribute)
    return Sample(wanted, replace(seed, values=tuple(values)), model, feeds, seed.stored if same else None)


def _output_shapes(seed: Seed) -> Sequence[Sequence[int]]:
    if seed.shapes is not None or seed.stored is None:
        return seed.shapes or ()
    shapes = []
    for value in seed.stored:
        if isinstance(value, list):
            return ()
        shapes.append(tuple(value.dims) if isinstance(value, TensorProto) else np.shape(value))
    return shapes


def _appended(seed: Seed, row: Row) -> np.ndarray | None:
    """What to insert into the sequence that comes out."""
    return None if seed.appended is None else fitted(seed.appended, row.kinds[0])


def _in_version(seed: Seed, row: Row) -> Seed | None:
    """The seed for the row's version, in which some of its inputs may be attributes; None where it has no place."""
    schema, newest = row.schema, _history()[row.operator][-1]
    if any(a.name not in schema.attributes for a in seed.node.attribute):
        return None
    node = onnx.NodeProto()
    node.CopyFrom(seed.node)
    given = {a.name for a in node.attribute}
    for name in _SWITCHES:
        if name in schema.attributes and name not in given:
            node.attribute.append(helper.make_attribute(name, 1))
    if schema.since_version == newest.since_version or len(seed.values) <= _most_inputs(schema, newest):
        return replace(seed, node=node)
    for index in range(len(schema.inputs), len(seed.values)):
        name, value = formal_of(newest.inputs, index).name, seed.values[index]
        if value is None:
            continue
        if name not in schema.attributes or not isinstance(value, np.ndarray):
            return None
        node.attribute.append(helper.make_attribute(name, value.tolist()))
    del node.input[len(schema.inputs) :]
    return replace(seed, node=node, values=seed.values[: len(schema.inputs)])


def _most_inputs(schema: defs.OpSchema, newest: defs.OpSchema) -> int:
    """How many leading inputs mean in this version what they mean in the newest."""
    if schema.max_input > len(schema.inputs):
        return schema.max_input
    names = [formal.name for formal in newest.inputs]
    same = 0
    for formal, name in zip(schema.inputs, names):
        if formal.name.lower() != name.lower() and name in schema.attributes:
            break
        same += 1
    return same


def _set_type_attributes(node: onnx.NodeProto, schema: defs.OpSchema, row: Row, bound: Mapping[str, bool]) -> None:
    """Set the attribute that decides the output's type, where there is one."""
    given = {a.name: a for a in node.attribute}
    texts = {name for name, a in schema.attributes.items() if a.type == defs.OpSchema.AttrType.STRING}
    outputs = {formal_of(schema.outputs, index).type_str for index in range(len(node.output))}
    for parameter, kind in row.types.items():
        if parameter not in outputs:
            continue
        for name in TYPE_ATTRIBUTES:
            if name in given or (name in schema.attributes and not bound[parameter]):
                if name in given:
                    node.attribute.remove(given[name])
                number = onnx_number(kind)
                value = TensorProto.DataType.Name(number) if name in texts else number
                node.attribute.append(helper.make_attribute(name, value))
        if "value" in schema.attributes and not bound[parameter]:
            value = numpy_helper.to_array(given["value"].t) if "value" in given else np.array([3], np.float32)
            if "value" in given:
                node.attribute.remove(given["value"])
            tensor = numpy_helper.from_array(fitted(value, kind))
            node.attribute.append(helper.make_attribute("value", tensor))


def _is_of_the_row(model: onnx.ModelProto, row: Row) -> bool:
    """Whether every type parameter of the row is there and has its type; the values may decide it otherwise."""
    schema = row.schema
    node = next(n for n in model.graph.node if n.name == "node")
    inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True).graph
    types = {v.name: v.type for v in (*inferred.input, *inferred.output, *inferred.value_info)}
    types |= {t.name: helper.make_tensor_type_proto(t.data_type, t.dims) for t in (*model.graph.initializer,)}
    seen = set()
    for formals, names in ((schema.inputs, node.input), (schema.outputs, node.output)):
        for index, name in enumerate(names):
            parameter = formal_of(formals, index).type_str
            if name and parameter in row.types:
                if _element_of(types[name]) != onnx_number(row.types[parameter]):
                    return False
                seen.add(parameter)
    return seen == set(row.parameters)


def _element_of(kind: onnx.TypeProto) -> int:
    while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
        which = kind.WhichOneof("value")
        kind = getattr(kind, which).elem_type
    return kind.tensor_type.elem_type
