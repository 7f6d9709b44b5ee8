"""Compare every tensor that the ONNX file declares with the IR, bit by bit.

Outputs show only what the inputs reach: a row of an embedding that no token asks for may be wrong, and rounding hides
the last bits of a weight. So each initializer is looked for where it belongs: in the constant that carries its name,
in those that the IR records to be computed from it, or else among the constants of the layers that its readers became.

What passes computed from a tensor is what the record says where the recorded steps give the IR again, and what differs
from them is changed. Without a record the comparison of the layers decides, but for what is below its tolerance: a
constant that has nearly all values of a tensor, or nearly all times factors of channels, is that tensor, damaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from converter.equivalence.comparison.layers import anchors
from converter.equivalence.comparison.parts import between
from converter.equivalence.comparison.rounded_weights import RoundedWeights
from converter.equivalence.derivation.rederivation import DIFFERENT, INAPPLICABLE, DerivationCheck
from converter.equivalence.reference.reference_model import MOVING, ReferenceModel, read_by, written_by
from converter.equivalence.weights import stored_values
from converter.equivalence.weights.known_values import KnownValues
from converter.onnx_file.graph import operator_of
from converter.passes.channel_factors import SCALED
from converter.passes.derivation import Derivation
from ir_runtime import Model, ModelError
from ir_runtime.execution.plan import layer_runner
from ir_runtime.graph import Array, Node, Output, Tensor
from ir_runtime.graph.model_difference import LayerChange
from ir_runtime.graph.provenance import Computed
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.records import record
from ir_runtime.rewriting.constant_folding import as_tuple

_LARGEST_STEP = 1.01
"""Steps of its grid that a compressed weight may be away; more than one for the rounding of the comparison."""
_SAME_SHARE = 0.5
"""A constant of which at least this share is near a tensor's values holds that tensor."""
_MOST_MISSING_SHARE = 0.1
"""Share of a tensor's values that a constant may lack, and still is this tensor, damaged: a bias from which means of a
few channels were subtracted is another one."""
_LONGEST_LIST = 64
_MOST_TO_COMPARE = 4
"""Of more constants in one place those with the tensor's sum are compared first."""


@record
class WeightCheck:
    """The check of the tensor ``name`` of the ONNX file in the IR; ``reason`` tells what differs.

    ``state`` is one of

    * ``identical``: a constant of the IR has the same values, bit by bit (``form`` names another layout);
    * ``converted``: every value is the nearest one of a narrower type, which ``form`` names;
    * ``compressed``: whole numbers with scales, ``error`` the greatest difference, which is at most one step;
    * ``scaled``: each output channel has the tensor's values times one factor;
    * ``folded``: by the record part of what ``layers`` compute or hold, and not a constant by itself;
    * ``unaccounted``: there is no record, and no constant of ``layers`` has these values: their comparison decides;
    * ``unused``: no output depends on it;
    * ``changed``: the IR has other values in its place, with the greatest difference ``error``, and fails.
    """

    name: str
    state: str
    layers: tuple[str, ...] = ()
    form: str = ""
    error: float = 0.0
    reason: str = ""

    @property
    def passed(self) -> bool:
        """True if the IR holds the tensor's values."""
        return self.state != "changed"


def check_weights(
    graph: ReferenceModel, model: Model, outputs: Sequence[str], derivation: DerivationCheck
) -> tuple[tuple[WeightCheck, ...], frozenset[Node]]:
    """Return the state of every tensor that the file declares, and the constants of the IR that hold them.

    ``outputs`` are the tensors that the IR returns.
    """
    checks = _WeightChecks(graph, model, outputs, derivation)
    return tuple(checks.checks()), frozenset(checks.matched)


