"""``converter.verify`` and ``converter.verify_steps``, with the errors that every caller may expect."""

from __future__ import annotations

from converter import equivalence
from converter.equivalence import steps
from converter.errors import ConversionError, VerificationError
from ir_runtime.boundary import expected_errors

verify = expected_errors(VerificationError, (ConversionError,))(equivalence.verify)
verify_steps = expected_errors(VerificationError, (ConversionError,))(steps.verify_steps)
