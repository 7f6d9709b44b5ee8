"""The tokenizer as IR, which openvino-tokenizers makes: in a process of its own, where it is installed."""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
from pathlib import Path

from ir_runtime.records import record

TOKENIZER, DETOKENIZER = "openvino_tokenizer", "openvino_detokenizer"
_NEEDED = ("openvino_tokenizers", "transformers")
_FILES = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "spiece.model")
_CODE = "from openvino_tokenizers.cli_tools.convert_tokenizer import convert_hf_tokenizer as main; main()"


@record
class Tokenizers:
    """The result for tokenizer and detokenizer: written or not, the reason, and the command that writes them."""

    written: bool
    why_not: str = ""
    command: str = ""


def write_tokenizers(source: Path, target: Path, *, pads_left: bool = True) -> Tokenizers:
    """Write the tokenizer of the folder ``source`` and its detokenizer to ``target``.

    With ``pads_left`` prompts of a batch end together, where a decoder goes on. Encoders read texts as they come.
    """
    if not any((source / name).is_file() for name in _FILES):
        return Tokenizers(False, f"{source} has no tokenizer")
    padding = ["--left-padding"] if pads_left else []
    options = [str(source), "--with-detokenizer", *padding, "-o", str(target)]
    command = shlex.join(["convert_tokenizer", *options])
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        return Tokenizers(False, f"{' and '.join(missing)} cannot be imported: pip install 'onnx2ir[genai]'", command)
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _CODE, *options], capture_output=True, text=True, check=False, env=offline
    )
    if done.returncode == 0 and all((target / f"{name}.xml").is_file() for name in (TOKENIZER, DETOKENIZER)):
        return Tokenizers(True)
    lines = (done.stderr or done.stdout).strip().splitlines()
    return Tokenizers(False, f"openvino-tokenizers failed: {lines[-1] if lines else 'no reason given'}", command)
