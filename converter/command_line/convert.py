"""``onnx2ir convert``: ONNX in, IR out, compared on request."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter.command_line.branches import refuse_unused
from converter.command_line.convert_folder import convert_folder, convert_to_stateless
from converter.command_line.inspect import summary_of
from converter.command_line.options import CLASSES, conversion_options, field_options, read_fields, saving_options
from converter.command_line.program import main
from converter.command_line.several import Outcome, finish_several, for_each, target_paths
from converter.command_line.state import INPUT_FILE, MODEL_FILE, OUTPUT_FILE, State, guarded, print_json
from converter.command_line.verify import exit_of, print_report
from converter.options.conversion import FolderOptions
from converter.options.verification import VerificationOptions
from ir_runtime.records import record
from ir_runtime.report import size_text

if TYPE_CHECKING:
    from converter.options.conversion import ConversionOptions, SavingOptions
    from converter.workflow.single_model import Work


@main.command()
@click.argument("models", nargs=-1, required=True, type=MODEL_FILE, metavar="MODEL...")
@click.option(
    "-o",
    "--output-model",
    metavar="PATH",
    help="The .xml to write, or the folder (existing, or ending in /); by default beside the model, by its name.",
)
@field_options(*CLASSES, FolderOptions)
@click.option(
    "--stateless",
    is_flag=True,
    help="MODEL is an IR (.xml): let it take and return what it keeps in variables.",
)
@click.option("--verify", "check", is_flag=True, help="Compare the written IR with the model.")
@click.option("--inputs", type=INPUT_FILE, help="With --verify: inputs as .npz or .npy instead of random ones.")
@click.option("--seed", default=0, show_default=True, help="With --verify: seed of the random inputs.")
@click.option(
    "--report",
    "page",
    type=OUTPUT_FILE,
    metavar="FILE",
    help="Write an HTML page with the graph and what each node became; with --verify also what was compared.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@guarded
def convert(
    state: State,
    models: tuple[Path, ...],
    output_model: str | None,
    stateless: bool,
    check: bool,
    inputs: Path | None,
    seed: int,
    page: Path | None,
    as_json: bool,
    **values: Any,
) -> None:
    """Convert MODEL (.onnx) to OpenVINO IR (.xml and .bin), or a folder with models to one for openvino-genai.

    MODEL may be an IR, too: shapes, outputs, target and compression are then those of the new one. Of several models
    each gets an IR of its own, beside it or in the folder of -o, and one that fails does not end the others.

    \b
    Examples:
      onnx2ir convert model.onnx
      onnx2ir convert model.onnx -o ir/model.xml --verify
      onnx2ir convert model.onnx --compress-to-fp16 --report model.html
      onnx2ir convert model.onnx --compress int4 --group-size 64
      onnx2ir convert model.onnx --input "image[1,3,?,?],rate=16000" --output logits
      onnx2ir convert model.onnx --input "image[u8]" --layout "nchw->nhwc" --mean-values "image[123.7,116.3,103.5]"
      onnx2ir convert model.onnx other.onnx -o ir/
      onnx2ir convert llama-onnx/ --compress int4 -o llama-ir/
      onnx2ir convert model.xml -o older.xml --target cpu@2024.6 --compress int8
      onnx2ir convert decoder.xml --stateless -o stateless.xml
    """
    refuse_unused(*_branches(models, check, stateless, **values))
    saving = saving_options(values)
    if stateless:
        target = None if output_model is None else _target(output_model, models[0])
        convert_to_stateless(state, models[0], target, as_json, saving)
        return
    options = conversion_options(values)
    checking = VerificationOptions(inputs=inputs, seed=seed, report=page) if check else None
    if models[0].is_dir() and len(models) == 1:
        reading = FolderOptions(**read_fields(FolderOptions, values))
        convert_folder(state, models[0], output_model, as_json, seed if check else None, reading, options, saving)
        return
    conversions = _Conversion(state, options, saving, checking, page, as_json)
    if len(models) > 1:
        targets = target_paths(models, output_model)
        results = for_each(state, models, lambda model: conversions.convert(model, str(targets[model])))
        finish_several(state, results, as_json)
        return
    State.keep_objects()
    result, report = conversions.convert(models[0], output_model)
    if as_json:
        print_json(state, result)
    exit_of(report)


def _branches(
    models: Sequence[Path], check: bool, stateless: bool, compress: str | None, stateful: bool, **others: Any
) -> Iterator[str]:
    """Yield the names of the command's branches that ``models`` and options lead through."""
    if len(models) > 1:
        yield "several"
    elif stateless:
        yield "stateless"
    elif models[0].is_dir():
        yield "folder"
    else:
        yield "model"
        if stateful and check:
            yield "stateful_verified"
    if not check:
        yield "unverified"
    if compress is None:
        yield "uncompressed"


