"""The peak of a process's memory, for scripts that tests run.

``ru_maxrss`` is no measure of it: a new process begins with that of the one that started it.
"""

from __future__ import annotations

PEAK = """
def peak():
    import re
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""
"""Source of a function that returns the peak so far, in KiB; Linux has the file that it reads."""
