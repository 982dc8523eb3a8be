"""Latency of a model on a GPU that need not be there: from measured kernels, by scale-free features."""

from headway.predict.gpu.blocks import BlockDemand, BlockSeconds, block_seconds, even_cuts, kernel_demands
from headway.predict.gpu.devices import GpuDevice, device_from_mapping, known_device, known_devices
from headway.predict.gpu.predictor import GpuPredictor, shipped_predictor

__all__ = [
    "BlockDemand",
    "BlockSeconds",
    "GpuDevice",
    "GpuPredictor",
    "block_seconds",
    "device_from_mapping",
    "even_cuts",
    "kernel_demands",
    "known_device",
    "known_devices",
    "shipped_predictor",
]
