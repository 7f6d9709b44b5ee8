"""Products of matrices (MatMul, Einsum, GroupedMatMul), and the inverse.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/matrix/matmul-1.html
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import DYNAMIC, Array, Dimension, PartialShape, broadcast
from ir_runtime.graph.element_types import dynamic, i32, i64
from ir_runtime.graph.operation import Operation, TensorType, boolean, operation, text
from ir_runtime.graph.shapes import broadcast_all

from ..records import record
from .elementwise import merge_types

_EXACT = float(2**53)


def multiplied(a: Array, b: Array) -> Array:
    """``a @ b`` in their type; small floats are summed up in float32, integers wrap."""
    if a.dtype.kind in "iub":
        return _integer_product(a, b)
    if a.dtype.itemsize < 4:
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    return np.matmul(a, b)


def _integer_product(a: Array, b: Array) -> Array:
    """The product: by BLAS in float64 where every sum is exact in float64, else in integers, which wrap."""
    depth = a.shape[-1]
    if a.size and b.size and _reach(a) * _reach(b) * depth <= _EXACT:
        product = np.matmul(a.astype(np.float64), b.astype(np.float64))
        return product.astype(np.int64).astype(a.dtype)
    return np.matmul(a, b)


def _reach(values: Array) -> float:
    return max(abs(float(values.min())), abs(float(values.max())))


@operation("MatMul", opset=1)
class MatMul1(Operation):
    """The product of the last two dimensions; those before are broadcast.

    A list on the left is a row, one on the right a column; the dimension that this adds is dropped
    again, and ``transpose_a`` and ``transpose_b`` leave lists alone.
    """

    inputs = (2, 2)
    transpose_a: bool = boolean(default=False)
    transpose_b: bool = boolean(default=False)

    def multiplications(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> float:
        a = inputs[0]
        if not a.element_count or not a.shape.rank:
            return 0.0
        summed = -2 if self.transpose_a and a.shape.rank > 1 else -1
        return float(outputs[0].element_count * a.shape[summed].value)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        element_type = merge_types(inputs)
        a, b = inputs[0].shape, inputs[1].shape
        if not a.has_rank or not b.has_rank:
            return [TensorType(element_type, PartialShape.dynamic())]
        if a.rank == 0 or b.rank == 0:
            raise InferenceError(f"a scalar has no product with a matrix, but the shapes are {a} and {b}")
        left, right = list(a), list(b)
        if len(left) == 1:
            left = [Dimension(1, 1), *left]
        elif self.transpose_a:
            left[-2:] = left[:-3:-1]
        if len(right) == 1:
            right = [*right, Dimension(1, 1)]
        elif self.transpose_b:
            right[-2:] = right[:-3:-1]
        if left[-1].merge(right[-2]) is None:
            raise InferenceError(
                f"the shapes {a} and {b} have no product: {left[-1]} columns meet {right[-2]} rows"
                f" (transpose_a={self.transpose_a}, transpose_b={self.transpose_b})"
            )
        dims = list(broadcast(PartialShape(left[:-2]), PartialShape(right[:-2])))
        if a.rank > 1:
            dims.append(left[-2])
        if b.rank > 1:
            dims.append(right[-1])
        return [TensorType(element_type, PartialShape(dims))]

    def evaluate(self, *inputs: Array) -> Array:
        a, b = inputs
        if self.transpose_a and a.ndim > 1:
            a = a.swapaxes(-1, -2)
        if self.transpose_b and b.ndim > 1:
            b = b.swapaxes(-1, -2)
        return multiplied(a, b)


@record
class Equation:
    """An Einstein summation: a letter for each dimension, ``.`` for those of an ellipsis."""

    operands: tuple[str, ...]
    output: str

    @classmethod
    def parse(cls, equation: str) -> Equation:
        """Read ``ij,jk->ik``; without ``->`` the output has the letters that occur once, in order.

        Raises :class:`InferenceError` for anything else.
        """
        plain = re.sub(r"\s+", "", equation)
        equation_text = equation[:80]
        matched = re.fullmatch(r"([A-Za-z.,]*)(?:->([A-Za-z.]*))?", plain)
        if matched is None:
            raise InferenceError(f"'{equation_text}' is not an Einstein summation")
        operands = tuple(cls._term(term, equation_text) for term in matched[1].split(","))
        letters = "".join(operands).replace(".", "")
        if matched[2] is None:
            alone = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
            dots = "." if any("." in term for term in operands) else ""
            return cls(operands, dots + "".join(alone))
        output = cls._term(matched[2], equation_text)
        strange = set(output) - set("".join(operands))
        if strange - {"."} or len(set(output)) != len(output):
            raise InferenceError(f"the output of '{equation_text}' must be letters of its inputs, each once")
        return cls(operands, output)

    @staticmethod
    def _term(term: str, equation_text: str) -> str:
        short = term.replace("...", "#")
        if "." in short or short.count("#") > 1:
            raise InferenceError(f"'{equation_text}' has a misplaced ellipsis")
        return short.replace("#", ".")

    def text(self) -> str:
        """The equation with its output."""
        return f"{','.join(self.operands)}->{self.output}".replace(".", "...")

    def shape(self, shapes: Sequence[PartialShape]) -> PartialShape:
        """The output's shape."""
        if len(shapes) != len(self.operands):
            raise InferenceError(f"'{self.text()}' is of {len(self.operands)} inputs, but got {len(shapes)}")
        dimensions: dict[str, Dimension] = {}
        middles: list[PartialShape] = []
        for term, shape in zip(self.operands, shapes):
            if not shape.has_rank:
                if "." in term:
                    middles.append(PartialShape.dynamic())
                for letter in term.replace(".", ""):
                    dimensions.setdefault(letter, DYNAMIC)
                continue
            dims, middle = self._labelled(term, shape)
            if middle is not None:
                middles.append(middle)
            for letter, dimension in self._own(term, dims).items():
                dimensions[letter] = _common(dimensions.get(letter), dimension, letter, self.text())
        middle = broadcast_all(middles)
        if "." in self.output and not middle.has_rank:
            return PartialShape.dynamic()
        dims_out: list[Dimension] = []
        for letter in self.output:
            dims_out.extend(middle.dims if letter == "." else [dimensions[letter]])
        return PartialShape(dims_out)

    def _own(self, term: str, dims: Sequence[tuple[str, Dimension]]) -> dict[str, Dimension]:
        """The dimension of each letter of an input; those of a letter that occurs twice must be equal."""
        dimensions: dict[str, Dimension] = {}
        for letter, dimension in dims:
            merged = dimension.merge(dimensions.get(letter, DYNAMIC))
            if merged is None:
                raise InferenceError(f"'{letter}' of '{term}' is both {dimensions[letter]} and {dimension}")
            dimensions[letter] = merged
        return dimensions

    def _labelled(self, term: str, shape: PartialShape) -> tuple[list[tuple[str, Dimension]], PartialShape | None]:
        """(letter, dimension) pairs, and the dimensions under the ellipsis."""
        count = len(term.replace(".", ""))
        if shape.rank < count or ("." not in term and shape.rank != count):
            raise InferenceError(f"an input of the shape {shape} does not fit '{term.replace('.', '...')}'")
        if "." not in term:
            return list(zip(term, shape)), None
        before = term.index(".")
        after = count - before
        end = shape.rank - after
        pairs = [*zip(term[:before], shape.dims[:before]), *zip(term[before + 1 :], shape.dims[end:])]
        return pairs, PartialShape(shape.dims[before:end])


