"""Compare every tensor that the ONNX file declares with the IR, bit by bit.

Outputs show only what the inputs reach: a row of an embedding that no token asks for may be wrong, and rounding hides
the last bits of a weight. So each initializer is looked for where it belongs: in the constant that carries its name,
or else among the constants of the layers that its readers became, in the layouts that a conversion may choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np

from converter.equivalence.known_values import KnownValues
from converter.equivalence.layers import anchors, between
from converter.equivalence.reference_model import MOVING, ReferenceModel, read_by, written_by
from converter.equivalence.report import WeightCheck
from converter.equivalence.rounded_weights import RoundedWeights
from converter.equivalence.scaled_weights import channel_axes_of, nearest_scaled, scaled_weights
from converter.equivalence.stored_values import (
    ValueSum,
    bits_of,
    count_missing,
    form_of,
    largest_gap,
    layout_of,
    matrix_layouts,
    mostly_equal,
    mostly_near,
    value_sum,
)
from converter.onnx_file.graph import operator_of
from converter.passes.derivation import Derivation
from ir_runtime import Model, ModelError
from ir_runtime.execution.plan import layer_runner
from ir_runtime.graph import Array, Node, Output, Tensor
from ir_runtime.graph.operation import all_operations
from ir_runtime.graph.provenance import Computed
from ir_runtime.rewriting.constant_folding import as_tuple

_LARGEST_STEP = 1.01
"""Steps of its grid that a compressed weight may be away; more than one for the rounding of the comparison."""
_MIN_SIZE_TO_COUNT = 64
_MOST_MISSING_SHARE = 0.1
_LONGEST_LIST = 64
_MOST_TO_COMPARE = 4
"""Of more constants in one place those with the tensor's sum are compared first."""
_ROUNDING_STEPS = {"float16", "Convert", "unpacked"}


def check_weights(
    graph: ReferenceModel, model: Model, outputs: Sequence[str], *, guess: bool = True
) -> tuple[tuple[WeightCheck, ...], frozenset[Node]]:
    """Return the state of every tensor that the file declares, and the constants of the IR that hold them.

    ``outputs`` are the tensors that the IR returns. With ``guess`` a constant of which many values are those of a
    tensor is taken for that tensor, damaged; it is not needed where a derivation shows what was changed.
    """
    checks = _WeightChecks(graph, model, outputs, guess)
    return tuple(checks.checks()), frozenset(checks.matched)


