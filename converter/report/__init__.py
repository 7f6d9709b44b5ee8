"""Pages to look at: what a conversion made, what a comparison found, what two IRs differ in. One file, no network."""

from converter.report.conversions import write_conversion
from converter.report.differences import write_difference
from converter.report.verifications import write_verification

__all__ = ["write_conversion", "write_difference", "write_verification"]
