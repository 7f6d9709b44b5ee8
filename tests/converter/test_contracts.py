"""Every pass and rule keeps its contract: the numbers before it and after it, layer by layer as operations define them.

The models are those of the other tests: idioms and near misses, the probes of rules, typical models. Their inputs are
random, directed (ties, bounds, equal operands, zeros of both signs, denormals), large, not finite, and empty. The
bound is that of :class:`~ir_runtime.rewriting.contracts.Contract`, measured in float64: what results change by where
single elements of the values of a form change by one unit in the last place, summed.
"""

from __future__ import annotations

import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import converter
from converter.passes.registry import passes
from converter.states.stateless import make_stateless
from converter.targets.registry import RULES, openvino_cpu
from ir_runtime import Model, ModelError
from ir_runtime.graph import Node, Output
from ir_runtime.graph.model import SubGraph
from ir_runtime.graph.operation import Runner
from ir_runtime.rewriting.contracts import IN_RANGE, Contract
from ir_runtime.rewriting.pipeline import Pass
from tests.converter.idioms import rows
from tests.converter.idioms.graphs import Graph, Idiom, NearMiss
from tests.converter.option_models import MODELS, feeds_for
from tests.converter.test_shared_weights import tied
from tests.fuzz.test_pass_orders import translated
from tests.language_models.decoders import Decoder
from tests.targets import arithmetic_layers, probes, speed_probes, test_releases

Array = np.ndarray[Any, Any]
Values = dict[Output, Array]
FLOATS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64), np.dtype(ml_dtypes.bfloat16))
TYPES = (np.float32, np.float16, np.float64)
PIPELINES = (passes, *RULES)
STEPS = [(step, pipeline) for pipeline in PIPELINES for step in pipeline.all()]
CONTRACTS = {name: contract for pipeline in PIPELINES for name, contract in pipeline.contracts.items()}
_ENLARGED = 1024
"""By how much float64 values change, which nothing wider shows the change of a single unit of."""


# --- models ---


@dataclass(frozen=True)
class Case:
    """A model and its inputs; ``is_free`` where any numbers will do for these, and any size of the first dimension."""

    name: str
    build: Callable[[], onnx.ModelProto]
    feeds: Mapping[str, Array]
    is_free: bool = False


@dataclass(frozen=True)
class Change:
    """A model right before and right after one pass."""

    case: Case
    before: Model
    after: Model


def written(name: str, row: Idiom | NearMiss, dtype: Any, seed: int) -> Case:
    graph = Graph(dtype)
    last = row.build(graph, random.Random(seed))
    is_dynamic = bool(seed % 2)
    is_free = is_dynamic and row.may_be_dynamic
    return Case(f"{name}, {np.dtype(dtype)}", lambda: graph.model(row, is_dynamic, last), row.values(dtype), is_free)


def cases(is_full: bool) -> Iterator[Case]:
    for name, row in rows("IDIOMS").items():
        for seed in range(4 if is_full else 2):
            for dtype in TYPES if is_full else (TYPES[(seed + zlib.crc32(name.encode())) % 3],):
                if dtype in row.dtypes_of_model:
                    yield written(name, row, dtype, seed)
    for name, row in rows("NEAR_MISSES").items():
        for seed in range(4 if is_full else 1):
            yield written(name, row, row.dtype, seed)
    for probe in (*probes.ALL, *test_releases.RULED):
        model, feeds = probe.build()
        yield Case(str(probe), lambda model=model: model, feeds)
    for plain in arithmetic_layers.ROWS:
        model, feeds, _ = plain.model()
        yield Case(str(plain), lambda model=model: model, feeds)
    for speed in speed_probes.ROWS:
        model = speed.build()
        yield Case(f"speed of {speed}", lambda model=model: model, whole_numbers(model))
    for name, build in MODELS.items():
        yield Case(name, build, feeds_for(build(), {"n": 2, "s": 6, "h": 24, "w": 32}))
    yield Case("tied weights", lambda: tied(1024, True), {"ids": np.array([[0, 3, 1, 1023, 7]])})