class _WeightChecks:
    def __init__(self, graph: ReferenceModel, model: Model, outputs: Sequence[str], guess: bool) -> None:
        self._guess = guess
        self._graph = graph
        self._model = model
        nodes = model.nodes()
        self._names = anchors(graph, nodes)
        self._named = {name: output for output, names in self._names.items() for name in names}
        self._rounded = RoundedWeights.of(model)
        self._known_values = KnownValues(model)
        self._constants: dict[str, Node] = {}
        for part in model.parts():
            for node in part.nodes:
                if node.op.data is not None:
                    for name in (node.name, *node.outputs[0].names):
                        self._constants.setdefault(name, node)
        needed = graph.needed(outputs)
        self._read = read_by(needed).union(outputs)
        self._after = self._first_named(needed)
        self._beside_data = self._read_beside_data(needed)
        self._held: dict[Output, list[Node]] = {}
        self._by_sum: dict[Output, dict[ValueSum, list[Node]]] = {}
        self.matched: set[Node] = set()
        """The constants that hold tensors of the file, and the scales and zero points beside them."""
        self._scaled_constants: set[Node] = set()
        self._recorded, self._places = self._read_record()

    def _read_record(self) -> tuple[Mapping[str, Computed] | None, dict[str, list[Node]]]:
        """Return what the IR records of its constants, and for each name the constants that were computed from it.

        None and nothing if it does not record that of a conversion from ONNX.
        """
        derivation = Derivation.of(self._model)
        if derivation.weights is None or not derivation.steps or derivation.steps[0].source != "onnx":
            return None, {}
        places: dict[str, list[Node]] = {}
        for layer, weights in derivation.weights.items():
            node = self._constants.get(layer)
            if node is not None:
                for name in weights.names:
                    places.setdefault(name, []).append(node)
        return derivation.weights, places

    def _may_be_scaled(self, node: Node) -> bool:
        """True unless the IR records that its constant was not computed, but at most moved and rounded."""
        if self._recorded is None or not self._guess:  # as derived, but perhaps under another name
            return True
        weights = self._recorded.get(node.name)
        return weights is not None and not _moved_or_rounded().issuperset(weights.steps)

    def checks(self) -> list[WeightCheck]:
        checks_by_name: dict[str, WeightCheck] = {}
        left: dict[str, tuple[Tensor, list[Node]]] = {}
        for name, tensor in ((node.name, node.op.data) for node in self._graph.constants):
            assert tensor is not None
            if name not in self._read:
                checks_by_name[name] = WeightCheck(name, "unused")
                continue
            own = self._constants.get(name)
            check = self._first(name, tensor, [own] if own is not None else self._nearby(name, tensor))
            check = check or (self._differs(name, tensor, own) if own is not None else self._check_scaled(name, tensor))
            if check is None:
                left[name] = tensor, [own] if own is not None else list(self._nearby(name, tensor))
            checks_by_name[name] = check or WeightCheck(name, "folded", self._into(name))
        into = {name: self._into(name) for name, (tensor, _) in left.items() if tensor.element_type.is_real}
        times = Counter(layer for layers in into.values() for layer in layers)
        for name, (tensor, places) in left.items() if self._guess else ():
            # Where nothing else was folded into the layers, a constant that is near can only be this weight, damaged.
            alone = name in into and all(times[layer] == 1 for layer in into[name])
            checks_by_name[name] = self._damaged(name, tensor, places, alone=alone) or checks_by_name[name]
        return list(checks_by_name.values())

    def _first(self, name: str, tensor: Tensor, places: Iterable[Node]) -> WeightCheck | None:
        for node in places:
            held = node.op.data
            assert held is not None
            form = form_of(tensor, held)
            if form is not None:
                self.matched.add(node)
                state = "converted" if form.startswith("as ") else "identical"
                return WeightCheck(name, state, (node.name,), form)
            packed = self._compressed(name, tensor, node)
            if packed is not None:
                return packed
        return None

    def _check_scaled(self, name: str, tensor: Tensor) -> WeightCheck | None:
        """The check of a tensor whose channels are scaled; None where no constant is that."""
        if not tensor.element_type.is_real or len(tensor.shape) < 2:
            return None
        for node in self._nearby(name, tensor):
            held = node.op.data
            assert held is not None
            if node in self.matched or held.size != tensor.size or not held.element_type.is_real:
                continue
            if not self._may_be_scaled(node):
                continue
            value, actual = node.outputs[0], held.array()
            readers = value.uses
            if len(readers) == 1 and self._rounded.holds(readers[0]):
                value = readers[0].outputs[0]
            axes = next((axes for reader in value.uses if (axes := channel_axes_of(reader, value))), ())
            if not axes:
                continue
            layouts = matrix_layouts(tensor.array(), actual.shape)
            scaled = [
                candidate for layout in layouts if (candidate := scaled_weights(layout, actual, axes)) is not None
            ]
            if not scaled:
                continue
            closest = min(scaled, key=lambda candidate: int(candidate.wrong.sum()))
            if closest.wrong.any() and self._is_rounded_again(name, node):
                continue
            self.matched.add(node)
            self._scaled_constants.add(node)
            if not closest.wrong.any():
                return WeightCheck(name, "scaled", (node.name,), "each channel times a factor")
            return WeightCheck(name, "changed", (node.name,), "", float("nan"), closest.reason)
        return None

    def _differs(self, name: str, tensor: Tensor, node: Node) -> WeightCheck | None:
        """The constant that carries the tensor's name holds something else."""
        held = node.op.data
        assert held is not None
        if held.size != tensor.size or held.element_type is not tensor.element_type:
            return None  # another tensor of the same name, such as a scalar that stands for it
        actual = held.array()
        layouts = matrix_layouts(tensor.array(), actual.shape)
        expected = min(layouts, key=lambda candidate: int(np.count_nonzero(bits_of(candidate) != bits_of(actual))))
        return _check_changed(name, node, expected, actual)

    def _damaged(self, name: str, tensor: Tensor, places: Sequence[Node], *, alone: bool) -> WeightCheck | None:
        """A constant that matches no other tensor and differs from this one in some values.

        With ``alone`` one whose values are near counts, too.
        """
        for node in places:
            held = node.op.data
            if held is None or node in self.matched or held.size != tensor.size or held.size < 2:
                continue
            if _is_list(tensor) or self._is_computed(node) or self._is_scaled_bias(node):
                continue
            same_type = held.element_type is tensor.element_type
            if not same_type and not (held.element_type.is_real and tensor.element_type.is_real):
                continue
            actual = held.array()
            with np.errstate(all="ignore"):
                nearest = tensor.array().astype(actual.dtype)
            expected = layout_of(nearest, actual)
            if expected is not None and (mostly_equal(expected, actual) or (alone and mostly_near(expected, actual))):
                return _check_changed(name, node, expected, actual)
            missing = count_missing(nearest, actual)
            if held.size >= _MIN_SIZE_TO_COUNT and missing <= held.size * _MOST_MISSING_SHARE:
                reason = f"{missing} of {held.size} values are not among those of the constant, whatever their order"
                return WeightCheck(name, "changed", (node.name,), "in another order", 0.0, reason)
        return None

    def _is_scaled_bias(self, node: Node) -> bool:
        """True if the constant is added to what scaled weights make: it was scaled, too."""
        layers = (source.node for reader in node.outputs[0].uses for source in reader.inputs)
        return any(source.node in self._scaled_constants for layer in layers for source in layer.inputs)

    def _is_computed(self, node: Node) -> bool:
        """True if an ONNX node computes the constant from its inputs, and does not only move them."""
        producers = [self._graph.computed[name].node for name in self._names.get(node.outputs[0], ())]
        return any(operator_of(producer).op_type not in MOVING for producer in producers)

    def _is_rounded_again(self, name: str, node: Node) -> bool:
        """True if ONNX nodes compute the constant from the tensor in several steps, each of which rounds.

        Example: a weight normalization that multiplies weights by factors, and divides the products by norms.
        """
        constants = list(self._names.get(node.outputs[0], ()))
        steps = dict.fromkeys(constants, 0)
        for value in constants:  # grows while it is read: a value and then what it is computed from
            if value not in self._graph.computed:
                continue
            producer = self._graph.computed[value].node
            for source in read_by([producer]):
                if source not in steps:
                    steps[source] = steps[value] + (operator_of(producer).op_type not in MOVING)
                    constants.append(source)
        return steps.get(name, 0) > 1

    def _nearby(self, name: str, tensor: Tensor) -> Iterator[Node]:
        """The constants that are recorded to be computed from ``name``.

        Where none is, those of the layers that its readers became, those with the same elements first.
        """
        if name in self._places:
            yield from self._places[name]
            return
        seen: set[Node] = set()
        for nodes in self._groups(name, tensor):
            for node in nodes:
                if node not in seen:
                    seen.add(node)
                    yield node

    def _groups(self, name: str, tensor: Tensor) -> Iterator[list[Node]]:
        outputs = self._after.get(name, ())
        if any(len(self._held_by(output)) > _MOST_TO_COMPARE for output in outputs):
            expected_sum = value_sum(tensor)
            for output in outputs:
                if output not in self._by_sum:
                    self._by_sum[output] = _by_sum(self._held_by(output))
                yield self._by_sum[output].get(expected_sum, [])
        for output in outputs:
            yield self._held_by(output)

    def _held_by(self, output: Output) -> list[Node]:
        """The constants between ``output`` and the nearest named values before it, those of bodies too."""
        if output not in self._held:
            layers = between(output, self._names)
            inner = (node for layer in layers for sub in layer.op.subgraphs for node in sub.body.nodes())
            self._held[output] = [node for node in chain(layers, inner) if node.op.data is not None]
        return self._held[output]

    def _first_named(self, needed: Sequence[Node]) -> dict[str, dict[Output, None]]:
        """For each tensor that a node reads: the first values of the IR that depend on it and have a name, in order."""
        readers_by_name: dict[str, dict[Output, None]] = {}
        for node in reversed(needed):
            after: dict[Output, None] = {}
            for name in written_by([node]):
                after.update({self._named[name]: None} if name in self._named else readers_by_name.get(name, {}))
            for name in read_by([node]):
                readers_by_name[name] = {**after, **readers_by_name[name]} if name in readers_by_name else after
        return readers_by_name

    def _read_beside_data(self, needed: Sequence[Node]) -> set[str]:
        """The constants that a node reads together with data, at most moved or cast before.

        The others go through nodes that compute further constants, as weights do that a network standardises.
        """
        constants = {value for node in self._graph.constants for value in node.outputs}
        of_constants = set()
        for node in needed:
            if operator_of(node).op_type == "Constant" or (node.inputs and constants.issuperset(node.inputs)):
                constants.update(node.outputs)
                of_constants.add(node)
        beside_data: set[Output] = set()
        for node in reversed(needed):
            if node not in of_constants:
                beside_data |= constants.intersection(node.inputs)
            elif operator_of(node).op_type in {*MOVING, "Cast"} and not beside_data.isdisjoint(node.outputs):
                beside_data.update(node.inputs[:1])
        return {name for value in beside_data for name in value.names}

    def _into(self, name: str) -> tuple[str, ...]:
        if name in self._places:
            return tuple(node.name for node in self._places[name])
        return tuple(dict.fromkeys(output.node.name for output in self._after.get(name, ())))

    def _compressed(self, name: str, tensor: Tensor, node: Node) -> WeightCheck | None:
        """The check of a tensor that is stored as whole numbers with scales; None where it is not."""
        assert node.op.data is not None
        if name not in self._beside_data:
            return None
        widening = next((user for user in node.outputs[0].uses if self._rounded.holds(user)), None)
        if widening is None or not widening.inputs[0].element_type.is_integral or node.op.data.size != tensor.size:
            return None
        try:
            (value, output), (next_value, _) = (self._decompress(widening, offset) for offset in (0.0, 1.0))
        except ModelError:
            return None
        layout = layout_of(tensor.array(), value)
        if layout is None:
            return None
        step = np.maximum(np.abs(next_value.astype(np.float64) - value), np.finfo(np.float32).tiny)
        gap = np.abs(layout.astype(np.float64) - value)
        axes = next((axes for reader in output.uses if (axes := channel_axes_of(reader, output))), ())
        scaling = ""
        if axes and (gap / step).max(initial=0.0) > _LARGEST_STEP:
            for expected in matrix_layouts(tensor.array(), value.shape):
                near = np.abs(nearest_scaled(expected, value, axes) - value)
                if (near / step <= _LARGEST_STEP).mean() > (gap / step <= _LARGEST_STEP).mean():
                    gap, scaling = near, ", each channel times a factor"
        worst = float((gap / step).max(initial=0.0))
        error = float(gap.max(initial=0.0))
        form = f"{node.outputs[0].element_type}, at most {worst:.2f} steps away{scaling}"
        self.matched.update(layer for layer in between(output, {}) if layer.op.data is not None)
        if worst > _LARGEST_STEP:
            return WeightCheck(name, "changed", (node.name,), form, error, f"a weight is {worst:.3g} steps away")
        return WeightCheck(name, "compressed", (node.name,), form, error)

    def _decompress(self, widening: Node, offset: float) -> tuple[Array, Output]:
        """The weights that the layers behind the codes compute, with ``offset`` added to every code; where they do."""
        output: Output = widening.outputs[0]
        stored = widening.inputs[0].node.op.data
        assert stored is not None
        value = stored.array().astype(output.element_type.dtype) + output.element_type.dtype.type(offset)
        while True:
            users = output.uses
            if len(users) != 1 or len(users[0].outputs) != 1:
                return value, output
            inputs = [value if s is output else self._known_values.value(s) for s in users[0].inputs]
            if any(source is None for source in inputs):
                return value, output
            value = as_tuple(layer_runner(users[0])(*inputs))[0]
            output = users[0].outputs[0]