class _WeightChecks:
    def __init__(
        self, graph: ReferenceModel, model: Model, outputs: Sequence[str], derivation: DerivationCheck
    ) -> None:
        self._graph = graph
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
        self._held: dict[Output, list[Node]] = {}
        self._by_sum: dict[Output, dict[stored_values.ValueSum, list[Node]]] = {}
        self.matched: set[Node] = set()
        """The constants that hold tensors of the file, and the scales and zero points beside them."""
        self._is_repeated = derivation.state != INAPPLICABLE
        self._is_edited = derivation.state == DIFFERENT
        recorded = _recorded_in(model)
        self._is_told = self._is_repeated and recorded is not None
        """True if the record tells what became of each tensor."""
        self._recorded = recorded or {}
        self._places: dict[str, list[Node]] = {}
        for layer, weights in self._recorded.items():
            for name in weights.names if layer in self._constants else ():
                self._places.setdefault(name, []).append(self._constants[layer])
        self._changes = self._find_changes(derivation.differences)

    def _find_changes(self, differences: Sequence[LayerChange]) -> dict[str, WeightCheck]:
        """The tensors of the file whose constants are not as derived."""
        tensors = {node.name: node.op.data for node in self._graph.constants}
        checks: dict[str, WeightCheck] = {}
        for change in differences:
            layer = change.layer.rpartition("/")[2] if change.layer not in self._constants else change.layer
            node = self._constants.get(layer)
            if node is None or node.op.data is None or not change.other:
                continue
            recorded = self._recorded.get(node.name)
            for name in (node.name, *node.outputs[0].names) if recorded is None else recorded.names:
                tensor = tensors.get(name)
                if tensor is not None and tensor.size == node.op.data.size:
                    checks.setdefault(name, WeightCheck(name, "changed", (node.name,), reason=", ".join(change.what)))
        return checks

    def checks(self) -> list[WeightCheck]:
        checks: dict[str, WeightCheck] = {}
        left: dict[str, tuple[Tensor, list[Node]]] = {}
        for constant in self._graph.constants:
            name, tensor = constant.name, constant.op.data
            assert tensor is not None
            if name not in self._read:
                checks[name] = WeightCheck(name, "unused")
                continue
            own = self._constants.get(name)
            nodes = [own] if own is not None else list(self._nearby(name, tensor))
            check = None
            if name not in self._changes:
                check = next(filter(None, (self._check_in(name, tensor, node) for node in nodes)), None)
                if check is None and own is not None:
                    check = self._differs(name, tensor, own)
            if check is None:
                check = self._changes.get(name) or self._from_record(name, tensor)
                left[name] = tensor, nodes
            checks[name] = check
        if self._is_edited or not self._is_told:
            for name, (tensor, nodes) in left.items():
                found = self._damaged(name, tensor, nodes)
                if found is None and not self._is_told:
                    found = self._scaled(name, tensor, nodes)
                checks[name] = found or checks[name]
        return list(checks.values())

    def _check_in(self, name: str, tensor: Tensor, node: Node) -> WeightCheck | None:
        """The check of a tensor that a constant holds, as it is or compressed; None where it does not."""
        held = node.op.data
        assert held is not None
        form = stored_values.form_of(tensor, held)
        if form is None:
            return self._compressed(name, tensor, node)
        self.matched.add(node)
        return WeightCheck(name, "converted" if form.startswith("as ") else "identical", (node.name,), form)

    def _from_record(self, name: str, tensor: Tensor) -> WeightCheck:
        """The state of a tensor that no constant holds, as the IR records it if the recorded steps were repeated."""
        into = self._into(name)
        if not self._is_repeated:
            return WeightCheck(name, "unaccounted", into)
        for node in self._places.get(name, ()):
            held, steps = node.op.data, self._recorded[node.name].steps
            if held is not None and held.size == tensor.size and SCALED in steps:
                self.matched.add(node)
                state = "compressed" if any(step.endswith(" codes") for step in steps) else "scaled"
                return WeightCheck(name, state, (node.name,), "each channel times a factor")
        return WeightCheck(name, "folded", into)

    def _differs(self, name: str, tensor: Tensor, node: Node) -> WeightCheck | None:
        """The constant that carries the tensor's name holds something else."""
        held = node.op.data
        assert held is not None
        if held.size != tensor.size or held.element_type is not tensor.element_type:
            return None  # another tensor of the same name, such as a scalar that stands for it
        return _check_changed(name, node, tensor.array(), held.array())

    def _damaged(self, name: str, tensor: Tensor, places: Sequence[Node]) -> WeightCheck | None:
        """A constant that matches no other tensor and has most values of this one, in whatever order."""
        for node in places:
            held = node.op.data
            if held is None or node in self.matched or held.size != tensor.size or held.size < 2:
                continue
            if _is_list(tensor) or self._is_computed(node):
                continue
            nearest = stored_values.converted(tensor, held)
            # Zeros say nothing: they stay zeros, whatever the others are multiplied by.
            count = 0 if nearest is None else np.count_nonzero(nearest) or nearest.size
            most = min(max(1.0, _MOST_MISSING_SHARE * count), (1 - _SAME_SHARE) * count)
            if nearest is not None and stored_values.count_missing(nearest, held.array()) <= most:
                return _check_changed(name, node, nearest, held.array())
        return None

    def _scaled(self, name: str, tensor: Tensor, places: Sequence[Node]) -> WeightCheck | None:
        """A constant of which each channel has the tensor's values times one factor, but for a few that are damaged.

        Weights that nodes of the file have scaled twice were rounded twice: many of them have no common factor.
        """
        for node in places:
            held = node.op.data
            if held is None or node in self.matched or held.size != tensor.size or len(tensor.shape) < 2:
                continue
            axes = self._channel_axes(node)
            if not axes or not (held.element_type.is_real and tensor.element_type.is_real):
                continue
            actual = held.array()
            masks = [
                find_unscaled(layout, actual, axes) for layout in stored_values.layouts(tensor.array(), actual.shape)
            ]
            mask = min(masks, key=np.count_nonzero)
            wrong = np.count_nonzero(mask)
            if wrong > _MOST_MISSING_SHARE * held.size:
                continue
            self.matched.add(node)
            if not wrong:
                return WeightCheck(name, "scaled", (node.name,), "each channel times a factor")
            reason = (
                f"{wrong} of {held.size} values are not the constant's times the factor of their channel, the first at"
                f" {np.argmax(mask)}"
            )
            return WeightCheck(name, "changed", (node.name,), "", float("nan"), reason)
        return None

    def _channel_axes(self, node: Node) -> tuple[int, ...]:
        """The axes of a constant, rounded or not, that make the output channels of a layer that reads it."""
        value = node.outputs[0]
        if len(value.uses) == 1 and self._rounded.holds(value.uses[0]):
            value = value.uses[0].outputs[0]
        return next((axes for reader in value.uses if (axes := channel_axes_of(reader, value))), ())

    def _is_computed(self, node: Node) -> bool:
        """True if an ONNX node computes the constant from its inputs, and does not only move them."""
        producers = [self._graph.computed[name].node for name in self._names.get(node.outputs[0], ())]
        return any(operator_of(producer).op_type not in MOVING for producer in producers)

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
            expected_sum = stored_values.value_sum(tensor)
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

    def _into(self, name: str) -> tuple[str, ...]:
        if name in self._places:
            return tuple(node.name for node in self._places[name])
        return tuple(dict.fromkeys(output.node.name for output in self._after.get(name, ())))

    def _compressed(self, name: str, tensor: Tensor, node: Node) -> WeightCheck | None:
        """The check of a tensor that is stored as whole numbers with scales; None where it is not.

        Most weights are within a step of their grid: otherwise they are not those of the tensor.
        """
        assert node.op.data is not None
        widening = next((user for user in node.outputs[0].uses if self._rounded.holds(user)), None)
        if widening is None or not widening.inputs[0].element_type.is_integral or node.op.data.size != tensor.size:
            return None
        try:
            (value, output), (next_value, _) = (self._decompress(widening, offset) for offset in (0.0, 1.0))
        except ModelError:
            return None
        if value.size != tensor.size or not tensor.element_type.is_real:
            return None
        step = np.maximum(np.abs(next_value.astype(np.float64) - value), np.finfo(np.float32).tiny)
        gaps = [
            np.abs(layout.astype(np.float64) - value) for layout in stored_values.layouts(tensor.array(), value.shape)
        ]
        gap = max(gaps, key=lambda gap: float(np.mean(gap <= _LARGEST_STEP * step)))
        if np.mean(gap <= _LARGEST_STEP * step) < _SAME_SHARE:
            return None
        worst = float((gap / step).max(initial=0.0))
        error = float(gap.max(initial=0.0))
        form = f"{node.outputs[0].element_type}, at most {worst:.2f} steps away"
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


