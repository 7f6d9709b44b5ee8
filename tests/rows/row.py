"""The format of rows: a model of one operator or of a few, its inputs, and what they are to give.

    ROWS = [
        *rows("TopK", each(11, 24), x=X, k=const(each(0, 1, 3)), axis=each(-1, 0), outputs=2, expect=best),
        *rows("TopK", 11, x=X, k=const(7), outputs=2, refused="k is 7, but axis"),
        *graphs("g (float[2,3] x) => (float[p,q] y) { m = Neg (x)  y = Sub (x, m) }", x=X),
    ]

Arrays are inputs of the model, :func:`const` makes initializers, :func:`known_or_not` both, None leaves an input out, and
anything else is an attribute. :func:`each` stands for several values anywhere: there is a row for each combination;
``also`` takes dictionaries of arguments that vary together. Dimensions are those of the arrays, which runtimes open, or
``dims``: a name or None for an open one, None for an unknown rank.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.engines import node_model, run_onnxruntime


@dataclass(frozen=True)
class Tolerance:
    """How far values may be from the expected ones; 16-bit floats get at least theirs."""

    relative: float = 1e-4
    absolute: float = 1e-5
    is_coarse: bool = True
    """False where 16-bit floats get no more than others."""
    of_greatest: float = 0.0
    """Also absolute, as a share of the greatest expected value."""


F32 = Tolerance()
COARSE = Tolerance(1e-3, 1e-3)
"""For sums of many terms, and what the engines approximate by other formulas."""

REFERENCE = object()
"""As ``expect``: what onnx's evaluator computes of the row's model."""


@dataclass(frozen=True)
class InOpset:
    """As ``expect``: what onnxruntime computes of the operator in another opset, without attributes that it lacks."""

    opset: int


class Each:
    """Several values for one argument."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values


def each(*values: Any) -> Any:
    """Stand for each of these values."""
    return Each(values)


@dataclass(frozen=True)
class Const:
    """The value of an initializer."""

    value: Any

    @property
    def array(self) -> np.ndarray:
        return np.asarray(self.value)


def const(value: Any, dtype: Any = None) -> Any:
    """Return the value of an initializer; of each value where it is :func:`each`."""
    if isinstance(value, Each):
        return Each([const(item, dtype) for item in value.values])
    return Const(value if dtype is None else np.asarray(value, dtype))


def known_or_not(*values: Any, dtype: Any = None) -> Any:
    """Stand for each of these values as an initializer, and for each as an input."""
    arrays = [np.asarray(value, dtype) for value in values]
    return Each([*map(Const, arrays), *arrays])


