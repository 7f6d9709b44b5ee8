"""The ``onnx2ir`` command: the only place that prints or exits.

Results go to stdout, messages to stderr. Exit codes: 0 done, 1 the check failed or the model cannot
be converted, 2 wrong usage.

Each command is a module, imported when it is called. None of them imports the converter, NumPy or rich before that, so
that ``--help`` and ``--version`` answer at once.
"""

from converter.command_line.program import main
from converter.command_line.state import State


def start() -> None:
    """The entry point of a shell: one command, and the process ends with it."""
    State.owns_process = True
    main()


__all__ = ["main", "start"]
