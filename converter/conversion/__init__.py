"""From a model to an IR in memory."""