@dataclass(frozen=True, eq=False)
class Row:
    """A row; :attr:`model`, :attr:`feeds` and :attr:`expected` are made when they are asked for."""

    name: str
    op_type: str
    opset: int
    arguments: Mapping[str, Any]
    outputs: int = 1
    domain: str = ""
    dims: Mapping[str, Sequence[Any] | None] | None = None
    """Declared dimensions of inputs that are not those of the arrays."""
    text: str = ""
    """The graph in the text form of onnx, where the row is not one operator."""
    expect: Any = None
    """Arrays, a function of the arguments by their names that returns them, REFERENCE, InOpset, or None for onnxruntime's.

    Elements that are masked (``np.ma``) are not defined.
    """
    refused: str = ""
    """A part of the error of a conversion that has to fail."""
    layers: Sequence[str] | None = None
    """Types with or without revisions (``AvgPool-14``) of the IR's layers for the CPU plug-in without inputs, outputs and
    constants, then those of its bodies."""
    tolerance: Tolerance = F32
    group: str = field(default="", compare=False)
    """The file and the label of the row: rows of a group are chosen together."""
    warns: str = ""
    """A part of the only warning of the conversion."""
    make: Callable[[], onnx.ModelProto] | None = None
    """Builds the model, where it is neither one operator nor text."""
    absent: str = ""
    """A type of layers that the IR without rules of a target does not have."""
    count: int | None = None
    """How many layers it has, as counted for ``layers``."""

    @functools.cached_property
    def feeds(self) -> dict[str, np.ndarray]:
        return {name: value for name, value in self.arguments.items() if isinstance(value, np.ndarray)}

    @property
    def constants(self) -> dict[str, np.ndarray]:
        return {name: value.array for name, value in self.arguments.items() if isinstance(value, Const)}

    @property
    def attributes(self) -> dict[str, Any]:
        is_input = (np.ndarray, Const, type(None))
        return {name: value for name, value in self.arguments.items() if not isinstance(value, is_input)}

    @functools.cached_property
    def model(self) -> onnx.ModelProto:
        if self.make is not None:
            return self.make()
        if self.text:
            imports = f'"" : {self.opset}' + (f', "{self.domain}" : 1' if self.domain else "")
            model = onnx.parser.parse_model(f"<ir_version: 10, opset_import: [{imports}]> {self.text}")
            stored = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
            model.graph.initializer.extend(stored)
            return model
        inputs = [name for name, value in self.arguments.items() if isinstance(value, (np.ndarray, Const, type(None)))]
        return node_model(
            self.op_type,
            self.feeds,
            opset=self.opset,
            outputs=self.outputs,
            attributes=self.attributes,
            constants=self.constants,
            order=["" if self.arguments[name] is None else name for name in inputs],
            shapes=self.dims,
            domain=self.domain,
        )

    @functools.cached_property
    def expected(self) -> list[np.ndarray]:
        """The expected outputs."""
        if self.expect is REFERENCE:
            return ReferenceEvaluator(self.model).run(None, self.feeds)
        if isinstance(self.expect, InOpset):
            known = onnx.defs.get_schema(self.op_type, self.expect.opset).attributes
            kept = {key: value for key, value in self.arguments.items() if key in known or key not in self.attributes}
            return replace(self, opset=self.expect.opset, arguments=kept).computed
        if not callable(self.expect):
            return self.computed if self.expect is None else _as_list(self.expect)
        values = {name: value.array if isinstance(value, Const) else value for name, value in self.arguments.items()}
        parameters = inspect.signature(self.expect).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            values = {name: value for name, value in values.items() if name in parameters}
        return _as_list(self.expect(**values))

    @property
    def computed(self) -> list[np.ndarray]:
        """What onnxruntime computes; in float32 of floats that it has no kernel for, else what onnx's evaluator does."""
        with suppress(Exception):  # onnxruntime's errors share no base class of their own
            return run_onnxruntime(self.model, self.feeds)
        wide = {name: _in_float32(value) for name, value in self.arguments.items()}
        if any(value is not wide[name] for name, value in self.arguments.items()):
            with suppress(Exception):
                row = replace(self, arguments=wide)
                return list(map(self._narrowed, itertools.count(), run_onnxruntime(row.model, row.feeds)))
        return ReferenceEvaluator(self.model).run(None, self.feeds)

    def _narrowed(self, index: int, value: np.ndarray) -> np.ndarray:
        """Return an output in its type: that of the inputs that the operator's schema gives the same name of a type."""
        arrays = {**self.feeds, **self.constants}
        if self.domain:  # whose schemas onnx does not have
            others = [array.dtype for array in arrays.values() if _in_float32(array) is not array]
            return value.astype(others[0]) if value.dtype == np.float32 else value
        schema = onnx.defs.get_schema(self.op_type, self.opset)
        inputs = [name for name in self.arguments if name not in self.attributes]
        types = {formal.type_str: arrays[name].dtype for formal, name in zip(schema.inputs, inputs) if name in arrays}
        return value.astype(types.get(schema.outputs[min(index, len(schema.outputs) - 1)].type_str, value.dtype))


def _in_float32(value: Any) -> Any:
    """Return an array, or an initializer, in float32 if it is of other floats."""
    if isinstance(value, Const):
        array = _in_float32(value.array)
        return value if array is value.array else Const(array)
    is_other = isinstance(value, np.ndarray) and value.dtype.name in ("float16", "bfloat16", "float64")
    return value.astype(np.float32) if is_other else value


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def rows(
    op_type: Any,
    opset: Any,
    *,
    label: str = "",
    outputs: int = 1,
    domain: str = "",
    expect: Any = None,
    refused: str = "",
    layers: Any = None,
    warns: str = "",
    dims: Any = None,
    tolerance: Tolerance = F32,
    **arguments: Any,
) -> Iterator[Row]:
    """Yield a row of one operator for each combination of values; ``label`` stands in their names."""
    choices = {"op_type": op_type, "opset": opset, "dims": dims, **arguments}
    for values, varied in combinations(choices):
        op, version, declared = values.pop("op_type"), values.pop("opset"), values.pop("dims")
        varied = {name: text for name, text in varied.items() if name not in ("op_type", "opset")}
        name = "-".join([op, str(version), *filter(None, [label]), *(f"{key}={text}" for key, text in varied.items())])
        looks = (declared, "", expect, refused, layers, tolerance, label or op, warns)
        yield Row(name, op, version, values, outputs, domain, *looks)


