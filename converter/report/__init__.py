"""HTML pages of a conversion, a verification and the differences of two IRs. Each is one file, without a network."""

from converter.report.conversions import write_conversion
from converter.report.differences import write_difference
from converter.report.verifications import write_verification

__all__ = ["write_conversion", "write_difference", "write_verification"]
