"""The graph: models, layers and values, their types and shapes, and what must hold for them."""
