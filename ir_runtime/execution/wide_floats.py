"""float16 and bfloat16 computed in float32, as on processors without arithmetic of these types.

Inputs, outputs, constants and states keep their types, and a Convert to 16 bits in the model still rounds. Values
between layers are not rounded: results agree with those of the layers one by one to within the rounding of 16 bits,
and are nearer to those of float32.
"""

from __future__ import annotations

from collections.abc import Collection

from ..errors import ModelError
from ..graph import element_types
from ..graph.element_types import ElementType
from ..graph.model import Model, Node, Output
from ..graph.operation import TensorType
from ..graph.shape_inference import infer_types, make_node
from ..graph.tensor import Tensor
from ..operations.elementwise import Convert1, convert
from ..operations.inputs_outputs import Const1
from ..rewriting.unique_names import UniqueNames
from .kernels import is_arithmetic

_MAX_CONVERTED_CONSTANT = 64
_NARROW_TYPES = (element_types.f16, element_types.bf16)


def in_float32(model: Model, kept: Collection[Node] = (), *, ends: bool = False) -> Model:
    """``model`` with its layers changed to float32 where they compute, except ``kept``; those of bodies, too.

    With ``ends`` its inputs and outputs become float32 as well.
    """
    _Widening(model, kept, ends).run()
    return model


class _Widening:
    def __init__(self, model: Model, kept: Collection[Node], ends: bool) -> None:
        self._model = model
        self._kept = kept
        self._ends = ends
        self._names: UniqueNames | None = None
        self._were: dict[Output, ElementType] = {}
        """The outputs that are float32 now, with their types before."""
        self._converted: dict[tuple[Output, ElementType], Output] = {}

    def run(self) -> None:
        for node in list(self._model.nodes()):
            node.op = node.op.with_changed_bodies(in_float32)
            if self._ends and node.op.role == "parameter":
                self._widen_input(node)
            elif not self._widened(node) and not (self._ends and node.op.role == "result"):
                node.inputs = [self._as(source, self._were.get(source, source.element_type)) for source in node.inputs]

    def _widen_input(self, node: Node) -> None:
        (output,) = node.outputs
        if output.element_type in _NARROW_TYPES:
            self._were[output] = output.element_type
            output.type = TensorType(element_types.f32, output.shape)
            node.op = node.op.of_type(output.type)

    def _widened(self, node: Node) -> bool:
        op = node.op
        if not node.inputs or op.role or op.subgraphs or not op.deterministic or node in self._kept:
            return False
        known = [source in self._were for source in node.inputs]
        narrow = [source.element_type in _NARROW_TYPES for source in node.inputs]
        # Layers that only move elements take either type.
        if not (any(known) or (any(narrow) and is_arithmetic(op))):
            return False
        inputs = [
            self._as(source, element_types.f32) if is_narrow else source
            for source, is_narrow in zip(node.inputs, narrow)
        ]
        try:
            found = infer_types(op, [source.type for source in inputs])
        except ModelError:
            return False
        was = [output.element_type for output in node.outputs]
        wanted = [element_types.f32 if kind in _NARROW_TYPES else kind for kind in was]
        if [kind.element_type for kind in found] != wanted:
            return False
        node.inputs = inputs
        for output, kind, before in zip(node.outputs, found, was):
            output.type = kind
            if before in _NARROW_TYPES:
                self._were[output] = before
        return True

    def _as(self, source: Output, kind: ElementType) -> Output:
        """``source`` converted to that type, where it has another one."""
        if source.element_type is kind:
            return source
        made = self._converted.get((source, kind))
        if made is None:
            if self._names is None:
                self._names = UniqueNames(self._model)
            name, data = self._names(f"{source.node.name}/{kind}"), source.node.op.data
            if (
                data is None or data.size > _MAX_CONVERTED_CONSTANT
            ):  # weights are converted by each plan, which packs them
                node = make_node(Convert1(destination_type=kind), [source], name)
            else:  # shapes may follow from its values
                node = make_node(Const1(value=Tensor.from_array(convert(data.array(), kind), kind)), [], name)
            node.origin = source.node.origin
            made = self._converted[source, kind] = node.outputs[0]
        return made
