"""Every pass and rule keeps its contract: the numbers before it and after it, layer by layer as operations define them.

The models are those of the other tests: idioms and near misses, the probes of rules, typical models. Their inputs are
random, directed (ties, bounds, equal operands, zeros of both signs, denormals), large, not finite, and empty. The
bound is that of :class:`~ir_runtime.rewriting.contracts.Contract`, measured in float64: what results change by where
single elements of the values of a form change by one unit in the last place, summed.
"""

from __future__ import annotations

import itertools
import zlib
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import converter
from converter.equivalence.comparison.rounding import ROUNDING_TO_STEPS
from converter.equivalence.derivation.contracts import contracts_of, contracts_text
from converter.passes.decomposition.registry import CONTRACT, DECOMPOSITIONS, decompose_layers
from converter.passes.derivation import Derivation, Step
from converter.passes.registry import passes
from converter.passes.states.stateless import make_stateless
from converter.targets.registry import RULES, openvino_cpu
from ir_runtime import Model, ModelError
from ir_runtime.graph import Node, Output
from ir_runtime.graph.model import SubGraph
from ir_runtime.graph.operation import Runner
from ir_runtime.rewriting.contracts import EXACT, FUSED, IN_RANGE, Contract
from tests.converter.language_models.decoders import Decoder
from tests.converter.optimization.models import fed, parse
from tests.converter.option_models import MODELS, feeds_for
from tests.converter.targets import probes
from tests.converter.targets.models import RULED, SLOW
from tests.converter.to_onnx.graphs import model_of
from tests.engines import translated
from tests.rows.formula import Idiom, all_idioms
from tests.rows.layer import Layer
from tests.rows.onnx.matmul import tied
from tests.rows.table import layer_table

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
    """A model and its inputs; ``is_free`` where the first dimension of these may have any size."""

    name: str
    build: Callable[[], onnx.ModelProto]
    feeds: Mapping[str, Array]
    is_free: bool = False
    takes_integers: bool = False
    """True if integers of the inputs may have any value but 0, which may be a divisor."""


@dataclass(frozen=True)
class Change:
    """A model right before and right after one pass."""

    case: Case
    before: Model
    after: Model


def written(name: str, row: Idiom, dtype: Any, seed: int) -> Case:
    is_free = bool(seed % 2) and row.may_be_dynamic
    return Case(f"{name}, {np.dtype(dtype)}", lambda: row.model(seed, dtype), row.values(dtype), is_free)


def cases(is_full: bool) -> Iterator[Case]:
    for name, row in all_idioms().items():
        for seed, dtype in itertools.product(range(4 if is_full else 2), TYPES):
            is_in_turn = dtype is TYPES[(seed + zlib.crc32(name.encode())) % 3]
            if dtype in row.types and (is_full or is_in_turn):
                yield written(name, row, dtype, seed)
    for name, row in all_idioms("NEAR_MISSES").items():
        yield from (written(name, row, row.types[0], seed) for seed in range(4 if is_full else 1))
    for probe in (*probes.ALL, *RULED):
        takes_integers = probe in probes.ARITHMETIC
        yield Case(str(probe), lambda row=probe.row: row.model, probe.row.feeds, takes_integers=takes_integers)
    for speed in SLOW:
        yield Case(f"speed of {speed}", speed.build, fed(speed.build()))
    for scales in (0.05, [0.25, 0.1, 3.0]):
        values = np.random.default_rng(1).normal(size=(2, 3, 8)).astype(np.float32)
        yield Case(f"quantized with scales {scales}", lambda scales=scales: quantized(scales), {"x": values})
    for name, build in MODELS.items():
        yield Case(name, build, feeds_for(build(), {"n": 2, "s": 6, "h": 24, "w": 32}))
    yield Case("tied weights", lambda: tied(1024, True), {"ids": np.array([[0, 3, 1, 1023, 7]])})


def quantized(scales: Any) -> onnx.ModelProto:
    """Floats that are quantized and brought back, with one scale or with one for each channel."""
    values = {"s": np.float32(scales), "z": np.full(np.shape(scales), 7, np.uint8)}
    return parse("""g (float[n, 3, 8] x) => (float[n, 3, 8] y) {
        q = QuantizeLinear <axis = 1> (x, s, z) y = DequantizeLinear <axis = 1> (q, s, z) }""", **values)  # fmt: skip


@cache
def changes(is_full: bool) -> Mapping[str, list[Change]]:
    """What each pass changes, by its name."""
    result: dict[str, list[Change]] = defaultdict(list)
    with pytest.MonkeyPatch.context() as patch:
        for case in cases(is_full):
            for name, change in changes_of(case, patch):
                result[name].append(change)
    result["sliding_windows"].append(window())
    return result