def whole_numbers(model: onnx.ModelProto) -> dict[str, Array]:
    generator = np.random.default_rng(0)
    feeds = {}
    for value in model.graph.input:
        shape = [dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        feeds[value.name] = generator.integers(0, 255, shape).astype(dtype)
    return feeds


@cache
def changes(is_full: bool) -> Mapping[str, list[Change]]:
    """What each pass changes, by its name."""
    result: dict[str, list[Change]] = defaultdict(list)
    with pytest.MonkeyPatch.context() as patch:
        for case in cases(is_full):
            try:
                model = translated(case.build(), patch)
            except converter.ConversionError:
                continue  # a row about what is refused
            for step, pipeline in STEPS:
                if not needs(step, model):
                    continue
                after = model.clone()
                if pipeline.run(after, [step]):
                    result[step.name].append(Change(case, model, after))
                    model = after
    result["sliding_windows"].append(window())
    return result


def needs(step: Pass, model: Model) -> bool:
    """True if the model has an operation that the pass looks for."""
    names = {cls.__name__ for part in model.parts() for operation in part.operations for cls in operation.__mro__}
    return step.entry.operations is None or not names.isdisjoint(step.entry.operations)


def window() -> Change:
    """The mask of a window, in front of a cache."""
    decoder = Decoder("spelled", window=8)
    before = converter.convert_model(decoder.build(), stateful=True, target="any")
    after = before.clone()
    (rule,) = [step for step in openvino_cpu.all() if step.name == "sliding_windows"]
    assert openvino_cpu.run(after, [rule])
    make_stateless(before)
    make_stateless(after)
    generator = np.random.default_rng(0)
    feeds: dict[str, Array] = {"input_ids": np.arange(12)[None], "attention_mask": np.ones((1, 17), np.int64)}
    feeds["position_ids"] = np.arange(5, 17)[None]
    feeds |= {name: generator.normal(size=(1, 2, 5, 16)).astype(np.float32) for name in decoder.caches}
    return Change(Case("a window", decoder.build, feeds), before, after)


# --- values ---

SIZES = np.array([0, 5e-324, 1e-45, 6e-8, 2**-14, 1e-3, 0.1, 0.25, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 6, 8, 88, 1000])
NUMBERS = np.concatenate([SIZES, -SIZES])
NOT_FINITE = np.concatenate([NUMBERS, np.repeat([np.inf, -np.inf, np.nan], 5)])


def directed(value: Array, generator: np.random.Generator) -> Array:
    return generator.choice(NUMBERS, value.shape)


def equal(value: Array, generator: np.random.Generator) -> Array:
    return np.full(value.shape, generator.choice(NUMBERS))


def not_finite(value: Array, generator: np.random.Generator) -> Array:
    return generator.choice(NOT_FINITE, value.shape)


def large(value: Array, generator: np.random.Generator) -> Array:
    most = np.log10(float(ml_dtypes.finfo(value.dtype).max))
    return generator.choice([-1, 1], value.shape) * 10 ** generator.uniform(-3, min(most, 38), value.shape)


FILLS: Mapping[str, Callable[[Array, np.random.Generator], Array]] = {
    "as in the row": lambda value, generator: value,
    "directed": directed,
    "equal": equal,
    "not finite": not_finite,
    "large": large,
}


def inputs_of(case: Case) -> Iterator[tuple[str, dict[str, Array]]]:
    """The inputs by name, with what they are."""
    for name, fill in FILLS.items():
        generator = np.random.default_rng(7)
        yield (
            name,
            {
                port: fill(value, generator).astype(value.dtype) if value.dtype in FLOATS else value
                for port, value in case.feeds.items()
            },
        )
    first = next(iter(case.feeds.values()))
    if case.is_free and len(case.feeds) == 1 and first.dtype == np.float16:
        every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
        count = -(-every.size // (first.size // len(first)))
        yield "every float16", {port: np.resize(every, (count, *first.shape[1:])) for port in case.feeds}
    for size in (0, 1) if case.is_free and first.ndim else ():
        yield (
            f"batch of {size}",
            {port: value[:size] if value.shape[:1] == first.shape[:1] else value for port, value in case.feeds.items()},
        )


def fed(model: Model, feeds: Mapping[str, Array]) -> Values:
    values = {}
    for node in model.parameters:
        (name,) = {*node.outputs[0].names, node.name} & set(feeds)
        values[node.outputs[0]] = feeds[name]
    return values


# --- evaluation ---


def evaluate(model: Model, feeds: Values, *, wide: bool = False, nudges: Values | None = None) -> Values:
    """Every value of a model as the operations define it; ``wide`` in float64, with ``nudges`` added to some."""

    def body(sub: SubGraph) -> Runner:
        def run(arguments: Any) -> list[Array]:
            inner = evaluate(sub.body, dict(zip(sub.body.inputs, arguments)))
            return [inner[result.inputs[0]] for result in sub.body.results]

        return run

    def results_of(node: Node) -> tuple[Array, ...]:
        if node.op.role == "parameter":
            return (feeds[node.outputs[0]],)
        if node.op.data is not None:
            return (node.op.data.array(),)
        inputs = [values[source] for source in node.inputs]
        if node.op.subgraphs:
            return tuple(node.op.execute([body(sub) for sub in node.op.subgraphs], inputs))
        result = node.op.evaluate(*inputs)
        return result if isinstance(result, tuple) else (result,)

    values: Values = {}
    for node in (node for node in model.nodes() if node.op.role != "result"):
        for output, value in zip(node.outputs, map(np.asarray, results_of(node))):
            value = value.astype(np.float64) if wide and value.dtype in FLOATS else value
            values[output] = value if nudges is None or output not in nudges else value + nudges[output]
    return values


def results(model: Model, values: Values) -> list[Array]:
    return [values[result.inputs[0]] for result in model.results]


def last_places(output: Output, value: Array) -> Array:
    """One unit in the last place of each element; of scalar constants at least that of float32."""
    if value.dtype == np.float64 and output.node.op.data is not None and value.size == 1:
        value = value.astype(np.float32)
    if value.dtype == ml_dtypes.bfloat16:
        return np.abs(value.astype(np.float64)) * 2.0**-7
    return np.spacing(np.abs(value)).astype(np.float64)


def is_elementwise(model: Model) -> bool:
    return all(node.op.elementwise for node in model.nodes() if node.inputs and node.op.role != "result")


def allowances(model: Model, feeds: Values, values: Values, at_once: bool) -> list[Array]:
    """For each result the sum of what one unit in the last place of each value changes, to the first order.

    With ``at_once`` all elements of a value change together, which gives less.
    """
    exact = results(model, evaluate(model, feeds, wide=True))
    totals = [np.zeros(value.shape) for value in exact]
    for output, value in values.items():
        if value.dtype not in FLOATS:
            continue
        factor = _ENLARGED if value.dtype == np.float64 else 1
        units = last_places(output, value) * factor
        # Elements of elementwise layers are independent of each other.
        is_independent = is_elementwise(model) and all(value.shape == total.shape for total in totals)
        for place in [np.s_[...]] if at_once or is_independent else np.ndindex(value.shape):
            nudge = np.zeros(value.shape)
            nudge[place] = units[place]
            changed = results(model, evaluate(model, feeds, wide=True, nudges={output: nudge}))
            for total, one, other in zip(totals, changed, exact):
                if one.dtype == np.float64:  # an exponent of 2 alone has powers of negative numbers
                    difference = np.abs(one - other) / factor
                    total += np.where(np.isfinite(difference), difference, 0)
    return totals


def defined_places(model: Model, values: Values, shape: tuple[int, ...]) -> Any:
    """Where in a result of this shape no value of the model is infinite or NaN: a mask of an elementwise model."""
    finite = [np.isfinite(value.astype(np.float64)) for value in values.values() if value.dtype in FLOATS]
    if is_elementwise(model):
        return np.all(np.broadcast_arrays(*finite, np.ones(shape, bool)), axis=0)
    return np.full(shape, all(map(np.all, finite)))


def size_of(model: Model) -> int:
    return sum(1 for node in model.nodes() if node.inputs)


# --- the contract ---


def check(contract: Contract, change: Change, feeds: Mapping[str, Array], label: str) -> float:
    """Assert that a contract holds for these inputs; how many ulps it needs."""
    before, after = change.before, change.after
    inputs = fed(before, feeds), fed(after, feeds)
    with np.errstate(all="ignore"):
        try:
            first = evaluate(before, inputs[0])
        except (ModelError, ValueError):
            return 0  # the model does not take a batch of this size
        values = first, evaluate(after, inputs[1])
        pairs = list(zip(results(before, values[0]), results(after, values[1]), strict=True))
        assert all(one.dtype == two.dtype and one.shape == two.shape for one, two in pairs), label
        if contract.is_exact:
            assert all(is_same(contract, one, two) for one, two in pairs), label
            return 0
        defined = [defined_places(before, values[0], one.shape) for one, _ in pairs]
        if all(np.array_equal(one[places], two[places]) for places, (one, two) in zip(defined, pairs)):
            return 0
        longer = size_of(after) > size_of(before)
        allowed = allowances((before, after)[longer], inputs[longer], values[longer], bool(contract.steps))
    most = 0.0
    for (one, two), bound, places in zip(pairs, allowed, defined):
        if one.dtype not in FLOATS:
            assert contract.steps or np.array_equal(one[places], two[places]), label
            continue
        differences, bound = np.abs(one[places].astype(np.float64) - two[places]), bound[places]
        if contract.steps:
            assert (differences <= contract.steps * step_of(one) + contract.ulps * bound).all(), label
            continue
        assert np.isfinite(differences).all(), label
        needed = float((differences / np.maximum(bound, np.finfo(np.float64).tiny)).max(initial=0))
        assert needed <= contract.ulps, f"{label}: needs {needed:.3g} ulps"
        most = max(most, needed)
    return most


def is_same(contract: Contract, one: Array, two: Array) -> bool:
    if one.dtype not in FLOATS:
        return np.array_equal(one, two)
    one, two = one.astype(np.float64), two.astype(np.float64)
    signs = contract.keeps_signed_zeros and not np.array_equal(np.signbit(one)[one == 0], np.signbit(two)[one == 0])
    return np.array_equal(one, two, equal_nan=True) and not signs


def step_of(values: Array) -> float:
    """The step of values that were quantized last: the least difference of two of them, beyond rounding."""
    gaps = np.diff(np.unique(values.astype(np.float64)))
    return float(gaps[gaps > 1e-5 * np.abs(values).max()].min(initial=np.inf))


def is_in_domain(contract: Contract, fill: str) -> bool:
    return contract.domain != IN_RANGE or fill not in ("large", "not finite")


@pytest.mark.sample(every=1)
@pytest.mark.parametrize("name", CONTRACTS)
def test_a_pass_keeps_its_contract(name: str, request: pytest.FixtureRequest) -> None:
    contract, is_full = CONTRACTS[name], request.config.getoption("--full")
    own = changes(is_full)[name]
    assert own, f"no model shows what the pass '{name}' changes"
    for change in own:
        if contract.steps and not change.case.name.startswith("speed of"):
            continue  # a step in the middle of a model has other effects
        if contract.ulps and change.case.name in MODELS:
            continue  # changing each element by itself takes minutes
        for fill, feeds in inputs_of(change.case):
            if fill == "every float16" and not is_elementwise(change.before):
                continue
            if contract.ulps and fill in ("equal", "large") and not (is_full or is_elementwise(change.before)):
                continue  # a second each
            if is_in_domain(contract, fill):
                check(contract, change, feeds, f"{name}, {change.case.name}, {fill}")
