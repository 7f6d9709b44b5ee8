"""Text from a language model in NumPy alone: no OpenVINO, no onnxruntime, no PyTorch.

    python examples/generate_text.py FOLDER "Once upon a time" [TOKENS]

FOLDER holds ``model.onnx`` with caches, as onnxruntime-genai's builder or Optimum write it, and ``tokenizer.json``.
Needs the package tokenizers.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

import converter
from converter.folders.source import SourceFolder
from ir_runtime import Session, compile_model


def next_token(session: Session, tokens: list[int], length: int) -> int:
    """The likeliest token after ``tokens``, which come behind ``length - len(tokens)`` others."""
    feeds = {
        "input_ids": np.array([tokens]),
        "attention_mask": np.ones((1, length), np.int64),
        "position_ids": np.arange(length - len(tokens), length)[None],
        "beam_idx": np.zeros(1, np.int32),
    }
    known = {name: value for name, value in feeds.items() if name in session.input_names}
    return int(session(known)["logits"][0, -1].argmax())


def main(folder: str, prompt: str, count: int = 32) -> str:
    """The text that the model finds the likeliest, word by word."""
    source = SourceFolder.open(Path(folder))
    tokenizer = Tokenizer.from_file(str(source.path / "tokenizer.json"))
    session = compile_model(converter.convert_model(source.decoder.path, stateful=True)).session()
    step = tokenizer.encode(prompt).ids
    length, found = len(step), list[int]()
    start = time.perf_counter()
    while len(found) < count:
        step = [next_token(session, step, length)]
        found += step
        length += 1
    print(f"{1000 * (time.perf_counter() - start) / count:.1f} ms a token", file=sys.stderr)
    return str(tokenizer.decode(found))


if __name__ == "__main__":
    if len(sys.argv) < 3 or not Path(sys.argv[1]).is_dir():
        sys.exit(__doc__)
    print(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:4])))
