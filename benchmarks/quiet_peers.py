"""Import this to measure OpenVINO as a careful user runs it: without telemetry, in this process and its children.

``openvino.convert_model`` forks a process for each of its seven events, which takes longer than a small conversion.
"""

from __future__ import annotations

import os

os.environ["CI"] = "true"
