"""Folders of other tasks than language models, and the pipelines that run them."""
