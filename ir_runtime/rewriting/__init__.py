"""Changing a model: emitting layers, replacing values, folding constants, pipelines of passes.

What nearly every pass and rule needs is imported from here.
"""

from .builder import Builder
from .checks import graph_pass
from .matching import Match, NotMatched, Pattern, anything, constant, either, fail, layer, number
from .replace_layers import Replacement
from .trace import PassTrace
from .unique_names import UniqueNames

__all__ = ["Builder", "PassTrace", "Replacement", "UniqueNames", "graph_pass"]
__all__ += ["Match", "NotMatched", "Pattern", "anything", "constant", "either", "fail", "layer", "number"]
