"""``onnx2ir convert``: ONNX in, IR out, compared on request."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter.command_line.branches import refuse_unused
from converter.command_line.convert_language_model import (
    STEPS,
    convert_folder,
    convert_to_stateless,
)
from converter.command_line.inspect import summary_of
from converter.command_line.json_output import print_json
from converter.command_line.preprocessing import Given, preprocessing_options
from converter.command_line.program import main
from converter.command_line.several import Outcome, finish_several, for_each, targets_of_several
from converter.command_line.state import INPUT_FILE, MODEL_FILE, OUTPUT_FILE, State, guarded
from converter.command_line.verify import exit_of, print_report
from ir_runtime.report import size_text

if TYPE_CHECKING:
    from converter.compression.weight_compression import WeightCompression
    from converter.equivalence.report import Report
    from converter.equivalence.steps import StepsReport


@main.command()
@click.argument("models", nargs=-1, required=True, type=MODEL_FILE, metavar="MODEL...")
@click.option(
    "-o",
    "--output-model",
    metavar="PATH",
    help="The .xml to write, or the folder (existing, or ending in /); by default beside the model, by its name.",
)
@click.option(
    "--compress-to-fp16/--no-compress-to-fp16",
    default=False,
    show_default=True,
    help="Store float weights as float16.",
)
@click.option(
    "--compress",
    type=click.Choice(["int8", "int4"]),
    help="Store weights of products, look-ups and convolutions in 8 or 4 bits.",
)
@click.option(
    "--group-size",
    type=int,
    metavar="N",
    help="With --compress: weights of a channel that share a scale; -1 for all [int8: -1, int4: 128].",
)
@click.option(
    "--symmetric/--asymmetric",
    default=None,
    help="With --compress: codes without or with a zero point [int8: asymmetric, int4: symmetric].",
)
@click.option(
    "--input",
    "input_texts",
    multiple=True,
    metavar="TEXT",
    help='Shapes, types and frozen values: "a[1,3,224,224],b[?,16]{f16},c[1..8]", "[1,3]" for inputs in order, '
    '"sr=16000", "mask=mask.npy"; can be repeated.',
)
@click.option("--output", "outputs", multiple=True, metavar="NAMES", help='Tensors to return: "a,b"; can be repeated.')
@click.option("--batch", type=click.IntRange(min=1), help="The first dimension of every input.")
@click.option(
    "--static",
    is_flag=True,
    help="Compute now what depends on the inputs' shapes: a smaller IR, for these shapes alone.",
)
@click.option(
    "--fuse/--no-fuse",
    default=True,
    help="Put one layer in the place of those that an exporter spelled it out with (GELU ...).  [default: fuse]",
)
@click.option(
    "--exact",
    is_flag=True,
    help="Keep every weight as the file has it: no scales or factors become part of others.",
)
@click.option(
    "--stateful",
    is_flag=True,
    help="Let the model keep the caches of a language model itself; MODEL may be a folder with such a model.",
)
@click.option(
    "--stateless",
    is_flag=True,
    help="MODEL is an IR (.xml): let it take and return what it keeps in variables.",
)
@click.option(
    "--target",
    "runtime",
    default="cpu",
    show_default=True,
    metavar="NAME",
    help='The runtime: "cpu" (OpenVINO\'s CPU plug-in), "cpu@2024.6" (a release), "any" (no replaced layers).',
)
@preprocessing_options
@click.option(
    "--extension", "extensions", multiple=True, metavar="FILES", help="Python files with operators; can be repeated."
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
def convert(state: State, models: tuple[Path, ...], output_model: str | None, as_json: bool, **options: Any) -> None:
    """Convert MODEL (.onnx) to OpenVINO IR (.xml and .bin), or a folder with a language model to another folder.

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
      onnx2ir convert llama-onnx/ --stateful --compress int4 -o llama-ir/
      onnx2ir convert model.xml -o older.xml --target cpu@2024.6 --compress int8
      onnx2ir convert decoder.xml --stateless -o stateless.xml
    """
    refuse_unused(*_branches(models, **options))
    if len(models) > 1:
        targets = targets_of_several(models, output_model)
        results = for_each(
            state,
            models,
            lambda model: _convert_one(state, model, str(targets[model]), as_json=as_json, **options),
        )
        finish_several(state, results, as_json)
        return
    # The objects of a conversion live until its end. Looking for cycles among them, and again when the process ends,
    # takes a fifth of the time.
    if State.owns_process:
        gc.disable()
        atexit.register(gc.freeze)

    found = _convert_one(state, models[0], output_model, as_json=as_json, **options)
    if found is None:
        return
    result, report = found
    if as_json:
        print_json(state, result)
    exit_of(report)


def _branches(
    models: Sequence[Path], *, check: bool, compress: str | None, stateful: bool, stateless: bool, **others: Any
) -> Iterator[str]:
    """Yield the names of the command's branches that ``models`` and options lead through."""
    if len(models) > 1:
        yield "several"
    elif stateless:
        yield "stateless"
    elif stateful and models[0].is_dir():
        yield "folder"
    elif stateful and check:
        yield "stateful_verified"
    if not check:
        yield "unverified"
    if compress is None:
        yield "uncompressed"


