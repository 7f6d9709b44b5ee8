"""Both sides tensor by tensor, a segment of the graph at a time.

The ONNX model is run in segments: some nodes at a time, from the values of those before. After each segment the IR's
layers up to there are computed twice, each by its own ``evaluate``: from the IR's own values, which shows the whole
difference of both sides, and from the oracle's values, which shows whether this part alone is wrong. Values are dropped
after their last reader, so that a model's activations need not fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from converter.equivalence.comparison.compare import Comparison, Errors, Tolerance, compare, errors_of
from converter.equivalence.comparison.directed import DirectedValues
from converter.equivalence.comparison.engine_faults import WrongLayer
from converter.equivalence.comparison.exact_parts import exact_tensor
from converter.equivalence.comparison.parts import Part, between
from converter.equivalence.comparison.randomness import draws
from converter.equivalence.comparison.rounded_weights import RoundedWeights
from converter.equivalence.comparison.rounding import Spread
from converter.equivalence.comparison.tolerances import Choose, strict_tolerance
from converter.equivalence.inputs.cost import byte_size, types_for_shapes
from converter.equivalence.reference.engines import Engine, engine_for
from converter.equivalence.reference.reference_model import ReferenceModel, operator_name, read_by, written_by
from converter.equivalence.reference.references import OnnxReference
from converter.onnx_file.graph import operator_of
from ir_runtime import Model, ModelError
from ir_runtime.execution.plan import layer_runner
from ir_runtime.execution.wide_floats import in_float64
from ir_runtime.graph import Array, Node, Output, element_types
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.operations.reduction import Reduction
from ir_runtime.records import record
from ir_runtime.rewriting.constant_folding import as_tuple
from ir_runtime.rewriting.submodel import extract

_SEGMENT_BYTES = 64 << 20
_SEGMENT_NODES = 1000
_PROBLEMS_SHOWN = 3
_UNKNOWN_BYTES = 1 << 20
_INDICES = (np.int32, np.int64)
_TIMES_ABSOLUTE = 10.0
"""A tensor whose largest value is less than so many absolute tolerances is compared without one."""


Histogram = tuple[float, float, list[int], list[int]]
"""The least and the greatest value, and how many values lie in each bin between them: expected, and the IR's."""


@record
class LayerDifference:
    """An inner tensor that both sides have, compared: ``layer`` and ``type`` are the IR's.

    ``comparison`` is of the whole run, and includes the differences of earlier layers. ``local`` is of this part of
    the graph alone: the layers behind the nearest tensors that both sides have are computed from the oracle's values,
    and may differ by no more than their own rounding. ``part`` names these layers, the last of which is ``layer``;
    ``node`` is the ONNX node that makes the tensor, ``histogram`` counts the values of both sides for a page.
    ``is_telling`` is false where the expected values are all alike or none is finite, so that they show little.
    """

    layer: str
    type: str
    comparison: Comparison
    local: Comparison
    node: str
    part: tuple[str, ...]
    histogram: Histogram | None = None
    is_telling: bool = True


@dataclass
class Compared:
    """Result of :class:`LayerComparison`; ``problems`` list the layers that could not be compared, and the reasons.

    ``absent`` are tensors of the ONNX model whose names no value of the IR has: they are compared within parts of
    several layers. ``bodies`` are layers with bodies, which were compared as a whole. ``in_numpy`` are layers that the
    engine cannot run alone, which NumPy computed. ``drawn`` are tensors of random numbers, of which nothing but types
    and shapes was compared; layers behind them have the reference's numbers. ``defined`` are tensors that the reference
    computes otherwise than ONNX defines them, and the IR as onnx's own evaluator. ``chosen`` are indices of keys that
    agree within rounding, in another order than the reference's: the whole run goes on with those of the reference.
    ``limits`` are layers that differ in the engine by one of its known limits alone, and how. ``ties`` are integers
    made of real numbers that rounding in float32 sends to either of two.
    """

    layers: list[LayerDifference] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    in_numpy: list[str] = field(default_factory=list)
    drawn: list[str] = field(default_factory=list)
    defined: list[str] = field(default_factory=list)
    chosen: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    ties: list[str] = field(default_factory=list)

    @property
    def is_faulty(self) -> bool:
        """True if a layer is wrong from right inputs."""
        return any(not layer.local.passed for layer in self.layers)

    @property
    def is_right(self) -> bool:
        """True if each layer could be compared, and none is wrong."""
        return not self.problems and not self.is_faulty

    @property
    def problem(self) -> str:
        """What could not be compared, in a line; empty for nothing."""
        more = " ..." if len(self.problems) > _PROBLEMS_SHOWN else ""
        return "; ".join(self.problems[:_PROBLEMS_SHOWN]) + more


