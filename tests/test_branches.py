"""Every option of every command, in every branch of it, changes something or is refused; with and without ``--json``.

An option is used if the command ends otherwise with it: by another exit code, message, result or file. Values that
nothing can use, such as a tensor that does not exist, count as well: a command that reports them has read them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import converter
from converter.command_line import main
from converter.command_line.branches import BRANCHES
from converter.workflow import many
from converter.workflow.worker import convert_one
from ir_runtime.rewriting.checks import Checks
from tests.converter.language_models.decoders import Decoder, converted_tokenizers, tokenizers_once, write_folder  # noqa: F401
from tests.converter.optimization.models import parse


def image_model(bias: float = 0.0) -> onnx.ModelProto:
    rng = np.random.default_rng(3)
    constants = {
        "w": rng.normal(size=(64, 3, 3, 3)),
        "s": rng.uniform(0.5, 2, (64, 1, 1)),
        "m": rng.normal(size=(64 * 36, 16)) / 48,
        "one": 1,
        "root": np.sqrt(2),
        "half": 0.5,
        "bias": bias,
    }
    nodes = """c = Conv (image, w) scaled = Mul (c, s) e0 = Div (scaled, root) e = Erf (e0) e1 = Add (e, one)
        e2 = Mul (scaled, e1) l = Mul (e2, half) dims = Shape (image) n = Gather (dims, zero)
        target = Concat <axis = 0> (n, rest) flat = Reshape (l, target) product = MatMul (flat, m) y = Add (product, bias)"""
    stored = {name: np.asarray(value, np.float32) for name, value in constants.items()}
    text = f"g (float[1, 3, 8, 8] image) => (float[] y) {{ {nodes} }}"
    return parse(text, **stored, zero=np.array([0]), rest=np.array([-1]))


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the command lines name."""
    folder = tmp_path_factory.mktemp("material")
    onnx.save(image_model(), folder / "m.onnx")
    onnx.save(image_model(1.0), folder / "n.onnx")
    for name in "mn":
        converter.save_model(converter.convert_model(folder / f"{name}.onnx"), folder / f"{name}.xml")
    onnx.save(Decoder().build(), folder / "decoder.onnx")
    converter.save_model(converter.convert_model(folder / "decoder.onnx", stateful=True), folder / "decoder.xml")
    write_folder(folder / "source", Decoder())
    converter.convert_language_model(folder / "source", folder / "ir")
    np.savez(folder / "inputs.npz", image=np.ones((1, 3, 8, 8), np.float32))
    np.savez(folder / "wrong.npz", nothing=np.ones(1, np.float32))
    ones = {name: np.ones((1, 1), np.int64) for name in ("input_ids", "attention_mask")}
    np.savez(folder / "step.npz", **ones, position_ids=np.zeros((1, 1), np.int64), beam_idx=np.zeros(1, np.int32))
    (folder / "zoo").mkdir()
    shutil.copy(folder / "m.onnx", folder / "zoo" / "m.onnx")
    return folder


class Line(NamedTuple):
    """A command line that leads through ``branches``."""

    words: str
    branches: Sequence[str] = ()

    @property
    def command(self) -> str:
        return self.words.split()[0]


LINES = [
    Line("convert m.onnx -o out/", ["model", "unverified", "uncompressed"]),
    Line("convert m.onnx -o out/ --compress int4", ["model", "unverified"]),
    Line("convert m.onnx -o out/ --verify", ["model", "uncompressed"]),
    Line("convert m.onnx n.onnx -o out/", ["several", "unverified", "uncompressed"]),
    Line("convert decoder.xml -o out/x.xml --stateless", ["stateless", "unverified", "uncompressed"]),
    Line("convert source -o out --stateful", ["folder", "unverified", "uncompressed"]),
    Line("convert source -o out --stateful --verify", ["folder", "uncompressed"]),
    Line("convert decoder.onnx -o out/ --stateful", ["model", "unverified", "uncompressed"]),
    Line("convert decoder.onnx -o out/ --stateful --verify", ["model", "stateful_verified", "uncompressed"]),
    Line("verify m.onnx m.xml"),
    Line("verify m.onnx m.xml --inputs inputs.npz", ["given"]),
    Line("verify m.onnx m.xml n.onnx n.xml", ["several"]),
    Line("verify decoder.onnx decoder.xml --steps 2", ["steps"]),
    Line("export m.xml -o out.onnx", ["unverified"]),
    Line("export m.xml -o out.onnx --verify"),
    Line("export ir -o out", ["folder"]),
    Line("optimize m.onnx -o out.onnx", ["unverified", "float32"]),
    Line("optimize m.onnx -o out.onnx --fp16", ["unverified"]),
    Line("optimize m.onnx -o out.onnx --verify", ["float32"]),
    Line("edit m.onnx -o out.onnx"),
    Line("edit m.xml -o out.xml"),
    Line("roundtrip m.onnx"),
    Line("run m.xml"),
    Line("run m.xml --inputs inputs.npz", ["given"]),
    Line("run decoder.xml --inputs step.npz --steps 2", ["given", "steps"]),
    Line("inspect m.xml"),
    Line("inspect m.xml --nodes", ["nodes"]),
    Line("diff m.xml n.xml", ["json"]),
    Line("diff m.onnx n.onnx", ["json"]),
    Line("derive m.xml --from n.onnx", ["json"]),
    Line("ops m.onnx"),
    Line("batch zoo -o out", ["unverified", "uncompressed"]),
    Line("batch zoo --check", ["check", "uncompressed"]),
]