def _common(previous: Dimension | None, dimension: Dimension, letter: str, equation_text: str) -> Dimension:
    if previous is None:
        return dimension
    try:
        return broadcast(PartialShape([previous]), PartialShape([dimension]))[0]
    except InferenceError:
        raise InferenceError(
            f"'{letter}' of '{equation_text}' is {previous} in one input and {dimension} in another"
        ) from None


@operation("Einsum", opset=7)
class Einsum7(Operation):
    """The sum over products that ``equation`` describes, such as ``bij,bjk->bik``."""

    inputs = (1, None)
    equation: str = text()

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        parsed = Equation.parse(self.equation)
        return [TensorType(merge_types(inputs), parsed.shape([value.shape for value in inputs]))]

    def evaluate(self, *inputs: Array) -> Array:
        dtype = inputs[0].dtype
        work = inputs
        if dtype.kind not in "iub" and dtype.itemsize < 4:
            work = tuple(value.astype(np.float32) for value in inputs)
        result = np.einsum(Equation.parse(self.equation).text(), *work, optimize=len(work) > 1)
        return np.asarray(result).astype(dtype, copy=False)


@operation("GroupedMatMul", opset=17)
class GroupedMatMul17(Operation):
    """Each group of rows times its own matrix, as a mixture of experts does it.

    a ``[g, m, k]`` and b ``[g, n, k]`` give ``[g, m, n]``. a ``[t, k]`` and b ``[g, n, k]`` need a third
    input ``[g]``: where the rows of each group end; they give ``[t, n]``, with zeros in rows behind
    the last group. The matrices of b are transposed.
    """

    inputs = (2, 3)

    def multiplications(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> float:
        a = inputs[0]
        return float(outputs[0].element_count * a.shape[-1].value) if a.element_count else 0.0

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        element_type = merge_types(inputs[:2])
        a, b = inputs[0].shape, inputs[1].shape
        if len(inputs) > 2 and inputs[2].element_type not in (i32, i64, dynamic):
            raise InferenceError(f"where groups end must be i32 or i64, but is {inputs[2].element_type}")
        if not a.has_rank or not b.has_rank:
            return [TensorType(element_type, PartialShape.dynamic())]
        if b.rank != 3 or a.rank not in (2, 3):
            raise InferenceError(f"groups must be [t, k] or [g, m, k] and matrices [g, n, k], but are {a} and {b}")
        if a[-1].merge(b[2]) is None:
            raise InferenceError(f"{a} and {b} must agree in the last dimension")
        if a.rank == 2:
            if len(inputs) < 3:
                raise InferenceError("rows of one matrix need a third input: where each group ends")
            if inputs[2].shape.has_rank and inputs[2].shape.rank != 1:
                raise InferenceError(f"where groups end must be a list, but has the shape {inputs[2].shape}")
            return [TensorType(element_type, PartialShape([a[0], b[1]]))]
        groups = a[0].merge(b[0])
        if groups is None:
            raise InferenceError(f"{a} and {b} must have as many groups")
        return [TensorType(element_type, PartialShape([groups, a[1], b[1]]))]

    def evaluate(self, *inputs: Array) -> Array:
        a, b = inputs[:2]
        matrices = np.swapaxes(b, 1, 2)
        if a.ndim == 3:
            return multiplied(a, matrices)
        ends = inputs[2].tolist()
        if len(ends) != len(b) or any(not start <= end <= len(a) for start, end in zip([0, *ends], ends)):
            raise InferenceError(f"{len(b)} groups of {len(a)} rows cannot end at {ends[:8]}")
        result = np.zeros((len(a), b.shape[1]), a.dtype)
        for matrix, start, end in zip(matrices, [0, *ends], ends):
            result[start:end] = multiplied(a[start:end], matrix)
        return result


@operation("Inverse", opset=14)
class Inverse14(Operation):
    """The inverse matrices ``[..., M, M]``, with ``adjoint`` transposed; NaN where there is none."""

    inputs = (1, 1)
    adjoint: bool = boolean(default=False)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        shape = inputs[0].shape
        if shape.has_rank and (shape.rank < 2 or shape[-1].merge(shape[-2]) is None):
            raise InferenceError(f"the matrices must be square, but the shape is {shape}")
        return [TensorType(inputs[0].element_type, shape)]

    def evaluate(self, *inputs: Array) -> Array:
        matrices = inputs[0].astype(np.float64)
        if self.adjoint:
            matrices = np.swapaxes(matrices, -1, -2)
        flat = matrices.reshape(-1, *matrices.shape[-2:])
        out = np.full_like(flat, np.nan)
        for target, matrix in zip(out, flat):
            if np.linalg.det(matrix) != 0:
                target[:] = np.linalg.inv(matrix)
        return out.reshape(matrices.shape).astype(inputs[0].dtype)
