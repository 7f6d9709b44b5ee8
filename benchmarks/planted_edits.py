"""Edits planted in stored IRs of real models, and right IRs with hard numerics: which verdict do they get?

Twelve models are converted, with the options that people use (compression, preprocessing, states), and stored. Each IR
is edited in ten ways, one at a time: attributes, weights from one bit to 1 %, edges, precisions, states, preprocessing.
Many edits have effects below every tolerance, or none on the inputs that are tried. None may be called derived or
equal, and the layer should be named. The second part has right IRs of models that tolerances alone call wrong: ties,
quantized and chaotic ones, float16, weights that nobody normalised. All have to be derived or equal.

    python benchmarks/planted_edits.py [--models magika nudenet] [--each 10] [--seed 0] [--rights 60]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from benchmarks.injected_faults import KINDS, Inject, Rng, faults
from converter.errors import VerificationError
from ir_runtime.files.xml_writer import write_model
from ir_runtime.graph import Model, Node, Output, Tensor, element_types, make_node
from ir_runtime.graph.reshaping import infer_again
from ir_runtime.operations.elementwise import Add1, Convert1
from ir_runtime.operations.inputs_outputs import Const1
from tests.models.sources import from_wheel, light


def _change_weights(change: Callable[[np.ndarray, Rng], bool], *, least: int = 2) -> Inject:
    """Return an edit of a constant's values, whatever their type, in place."""

    def inject(model: Model, node: Node, rng: Rng) -> bool:
        held = node.op.data
        if held is None or held.size < least or held.element_type.dtype.kind != "f":
            return False
        array = held.array().copy()
        if not change(array, rng):
            return False
        node.op = Const1(value=Tensor.from_array(array, held.element_type))
        return True

    return inject


def _exchange_halves(array: np.ndarray, rng: Rng) -> bool:
    half = array.shape[0] // 2 if array.ndim > 1 else 0
    if not half:
        return False
    before = array.copy()
    array[:half], array[half : 2 * half] = before[half : 2 * half], before[:half]
    return not np.array_equal(before, array)


def _flip_a_bit(array: np.ndarray, rng: Rng) -> bool:
    array.reshape(-1).view(f"u{array.itemsize}")[rng.integers(array.size)] ^= 1
    return True


def _off_by_a_hundredth(array: np.ndarray, rng: Rng) -> bool:
    flat = array.reshape(-1)
    at = np.flatnonzero(flat)
    if len(at):
        flat[rng.choice(at)] *= array.dtype.type(1.01)
    return bool(len(at))


def _change_a_code(model: Model, node: Node, rng: Rng) -> bool:
    """One weight of 8 bits is a step away."""
    held = node.op.data
    if held is None or held.size < 64 or held.element_type.dtype.kind != "u" or held.element_type.bits != 8:
        return False
    array = held.array().copy()
    array.reshape(-1)[rng.integers(array.size)] ^= 1
    node.op = Const1(value=Tensor.from_array(array, held.element_type))
    return True


def _round_an_edge(model: Model, node: Node, rng: Rng) -> bool:
    """A value is rounded to float16 on its way to one of its readers."""
    edges = [index for index, source in enumerate(node.inputs) if source.element_type is element_types.f32]
    if not edges or node.op.data is not None or all(node.inputs[index].tensor is not None for index in edges):
        return False
    index = next(index for index in edges if node.inputs[index].tensor is None)
    half = make_node(Convert1(destination_type=element_types.f16), (node.inputs[index],), f"{node.name}/half")
    whole = make_node(Convert1(destination_type=element_types.f32), half.outputs, f"{node.name}/whole")
    node.replace_input(index, whole.outputs[0])
    return True


def _epsilon_times_ten(model: Model, node: Node, rng: Rng) -> bool:
    name = next((name for name in ("eps", "epsilon") if name in node.op.declared), "")
    if not name:
        return False
    node.op = node.op.with_attributes(**{name: getattr(node.op, name) * 10})
    return True


