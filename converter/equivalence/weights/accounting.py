"""Sources of the values of every constant of the IR: the file, the recorded steps, or the conversion itself.

:mod:`converter.equivalence.weights.checks` looks for what the file declares. This is the other direction: a constant
that holds nothing of the file has to follow from it in another way, or nothing shows that it is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from converter.equivalence.comparison.layers import LayerDifference
from converter.equivalence.derivation.rederivation import DIFFERENT, INAPPLICABLE, DerivationCheck
from converter.equivalence.weights.known_values import KnownValues
from converter.passes.derivation import Derivation
from ir_runtime import Model
from ir_runtime.graph import Node, Tensor
from ir_runtime.records import record

_LONGEST_LIST = 64
"""Constants of at most so many whole numbers are axes, dimensions and the like."""


FILE, REPEATED, COMPARED = "file", "derived", "compared"
CONVERSION, MISSING = "conversion", "missing"


@record
class WeightAccount:
    """The sources of the values of the IR's constants."""

    values: Mapping[str, int]
    """How many values are ``file`` (those of the ONNX file, moved, converted, compressed or scaled), ``derived`` (what
    the recorded steps compute from these), ``compared`` (shown by the numbers of the layers that read them),
    ``conversion`` (shapes, axes and single numbers, which no file declares) and ``missing``."""
    missing: tuple[str, ...] = ()
    """The constants whose values are not accounted for."""

    @property
    def share(self) -> float:
        """The share of the values that are accounted for."""
        total = sum(self.values.values())
        return 1.0 - self.values.get(MISSING, 0) / total if total else 1.0

    def to_text(self) -> str:
        """The account in one line."""
        total = sum(self.values.values())
        parts = ", ".join(f"{count:,} {origin}" for origin, count in self.values.items() if count)
        # Rounding must not turn a value that is missing into 100 %.
        share = "100" if not self.missing else f"{min(99.9, 100 * self.share):.1f}"
        return f"{share} % of {total:,} values of the IR are accounted for ({parts or 'none'})"


def account_for(
    model: Model,
    of_file: Collection[Node],
    derivation: DerivationCheck,
    layers: Sequence[LayerDifference],
) -> WeightAccount:
    """Return where the values of the constants of ``model`` come from.

    ``of_file`` are the constants that hold tensors of the file. Where no derivation shows how the others were computed,
    the ``layers`` that read them have to compute right results from right inputs.
    """
    recorded = Derivation.of(model).weights or {}
    changed = {change.layer for change in derivation.differences}
    values: Counter[str] = Counter()
    missing: list[str] = []
    unknown: list[tuple[str, Node]] = []
    for path, node in _constants(model):
        held = node.op.data
        assert held is not None
        if node in of_file:
            values[FILE] += held.size
        elif derivation.state != INAPPLICABLE and path not in changed:
            values[CONVERSION if node.name not in recorded and _is_plain(held) else REPEATED] += held.size
        elif derivation.state == DIFFERENT or not _is_plain(held):
            unknown.append((path, node))
        else:
            values[CONVERSION] += held.size
    is_shown_alone = bool(unknown) and derivation.state == INAPPLICABLE
    shown_layers = _shown_by(layers) if is_shown_alone else set()
    known_values = KnownValues(model) if is_shown_alone else None
    for path, node in unknown:
        held = node.op.data
        assert held is not None
        if known_values is not None and _is_shown(node, shown_layers, known_values):
            values[COMPARED] += held.size
        else:
            values[MISSING] += held.size
            missing.append(path)
    return WeightAccount(dict(values), tuple(missing))


def _constants(model: Model, path: str = "") -> Iterator[tuple[str, Node]]:
    """Yield the constants with their names, behind those of the layers whose bodies they stand in."""
    for node in model.nodes():
        if node.op.data is not None:
            yield path + node.name, node
        for sub in node.op.subgraphs:
            yield from _constants(sub.body, f"{path}{node.name}/")


def _is_plain(held: Tensor) -> bool:
    """True for a list of whole numbers and for a single number: axes, sizes, scales."""
    if held.size <= 1:
        return True
    if not held.element_type.is_real:
        return held.size <= _LONGEST_LIST
    values = held.array().reshape(-1)
    return bool((values == values[0]).all())


def _shown_by(layers: Sequence[LayerDifference]) -> set[str]:
    """Return the layers that compute right results from right inputs, on values that show it."""
    return {name for layer in layers if layer.local.passed and layer.is_telling for name in layer.part}


def _is_shown(node: Node, shown_layers: Collection[str], known_values: KnownValues) -> bool:
    """True if every value of the constant takes part in results that were compared: none is only looked up."""
    pending, done = [(node.outputs[0], reader) for reader in node.outputs[0].uses], set()
    while pending:
        value, reader = pending.pop()
        if reader in done:
            continue
        done.add(reader)
        if known_values.holds(reader):
            pending += [(output, user) for output in reader.outputs for user in output.uses]
        elif reader.op.role == "result":
            continue  # outputs are compared
        elif reader.name not in shown_layers or (reader.op.movement and reader.inputs[0] is value):
            return False
    return bool(done)
