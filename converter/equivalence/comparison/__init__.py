"""Comparison of arrays, outputs and single layers, and what rounding allows."""
