"""Folders of models: what they are, and how they are converted."""
