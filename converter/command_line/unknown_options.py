"""Answers to options that ``convert`` does not have: what to write for those of ``mo`` and of other converters.

``docs/from_ovc.md`` has the table of all options of ``ovc`` and ``mo``.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection, Mapping, Sequence

_FLOAT16 = "write --compress-to-fp16; weights are stored as they are without it"
_SHAPE = 'write --input "[1,3,224,224]", or --input "name[1,3,224,224]" for an input by its name'
_OUTPUT = "write --output-model FOLDER/NAME"
REMEDIES: Mapping[str, str] = {
    "input-model": "write the model's path without an option",
    **dict.fromkeys(("input-shape", "shape", "shapes", "input-shapes"), _SHAPE),
    **dict.fromkeys(("model-name", "output-dir", "out", "output-path"), _OUTPUT),
    **dict.fromkeys(("data-type", "fp16", "half", "float16"), _FLOAT16),
    **{name: f"write --compress {name}" for name in ("int8", "int4")},
    **dict.fromkeys(("quantize", "weight-format"), "write --compress int8 or --compress int4, which round weights"),
    "freeze-placeholder-with-value": 'write --input "name=value"',
    "static-shape": "write --static",
    "extensions": "write --extension",
    "silent": "write --quiet",
    "log-level": "write --verbose or --quiet",
    "transform": "openvino._offline_transformations changes an IR; --stateful makes caches of a language model states",
    "dynamo": "it is for PyTorch's modules: export yours with torch.onnx.export first",
    **dict.fromkeys(("framework", "example-input", "example-output", "progress", "stream-output"), "leave it out"),
}
"""What to write for options by their names without dashes in front, in small letters."""


_SHORT = {"m": "input-model", "w": "input-model", "n": "model-name", "s": "scale"}
"""Short names of options of ``mo``."""


def answer(arguments: Sequence[str], own: Collection[str]) -> str:
    """Return a line for each option among the arguments that is none of ``own``, with what to write for it.

    Returns an empty text if there is none that is written out or a short one of ``mo``.
    """
    lines = []
    for argument in itertools.takewhile(lambda word: word != "--", arguments):
        written = argument.partition("=")[0]
        name = written.lstrip("-").replace("_", "-").lower()
        if argument.startswith("--") and f"--{name}" not in own:
            lines.append(f"  {written}: {REMEDIES.get(name) or _similar(f'--{name}', own)}")
        elif written[:1] == "-" and written[:2] not in own and written[1:2] in _SHORT:
            name = _SHORT[written[1]]
            lines.append(f"  {written[:2]}: {REMEDIES.get(name) or f'write --{name}'}")
    return "\n".join(["some of these options are not there:", *dict.fromkeys(lines)]) if lines else ""


def _similar(name: str, own: Collection[str]) -> str:
    close = difflib.get_close_matches(name, own, cutoff=0.7)
    return f"did you mean {' or '.join(close)}?" if close else "onnx2ir convert --help lists those that there are"
