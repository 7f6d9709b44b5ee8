"""Boxes laid regularly over an image, from which detectors start: PriorBox and PriorBoxClustered.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/detection/prior-box-8.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, Dimension, PartialShape, element_types
from ir_runtime.graph.operation import Operation, TensorType, boolean, operation, real, reals


class _Priors(Operation):
    """Boxes around every element of a layer, in parts of the image, with the variances they come with.

    Inputs: the layer's dimensions and the image's (height, width). The output ``[2, 4 * H * W * boxes]``
    has the corners x1, y1, x2, y2 of the boxes of each element, and as many variances.
    """

    inputs = (2, 2)

    def boxes(self) -> Array:
        """Each element's boxes: the shift of their centre, half their width and height ``[boxes, 4]``."""
        raise NotImplementedError

    def centres(self, layer: Array, image: Array) -> tuple[Array, Array]:
        """The elements' centres in the image: those of columns, and those of rows."""
        raise NotImplementedError

    def prior_variances(self) -> Sequence[float]:
        raise NotImplementedError

    def is_clipped(self) -> bool:
        raise NotImplementedError

    def always_clipped(self) -> int:
        """The number of an element's first boxes that are always cut to the image, whatever the attributes."""
        return 0

    def _sized(self, boxes: Array, image: Array) -> Array:
        return boxes

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        for value in inputs:
            if not value.shape.element_count().contains(2):
                raise InferenceError(f"the dimensions must be two, but have the shape {value.shape}")
        if len(self.prior_variances()) not in (0, 1, 4):
            raise InferenceError(f"the variances must be one, four or none, but are {list(self.prior_variances())}")
        length = Dimension()
        bounds = inputs[0].known_bounds
        if bounds is not None:
            height, width = bounds.dimensions()
            length = height * width * (4 * len(self.boxes()))
        return [TensorType(element_types.f32, PartialShape([2, length]))]

    def evaluate(self, *inputs: Array) -> Array:
        layer, image = (value.reshape(-1).astype(np.int64) for value in inputs)
        x, y = self.centres(layer, image)
        boxes = self._sized(self.boxes(), image).astype(np.float32)
        corners = np.empty((len(y), len(x), len(boxes), 4), np.float32)
        across, down = x[None, :, None] + boxes[:, 0], y[:, None, None] + boxes[:, 1]
        corners[..., 0], corners[..., 2] = (across - boxes[:, 2]) / image[1], (across + boxes[:, 2]) / image[1]
        corners[..., 1], corners[..., 3] = (down - boxes[:, 3]) / image[0], (down + boxes[:, 3]) / image[0]
        if self.is_clipped():
            corners = np.clip(corners, 0, 1)
        cut = self.always_clipped()
        corners[:, :, :cut] = np.clip(corners[:, :, :cut], 0, 1)
        variances_per_box = self.prior_variances() or (0.1,)
        variances = np.resize(np.asarray(variances_per_box, np.float32), corners.size)
        return np.stack([corners.reshape(-1), variances])