def _keep_a_state(model: Model, node: Node, rng: Rng) -> bool:
    """A state is never written: its variable gets what was read from it."""
    if node.op.type != "Assign":
        return False
    name = node.op.variable_id  # type: ignore[attr-defined]
    read = next(
        one
        for one in model.nodes()
        if one.op.type == "ReadValue" and one.op.variable_id == name  # type: ignore[attr-defined]
    )
    node.replace_input(0, read.outputs[0])
    return True


def _start_a_state_elsewhere(model: Model, node: Node, rng: Rng) -> bool:
    """A state begins with another value."""
    if node.op.type != "ReadValue" or not node.inputs or node.inputs[0].element_type is not element_types.f32:
        return False
    one = make_node(Const1(value=Tensor.from_array(np.ones((), np.float32))), (), f"{node.name}/one")
    node.replace_input(0, make_node(Add1(), (node.inputs[0], one.outputs[0]), f"{node.name}/sum").outputs[0])
    return True


def _change_preprocessing(model: Model, node: Node, rng: Rng) -> bool:
    """One number that an input is shifted or scaled by is off by 1 %."""
    if node.op.type not in ("Subtract", "Divide", "Multiply", "Add") or not _is_near_an_input(node.inputs[0]):
        return False
    constant = node.inputs[1]
    if constant.tensor is None or constant.element_type is not element_types.f32 or constant.tensor.size > 4:
        return False
    array = constant.tensor.array().copy()
    if not _off_by_a_hundredth(array, rng):
        return False
    constant.node.op = Const1(value=Tensor.from_array(array))
    return True


def _is_near_an_input(value: Output) -> bool:
    node = value.node
    while node.inputs and (node.op.movement or node.op.type in ("Convert", "Subtract")):
        node = node.inputs[0].node
    return node.op.role == "parameter"


EDITS: dict[str, Inject] = {
    "a state that stays": _keep_a_state,
    "a state that begins elsewhere": _start_a_state_elsewhere,
    "preprocessing off by 1 %": _change_preprocessing,
    "halves of a weight exchanged": _change_weights(_exchange_halves, least=64),
    "a weight's lowest bit": _change_weights(_flip_a_bit),
    "a weight off by 1 %": _change_weights(_off_by_a_hundredth),
    "a code of 8 bits": _change_a_code,
    "an edge rounded to float16": _round_an_edge,
    "an epsilon times ten": _epsilon_times_ten,
    **{
        kind: KINDS[kind]
        for kind in (
            "equal operands",
            "negative indices",
            "another mode",
            "another value read",
            "a number off by 0.1 %",
            "a row that no input reaches",
            "padding moved by one",
            "wrong axis",
            "a flag flipped",
        )
    },
}


@dataclass(frozen=True)
class Source:
    """A real model and how it is converted and stored."""

    path: Callable[[], Path]
    options: Mapping[str, Any] = field(default_factory=dict)
    saving: Mapping[str, Any] = field(default_factory=dict)


def _ocr(name: str) -> Callable[[], Path]:
    return partial(from_wheel, "rapidocr-onnxruntime", f"rapidocr_onnxruntime/models/{name}_infer.onnx")


