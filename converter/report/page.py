"""A self-contained HTML file: the verdict, facts, tables, and a graph that the page's own script draws."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from converter.report.graph_data import GraphData
from converter.report.markup import Table, facts_of, list_of, text_of
from ir_runtime.files.whole_files import write_whole
from ir_runtime.graph import Model
from ir_runtime.records import record

_KEY = (
    ("--none", "not compared"),
    ("--good", "equal"),
    ("--drift", "differs because of earlier layers, or rounding adds up"),
    ("--bad", "wrong although its inputs are right"),
    ("--mark", "changed"),
)
_SCRIPTS = ("common", "blocks", "layout", "view", "drawing", "minimap", "details", "list", "pointing", "depth")
"""The parts of the page's script, in order; ``tables`` and ``start`` stand at the end."""
_MOST_FINDINGS = 8


@record
class Finding:
    """Something that is wrong: a sentence, and the place of the layer that it is about, if there is one."""

    text: str
    layer: int | None = None


@dataclass
class Page:
    """The content of a page.

    ``verdict`` is a word (PASSED, FAILED ...), empty where nothing was judged, and ``tone`` its colour: ``good``,
    ``bad``, ``mark`` (a change, which need not be wrong) or ``none``. ``sentence`` tells what was found, ``actions``
    what a reader may do about it. ``drawings`` are sections of HTML behind the graph.
    """

    title: str
    sentence: str
    facts: Sequence[tuple[str, str]]
    tables: Sequence[Table]
    graph: GraphData
    verdict: str = ""
    tone: str = "none"
    notes: Sequence[str] = ()
    findings: Sequence[Finding] = ()
    actions: Sequence[str] = ()
    drawings: Sequence[str] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write the page. Raises :class:`ir_runtime.FileError`, which names the file, where it cannot be written."""
        text = self.html().encode()
        write_whole(path, lambda file: file.write(text))

    def html(self) -> str:
        """The page as text."""
        values = self.graph.values()
        opened, closed = ([t.html() for t in self.tables if t.is_open is is_open] for is_open in (True, False))
        notes = list_of(self.notes)
        body = (
            f"<h1>{text_of(self.title)}</h1>{self._verdict()}"
            f"{facts_of(self.facts)}{self._graph(values['layers'])}{''.join(opened)}"
            f"{f'<h2>Notes</h2>{notes}' if notes else ''}{''.join(self.drawings)}{''.join(closed)}"
        )
        data = f'<script type="application/json" id="data">{_json(values)}</script>'
        title = f"{self.verdict}: {self.title}" if self.verdict else self.title
        return document(title, body, data, script(), style("graph", "tables"))

    def _verdict(self) -> str:
        findings = "".join(_finding(finding) for finding in self.findings[:_MOST_FINDINGS])
        left_out = len(self.findings) - _MOST_FINDINGS
        more = f"<li>and {left_out:,} more: search for them below</li>" if left_out > 0 else ""
        heading = "What differs, and where" if self.tone == "mark" else "What is wrong, and where"
        findings_html = f"<h2>{heading}</h2><ul class='findings'>{findings}{more}</ul>" if findings else ""
        actions = list_of(self.actions)
        advice = f"<h2>What to do</h2>{actions}" if actions else ""
        word = f"<strong class='word'>{html.escape(self.verdict)}</strong> " if self.verdict else ""
        return (
            f"<section class='verdict {self.tone}' aria-label='Verdict'><p>{word}{text_of(self.sentence)}</p>"
            f"{findings_html}{advice}</section>"
        )

    def _graph(self, layers: Sequence[Mapping[str, Any]]) -> str:
        if not layers:
            return ""
        seen = {layer["v"] for layer in layers}
        key = "".join(
            f'<span><i style="background:var({colour})"></i>{meaning}</span>'
            for verdict, (colour, meaning) in enumerate(_KEY)
            if verdict in seen and len(seen | {0}) > 1
        )
        key_html = f"<div class='key'>{key}</div>" if key else ""
        return f"<h2>Graph</h2>{key_html}{_GRAPH}{_DEPTH if any('e' in layer for layer in layers) else ''}"


def _finding(finding: Finding) -> str:
    if finding.layer is None:
        return f"<li>{text_of(finding.text)}</li>"
    return f"<li><button type='button' class='go' data-layer='{finding.layer}'>{text_of(finding.text)}</button></li>"


def document(title: str, body: str, data: str, script: str, more_style: str = "") -> str:
    """A page that is complete in one file: ``body`` and, behind it, an element with ``data`` and the ``script``.

    ``more_style`` is added to the rules that all pages share.
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{html.escape(title)}</title>'
        f"<style>{style('page')}{more_style}</style></head><body><main>"
        f"{body}</main>{data}<script>{script}</script></body></html>\n"
    )


