"""Models computed in wider floats: 16 bits in float32, or everything in float64.

In float32, as on processors without arithmetic of 16 bits: inputs, outputs, constants and states keep their types, and
a Convert to 16 bits in the model still rounds. Values between layers are not rounded: results agree with those of the
layers one by one to within the rounding of 16 bits, and are nearer to those of float32.

In float64 nothing rounds to a narrower float any more: the results are those that a model of float32 or 16 bits
approximates.
"""

from __future__ import annotations

from collections.abc import Collection

from ..errors import ModelError
from ..graph import ElementType, Model, Node, Output, Tensor, element_types, infer_types, make_node
from ..graph.invariants import PRECISION
from ..graph.operation import Operation, TensorType
from ..operations.elementwise import Convert1, convert
from ..operations.inputs_outputs import Const1
from ..rewriting import UniqueNames, graph_pass
from .kernels import is_arithmetic

_MAX_CONVERTED_CONSTANT = 64
_NARROW_TYPES = (element_types.f16, element_types.bf16)
_ALL_NARROW_TYPES = (*_NARROW_TYPES, element_types.f32)


def in_float32(model: Model, kept: Collection[Node] = (), *, ends: bool = False) -> Model:
    """``model`` with its layers changed to float32 where they compute, except ``kept``; those of bodies, too.

    With ``ends`` its inputs and outputs become float32 as well, and a Convert from float32 to 16 bits does not round:
    whoever halves a model and leaves its inputs and outputs as they are puts one behind each.
    """
    _Widening(model, kept, ends).run()
    return model


@graph_pass("in_float64", PRECISION)
def in_float64(model: Model) -> Model:
    """``model`` with all its real layers, inputs and outputs changed to float64, those of bodies, too.

    Rounding to 8 bits or fewer stays. A layer that takes no float64 keeps its type, between Converts.
    """
    _ToFloat64(model, (), True).run()
    return model


class _Widening:
    narrow: tuple[ElementType, ...] = _NARROW_TYPES
    wide: ElementType = element_types.f32

    def __init__(self, model: Model, narrow_nodes: Collection[Node], ends: bool) -> None:
        self._model = model
        self._kept = narrow_nodes
        self._ends = ends
        self._names: UniqueNames | None = None
        self._were: dict[Output, ElementType] = {}
        """The outputs that are wide now, with their types before."""
        self._converted: dict[tuple[Output, ElementType], Output] = {}

    def run(self) -> None:
        for node in list(self._model.nodes()):
            node.op = node.op.with_changed_bodies(self._with_wide_body)
            if self._ends and node.op.role == "parameter":
                self._widen_input(node)
            elif self._ends and self._narrows(node):
                self._widen_conversion(node)
            elif self._ends and node.op.role == "result":
                self._widen_result(node)
            elif not self._widen(node):
                node.replace_inputs(
                    [self._as(source, self._were.get(source, source.element_type)) for source in node.inputs]
                )
        for node in list(self._model.nodes()) if self._ends else ():
            is_idle = isinstance(node.op, Convert1) and node.inputs[0].element_type is node.outputs[0].element_type
            if is_idle and not any(user.op.role == "result" for user in node.outputs[0].uses):
                node.outputs[0].replace_by(node.inputs[0])

    def _narrows(self, node: Node) -> bool:
        """True if a layer converts values that are computed in the wide type."""
        is_conversion = isinstance(node.op, Convert1) and node.inputs[0].node.op.data is None
        return is_conversion and node.inputs[0].element_type is self.wide and self._is_narrow(node.outputs[0])

    def _widen_conversion(self, node: Node) -> None:
        (output,) = node.outputs
        self._were[output] = output.element_type
        output.type = TensorType(self.wide, output.shape)
        node.op = Convert1(destination_type=self.wide)

    def _with_wide_body(self, body: Model) -> Model:
        return in_float32(body)

    def _widen_input(self, node: Node) -> None:
        (output,) = node.outputs
        if output.element_type in self.narrow:
            self._were[output] = output.element_type
            output.type = TensorType(self.wide, output.shape)
            node.op = node.op.of_type(output.type)

    def _widen_result(self, node: Node) -> None:
        (source,) = node.inputs
        if self._is_narrow(source):  # of layers that only move weights
            wide = self._as(source, self.wide)
            if not node.output_names:
                wide.names, source.names = [*wide.names, *source.names], []
            node.replace_inputs([wide])

    def _widen(self, node: Node) -> bool:
        op = self._operation(node)
        if op is None:
            return False
        inputs = [self._as(source, self.wide) if self._is_narrow(source) else source for source in node.inputs]
        types = [source.type for source in inputs]
        try:
            op = op.specialized(types) if op.subgraphs else op
            inferred = infer_types(op, types)
        except ModelError:
            return False
        was = [output.element_type for output in node.outputs]
        expected = [self.wide if element_type in self.narrow else element_type for element_type in was]
        if [output_type.element_type for output_type in inferred] != expected:
            return False
        node.update(op, inputs, inferred)
        for output, before in zip(node.outputs, was):
            if before in self.narrow:
                self._were[output] = before
        return True

    def _operation(self, node: Node) -> Operation | None:
        """The operation that computes in the wide type; None where the layer stays as it is."""
        op = node.op
        if not node.inputs or not op.is_pure or node in self._kept:
            return None
        # Layers that only move elements take either type.
        is_needed = self._reads_wide(node) or (any(map(self._is_narrow, node.inputs)) and is_arithmetic(op))
        return op if is_needed else None

    def _reads_wide(self, node: Node) -> bool:
        return any(source in self._were for source in node.inputs)

    def _is_narrow(self, source: Output) -> bool:
        return source.element_type in self.narrow

    def _as(self, source: Output, element_type: ElementType) -> Output:
        """``source`` converted to that type, where it has another one."""
        if source.element_type is element_type:
            return source
        converted = self._converted.get((source, element_type))
        if converted is None:
            if self._names is None:
                self._names = UniqueNames(self._model)
            name, data = self._names(f"{source.node.name}/{element_type}"), source.node.op.data
            if (
                data is None or data.size > _MAX_CONVERTED_CONSTANT
            ):  # weights are converted by each plan, which packs them
                node = make_node(Convert1(destination_type=element_type), [source], name)
            else:  # shapes may follow from its values
                node = make_node(
                    Const1(value=Tensor.from_array(convert(data.array(), element_type), element_type)), [], name
                )
            node.origin = source.node.origin
            converted = self._converted[source, element_type] = node.outputs[0]
        return converted


class _ToFloat64(_Widening):
    narrow = _ALL_NARROW_TYPES
    wide = element_types.f64

    def _with_wide_body(self, body: Model) -> Model:
        return in_float64(body)

    def _operation(self, node: Node) -> Operation | None:
        op = node.op
        if op.role or not op.deterministic:
            return None
        # Convert, Range and others name the type of their output.
        chosen = {name: self.wide for name in op.declared if getattr(op, name) in self.narrow}
        changed = op.with_attributes(**chosen) if chosen else op
        is_needed = chosen or op.subgraphs or self._reads_wide(node) or any(map(self._is_narrow, node.inputs))
        return changed if is_needed else None