@lru_cache(None)
def _moved_or_rounded() -> frozenset[str]:
    """The steps after which a weight is still that of the model, in another place or type."""
    return frozenset({operation.type for operation in all_operations() if operation.movement} | _ROUNDING_STEPS)


def _by_sum(nodes: Sequence[Node]) -> dict[ValueSum, list[Node]]:
    nodes_by_sum: dict[ValueSum, list[Node]] = {}
    for node in nodes:
        if node.op.data is not None:
            nodes_by_sum.setdefault(value_sum(node.op.data), []).append(node)
    return nodes_by_sum


def _is_list(tensor: Tensor) -> bool:
    """Axes, dimensions and the like, which a conversion computes others from."""
    return tensor.element_type.is_integral and tensor.size <= _LONGEST_LIST


def _check_changed(name: str, node: Node, expected: Array, actual: Array) -> WeightCheck:
    expected, actual = expected.reshape(-1), actual.reshape(-1)
    unequal = bits_of(expected) != bits_of(actual)
    first = int(np.argmax(unequal))
    error = largest_gap(expected[unequal], actual[unequal])
    reason = (
        f"{int(unequal.sum())} of {expected.size} values differ, the first at {first}: "
        f"{actual[first]} instead of {expected[first]}"
    )
    return WeightCheck(name, "changed", (node.name,), "", error, reason)