def worst_of(first: Compared, second: Compared) -> Compared:
    """Two comparisons of the same models on different inputs: of each tensor the one that is further from passing."""
    others = {layer.comparison.name: layer for layer in second.layers}
    layers = [max(layer, others.pop(layer.comparison.name, layer), key=_badness) for layer in first.layers]
    texts = (
        list(dict.fromkeys([*getattr(first, name), *getattr(second, name)]))
        for name in ("problems", "in_numpy", "drawn", "defined", "chosen", "limits", "ties")
    )
    return Compared([*layers, *others.values()], first.absent or second.absent, first.bodies, *texts)


def _badness(layer: LayerDifference) -> tuple[bool, bool]:
    return not layer.local.passed, not layer.comparison.passed


@dataclass(eq=False)
class LayerComparison:
    """Comparison of every tensor of the main graph that both sides know by name, in the order of the graph."""

    reference: OnnxReference
    model: Model
    feeds: Mapping[Output, Array]
    """The values of the IR's inputs."""
    inputs: Mapping[str, Array]
    """The values of the ONNX model's inputs."""
    tolerance: Choose
    rounded: RoundedWeights
    """The IR's rounded weights."""
    is_chosen: bool = False
    """True if ``tolerance`` is the caller's, and holds for single layers, too."""
    histograms: bool = False
    """True for histograms of each tensor."""
    engine: Engine | None = None
    """What computes each part from right inputs, as far as it can run the part alone; the whole run is NumPy's."""
    directed: bool = False
    """True if layers that decide are computed on ties, bounds and the like, too."""
    without: Collection[Output] = ()
    """Values whose names are left out of account."""

    def __post_init__(self) -> None:
        self._compile_part = None if self.engine is None else self.engine.compile_part
        self._graph = self.reference.graph
        self._nodes = self.model.nodes()
        names = anchors(self._graph, self._nodes)
        self._names = {output: names[output] for output in names if output not in self.without}
        self._wrong: set[Output] = set()
        self._misnamed: set[Output] = set()
        """Values that are not those of the tensors whose names they have, as where another program moved a name with
        the scale of a normalization: what follows is right from them, and wrong from the tensors."""
        self._directed = DirectedValues(self.reference, self.run, self._names) if self.directed else None
        self._expected: dict[str, object] = dict(self.inputs)
        self._own: dict[Output, Array] = dict(self.feeds)
        self._right: dict[Output, Array] = dict(self.feeds)
        self._runners: dict[Node, Callable[..., Array | tuple[Array, ...]]] = {}
        self._compared = Compared()
        self._differences: dict[Output, LayerDifference] = {}
        self._by_segment: dict[Output, Array] = {}
        """Values that the engine computes for the tensors of a segment, from right values before it."""
        self._parts: dict[Output, Part] = {}
        self._shown = {name for names in self._names.values() for name in names}
        self._last_use: dict[str, int] = {}
        self._sizes = _sizes(self.model, self.feeds)

    def result(self) -> Compared:
        """Compare both sides, once more without misleading names where that makes each layer right.

        Raises :class:`VerificationError` or :class:`ModelError` where a side cannot be run.
        """
        compared = self._walk()
        if self._misnamed:
            again = replace(self, without=self._misnamed)._walk()
            if not again.is_faulty:
                return again
        return compared

    def _walk(self) -> Compared:
        if not self._shown:
            self._compared.problems.append("no layer carries the name of an inner tensor of the ONNX model")
            return self._compared
        needed = self._graph.needed(self._shown)
        self._compared.absent = [
            name
            for name in written_by(node for node in needed if operator_of(node).op_type != "Constant")
            if name not in self._shown
        ]
        self._compared.bodies = [node.name for node in self._nodes if node.op.subgraphs]
        segments = list(self._segments(needed))
        level_of = {name: level for level, part in enumerate(segments) for name in written_by(part)}
        self._last_use = {name: level for level, part in enumerate(segments) for name in read_by(part)}
        by_level = self._levels(level_of, len(segments))
        last_read = self._last_read(by_level)
        for level, part in enumerate(segments):
            self._run_reference(level, part)
            self._by_segment = self._run_segment(by_level[level])
            for node in by_level[level]:
                self._run_layer(node)
            self._forget(level, last_read)
        return self._compared

    def _segments(self, nodes: Sequence[Node]) -> Iterator[list[Node]]:
        """The nodes in order, in segments whose outputs have some tens of megabytes."""
        by_name = {name: self._sizes.get(output) for output, names in self._names.items() for name in names}
        part: list[Node] = []
        size = 0
        for node in nodes:
            part.append(node)
            size += sum(by_name.get(name) or _UNKNOWN_BYTES for name in written_by([node]))
            if size >= _SEGMENT_BYTES or len(part) >= _SEGMENT_NODES:
                yield part
                part, size = [], 0
        if part:
            yield part

    def _levels(self, level_of: Mapping[str, int], count: int) -> list[list[Node]]:
        """The layers that can be computed after each segment, in order."""
        levels: dict[Node, int] = {}
        ordered: list[list[Node]] = [[] for _ in range(count)]
        for node in self._nodes:
            own = [level_of.get(name, 0) for output in node.outputs for name in self._names.get(output, ())]
            levels[node] = max([levels[source.node] for source in node.inputs] + own, default=0)
            ordered[levels[node]].append(node)
            for output in node.outputs:
                for name in self._names.get(output, ()):
                    self._last_use[name] = max(levels[node], self._last_use.get(name, 0))
        return ordered

    def _last_read(self, by_level: Sequence[Sequence[Node]]) -> dict[int, list[Output]]:
        last: dict[Output, int] = {}
        for level, nodes in enumerate(by_level):
            for node in nodes:
                last.update(dict.fromkeys([*node.outputs, *node.inputs], level))
                # A part is computed again at its end, so its inputs must be kept until then.
                for output in node.outputs:
                    if output in self._names:
                        part = self._parts[output] = between(output, self._names)
                        last.update((source, level) for inner in part for source in inner.inputs)
        outputs_by_level: dict[int, list[Output]] = {}
        for output, level in last.items():
            outputs_by_level.setdefault(level, []).append(output)
        return outputs_by_level

    def _forget(self, level: int, last_read: Mapping[int, Sequence[Output]]) -> None:
        for output in last_read.get(level, ()):
            self._own.pop(output, None)
            self._right.pop(output, None)

    def _run_reference(self, level: int, part: Sequence[Node]) -> None:
        """Compute the tensors of a segment that are compared, or read later."""
        last = self._last_use
        requested = [name for name in written_by(part) if name in self._shown or last.get(name, -1) > level]
        read = read_by(part)
        feeds = {name: value for name, value in self._expected.items() if name in read}
        values = self.reference.part(part, feeds, requested)(feeds)
        self._expected = {name: value for name, value in self._expected.items() if last.get(name, -1) >= level}
        self._expected.update(values)

    def _run_layer(self, node: Node) -> None:
        if not node.outputs:
            return
        if node.inputs or node.op.data is not None:  # parameters are given
            self._evaluate(node)
        for output in node.outputs:
            for name in self._names.get(output, ()):
                self._compare(output, name)
        for output in node.outputs:
            self._choose(output)

    def _choose(self, output: Output) -> None:
        """Take the reference's indices for the whole run where the keys that they order agree, and they do not.

        Keys are the real numbers that the same ONNX node returns.
        """
        difference, value, own = self._differences.get(output), self._right.get(output), self._own.get(output)
        if difference is None or difference.comparison.passed or not difference.local.passed:
            return
        if value is None or own is None or (value.dtype, value.shape) != (own.dtype, own.shape):
            return
        name = difference.comparison.name
        returned = written_by([self._graph.computed[name].node])
        keys = [other.comparison for other in self._differences.values() if other.comparison.name in returned]
        if value.dtype in _INDICES and any(key.passed and key.element_type.startswith("float") for key in keys):
            self._own[output] = value
            self._compared.chosen.append(name)

    def _evaluate(self, node: Node) -> None:
        own = self._compute(node, self._own)
        self._own.update(zip(node.outputs, own))
        if all(self._own.get(source) is self._right.get(source) for source in node.inputs):
            self._right.update(zip(node.outputs, own))
        else:
            self._right.update(zip(node.outputs, self._compute(node, self._right)))

    def _compute(self, node: Node, values: Mapping[Output, Array]) -> tuple[Array, ...]:
        """The layer's outputs; none where it, or one before it, cannot take its inputs."""
        if any(source not in values for source in node.inputs):
            return ()
        try:
            return self.run(node, [values[source] for source in node.inputs])
        except ModelError as error:
            self._compared.problems.append(str(error))
            return ()

    def run(self, node: Node, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Compute one layer by its own ``evaluate``."""
        if node.op.data is not None:
            # Weights in a file may not be aligned, and products of such take many times as long.
            return (np.require(node.op.data.array(), requirements=["A"]),)
        if node not in self._runners:
            self._runners[node] = layer_runner(node)
        with np.errstate(all="ignore"):
            return as_tuple(self._runners[node](*inputs))

    def _compare(self, output: Output, name: str) -> None:
        expected = self._expected.get(name)
        if not isinstance(expected, np.ndarray):
            self._compared.problems.append(f"'{name}' is no tensor in the ONNX model")
            return
        if self._is_drawn(output, expected):
            self._compared.drawn.append(name)
            self._right[output] = expected
            return
        allowed = self.tolerance(expected)
        if self.rounded:
            allowed = Tolerance(allowed.relative, allowed.absolute, allowed.of_largest, float("inf"))
        part = self._parts[output]
        whole = _not_computed(name, expected, allowed)
        if output in self._own:
            whole = compare(name, expected, np.asarray(self._own[output]), allowed)
        local = _not_computed(name, expected, allowed)
        layer, operation = output.node.name, output.node.op.type
        if output in self._right:
            local = self._local(name, expected, output, part)
            wrong, limits = (None, []) if local.passed else self._wrong_in_engine(expected, output, part)
            if wrong is None and limits:
                self._compared.limits += limits
                local = replace(local, passed=True, reason="")
            layer, operation = wrong or (layer, operation)
        # Rounded weights differ from those of the ONNX nodes by more than the tolerance of a single layer.
        is_rounded = any(self.rounded.holds(node) for node in part)
        if not local.passed:
            self._wrong.add(output)
            if whole.passed:
                self._misnamed |= self._wrong.intersection(part.sources)
        if local.passed and self._directed is not None and not is_rounded:
            local = self._directed.difference(name, output, part, self._right) or local
        made_by = operator_name(self._graph.computed[name].node)
        names = tuple(node.name for node in part if node.op.data is None)
        counted = histogram(expected, self._own.get(output)) if self.histograms else None
        telling = is_telling(expected)
        difference = LayerDifference(layer, operation, whole, local, made_by, names, counted, telling)
        self._differences[output] = difference
        self._compared.layers.append(difference)
        # Later layers get the right values. Equal values stay one array, so that nothing is computed twice.
        right = self._right.get(output)
        if right is None or right.shape != expected.shape or not np.array_equal(expected, right):
            self._right[output] = expected

    def _is_drawn(self, output: Output, expected: Array) -> bool:
        """True for random numbers of the type and shape of the reference's."""
        own = self._right.get(output)
        is_alike = own is not None and (own.dtype, own.shape) == (expected.dtype, expected.shape)
        return is_alike and any(map(draws, self._parts[output]))

    def _local(self, name: str, expected: Array, output: Output, part: Part) -> Comparison:
        """The comparison of these layers alone, from right inputs.

        They may differ by no more than rounding, from the reference or from what onnx's own evaluator computes.
        """
        comparison = self._from_right_inputs(name, expected, output, part)
        if comparison.passed:
            return comparison
        defined, by_engine = self._defined(name, output, part), self._run_in_engine([output], part)
        actual = np.asarray(self._right[output]) if by_engine is None else by_engine[0]
        if defined is None or not compare(name, defined, actual, comparison.tolerance).passed:
            return comparison
        self._compared.defined.append(name)
        return replace(comparison, passed=True, reason="")

    def _defined(self, name: str, output: Output, part: Part) -> Array | None:
        """The tensor as onnx's own evaluator computes it from right inputs; None where it cannot, or is too slow."""
        if np.size(self._right[output]) > _MOST_DEFINED:
            return None
        feeds = dict(self.inputs)
        for source in part.sources:
            feeds.update(dict.fromkeys(self._names.get(source, ()), np.asarray(self._right[source])))
        nodes = self._graph.needed([name], feeds)
        if any(operator_of(node).domain not in ("", "ai.onnx") for node in nodes):
            return None
        return self.reference.define_part(nodes, feeds, name)

    def _from_right_inputs(self, name: str, expected: Array, output: Output, part: Part) -> Comparison:
        plain = np.asarray(self._right[output])
        made_by = operator_of(self._graph.computed[name].node).op_type
        strict = strict_tolerance(expected.dtype, made_by, [node.op.type for node in part], self._terms(expected, part))
        by_engine = self._by_engine(name, expected, output, part)
        if self.is_chosen or by_engine is not None:  # kernels of engines approximate functions
            strict = self.tolerance(expected)
        elif expected.dtype == np.float32 and not _is_larger_than(expected, _TIMES_ABSOLUTE * strict.absolute):
            strict = replace(strict, absolute=0.0)  # with which every result would pass
        actual = plain if by_engine is None else by_engine
        comparison = compare(name, expected, actual, strict)
        if comparison.passed:
            return comparison
        spread = Spread(part, self._right, self.run, self.rounded)
        if expected.dtype.kind in "iu" and expected.shape == actual.shape and expected.dtype == actual.dtype:
            near = spread.neighbours(output, plain)
            ties = self._around_ties(output, part)
            for bounds in filter(None, (near, ties)):
                if all(np.array_equal(side, np.clip(side, *bounds)) for side in (expected, actual)):
                    self._compared.ties += [name] if bounds is ties else []
                    return replace(comparison, passed=True, reason="")
        if comparison.max_ulps is None:
            return comparison
        wide = replace(strict, rounding=spread.of(output, plain))
        comparison = compare(name, expected, actual, wide)
        if comparison.passed or expected.dtype != np.float32:
            return comparison
        errors = self._exact_errors(name, expected, output, part, by_engine)
        if errors is None or not errors.are_alike:
            return comparison
        return replace(comparison, passed=True, reason="", errors=errors)

    def _around_ties(self, output: Output, part: Part) -> tuple[Array, Array] | None:
        """Return the integers below and above that rounding in float32 may send each element of a Convert to.

        None where no real number is converted, and where those are exact in float32, whose ties are true ties.
        """
        op = output.node.op
        if not isinstance(op, Convert1) or not output.node.inputs[0].element_type.is_real:
            return None
        exact = self._in_float64(output.node.inputs[0], part)
        if exact is None or exact.shape != self._right[output].shape or np.array_equal(exact, exact.astype(np.float32)):
            return None
        lost = _LOST_IN_FLOAT32 * float(np.abs(exact[np.isfinite(exact)]).max(initial=0.0))
        return op.evaluate(exact - lost), op.evaluate(exact + lost)

    def _in_float64(self, output: Output, part: Part) -> Array | None:
        """Return what ``part`` computes in float64 from right inputs; None where it cannot."""
        sources = part.sources
        if not sources:
            return None
        try:
            wide = in_float64(extract(self.model, sources, {output: "output"}))
            feeds = {port: _as_float64(self._right[source]) for source, port in sources.items()}
            return engine_for("numpy", wide).run(feeds)[0]
        except ModelError:
            return None

    def _exact_errors(
        self, name: str, expected: Array, output: Output, part: Part, by_engine: Array | None
    ) -> Errors | None:
        """Return the errors of these layers and of the reference in float32; None if unknown.

        The layers are computed in float64, or ``by_engine``.
        """
        exact_sources = {
            **self.inputs,
            **{shown: self._expected[shown] for shown in self._shown if shown in self._expected},
        }
        exact = exact_tensor(self._graph, name, exact_sources)
        actual = self._in_float64(output, part) if exact is not None and by_engine is None else by_engine
        if exact is None or actual is None:
            return None
        errors = errors_of(exact, actual, [expected])
        defined = self._defined(name, output, part) if errors is not None and errors.are_alike else None
        own = None if defined is None else errors_of(exact, defined, [expected])
        if defined is None or own is None or own.reference <= _WRONG * own.ir:
            return errors
        return errors_of(exact, actual, [defined])

    def _by_engine(self, name: str, expected: Array, output: Output, part: Part) -> Array | None:
        """Run ``part`` in the engine from right inputs; None for NumPy, and where it cannot run alone.

        A tensor that is right in its segment needs no run of its own.
        """
        in_segment = self._by_segment.get(output)
        if in_segment is not None and compare(name, expected, in_segment, self.tolerance(expected)).passed:
            return in_segment
        alone = self._run_in_engine([output], part)
        if alone is None and self._compile_part is not None:
            self._compared.in_numpy.append(output.node.name)
        return None if alone is None else alone[0]

    def _run_segment(self, nodes: Sequence[Node]) -> dict[Output, Array]:
        """The tensors of a segment that are compared, as the engine computes them in one run; none where it cannot."""
        outputs = [output for node in nodes for output in node.outputs if output in self._names and node.inputs]
        part = Part(dict.fromkeys(node for output in outputs for node in self._parts[output]))
        return dict(zip(outputs, self._run_in_engine(outputs, part) or ()))

    def _run_in_engine(self, outputs: Sequence[Output], part: Part) -> list[Array] | None:
        """The ``outputs`` of these layers in the engine, from right inputs; None for NumPy, and where it cannot."""
        if self._compile_part is None:
            return None
        # Devices take weights as constants alone. Those that are wrong are named before the layers that read them.
        sources = {source: port for source, port in part.sources.items() if not self._is_its_own(source)}
        # With most operations on strings OpenVINO ends the process.
        values = (*sources, *(value for node in part for value in node.outputs))
        if not sources or any(value.element_type is element_types.string for value in values):
            return None
        try:
            names = {output: f"output{number}" for number, output in enumerate(outputs)}
            engine = self._compile_part(extract(self.model, sources, names))
            return engine.run({name: np.asarray(self._right[source]) for source, name in sources.items()})
        except (ModelError, KeyError):
            return None

    def _is_its_own(self, source: Output) -> bool:
        """True for a constant with the values that the layers behind it are to get."""
        data = source.node.op.data
        return data is not None and np.array_equal(data.array(), self._right.get(source, ()))

    def _wrong_in_engine(self, expected: Array, output: Output, part: Part) -> tuple[tuple[str, str] | None, list[str]]:
        """The first of these layers that the engine alone computes wrongly, by its path and type; None for none.

        Layers that are wrong by a known limit of the engine alone are listed instead.
        ``part`` is right in NumPy, whose values inside it are those to compare with.
        """
        if (
            self._compile_part is None
            or not compare("", expected, self._right[output], self.tolerance(expected)).passed
        ):
            return None, []
        search = WrongLayer(self._compile_part, self.tolerance, self.run)
        return search.of(self.model, part, self._right), search.limits

    def _terms(self, expected: Array, part: Part) -> int:
        """Return the number of values that the reductions among these layers combine into one."""
        inputs = [self._right.get(node.inputs[0]) for node in part if isinstance(node.op, Reduction)]
        return max((np.size(value) for value in inputs if value is not None), default=1) // max(1, expected.size)


def _as_float64(value: Array) -> Array:
    return np.asarray(value, np.float64) if value.dtype.kind == "f" else np.asarray(value)


def is_telling(expected: Array) -> bool:
    """True if values of floats differ from each other, so that a wrong layer would change them; of others always."""
    if expected.dtype.kind != "f" or expected.size < 2:
        return bool(expected.dtype.kind != "f" or np.isfinite(expected).all())
    finite = expected[np.isfinite(expected)]
    return bool(finite.size and (finite != finite[0]).any())


def _is_larger_than(expected: Array, limit: float) -> bool:
    return bool(np.abs(expected[np.isfinite(expected)]).max(initial=0.0) >= limit)


_BINS = 30
_LOST_IN_FLOAT32 = 16 * 2.0**-24
"""The distance of sums of products in float32 from those in float64, as a share of the largest value of a tensor."""
_WRONG = 100.0
"""A reference whose error is so many times that of onnx's own evaluator is wrong, and no measure of rounding."""
_MOST_DEFINED = 2**20
"""Elements of the largest tensor that onnx's own evaluator is asked for, which is slow."""


def histogram(expected: Array, actual: Array | None) -> Histogram | None:
    """The histogram of the finite values of both sides; None where there are none, or they are no numbers."""
    if actual is None or expected.dtype.kind not in "fiub" or np.asarray(actual).dtype.kind not in "fiub":
        return None
    sides = [np.asarray(side).astype(np.float64).reshape(-1) for side in (expected, actual)]
    sides = [side[np.isfinite(side)] for side in sides]
    if not all(side.size for side in sides):
        return None
    low, high = min(float(side.min()) for side in sides), max(float(side.max()) for side in sides)
    if not np.isfinite(high - low):
        return None
    counts = [np.histogram(side, _BINS, (low, high if high > low else low + 1.0))[0].tolist() for side in sides]
    return low, high, counts[0], counts[1]


def _not_computed(name: str, expected: Array, allowed: Tolerance) -> Comparison:
    reason = "the layers up to here cannot take the values before them"
    return Comparison(name, False, reason, str(expected.dtype), expected.shape, 0.0, 0.0, None, None, False, allowed)


def anchors(graph: ReferenceModel, nodes: Sequence[Node]) -> dict[Output, list[str]]:
    """The values of the IR that have the names of outputs of nodes of the main graph, with these names."""
    names_by_output: dict[Output, list[str]] = {}
    for node in nodes:
        for output in node.outputs:
            names = [name for name in output.names if name in graph.computed]
            if names and not _is_declared(graph, names, node) and not _is_widened(output):
                names_by_output[output] = names
    return names_by_output


def _is_declared(graph: ReferenceModel, names: Sequence[str], node: Node) -> bool:
    """True if both sides have a constant: those are compared as weights."""
    return node.op.data is not None and all(
        operator_of(graph.computed[name].node).op_type == "Constant" for name in names
    )


def _is_widened(output: Output) -> bool:
    """True for a constant that was rounded to fewer bits, beside the name of which another program has no other."""
    return output.node.op.data is not None and all(isinstance(user.op, Convert1) for user in output.uses)


def _sizes(model: Model, feeds: Mapping[Output, Array]) -> dict[Output, int]:
    """The bytes of every value whose dimensions follow from those of ``feeds``."""
    shapes = {index: feeds[output].shape for index, output in enumerate(model.inputs)}
    types = types_for_shapes(model, shapes) or {o: o.type for node in model.nodes() for o in node.outputs}
    return {output: byte_size(tensor_type) for output, tensor_type in types.items() if tensor_type.shape.is_static}
