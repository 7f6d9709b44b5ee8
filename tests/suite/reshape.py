"""Models converted as their files state them, then given other dimensions: against onnxruntime on the opened file.

A case changes one dimension of one input, or one dimension everywhere it occurs, of a model whose shapes are
all declared. Cases that onnxruntime itself cannot run with its shapes opened are none. Data of the new
shapes repeat the stored ones, so that indices stay in their ranges.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import openvino
from onnx.reference import ReferenceEvaluator

import converter
import ir_runtime
from tests.engines import ENGINES, assert_close, check_node, core, output_names, run_compiled, run_onnxruntime
from tests.runtimes.batches import Run, run_together
from tests.suite.node_suite import Case, as_array, difference, input_names

Shapes = dict[str, list[int]]


@dataclass(frozen=True)
class Reshaping:
    """New shapes of a model's inputs, with data of these shapes and what onnxruntime makes of them."""

    label: str
    shapes: Shapes
    feeds: dict[str, Any]
    expected: list[Any]
    names: list[str] | None = None
    """Those of the outputs that ``expected`` holds."""


def opened(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without any declared dimension."""
    made = copy.deepcopy(model)
    del made.graph.value_info[:]
    for value in [*made.graph.input, *made.graph.output]:
        if value.type.HasField("tensor_type"):
            for dim in value.type.tensor_type.shape.dim:
                dim.Clear()
    for value in made.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return made


def feeds_of(case: Case) -> dict[str, Any]:
    """The first stored data set by input name; empty where an input is no tensor of numbers."""
    names = input_names(case.model)
    if not case.data_sets:
        return {}
    arrays = [as_array(value) for value in case.data_sets[0][0] if value is not None]
    if len(arrays) != len(names) or not all(isinstance(a, np.ndarray) and a.dtype.kind in "iufb" for a in arrays):
        return {}
    return dict(zip(names, arrays))


def reshapings(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> Iterator[Reshaping]:
    """Every case of a model: each dimension changed alone, and each together with all that are equal to it."""
    free = opened(model)
    seen: set[tuple[tuple[str, tuple[int, ...]], ...]] = set()
    places = [(name, axis, dimension) for name, array in feeds.items() for axis, dimension in enumerate(array.shape)]
    for name, axis, dimension in places:
        alone = [(name, axis)]
        together = [(other, at) for other, index, size in places if size == dimension for at in (index,)]
        for chosen in (alone, together):
            for wanted in dict.fromkeys((dimension + 1, 2 * dimension, dimension + 2)):
                shapes = {key: list(array.shape) for key, array in feeds.items()}
                for key, at in chosen:
                    shapes[key][at] = wanted
                label = tuple((key, tuple(shape)) for key, shape in shapes.items())
                if label in seen or wanted == dimension:
                    continue
                seen.add(label)
                data = {key: np.resize(array, shapes[key]) for key, array in feeds.items()}
                try:
                    expected = run_onnxruntime(free, data)
                except Exception:
                    continue
                yield Reshaping(
                    ", ".join(f"{k}{list(s)}" for k, s in label), shapes, data, expected, output_names(model)
                )
                break


def confirmed(model: onnx.ModelProto, case: Reshaping) -> bool:
    """Whether the specification knows the case, too: ONNX's shape inference and its reference evaluator agree.

    onnxruntime alone also runs what contradicts the specification, such as labels of another batch than
    the scores, or axes named twice.
    """
    dynamic = opened(model)
    for value in dynamic.graph.input:
        for dim, dimension in zip(value.type.tensor_type.shape.dim, case.shapes.get(value.name, [])):
            dim.dim_value = dimension
    try:
        onnx.shape_inference.infer_shapes(dynamic, strict_mode=True)
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(dynamic).run(None, dict(case.feeds))
        return len(found) == len(case.expected) and not any(map(difference, found, case.expected))
    except Exception:
        return False


def in_numpy(ir: tuple[bytes, bytes], case: Reshaping) -> list[Any]:
    """Our IR, read back, reshaped and run by this package."""
    model = _read(ir).clone()
    model.reshape(case.shapes)
    found = ir_runtime.compile_model(model)(case.feeds)
    return [found[name] for name in case.names] if case.names else found.to_list()


@functools.lru_cache(maxsize=1)
def _read(ir: tuple[bytes, bytes]) -> ir_runtime.Model:
    return ir_runtime.read_model(*ir)


def in_openvino(ir: tuple[bytes, bytes], case: Reshaping) -> list[Any]:
    """Our IR, reshaped and run by OpenVINO."""
    xml, weights = ir
    return _reshaped(core().read_model(xml, weights) if weights else core().read_model(xml), case, case.names)


IN_ENGINES = {"numpy": in_numpy, "openvino": in_openvino}


def check_reshaped(model: onnx.ModelProto, feeds: Mapping[str, Any], *others: Mapping[str, Any]) -> None:
    """A model that declares the shapes of ``feeds``, as it is and reshaped to those of ``others``, in every engine."""
    check_node(model, feeds)
    ir = written(model)
    for data in others:
        shapes = {name: list(np.shape(array)) for name, array in data.items()}
        case = Reshaping(str(shapes), shapes, dict(data), run_onnxruntime(opened(model), data), output_names(model))
        for engine, run in IN_ENGINES.items():
            for index, (value, want) in enumerate(zip(run(ir, case), case.expected, strict=True)):
                try:
                    assert_close(value, want)
                except AssertionError as error:
                    raise AssertionError(f"{engine}, {shapes}, output {index}: {error}") from error


def of_importer(model: onnx.ModelProto, case: Reshaping) -> list[Any]:
    """What OpenVINO's own importer makes of the file, reshaped."""
    return _reshaped(core().read_model(model.SerializeToString()), case, None)


def _reshaped(model: openvino.Model, case: Reshaping, names: Sequence[str] | None) -> list[Any]:
    model.reshape({name: openvino.PartialShape(shape) for name, shape in case.shapes.items()})
    return run_compiled(core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}), case.feeds, names)


