"""The simulator: virtual time, and what really happens on the simulated device."""