_PHOTO = converter.Preprocess(
    element_type="u8", layout="nhwc", model_layout="nchw", mean=[123.0, 116.0, 103.0], scale=58.0
)
SOURCES: dict[str, Source] = {
    "ocr-classifier": Source(_ocr("ch_ppocr_mobile_v2.0_cls")),
    "ocr-detector": Source(_ocr("ch_PP-OCRv4_det"), saving={"compress_to_fp16": True}),
    "ocr-recognizer": Source(_ocr("ch_PP-OCRv4_rec"), {"target": "any"}, {"compress": "int8"}),
    "magika": Source(partial(from_wheel, "magika", "magika/models/standard_v3_3/model.onnx")),
    "silero": Source(
        partial(from_wheel, "silero-vad", "silero_vad/data/silero_vad.onnx"),
        {"stateful": {"state": "stateN"}, "input": "input[1,512],state[2,1,128],sr=16000"},
    ),
    "swift-f0": Source(partial(from_wheel, "swift-f0", "swift_f0/model.onnx")),
    "basic-pitch": Source(
        partial(from_wheel, "basic-pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx"),
        saving={"compress_to_fp16": True},
    ),
    "nudenet": Source(
        partial(from_wheel, "nudenet", "nudenet/320n.onnx"),
        {"preprocess": {"images": _PHOTO}, "input": "images[1,3,320,320]"},
    ),
    "shufflenet": Source(partial(light, "shufflenet"), saving={"compress_to_fp16": True}),
    "inception": Source(partial(light, "inception_v2"), {"exact": True}),
    "nemo": Source(partial(from_wheel, "onnx-asr", "onnx_asr/preprocessors/data/nemo80.onnx")),
    "wespeaker": Source(
        partial(from_wheel, "onnx-asr", "onnx_asr/preprocessors/data/wespeaker.onnx"), {"target": "any"}
    ),
}


def edited(good: Path, count: int, seed: int) -> Iterator[tuple[str, str, set[str], Path]]:
    """Yield edits of a stored IR that leave a readable one: the kind, the layer, the names that mean it, and the IR."""
    model = ir_runtime.read_model(good)
    plain = model.clone()
    infer_again(plain.nodes())
    before = ir_runtime.model_to_bytes(plain)
    path, found = good.with_name(f"{good.stem}-edited.xml"), 0
    for kind, made, layer, names in faults(model, np.random.default_rng(seed), 3 * count, EDITS):
        if ir_runtime.model_to_bytes(made) == before:
            continue  # equal weights, exchanged
        try:
            write_model(made, path)
            ir_runtime.read_model(path)
        except ir_runtime.ModelError:
            continue
        yield kind, layer, names | {f"{layer}/{end}" for end in ("half", "whole", "one", "sum", "without_sign")}, path
        found += 1
        if found == count:
            return


def judge_edits(names: list[str], each: int, seed: int, folder: Path) -> None:
    """Print a line for each edit, and the score."""
    print("| model | edit | layer | verdict | layer named | outputs show it | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    verdicts: Counter[str] = Counter()
    named = hidden = 0  # also where the IR cannot be run: the error then names the layer
    for name in names:
        source = SOURCES[name]
        path, good = source.path(), folder / f"{name}.xml"
        converter.save_model(converter.convert_model(path, **source.options), good, **source.saving)
        given = {key: value for key, value in source.options.items() if key == "input"}
        for kind, layer, known, wrong in edited(good, each, seed):
            started = time.perf_counter()
            try:
                report = converter.verify(path, wrong, **given)
            except VerificationError as error:
                verdict, is_named, shown = "refused", any(f"'{one}'" in str(error) for one in known), True
            else:
                verdict, is_named = report.verdict, not known.isdisjoint(_names_in(report))
                shown = not all(one.passed for one in report.outputs)
            verdicts[verdict] += 1
            named += is_named
            hidden += not shown
            seconds = time.perf_counter() - started
            cells = (
                name,
                kind,
                layer,
                verdict,
                *("yes" if one else "no" for one in (is_named, shown)),
                f"{seconds:.1f}",
            )
            print(f"| {' | '.join(cells)} |", flush=True)
    total = sum(verdicts.values())
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    caught = total - verdicts["derived"] - verdicts["equal"]
    print(
        f"\n{total} edits, {hidden} of which no output shows: {counts}; caught {caught}, with the layer named {named}"
    )


def _names_in(report: converter.Report) -> set[str]:
    """Return the layers that the report blames."""
    found = {name for one in report.derivation.differences for name in (one.layer, one.other)}
    found |= {name for check in report.weights if not check.passed for name in (check.name, *check.layers)}
    if report.first_fault is not None:
        found |= {report.first_fault.layer, report.first_fault.comparison.name}
    return found


def _network(nodes: list[Any], weights: Mapping[str, Any], shape: list[int], opset: int = 17) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def _unnormalized(rng: Rng, gain: float) -> onnx.ModelProto:
    """Convolutions with normalizations whose values shrink or grow by ``gain`` from layer to layer."""
    nodes, weights, last = [], {}, "x"
    for index in range(8):
        w, c, n, a = (f"{letter}{index}" for letter in "wcna")
        weights[w] = (rng.standard_normal((16, 16 if index else 3, 3, 3)) * gain / 12).astype(np.float32)
        values = {"s": rng.random(16) + 0.5, "b": np.zeros(16), "m": np.zeros(16), "v": rng.random(16) + 0.5}
        weights.update({f"{name}{n}": value.astype(np.float32) for name, value in values.items()})
        nodes.append(helper.make_node("Conv", [last, w], [c], c, pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("BatchNormalization", [c, *(f"{name}{n}" for name in "sbmv")], [n], n))
        nodes.append(helper.make_node("Relu", [n], [a], a))
        last = a
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["y"]))
    return _network(nodes, weights, [1, 3, 24, 24])


