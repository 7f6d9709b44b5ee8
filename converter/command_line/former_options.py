"""Command lines of ``mo`` and ``ovc``: the whole command as it is written here, and what has no counterpart.

``docs/from_ovc.md`` explains the options at greater length.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_TENSORFLOW = "it is for TensorFlow models: convert yours to ONNX with tf2onnx first"
_CAFFE = "it is for Caffe models, which have to be exported to ONNX first"
_MXNET = "it is for MXNet models, which have to be exported to ONNX first"
_KALDI = "it is for Kaldi models, which have to be exported to ONNX first"
_NOT_NEEDED = "it is not needed"
_ANY_PAIRS = "{'input': 'output'}"
_OFFLINE = "openvino._offline_transformations"
_TRANSFORMATIONS = {
    "LowLatency2": "the states of recurrent layers stay inputs and outputs here; "
    f"{_OFFLINE}.apply_low_latency_transformation changes the IR. The caches of a language "
    "model become states with --stateful",
    "MakeStateful": f"in Python, converter.convert_model(..., stateful={_ANY_PAIRS}) keeps the outputs for the "
    "inputs that you name; --stateful finds the caches of a language model by itself",
    "Pruning": f"no layer is pruned here; {_OFFLINE}.apply_pruning_transformation changes the IR",
}
"""Transformations of ``mo --transform`` by name, and what to use instead."""


class _Translated:
    """The command that is put together from old options."""

    def __init__(self) -> None:
        self.models: list[str] = []
        self.words: list[str] = []
        self.reasons: list[str] = []
        self.inputs: list[str] = []
        self.shapes: list[str] = []
        self.frozen: list[str] = []
        self.layouts: dict[str, str] = {}
        self.folder = ""
        self.name = ""
        self.old = ""
        """The option that is being translated, as it was written."""

    def no_counterpart(self, reason: str) -> None:
        """Leave the option out, for this reason."""
        self.reasons.append(f"{self.old}: {reason}")

    def add(self, option: str, *value: str) -> None:
        """Add an option."""
        self.words += [option, *value]

    def command(self) -> str:
        """The whole command."""
        words = ["onnx2ir", "convert", *(self.models or ["MODEL.onnx"])]
        inputs = ",".join([*self._shaped_inputs(), *self.frozen])
        if inputs:
            words += ["--input", inputs]
        if self.folder or self.name:
            folder = self.folder if not self.folder or self.folder.endswith("/") else f"{self.folder}/"
            words += ["--output-model", folder + self.name]
        if self.layouts:
            self.old = " and ".join(f"--{way}_layout" for way in self.layouts)
            ways = [self.layouts[way] for way in ("source", "target") if way in self.layouts]
            self.add("--layout", "->".join(ways))
        return shlex.join([*words, *self.words])

    def _shaped_inputs(self) -> list[str]:
        names = [name for text in self.inputs for name in _parts(text)]
        shapes = [_brackets(shape) for text in self.shapes for shape in _parts(text)]
        if not names or not shapes:
            return [_brackets(name) for name in names] or shapes
        if len(names) != len(shapes):
            self.reasons.append(f"--input_shape: {len(shapes)} shapes are given for {len(names)} names of --input")
            return names
        return [f"{name}{shape}" for name, shape in zip(names, shapes)]


_Act = Callable[[_Translated, str], None]


class _Old(NamedTuple):
    """An old option: whether a value follows, and what it does to the command."""

    takes_value: bool
    act: _Act


def _value(option: str) -> _Old:
    return _Old(True, lambda translation, value: translation.add(option, value))


def _switch(*words: str) -> _Old:
    def act(translation: _Translated, value: str) -> None:
        if value.lower() not in ("false", "0", "no", "off"):
            translation.add(*words)

    return _Old(False, act)


def _listed(field: str) -> _Old:
    return _Old(True, lambda translation, value: getattr(translation, field).append(value))


def _left_out(reason: str, *, takes_value: bool = True) -> _Old:
    return _Old(takes_value, lambda translation, value: translation.no_counterpart(reason))


def _data_type(translation: _Translated, value: str) -> None:
    if value.lower() in ("fp16", "half"):
        translation.add("--compress-to-fp16")
    elif value.lower() not in ("fp32", "float"):
        translation.no_counterpart(f"weights are stored as they are, or with --compress-to-fp16, but not as {value}")


def _transform(translation: _Translated, value: str) -> None:
    for name, arguments in re.findall(r"([A-Za-z]\w*)\s*(\[[^\]]*\])?\s*(?:,|$)", value) or [(value, "")]:
        reason = _TRANSFORMATIONS.get(name, f"there is none of that name; {_OFFLINE} has some that change an IR")
        pairs = re.search(r"\{[^}]*\}", arguments)
        if pairs is not None:
            reason = reason.replace(_ANY_PAIRS, pairs[0])
        translation.reasons.append(f"{translation.old} {name}: {reason}")


def _freeze(translation: _Translated, value: str) -> None:
    for part in _parts(value):
        name, _, number = _brackets(part).replace("->", "=").partition("=")
        translation.frozen.append(f"{name}={re.sub(r'[ ]+', ',', number.strip())}")


def _layout(way: str) -> _Old:
    def act(translation: _Translated, value: str) -> None:
        translation.layouts[way] = value

    return _Old(True, act)


def _named(field: str) -> _Old:
    return _Old(True, lambda translation, value: setattr(translation, field, value))


def _log_level(translation: _Translated, value: str) -> None:
    loud = {"debug": "--verbose", "info": "--verbose", "critical": "--quiet", "error": "--quiet"}.get(value.lower())
    if loud is not None:
        translation.add(loud)
    else:
        translation.no_counterpart(_NOT_NEEDED)


def _family(reason: str, values: str, flags: str = "") -> dict[str, _Old]:
    """Options that have the same reason, those with values and those without."""
    left_out = {name: _left_out(reason) for name in values.split()}
    return left_out | {name: _left_out(reason, takes_value=False) for name in flags.split()}


FORMER_OPTIONS: Mapping[str, _Old] = {
    "input-model": _listed("models"),
    "input": _listed("inputs"),
    "input-shape": _listed("shapes"),
    "model-name": _named("name"),
    "output-dir": _named("folder"),
    "data-type": _Old(True, _data_type),
    "freeze-placeholder-with-value": _Old(True, _freeze),
    "static-shape": _switch("--static"),
    "extensions": _value("--extension"),
    "mean-values": _value("--mean-values"),
    "scale-values": _value("--scale-values"),
    "scale": _value("--scale-values"),
    "reverse-input-channels": _switch("--reverse-input-channels"),
    "layout": _value("--layout"),
    "source-layout": _layout("source"),
    "target-layout": _layout("target"),
    "transform": _Old(True, _transform),
    "silent": _switch("--quiet"),
    "log-level": _Old(True, _log_level),
    "framework": _left_out("every model is ONNX here"),
    "dynamo": _left_out("it is for PyTorch's modules: export yours with torch.onnx.export first", takes_value=False),
    "example-input": _left_out("an ONNX model needs none"),
    "example-output": _left_out("an ONNX model needs none"),
    **_family(
        _NOT_NEEDED,
        "",
        "share-weights use-legacy-frontend use-new-frontend disable-fusing disable-gfusing finegrain-fusing progress "
        "stream-output keep-shape-ops enable-concat-optimization disable-nhwc-to-nchw disable-resnet-optimization "
        "disable-weights-compression move-to-preprocess",
    ),
    **_family(
        _TENSORFLOW,
        "transformations-config tensorflow-use-custom-operations-config tensorflow-custom-operations-config-update "
        "saved-model-dir saved-model-tags input-meta-graph input-checkpoint tensorboard-logdir "
        "tensorflow-object-detection-api-pipeline-config tensorflow-custom-layer-libraries",
        "input-model-is-text",
    ),
    **_family(
        _CAFFE,
        "input-proto caffe-parser-path mean-file mean-file-offsets",
        "disable-omitting-optional enable-flattening-nested-params",
    ),
    **_family(
        _MXNET,
        "input-symbol nd-prefix-name pretrained-model-name",
        "save-params-from-nd legacy-mxnet-model enable-ssd-gluoncv",
    ),
    **_family(_KALDI, "counts", "remove-output-softmax remove-memory"),
}
"""Names without the leading dashes, with dashes for underscores, in small letters."""

_SHORT = {"m": "input-model", "w": "input-model", "n": "model-name", "o": "output-dir", "b": "batch", "s": "scale",
          "d": "input-proto", "k": "caffe-parser-path"}  # fmt: skip
"""Short names of the options of ``mo``; ``-o`` is one of ours, too."""


def translated(arguments: Sequence[str], own: Mapping[str, bool]) -> str:
    """The answer to a command line with options that are not there.

    ``own`` has the options of the command here, and whether a value follows each.
    """
    options = list(_options(arguments, own))
    of_mo = any(plain in FORMER_OPTIONS and here not in own for _, plain, here, _ in options)
    translation = _Translated()
    for written, plain, here, value in options:
        translation.old = written
        former = FORMER_OPTIONS.get(plain)
        if not written:
            translation.models.append(value)
        elif former is not None and (here not in own or (of_mo and plain in _JOINED)):
            former.act(translation, value)
        elif here in own:
            translation.words += [here, *([value] if own[here] else [])]
        else:
            translation.no_counterpart(f"there is no such option{_like(here, own)}")
    command = translation.command()
    reasons = "".join(f"\n  {reason}" for reason in dict.fromkeys(translation.reasons))
    message = f"\n\nWithout a counterpart:{reasons}" if reasons else ""
    return f"some of these options are not there. The command is:\n\n  {command}{message}"


_JOINED = ("input", "output-dir")
"""Options of our own that belong together with old ones; ``-o`` of ``mo`` is always a folder."""


def _like(name: str, own: Mapping[str, bool]) -> str:
    import difflib  # for what is misspelt alone

    close = difflib.get_close_matches(name, own)
    return f", but {' and '.join(close)}" if close else ""


def _options(arguments: Sequence[str], own: Mapping[str, bool]) -> Iterator[tuple[str, str, str, str]]:
    """Each option as it was written, by its long name, as it may be here, and its value.

    What stands by itself is a value without names.
    """
    rest = list(arguments)
    while rest:
        token = rest.pop(0)
        if token == "--":
            yield from (("", "", "", word) for word in rest)
            return
        if not token.startswith("-") or token == "-":
            yield "", "", "", token
            continue
        written, equals, value = token.partition("=")
        if not written.startswith("--") and not equals and written[1] in _SHORT and len(written) > 2:
            written, equals, value = written[:2], "=", written[2:]  # -b1
        plain = written.lstrip("-").replace("_", "-").lower()
        plain = plain if written.startswith("--") else _SHORT.get(plain, plain)
        here = written if written in own else f"--{plain}"
        if not equals and rest and _takes_value(plain, here, own, rest[0]):
            value = rest.pop(0)
        yield written, plain, here, value


def _takes_value(plain: str, here: str, own: Mapping[str, bool], following: str) -> bool:
    """True if the word behind an option is its value."""
    if here in own:
        return own[here]
    former = FORMER_OPTIONS.get(plain)
    if former is not None:
        return former.takes_value or following.lower() in ("true", "false")
    return not following.startswith("-") and Path(following).suffix.lower() not in (".onnx", ".xml")


def _parts(text: str) -> list[str]:
    """The entries of a list that commas separate, but for those in brackets."""
    return [part.strip() for part in re.split(r",(?![^\[(]*[\])])", text) if part.strip()]


def _brackets(text: str) -> str:
    """Shapes in brackets: ``mo`` also took ``(1,3)``, and ``-1`` for a dynamic dimension."""
    shape = re.sub(r"\(([^()]*)\)", r"[\1]", text)
    return re.sub(r"(?<=[\[, ])-1(?=[\], ])", "?", shape)
