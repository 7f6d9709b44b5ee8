"""Inputs and outputs of a graph: Parameter, Const, Result, and the operations on variables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import ExecutionError
from ir_runtime.graph import Array, ElementType, PartialShape, Tensor, element_types
from ir_runtime.graph.operation import Operation, TensorType, argument, operation, partial_shape, text, type_of_elements


@operation("Parameter", opset=1)
class Parameter1(Operation):
    """An input of the model or body; its value comes from the caller.

    https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/infrastructure/parameter-1.html
    """

    role = "parameter"
    deterministic = False
    shape: PartialShape = partial_shape(default=PartialShape(()))
    element_type: ElementType = type_of_elements(default=element_types.dynamic)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return [TensorType(self.element_type, self.shape)]

    def of_type(self, tensor_type: TensorType) -> Parameter1:
        return type(self)(shape=tensor_type.shape, element_type=tensor_type.element_type)

    def evaluate(self, *inputs: Array) -> Array:
        raise ExecutionError("a parameter has no value of its own")


@operation("Const", opset=1)
class Const1(Operation):
    """Constant data, kept in the ``.bin`` file.

    https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/infrastructure/constant-1.html
    """

    role = "constant"
    value: Tensor = argument()

    @property
    def data(self) -> Tensor:
        return self.value

    def attributes(self) -> dict[str, str]:
        return {
            "element_type": self.value.element_type.name,
            "shape": ", ".join(str(dimension) for dimension in self.value.shape),
        }

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return [TensorType(self.value.element_type, PartialShape(self.value.shape), self.value)]

    def evaluate(self, *inputs: Array) -> Array:
        return self.value.array()


@operation("Result", opset=1)
class Result1(Operation):
    """An output of the model or body: its input is the value that the caller gets."""

    role = "result"
    inputs = (1, 1)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return []

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return ()


@operation("Identity", opset=16)
class Identity16(Operation):
    """The input, unchanged."""

    inputs = (1, 1)
    movement = True
    elementwise = True

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return [inputs[0]]

    def evaluate(self, *inputs: Array) -> Array:
        return inputs[0]


class _Variable(Operation):
    """Base of the operations on a variable, whose value outlives one inference; they return their input."""

    deterministic = False
    inputs = (1, 1)
    variable_id: str = text()

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return [TensorType(inputs[0].element_type, inputs[0].shape)]

    def evaluate(self, *inputs: Array) -> Array:
        return inputs[0]


class ReadValue(_Variable):
    """Base of ReadValue: the variable's value; the input, where it was never assigned.

    ``evaluate`` gives the initial value. A session of a compiled model keeps what is assigned.
    """


@operation("ReadValue", opset=3)
class ReadValue3(ReadValue):
    """A variable that takes type and shape from its initial value."""


@operation("ReadValue", opset=6)
class ReadValue6(ReadValue):
    """A variable of declared type and shape; without an initial value it starts as zeros."""

    inputs = (0, 1)
    variable_type: ElementType = type_of_elements(default=element_types.dynamic)
    variable_shape: PartialShape = partial_shape(default=PartialShape.dynamic())

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return [TensorType(self.variable_type, self.variable_shape)]

    def evaluate(self, *inputs: Array) -> Array:
        if inputs:
            return inputs[0]
        dimensions = [d.value if d.is_static else 0 for d in self.variable_shape]
        return np.zeros(dimensions, self.variable_type.dtype)


class Assign(_Variable):
    """Base of Assign: stores the input in the variable; the output is the input."""

    role = "sink"


@operation("Assign", opset=3)
class Assign3(Assign):
    """Assign of the first revision."""


@operation("Assign", opset=6)
class Assign6(Assign):
    """Assign to a variable of declared type and shape."""