def changes_of(case: Case, patch: pytest.MonkeyPatch) -> Iterator[tuple[str, Change]]:
    """What the passes change of one model, with their names; nothing of one that is refused."""
    try:
        model = translated(case.build(), patch)
    except converter.ConversionError:
        return
    for step, pipeline in STEPS:
        names = {cls.__name__ for part in model.parts() for operation in part.operations for cls in operation.__mro__}
        if step.entry.operations is not None and names.isdisjoint(step.entry.operations):
            continue  # it looks for other operations
        after = model.clone()
        if pipeline.run(after, [step]):
            yield step.name, Change(case, model, after)
            model = after


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


def extreme(value: Array, generator: np.random.Generator) -> Array:
    least, most = np.iinfo(value.dtype).min, np.iinfo(value.dtype).max
    numbers = np.array([most, most - 1, 1, 2, 3, *([least, least + 1, -1, -2] if least else [])], value.dtype)
    return generator.choice(numbers, value.shape)


def large(value: Array, generator: np.random.Generator) -> Array:
    most = np.log10(float(ml_dtypes.finfo(value.dtype).max))
    return generator.choice([-1, 1], value.shape) * 10 ** generator.uniform(-3, min(most, 38), value.shape)


FILLS: Mapping[str, Callable[[Array, np.random.Generator], Array]] = {
    "as in the row": lambda value, generator: value,
    "directed": lambda value, generator: generator.choice(NUMBERS, value.shape),
    "equal": lambda value, generator: np.full(value.shape, generator.choice(NUMBERS)),
    "not finite": lambda value, generator: generator.choice(NOT_FINITE, value.shape),
    "large": large,
}