def _chaotic(rng: Rng, gain: float) -> onnx.ModelProto:
    """Products and sines, each of which enlarges differences."""
    nodes, weights, last = [], {}, "x"
    for index in range(10):
        weights[f"w{index}"] = (rng.standard_normal((48, 48)) * gain / np.sqrt(48)).astype(np.float32)
        nodes.append(helper.make_node("MatMul", [last, f"w{index}"], [f"p{index}"], f"p{index}"))
        nodes.append(helper.make_node("Sin", [f"p{index}"], ["y" if index == 9 else f"s{index}"], f"s{index}"))
        last = f"s{index}"
    return _network(nodes, weights, [4, 48])


def _ties(rng: Rng, step: float) -> onnx.ModelProto:
    """Values that are rounded half a step away from whole numbers, compared and counted."""
    nodes = [
        helper.make_node("Mul", ["x", "many"], ["large"], "large"),
        helper.make_node("Round", ["large"], ["whole"], "whole"),
        helper.make_node("Mul", ["whole", "step"], ["ties"], "ties"),
        helper.make_node("Round", ["ties"], ["rounded"], "rounded"),
        helper.make_node("Less", ["ties", "rounded"], ["less"], "less"),
        helper.make_node("Cast", ["less"], ["count"], "count", to=TensorProto.FLOAT),
        helper.make_node("Sub", ["rounded", "count"], ["difference"], "difference"),
        helper.make_node("MatMul", ["difference", "w"], ["y"], "product"),
    ]
    weights = {"many": np.float32(40), "step": np.float32(step), "w": rng.standard_normal((32, 16)).astype(np.float32)}
    return _network(nodes, weights, [8, 32])


def _quantized(rng: Rng, scale: float) -> onnx.ModelProto:
    """Products of codes in a row, each rounded to 8 bits again."""
    nodes, weights, last = [], {"s": np.float32(scale), "z": np.uint8(128), "t": np.float32(0.01)}, "x"
    for index in range(4):
        weights[f"w{index}"] = rng.integers(-127, 128, (48, 48)).astype(np.int8)
        nodes.append(helper.make_node("QuantizeLinear", [last, "s", "z"], [f"q{index}"], f"q{index}"))
        nodes.append(helper.make_node("DequantizeLinear", [f"q{index}", "s", "z"], [f"d{index}"], f"d{index}"))
        nodes.append(helper.make_node("DequantizeLinear", [f"w{index}", "t"], [f"v{index}"], f"v{index}"))
        nodes.append(helper.make_node("MatMul", [f"d{index}", f"v{index}"], [f"p{index}"], f"p{index}"))
        last = f"p{index}"
    nodes.append(helper.make_node("Identity", [last], ["y"]))
    return _network(nodes, weights, [8, 48])


