"""Analyses of the values of a graph: shapes and elements in terms of dimensions, ranges of values.

The analyses ask operations; they know no graph editing.
"""
