"""Contracts of passes: how far results may be from those of the layers that a pass replaces.

A pass states its contract where it is listed (:class:`~ir_runtime.rewriting.pipeline.Entry`);
``tests/converter/test_contracts.py`` holds it, and ``verify`` prints those of the passes that changed a model.
"""

from __future__ import annotations

from ir_runtime.records import record

NO_OVERFLOW = "layers without infinities and NaN"
"""Where contracts that are not exact hold: no value of the replaced layers is infinite or NaN."""
IN_RANGE = "values in the range of the integers"


@record
class Contract:
    """What a pass promises, and for which values.

    ``ulps`` counts at every value of the layers replaced, or of those emitted: inputs, constants, inner values and
    results. A result may differ as much as it does where each of these changes by so many
    units in the last place. For a sum that is the last place of the sum of the magnitudes, not of the result, which may
    be small; in the middle between two steps of quantization it is a step. How a single layer adds its terms is left to
    the runtime, and does not count. A scalar constant in float64 counts as one of float32, as patterns accept either.
    An exact contract holds for infinities and NaN, too.
    """

    ulps: float = 0
    reason: str = "the same arithmetic"
    """What makes the difference."""
    domain: str = "all values"
    keeps_signed_zeros: bool = True
    """False if a zero may have the other sign."""

    @property
    def is_exact(self) -> bool:
        """True if all values are equal, but for signs of zeros."""
        return not self.ulps

    def to_text(self) -> str:
        """Return the contract as a phrase: ``within 1 ulp``, ``exact but for signs of zeros``."""
        if self.is_exact:
            return "exact" if self.keeps_signed_zeros else "exact but for signs of zeros"
        return f"within {self.ulps:g} ulp{'s' * (self.ulps > 1)}"


EXACT = Contract()
"""Every bit of the results is the same, but for the payload of NaN."""
EQUAL = Contract(keeps_signed_zeros=False, reason="the same arithmetic, but a zero is not added or compared")
"""As :data:`EXACT`, but a zero may have the other sign."""


def within(ulps: float, reason: str) -> Contract:
    """Return the contract of a pass that rounds otherwise, for the ``reason``."""
    return Contract(ulps, reason, NO_OVERFLOW)


FUSED = within(1, "one layer rounds what several layers round")
"""Several layers become one, or one formula becomes another of the same values."""
