"""Connectionist temporal classification: greedy decoders and the loss."""

from __future__ import annotations

import numpy as np

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Graph, Value
from converter.to_onnx.layers import reshape, squeeze, transpose, unsqueeze
from converter.to_onnx.registry import ir_op
from converter.to_onnx.sizes import Size, add, as_scalar, multiply, positions, shape_list, size_from, size_of, subtract
from ir_runtime.graph import PartialShape, element_types
from ir_runtime.graph.operation import TensorType
from ir_runtime.operations.ctc import CTCGreedyDecoder1, CTCGreedyDecoderSeqLen6, CTCLoss4


def _int64(ctx: Context, value: Value) -> Value:
    return ctx.cast(value, element_types.i64)


def _shifted(ctx: Context, rows: Value, by: int, value: float) -> Value:
    """Each row's values further right, and ``value`` before them."""
    return ctx.emit("Pad", rows, ctx.constant([0, by, 0, -by]), ctx.like(value, rows))


def _differs(ctx: Context, a: Value, b: Value) -> Value:
    return ctx.emit("Not", ctx.emit("Equal", a, b))


def _decoded(ctx: Context, classes: Value, inside: Value, blank: Value, merge: bool) -> Value:
    """Which classes are kept: no blanks, and with ``merge`` no repetitions of the class just before."""
    kept = ctx.emit("And", inside, _differs(ctx, classes, blank))
    return ctx.emit("And", kept, _differs(ctx, classes, _shifted(ctx, classes, 1, -1))) if merge else kept


def _to_front(ctx: Context, classes: Value, kept: Value, fill: Value) -> tuple[Value, Value]:
    """The kept classes of each row, one after another, with ``fill`` behind them; and their number ``[n, 1]``."""
    chosen, others = _int64(ctx, kept), _int64(ctx, ctx.emit("Not", kept))
    first, second = (ctx.emit("CumSum", one, ctx.constant(1)) for one in (chosen, others))
    count = ctx.emit("ReduceSum", chosen, ctx.constant([1]), keepdims=1)
    place = ctx.emit("Where", kept, first, ctx.emit("Add", second, count))
    index = ctx.emit("Sub", place, ctx.constant(1))
    return ctx.emit("ScatterElements", classes, index, ctx.emit("Where", kept, classes, fill), axis=1), count


def _best(ctx: Context, probabilities: Value) -> Value:
    return ctx.emit("ArgMax", probabilities, axis=-1, keepdims=0, type=element_types.i64)


@ir_op(CTCGreedyDecoder1, local_function=True)
def ctc_greedy_decoder(ctx: Context, op: CTCGreedyDecoder1, x: Value, mask: Value) -> Value:
    """ArgMax, and ScatterElements of the kept classes to the front of each row"""
    classes = transpose(ctx, _best(ctx, x), [1, 0])
    ends = ctx.emit("Equal", transpose(ctx, mask, [1, 0]), ctx.like(0, mask))
    ended = ctx.emit("CumSum", _int64(ctx, ends), ctx.constant(1))
    inside = ctx.emit("Equal", ended, ctx.constant(0))
    blank = as_scalar(ctx, subtract(ctx, size_of(ctx, x, 2), 1))
    kept = _decoded(ctx, classes, inside, blank, op.ctc_merge_repeated)
    found, _ = _to_front(ctx, classes, kept, ctx.constant(-1))
    return unsqueeze(ctx, ctx.cast(found, x.element_type), [2, 3])


@ir_op(CTCGreedyDecoderSeqLen6, local_function=True)
def ctc_greedy_decoder_of_lengths(
    ctx: Context, op: CTCGreedyDecoderSeqLen6, x: Value, lengths: Value, blank: Value | None = None
) -> list[Value]:
    """ArgMax, and ScatterElements of the kept classes to the front of each row"""
    classes = _best(ctx, x)
    inside = ctx.emit("Less", positions(ctx, size_of(ctx, x, 1)), unsqueeze(ctx, _int64(ctx, lengths), [1]))
    last: Size = subtract(ctx, size_of(ctx, x, 2), 1) if blank is None else size_from(ctx, blank)
    kept = _decoded(ctx, classes, inside, as_scalar(ctx, last), op.merge_repeated)
    found, count = _to_front(ctx, classes, kept, ctx.constant(-1))
    return [ctx.cast(found, op.classes_index_type), ctx.cast(squeeze(ctx, count, [1]), op.sequence_length_type)]


