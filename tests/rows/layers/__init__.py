"""Layers of every operation: attributes in several modes, and inputs of its own seed for each."""