class _PriorBox(_Priors):
    """Squares of a least size and of the mean of it and a greatest size, the former also in ratios.

    ``fixed_size`` are squares laid densely instead, and cut to the image. ``step`` is the distance between
    centres in the image, 0 what the layer's dimensions make it.
    """

    min_size: Sequence[float] = reals(default=())
    max_size: Sequence[float] = reals(default=())
    aspect_ratio: Sequence[float] = reals(default=())
    density: Sequence[float] = reals(default=())
    fixed_ratio: Sequence[float] = reals(default=())
    fixed_size: Sequence[float] = reals(default=())
    clip: bool = boolean(default=False)
    flip: bool = boolean(default=False)
    step: float = real(default=0.0)
    offset: float = real(default=0.0)
    variance: Sequence[float] = reals(default=())
    scale_all_sizes: bool = boolean(default=True)

    def puts_greatest_first(self) -> bool:
        """True if the square between least and greatest size comes before the ratios."""
        return True

    def prior_variances(self) -> Sequence[float]:
        return self.variance

    def is_clipped(self) -> bool:
        return self.clip

    def _ratios(self) -> list[float]:
        """The ratios besides 1, each once."""
        ratios = [1.0]
        for ratio in self.aspect_ratio:
            for ratio_or_inverse in (ratio, 1 / ratio) if self.flip else (ratio,):
                if all(abs(ratio_or_inverse - other) >= 1e-6 for other in ratios):
                    ratios.append(ratio_or_inverse)
        return ratios[1:]

    def boxes(self) -> Array:
        if self.max_size and not self.scale_all_sizes:
            raise InferenceError("max_size has no meaning where scale_all_sizes is false")
        rows: list[tuple[float, float, float, float]] = []
        for index, size in enumerate(self.fixed_size):
            rows += self._dense(size, int(self.density[index]) if index < len(self.density) else 0)
        for index, least in enumerate(self.min_size):
            rows.append((0, 0, least / 2, least / 2))
            between = []
            if index < len(self.max_size):
                half = (least * self.max_size[index]) ** 0.5 / 2
                between = [(0.0, 0.0, half, half)]
            shaped = []
            if self.scale_all_sizes or index == len(self.min_size) - 1:
                base = least if self.scale_all_sizes else self.min_size[0]
                shaped = [(0.0, 0.0, base / 2 * r**0.5, base / 2 / r**0.5) for r in self._ratios()]
            rows += between + shaped if self.puts_greatest_first() else shaped + between
        return np.array(rows, np.float64).reshape(-1, 4)

    def always_clipped(self) -> int:
        return sum(len(self._dense(1.0, int(density))) for density in self.density[: len(self.fixed_size)])

    def _dense(self, size: float, density: int) -> list[tuple[float, float, float, float]]:
        """Boxes in ``density`` rows and columns, of each fixed ratio, or square and in all other ratios."""
        centres = []
        ratios = self.fixed_ratio or (1.0, *self._ratios())
        for ratio in ratios:
            shift = int(size / density) if density else 0
            starts = [-(size // 2) + shift / 2.0 + i * shift for i in range(density)]
            for down in starts:
                for across in starts:
                    centres.append((across, down, size / 2 * ratio**0.5, size / 2 / ratio**0.5))
        return centres

    def centres(self, layer: Array, image: Array) -> tuple[Array, Array]:
        centres = []
        step = self.step
        if not self.scale_all_sizes:
            step = float(image[0]) / float(layer[0]) if step == -1 else step * float(image[0])
        for axis in (1, 0):
            index = np.arange(layer[axis], dtype=np.float32)
            if step == 0:
                centres.append((index + np.float32(0.5)) * np.float32(image[axis] / layer[axis]))
            else:
                centres.append((index + np.float32(self.offset)) * np.float32(step))
        return centres[0], centres[1]

    def _sized(self, boxes: Array, image: Array) -> Array:
        return boxes if self.scale_all_sizes else boxes * float(image[0])


@operation("PriorBox", opset=1)
class PriorBox1(_PriorBox):
    """PriorBox whose greatest sizes come before the ratios."""


@operation("PriorBox", opset=8)
class PriorBox8(_PriorBox):
    """Adds which of the two comes first."""

    min_max_aspect_ratios_order: bool = boolean(default=True)

    def puts_greatest_first(self) -> bool:
        return self.min_max_aspect_ratios_order


@operation("PriorBoxClustered", opset=1)
class PriorBoxClustered1(_Priors):
    """Boxes of given widths and heights. The steps between centres are ``step_w`` and ``step_h``, or ``step``."""

    step: float = real(default=0.0)
    step_w: float = real(default=0.0)
    step_h: float = real(default=0.0)
    width: Sequence[float] = reals()
    height: Sequence[float] = reals()
    clip: bool = boolean(default=True)
    offset: float = real(default=0.0)
    variance: Sequence[float] = reals(default=())

    def prior_variances(self) -> Sequence[float]:
        return self.variance

    def is_clipped(self) -> bool:
        return self.clip

    def boxes(self) -> Array:
        if len(self.width) != len(self.height):
            raise InferenceError(f"there are {len(self.width)} widths, but {len(self.height)} heights")
        return np.array([(0, 0, w / 2, h / 2) for w, h in zip(self.width, self.height)]).reshape(-1, 4)

    def centres(self, layer: Array, image: Array) -> tuple[Array, Array]:
        centres = []
        for axis, own in ((1, self.step_w), (0, self.step_h)):
            step = own or self.step or float(image[axis]) / float(layer[axis])
            centres.append((np.arange(layer[axis], dtype=np.float32) + np.float32(self.offset)) * np.float32(step))
        return centres[0], centres[1]