@record
class _Conversion:
    """The conversion of one model of the command's."""

    state: State
    options: ConversionOptions
    saving: SavingOptions
    checking: VerificationOptions | None
    page: Path | None
    as_json: bool

    def convert(self, model: Path, output_model: str | None) -> Outcome:
        """Convert ``model``; its JSON, which is not printed here, and the report."""
        from converter.workflow.single_model import Work
        from ir_runtime.files.whole_files import check_writable

        target = _target(output_model, model)
        _check_target(target, model)
        if self.page is not None:
            check_writable(self.page)
        self.state.inform(f"Converting {model}")
        work = Work(model, target, self.options, self.saving, self.checking, self.state.working).run()
        result = self._json(work) if self.as_json else {}
        if not self.as_json:
            self._print(work)
            print_report(work.report)
        if self.page is not None and (self.checking is None or self.options.stateful):
            from converter.report.conversions import write_conversion

            write_conversion(work.conversion, work.stored.model, model.name, self.options.target, self.page, target)
        return result, work.report

    def _json(self, work: Work) -> dict[str, Any]:
        from ir_runtime import read_model

        target, report = work.path, work.report
        result: dict[str, Any] = {"xml": str(target), "bin": str(target.with_suffix(".bin"))}
        result.update(summary_of(read_model(target)))
        passes, rules = dict(work.conversion.passes), dict(work.conversion.rules)
        result.update(target=self.options.target, passes=passes, rules=rules)
        weights, half = work.stored.weights, work.stored.half
        if weights is not None:
            result["compressed"] = {"weights": dict(weights.count), "kept": dict(weights.kept)}
        if half is not None:
            result["float16"] = {"constants": half.count, "kept": dict(half.kept)}
        if report is not None:
            result["verification"] = report.to_dict()
        return result

    def _print(self, work: Work) -> None:
        target = work.path
        file = target.with_suffix(".bin")
        count = len(work.stored.model.nodes())
        self.state.inform(f"Wrote {target} ({count} layers) and {file} ({size_text(file.stat().st_size)})")
        weights, half = work.stored.weights, work.stored.half
        if weights is not None:
            ways = ", ".join(f"{times} {way}" for way, times in weights.count.items())
            self.state.inform(f"Compressed weights: {ways or 'none'}" + _exceptions(weights.kept))
        if half is not None:
            self.state.inform(f"{half.count} constants are float16" + _exceptions(half.kept))
        for title, counts in (
            ("Layers replaced by passes", work.conversion.passes),
            (f"Rules for {self.options.target}", work.conversion.rules),
        ):
            if counts:
                self.state.inform(f"{title}: " + ", ".join(f"{name} ({times})" for name, times in counts.items()))


def _check_target(target: Path, model: Path) -> None:
    """Raise an error where the IR cannot be written to ``target``, before any work."""
    from ir_runtime.files.file_kinds import IR, kind_of_path
    from ir_runtime.files.whole_files import check_target

    weights = target.with_suffix(".bin")
    if target.suffix.lower() == ".bin":
        raise click.UsageError("the output must not end in .bin, which is the weights' name")
    if target.resolve() == model.resolve() and kind_of_path(model) is IR:
        raise click.UsageError(f"{model} is an IR itself: -o PATH says where to write the new one")
    if model.resolve() in (target.resolve(), weights.resolve()):
        raise click.UsageError(f"the output would overwrite the model {model}")
    for path in (target, weights):
        check_target(path)


def _target(target: str | None, model: Path) -> Path:
    """The .xml to write, named as ``ovc`` does; without ``--output-model`` it lies beside the model."""
    if target is None:
        return model.parent / f"{model.stem}.xml"
    path = Path(target)
    if target.endswith(("/", os.sep)) or path.is_dir():
        return path / f"{model.stem}.xml"
    if path.resolve() == model.resolve():
        raise click.UsageError(f"the output would overwrite the model {model}")
    if path.suffix.lower() in (".xml", ".bin"):
        return path
    return path.with_name(f"{path.name}.xml")


def _exceptions(reasons: Mapping[str, int]) -> str:
    stayed = ", ".join(f"{times} that {reason}" for reason, times in reasons.items())
    return f", but not {stayed}" if stayed else ""
