"""Schemas of scenarios, suites and hardware, their presets, and the checks on what a user wrote."""

from headway.config.hardware import Hardware, describe_hardware, load_hardware, preset_names
from headway.config.lanes import LaneHardware, StreamHardware
from headway.config.scenario import Scenario
from headway.config.suite_cells import Cell
from headway.config.suites import Suite, load_suite, suite_names
from headway.config.tenants import Sla, Tenant

__all__ = [
    "Cell",
    "Hardware",
    "LaneHardware",
    "Scenario",
    "Sla",
    "StreamHardware",
    "Suite",
    "Tenant",
    "describe_hardware",
    "load_hardware",
    "load_suite",
    "preset_names",
    "suite_names",
]
