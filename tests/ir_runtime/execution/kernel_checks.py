"""Models of a few layers, and what compares plans and kernels with ``evaluate``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ir_runtime import CompiledModel, Model, Operation, Output, PartialShape, compile_model
from ir_runtime.graph import make_node
from ir_runtime.graph.element_types import from_dtype
from ir_runtime.graph.operation import find_operation
from ir_runtime.operations.inputs_outputs import Parameter1, Result1
from ir_runtime.rewriting import Builder
from tests.random_data import generator

RNG = generator(11)
Array = np.ndarray


def op(name: str, opset: int = 16, **attributes: Any) -> Operation:
    return find_operation(name, opset)(**attributes)


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


class Layers(Builder):
    """A builder that has a method for each type of layer, ``b.Gather(x, [0], 1)``: numbers become constants."""

    def __getattr__(self, name: str) -> Callable[..., Output]:
        def emit(*inputs: Any, opset: int = 16, **attributes: Any) -> Output:
            return self.emit(op(name, opset, **attributes), *map(self._constant, inputs))

        if not name[0].isupper():
            raise AttributeError(name)
        return emit

    def _constant(self, value: Any) -> Output:
        if isinstance(value, Output):
            return value
        return self.constant(value, "f32" if np.asarray(value).dtype.kind == "f" else "i64")


def model_of(make: Callable[..., Output | Sequence[Output]], inputs: Sequence[Array], open_: bool = False) -> Model:
    """What ``make`` emits for a builder and parameters of the inputs' types; with ``open_`` of any dimensions."""
    builder = Layers()
    parameters = []
    for value in inputs:
        shape = PartialShape.of_rank(value.ndim) if open_ else PartialShape(value.shape)
        parameters.append(make_node(Parameter1(shape=shape, element_type=from_dtype(value.dtype)), ()))
    made = make(builder, *[node.outputs[0] for node in parameters])
    outputs = [made] if isinstance(made, Output) else list(made)
    return Model("m", parameters, [make_node(Result1(), [output]) for output in outputs])


def same(
    model: Model,
    inputs: Sequence[Array],
    tolerance: float = 4e-6,
    kernels: int | None = 1,
    fallbacks: Sequence[str] | None = (),
) -> CompiledModel:
    """Kernels or none: the same numbers, the inputs untouched, and once more with buffers that are in use.

    ``kernels`` is how many steps of the plan have a kernel (a chain of elementwise layers is one step), None for any
    number. ``fallbacks`` are the types of layers whose kernels leave these very arrays to ``evaluate``: those and no
    others. With None any kernel may.
    """
    fast = compile_model(model, threads=2)
    if kernels is not None:
        steps = [(step.type, step.kernel is not None) for step in fast._calls.plan_for_any_shapes().steps]
        count = sum(has_kernel for _, has_kernel in steps)
        assert count == kernels, f"{count} of the plan's steps have a kernel, but kernels={kernels}: {steps}"
    kept = [value.copy() for value in inputs]
    expected = compile_model(model, optimize=False)(list(inputs)).to_list()
    for number in range(4):
        # By the plan for any shapes, and then, from the second call on where shapes are dynamic, by a static plan.
        if number == 0:
            with np.errstate(all="ignore"):
                found = fast._calls.plan_for_any_shapes().run(list(inputs))
        else:
            found = fast(list(inputs)).to_list()
        for value, want in zip(found, expected, strict=True):
            assert value.shape == want.shape
            assert value.dtype == want.dtype
            scale = np.abs(want[np.isfinite(want)]).max(initial=1e-30)
            np.testing.assert_allclose(value, want, rtol=0, atol=tolerance * scale)
    for value, before in zip(inputs, kept):
        np.testing.assert_array_equal(value, before)
    assert has_static_plans(fast)
    if fallbacks is not None:
        assert set(fast.fallbacks) == set(fallbacks), "name in fallbacks= the layers whose kernels return None"
    return fast


def called_at_once(compiled: CompiledModel, x: Sequence[Array], times: int) -> None:
    """A thread for each input, which always gets what a call alone gives."""
    expected = [compiled([one]).to_list() for one in x]

    def is_right(index: int) -> bool:
        results = [compiled([x[index]]).to_list() for _ in range(times)]
        return all((a == b).all() for found in results for a, b in zip(found, expected[index]))

    with ThreadPoolExecutor(len(x)) as pool:
        assert all(pool.map(is_right, range(len(x))))


def has_static_plans(compiled: CompiledModel) -> bool:
    """Whether the last shapes have a plan of their own, which has not failed."""
    assert compiled._calls.static_plans is not None
    return bool(compiled._calls.static_plans._plans) and all(compiled._calls.static_plans._plans.values())


def convolve(b: Layers, x: Output, outputs: int, kernel: int = 1, **attributes: Any) -> Output:
    pads = [kernel // 2] * 2
    made = op("Convolution", pads_begin=pads, pads_end=pads, **attributes)
    depth = x.shape[1].value
    weights = normal(outputs, depth, kernel, kernel) / np.float32(kernel * np.sqrt(depth))
    return b.emit(made, x, b.constant(weights, "f32"))


def biased(b: Layers, x: Output) -> Output:
    return b.Add(x, normal(1, x.shape[1].value, 1, 1))
