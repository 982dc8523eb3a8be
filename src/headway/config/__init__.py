"""Schemas of scenarios and hardware, their presets, and the checks on what a user wrote."""

from headway.config.hardware import Hardware, describe_hardware, load_hardware, preset_names
from headway.config.lanes import LaneHardware
from headway.config.scenario import Scenario
from headway.config.tenants import Sla, Tenant

__all__ = [
    "Hardware",
    "LaneHardware",
    "Scenario",
    "Sla",
    "Tenant",
    "describe_hardware",
    "load_hardware",
    "preset_names",
]