VALUES = {
    "against": "n.xml", "annotated": "github", "atol": "0", "attest": "statement.json", "attestation": "wrong.npz",
    "batch": "7", "color": "nothing(bgr->rgb)", "compress": "int8", "configuration": "PERFORMANCE_HINT=LATENCY",
    "connect": "y=image", "cut": ":nothing", "device": "CPU", "engine": "openvino", "extensions": "missing.py",
    "fp16": "model", "fp16_except": "MatMul", "group_size": "32", "input_texts": "nothing[1]", "inputs": "wrong.npz",
    "insert_after": "y=Relu()", "jobs": "1", "layout": "nothing(nchw)", "lines": "lines.jsonl",
    "mean_values": "nothing[1]", "memory_limit": "1MiB", "merge": "n.onnx", "metadata": "author=me", "minimise": "part",
    "opset": "6", "page": "page.html", "preprocess": "wrong.npz", "ranges": "nothing=ones", "rename": "y=z",
    "repeat": "2", "replace_weight": "m=wrong.npz", "report": "page.html", "resize": "nothing(linear)", "rtol": "0",
    "runtime": "nonsense", "samples": "1", "scale": "2", "scale_values": "nothing[1]", "seed": "5",
    "set_dim": "image:0=2", "source": "m.onnx", "source_layout": "nothing(nchw)", "split_size": "1GB", "stateful": "",
    "steps": "3", "task": "text-ranking", "target_layout": "nothing(nhwc)", "time_limit": "0.01s", "variant": "q4",
}  # fmt: skip
"""Parameter -> another value than the default; flags are turned around, other texts name nothing of the model."""

PLACES = {"output_model", "output", "output_dir", "as_json"}
"""Where results go, which each line has set already, and how they are printed."""

ACCEPTING = [
    ("accept_unproven", f"verify {words}")
    for words in (
        "m.onnx m.xml",
        "m.onnx m.xml --inputs inputs.npz",
        "m.onnx m.xml n.onnx n.xml",
        "decoder.onnx decoder.xml --steps 2",
    )
]
_EXPORTS = ("export m.xml -o out.onnx", "export m.xml -o out.onnx --verify")
_STATES = tuple(f"convert decoder.onnx -o out/ --stateful{verify}" for verify in ("", " --verify"))
_SOURCES = tuple(f"convert source -o out --stateful{verify}" for verify in ("", " --verify"))
_DIFFERENCES = ("diff m.onnx n.onnx", "diff m.xml n.xml", "derive m.xml --from n.onnx")
_BATCHES = ("batch zoo -o out", "batch zoo --check")
NO_EFFECT = {
    **dict.fromkeys(ACCEPTING, "the verdict is derived; --json has the option"),
    **{(option, words): reason for option, lines, reason in (
        ("batch", ["verify m.onnx m.xml --inputs inputs.npz"], "the inputs have their sizes, and nothing differs"),
        ("inline_functions", [*_EXPORTS, "export ir -o out"], "the model has no layers that become functions"),
        ("jobs", _BATCHES, "there is one model"),
        ("again", _BATCHES[:1], "nothing was converted before"),
        ("contrib", _EXPORTS, "the model has nothing that only contributed operators express"),
        ("static", _STATES, "all dimensions of the decoder are dynamic"),
        ("exact", [*_SOURCES, *_STATES], "the decoder has no factors that become part of weights"),
        ("everything", _DIFFERENCES, "there are fewer differences than are shown without it"),
        ("annotated", _BATCHES, "no model fails"),
        ("static", _BATCHES[1:], "all dimensions are static; --json has the bytes that the record takes"),
        ("contrib", ["roundtrip m.onnx"], "the model has nothing that only onnxruntime's own operators express"),
        ("seed", ["roundtrip m.onnx"], "all random numbers go there and back; --json has the differences"),
    ) for words in lines},
}  # fmt: skip
"""Options that change nothing for these very files, with the reason."""
SEEN_IN_JSON = {("seed", "roundtrip m.onnx"), ("static", "batch zoo --check"), *ACCEPTING}
"""Those of :data:`NO_EFFECT` that change what ``--json`` prints."""


def options_of(command: str) -> list[click.Option]:
    parameters = main.commands[command].params
    found = [one for one in parameters if isinstance(one, click.Option) and one.name not in PLACES]
    return [one for one in found if one.expose_value]


