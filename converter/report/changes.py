"""Drawings of passes and rules: how much each changed, and which layers the fused ones replace."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence

from converter.report.markup import text_of
from ir_runtime.graph import Model, Node
from ir_runtime.records import record
from ir_runtime.rewriting.fused_names import fused_names

_NUMBER = re.compile(r"[._]?\d+$")
_EXAMPLES = 3
_MOST_DRAWN = 14


@record
class Applied:
    """A pass, or a rule of the target: how many layers it changed, and what it does."""

    name: str
    category: str
    times: int
    text: str


def changes_drawing(done: Sequence[Applied]) -> str:
    """A bar for each pass and rule, as HTML; empty where there are none."""
    if not done:
        return ""
    most = max(change.times for change in done)
    rows = "".join(
        f"<li><span class='name'>{text_of(change.name)} <span class='soft'>{change.category}</span></span>"
        f"<span class='bar' role='img' aria-label='{change.times:,} layers'>"
        f"<i style='width:{max(100 * change.times / most, 0.5):.1f}%'></i></span><b>{change.times:,}</b>"
        f"<p class='soft'>{text_of(' '.join(change.text.split()))}</p></li>"
        for change in sorted(done, key=lambda change: -change.times)
    )
    return (
        "<section><h2>What passes and rules did</h2><p class='soft'>How many layers each replaced or left out.</p>"
        f"<ul class='bars'>{rows}</ul></section>"
    )


def fusions_drawing(model: Model, place: Mapping[Node, int]) -> str:
    """Each kind of fused layer behind the layers that it stands for, as HTML; empty where there are none.

    ``place`` has the places of the layers that the page's graph shows.
    """
    nodes_by_pattern: dict[tuple[tuple[str, ...], str], list[Node]] = {}
    for part in model.parts():
        for node in part.nodes:
            before = tuple(_short(name) for name in fused_names(node))
            if before:
                nodes_by_pattern.setdefault((before, node.op.type), []).append(node)
    if not nodes_by_pattern:
        return ""
    drawn = sorted(nodes_by_pattern.items(), key=lambda change_type: -len(change_type[1]))
    return (
        "<section><h2>Before and after</h2><p class='soft'>The nodes of the file that one layer stands for now.</p>"
        f"<ul class='fusions'>{''.join(_fusion(*key, nodes, place) for key, nodes in drawn)}</ul></section>"
    )


def _fusion(before: Sequence[str], after: str, nodes: Sequence[Node], place: Mapping[Node, int]) -> str:
    boxes = _boxes(before[:_MOST_DRAWN])
    more = f"<span class='soft'>and {len(before) - _MOST_DRAWN} more</span>" if len(before) > _MOST_DRAWN else ""
    left_out = f" and {len(nodes) - _EXAMPLES:,} more" if len(nodes) > _EXAMPLES else ""
    names = ", ".join(_link(node, place) for node in nodes[:_EXAMPLES]) + left_out
    return (
        f"<li><span class='before'>{boxes}{more}</span><span class='becomes' aria-label='becomes'>&rarr;</span>"
        f"<span class='after'>{html.escape(after)}</span><b class='times'>&times; {len(nodes):,}</b>"
        f"<p class='soft'>{names}</p></li>"
    )


def _link(node: Node, place: Mapping[Node, int]) -> str:
    if node not in place:  # it is in a body
        return text_of(node.name)
    return f"<button type='button' class='go inline' data-layer='{place[node]}'>{text_of(node.name)}</button>"


def _boxes(names: Iterable[str]) -> str:
    return "".join(f"<span>{text_of(name)}</span>" for name in names)


def _short(name: str) -> str:
    """``/encoder/layer.3/act/Mul_1`` as ``Mul``."""
    return _NUMBER.sub("", name.strip("/").rsplit("/", 1)[-1]) or name
