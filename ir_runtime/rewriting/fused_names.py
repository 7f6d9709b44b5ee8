"""The layers that a fused layer stands for: OpenVINO's runtime attribute ``fused_names``.

    <rt_info><attribute name="fused_names" version="0" value="Mul_3,Erf_4,Gelu" /></rt_info>

It is the attribute in which OpenVINO's own transformations keep the names of what they fused.
"""

from __future__ import annotations

from collections.abc import Sequence

from ir_runtime.graph import Node, RuntimeInfo

_NAME = ("name", "fused_names")


def fused_names(node: Node) -> list[str]:
    """The names of the layers that ``node`` stands for; empty where it stands for itself alone."""
    for info in node.runtime_info:
        if info.tag == "attribute" and _NAME in info.attributes:
            value = dict(info.attributes).get("value", "")
            return [name for name in value.split(",") if name]
    return []


def note_fused(node: Node, replaced: Sequence[Node]) -> None:
    """Note that ``node`` stands for ``replaced``, and for what these stand for."""
    names: dict[str, None] = {}
    for fused_node in replaced:
        names.update(dict.fromkeys(fused_names(fused_node) or [fused_node.name]))
    others = [info for info in node.runtime_info if _NAME not in info.attributes]
    node.runtime_info = (*others, RuntimeInfo("attribute", (_NAME, ("version", "0"), ("value", ",".join(names)))))