def words_of(option: click.Option) -> str:
    """How a command line sets an option to another value than the default; empty where it cannot."""
    is_on = option.default is True or option.name == "symmetric"
    names = option.secondary_opts if option.secondary_opts and is_on else option.opts
    name = next((name for name in names if name.startswith("--")), "")
    return name if option.is_flag else f"{name} {VALUES.get(str(option.name), 'nothing')}"


def outcome(material: Path, folder: Path, words: str, is_limited: bool) -> tuple[int, str, str, dict[str, str]]:
    """Run a command beside the material: exit code, stdout, stderr, and digests of the files it wrote."""
    shutil.copytree(material, folder, copy_function=os.link)
    before = set(folder.rglob("*"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(Checks, "is_thorough", False)  # other tests convert these models
        if not is_limited:  # a process for each model shows nothing here
            patch.setattr(many, "run_job", lambda job, running: convert_one(job))
        done = CliRunner().invoke(main, words.split(), prog_name="onnx2ir")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    written = {
        str(path.relative_to(folder)): hashlib.sha256(_without_record(path.read_bytes())).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path not in before and path.suffix != ".json"  # in which batch keeps times
    }
    shutil.rmtree(folder)
    return done.exit_code, _without_times(done.stdout), _without_times(done.stderr), written


def _without_record(data: bytes) -> bytes:
    """Leave out what the record of an IR says: it has every option, also one that changes nothing else."""
    return re.sub(rb"<onnx2ir>.*?</onnx2ir>", b"<onnx2ir/>", data, flags=re.DOTALL)


def _without_times(text: str) -> str:
    text = re.sub(r'"(seconds|milliseconds)": (\{[^}]*\}|[0-9.e-]+)', "", text)
    return re.sub(r"\d+\.\d+ (s|ms)\b", "", text)


ROWS = [
    pytest.param(line, option, as_json, id=f"{line.words}-{option.name}{'-json' if as_json else ''}")
    for line in LINES
    for as_json in (False, True)
    if not (as_json and line.command == "batch")
    for option in options_of(line.command)
    if words_of(option).split()[0] not in line.words.split()
]


def test_every_option_has_words() -> None:
    options = [option for line in LINES for option in options_of(line.command) if option.type is not click.STRING]
    options = [option for option in options if not option.is_flag]
    names = {str(option.name) for option in options}
    assert not names - VALUES.keys(), "add to VALUES, for each of these, another value than the default"
    assert {line.command for line in LINES} == set(main.commands), "add a line for each command to LINES"


def test_every_branch_has_a_line() -> None:
    taken = {(line.command, branch) for line in LINES for branch in line.branches}
    existing = {(command, branch) for command, branches in BRANCHES.items() for branch in branches}
    assert not existing - taken, "add to LINES, for each of these branches, a command line that takes it"
    assert not taken - existing, "LINES names branches that converter/command_line/branches.py does not have"


def test_a_branch_names_parameters() -> None:
    """A misspelt name would refuse nothing."""
    for command, branches in BRANCHES.items():
        names = {parameter.name for parameter in main.commands[command].params}
        for branch in branches.values():
            assert branch.unused <= names


BASELINES: dict[tuple[str, bool, bool], tuple[int, str, str, dict[str, str]]] = {}


@pytest.mark.parametrize(("line", "option", "as_json"), ROWS)
def test_an_option_is_used_or_refused(
    line: Line, option: click.Option, as_json: bool, material: Path, tmp_path: Path
) -> None:
    base = f"{line.words} --json" if as_json else line.words
    words = f"{base} {words_of(option)}"
    refused = [BRANCHES[line.command][branch] for branch in _branches(line, option, as_json)]
    reasons = [branch.reason for branch in refused if option.name in branch.unused]
    is_limited = option.name in ("memory_limit", "time_limit")
    result = outcome(material, tmp_path / "here", words, is_limited)
    if reasons:
        assert result[0] == 2, result
        assert any(_words(reason) in _words(result[1] + result[2]) for reason in reasons), result
        assert not result[3], "a refused command writes nothing"
        return
    place = line.words, as_json, is_limited
    if place not in BASELINES:
        BASELINES[place] = outcome(material, tmp_path / "here", base, is_limited)
    plain = BASELINES[place]
    key = str(option.name), line.words
    if key in NO_EFFECT and not (as_json and key in SEEN_IN_JSON):
        assert result == plain, f"{words} differs now from {base}: take it off NO_EFFECT"
    else:
        assert result != plain, (
            f"{words} does the same as {base}: refuse the option there (unused_in of its field), or name it in "
            f"NO_EFFECT with the reason"
        )


def _branches(line: Line, option: click.Option, as_json: bool) -> Sequence[str]:
    """The branches of the line with the option: those that ask for it are left, that of JSON only with it."""
    left = {"check": "unverified", "keeps_nothing": "unverified", "compress": "uncompressed"}.get(str(option.name))
    branches = [branch for branch in line.branches if branch != left and (branch != "json" or as_json)]
    if option.name == "stateless":
        branches += ["stateless"]
    return branches


def _words(text: str) -> str:
    return " ".join(text.split())
