"""Builds small ONNX models and runs them: our IR in NumPy, our IR in the real OpenVINO, the oracles."""

from __future__ import annotations

import functools
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest
from onnx import helper, numpy_helper
from openvino.utils.node_factory import NodeFactory

import converter
import ir_runtime
from converter.equivalence.reference import ort_values
from converter.equivalence.reference.oracle import session_options
from converter.equivalence.reference.unsigned_operands import with_unsigned_operands
from converter.onnx_file.types import element_type_of
from ir_runtime.execution.ports import ports_of
from ir_runtime.graph import element_types
from ir_runtime.graph.element_types import element_type, from_dtype, pack, unpack
from ir_runtime.graph.model import Model
from ir_runtime.rewriting.pipeline import Pipeline

# --- builds small ONNX models and runs them: our IR in NumPy, our IR in the real OpenVINO, the oracles ---

ENGINES = ("numpy", "openvino")
IR = tuple[bytes, bytes]
Feeds = Mapping[str, Any]
Arrays = list[np.ndarray]


def _has_avx512() -> bool:
    """True if oneDNN, of which the CPU plug-in is made, uses AVX-512: the processor has it, and no variable forbids it."""
    flags = Path("/proc/cpuinfo")
    words = set(flags.read_text().split()) if flags.exists() else set()
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "") or "DEFAULT"
    return {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= words and (limit == "DEFAULT" or "512" in limit)


HAS_AVX512 = _has_avx512()
"""Some results of the plug-in depend on it; what is known of them does, too."""


@contextmanager
def silence() -> Iterator[None]:
    """Log nothing: the warnings of a conversion were shown by the first one."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def node_model(
    op_type: str,
    inputs: Mapping[str, Any],
    *,
    opset: int,
    outputs: int = 1,
    attributes: Mapping[str, Any] | None = None,
    constants: Mapping[str, Any] | None = None,
    order: Sequence[str] | None = None,
    shapes: Mapping[str, Sequence[Any] | None] | None = None,
    domain: str = "",
) -> onnx.ModelProto:
    """A model of one node called ``node``, whose outputs are called ``y0``, ``y1`` ...

    ``inputs`` are arrays that become graph inputs (``shapes`` overrides their declared shapes, with
    names or None for dynamic dimensions), ``constants`` become initializers. ``order`` lists the node's
    inputs by name, "" for one left out; by default inputs come first, then constants.
    """
    constants = constants or {}
    names = list(order) if order is not None else [*inputs, *constants]
    node = helper.make_node(
        op_type, names, [f"y{i}" for i in range(outputs)], name="node", domain=domain, **(attributes or {})
    )
    graph_inputs = []
    for name, array in inputs.items():
        kind = helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype)
        shape = (shapes or {}).get(name, list(np.shape(array)))
        graph_inputs.append(helper.make_tensor_value_info(name, kind, shape))
    graph = helper.make_graph(
        [node],
        "test",
        graph_inputs,
        [onnx.ValueInfoProto(name=f"y{i}") for i in range(outputs)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    imports = (
        [helper.make_opsetid("", opset)]
        if not domain
        else [helper.make_opsetid("", 17), helper.make_opsetid(domain, opset)]
    )
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def opened(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every dimension of its inputs open."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    for value in other.graph.input:
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            dimension.Clear()
            dimension.dim_param = f"{value.name}_{axis}"
    return other


def converted(model: onnx.ModelProto | str, target: str = "cpu") -> tuple[bytes, bytes]:
    """The IR as it would stand on disk, after a round trip through the reader that must not change it."""
    written = ir_runtime.model_to_bytes(converter.convert_model(model, target=target))
    assert ir_runtime.model_to_bytes(ir_runtime.read_model(*written)) == written
    return written


def output_names(model: onnx.ModelProto) -> list[str]:
    return [value.name for value in model.graph.output]


def run_numpy(ir: IR, feeds: Feeds, names: Sequence[str] | None = None) -> Arrays:
    """Execute an IR with this package; the outputs called ``names``, or those of its results by their names."""
    compiled = ir_runtime.compile_model(ir_runtime.read_model(*ir))
    found = compiled(dict(feeds))
    if names is not None:
        return [found[name] for name in names]
    return [found[port.names[0] if port.names else place] for place, port in enumerate(compiled.outputs)]


@functools.cache
def core() -> openvino.Core:
    made = openvino.Core()
    if "PYTEST_XDIST_WORKER" in os.environ:
        # Workers share the processors. Not one thread each: with a single one the plug-in (2026.4) swallows
        # every error of a run and returns memory that nobody has written to.
        made.set_property("CPU", {"INFERENCE_NUM_THREADS": 2})
    return made


EXACT = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
"""The plug-in's settings with which it computes in float32: products with compressed weights would round their data to
8 bits, by default on processors with instructions for it."""


def run_openvino(ir: IR, feeds: Feeds, names: Sequence[str] | None = None) -> Arrays:
    """Execute an IR with OpenVINO's CPU plug-in, in float32 where it would choose a narrower type.

    The outputs called ``names``, or those of the IR's results by their names; by place where they have none.
    """
    xml, weights = ir
    # An empty bin is passed as nothing: OpenVINO refuses a tensor of no bytes.
    model = core().read_model(xml, weights) if weights else core().read_model(xml)
    compiled = core().compile_model(model, "CPU", EXACT)
    if names is None:
        own = ports_of(ir_runtime.read_model(*ir))[1]
        assert len(own) == len(compiled.outputs)
        if not all(port.names for port in own):
            return run_compiled(compiled, feeds)
        names = [port.names[0] for port in own]
    return run_compiled(compiled, feeds, names)


def run_compiled(compiled: openvino.CompiledModel, feeds: Feeds, names: Sequence[str] | None = None) -> Arrays:
    """Execute a model that OpenVINO has compiled: the outputs called ``names``, or all of them."""
    request = compiled.create_infer_request()
    # The request does not keep their memory, and an output may lie in that of an input.
    tensors = {name: openvino_tensor(array) for name, array in feeds.items()}
    request.infer(tensors)
    if names is None:
        return [array_of(request.get_output_tensor(i)) for i in range(len(compiled.outputs))]
    return [array_of(request.get_tensor(compiled.output(name))) for name in names]


def made(name: str, opset: int, inputs: Sequence[Any], **attributes: Any) -> Any:
    """OpenVINO's node of any operation, those without a function of their own too."""
    sources = [node.output(0) if hasattr(node, "output") else node for node in inputs]
    return NodeFactory(f"opset{opset}").create(name, sources, attributes)


def written(outputs: Sequence[Any], parameters: Sequence[Any]) -> tuple[bytes, bytes]:
    """The XML and the weights that OpenVINO saves for a model of its own nodes."""
    model = openvino.Model([out.output(0) if hasattr(out, "output") else out for out in outputs], list(parameters))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.xml"
        openvino.save_model(model, path, compress_to_fp16=False)
        return path.read_bytes(), path.with_suffix(".bin").read_bytes()


def openvino_tensor(array: Any) -> openvino.Tensor:
    """An OpenVINO tensor of any type that the IR has, in the layout that ``.bin`` files share with it."""
    array = np.asarray(array)
    kind = from_dtype(array.dtype)
    if kind is element_types.string:
        return openvino.Tensor(np.asarray(array, dtype=np.str_))
    if array.dtype.isbuiltin == 1:
        return openvino.Tensor(np.array(array, order="C"))
    packed = np.frombuffer(pack(array, kind), np.uint8)
    return openvino.Tensor(packed, openvino.Shape(array.shape), getattr(openvino.Type, kind.name))


def array_of(tensor: openvino.Tensor) -> np.ndarray:
    if tensor.element_type == openvino.Type.string:
        return np.asarray(tensor.str_data, dtype=object)
    kind = element_type(tensor.element_type.get_type_name())
    if kind.dtype.isbuiltin == 1 and not kind.is_packed:
        return np.array(tensor.data)
    packed = np.array(tensor.data).reshape(-1).view(np.uint8)
    return np.array(unpack(packed, kind, tuple(tensor.shape)))


def run(engine: str, ir: IR, feeds: Feeds, names: Sequence[str] | None = None) -> Arrays:
    return run_numpy(ir, feeds, names) if engine == "numpy" else run_openvino(ir, feeds, names)


def run_onnxruntime(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> Arrays:
    """Execute an ONNX model with onnxruntime, without its optimisations."""
    return in_onnxruntime(model)(feeds)


def in_onnxruntime(model: onnx.ModelProto) -> Callable[[Mapping[str, Any]], Arrays]:
    """A model in onnxruntime, without its optimisations, to run more than once."""
    options = session_options()
    # A pool of threads costs these small models more than it gives them.
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    serialized = with_unsigned_operands(model).SerializeToString()
    session = onnxruntime.InferenceSession(serialized, options, providers=["CPUExecutionProvider"])

    def run(feeds: Mapping[str, Any]) -> Arrays:
        values = {name: np.asarray(array) for name, array in feeds.items()}
        return [_dense(value) for value in ort_values.run(session, values)]

    return run


class OnnxSession:
    """A model in onnxruntime, called with values by name, of which it takes its inputs; outputs are by name, too."""

    def __init__(self, model: onnx.ModelProto | Path) -> None:
        source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
        self._session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
        self.inputs = {port.name: port for port in self._session.get_inputs()}
        self.outputs = [port.name for port in self._session.get_outputs()]

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return dict(zip(self.outputs, self._session.run(None, {name: values[name] for name in self.inputs})))


def _dense(value: Any) -> Any:
    if type(value).__name__ != "SparseTensor":
        return value
    tensor = onnxruntime.SparseTensor(value)
    coordinates, values = tensor.as_coo_view().indices().reshape(-1), tensor.values()
    dense = np.zeros(tensor.dense_shape(), values.dtype)
    dense.reshape(-1)[coordinates] = values
    return dense


def assert_close(
    actual: np.ndarray, expected: Any, *, rtol: float = 1e-4, atol: float = 1e-5, is_coarse: bool = True
) -> None:
    """Same dtype, same shape, and values that agree; integers and booleans exactly."""
    expected = np.asarray(expected)
    assert actual.dtype == expected.dtype, f"dtype {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    if expected.dtype.kind in "iubOU":
        np.testing.assert_array_equal(actual, expected)
        return
    coarse = {"float16": 2e-3, "bfloat16": 1.6e-2}.get(expected.dtype.name, 0.0) if is_coarse else 0.0
    np.testing.assert_allclose(
        actual.astype(np.float64), expected.astype(np.float64), rtol=max(rtol, coarse), atol=max(atol, coarse)
    )


def check_node(
    model: onnx.ModelProto,
    feeds: Mapping[str, Any],
    expected: Sequence[Any] | None = None,
    *,
    engines: Sequence[str] = ENGINES,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> None:
    """Convert and run in every engine; ``expected`` defaults to onnxruntime's answer.

    Where the target's rules change the IR, NumPy executes the plain one as well.
    """
    wanted = run_onnxruntime(model, feeds) if expected is None else list(expected)
    names = output_names(model)[: len(wanted)]
    ir = converted(model)
    runs = [(engine, engine, ir) for engine in engines]
    with silence():
        plain = converted(model, "any") if "numpy" in engines else ir
    if plain != ir:
        runs.append(("numpy, plain", "numpy", plain))

    def compare(engine: str, actual: Sequence[Any]) -> None:
        for name, value, want in zip(names, actual, wanted, strict=True):
            try:
                assert_close(value, want, rtol=rtol, atol=atol)
            except AssertionError as error:
                raise AssertionError(f"{engine}, output '{name}': {error}") from error

    for engine, runner, made in runs:
        compare(engine, run(runner, made, feeds, names))


def schema_types(op_type: str, opset: int, variable: str = "T", domain: str = "") -> list[np.dtype[Any]]:
    """The dtypes that an operator's schema allows for a type variable, as far as NumPy and the IR have them."""
    schema = onnx.defs.get_schema(op_type, opset, domain)
    allowed = next(c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == variable)
    found = []
    for name, number in onnx.TensorProto.DataType.items():
        spelled = {"FLOAT": "float", "DOUBLE": "double", "BOOL": "bool"}.get(name, name.lower())
        if f"tensor({spelled})" in allowed and name not in ("STRING", "COMPLEX64", "COMPLEX128"):
            try:
                found.append(element_type_of(number).dtype)
            except converter.ConversionError:
                continue
    return found


def translated(model: object, monkeypatch: pytest.MonkeyPatch) -> Model:
    """What the model means, before any pass."""
    with monkeypatch.context() as without:
        without.setattr(Pipeline, "run", lambda *args, **options: {})
        return converter.convert_model(model, target="any")


# --- runs an IR in both engines, and looks its outputs up by their names ---

Named = dict[str, np.ndarray[Any, Any]]


def run_by_name(ir: tuple[bytes, bytes], feeds: Mapping[str, Any]) -> dict[str, Named]:
    """For each engine every output by the one name that it has there, in the model's order."""
    return {"numpy": by_name_in_numpy(ir, feeds), "openvino": by_name_in_openvino(ir, feeds)}


def by_name_in_numpy(ir: tuple[bytes, bytes], feeds: Mapping[str, Any]) -> Named:
    compiled = ir_runtime.compile_model(ir_runtime.read_model(*ir))
    result = compiled(dict(feeds))
    return {port.name: result[port.name] for port in compiled.outputs}


def by_name_in_openvino(ir: tuple[bytes, bytes], feeds: Mapping[str, Any]) -> Named:
    xml, weights = ir
    model = core().read_model(xml, weights) if weights else core().read_model(xml)
    # The IR gives each output one name. What the plug-in leaves out hands its name on, so that there may be more then.
    names = [name for output in model.outputs for name in sorted(output.get_names())]
    request = core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    request.infer({name: openvino_tensor(array) for name, array in feeds.items()})
    return {name: array_of(request.get_tensor(name)) for name in names}