def _half(rng: Rng, gain: float) -> onnx.ModelProto:
    """A network that computes in float16."""
    nodes, weights = [helper.make_node("Cast", ["x"], ["a0"], "cast", to=TensorProto.FLOAT16)], {}
    for index in range(6):
        weights[f"w{index}"] = (rng.standard_normal((64, 64)) * gain / 8).astype(np.float16)
        nodes.append(helper.make_node("MatMul", [f"a{index}", f"w{index}"], [f"p{index}"], f"p{index}"))
        nodes.append(helper.make_node("Tanh", [f"p{index}"], [f"a{index + 1}"], f"t{index}"))
    nodes.append(helper.make_node("Cast", ["a6"], ["y"], "back", to=TensorProto.FLOAT))
    return _network(nodes, weights, [4, 64])


_WAYS: tuple[Mapping[str, Any], ...] = ({}, {"compress_to_fp16": True}, {"compress": "int8"})
_BUILT: tuple[tuple[Callable[[Rng, float], onnx.ModelProto], tuple[float, ...], int], ...] = (
    (_unnormalized, (0.03, 0.3, 30.0), 3),
    (_chaotic, (2.0, 4.0), 1),  # rounded weights make another model of it: its outputs are then truly different
    (_ties, (0.5, 0.25), 1),
    (_quantized, (0.02, 0.1, 0.5), 1),
    (_half, (1.0, 3.0), 1),
)
"""What builds a model, with which numbers, and how many ways of saving it get."""


def rights(folder: Path) -> Iterator[tuple[str, Callable[[], Path], Mapping[str, Any]]]:
    """Yield right models with hard numerics: a name, what gives the path of the model, and options of saving it."""
    for build, numbers, ways in _BUILT:
        for number in numbers:
            for seed in (0, 1):
                path = folder / f"{build.__name__.strip('_')} {number} {seed}.onnx"
                for saving in _WAYS[:ways]:
                    yield f"{path.stem} {_name_of(saving)}", partial(_built, build, number, seed, path), saving
    for name in ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet"):
        for saving in _WAYS:
            yield f"{name} {_name_of(saving)}", partial(light, name), saving
    for name in ("ocr-classifier", "ocr-detector", "ocr-recognizer", "basic-pitch", "magika"):
        for saving in _WAYS[:2]:
            yield f"{name} {_name_of(saving)}", SOURCES[name].path, saving


def _built(build: Callable[[Rng, float], onnx.ModelProto], number: float, seed: int, path: Path) -> Path:
    onnx.save(build(np.random.default_rng(seed), number), path)
    return path


def _name_of(saving: Mapping[str, Any]) -> str:
    return " ".join(str(value) if isinstance(value, str) else name for name, value in saving.items()) or "plain"


def judge_rights(count: int, folder: Path) -> None:
    """Print a line for each right model, and the score; ``count`` of them, evenly spread."""
    every = list(rights(folder))
    chosen = [every[index * len(every) // count] for index in range(min(count, len(every)))]
    print("\n| right model | verdict | largest difference | seconds | reason |")
    print("| --- | --- | --- | --- | --- |")
    verdicts: Counter[str] = Counter()
    for name, source, saving in chosen:
        path = source()
        converter.save_model(converter.convert_model(path), folder / "right.xml", **saving)
        started = time.perf_counter()
        report = converter.verify(path, folder / "right.xml")
        verdicts[report.verdict] += 1
        largest = max(one.max_absolute for one in report.outputs)
        why = "" if report.passed else report.reason
        seconds = time.perf_counter() - started
        print(f"| {name} | {report.verdict} | {largest:.3g} | {seconds:.1f} | {why} |", flush=True)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    print(f"\n{len(chosen)} right models: {counts or 'none'}")


def main() -> None:
    """Both parts."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--models", nargs="*", choices=list(SOURCES), default=list(SOURCES))
    arguments.add_argument("--each", type=int, default=10)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--rights", type=int, default=60)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.models:
            judge_edits(given.models, given.each, given.seed, Path(folder))
        if given.rights:
            judge_rights(given.rights, Path(folder))


if __name__ == "__main__":
    main()
