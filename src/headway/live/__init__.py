"""Running models for real: the driver on the wall clock, executors, and the profiler."""
