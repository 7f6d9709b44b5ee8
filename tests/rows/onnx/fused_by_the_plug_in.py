"""What follows reductions, products and pads, which OpenVINO's CPU plug-in fuses with them or leaves out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.rows.row import Row, const, normal_by, several

RNG = np.random.default_rng(3)
HALF = const(0.5, np.float32)
normal = normal_by(RNG)


def positive(*shape: int) -> np.ndarray[Any, Any]:
    return (RNG.random(shape) + 0.5).astype(np.float32)


def left(
    label: str, nodes: str, x: np.ndarray[Any, Any], outputs: str = "y", dims: Any = None, **more: Any
) -> Iterator[Row]:
    """Yield the row of nodes that read x, whose dimensions are declared unless told otherwise."""
    for row in several(nodes, dims=dims and {"x": dims}, outputs=outputs, label=label, x=x, **more):
        yield replace(row, group=label.partition("-")[0])


# --- behind reductions ---

AFTER = {
    "Add": "y = Add (r, k)",
    "Mul": "y = Mul (r, k)",
    "RSub": "y = Sub (k, r)",
    "Half-RSub": "h = Mul (r, half) y = Sub (k, h)",
    "Relu-Half-Add": "a = Relu (r) h = Mul (a, half) y = Add (h, k)",
    "Norm": "y = BatchNormalization (r, k, k, k, k)",
}


def reduced_and(op_type: str, axis: int, keepdims: int, after: str, *layers: str) -> Iterator[Row]:
    """A reduction, and a constant for each place along the middle dimension after it."""
    nodes = f"[reduce] r = {op_type} <axes = [{axis}], keepdims = {keepdims}> (x) {AFTER.get(after, after)}"
    shape = (3,) if after == "Norm" else (1, 3, 1) if keepdims else (3, 1) if axis == 0 else (3,)
    label = f"reduced-{op_type}-axis={axis}-keepdims={keepdims}-{after if after in AFTER else len(layers)}"
    constants = {"k": const(positive(*shape))} if "k" in nodes.split("(x)")[1] else {}
    constants |= {"half": HALF} if "half" in nodes else {}
    yield from left(label, nodes, (RNG.random((5, 3, 8)) + 0.1).astype("f4"), layers=layers or None, **constants)


def quotients() -> Iterator[Row]:
    for axes, keepdims, between in itertools.product(("1", "1, 2"), (0, 1), ("Relu", "Identity")):
        nodes = f"r = ReduceMax <axes = [{axes}], keepdims = {keepdims}> (x) t = {between} (r) y = Div (t, k)"
        yield from left("quotient_of_float64", nodes, RNG.random((5, 3, 8)) + 0.1, k=const(5.0))


def transposed() -> Iterator[Row]:
    for shape in ((3, 5, 1), (1, 4, 3), (2, 3, 1, 4)):
        for axis, order in itertools.product(range(len(shape)), itertools.permutations(range(len(shape) - 1))):
            nodes = f"r = ReduceMax <axes = [{axis}], keepdims = 0> (x) y = Transpose <perm = {[*order]}> (r)"
            yield from left(f"transposed-{shape}-{axis}", nodes, normal(*shape))


RESHAPED = [
    ((4, 2, 3), [0], [1, 6]),
    ((4, 2, 3), [1], [12, 1]),
    ((4, 2, 3), [-3], [1, -1]),
    ((2, 4, 3, 5), [0, 1], [15, 1]),
    ((2, 4, 3, 5), [0, 2], [1, 20]),
    ((2, 3, 2, 2, 3), [0, 1], [1, 1, 12]),
    ((2, 3, 2, 2, 3), [0, 1, 3], [6, 1]),
]


def reshaped() -> Iterator[Row]:
    for (shape, axes, target), op_type in itertools.product(RESHAPED, ("Mean", "Sum", "Max", "L1")):
        nodes = f"r = Reduce{op_type} <keepdims = 0> (x, axes) y = Reshape (r, target) z = Exp (r)"
        x = RNG.random(shape).astype(np.float32)
        yield from left(
            f"reshaped-{op_type}", nodes, x, "y, z", opset=18, axes=const(axes), target=const(target)
        )  # fmt: skip


MOVED: list[tuple[tuple[int, ...], str, list[int]]] = [
    ((3, 2, 1, 1), "Transpose", [0, 2, 3, 1]),
    ((3, 2, 1, 1), "Transpose", [2, 0, 1, 3]),
    ((1, 3, 2), "Transpose", [1, 0, 2]),
    ((3, 4, 1, 2), "Transpose", [3, 2, 1, 0]),
    ((3, 4, 5, 1), "Transpose", [1, 3, 0, 2]),
    ((1, 3, 2), "Transpose", [1, 2, 0]),
    ((1, 3, 2), "Unsqueeze", [2]),
    ((3, 2, 1, 1), "Unsqueeze", [3]),
    ((3, 1, 2), "Unsqueeze", [0]),
]


def dimensions_of_1() -> Iterator[Row]:
    """They stay where they are in front of a reduction."""
    for (shape, before, argument), keepdims in itertools.product(MOVED, (0, 1)):
        rank, is_moved = len(shape) + (before == "Unsqueeze"), before == "Transpose"
        first = f"t = Transpose <perm = {argument}> (x)" if is_moved else "t = Unsqueeze (x, places)"
        for axes in (list(found) for count in range(1, rank) for found in itertools.combinations(range(rank), count)):
            nodes = f"{first} y = ReduceMean <axes = {axes}, keepdims = {keepdims}> (t)"
            yield from left(
                f"dimensions_of_1-{before}-{axes}-{keepdims}", nodes, normal(*shape),
                **({} if is_moved else {"places": const(argument)}),
            )  # fmt: skip


def widened() -> Iterator[Row]:
    """Constants that widen what came before."""
    for dimension, rank, op_type in itertools.product((1, 3), (3, 4), ("ReduceMean", "ReduceMax", "MatMul")):
        is_product, shape = op_type == "MatMul", (4, dimension, 2, 5)[:rank]
        how = "(x, w)" if is_product else f"<axes = [{rank - 1}], keepdims = 0> (x)"
        stored = {"k": const(positive(3, *[1] * (rank - 2 if is_product else rank - 3)))}
        stored |= {"w": const(positive(shape[-1], 6))} if is_product else {}
        nodes = f"r = {op_type} {how} p = Mul (r, k) y = Transpose (p)"
        yield from left(f"widened-{op_type}-{rank}", nodes, normal(*shape), **stored)


def integers() -> Iterator[Row]:
    """Float32 holds the reduction, but not what is computed from it."""
    x = RNG.integers(-100, 100, (4, 50)).astype(np.int8)
    for op_type, how, total in (
        ("ReduceSum", "(w, axes)", x.astype(np.int32).sum(1, keepdims=True)),
        ("ReduceMax", "<axes = [1]> (w)", x.astype(np.int32).max(1, keepdims=True)),
    ):
        nodes = f"w = Cast <to = 6> (x) r = {op_type} {how} p = Mul (r, factor) y = Add (p, more)"
        stored = {"factor": const(40_097, np.int32), "more": const(765_432_111, np.int32)}
        stored |= {"axes": const([1])} if op_type == "ReduceSum" else {}
        expected = (total * 40_097 + 765_432_111).astype(np.int32)
        yield from left(f"integers-{op_type}", nodes, x, expect=expected, **stored)


# --- behind products ---


def channels() -> Iterator[Row]:
    for shape, columns, after in itertools.product(
        ((4, 3, 6, 5), (2, 3, 2, 4, 5), (1, 3, 4, 2)), (3, 8), ("Add", "Mul", "Norm", "PRelu", "Half-Add")
    ):
        stored = {"k": positive(3, *[1] * (len(shape) - 2)), "w": normal(shape[-1], columns)}
        nodes = {"Norm": "y = BatchNormalization (r, k, k, k, k)", "Half-Add": "h = Mul (r, half) y = Add (h, k)"}.get(
            after, f"y = {after} (r, k)"
        )
        if after == "Norm":
            stored["k"] = stored["k"].reshape(-1)
        more = {"half": HALF} if "half" in nodes else {}
        yield from left(
            f"channels-{after}", f"r = MatMul (x, w) {nodes}", normal(*shape),
            **{name: const(value) for name, value in stored.items()}, **more,
        )  # fmt: skip


def usual() -> Iterator[Row]:
    """A product, columns of a known number, and a bias or a normalisation, for any number of rows."""
    for after, rank in itertools.product(("Norm", "Add"), (2, 3)):
        nodes = {"Norm": "y = BatchNormalization (r, b, b, b, b)", "Add": "y = Add (r, b)"}[after]
        stored = {"w": const(positive(5, 6)), "b": const(positive(6 if rank == 2 or after == "Add" else 4))}
        last = "BatchNormInference" if after == "Norm" and rank == 3 else "Add"
        yield from left(
            f"usual-{after}-{rank}", f"r = MatMul (x, w) {nodes}", normal(*(3, 4, 5)[3 - rank :]),
            dims=["n", 4, 5] if rank == 3 else ["n", 5], layers=["MatMul", last], **stored,
        )  # fmt: skip


# --- pads in front of windows, and what looks like shuffled channels ---

WINDOWS = {
    "Conv": ("Conv", "", "Convolution"),
    "Group": ("Conv", ", group = 2", "GroupConvolution"),
    "ConvTranspose": ("ConvTranspose", "", "ConvolutionBackpropData"),
    "AveragePool": ("AveragePool", "", "AvgPool"),
    "Counting": ("AveragePool", ", count_include_pad = 1", "AvgPool"),
    "MaxPool": ("MaxPool", "", "MaxPool"),
}


def padded_and(
    window: str, auto_pad: str, strides: int, rank: int, dims: Sequence[Any] | None = None, outputs: str = "y"
) -> Iterator[Row]:
    """A Pad of uneven widths, and a window whose pads follow from the dimensions."""
    op_type, more, _ = WINDOWS[window]
    how = f'auto_pad = "{auto_pad}", strides = {[strides] * rank}, kernel_shape = {[3] * rank}{more}'
    weights = "" if op_type.endswith("Pool") else ", w"
    kernel = {"w": const(normal(4, 2 if window == "Group" else 4, *[3] * rank))} if weights else {}
    yield from left(
        f"padded-{window}-{auto_pad}-{strides}-{rank}", f"p = Pad (x, widths) y = {op_type} <{how}> (p{weights})",
        normal(1, 4, *range(7, 7 + rank)), outputs, dims if dims is None else dims[: 2 + rank],
        widths=const([0, 0, *[1] * rank, 0, 0, *[2] * rank]), **kernel,
    )  # fmt: skip


SHUFFLES = {
    "a group of any number": ("0, 2, 1, 3, 4", [1, -1, 12, 4, 5], [1, 12, -1, 5]),
    "rows of any number": ("0, 1, 2, 4, 3", [1, -1, 4, 5, 12], [1, -1, 5, 48]),
    "columns of any number": ("0, 2, 1, 3, 4", [2, 3, 4, 5, -1], [2, 12, 5, -1]),
    "any batch": ("0, 2, 1, 3, 4", [-1, 3, 4, 4, 5], [-1, 12, 4, 5]),
    "more dimensions": ("0, 2, 1, 3, 4, 5", [1, -1, 12, 2, 2, 5], [1, 12, -1, 5]),
    "another order": ("0, 2, 1, 4, 3", [1, -1, 12, 4, 5], [1, 12, -1, 5]),
}


def shuffled(name: str, dims: Sequence[Any] | None = None) -> Iterator[Row]:
    """A Reshape that divides a dimension, a Transpose and a Reshape."""
    order, first, second = SHUFFLES[name]
    nodes = f"a = Reshape (x, first) b = Transpose <perm = [{order}]> (a) c = Reshape (b, second) y = Relu (c)"
    yield from left(
        f"shuffled-{name.replace(' ', '_')}", nodes, normal(2, 12, 4, 5), dims=dims,
        first=const(first), second=const(second),
    )  # fmt: skip


GRAM = "t = Transpose <perm = [0, 2, 1]> (x) r = MatMul (x, t) y = Add (r, k)"
ROWS = [
    *quotients(),
    *(
        row
        for op_type, axis, keepdims, after in itertools.product(
            ("ReduceMean", "ReduceMax", "ReduceL1", "ReduceL2", "ReduceProd"), (0, 2, -1), (0, 1), [*AFTER][:5]
        )
        for row in reduced_and(op_type, axis, keepdims, after)
    ),
    *(row for axis, keepdims in ((0, 1), (2, 0), (2, 1)) for row in reduced_and("ReduceMax", axis, keepdims, "Norm")),
    *reduced_and("ReduceMean", 2, 0, "y = Mul (r, half)", "ReduceMean", "Multiply"),
    *reduced_and("ReduceMean", 0, 0, "y = Relu (r)", "ReduceMean", "ReLU"),
    *reduced_and("ReduceMean", 2, 0, "h = Mul (r, half) y = Relu (h)", "ReduceMean", "Multiply", "ReLU"),
    *transposed(),
    *reshaped(),
    *dimensions_of_1(),
    *widened(),
    *integers(),
    *channels(),
    *left("columns_of_an_unknown_number", GRAM, normal(4, 3, 6), dims="ns6", k=const([1, 2, 3], np.float32)),
    *usual(),
    *(
        row
        for window, auto_pad, strides, rank, dims, outputs in itertools.product(
            WINDOWS, ("SAME_UPPER", "SAME_LOWER", "VALID"), (1, 2), (1, 2, 3),
            (None, ["n", 4, 7, "w", "d"]), ("y", "p, y"),
        )
        for row in padded_and(window, auto_pad, strides, rank, dims, outputs)
    ),
    *(
        row
        for name, dims in itertools.product(SHUFFLES, (None, ["n", 12, 4, 5], [2, "c", 4, 5]))
        for row in shuffled(name, dims)
    ),
]  # fmt: skip
