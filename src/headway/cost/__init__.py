"""Analytic costs of layers, fused stacks, pipelines and splits on a described device."""
