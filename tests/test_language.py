"""Words that the guide's section on language asks to replace: how often they are names may only fall."""

from __future__ import annotations

import io
import json
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIMITS: dict[str, int] = json.loads((Path(__file__).parent / "language.json").read_text())
"""Names without a meaning of their own -> how often they occurred when they were counted last."""


def names() -> Counter[str]:
    """How often each name occurs in the code of both packages; ``dtype.kind`` is NumPy's name."""
    counts: Counter[str] = Counter()
    for package in ("converter", "ir_runtime"):
        for path in (ROOT / package).rglob("*.py"):
            code = path.read_text(encoding="utf-8").replace("dtype.kind", "dtype")
            tokens = tokenize.generate_tokens(io.StringIO(code).readline)
            counts.update(token.string for token in tokens if token.type == tokenize.NAME)
    return counts


def test_vague_names_become_fewer() -> None:
    counts = names()
    more = {word: (counts[word], limit) for word, limit in LIMITS.items() if counts[word] > limit}
    assert not more, (
        f"more often than before (now, limit): {more}. Name what a value is: see docs/architecture.md, Names and words"
    )
