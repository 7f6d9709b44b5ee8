"""Preprocessing that travels with the model: what is done to pictures before a model, as layers of the IR."""
