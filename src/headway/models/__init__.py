"""Models as immutable graphs of layers: the readers, and the zoo that builds standard ones."""
