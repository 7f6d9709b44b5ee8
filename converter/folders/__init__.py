"""Folders of models: what they are, and how they become folders that pipelines read."""