def _convert_one(
    state: State,
    model: Path,
    output_model: str | None,
    compress_to_fp16: bool,
    compress: str | None,
    group_size: int | None,
    symmetric: bool | None,
    input_texts: tuple[str, ...],
    outputs: tuple[str, ...],
    batch: int | None,
    static: bool,
    fuse: bool,
    exact: bool,
    stateful: bool,
    stateless: bool,
    runtime: str,
    processing: Given,
    extensions: tuple[str, ...],
    check: bool,
    inputs: Path | None,
    seed: int,
    page: Path | None,
    as_json: bool,
) -> Outcome | None:
    """Convert a model; its JSON, which is not printed here, and the report. None where everything is printed."""
    from converter import conversion
    from converter.from_onnx.input_forms import parse_inputs
    from converter.from_onnx.options import extension_paths
    from ir_runtime.files.file_kinds import IR, kind_of_path
    from ir_runtime.files.whole_files import check_target, check_writable
    from ir_runtime.files.xml_writer import check_destination

    packing = weight_compression(compress, group_size, symmetric)
    if stateless:
        target = None if output_model is None else _target(output_model, model)
        convert_to_stateless(state, model, target, as_json, compress=packing, compress_to_fp16=compress_to_fp16)
        return None
    if model.is_dir() and stateful:
        convert_folder(
            state,
            model,
            output_model,
            as_json,
            input=parse_inputs(",".join(text for text in input_texts if text.strip())) or None,
            compress=packing,
            compress_to_fp16=compress_to_fp16,
            check_seed=seed if check else None,
            fuse=fuse,
            exact=exact,
            target=runtime,
        )
        return None
    target = _target(output_model, model)
    if target.suffix.lower() == ".bin":
        raise click.UsageError("the output must not end in .bin, which is the weights' name")
    if target.resolve() == model.resolve() and kind_of_path(model) is IR:
        raise click.UsageError(f"{model} is an IR itself: -o PATH says where to write the new one")
    if target.resolve() == model.resolve() or target.with_suffix(".bin").resolve() == model.resolve():
        raise click.UsageError(f"the output would overwrite the model {model}")
    for path in (target, target.with_suffix(".bin")):
        check_target(path)
    if page is not None:
        check_writable(page)
    state.inform(f"Converting {model}")
    text, request = processing.request(",".join(text for text in input_texts if text.strip()))
    specs = parse_inputs(text)
    kept = [name.strip() for names in outputs for name in names.split(",")] or None
    with state.working(f"Converting {model.name}"):
        converted = conversion.convert(
            model,
            input=specs,
            freeze=None,
            output=kept,
            batch=batch,
            extensions=[path for text in extensions for path in extension_paths(text)],
            static=static,
            fuse=fuse,
            exact=exact,
            stateful=stateful,
            target=runtime,
            preprocess=request,
        )
    with state.working(f"Writing {target.name}"):
        check_destination(converted.model, target)
        stored = conversion.compressed(converted.model, packing, compress_to_fp16)
        target.parent.mkdir(parents=True, exist_ok=True)
        conversion.save_model(stored.model, target)
    report: Report | StepsReport | None = None
    if check and stateful:
        from converter.equivalence.steps import verify_steps

        with state.working(f"Verifying {target.name}"):
            report = verify_steps(model, target, steps=STEPS, seed=seed)
    elif check:
        from converter.equivalence.verification import verify

        with state.working(f"Verifying {target.name}"):
            report = verify(model, target, inputs=inputs, seed=seed, input=specs, output=kept, batch=batch, report=page)
    weights = target.with_suffix(".bin")
    result: dict[str, Any] = {}
    if as_json:
        result = {"xml": str(target), "bin": str(weights), **summary_of(target)}
        result.update(target=runtime, passes=dict(converted.passes), rules=dict(converted.rules))
        if stored.weights is not None:
            result["compressed"] = {"weights": dict(stored.weights.count), "kept": dict(stored.weights.kept)}
        if stored.half is not None:
            result["float16"] = {"constants": stored.half.count, "kept": dict(stored.half.kept)}
        if report is not None:
            result["verification"] = report.to_dict()
    else:
        count = len(stored.model.nodes())
        state.inform(f"Wrote {target} ({count} layers) and {weights} ({size_text(weights.stat().st_size)})")
        if stored.weights is not None:
            ways = ", ".join(f"{times} {way}" for way, times in stored.weights.count.items())
            state.inform(f"Compressed weights: {ways or 'none'}" + _exceptions(stored.weights.kept))
        if stored.half is not None:
            state.inform(f"{stored.half.count} constants are float16" + _exceptions(stored.half.kept))
        for what, counts in (
            ("Layers replaced by passes", converted.passes),
            (f"Rules for {runtime}", converted.rules),
        ):
            if counts:
                state.inform(f"{what}: " + ", ".join(f"{name} ({times})" for name, times in counts.items()))
        print_report(report)
    if page is not None and not (check and not stateful):
        from converter.report.conversions import write_conversion

        write_conversion(
            stored.model, model.name, runtime, converted.passes, converted.rules, page, target, converted.trace
        )
    return result, report


def _target(given: str | None, model: Path) -> Path:
    """The .xml to write, named as ``ovc`` does; without ``--output-model`` it lies beside the model."""
    if given is None:
        return model.parent / f"{model.stem}.xml"
    path = Path(given)
    if given.endswith(("/", os.sep)) or path.is_dir():
        return path / f"{model.stem}.xml"
    if path.resolve() == model.resolve():
        raise click.UsageError(f"the output would overwrite the model {model}")
    if path.suffix.lower() in (".xml", ".bin"):
        return path
    return path.with_name(f"{path.name}.xml")


def weight_compression(
    compress: str | None, group_size: int | None, symmetric: bool | None
) -> WeightCompression | None:
    if compress is None:
        return None
    from converter.compression.weight_compression import WeightCompression
    from converter.errors import ConversionError

    try:
        return WeightCompression.named(compress, group_size, symmetric)
    except ConversionError as error:
        raise click.UsageError(str(error)) from error


def _exceptions(kept: Mapping[str, int]) -> str:
    stayed = ", ".join(f"{times} that {reason}" for reason, times in kept.items())
    return f", but not {stayed}" if stayed else ""
