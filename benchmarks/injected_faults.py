"""Faults put into good IRs on purpose: are they found, and is the layer named?

Each model is converted, one thing in the result is made wrong, and `verify` is asked with layers and weights. Kinds
take turns, the layer is drawn at random; a fault must leave a graph whose shapes still fit, whether it shows or not.
`outputs show it`: the outputs alone are wrong; `exactly`: the layer named is the one that was changed;
`part of n`: it is one of n layers between two tensors that both sides have.

    python benchmarks/injected_faults.py MODEL.onnx ... [--each 12] [--seed 0] [--input TEXT]
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import converter
from ir_runtime import Model, ModelError
from ir_runtime.graph.model import Node, Output
from ir_runtime.graph.operation import find_operation
from ir_runtime.graph.reshaping import infer_again
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.inputs_outputs import Const1, Result1

Rng = np.random.Generator
Inject = Callable[[Model, Node, Rng], bool]


def _attribute(names: tuple[str, ...], change: Callable[[object, Rng], object]) -> Inject:
    def inject(model: Model, node: Node, rng: Rng) -> bool:
        known = [name for name in names if name in node.op.declared]
        if not known:
            return False
        value = getattr(node.op, known[0])
        changed = change(value, rng)
        if changed is None or changed == value:
            return False
        node.op = node.op.with_attributes(**{known[0]: changed})
        return True

    return inject


def _moved_padding(model: Model, node: Node, rng: Rng) -> bool:
    if "pads_begin" not in node.op.declared or not any(node.op.pads_end):  # type: ignore[attr-defined]
        return False
    begin, end = list(node.op.pads_begin), list(node.op.pads_end)  # type: ignore[attr-defined]
    at = int(np.argmax(end))
    begin[at], end[at] = begin[at] + 1, end[at] - 1
    node.op = node.op.with_attributes(pads_begin=begin, pads_end=end)
    return True


def _padding_counts(model: Model, node: Node, rng: Rng) -> bool:
    if "exclude_pad" not in node.op.declared or not any((*node.op.pads_begin, *node.op.pads_end)):  # type: ignore[attr-defined]
        return False
    node.op = node.op.with_attributes(exclude_pad=not node.op.exclude_pad)  # type: ignore[attr-defined]
    return True


def _wrong_axis(model: Model, node: Node, rng: Rng) -> bool:
    if "axis" in node.op.declared and node.op.type in ("Softmax", "LogSoftmax", "Concat", "GatherElements"):
        rank = node.inputs[0].shape.rank
        axis = node.op.axis % rank  # type: ignore[attr-defined]
        node.op = node.op.with_attributes(axis=(axis - 1) % rank)
        return rank > 1
    if not node.op.type.startswith("Reduce") and node.op.type not in ("MVN", "Gather"):
        return False
    axes, position = node.inputs[-1], len(node.inputs) - 1
    if axes.tensor is None or not axes.element_type.is_integral or not node.inputs[0].shape.has_rank:
        return False
    moved = (axes.tensor.array() - 1) % node.inputs[0].shape.rank
    node.replace_input(position, _constant(moved, axes))
    return not np.array_equal(moved, axes.tensor.array() % node.inputs[0].shape.rank)


def _swapped(model: Model, node: Node, rng: Rng) -> bool:
    if node.op.type not in ("Subtract", "Divide", "Power", "Less", "Greater", "MatMul", "SquaredDifference"):
        return False
    if node.op.type == "SquaredDifference" or node.inputs[0] is node.inputs[1]:
        return False
    node.inputs = (*node.inputs[1::-1], *node.inputs[2:])
    return True


def _transposed_weight(model: Model, node: Node, rng: Rng) -> bool:
    if node.op.type not in ("MatMul", "Convolution", "GroupConvolution"):
        return False
    weight = node.inputs[1]
    if weight.tensor is None or not weight.element_type.is_real:
        return False
    array = weight.tensor.array()
    for first, second in ((-2, -1), (0, 1)):
        if array.ndim >= 2 and array.shape[first] == array.shape[second] > 1:
            node.replace_input(1, _constant(np.swapaxes(array, first, second), weight))
            return True
    return False


def _missing(model: Model, node: Node, rng: Rng) -> bool:
    if len(node.outputs) != 1 or not node.inputs or node.op.subgraphs or isinstance(node.op, Result1):
        return False
    source, made = node.inputs[0], node.outputs[0]
    if source.tensor is not None or source.type.shape != made.type.shape or source.element_type != made.element_type:
        return False
    neutral = {"Add": 0, "Subtract": 0, "Multiply": 1, "Divide": 1}.get(node.op.type)
    others = [other.tensor for other in node.inputs[1:] if other.tensor is not None]
    if neutral is not None and others and (others[0].array() == neutral).all():
        return False  # without biases of zeros the model is the same
    made.replace_by(source)
    return True


def _weight(change: Callable[[np.ndarray, Rng], bool]) -> Inject:
    def inject(model: Model, node: Node, rng: Rng) -> bool:
        held = node.op.data
        if held is None or not held.element_type.is_real or held.size < 2 or held.element_type.bits != 32:
            return False
        array = held.array().copy()
        if not change(array.reshape(-1), rng):
            return False
        node.op = Const1(value=Tensor.from_array(array, held.element_type))
        return True

    return inject


def _lowest_bit(flat: np.ndarray, rng: Rng) -> bool:
    flat.view(np.uint32)[rng.integers(flat.size)] ^= 1
    return True


def _negated(flat: np.ndarray, rng: Rng) -> bool:
    at = np.flatnonzero(flat)
    if len(at):
        flat[rng.choice(at)] *= -1
    return bool(len(at))


def _half(flat: np.ndarray, rng: Rng) -> bool:
    before = flat.copy()
    flat[:] = flat.astype(np.float16)
    return not np.array_equal(before, flat)


def _scaled(flat: np.ndarray, rng: Rng) -> bool:
    flat *= np.float32(1.0001)
    return bool(flat.any())


def _unreached_row(model: Model, node: Node, rng: Rng) -> bool:
    """The last row of a table that is looked up in."""
    if node.op.type != "Gather" or node.inputs[0].tensor is None or node.inputs[0].shape.rank < 2:
        return False
    table = node.inputs[0].node
    assert table.op.data is not None
    array = table.op.data.array().copy()
    if array.dtype.kind != "f":
        return False
    array[-1] += 1
    table.op = Const1(value=Tensor.from_array(array, table.op.data.element_type))
    return True


def _other_value(model: Model, node: Node, rng: Rng) -> bool:
    """The layer reads another value of the same type and shape."""
    if len(node.inputs) < 2 or node.op.data is not None:
        return False
    before: list[Output] = []
    for other in model.nodes():
        if other is node:
            break
        before += [output for output in other.outputs if output.tensor is None and output not in node.inputs]
    source = node.inputs[0]
    fitting = [o for o in before if o.element_type == source.element_type and o.shape == source.shape]
    if source.tensor is not None or not fitting:
        return False
    node.replace_input(0, fitting[int(rng.integers(len(fitting)))])
    return True


def _nudged_number(model: Model, node: Node, rng: Rng) -> bool:
    """A scale or bound that stands as one number is off by a thousandth."""
    if node.op.type not in ("Multiply", "Divide", "Add", "Power", "Clamp"):
        return False
    for position, source in enumerate(node.inputs):
        if source.tensor is not None and source.tensor.size == 1 and source.element_type.is_real:
            value = source.tensor.array()
            node.replace_input(position, _constant(np.asarray(value * np.float32(1.001), value.dtype), source))
            return bool(value.any())
    return False


def _another_mode(model: Model, node: Node, rng: Rng) -> bool:
    for name in ("approximation_mode", "coordinate_transformation_mode", "nearest_mode", "mode", "direction"):
        if name not in node.op.declared:
            continue
        for value in ("tanh", "erf", "align_corners", "asymmetric", "ceil", "half_to_even", "half_away_from_zero"):
            if value == getattr(node.op, name):
                continue
            try:
                node.op = node.op.with_attributes(**{name: value})
            except ModelError:
                continue
            return True
    return False


def _flipped_flag(model: Model, node: Node, rng: Rng) -> bool:
    flags = [name for name in node.op.declared if name.startswith("transpose")]
    if not flags:
        return False
    name = flags[int(rng.integers(len(flags)))]
    node.op = node.op.with_attributes(**{name: not getattr(node.op, name)})
    return True


_EQUALITIES = {"Less": "LessEqual", "LessEqual": "Less", "Greater": "GreaterEqual", "GreaterEqual": "Greater"}


def _other_equality(model: Model, node: Node, rng: Rng) -> bool:
    """Equal operands compare the other way, which random values never show."""
    if node.op.type not in _EQUALITIES:
        return False
    node.op = find_operation(_EQUALITIES[node.op.type], 1)(**{n: getattr(node.op, n) for n in node.op.declared})
    return True


def _indices_without_sign(model: Model, node: Node, rng: Rng) -> bool:
    """Negative indices no longer count from the end."""
    if node.op.type not in ("Gather", "GatherElements") or node.inputs[1].tensor is not None:
        return False
    node.replace_input(
        1, make_node(find_operation("Abs", 1)(), [node.inputs[1]], f"{node.name}/without_sign").outputs[0]
    )
    return True


KINDS: dict[str, Inject] = {
    "padding moved by one": _moved_padding,
    "padding counted or not": _padding_counts,
    "wrong axis": _wrong_axis,
    "inputs swapped": _swapped,
    "weight transposed": _transposed_weight,
    "layer missing": _missing,
    "epsilon 1e-3": _attribute(("epsilon", "eps"), lambda value, _: 1e-3),
    "slope or bound off by 1 %": _attribute(
        ("alpha", "beta", "max"), lambda value, _: float(value) * 1.01 if isinstance(value, (int, float)) else None
    ),
    "a weight's lowest bit": _weight(_lowest_bit),
    "a weight negated": _weight(_negated),
    "weights as float16": _weight(_half),
    "weights scaled by 1.0001": _weight(_scaled),
    "a row that no input reaches": _unreached_row,
    "another value read": _other_value,
    "a number off by 0.1 %": _nudged_number,
    "another mode": _another_mode,
    "a flag flipped": _flipped_flag,
    "equal operands": _other_equality,
    "negative indices": _indices_without_sign,
}


def _constant(array: np.ndarray, like: Output) -> Output:
    op = Const1(value=Tensor.from_array(np.ascontiguousarray(array), like.element_type))
    node = Node(op, (), op.infer([]), like.node.name)
    node.outputs[0].names = list(like.names)
    return node.outputs[0]


@dataclass
class Case:
    """One fault: where it was put, and what found it."""

    model: str
    kind: str
    layer: str
    outputs: bool = False
    found: bool = False
    exact: bool = False
    part: int = 0
    found_by: str = ""


def faults(
    model: Model, rng: Rng, count: int, every: Mapping[str, Inject] = KINDS
) -> Iterator[tuple[str, Model, str, set[str]]]:
    """(kind, faulty model, the layer that was changed, names that mean it), kinds of ``every`` in turn."""
    done: Counter[str] = Counter()
    tried: set[tuple[str, int]] = set()
    kinds = list(every)
    misses = 0
    while sum(done.values()) < count and misses < 40 * len(kinds):
        kind = min(kinds, key=lambda k: (done[k], sum(t[0] == k for t in tried)))
        made = model.clone()
        nodes = made.nodes()
        order = [int(i) for i in rng.permutation(len(nodes)) if (kind, int(i)) not in tried]
        for index in order:
            tried.add((kind, index))
            node = nodes[index]
            names = {node.name, *(name for output in node.outputs for name in output.names)}
            try:
                if not every[kind](made, node, rng):
                    continue
                before = [output.shape for output in made.outputs]
                infer_again(made.nodes())
            except (ModelError, ValueError, IndexError, AssertionError):
                made = model.clone()
                nodes = made.nodes()
                continue
            if [output.shape for output in made.outputs] != before or not _is_read(made, node, kind):
                made = model.clone()
                nodes = made.nodes()
                continue
            if kind == "a row that no input reaches":
                names.add(node.inputs[0].node.name)
            if node.op.data is not None:
                names |= {user.name for user in node.outputs[0].uses}
            names |= {source.node.name for source in node.inputs if source.tensor is not None}
            if kind == "layer missing" and node.origin is not None:  # what is left of its ONNX node is named
                names.add(node.origin.node)
            done[kind] += 1
            yield kind, made, node.name, names
            break
        else:
            kinds.remove(kind)
            if not kinds:
                return
        misses += 1


def _is_read(model: Model, node: Node, kind: str) -> bool:
    return kind == "layer missing" or node in model.nodes()


def main() -> None:
    """A line for each fault, and the score."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", nargs="+", type=Path)
    arguments.add_argument("--each", type=int, default=12)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--input", default="", help="shapes for the conversions, as on the command line")
    given = arguments.parse_args()
    cases: list[Case] = []
    print("| model | fault | layer | outputs show it | found | named | by |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for path in given.models:
        model = converter.convert_model(path)
        for kind, faulty, layer, names in faults(model, np.random.default_rng(given.seed), given.each):
            case = _judged(path, faulty, Case(path.stem, kind, layer), names, given.input)
            cases.append(case)
            named = "exactly" if case.exact else f"part of {case.part}" if case.part else "no"
            shown = "yes" if case.outputs else "no"
            found = "yes" if case.found else "**no**"
            print(f"| {case.model} | {kind} | {layer} | {shown} | {found} | {named} | {case.found_by} |", flush=True)
    total = len(cases)
    print(
        f"\n{total} faults: found {sum(c.found for c in cases)}, by the outputs alone {sum(c.outputs for c in cases)}; "
        f"named exactly {sum(c.exact for c in cases)}, as one of a few layers {sum(bool(c.part) for c in cases)}"
    )


def _judged(path: Path, faulty: Model, case: Case, names: set[str], text: str) -> Case:
    try:
        report = converter.verify(path, faulty, layers=True, input=text)
    except converter.ConversionError as error:
        case.found, case.found_by = True, f"refused: {str(error)[:60]}"
        case.exact = any(f"'{name}'" in str(error) for name in names)
        return case
    case.outputs = any(not output.passed for output in report.outputs)
    case.found = not report.passed
    changed = [check for check in report.weights if not check.passed]
    fault = report.first_fault
    if any(names & {check.name, *check.layers} for check in changed):
        case.exact, case.found_by = True, "weights"
    elif fault is not None:
        case.found_by = "layers"
        if names & {fault.layer, fault.node, fault.comparison.name}:
            case.exact = True
        elif names & set(fault.part):
            case.part = len(fault.part)
    if not case.exact and names & {name for one in report.derivation.differences for name in (one.layer, one.other)}:
        case.exact, case.found_by = True, "its derivation"
    return case


if __name__ == "__main__":
    main()
