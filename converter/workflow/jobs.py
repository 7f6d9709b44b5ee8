"""A job, the work on one model of a batch: plain data, which any executor can send to another process or machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from converter.errors import ConversionError
from converter.options.conversion import ConversionOptions, SavingOptions
from converter.workflow.sources import Source
from ir_runtime.records import record


@record
class Settings:
    """Settings shared by all models.

    ``seconds`` and ``memory`` (bytes) limit the process of a model; None is no limit. With ``again`` earlier results
    do not count.
    """

    options: ConversionOptions
    saving: SavingOptions
    verify: bool = False
    seed: int = 0
    seconds: float | None = None
    memory: int | None = None
    again: bool = False


@record
class Job:
    """One model: its path, the name of its row, the ``.xml`` to write. Paths are absolute: workers may be elsewhere."""

    model: str
    name: str
    xml: str
    settings: Settings

    @property
    def record(self) -> Path:
        """The file that tells a later run what was done, beside the IR."""
        return Path(self.xml).with_suffix(".batch.json")


def jobs_for(sources: Sequence[Source], output: Path, settings: Settings) -> list[Job]:
    """A job for each model, whose IR has the model's name below ``output``.

    Raises :class:`ConversionError` where two models would have the same IR, or an IR would replace a model.
    """
    jobs: dict[str, Job] = {}
    output = Path(os.path.abspath(output))
    models = {str(source.path.resolve()): source for source in sources}
    for source in sources:
        xml = (output / source.name).with_suffix(".xml")
        written = [str(path.resolve()) for path in (xml, xml.with_suffix(".bin"))]
        replaced = next((models[path] for path in written if path in models), None)
        if replaced is not None:
            raise ConversionError(f"the IR of {source.path} would overwrite the model {replaced.path}")
        first = jobs.get(written[0])
        if first is not None:
            raise ConversionError(
                f"{first.model} and {source.path} would both become {xml}: "
                "give the folder above both, or convert them in runs of their own"
            )
        jobs[written[0]] = Job(str(source.path), source.name, str(xml), settings)
    return list(jobs.values())
