"""What runs blocks: nothing (null), ONNX Runtime on the CPU, or either in a process of its own."""
