"""Weights stored in fewer bits, on request and when a model is saved: float16, 8 or 4 bits."""
