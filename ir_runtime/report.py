"""Models and tables as HTML, for notebooks. Styles stand in the elements: the page around them has none of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .execution.executor import CompiledModel
    from .execution.ports import InferenceResult
    from .graph import Array, Model

MOST_ROWS = 40
"""Longer tables are cut, and tell how many rows are missing."""
_CELL = "text-align:left;padding:2px 10px"
Cell = tuple[str, str]
"""HTML and the style of its cell."""


def cell(text: object, style: str = "") -> Cell:
    """A cell with this text."""
    return escape(str(text)), style


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; what is no :data:`Cell` is a text."""
    cells = [[entry if isinstance(entry, tuple) else cell(entry) for entry in row] for row in rows]
    head = "".join(f'<th style="{_CELL}">{escape(heading)}</th>' for heading in headings)
    lines = "".join(f"<tr>{''.join(map(_td, row))}</tr>" for row in cells[:MOST_ROWS])
    left = len(cells) - MOST_ROWS
    more = f"<p>... and {left} more</p>" if left > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>{more}"


def _td(entry: Cell) -> str:
    html, style = entry
    return f'<td style="{_CELL}{f";{style}" if style else ""}">{html}</td>'


def titled(title: str, *parts: str) -> str:
    """Parts below a title, which is a text."""
    return f"<div><p><b>{escape(title)}</b></p>{''.join(parts)}</div>"


def folded(summary: str, html: str) -> str:
    """HTML that a click shows."""
    return f"<details><summary>{escape(summary)}</summary>{html}</details>"


def html_of_model(model: Model) -> str:
    """Inputs and outputs, layers by type, the size of the weights."""
    ends = [
        *(("input", node.outputs[0], node.outputs[0].names, node.name) for node in model.parameters),
        *(("output", node.inputs[0], node.output_names or node.inputs[0].names, node.name) for node in model.results),
    ]
    ports = table(
        ("", "name", "type", "shape"),
        [(side, (names or [name])[0], value.element_type, value.shape) for side, value, names, name in ends],
    )
    counts = layer_counts(model)
    layers = table(("layer", "count"), Counter(dict(sorted(counts.items()))).most_common())
    constants = [node.op.data for part in model.parts() for node in part.nodes if node.op.data is not None]
    size = size_text(sum(constant.byte_size for constant in constants))
    return titled(
        f"Model {model.name}",
        ports,
        folded(f"{sum(counts.values())} layers of {len(counts)} types", layers),
        f"<p>weights: {size} in {len(constants)} constants</p>",
    )


def layer_counts(model: Model) -> Counter[str]:
    """Count the layers of each operation and opset in the model, bodies included."""
    return Counter(f"{node.op.type}-{node.op.opset}" for part in model.parts() for node in part.nodes)


def html_of_compiled(model: CompiledModel) -> str:
    """Inputs, outputs and variables."""
    sides = (("input", model.inputs), ("output", model.outputs), ("variable", model.variables))
    rows = [(side, port.name, port.element_type, port.partial_shape) for side, ports in sides for port in ports]
    return titled("CompiledModel", table(("", "name", "type", "shape"), rows))


def html_of_result(result: InferenceResult) -> str:
    """The outputs, with the range of their values."""
    rows = [(name, value.dtype, list(value.shape), *_range(value)) for name, value in zip(result, result.to_list())]
    return titled("InferenceResult", table(("output", "type", "shape", "min", "mean", "max"), rows))


def _range(value: Array) -> tuple[str, str, str]:
    """The least value, the mean and the greatest one; a dash each for texts and where there is no value."""
    if value.dtype.kind in "OUST" or not value.size:
        return "-", "-", "-"
    floats = value.astype("float64")
    return f"{floats.min():.6g}", f"{floats.mean():.6g}", f"{floats.max():.6g}"


_FORMS: dict[tuple[str, str], Callable[..., str]] = {
    ("Model", "html"): html_of_model,
    ("CompiledModel", "html"): html_of_compiled,
    ("InferenceResult", "html"): html_of_result,
}


def form_of(result: str, form: str) -> Callable[..., str]:
    """The function that gives results of this class a form: see :mod:`ir_runtime.displayed`."""
    return _FORMS[result, form]


def size_text(count: int) -> str:
    """A number of bytes, such as ``1.5 MiB``."""
    amount = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
