"""How rules find the layers that they apply to."""

from __future__ import annotations

import converter
from converter.targets.legalisation import legalise
from ir_runtime.builder import Builder
from ir_runtime.graph import Node, Output
from ir_runtime.operations.elementwise import Add1, Multiply1
from ir_runtime.rewrite import Uses
from tests.ir_runtime.test_copies import branches


def test_layers_of_bodies_behind_parts_without_any() -> None:
    """The branches of an If have one multiplication and one addition, the model around them none."""

    def swapped(builder: Builder, node: Node, uses: Uses) -> Output:
        return builder.emit(Add1() if isinstance(node.op, Multiply1) else Multiply1(), *node.inputs)

    for kind in (Add1, Multiply1):
        model = converter.convert_model(branches(), target="any")
        assert legalise(model, (kind,), swapped) == 1
        found = [node.op.type for part in model.all_models() for node in part.nodes()]
        other = "Multiply" if kind is Add1 else "Add"
        assert (found.count(kind.__name__[:-1]), found.count(other)) == (0, 2)