def verdict(run: Callable[[], Sequence[Any]], expected: Sequence[Any]) -> str:
    """``right``, ``wrong: ...`` or ``error: ...``."""
    try:
        actual = run()
    except Exception as error:
        return f"error: {type(error).__name__}: {' '.join(str(error).split())[-300:]}"
    if len(actual) != len(expected):
        return f"wrong: {len(actual)} outputs, expected {len(expected)}"
    for index, (value, want) in enumerate(zip(actual, expected)):
        found = difference(value, want)
        if found:
            return f"wrong: output {index}: {found}"
    return "right"


def written(source: onnx.ModelProto) -> tuple[bytes, bytes]:
    """The IR of a model."""
    return ir_runtime.model_to_bytes(converter.convert_model(source))


def outcomes(
    source: onnx.ModelProto,
    feeds: Mapping[str, Any],
    *,
    importer: bool = False,
    convert: Callable[[onnx.ModelProto], tuple[bytes, bytes]] = written,
) -> Iterator[tuple[Reshaping, dict[str, str]]]:
    """Each case of a model with the verdict on each engine, and on the importer's IR where that is asked for."""
    found = list(reshapings(source, feeds))
    if not found:
        return
    runs: dict[str, Callable[[Reshaping], list[Any]]] = {}
    refused = ""
    together: list[list[Any] | None] = [None for _ in found]
    try:
        ir = convert(source)
        runs = {name: functools.partial(run, ir) for name, run in IN_ENGINES.items()}
        together = run_together([Run(ir, one.feeds, one.names or (), one.shapes) for one in found])
    except Exception as error:
        refused = f"not converted: {error}"
    if importer:
        runs["importer"] = functools.partial(of_importer, source)
    for one, outputs in zip(found, together):
        is_right = outputs is not None and verdict(functools.partial(list, outputs), one.expected) == "right"
        at_once = {"openvino": "right"} if is_right else {}
        verdicts = {
            name: at_once.get(name) or verdict(functools.partial(run, one), one.expected) for name, run in runs.items()
        }
        yield one, {**(dict.fromkeys(ENGINES, refused) if refused else {}), **verdicts}
