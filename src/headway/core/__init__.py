"""Requests, devices, messages and the engine: standard library only, no clock, no randomness, no IO."""
