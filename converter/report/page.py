"""One HTML file with everything in it: facts, tables, and a graph that the page's own script draws."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from ir_runtime.files.whole_files import write_whole
from ir_runtime.graph.model import Model, Node

NOT_COMPARED, EQUAL, DRIFTED, WRONG, CHANGED = range(5)
"""Verdicts of layers, as the page's script knows them."""
_KEY = (
    ("--none", "not compared"),
    ("--good", "equal"),
    ("--drift", "differs because of earlier layers, or rounding adds up"),
    ("--bad", "wrong although its inputs are right"),
    ("--mark", "changed"),
)
_LONGEST_TABLE = 2000


@dataclass
class Table:
    """Rows under a title."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass
class Page:
    """What a page shows. ``layers`` are those of :func:`layers_of`, with verdicts and figures added."""

    title: str
    verdict: str
    facts: Sequence[tuple[str, str]]
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    layers: list[dict[str, Any]] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write the page. Raises :class:`ir_runtime.FileError`, which names the file, where it cannot be written."""
        text = self.html().encode()
        write_whole(path, lambda file: file.write(text))

    def html(self) -> str:
        """The page as text."""
        verdict = (
            f'<span class="verdict {self.verdict.lower()}">{html.escape(self.verdict)}</span>' if self.verdict else ""
        )
        facts = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in self.facts)
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        noted = f"<h2>Notes</h2><ul>{notes}</ul>" if notes else ""
        tables = "".join(_table(table) for table in self.tables if table.rows)
        key = "".join(f'<span><i style="background:var({colour})"></i>{meaning}</span>' for colour, meaning in _KEY)
        body = (
            f"<h1>{html.escape(self.title)}</h1><p>{verdict}</p><dl class='facts'>{facts}</dl>{noted}"
            f"<h2>Graph</h2><div class='key'>{key}</div>{_GRAPH}"
            "<section><h2>Difference over depth</h2>"
            "<p class='soft'>Largest absolute difference of each tensor: dots from right inputs, the line in the whole "
            "run.</p><svg id='depth' viewBox='0 0 1000 240' role='img' aria-label='Difference over depth'></svg>"
            "</section>"
            f"{tables}"
        )
        data = f'<script type="application/json" id="data">{_json({"layers": self.layers})}</script>'
        return document(self.title, body, data, asset("converter.report", "page.js"))


def document(title: str, body: str, data: str, script: str, style: str = "") -> str:
    """A page that is complete in one file: ``body`` and, behind it, an element with ``data`` and the ``script``.

    ``style`` is added to the rules that all pages share.
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{html.escape(title)}</title>'
        f"<style>{asset('converter.report', 'page.css')}{style}</style></head><body><main>"
        f"{body}</main>{data}<script>{script}</script></body></html>\n"
    )


_GRAPH = """
<div class="graph">
  <div class="column list">
    <label for="search">Search layers (key: /)</label>
    <input id="search" type="search" autocomplete="off" placeholder="name, type, ONNX node, verdict">
    <div class="soft" id="count" style="padding: 0 8px" aria-live="polite"></div>
    <ul id="layers" role="listbox" tabindex="0" aria-label="Layers; arrow keys choose one"></ul>
  </div>
  <div class="column drawing">
    <canvas id="canvas" tabindex="0" role="img"
      aria-label="The graph; arrow keys move it, plus and minus zoom, 0 fits it, Enter opens a group"></canvas>
    <div class="tools">
      <button id="in" type="button" aria-label="Zoom in">+</button>
      <button id="out" type="button" aria-label="Zoom out">&minus;</button>
      <button id="fit" type="button">Fit</button>
      <label>Collapse <select id="collapse"><option value="0">nothing</option><option value="1">1 level</option>
        <option value="2">2 levels</option><option value="3">3 levels</option></select></label>
    </div>
  </div>
  <div class="column details" id="details" tabindex="0" aria-label="The chosen layer" aria-live="polite"></div>
</div>
"""


def layers_of(model: Model) -> tuple[list[dict[str, Any]], dict[Node, int]]:
    """The layers of the main graph as the page's script takes them, without constants; and the place of each."""
    nodes = [node for node in model.nodes() if node.op.data is None]
    place = {node: index for index, node in enumerate(nodes)}
    found = []
    for node in nodes:
        sources = dict.fromkeys(place[source.node] for source in node.inputs if source.node in place)
        constants = [source for source in node.inputs if source.node.op.data is not None]
        entry: dict[str, Any] = {
            "n": node.name,
            "t": node.op.type,
            "i": list(sources),
            "s": ", ".join(str(output.type) for output in node.outputs),
            "v": NOT_COMPARED,
            "a": [list(pair) for pair in node.op.attributes().items()] if not node.op.subgraphs else [],
            "w": [[source.node.name, str(source.type)] for source in constants],
        }
        names = [name for output in node.outputs for name in output.names] or node.output_names
        if names:
            entry["names"] = names
        if node.op.subgraphs:
            inside = sum(len(sub.body.nodes()) for sub in node.op.subgraphs)
            entry["a"].append(["layers inside", str(inside)])
        found.append(entry)
    return found, place


def size_facts(xml: Path | None) -> list[tuple[str, str]]:
    """The sizes of an IR's files."""
    if xml is None:
        return []
    weights = xml.with_suffix(".bin")
    found = [("XML", f"{xml} ({xml.stat().st_size:,} bytes)")]
    if weights.exists():
        found.append(("weights", f"{weights} ({weights.stat().st_size:,} bytes)"))
    return found


def constants_table(model: Model, states: Mapping[str, str]) -> Table:
    """The largest constants; ``states`` are those of the file's weights, by the names of layers."""
    nodes = [node for part in model.parts() for node in part.nodes if node.op.data is not None]
    held = sorted(((node, node.op.data) for node in nodes), key=lambda pair: -(pair[1].byte_size if pair[1] else 0))
    rows = [
        (node.name, f"{data.element_type}{list(data.shape)}", f"{data.byte_size:,}", states.get(node.name, ""))
        for node, data in held[:_LONGEST_TABLE]
        if data is not None
    ]
    return Table("Constants", ("layer", "type", "bytes", "in the ONNX file"), rows)


def _table(table: Table) -> str:
    head = "".join(f"<th scope='col'>{html.escape(column)}</th>" for column in table.columns)
    rows = table.rows[:_LONGEST_TABLE]
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    more = (
        f"<p class='soft'>{len(table.rows) - len(rows)} more rows are left out.</p>"
        if len(table.rows) > len(rows)
        else ""
    )
    return (
        f"<h2>{html.escape(table.title)}</h2><div class='scroll' tabindex='0'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>{more}"
    )


def asset(package: str, name: str) -> str:
    """The text of a file that lies in ``package``."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(_plain(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(value: Any) -> Any:
    """The value with None for NaN and infinities, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value
