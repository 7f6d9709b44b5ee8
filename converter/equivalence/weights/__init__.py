"""Comparison of weights bit by bit, and the sources of every value of the IR."""
