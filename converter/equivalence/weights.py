"""Every tensor that the ONNX file states, accounted for in the IR, bit by bit.

Outputs show only what the inputs reach: a row of an embedding that no token asks for may be wrong, and the last bits of
a weight drown in rounding. So each initializer is looked for where it belongs: in the constant that carries its name,
or else among the constants of the layers that its readers became, in the layouts that a conversion may choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, permutations

import numpy as np

from converter.equivalence.known_values import KnownValues
from converter.equivalence.layers import anchors, between
from converter.equivalence.onnx_graph import OnnxGraph
from converter.equivalence.report import WeightCheck
from converter.equivalence.rounded_weights import RoundedWeights
from ir_runtime import Model, ModelError
from ir_runtime.constant_folding import as_tuple
from ir_runtime.element_types import Array
from ir_runtime.executor import layer_runner
from ir_runtime.graph import Node, Output
from ir_runtime.rewrite import uses_of
from ir_runtime.tensor import Tensor

_MOST_PERMUTED = 5
_LARGEST_STEP = 1.01
_SAME_SHARE = 0.5
_LITTLE = 0.01
_SAMPLED = 64
_LONGEST_LIST = 64
_MOST_MISSING = 0.1
_MOVING = {"Constant", "Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten"}


def check_weights(graph: OnnxGraph, model: Model, outputs: Sequence[str]) -> tuple[WeightCheck, ...]:
    """The state of every tensor that ``graph`` states, where ``outputs`` are the tensors that the IR returns."""
    return tuple(_Accounts(graph, model, outputs).checks())


class _Accounts:
    def __init__(self, graph: OnnxGraph, model: Model, outputs: Sequence[str]) -> None:
        self._graph = graph
        self._model = model
        nodes = model.nodes()
        self._names = anchors(graph, nodes)
        self._named = {name: output for output, names in self._names.items() for name in names}
        self._rounded = RoundedWeights.of(model)
        self._uses = uses_of(model)
        self._known = KnownValues(model)
        self._constants: dict[str, Node] = {}
        for part in model.parts():
            for node in part.nodes:
                if node.op.data is not None:
                    for name in (node.name, *node.outputs[0].names):
                        self._constants.setdefault(name, node)
        needed = graph.needed(outputs)
        self._read = set(outputs).union(*(graph.reads[index] for index in needed))
        self._after = self._first_named(needed)
        self._held: dict[Output, list[Node]] = {}
        self._alike: dict[Output, dict[_Sum, list[Node]]] = {}
        self._claimed: set[Node] = set()

    def checks(self) -> list[WeightCheck]:
        found: dict[str, WeightCheck] = {}
        left: dict[str, tuple[Tensor, list[Node]]] = {}
        for name, tensor in self._graph.constants():
            if name not in self._read:
                found[name] = WeightCheck(name, "unused")
                continue
            own = self._constants.get(name)
            check = self._first(name, tensor, [own] if own is not None else self._nearby(name, tensor))
            check = check or (self._differs(name, tensor, own) if own is not None else None)
            if check is None:
                left[name] = tensor, [own] if own is not None else list(self._nearby(name, tensor))
            found[name] = check or WeightCheck(name, "folded", self._into(name))
        into = {name: self._into(name) for name, (tensor, _) in left.items() if tensor.element_type.is_real}
        times = Counter(layer for layers in into.values() for layer in layers)
        for name, (tensor, places) in left.items():
            # Of weights that nothing else was folded into, a constant that is near can only be a damaged one.
            alone = name in into and all(times[layer] == 1 for layer in into[name])
            found[name] = self._damaged(name, tensor, places, alone=alone) or found[name]
        return list(found.values())

    def _first(self, name: str, tensor: Tensor, places: Iterable[Node]) -> WeightCheck | None:
        for node in places:
            held = node.op.data
            assert held is not None
            form = _form(tensor, held)
            if form is not None:
                self._claimed.add(node)
                state = "converted" if form.startswith("as ") else "identical"
                return WeightCheck(name, state, (node.name,), form)
            packed = self._compressed(name, tensor, node)
            if packed is not None:
                self._claimed.add(node)
                return packed
        return None

    def _differs(self, name: str, tensor: Tensor, node: Node) -> WeightCheck | None:
        """The constant that carries the tensor's name holds something else."""
        held = node.op.data
        assert held is not None
        if held.size != tensor.size or held.element_type is not tensor.element_type:
            return None  # another tensor of the same name, such as a scalar that stands for it
        return _changed(name, node, tensor.array(), held.array())

    def _damaged(self, name: str, tensor: Tensor, places: Sequence[Node], *, alone: bool) -> WeightCheck | None:
        """A constant that nobody else accounts for and that is the tensor but for some values.

        With ``alone`` one that is near counts, too.
        """
        for node in places:
            held = node.op.data
            if held is None or node in self._claimed or held.size != tensor.size or held.size < 2:
                continue
            if _is_list(tensor) or self._is_computed(node):
                continue
            alike = held.element_type is tensor.element_type
            if not alike and not (held.element_type.is_real and tensor.element_type.is_real):
                continue
            actual = held.array()
            with np.errstate(all="ignore"):
                nearest = tensor.array().astype(actual.dtype)
            expected = _layout(nearest, actual)
            if expected is not None and (_mostly(expected, actual) or (alone and _near(expected, actual))):
                return _changed(name, node, expected, actual)
            missing = _not_among(nearest, actual)
            if held.size >= _SAMPLED and missing <= held.size * _MOST_MISSING:
                reason = f"{missing} of {held.size} values are not among those of the constant, whatever their order"
                return WeightCheck(name, "changed", (node.name,), "in another order", 0.0, reason)
        return None

    def _is_computed(self, node: Node) -> bool:
        """Whether the constant is what an ONNX node makes of its inputs, other than to move them."""
        made = [self._graph.producer[name] for name in self._names.get(node.outputs[0], ())]
        return any(self._graph.nodes[index].op_type not in _MOVING for index in made)

    def _nearby(self, name: str, tensor: Tensor) -> Iterator[Node]:
        """The constants of the layers that the readers of ``name`` became, those with the same elements first."""
        seen: set[Node] = set()
        for nodes in self._groups(name, tensor):
            for node in nodes:
                if node not in seen:
                    seen.add(node)
                    yield node

    def _groups(self, name: str, tensor: Tensor) -> Iterator[list[Node]]:
        outputs = self._after.get(name, ())
        if any(len(self._held_by(output)) > _MOST_AT_ONCE for output in outputs):
            wanted = _sum(tensor)
            for output in outputs:
                if output not in self._alike:
                    self._alike[output] = _by_sum(self._held_by(output))
                yield self._alike[output].get(wanted, [])
        for output in outputs:
            yield self._held_by(output)

    def _held_by(self, output: Output) -> list[Node]:
        """The constants between ``output`` and the nearest named values before it, those of bodies too."""
        if output not in self._held:
            layers = between(output, self._names)
            inner = (node for layer in layers for sub in layer.op.subgraphs for node in sub.body.nodes())
            self._held[output] = [node for node in chain(layers, inner) if node.op.data is not None]
        return self._held[output]

    def _first_named(self, needed: Sequence[int]) -> dict[str, dict[Output, None]]:
        """For each tensor that a node reads: the first values of the IR that depend on it and carry a name, in order.

        Nodes are gone through once, from the last to the first.
        """
        found: dict[str, dict[Output, None]] = {}
        for index in reversed(needed):
            after: dict[Output, None] = {}
            for made in self._graph.nodes[index].output:
                after.update({self._named[made]: None} if made in self._named else found.get(made, {}))
            for name in self._graph.reads[index]:
                found[name] = {**after, **found[name]} if name in found else after
        return found

    def _into(self, name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(output.node.name for output in self._after.get(name, ())))

    def _compressed(self, name: str, tensor: Tensor, node: Node) -> WeightCheck | None:
        """Whole numbers with scales: how far what they stand for is from the tensor."""
        assert node.op.data is not None
        widening = next((user for user in self._uses.get(node.outputs[0], ()) if self._rounded.holds(user)), None)
        if widening is None or not widening.inputs[0].element_type.is_integral or node.op.data.size != tensor.size:
            return None
        try:
            value, moved = (self._unfolded(widening, offset) for offset in (0.0, 1.0))
        except ModelError:
            return None
        layout = _layout(tensor.array(), value)
        if layout is None:
            return None
        apart = np.abs(layout.astype(np.float64) - value)
        step = np.abs(moved.astype(np.float64) - value)
        worst = float((apart / np.maximum(step, np.finfo(np.float32).tiny)).max(initial=0.0))
        error = float(apart.max(initial=0.0))
        form = f"{node.outputs[0].element_type}, at most {worst:.2f} steps away"
        if worst > _LARGEST_STEP:
            return WeightCheck(name, "changed", (node.name,), form, error, f"a weight is {worst:.3g} steps away")
        return WeightCheck(name, "compressed", (node.name,), form, error)

    def _unfolded(self, widening: Node, offset: float) -> Array:
        """What the layers behind compressed weights make of them, all codes moved by ``offset``."""
        moving: Output = widening.outputs[0]
        stored = widening.inputs[0].node.op.data
        assert stored is not None
        value = stored.array().astype(moving.element_type.dtype) + moving.element_type.dtype.type(offset)
        while True:
            users = self._uses.get(moving, ())
            if len(users) != 1 or len(users[0].outputs) != 1:
                return value
            inputs = [value if s is moving else self._known.value(s) for s in users[0].inputs]
            if any(one is None for one in inputs):
                return value
            value = as_tuple(layer_runner(users[0])(*inputs))[0]
            moving = users[0].outputs[0]


