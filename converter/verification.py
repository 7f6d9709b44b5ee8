"""``converter.verify``: :func:`converter.equivalence.verify`, with the errors that every caller may expect."""

from __future__ import annotations

from converter import equivalence
from converter.errors import ConversionError, VerificationError
from ir_runtime.boundary import expected_errors

verify = expected_errors(VerificationError, (ConversionError,))(equivalence.verify)
