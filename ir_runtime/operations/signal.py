"""Fourier transforms: DFT, IDFT, RDFT, IRDFT, STFT and ISTFT. Complex numbers are a last dimension of two.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/signals/dft-7.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import DYNAMIC, INFINITY, Array, Dimension, PartialShape, normalize_axes
from ir_runtime.graph.operation import Operation, TensorType, boolean, operation
from ir_runtime.graph.shapes import require_rank
from ir_runtime.operations.windows import Window

from .elementwise import merge_real_types, merge_types

Transform = Callable[..., Any]


def as_complex(pairs: Array) -> Array:
    """``[..., 2]`` as complex numbers of the same precision, at least that of float32."""
    exact = pairs.dtype == np.float64
    numbers = np.empty(pairs.shape[:-1], np.complex128 if exact else np.complex64)
    numbers.real, numbers.imag = pairs[..., 0], pairs[..., 1]
    return numbers


def as_pairs(numbers: Array, dtype: np.dtype[Any]) -> Array:
    """Complex numbers as ``[..., 2]``."""
    return np.stack([numbers.real, numbers.imag], -1).astype(dtype)


class _Fourier(Operation):
    """A transform along several axes.

    Inputs: data, a list of axes (negative ones count from the end of the signal's dimensions), and
    optionally for each axis the length that the signal is cut or filled up with zeros to; -1 takes
    it as it is.
    """

    inputs = (2, 3)
    kernel: ClassVar[Transform]
    complex_in: ClassVar[bool] = True
    complex_out: ClassVar[bool] = True

    def natural(self, size: Dimension) -> Dimension:
        """The length of the signal along the last axis where none is given."""
        return size

    def spectrum(self, length: Dimension) -> Dimension:
        """The output's length along the last axis."""
        return length

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, axes = inputs[:2]
        shape = data.shape
        if not shape.has_rank:
            return [TensorType(data.element_type, shape)]
        if self.complex_in:
            if shape.rank < 2 or shape[-1].merge(Dimension(2, 2)) is None:
                raise InferenceError(f"complex data must have a last dimension of 2 behind others, but are {shape}")
            shape = PartialShape(shape.dims[:-1])
        constant = axes.constant
        if constant is None:
            # Whatever the axes are, without lengths all signals stay as long as they are.
            same = len(inputs) < 3 and self.complex_in and self.complex_out
            dims = list(shape if same else PartialShape.of_rank(shape.rank))
        else:
            dims = self._transform(shape, normalize_axes(constant.reshape(-1).tolist(), shape.rank), inputs[2:])
        return [TensorType(data.element_type, PartialShape([*dims, 2] if self.complex_out else dims))]

    def _transform(self, shape: PartialShape, axes: Sequence[int], sizes: Sequence[TensorType]) -> list[Dimension]:
        dims = list(shape)
        bounds = sizes[0].known_bounds if sizes else None
        lengths = [DYNAMIC] * len(axes) if sizes else [Dimension()] * len(axes)
        if bounds is not None:
            if bounds.lower.size != len(axes):
                raise InferenceError(f"{bounds.lower.size} lengths are given for {len(axes)} axes")
            lengths = bounds.dimensions()
        for i, (axis, length) in enumerate(zip(axes, lengths)):
            last = i == len(axes) - 1
            as_it_is = not sizes or (bounds is not None and int(bounds.upper.reshape(-1)[i]) == -1)
            if as_it_is:
                length = self.natural(dims[axis]) if last else dims[axis]
            dims[axis] = self.spectrum(length) if last else length
        return dims

    def evaluate(self, *inputs: Array) -> Array:
        data, axes, *sizes = inputs
        signal = as_complex(data) if self.complex_in else data.astype(np.result_type(data.dtype, np.float32))
        chosen = normalize_axes(axes.reshape(-1).tolist(), signal.ndim)
        lengths = [-1] * len(chosen) if not sizes else sizes[0].reshape(-1).tolist()
        dims = [Dimension(signal.shape[axis], signal.shape[axis]) for axis in chosen]
        natural = [self.natural(e) if i == len(chosen) - 1 else e for i, e in enumerate(dims)]
        lengths = [n.value if length == -1 else length for n, length in zip(natural, lengths)]
        transformed = type(self).kernel(signal, s=lengths, axes=chosen) if chosen else signal
        return as_pairs(transformed, data.dtype) if self.complex_out else transformed.astype(data.dtype)


@operation("DFT", opset=7)
class DFT7(_Fourier):
    """The discrete Fourier transform."""

    kernel = staticmethod(np.fft.fftn)


@operation("IDFT", opset=7)
class IDFT7(_Fourier):
    """Its inverse."""

    kernel = staticmethod(np.fft.ifftn)


@operation("RDFT", opset=9)
class RDFT9(_Fourier):
    """The transform of real data: along the last axis only the first half of it, and one more."""

    kernel = staticmethod(np.fft.rfftn)
    complex_in = False

    def spectrum(self, length: Dimension) -> Dimension:
        return Dimension(length.low // 2 + 1, INFINITY if length.high == INFINITY else length.high // 2 + 1)


@operation("IRDFT", opset=9)
class IRDFT9(_Fourier):
    """The inverse of RDFT; along the last axis the signal has an even length unless a length is given."""

    kernel = staticmethod(np.fft.irfftn)
    complex_out = False

    def natural(self, size: Dimension) -> Dimension:
        most = INFINITY if size.high == INFINITY else 2 * max(size.high - 1, 0)
        return Dimension(2 * max(size.low - 1, 0), most)


@operation("STFT", opset=15)
class STFT15(Operation):
    """The transform of each frame of real signals.

    Inputs: signals ``[batch, length]`` (or one), a window at most as long as a frame (it is put in
    the middle), and scalars: the length of a frame and the steps from one to the next. The output is
    ``[batch, frames, frame / 2 + 1, 2]``; ``transpose_frames`` puts the frames behind the frequencies.
    """

    inputs = (4, 4)
    transpose_frames: bool = boolean(default=False)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        signal, window, size, step = inputs
        element_type = merge_types([signal, window])
        if not signal.shape.has_rank:
            return [TensorType(element_type, PartialShape.dynamic())]
        if signal.shape.rank not in (1, 2):
            raise InferenceError(f"the signals must have one or two dimensions, but the shape is {signal.shape}")
        frames, bins = DYNAMIC, DYNAMIC
        if size.constant is not None:
            length = int(size.constant.reshape(-1)[0])
            self._check(window.shape.element_count().low, length, 1)
            bins = Dimension(length // 2 + 1, length // 2 + 1)
            if step.constant is not None:
                every = int(step.constant.reshape(-1)[0])
                self._check(0, length, every)
                frames = Window(length, every, 1, 0, 0).count_dimension(signal.shape[-1])
        last = [bins, frames] if self.transpose_frames else [frames, bins]
        return [TensorType(element_type, PartialShape([*signal.shape.dims[:-1], *last, 2]))]

    @staticmethod
    def _check(window: int, size: int, step: int) -> None:
        if size < 1 or step < 1 or window > size:
            raise InferenceError(
                f"a window of {window} elements, frames of {size} and steps of {step} do not make a transform"
            )

    def evaluate(self, *inputs: Array) -> Array:
        signal, window, *numbers = inputs
        size, step = (int(number.reshape(-1)[0]) for number in numbers)
        self._check(len(window), size, step)
        count = Window(size, step, 1, 0, 0).count(signal.shape[-1])
        before = (size - len(window)) // 2
        dtype = np.result_type(signal.dtype, np.float32)
        whole = np.pad(window.astype(dtype), (before, size - len(window) - before))
        frames = np.lib.stride_tricks.sliding_window_view(signal.astype(dtype), size, -1)[..., ::step, :]
        spectrum = np.fft.rfft(frames[..., :count, :] * whole, axis=-1)
        return as_pairs(np.swapaxes(spectrum, -1, -2) if self.transpose_frames else spectrum, signal.dtype)


@operation("ISTFT", opset=16)
class ISTFT16(Operation):
    """Real signals of the transforms of their frames, by least squares.

    Inputs: frames ``[batch, frame / 2 + 1, frames, 2]`` (or of one signal), a window at most as long as
    a frame (it is put in the middle), scalars: the length of a frame and the steps from one to the
    next, and optionally the length of the signals, which are cut or filled up with zeros to it (-1:
    as they are). The output is ``[batch, length]``. With ``center`` the signals were padded by
    half a frame on each side, which is dropped; with ``normalized`` the transforms were divided by the
    square root of a frame's length.
    """

    inputs = (4, 5)
    center: bool = boolean(default=False)
    normalized: bool = boolean(default=False)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, window, size, step = inputs[:4]
        element_type = merge_real_types([data, window])
        require_rank("the window", window.shape, 1)
        require_rank("the length of a frame", size.shape, 0)
        require_rank("the steps between frames", step.shape, 0)
        shape = data.shape
        frame = None if size.constant is None else int(size.constant)
        stride = None if step.constant is None else int(step.constant)
        self._check(window.shape.element_count().low, 1 if stride is None else stride, frame)
        if not shape.has_rank:
            return [TensorType(element_type, shape)]
        if shape.rank not in (3, 4):
            raise InferenceError(f"the frames must have three or four dimensions, but the shape is {shape}")
        if frame is not None and not shape[-3].contains(frame // 2 + 1):
            raise InferenceError(f"frames of {frame} have {frame // 2 + 1} frequencies, but the shape is {shape}")
        length = DYNAMIC
        if len(inputs) > 4:
            length = _only_number(inputs[4])
        elif frame is not None and stride is not None:
            length = self._natural(shape[-2], frame, stride)
        return [TensorType(element_type, PartialShape([*shape.dims[:-3], length]))]

    @staticmethod
    def _check(window: int, step: int, size: int | None) -> None:
        if step < 1 or (size is not None and not 0 < size >= window):
            raise InferenceError(
                f"a window of {window} elements, frames of {size} and steps of {step} do not make a transform"
            )

    def _natural(self, frames: Dimension, size: int, step: int) -> Dimension:
        last = Dimension(max(frames.low - 1, 0), INFINITY if frames.high == INFINITY else max(frames.high - 1, 0))
        # An odd frame has one element more behind its middle than before it.
        return last * step + (size % 2 if self.center else size)

    def evaluate(self, *inputs: Array) -> Array:
        data, window, *numbers = inputs
        size, step = (int(number.reshape(-1)[0]) for number in numbers[:2])
        self._check(len(window), step, size)
        requested = int(numbers[2].reshape(-1)[0]) if len(numbers) > 2 else -1
        frames = data.shape[-2]
        natural = self._natural(Dimension(frames, frames), size, step).value
        length = natural if requested < 0 else requested
        dtype = np.result_type(data.dtype, np.float32)
        before = (size - len(window)) // 2
        whole = np.pad(window.astype(dtype), (before, size - len(window) - before))
        pieces = np.fft.irfft(np.swapaxes(as_complex(data), -1, -2), size, axis=-1).astype(dtype) * whole
        # Each frame adds to the signal and its squared window to what the sum is divided by.
        total = np.zeros((*data.shape[:-3], max(frames - 1, 0) * step + size), dtype)
        weight = np.zeros(total.shape[-1], dtype)
        for index in range(frames):
            place = slice(index * step, index * step + size)
            total[..., place] += pieces[..., index, :]
            weight[place] += whole * whole
        signal = np.divide(total, weight, out=np.zeros_like(total), where=weight != 0)
        if self.normalized:
            signal *= dtype.type(np.sqrt(size))
        start = size // 2 if self.center else 0
        signal = signal[..., start : start + length]
        missing = [(0, 0)] * (signal.ndim - 1) + [(0, length - signal.shape[-1])]
        return np.pad(signal, missing).astype(data.dtype)


def _only_number(length: TensorType) -> Dimension:
    """A scalar, or a list of one number, as a dimension."""
    if not length.shape.element_count().contains(1) or (length.shape.has_rank and length.shape.rank > 1):
        raise InferenceError(f"the length of the signals must be one number, but has the shape {length.shape}")
    bounds = length.known_bounds
    return DYNAMIC if bounds is None else bounds.dimensions()[0]
