"""Why the rules of a target are there: models whose plain layers the CPU plug-in gets wrong, refuses or crashes over.

Every rule has a row here, or in :mod:`tests.converter.targets.models` (plain layers that are slow, or that older releases
do not have); ``test_plain_layers.py`` holds that.
"""

from __future__ import annotations

from . import computation, movement
from .computation import ARITHMETIC
from .rows import Probe

WRONG: list[Probe] = [*ARITHMETIC, *movement.WRONG, *computation.WRONG]
"""The plug-in returns other numbers."""
REFUSED: list[Probe] = [*computation.ARITHMETIC_REFUSED, *movement.REFUSED, *computation.REFUSED]
"""The plug-in does not compile or run them."""
CRASHING: list[Probe] = [*movement.CRASHING, *computation.CRASHING]
"""The process ends."""
ALL = [*WRONG, *REFUSED, *CRASHING]
