"""Transcripts: words, exit code, what is printed, files that are there afterwards; and what ``--json`` prints."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from converter import __version__


@dataclass(frozen=True)
class Transcript:
    """A command; parts of texts and files are separated by ``|``, those that must be missing begin with ``!``."""

    words: str
    code: int = 0
    out: str = ""
    err: str = ""
    files: str = ""
    json: Mapping[str, Any] | None = None
    """Values of the JSON by their paths; the command is run with ``--json``, too, and prints what the schema says."""
    after: str = ""
    """A command that has run before."""

    @property
    def arguments(self) -> list[str]:
        return shlex.split(self.words)


T = Transcript
NOTHING = "!*"
"""Neither stdout nor stderr has anything."""
DECLARES = "the model declares 'h' as [3], but its shape is [2]"

CONVERT = [
    T("convert pool.onnx -o out.xml --verify", 0, "PASSED against onnxruntime", "Wrote", "out.xml|out.bin"),
    T("convert half.onnx", files="half.xml|half.bin"),
    # Where OpenVINO's ovc writes with the same arguments.
    T("convert m.onnx -o newdir/m.xml", files="newdir/m.xml|newdir/m.bin|!newdir/m"),
    T("convert m.onnx -o a/b/c.xml", files="a/b/c.xml|a/b/c.bin"),
    T("convert m.onnx -o outdir/", files="outdir/m.xml|outdir/m.bin"),
    T("convert half.onnx -o here", files="here/half.xml|here/half.bin|!half.xml"),
    T("convert half.onnx -o .", files="half.xml|half.bin"),
    T("convert m.onnx -o name", files="name.xml|name.bin"),
    T("convert m.onnx -o name.ir", files="name.ir.xml|name.ir.bin"),
    T("convert m.onnx -o dir.a/name.v1", files="dir.a/name.v1.xml|dir.a/name.v1.bin"),
    T("convert m.onnx -o new/ --output nothing", 1, files="!new"),
    T("convert bad.onnx", 1, "!*", "the model has 2 problems|Nope|Never|!Traceback", "!bad.xml|!bad.bin", json={
        "error.type": "UnsupportedModelError", "error.problems.0.node": "first", "error.problems.0.operator": "Nope",
        "error.problems.1.node": "last", "error.problems.1.operator": "Never", "error.problems.1.opset": 17}),
    T("--verbose convert bad.onnx", 1, err="Traceback"),
    T("convert bad.onnx -v", 1, err="Traceback"),
    *(T(f"{before} convert m.onnx {after}", 0, err=printed) for before, after, printed in (
        ("", "", "Converting"), ("-q", "", NOTHING), ("", "-q", NOTHING), ("--quiet", "--quiet", NOTHING),
        ("", "--verbose", "Converting"), ("-v", "-v", "Converting"))),
    *(T(f"-q {command} -v", 2, "", "--quiet and --verbose exclude each other")
      for command in ("ops", "inspect m.onnx", "convert m.onnx")),
    T("convert", 2, "", "Missing argument 'MODEL...'"),
    T("convert none.onnx", 2, "", "does not exist", json={"error.type": "BadParameter"}),
    T("convert pool.onnx -o x.bin", 2, "", "must not end in .bin"),
    T("convert pool.onnx -o pool.onnx", 2, "", "would overwrite the model"),
    T("convert pool.onnx --inputs pool.onnx", 2, "", "--inputs needs --verify", json={"error.type": "UsageError"}),
    T("convert deep", 1, "", "is not recognised: it has m.onnx|for a single model give a file in it: m.onnx"),
    *(T(f"{command} deep", 1, "", "give a file in it: m.onnx") for command in ("inspect", "run")),
    T("convert saved", 1, "", "saved is not an ONNX model, but a TensorFlow SavedModel"),
    T("convert m.xml", 2, "", "m.xml is an IR itself: -o PATH says where to write the new one"),
    T("convert model.bin -o x", 1, "", "the weights of an IR, it seems: give model.xml"),
    T("convert pool.onnx --ouput y", 2, "", "No such option|--output|mo: docs/from_ovc.md"),
    T("convert pool.onnx --compress_to_fp16=maybe", 2, "", "True or False, but is 'maybe'"),
    T("convert pool.onnx --extension lib.so", 1, "", "is a library for OpenVINO"),
    T("convert pool.onnx --extension none.py", 1, "", "the extension none.py is not a Python file"),
    T("convert m.onnx --scale 0", 1, "", "scale divides the input, so that it cannot be 0"),
    T("convert half.onnx --compress int3", 2, "", "int3"),
    T("convert half.onnx --compress int4 --group-size 0", 2, "", "but the group size is 0"),
    T("convert half.onnx --group-size 64", 2, "", "--compress"),
    T("convert half.onnx --asymmetric", 2, "", "--compress"),
    T("convert foreign.onnx", 1, "", "node 'cube' (cubes.NoCube, opset 1): the operator is not supported",
        "!foreign.xml"),
    T("convert own.onnx --extension cube.py", json={"layers.Cube-1": 1}),
    T("convert f.onnx --input x[2,3] --input s=3 --output w --output z --verify", json={
        "outputs.0.name": "w", "outputs.1.name": "z", "verification.passed": True,
        "inputs": [{"name": "x", "type": "f32", "shape": [2, 3]}, {"name": "y", "type": "f32", "shape": [3]}]}),
    T("convert f.onnx --input x[2,3],s=s.npy --output 'w, z' --verify", json={
        "outputs.0.name": "w", "outputs.1.name": "z", "verification.passed": True}),
    T("transmogrify", 2, "", "No such command"),
    T("--version", 0, f"onnx2ir, version {__version__}"),
    T("convert model.onnx -o out/ --input image[1..8,3,?,16..],rate", json={"inputs.0.shape": ["1..8", 3, None,
        "16.."]}),
    T("convert by_value.onnx", 1, "", '--input "rate=VALUE"'),
    T("convert by_value.onnx --input rate=3"),
    T("convert by_shape.onnx", 1, "", '--input "x[N,N]"'),
    T("convert by_shape.onnx --input x[3,3]"),
    T("convert model.onnx m.onnx -o one.xml", 2, "", "give a folder", "!one.xml"),
    T("convert m.onnx deep/m.onnx -o ir", 2, "", "onnx2ir batch keeps", "!ir"),
    T("convert model.onnx m.onnx --report r.html", 2, "", "--report cannot be used with several models"),
    T("convert model.onnx m.onnx --stateless", 2, "", "--stateless cannot be used with several models"),
    T("convert decoder.xml --stateless -o plain.xml", 0, "", "4 variables are inputs and outputs", "plain.xml"),
    T("convert m.xml --stateless -o again.xml", 1, "", "has no variables: it is stateless already", "!again.xml"),
    T("convert decoder.xml --stateless --batch 2 -o again.xml", 2, "", "--batch cannot be used with --stateless",
        "!again.xml"),
    T("convert model.onnx deep", 2, "", "onnx2ir batch converts every model in it"),
    T("convert half.onnx f.onnx deep/m.onnx", 0, "!*", "Wrote deep/m.xml (5", "half.xml|f.xml|deep/m.xml"),
    T("convert warns.onnx again.onnx -o ir --verify", 0, "",
      f"WARNING: warns.onnx: {DECLARES}|WARNING: again.onnx: {DECLARES}"),
    T("verify warns.onnx warns.xml", 0, err="!WARNING"),
    T("batch warns.onnx again.onnx -o ir", 0, f"warns.onnx: warning: {DECLARES}|again.onnx: warning: {DECLARES}"),
]  # fmt: skip

COMMANDS = [
    T("verify pool.onnx pool.xml", 0, "PASSED", json={"outputs.0.name": "y0"}),
    T("verify pool.onnx pool3.xml", 1, "shape is [2, 3, 6, 6], expected [2, 3, 7, 7]|FAILED"),
    T("verify m.onnx", 2, "", "a MODEL and its IR are needed", json={"error.type": "UsageError"}),
    T("verify m.onnx model.onnx m.xml", 2, "", "no pairs"),
    T("verify m.onnx model.onnx deep", 2, "", "there is no deep/m.xml"),
    T("verify m.onnx m.xml m.onnx m.xml", 2, "", "given twice"),
    T("verify m.onnx m.xml model.onnx m.xml --minimise m", 2, "", "--minimise cannot be used with several models"),
    T("verify m.onnx ir", 0, "PASSED", after="convert m.onnx -o ir/"),
    T("run pool.xml --inputs ones.npz -o res.npz", files="res.npz", json={"outputs": [
        {"name": "y0", "type": "f32", "shape": [1, 3, 7, 7], "min": 1.0, "mean": 1.0, "max": 1.0}]}),
    T("run pool.xml --repeat 3 --profile", 0, "AvgPool|mean of 3", json={
        "calls": 3, "types.0.type": "AvgPool", "layers.0.type": "AvgPool"}),
    T("run pool.xml --repeat 2", json={"types": None}),
    T("run pool.xml --repeat 0", 2),
    T("run pool.onnx", 1, "", "pool.onnx is not OpenVINO IR, but an ONNX model: convert it first", json={}),
    T("run sum.xml --inputs one.npz --steps 3 -o y.npz", 0, "step", files="y.npz", json={
        **{f"steps.{at}.outputs.{port}.shape": [[2, 1, 3], [2, at + 1, 3]][port] for at in range(3) for port in (0, 1)},
        **{f"steps.{at}.outputs.0.max": 6.0 * (at + 1) for at in range(3)}}),
    # Without steps each call starts anew.
    T("run sum.xml --inputs one.npz", json={"outputs.0.max": 6.0}),
    # Files are the inputs of the first steps, an array may have a part for each step.
    *(T(f"run sum.xml --inputs prompt.npz --inputs token.npz {more}", json={
        f"steps.{at}.outputs.1.shape": [2, at + 4, 3] for at in range(count)}) for more, count in (("", 2),
            ("--steps 4", 4))),
    T("run sum.xml --inputs three.npz --steps 3", json={f"steps.{at}.outputs.0.max": [6.0, 18.0, 36.0][at]
        for at in range(3)}),
    *(T(f"run sum.xml --inputs three.npz --steps {count}", 1, "",
        f"the values of input 'x' are those of 3 steps, but there are {count}") for count in (2, 4)),
    T("run sum.xml --steps 3 --profile", json={"calls": 3, "steps.2.outputs.0.name": "y0"}),
    T("run sum.xml --steps 0", 2, "", "0 is not in the range"),
    T("run sum.xml --steps 2 --repeat 3", 2, "", "cannot be combined with --steps"),
    T("run sum.xml --steps 1 --inputs one.npz --inputs one.npz", 2, "", "2 files of inputs, but only 1 steps"),
    T("run sum.xml --inputs one.npz --inputs four.npz", 1, "", "error: step 2: input 'x' must have the shape [2,?,3]"),
    T("inspect pool.xml", 0, "AvgPool-1", json={"inputs": [{"name": "x", "type": "f32", "shape": [None, 3, 8, 8]}]}),
    T("inspect model.onnx", json={"inputs.0.shape": ["n", 3, "h", "w"]}),
    T("inspect model.xml", json={"inputs.0.shape": [None, 3, None, None]}),
    *(T(f"{command} --help", 0, f"onnx2ir {command}") for command in ("convert", "verify", "run", "inspect", "ops")),
    T("ops pool.onnx", 0, "AveragePool"),
    T("ops bad.onnx", 1, "no: ONNX has no operator of that name", json={}),
    # A model's own functions and those of ONNX's schemas are no problem; what stands in them may be.
    T("ops calls.onnx", 0, "!NoSuchOp"),
    T("ops calls_bad.onnx", 1, "NoSuchOp"),
    T("export m.onnx --input_model m.onnx", 2, "", "No such option"),
    *(T(f"diff {file} m.onnx", 1, "", message) for file, message in (("file", "file is not an ONNX model"),
        ("cut.onnx", "not an ONNX model"))),
    T("batch zoo", 2, "!*", "--output-dir"),
    T("batch -o ir", 2, "!*", "DIR|LIST|GLOB", "!ir"),
    *(T(f"batch {words}", 2, "!*", message, "!ir") for words, message in (
        ("nowhere -o ir", "no file, folder or pattern"), ("zoo -o ir --time-limit soon", "is not a time such as"),
        ("zoo -o ir --memory-limit '4 parsecs'", "is not a size such as"), ("zoo -o ir --memory-limit 0",
            "is not a size such as"),
        ("zoo -o ir --jobs 0", "--jobs"), ("zoo -o ir --input x[[", "--input"), ("zoo -o ir --target gpu", "gpu"),
        ("zoo -o ir --group-size 64", "--compress"), ("zoo --check -o ir", "--check keeps no IR"),
        ("nowhere -o ir --json -", "no file"),
        ("zoo --check --annotate github --json -", "give --json a FILE"), ("zoo --check --annotate gitlab", "gitlab"))),
    # A page that cannot be written is told before the work, and folders of pages are created.
    T("batch zoo -o ir --report file/r.html", 1, files="!ir"),
    T("batch zoo -o ir --json file/r.jsonl", 1, files="!ir"),
    *(T(f"{words} --report new/folder/r.html", files="new/folder/r.html")
      for words in ("convert m.onnx", "convert m.onnx --verify", "verify m.onnx m.xml")),
    *(T(f"inspect {words}", code, "!*", message) for words, code, message in (
        ("m.onnx --report m.onnx", 2, "would overwrite"), ("m.xml --report m.bin", 2, "would overwrite"),
        ("m.xml --report m.bin/page.html", 1, "m.bin"))),
    T("batch zoo -o ir --report new/folder/r.html --json other/r.jsonl", files="new/folder/r.html|other/r.jsonl"),
]  # fmt: skip

OF_SCHEMA = [
    *(T(words, code, json={}) for code, lines in ((0, """
        convert model.onnx -o out/
        convert model.onnx -o out/ --verify --report out.html
        convert model.onnx -o out/ --compress int4 --compress-to-fp16
        convert model.onnx -o out/ --mean-values image[1,2,3] --layout 'image(nchw->nhwc)'
        convert model.xml -o out/changed.xml --target any
        convert model.onnx other.onnx -o out --verify
        convert decoder.onnx -o out/ --stateful --verify
        convert decoder.xml --stateless -o out/plain.xml
        convert llm --verify -o out/llm
        verify model.onnx model.xml --layers --report found.html
        verify model.onnx model.xml --stress --engine openvino --against other.xml
        verify decoder.onnx decoder.xml --steps 2
        export model.xml -o again.onnx --verify --external-data
        inspect llm
        run decoder.xml --steps 1 --inputs step.npz
        ops
        ops model.onnx
        diff model.xml other.xml
        derive model.xml --from model.onnx
        optimize model.onnx -o small.onnx
        optimize model.onnx -o small.onnx --verify --external-data --opset 13
        diff model.onnx other.onnx
        diff model.onnx model.xml
        edit model.onnx -o edited.onnx --metadata author=me --split-size 1GB
        edit model.xml -o edited.xml --metadata author=me
        roundtrip model.onnx
    """), (1, """
        convert model.onnx bad.onnx cut.onnx -o out
        verify model.onnx wrong.xml --report found.html --minimise part
        verify model.onnx model.xml other.onnx wrong.xml
        diff model.xml wrong.xml
        diff model.xml decoder.xml
        derive wrong.xml --from model.onnx
    """)) for words in map(str.strip, lines.strip().splitlines())),
    T("convert good.onnx --input z[1]", 1, "", "z", json={}),
    T("convert good.onnx --bogus", 2, "", "--bogus", json={"error.type": "UsageError"}),
    T("verify good.onnx cut.onnx --layers", 1, json={}),
    T("export good.xml --opset 99", 1, "", "from 7 to", json={"error.type": "ConversionError"}),
    T("export good.xml --opset many", 2, "", "many", json={"error.type": "BadParameter"}),
    T("inspect good.bin", 1, "", "good.bin", json={}),
    T("roundtrip bad.onnx", 1, "", "2 problems", json={"error.type": "UnsupportedModelError"}),
    T("inspect model.xml --nodes --json", 2, "", "--nodes", json={"error.type": "UsageError"}),
    T("ops cut.onnx", 1, "", "cut.onnx", json={}),
    T("derive model.xml", 2, "", "--from", json={}),
    T("optimize model.onnx --seed 1", 2, "", "--seed", json={"error.type": "UsageError"}),
    T("edit model.onnx -o edited.onnx --cut :nothing", 1, "", "nothing", json={"error.type": "OptionError"}),
]  # fmt: skip
"""Each prints what the schema says, and errors with their types."""