_Sum = tuple[str, int, int]
_MOST_AT_ONCE = 4


def _by_sum(nodes: Sequence[Node]) -> dict[_Sum, list[Node]]:
    found: dict[_Sum, list[Node]] = {}
    for node in nodes:
        if node.op.data is not None:
            found.setdefault(_sum(node.op.data), []).append(node)
    return found


def _sum(tensor: Tensor) -> _Sum:
    """What tensors of the same elements have in common, in whatever order these are."""
    bits = _bits(tensor.array()) if tensor.element_type.bits else np.zeros(0, np.uint8)
    return tensor.element_type.name, tensor.size, int(bits.sum(dtype=np.uint64))


def _mostly(expected: Array, actual: Array) -> bool:
    """Whether one is the other but for some values."""
    return bool(np.mean(_bits(expected) == _bits(actual)) >= _SAME_SHARE)


def _near(expected: Array, actual: Array) -> bool:
    """Whether most values differ by a little."""
    if expected.dtype.kind != "f" or not expected.any():
        return False
    with np.errstate(all="ignore"):
        near = np.abs(actual.astype(np.float64) - expected) <= _LITTLE * np.abs(expected.astype(np.float64))
    return bool(np.mean(near) >= _SAME_SHARE)


def _not_among(expected: Array, actual: Array) -> int:
    """How many of the expected values the other array does not have, each counted as often as it occurs."""
    ours, times = np.unique(_bits(expected), return_counts=True)
    theirs, there = np.unique(_bits(actual), return_counts=True)
    _, left, right = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    return int(expected.size - np.minimum(times[left], there[right]).sum())


