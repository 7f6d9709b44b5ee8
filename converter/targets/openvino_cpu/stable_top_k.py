"""TopK that keeps the order of equal elements, which the plug-in sorts in k * n steps: 300 of 672000 in half a second.

Its TopK of another kind takes n steps or a few more, and has equal elements in any order. Its values are right. Of the
elements that equal the last value it may take others than the first; elsewhere it takes the right ones.

    x -> TopK      becomes      x -> TopK -> values, places
                                x == last value -> TopK -> the first places of the last value
                                values -> NotEqual -> CumSum -> number of each value
                                number * n + place -> Concat -> TopK -> GatherElements -> indices

No two keys are equal. Where they may not fit into 32 bits, or are so few that the plug-in sorts them as fast, the plain
layer stays, as a branch of an If where sizes are dynamic. The plug-in chooses the branch while it compiles, if it knows
the sizes then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import (
    InputMap,
    Node,
    Output,
    OutputMap,
    SubGraph,
    element_types,
    normalize_axis,
)
from ir_runtime.operations.control_flow import If8
from ir_runtime.operations.elementwise import NotEqual1
from ir_runtime.operations.sorting import TopK11
from ir_runtime.rewriting import Builder, Replacement, fail
from ir_runtime.rewriting.expressions import Expression, concat, positions
from ir_runtime.rewriting.submodel import body_of, parameters_of

_FEWEST = 16
"""The least k; routers of experts choose fewer."""
_LEAST = 1 << 12
"""The least k * n."""
_MOST = 700_000_000
"""The greatest k * n: keys are less than (k + 2) * n, and so less than 2^31."""


@openvino_cpu.replaces("stable_top_k", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def stable_top_k(builder: Builder, node: Node) -> Replacement:
    """Sort with the kind of TopK that is fast, and put equal elements in order behind it."""
    data, count = (Expression(builder, value) for value in node.inputs)
    op = node.op
    if not isinstance(op, TopK11) or not op.stable or op.sort != "value" or not data.value.shape.has_rank:
        return fail("the order of equal elements is open, elements are not sorted, or the rank is dynamic")
    if not node.outputs[1].is_used:
        return builder.emit_all(op.with_attributes(stable=False), *node.inputs)
    axis = data.rank - 1
    if normalize_axis(op.axis, data.rank) != axis:
        return fail("the plug-in sorts along several rows at a time where they are not the last axis")
    number, size = count.elements(), data.size(axis).elements()
    if number is not None and number[0] < _FEWEST:
        return fail(f"{number[0]} elements are taken one after another")
    if number is not None and size is not None:
        if not _LEAST <= number[0] * size[0] <= _MOST:
            return fail(f"{number[0]} of {size[0]} elements are few, or too many for keys of 32 bits")
        return [result.value for result in _top_k(op, axis, data, count)]
    steps = count.as_type("f32") * data.size(axis).as_type("f32")
    fits = (steps >= _LEAST) & (steps <= _MOST)
    return _either(
        fits,
        (data, count),
        lambda data, count: _top_k(op, axis, data, count),
        lambda data, count: data.emit_all(op, count),
    )


def _top_k(op: TopK11, axis: int, data: Expression, count: Expression) -> list[Expression]:
    values, places = _unstable(data, count, axis, op.mode)
    size = data.size(axis)
    last = values.gather([-1], axis)
    place = positions(size).reshape(*(-1 if at == axis else 1 for at in range(data.rank)))
    # Other elements stand behind those of the last value, and behind its places among the values, too.
    first_keys, first_places = _unstable(place + _differs(data, last) * (size * 2), count, axis)
    previous = concat([values.cut(axis, 0, 1), values.cut(axis, 0, -1)], axis)
    base = _differs(values, previous).cumulative_sum(axis) * size
    is_last = 1 - _differs(values, last)
    keys = concat([base + places + is_last * size, base.gather([-1], axis) + first_keys], axis)
    _, order = _unstable(keys, count, axis)
    indices = concat([places, first_places], axis).gather_elements(order, axis)
    return [values, indices.as_type(op.index_element_type)]


def _unstable(data: Expression, count: Expression, axis: int, mode: str = "min") -> list[Expression]:
    return data.emit_all(TopK11(axis=axis, mode=mode, sort="value", index_element_type=element_types.i64), count)


def _differs(a: Expression, b: Expression) -> Expression:
    """1 where elements differ, else 0."""
    return a.emit(NotEqual1(), b).as_type("i64")


def _either(
    condition: Expression, inputs: Sequence[Expression], *branches: Callable[..., Sequence[Expression]]
) -> list[Output]:
    """An If whose branches take ``inputs``."""
    return condition.builder.emit_all(
        If8(bodies=tuple(_body(inputs, branch) for branch in branches)),
        condition.value,
        *(value.value for value in inputs),
    )


def _body(inputs: Sequence[Expression], branch: Callable[..., Sequence[Expression]]) -> SubGraph:
    parameters = parameters_of(value.value.type for value in inputs)
    body = Builder()
    results = branch(*(Expression(body, node.outputs[0]) for node in parameters))
    model = body_of(parameters, (result.value for result in results))
    inputs_of_body = tuple(InputMap(1 + place, place) for place in range(len(parameters)))
    return SubGraph(model, inputs_of_body, tuple(OutputMap(place, place) for place in range(len(results))))
