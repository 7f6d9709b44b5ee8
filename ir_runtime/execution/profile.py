"""The time of calls, by layer and by type of layer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ir_runtime.records import record


@record
class LayerTime:
    """The mean time of a step of the plan in a call: of a layer, or of several that are computed at once.

    ``name`` is that of the last layer, ``type`` joins the types of all with ``+``; ``kernel`` is whether a kernel
    computed them and not ``evaluate``.
    """

    name: str
    type: str
    kernel: bool
    seconds: float


@record
class TypeTime:
    """All layers of a type: their count, their time in a call, and its share in the time of all layers."""

    type: str
    count: int
    seconds: float
    share: float


class Profile:
    """The time of some calls. ``seconds`` is the mean time of a call, its overhead included."""

    def __init__(self, layers: Sequence[LayerTime], calls: int, total: float) -> None:
        self.calls = calls
        self.seconds = total / max(calls, 1)
        self.layers = sorted(
            (LayerTime(layer.name, layer.type, layer.kernel, layer.seconds / max(calls, 1)) for layer in layers),
            key=lambda layer_time: -layer_time.seconds,
        )
        """Each step's mean time in a call, the longest first."""

    def by_type(self) -> list[TypeTime]:
        """One entry for each type, the longest time first. Long chains are named by their first and last layers."""
        seconds_by_type: dict[str, list[float]] = {}
        for layer in self.layers:
            seconds_by_type.setdefault(_short(layer.type), []).append(layer.seconds)
        total = sum(layer.seconds for layer in self.layers) or 1.0
        rows = [
            TypeTime(layer_type, len(times), sum(times), sum(times) / total)
            for layer_type, times in seconds_by_type.items()
        ]
        return sorted(rows, key=lambda row: -row.seconds)

    def to_dict(self) -> Mapping[str, Any]:
        """As plain data, times in milliseconds."""
        return {
            "calls": self.calls,
            "milliseconds": self.seconds * 1e3,
            "types": [
                {"type": row.type, "layers": row.count, "milliseconds": row.seconds * 1e3, "share": row.share}
                for row in self.by_type()
            ],
            "layers": [
                {"name": layer.name, "type": layer.type, "kernel": layer.kernel, "milliseconds": layer.seconds * 1e3}
                for layer in self.layers
            ],
        }


def _short(layer_type: str) -> str:
    parts = layer_type.split("+")
    return layer_type if len(parts) <= 3 else f"{parts[0]}+...+{parts[-1]} ({len(parts)})"


class Clock:
    """Adds up the time of each step over several calls."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, str, bool], float] = {}
        self._since = 0.0
        self._total = 0.0
        self._calls = 0

    def __enter__(self) -> None:
        self._calls += 1
        self._total -= time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._total += time.perf_counter()

    def start(self) -> None:
        self._since = time.perf_counter()

    def stop(self, name: str, type: str, kernel: bool) -> None:
        key = (name, type, kernel)
        self._seconds[key] = self._seconds.get(key, 0.0) + time.perf_counter() - self._since

    def profile(self) -> Profile:
        rows = [LayerTime(*key, seconds) for key, seconds in self._seconds.items()]
        return Profile(rows, self._calls, self._total)