def _is_list(tensor: Tensor) -> bool:
    """Axes, extents and the like, which a conversion computes others from."""
    return tensor.element_type.is_integral and tensor.size <= _LONGEST_LIST


def _changed(name: str, node: Node, expected: Array, actual: Array) -> WeightCheck:
    expected, actual = expected.reshape(-1), actual.reshape(-1)
    unequal = _bits(expected) != _bits(actual)
    first = int(np.argmax(unequal))
    with np.errstate(all="ignore"):
        gaps = np.abs(expected[unequal].astype(np.float64) - actual[unequal].astype(np.float64))
    error = float(np.nanmax(gaps)) if np.isfinite(gaps).any() else float("nan")
    reason = (
        f"{int(unequal.sum())} of {expected.size} values differ, the first at {first}: "
        f"{actual[first]} instead of {expected[first]}"
    )
    return WeightCheck(name, "changed", (node.name,), "", error, reason)


def _form(tensor: Tensor, held: Tensor) -> str | None:
    """How ``held`` holds the values of ``tensor``: empty for as they are; None where it does not."""
    if tensor.element_type is held.element_type and tensor.size == held.size:
        if _same_bytes(tensor, held):
            return "" if tensor.shape == held.shape else "reshaped"
        if not tensor.element_type.bits:
            return None
        return _reordered(tensor.array(), held.array())
    if not tensor.element_type.bits or not held.element_type.bits or not tensor.size or not held.size:
        return None
    expected, actual = tensor.array(), held.array()
    if tensor.element_type is held.element_type:
        return _of_other_size(expected, actual)
    if tensor.size != held.size:
        return None
    with np.errstate(all="ignore"):
        nearest = expected.astype(actual.dtype)
        exact = tensor.element_type.is_real or np.array_equal(nearest.astype(expected.dtype), expected)
        shift = _shift(expected, actual)
    if shift:
        return f"as {held.element_type}, shifted by {shift}"
    if not exact or (tensor.element_type.is_real and not held.element_type.is_real):
        return None
    if np.array_equal(_bits(nearest), _bits(actual)):
        return f"as {held.element_type}"
    order = _reordered(nearest, actual)
    return None if order is None else f"as {held.element_type}, {order}"