def _recorded_in(model: Model) -> Mapping[str, Computed] | None:
    """What the IR records of its constants; None if it does not record that of a conversion from ONNX."""
    derivation = Derivation.of(model)
    return derivation.weights if derivation.steps and derivation.steps[0].source == "onnx" else None


def _by_sum(nodes: Sequence[Node]) -> dict[stored_values.ValueSum, list[Node]]:
    nodes_by_sum: dict[stored_values.ValueSum, list[Node]] = {}
    for node in nodes:
        if node.op.data is not None:
            nodes_by_sum.setdefault(stored_values.value_sum(node.op.data), []).append(node)
    return nodes_by_sum


def _is_list(tensor: Tensor) -> bool:
    """Axes, dimensions and the like, which a conversion computes others from."""
    return tensor.element_type.is_integral and tensor.size <= _LONGEST_LIST


def _check_changed(name: str, node: Node, tensor: Array, actual: Array) -> WeightCheck:
    expected = min(
        stored_values.layouts(tensor, actual.shape),
        key=lambda layout: int(np.count_nonzero(stored_values.bits_of(layout) != stored_values.bits_of(actual))),
    )
    expected, actual = expected.reshape(-1), actual.reshape(-1)
    unequal = stored_values.bits_of(expected) != stored_values.bits_of(actual)
    if np.mean(unequal) > 1 - _SAME_SHARE:
        missing = stored_values.count_missing(expected, actual)
        reason = f"{missing} of {expected.size} values are not among those of the constant, whatever their order"
        return WeightCheck(name, "changed", (node.name,), "in another order", 0.0, reason)
    first = int(np.argmax(unequal))
    error = stored_values.largest_gap(expected[unequal], actual[unequal])
    reason = (
        f"{int(unequal.sum())} of {expected.size} values differ, the first at {first}: "
        f"{actual[first]} instead of {expected[first]}"
    )
    return WeightCheck(name, "changed", (node.name,), "", error, reason)