def inputs_of(case: Case) -> Iterator[tuple[str, dict[str, Array]]]:
    """The inputs by name, with what they are."""
    feeds = case.feeds.items()
    for name, fill in FILLS.items():
        draw = np.random.default_rng(7)
        yield name, {port: fill(x, draw).astype(x.dtype) if x.dtype in FLOATS else x for port, x in feeds}
    if case.takes_integers and all(value.dtype.kind in "iu" for value in case.feeds.values()):
        draw = np.random.default_rng(7)
        yield "extreme integers", {port: extreme(value, draw) for port, value in feeds}
    first = next(iter(case.feeds.values()))
    if case.is_free and len(case.feeds) == 1 and first.dtype == np.float16:
        every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
        count = -(-every.size // (first.size // len(first)))
        yield "every float16", {port: np.resize(every, (count, *first.shape[1:])) for port in case.feeds}
    for size in (0, 1) if case.is_free and first.ndim else ():
        yield f"batch of {size}", {port: x[:size] if x.shape[:1] == first.shape[:1] else x for port, x in feeds}


def values_of(model: Model, feeds: Mapping[str, Array]) -> Values:
    ports = [node.outputs[0] for node in model.parameters]
    return {port: next(feeds[name] for name in (*port.names, port.node.name) if name in feeds) for port in ports}


# --- evaluation ---


def evaluate(model: Model, feeds: Values) -> Values:
    """Every value of a model as the operations define it."""
    values = dict(feeds)
    varying = set(feeds)
    for node in layers_of(model):
        if not varying.isdisjoint(node.inputs):
            varying.update(node.outputs)
        inputs = [values[source] for source in node.inputs]
        result = compute(node, inputs)
        if node.op.type == "MatMul" and inputs[0].dtype in FLOATS and node.outputs[0] in varying:
            # No BLAS computes in this type: terms are added in one order, whatever is transposed.
            wide = compute(node, [value.astype(np.longdouble) for value in inputs])
            result = [value.astype(inputs[0].dtype) for value in wide]
        values.update(zip(node.outputs, result))
    return values


def evaluate_in_float64(layers: list[Node], values: Values, changed: set[Output]) -> Values:
    """The values of the layers behind those that have ``changed``, in float64; all others are known."""
    values, changed = dict(values), set(changed)
    for node in layers:
        if not changed.isdisjoint(node.inputs):
            for output, value in zip(node.outputs, compute(node, [values[source] for source in node.inputs])):
                values[output] = value.astype(np.float64) if value.dtype in FLOATS else value
                changed.add(output)
    return values


def layers_of(model: Model) -> list[Node]:
    return [node for node in model.nodes() if node.op.role not in ("parameter", "result")]


def compute(node: Node, inputs: list[Array]) -> list[Array]:
    if node.op.data is not None:
        return [node.op.data.array()]
    if node.op.subgraphs:
        return list(map(np.asarray, node.op.execute([body(sub) for sub in node.op.subgraphs], inputs)))
    result = node.op.evaluate(*inputs)
    return list(map(np.asarray, result if isinstance(result, tuple) else (result,)))


def body(sub: SubGraph) -> Runner:
    def run(arguments: Any) -> list[Array]:
        values = evaluate(sub.body, dict(zip(sub.body.inputs, arguments)))
        return [values[result.inputs[0]] for result in sub.body.results]

    return run


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


def allowances(model: Model, feeds: Values, values: Values) -> list[Array]:
    """For each result the sum of what one unit in the last place of each value changes, to the first order."""
    layers = layers_of(model)
    known = [(node.outputs[0], node.op.data.array()) for node in layers if node.op.data is not None]
    known += feeds.items()
    wide = {output: value.astype(np.float64) if value.dtype in FLOATS else value for output, value in known}
    wide = evaluate_in_float64(layers, wide, set(wide))
    exact = results(model, wide)
    totals = [np.zeros(value.shape) for value in exact]
    signs = (1, -1) if has_steps(model) else (1,)
    fixed = whole_values(layers, values) if has_steps(model) else set()
    for output, value in values.items():
        if value.dtype not in FLOATS or output in fixed:
            continue
        factor = _ENLARGED if value.dtype == np.float64 else 1
        units = last_places(output, value) * factor
        # Elements of elementwise layers are independent of each other.
        is_independent = is_elementwise(model) and all(value.shape == total.shape for total in totals)
        for place in [np.s_[...]] if is_independent else np.ndindex(value.shape):
            most = [np.zeros(total.shape) for total in totals]
            for sign in signs:
                nudged = wide[output].copy()
                nudged[place] += sign * units[place]
                changed = results(model, evaluate_in_float64(layers, {**wide, output: nudged}, {output}))
                for largest, one, other in zip(most, changed, exact):
                    if one.dtype == np.float64:  # an exponent of 2 alone has powers of negative numbers
                        difference = np.abs(one - other) / factor
                        np.maximum(largest, np.where(np.isfinite(difference), difference, 0), out=largest)
            for total, one in zip(totals, most):
                total += one
    return totals


def has_steps(model: Model) -> bool:
    return any(isinstance(node.op, ROUNDING_TO_STEPS) for node in model.nodes())


def whole_values(layers: list[Node], values: Values) -> set[Output]:
    """The values that are whole numbers because they were rounded to steps, and the whole constants beside them.

    No arithmetic rounds them, and a Convert to integers would make a step of any change.
    """
    whole: set[Output] = set()
    for node in layers:
        is_rounded = isinstance(node.op, ROUNDING_TO_STEPS)
        if is_rounded or all(source in whole or values[source].dtype not in FLOATS for source in node.inputs):
            whole.update(output for output in node.outputs if np.array_equal(np.rint(values[output]), values[output]))
    return whole


def defined_places(model: Model, values: Values, shape: tuple[int, ...]) -> Any:
    """Where in a result of this shape no value of the model is infinite or NaN: a mask of an elementwise model."""
    finite = [np.isfinite(value.astype(np.float64)) for value in values.values() if value.dtype in FLOATS]
    if is_elementwise(model):
        return np.all(np.broadcast_arrays(*finite, np.ones(shape, bool)), axis=0)
    return np.full(shape, all(map(np.all, finite)))


# --- the contract ---


def check(contract: Contract, change: Change, feeds: Mapping[str, Array], label: str) -> float:
    """Assert that a contract holds for these inputs; how many ulps it needs."""
    before, after = change.before, change.after
    inputs = values_of(before, feeds), values_of(after, feeds)
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
        forms = list(zip((before, after), inputs, values))
        forms.sort(key=lambda form: -sum(bool(node.inputs) for node in form[0].nodes()))
        needed, allowed = 0.0, [np.zeros(one.shape) for one, _ in pairs]
        for form in forms:
            # The shorter form, such as a FakeQuantize with its limits, counts where the longer one does not suffice.
            allowed = list(map(np.maximum, allowed, allowances(*form)))
            needed = max(map(ulps_needed, pairs, allowed, defined))
            if needed <= contract.ulps:
                break
    assert needed <= contract.ulps, f"{label}: needs {needed:.3g} ulps"
    return needed


def ulps_needed(pair: tuple[Array, Array], allowed: Array, places: Any) -> float:
    """How many times what is allowed two results differ by, at most; infinity where they must be equal."""
    one, two = (value[places] for value in pair)
    if one.dtype not in FLOATS:
        return 0.0 if np.array_equal(one, two) else np.inf
    differences = np.abs(one.astype(np.float64) - two)
    differences[~np.isfinite(differences)] = np.inf
    return float((differences / np.maximum(allowed[places], np.finfo(np.float64).tiny)).max(initial=0))


def is_same(contract: Contract, one: Array, two: Array) -> bool:
    if one.dtype not in FLOATS:
        return np.array_equal(one, two)
    one, two = one.astype(np.float64), two.astype(np.float64)
    signs = contract.keeps_signed_zeros and not np.array_equal(np.signbit(one)[one == 0], np.signbit(two)[one == 0])
    return np.array_equal(one, two, equal_nan=True) and not signs


def fills_of(model: Model) -> Container[str]:
    """The inputs that are tried without ``--full``: few where each element is changed by itself."""
    if is_elementwise(model):
        return [*FILLS, "every float16", "batch of 0", "batch of 1"]
    return ["as in the row", "directed"] if has_steps(model) else ["as in the row", "directed", "batch of 1"]


_MANY = 8
"""How many changes are measured, up to a second each; with ``--full`` eight times as many."""


@pytest.mark.every_row
@pytest.mark.parametrize("name", CONTRACTS)
def test_a_pass_keeps_its_contract(name: str, is_full: bool) -> None:
    contract = CONTRACTS[name]
    own = changes(is_full)[name]
    if contract.ulps:
        own = [change for change in own if change.case.name not in MODELS]  # each element of which takes minutes
        own = own[:: 1 + len(own) // (8 * _MANY if is_full else _MANY)]
    assert own, f"no model shows what the pass '{name}' changes"
    for change in own:
        for fill, feeds in inputs_of(change.case):
            if fill == "every float16" and not is_elementwise(change.before):
                continue
            if contract.ulps and not (is_full or fill in fills_of(change.before)):
                continue
            if contract.domain != IN_RANGE or fill not in ("large", "not finite"):
                check(contract, change, feeds, f"{name}, {change.case.name}, {fill}")


DECOMPOSED = [call for call in layer_table() if type(call.op) in DECOMPOSITIONS.entries()]
_MOST_ELEMENTS = 600
"""Of all values together, each of whose elements is changed by itself."""


@pytest.mark.parametrize("call", DECOMPOSED, ids=lambda call: call.label)
def test_a_decomposition_keeps_its_contract(call: Layer) -> None:
    before, feeds = model_of(call, dynamic=False)
    after = before.clone()
    decompose_layers(after, (type(call.op),))
    values = evaluate(after, values_of(after, feeds)).values()
    if sum(value.size for value in values if value.dtype in FLOATS) <= _MOST_ELEMENTS:
        check(CONTRACT, Change(Case(call.label, onnx.ModelProto, feeds), before, after), feeds, call.label)


def test_what_breaks_a_contract_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """SoftPlus is not its formula bit by bit, and Gelu by tanh is another function than Gelu."""

    def change_of(row: str, name: str) -> Change:
        return dict(changes_of(written(row, all_idioms()[row], np.float32, 0), monkeypatch))[name]

    softplus, gelu, by_tanh = (
        change_of(*names) for names in (("softplus", "softpluses"), ("gelu", "gelus"), ("gelu by tanh", "gelus"))
    )
    feeds = gelu.case.feeds
    check(FUSED, gelu, feeds, "gelu")
    with pytest.raises(AssertionError, match=r"by tanh: needs .* ulps"):
        check(FUSED, replace(gelu, after=by_tanh.after), feeds, "by tanh")
    assert check(FUSED, softplus, softplus.case.feeds, "softplus") > 0
    with pytest.raises(AssertionError, match="exact softplus"):
        check(EXACT, softplus, softplus.case.feeds, "exact softplus")


# --- verify ---


def test_contracts_add_up() -> None:
    steps = (
        Step("convert", source="onnx", passes={"gelus": 2, "idle_layers": 1}, rules={"fake_quantize": 3}),
        Step("convert", source="ir", passes={"gelus": 1, "gone": 1}, rules={"decomposition": 1}),
    )
    model = Model()
    Derivation(steps).write(model)
    applied = contracts_of(model)
    counts = {"gelus": 3, "idle_layers": 1, "fake_quantize": 3, "gone": 1, "decomposition": 1}
    assert [(one.name, one.layers) for one in applied] == [*counts.items()]
    assert contracts_text(applied) == (
        "1 pass or rule is exact; gelus is within 1 ulp; fake_quantize is within 2 ulps; "
        "decomposition is within 1 ulp; together within 4 ulps; no contract is known of gone"
    )
    assert contracts_text(contracts_of(Model())) == "no pass or rule is recorded"
