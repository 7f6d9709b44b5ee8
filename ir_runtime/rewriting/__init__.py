"""Changing a model: emitting layers, replacing values, folding constants, pipelines of passes."""
