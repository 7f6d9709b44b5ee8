"""Trace of the passes of a pipeline: the layers that they looked at and replaced, and the reasons for the others."""

from __future__ import annotations

from collections import defaultdict

from ir_runtime.graph import Node

from .matching import NotMatched


class PassTrace:
    """Statistics of one pass."""

    def __init__(self) -> None:
        self.replaced: list[str] = []
        """Names of the layers that were replaced."""
        self.reasons: dict[str, list[str]] = defaultdict(list)
        """For each reason why a layer stayed the names of the layers."""

    @property
    def looked(self) -> int:
        """The number of layers that the pass looked at."""
        return len(self.replaced) + sum(map(len, self.reasons.values()))

    def matched(self, node: Node) -> None:
        """Note a layer that is replaced."""
        self.replaced.append(node.name)

    def not_matched(self, node: Node, why: NotMatched) -> None:
        """Note a layer that stays."""
        self.reasons[why.reason].append(node.name)


class Trace:
    """Statistics of each pass by its name, in the order in which they ran."""

    def __init__(self) -> None:
        self.passes: dict[str, PassTrace] = {}

    def of(self, name: str) -> PassTrace:
        return self.passes.setdefault(name, PassTrace())

    def lines(self) -> list[str]:
        """A line for each pass that looked at layers, and one for each of its reasons with the first of the layers."""
        report_lines = []
        for name, statistics in self.passes.items():
            if not statistics.looked:
                continue
            report_lines.append(f"{name}: {len(statistics.replaced)} of {statistics.looked} layers replaced")
            for reason, layers in statistics.reasons.items():
                more = f" and {len(layers) - 1} more" if len(layers) > 1 else ""
                report_lines.append(f"  not '{layers[0]}'{more}: {reason}")
        return report_lines
