"""Preprocessing that travels with the model: steps on images in front of a model, as layers of the IR."""
