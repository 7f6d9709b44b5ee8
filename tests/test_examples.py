"""Every example runs as a user would run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(example), str(tmp_path)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_quickstart_writes_a_verified_pair(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "quickstart.py"), str(tmp_path)],
        capture_output=True, text=True, cwd=ROOT, check=True,
    )  # fmt: skip
    assert "layers: Parameter, AvgPool" in done.stdout
    assert "PASSED" in done.stdout
    assert (tmp_path / "quickstart.xml").exists()
    assert (tmp_path / "quickstart.bin").exists()