_GRAPH = """
<div class="graph">
  <div class="column list">
    <label for="search">Search layers (key: /)</label>
    <input id="search" type="search" autocomplete="off" placeholder="name, type, ONNX node, wrong, changed">
    <div class="soft" id="count" aria-live="polite"></div>
    <ul id="layers" role="listbox" tabindex="0" aria-label="Layers; arrow keys choose one"></ul>
  </div>
  <div class="column drawing">
    <canvas id="canvas" tabindex="0" role="img"
      aria-label="The graph; arrow keys go from layer to layer, with Shift they move the view, plus and minus zoom,
 0 fits it, Enter opens or closes a block"></canvas>
    <canvas id="minimap" width="150" height="150" role="img" aria-label="The whole graph; a click moves there"></canvas>
    <div class="tools" role="toolbar" aria-label="The drawing">
      <button id="in" type="button" aria-label="Zoom in">+</button>
      <button id="out" type="button" aria-label="Zoom out">&minus;</button>
      <button id="fit" type="button">Fit</button>
      <button id="open" type="button">Open all</button>
      <button id="close" type="button">Close all</button>
    </div>
  </div>
  <div class="column details" id="details" tabindex="0" aria-label="The chosen layer" aria-live="polite"></div>
</div>
"""
_DEPTH = """
<section class="chart"><h2>Difference over depth</h2>
<p class="soft">Largest absolute difference of each tensor: dots from right inputs, the line in the whole run. A click
on a dot shows its layer.</p>
<svg id="depth" viewBox="0 0 1000 240" role="img" aria-label="Difference over depth"></svg></section>
"""


def script() -> str:
    """The page's script: its parts joined."""
    return "".join(asset("converter.report", f"assets/{name}.js") for name in (*_SCRIPTS, "tables", "start"))


def style(*names: str) -> str:
    """Rules of style: the parts with these names joined."""
    return "".join(asset("converter.report", f"assets/{name}.css") for name in names)


def size_facts(xml: Path | None, which: str = "") -> list[tuple[str, str]]:
    """The sizes of an IR's files; ``which`` tells it from another one."""
    if xml is None:
        return []
    weights = xml.with_suffix(".bin")
    facts = [(f"{which} XML".strip(), f"{xml} ({xml.stat().st_size:,} bytes)")]
    if weights.exists():
        facts.append((f"{which} weights".strip(), f"{weights} ({weights.stat().st_size:,} bytes)"))
    return facts


def constants_table(model: Model, states: Mapping[str, str]) -> Table:
    """The largest constants; ``states`` are those of the file's weights, by the names of layers."""
    nodes = [node for part in model.parts() for node in part.nodes if node.op.data is not None]
    held = sorted(((node, node.op.data) for node in nodes), key=lambda pair: -(pair[1].byte_size if pair[1] else 0))
    rows: list[Sequence[str]] = [
        (node.name, f"{data.element_type}{list(data.shape)}", f"{data.byte_size:,}", states.get(node.name, ""))
        for node, data in held
        if data is not None
    ]
    columns: Sequence[str] = ("layer", "type", "bytes", "in the ONNX file")
    if not any(states.get(row[0]) for row in rows):
        columns, rows = columns[:3], [row[:3] for row in rows]
    return Table("Constants", columns, rows).merged()


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
