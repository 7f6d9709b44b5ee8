"""Commands on a terminal."""

from __future__ import annotations

import errno
import os
import pty
import subprocess
import sys
from pathlib import Path


def on_terminal(folder: Path, *arguments: str, columns: int = 80, before: str = "pass", **environment: str) -> str:
    """Everything that the command writes to a terminal of that width."""
    controller, terminal = pty.openpty()
    code = f"import sys; from converter.command_line import main, state; {before}; main(prog_name='onnx2ir')"
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "CI")}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=terminal, stderr=terminal, stdin=terminal, cwd=folder,
        env={**kept, "COLUMNS": str(columns), "TERM": "xterm-256color", **environment},
    )  # fmt: skip
    os.close(terminal)
    written = b""
    while True:
        try:
            part = os.read(controller, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            break
        if not part:
            break
        written += part
    process.wait()
    os.close(controller)
    return written.decode()
