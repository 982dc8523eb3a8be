"""Models as immutable graphs of layers: the readers, and the zoo that builds standard ones."""

from headway.models.graph import Graph, Layer, LayerKind, LoopDims, Operand
from headway.models.merge import merge
from headway.models.precision import at_width
from headway.models.reading import load_model

__all__ = ["Graph", "Layer", "LayerKind", "LoopDims", "Operand", "at_width", "load_model", "merge"]