def _same_bytes(tensor: Tensor, held: Tensor) -> bool:
    if tensor.sample() != held.sample() and tensor.span() is not None and held.span() is not None:
        return False
    left, right = _pieces(tensor), _pieces(held)
    return all(a == b for a, b in zip(left, right))


_PIECE = 1 << 20


def _pieces(tensor: Tensor) -> Iterator[bytes]:
    """The bytes in pieces of one size."""
    rest = b""
    for chunk in tensor.chunks():
        rest = rest + bytes(chunk) if rest else bytes(chunk)
        whole = len(rest) - len(rest) % _PIECE
        for start in range(0, whole, _PIECE):
            yield rest[start : start + _PIECE]
        rest = rest[whole:]
    yield rest


def _reordered(expected: Array, actual: Array) -> str | None:
    found = _layout(expected, actual, only_equal=True)
    if found is not None:
        return "transposed"
    return "in another order" if np.array_equal(np.sort(_bits(expected)), np.sort(_bits(actual))) else None


def _of_other_size(expected: Array, actual: Array) -> str | None:
    """One number that stands for many, or a part of a larger constant."""
    few, many = sorted([_bits(expected), _bits(actual)], key=len)
    if (few == few[0]).all() and (many == few[0]).all():
        return "one number for all"
    if len(few) > 1 and actual.size > expected.size:
        at = np.flatnonzero(many[: len(many) - len(few) + 1] == few[0])[:_SAMPLED]
        if any(np.array_equal(many[start : start + len(few)], few) for start in at.tolist()):
            return "part of a larger constant"
    return None


def _shift(expected: Array, actual: Array) -> int:
    """By how much all whole numbers are moved: u8 as i8, for one."""
    if expected.dtype.kind not in "iu" or actual.dtype.kind not in "iu" or expected.size != actual.size:
        return 0
    apart = np.unique(actual.reshape(-1).astype(np.int64) - expected.reshape(-1).astype(np.int64))
    return int(apart[0]) if len(apart) == 1 else 0


def _layout(expected: Array, actual: Array, *, only_equal: bool = False) -> Array | None:
    """``expected`` in the order of the axes in which it is nearest to ``actual``, in the latter's shape.

    With ``only_equal`` None where no order makes both equal, bit by bit.
    """
    if expected.size != actual.size:
        return None
    found: Array | None = None
    least = float("inf")
    for axes in _orders(expected):
        turned = expected.transpose(axes)
        if only_equal:
            if np.array_equal(_bits(turned.flat[:_SAMPLED]), _bits(actual.flat[:_SAMPLED])) and (
                np.array_equal(_bits(turned), _bits(actual))
            ):
                return turned.reshape(actual.shape)
            continue
        made = turned.reshape(actual.shape)
        with np.errstate(all="ignore"):
            apart = float(np.nanmax(np.abs(made.astype(np.float64) - actual.astype(np.float64)), initial=0.0))
        if apart < least:
            found, least = made, apart
    return found


def _orders(array: Array) -> Iterator[tuple[int, ...]]:
    if array.ndim > _MOST_PERMUTED:
        yield tuple(range(array.ndim))
        return
    yield from permutations(range(array.ndim))


def _bits(array: Array) -> Array:
    """The elements as whole numbers, flat: NaN equals itself, and -0 is not 0."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat if flat.dtype.kind in "OUSTb" else flat.view(f"u{flat.dtype.itemsize}")
