"""Inputs for both sides: values, sizes and what a run of them costs."""
