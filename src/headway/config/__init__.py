"""Schemas of scenarios and hardware, their presets, and the checks on what a user wrote."""
