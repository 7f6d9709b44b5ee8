"""The format of verdicts: a model, an edit of its IR, options of ``verify``, and what the report says."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx

from converter import Report
from tests.converter.equivalence.edits import Edit
from tests.converter.optimization.models import parse
from tests.rows.row import Each

DERIVED, EQUAL, UNPROVEN, DIFFERENT = "derived", "equal", "unproven", "different"
RIGHT, WRONG = f"{EQUAL} {DERIVED}", f"{DIFFERENT} {UNPROVEN}"
Model = Callable[[], onnx.ModelProto]


@dataclass(frozen=True)
class Verdict:
    """A comparison and its verdict; alternatives of the verdict are separated by a blank."""

    name: str
    model: Model
    edit: Edit | None = None
    verdict: str = DERIVED
    first: str | None = None
    """The layer that the report names first as wrong."""
    reason: str = ""
    note: str = ""
    """A part of one of the notes."""
    changed: str | None = None
    """The tensors of the file that the IR does not have, with blanks between them."""
    differ: str | None = None
    """The outputs that differ, likewise."""
    oracle: str = ""
    of: Model | None = None
    """The model whose IR it is, where that is another one."""
    record: bool = True
    accepted: bool = False
    """Whether what is unproven passes."""
    convert: Mapping[str, Any] = field(default_factory=dict)
    saving: Mapping[str, Any] | None = None
    """Options of saving: the IR is then the one that is read from its file."""
    command: str | None = None
    """Parts of what the command prints, separated by ``|``, where it is to give the same verdict."""
    look: Callable[[Report], Any] | None = None
    """What else has to be true of the report."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Those of ``verify``."""
    group: str = ""
    """Its table and verdict: some rows of each are chosen for a default run."""

    @property
    def passed(self) -> bool:
        return self.accepted or self.verdict.split()[0] in (DERIVED, EQUAL)

    @property
    def words(self) -> list[str]:
        """Of options that are true or false."""
        return [f"--{'' if value else 'no-'}{name.replace('_', '-')}" for name, value in self.options.items()]


def verdicts(name: str, model: Any, edit: Any = None, verdict: Any = DERIVED, **arguments: Any) -> Iterator[Verdict]:
    """Yield a row for each combination of values; arguments that are no field of a row are options of ``verify``."""
    arguments = {"model": model, "edit": edit, "verdict": verdict, **arguments}
    varying = [key for key, value in arguments.items() if isinstance(value, Each)]
    choices = [list(enumerate(arguments[key].values)) for key in varying]
    for chosen in itertools.product(*choices):
        given = {**arguments, **{key: value for key, (_, value) in zip(varying, chosen)}}
        fields = {key: given.pop(key) for key in [*given] if key in Verdict.__dataclass_fields__}
        names = [_text(key, value, index) for key, (index, value) in zip(varying, chosen)]
        yield Verdict(", ".join([name, *names]), **fields, options=given)


def _text(key: str, value: Any, index: int) -> str:
    text = getattr(value, "__name__", str(value))
    return f"{key}={text if len(text) < 30 and '<' not in text else index}"


def text(graph: str, opset: int = 17, header: str = "", **weights: Any) -> Model:
    return functools.partial(parse, graph, opset, header, **weights)
