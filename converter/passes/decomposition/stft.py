"""Transforms of frames, and signals of such transforms, which are added up where the frames overlap."""

from __future__ import annotations

from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.signal import IDFT7, IRDFT9, ISTFT16, RDFT9, STFT15
from ir_runtime.rewriting.expressions import Expression, NotExpressible, concat, positions, where


def _window(window: Expression, size: Expression) -> Expression:
    """The window in the middle of a frame, zeros around it."""
    missing = size - window.size(0)
    if missing.elements() == [0]:
        return window
    return window.pad([missing // 2], [missing - missing // 2])


@decomposes(STFT15)
def stft(op: STFT15, signal: Expression, window: Expression, size: Expression, step: Expression) -> Expression:
    """RDFT of frames that Gather takes, times the window"""
    size, step = size.as_type("i64").reshape(), step.as_type("i64").reshape()
    axis = signal.rank - 1
    count = (signal.size(axis) - size) // step + 1
    frames = signal.gather((positions(count) * step).unsqueeze(1) + positions(size), axis)
    result = (frames * _window(window, size)).emit(RDFT9(), frames.of([axis + 1], "i64"))
    return result.transpose(*range(axis), axis + 1, axis, axis + 2) if op.transpose_frames else result


@decomposes(IRDFT9)
def irdft(op: IRDFT9, x: Expression, axes: Expression, lengths: Expression | None = None) -> Expression:
    """IDFT, in which frequencies along the last axis count twice that have a conjugate"""
    over = axes.elements()
    if not over:
        raise NotExpressible("the axes must be known, and there must be one")
    last, rank = over[-1] % (x.rank - 1), x.rank
    sizes = axes.of([-1] * len(over), "i64") if lengths is None else lengths.as_type("i64").broadcast(len(over))
    length = sizes.gather([len(over) - 1])
    length = where(length.equal(-1), (x.size(last) - 1) * 2, length)
    # The other half are conjugates: it adds the same real part. The first frequency has none, nor has the middle one.
    doubled = positions(x.size(last)) * 2
    weights = where(doubled.equal(0) | doubled.equal(length), x.of(1), where(doubled > length, x.of(0), 2))
    halves = x * weights.unsqueeze(*range(1, rank - last))
    others = [sizes.cut(0, 0, len(over) - 1)] if len(over) > 1 else []
    return halves.emit(IDFT7(), axes, concat([*others, length], 0)).gather(0, rank - 1)


@decomposes(ISTFT16)
def istft(
    op: ISTFT16,
    frames: Expression,
    window: Expression,
    size: Expression,
    step: Expression,
    length: Expression | None = None,
) -> Expression:
    """IRDFT, and ScatterElementsUpdate, which adds the frames up; so it does with squared windows"""
    *lead, bins, count_axis, pair = range(frames.rank)
    size, step = size.as_type("i64").reshape(), step.as_type("i64").reshape()
    spectra = frames.at_least_float32().transpose(*lead, count_axis, bins, pair)
    whole = _window(window.at_least_float32(), size)
    pieces = spectra.emit(IRDFT9(), frames.of([bins + 1], "i64"), size.reshape(1)) * whole
    count = frames.size(count_axis)
    total_length = (count - 1).maximum(0) * step + size
    places = ((positions(count) * step).unsqueeze(1) + positions(size)).reshape(-1)

    def added(rows: Expression) -> Expression:
        """The signals ``[..., length]`` of frames ``[..., frames, size]``."""
        sizes = rows.sizes()[:-2]
        flat = rows.reshape(*sizes, -1)
        zeros = rows.of(0).broadcast(*sizes, total_length)
        return zeros.scatter(places.broadcast(*flat.sizes()), flat, len(sizes), "sum")

    weight = added((whole * whole).broadcast(count, size))
    signal = added(pieces) / where(weight.equal(0), weight.of(1), weight)
    if op.normalized:
        signal = signal * size.as_type(signal.element_type).sqrt()
    start = size // 2 if op.center else size.of(0)
    natural = total_length - start * 2
    requested = natural if length is None else length.as_type("i64").reshape()
    end = start + where(requested < 0, natural, requested)
    zeros = [0] * len(lead)
    signal = signal.pad([*zeros, 0], [*zeros, (end - total_length).maximum(0)])
    return signal.cut(len(lead), start, end).as_type(frames.element_type)
