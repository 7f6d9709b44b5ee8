"""Caches that a model takes and returns, as variables that it keeps itself, and back; from model to model."""