_MIN_SIZE = 4
"""Channels of fewer weights have nearly any factor."""
_SLACK = 1 + 2.0**-10
"""Where a weight was rounded twice, to float32 and then to float16, it is that much further away."""


def channel_axes_of(reader: Node, value: Output) -> tuple[int, ...]:
    """The axes of weights that make an output channel of what reads them; none where they are no weights."""
    if isinstance(reader.op, MatMul1):
        if len(value.shape) != 2 or reader.inputs.count(value) != 1:
            return ()
        is_right = reader.inputs[1] is value
        return (1 - reader.op.transpose_b,) if is_right else (0 + reader.op.transpose_a,)
    axes: tuple[int, ...] = getattr(reader.op, "channel_axes", ())
    return axes if len(reader.inputs) > 1 and reader.inputs[1] is value else ()


def find_unscaled(expected: Array, actual: Array, axes: tuple[int, ...]) -> Array:
    """Return the mask of the values that are not those of ``expected`` times the factor of their channel.

    Both have the same shape, of which ``axes`` make the channels. Small channels have no factor: each value counts.
    """
    order = [*axes, *(axis for axis in range(actual.ndim) if axis not in axes)]
    count = int(np.prod([actual.shape[axis] for axis in axes]))
    channels, held = (values.transpose(order).reshape(count, -1) for values in (expected, actual))
    if held.shape[1] < _MIN_SIZE:
        return np.ones(actual.shape, bool)
    wrong = np.array([_find_outliers(channel, stored) for channel, stored in zip(channels, held)])
    return wrong.reshape([actual.shape[axis] for axis in order]).transpose(np.argsort(order))


def _find_outliers(channel: Array, held: Array) -> Array:
    """Return the mask of the values without the factor that most of the others have."""
    wide, value = channel.astype(np.float64), held.astype(np.float64)
    is_zero = wide == 0
    with np.errstate(all="ignore"):
        half = np.spacing(np.abs(held)).astype(np.float64) / 2 * _SLACK
        low, high = np.sort([(value - half) / wide, (value + half) / wide], axis=0)
    low[is_zero], high[is_zero] = -np.inf, np.inf
    # The factor that lies in most of the ranges: where they begin one more holds, where they end one less.
    bounds = np.concatenate([low, high])
    steps = np.repeat([1, -1], len(low))
    order = np.lexsort((-steps, bounds))
    factor = bounds[order][np.argmax(np.cumsum(steps[order]))]
    return np.where(is_zero, value != 0, ~((low <= factor) & (factor <= high)))