@ir_op(CTCLoss4, local_function=True)
def ctc_loss(
    ctx: Context,
    op: CTCLoss4,
    logits: Value,
    steps: Value,
    labels: Value,
    counts: Value,
    blank: Value | None = None,
) -> Value:
    """Scan over the steps, which adds up the probabilities of all paths in logarithms"""
    kind = element_types.f64 if logits.element_type is element_types.f64 else element_types.f32
    last: Size = subtract(ctx, size_of(ctx, logits, 2), 1) if blank is None else size_from(ctx, blank)
    none = as_scalar(ctx, last)
    targets, count = _targets(ctx, op, _int64(ctx, labels), _int64(ctx, counts), none)
    # The states of a path are blank, first label, blank, second label ... blank.
    pairs = ctx.emit("Pad", unsqueeze(ctx, targets, [2]), ctx.constant([0, 0, 1, 0, 0, 0]), none)
    states = ctx.emit("Pad", reshape(ctx, pairs, [0, -1]), ctx.constant([0, 0, 0, 1]), none)
    reached = _reached(ctx, op, ctx.cast(logits, kind), _int64(ctx, steps), states)
    end = ctx.emit("Mul", count, ctx.constant(2))
    at_blank = ctx.emit("GatherElements", reached, end, axis=1)
    before = ctx.emit("Max", ctx.emit("Sub", end, ctx.constant(1)), ctx.constant(0))
    has_label = ctx.emit("Greater", count, ctx.constant(0))
    at_label = ctx.emit("GatherElements", reached, before, axis=1)
    at_label = ctx.emit("Where", has_label, at_label, ctx.like(-np.inf, reached))
    total = _log_sum(ctx, [at_blank, at_label])
    return ctx.cast(squeeze(ctx, ctx.emit("Neg", total), [1]), logits.element_type)


def _targets(ctx: Context, op: CTCLoss4, labels: Value, counts: Value, blank: Value) -> tuple[Value, Value]:
    """The labels ``[n, t]`` that paths spell, with blanks behind them, and their number ``[n, 1]``."""
    places = positions(ctx, size_of(ctx, labels, 1))
    inside = ctx.emit("Less", places, unsqueeze(ctx, counts, [1]))
    if op.unique:
        same = ctx.emit("Equal", unsqueeze(ctx, labels, [2]), unsqueeze(ctx, labels, [1]))
        earlier = ctx.emit("Less", places, unsqueeze(ctx, places, [1]))
        repeats = _int64(ctx, ctx.emit("And", same, earlier))
        is_first = ctx.emit("Equal", ctx.emit("ReduceSum", repeats, ctx.constant([2]), keepdims=0), ctx.constant(0))
        inside = ctx.emit("And", inside, is_first)
    elif op.preprocess_collapse_repeated:
        is_first = ctx.emit("Equal", places, ctx.constant(0))
        changes = _differs(ctx, labels, _shifted(ctx, labels, 1, -1))
        inside = ctx.emit("And", inside, ctx.emit("Or", is_first, changes))
    return _to_front(ctx, labels, inside, blank)


def _reached(ctx: Context, op: CTCLoss4, logits: Value, steps: Value, states: Value) -> Value:
    """Logarithms of the probabilities of each state ``[n, s]`` after the last step."""
    name, kind = ctx.node.name, logits.element_type
    least, zero = ctx.like(-np.inf, logits), ctx.like(0, logits)
    length = size_of(ctx, logits, 1)
    places = positions(ctx, add(ctx, multiply(ctx, length, 2), 1))
    is_label = ctx.emit("Equal", ctx.emit("Mod", places, ctx.constant(2)), ctx.constant(1))
    skips = ctx.emit("And", is_label, ctx.emit("Greater", places, ctx.constant(1)))
    if op.ctc_merge_repeated:
        skips = ctx.emit("And", skips, _differs(ctx, states, _shifted(ctx, states, 2, -1)))
    skipping = ctx.emit("Where", skips, zero, least)
    staying = None if op.ctc_merge_repeated else ctx.emit("Where", is_label, least, zero)
    start = ctx.emit("Where", ctx.emit("Equal", places, ctx.constant(0)), zero, least)
    start = ctx.emit("Expand", start, shape_list(ctx, [size_of(ctx, logits, 0), 1]))
    counts = unsqueeze(ctx, steps, [1])
    graph = Graph(f"{name}/step")
    inner = ctx.inside(graph)
    before = Value(TensorType(kind, PartialShape.of_rank(2)), f"{name}/reached")
    scores = Value(TensorType(kind, PartialShape.of_rank(2)), f"{name}/probabilities")
    step = Value(TensorType(element_types.i64, PartialShape(())), f"{name}/number")
    graph.inputs = [before, scores, step]
    paths = [
        before if staying is None else inner.emit("Add", before, staying),
        _shifted(inner, before, 1, -np.inf),
        inner.emit("Add", _shifted(inner, before, 2, -np.inf), skipping),
    ]
    onward = inner.emit("Add", _log_sum(inner, paths), inner.emit("GatherElements", scores, states, axis=1))
    graph.outputs = [inner.emit("Where", inner.emit("Less", step, counts), onward, before)]
    return ctx.emit(
        "Scan",
        start,
        ctx.emit("LogSoftmax", logits, axis=-1),
        positions(ctx, length),
        type=kind,
        body=graph,
        num_scan_inputs=2,
        scan_input_axes=[1, 0],
    )


def _log_sum(ctx: Context, logarithms: list[Value]) -> Value:
    """The logarithm of the sum of numbers given by their logarithms; minus infinity is that of 0."""
    most = ctx.emit("Max", *logarithms)
    is_none = ctx.emit("Equal", most, ctx.like(-np.inf, most))
    base = ctx.emit("Where", is_none, ctx.like(0, most), most)
    total: Value | None = None
    for one in logarithms:
        part = ctx.emit("Exp", ctx.emit("Sub", one, base))
        total = part if total is None else ctx.emit("Add", total, part)
    return ctx.emit("Add", ctx.emit("Log", total), base)
