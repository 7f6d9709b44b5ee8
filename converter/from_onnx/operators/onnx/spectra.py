"""ONNX's windows of cosines and weights of mel bins, which spectra are made with."""

from __future__ import annotations

import math

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.types import element_type_of
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewriting.expressions import Expression, positions, where


def _scalar(ctx: Context, x: Expression, subject: str, element_type: str) -> Expression:
    return Expression(ctx, as_scalar(ctx, x.value, subject)).as_type(element_type)


def _cosine_window(name: str, whole: float, once: float, twice: float) -> None:
    """Registers the window ``whole - once cos(2 pi n / N) + twice cos(4 pi n / N)``."""

    def translate(ctx: Context, size: Expression, *, output_datatype: int = 1, periodic: int = 1) -> Expression:
        count = _scalar(ctx, size, "the size", "i64")
        length = count if periodic else count - 1
        numbers, period = (value.as_type("f64") for value in (positions(count), length))
        angle = numbers * (2 * math.pi / period)
        window = angle.of(whole)
        # The greatest value is 1, which sums in another order miss by the last digit.
        for weight, factor in ((twice, 2.0), (-once, 1.0)):
            if weight:
                window = window + (angle * factor).cos() * weight
        return window.as_type(element_type_of(output_datatype))

    onnx_op(name, versions=(17,))(translate)


_cosine_window("HannWindow", 0.5, 0.5, 0.0)
_cosine_window("HammingWindow", 25 / 46, 21 / 46, 0.0)
_cosine_window("BlackmanWindow", 0.42, 0.5, 0.08)


@onnx_op("MelWeightMatrix", versions=(17,))
def mel_weight_matrix(
    ctx: Context,
    num_mel_bins: Expression,
    dft_length: Expression,
    sample_rate: Expression,
    lower_edge_hertz: Expression,
    upper_edge_hertz: Expression,
    *,
    output_datatype: int = 1,
) -> Expression:
    """Triangles over the bins of a spectrum, evenly spaced on the mel scale; ``[dft_length // 2 + 1, mels]``.

    Every triangle rises from the peak of the one before to 1 at its own and falls to the next peak.
    """
    mels = _scalar(ctx, num_mel_bins, "num_mel_bins", "i64")
    length = _scalar(ctx, dft_length, "dft_length", "i64")
    rate = _scalar(ctx, sample_rate, "sample_rate", "f64")

    def mel(hertz: Expression, subject: str) -> Expression:
        return (_scalar(ctx, hertz, subject, "f64") / 700 + 1).log() * (2595 / math.log(10))

    low, high = mel(lower_edge_hertz, "lower_edge_hertz"), mel(upper_edge_hertz, "upper_edge_hertz")
    points = mels + 2
    step = (high - low) / points.as_type("f64")
    scale = positions(points).as_type("f64") * step + low
    hertz = ((scale * (math.log(10) / 2595)).exp() - 1) * 700
    bins = (hertz * (length + 1).as_type("f64") / rate).floor()

    def peaks(first: int) -> Expression:
        """The bins from the ``first`` on, as many as there are triangles."""
        start = mels.of([first])
        return bins.emit(Slice8(), start, mels.unsqueeze(0) + start, start.of([1]))

    left, centre, right = peaks(0), peaks(1), peaks(2)
    place = positions(length.truncated(2) + 1).as_type("f64").unsqueeze(1)

    def slope(foot: Expression) -> Expression:
        """0 at the foot and 1 at the centre; meaningless where they coincide, and not used there."""
        return (place - foot) / (centre - foot)

    def between(a: Expression, b: Expression) -> Expression:
        return place.greater_equal(a) & (place < b)

    falling = where(between(centre, right), slope(right), 0)
    rising = where(between(left, centre), slope(left), falling)
    return where(place.equal(centre), place.of(1), rising).as_type(element_type_of(output_datatype))
