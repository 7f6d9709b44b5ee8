"""Folders with models of any task, and the folders that the pipelines of openvino-genai read."""
