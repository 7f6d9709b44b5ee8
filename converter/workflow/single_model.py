"""From a model to an IR that is written and verified: one list of stages for the API, the command line and batch.

What a conversion itself consists of is the list of :mod:`converter.conversion.convert`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from converter.conversion.convert import Compression, Conversion, convert, save
from converter.onnx_file.reader import OnnxFile
from converter.options.conversion import STEPS, ConversionOptions, SavingOptions

if TYPE_CHECKING:
    from converter.equivalence.verdict.report import Report
    from converter.equivalence.verdict.steps import StepsReport
    from converter.options.verification import VerificationOptions


@dataclass
class Work:
    """A model on its way through the stages."""

    source: Path
    path: Path
    """The IR to write, whose folder is created."""
    options: ConversionOptions
    saving: SavingOptions = field(default_factory=SavingOptions)
    checking: VerificationOptions | None = None
    """How to compare the IR with its model; None for not at all."""
    progress: Callable[[str], AbstractContextManager[None]] = lambda task: nullcontext()
    """Shows a task."""
    file: OnnxFile | None = None
    """The source, where it is open already."""
    conversion: Conversion = field(init=False)
    stored: Compression = field(init=False)
    report: Report | StepsReport | None = None

    def run(self, *names: str) -> Work:
        """Run the stages of these names, by default all, in order."""
        for name, stage in STAGES.items():
            if not names or name in names:
                stage(self)
        return self


def _convert(work: Work) -> None:
    with work.progress(f"Converting {work.source.name}"):
        work.conversion = convert(work.file or work.source, work.options)


def _write(work: Work) -> None:
    with work.progress(f"Writing {work.path.name}"):
        work.path.parent.mkdir(parents=True, exist_ok=True)
        work.stored = save(work.conversion.model, work.path, work.saving)


def _verify(work: Work) -> None:
    """Compare calls, or :data:`converter.options.conversion.STEPS` tokens of random prompts where the IR has states."""
    if work.checking is None:
        return
    from converter.equivalence.verdict.steps import verify_steps  # few conversions are verified at once
    from converter.equivalence.verdict.verification import verify

    with work.progress(f"Verifying {work.path.name}"):
        if work.options.stateful:
            work.report = verify_steps(work.source, work.path, steps=STEPS, seed=work.checking.seed)
        else:
            same = {name: getattr(work.options, name) for name in ("input", "freeze", "output", "batch")}
            work.report = verify(work.source, work.path, options=replace(work.checking, **same))


STAGES: Mapping[str, Callable[[Work], None]] = {"convert": _convert, "write": _write, "verify": _verify}
