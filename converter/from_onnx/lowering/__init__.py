"""Building blocks that several families of operators share."""