def graphs(
    text: Any,
    *,
    label: str,
    opset: Any = 17,
    domain: str = "",
    expect: Any = None,
    refused: str = "",
    layers: Any = None,
    warns: str = "",
    tolerance: Tolerance = F32,
    **arguments: Any,
) -> Iterator[Row]:
    """Yield a row of a graph in the text form of onnx for each combination of values."""
    for values, varied in combinations({"text": text, "opset": opset, **arguments}):
        written, version = values.pop("text"), values.pop("opset")
        name = "-".join([label, *(f"{key}={item}" for key, item in varied.items())])
        looks = (written, expect, refused, layers, tolerance, label, warns)
        yield Row(name, "", version, values, 0, domain, None, *looks)


def several(
    nodes: str, *, dims: Mapping[str, Any] | None = None, outputs: str = "y", **arguments: Any
) -> Iterator[Row]:
    """Yield the rows of nodes in the text form of onnx, whose inputs are the arrays, with their dimensions or ``dims``."""
    inputs = []
    for name, value in arguments.items():
        if isinstance(value, np.ndarray) and name != "expect":
            number = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            kind = {1: "float", 11: "double"}.get(number, onnx.TensorProto.DataType.Name(number).lower())
            shape = ", ".join(map(str, (dims or {}).get(name, value.shape)))
            inputs.append(f"{kind}{f'[{shape}]' if shape else ''} {name}")
    yield from graphs(f"g ({', '.join(inputs)}) => ({outputs}) {{ {nodes} }}", **arguments)


def normal_by(random: np.random.Generator, scale: float = 1.0) -> Callable[..., np.ndarray]:
    """Return the function that draws normally distributed numbers of a shape, a scale and a type."""

    def draw(*shape: int, scale: float = scale, dtype: Any = np.float32) -> np.ndarray:
        return np.asarray(random.standard_normal(shape) * scale, dtype)

    return draw


def by_onnxruntime(op_type: str, opset: int = 1, **arguments: Any) -> list[np.ndarray]:
    """Return what onnxruntime computes of one operator; the arguments are those of a row."""
    return next(rows(op_type, opset, **arguments)).computed


def defined(values: np.ndarray, lengths: Any, axis: int) -> np.ma.MaskedArray[Any, Any]:
    """Return the values without what stands behind the lengths of rows, which are one or one for each index of axis 0."""
    behind = np.arange(values.shape[axis]) >= np.reshape(lengths, (-1, 1))
    spread = behind.reshape([len(behind) if at == 0 else -1 if at == axis else 1 for at in range(values.ndim)])
    return np.ma.array(values, mask=np.broadcast_to(spread, values.shape))


def combinations(choices: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """Yield each combination of values, and the texts of those that vary."""
    varying = {name: value.values for name, value in choices.items() if isinstance(value, Each)}
    for indices in itertools.product(*(range(len(values)) for values in varying.values())):
        values, varied = dict(choices), {}
        for (name, options), index in zip(varying.items(), indices):
            values[name] = options[index]
            varied[name] = _text(options[index], index)
        together = values.pop("also", {})
        yield {**values, **together}, varied


def _text(value: Any, index: int) -> str:
    """Return a value in the name of a row, without brackets, which mean something in patterns; long ones by number."""
    value = value.value if isinstance(value, Const) else value
    if isinstance(value, np.ndarray) and value.size > 4:
        return f"{value.dtype}({','.join(map(str, value.shape))})"
    text = str(value.tolist() if isinstance(value, np.ndarray) else value)
    text = text.translate(str.maketrans("", "", "[]{}' "))
    return text if len(text) <= 40 else str(index)


def named(family: str, table: Sequence[Row]) -> list[Row]:
    """Return the rows of a family under names that occur once: ``family/operator-opset-...``."""
    counts = Counter[str]()
    result = []
    for row in table:
        counts[row.name] += 1
        number = f"~{counts[row.name]}" if counts[row.name] > 1 else ""
        result.append(replace(row, name=f"{family}/{row.name}{number}", group=f"{family}/{row.group}"))
    return result
