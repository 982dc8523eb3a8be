"""Policies: one file each, registered by name. Importing this package registers those that ship."""

from headway.policies import edf, fcfs, gslice, laxity, lucas, orion, planned, reef, sjf, split
from headway.policies.base import Policy
from headway.policies.registry import describe, make, names, policy

__all__ = [
    "Policy",
    "describe",
    "edf",
    "fcfs",
    "gslice",
    "laxity",
    "lucas",
    "make",
    "names",
    "orion",
    "planned",
    "policy",
    "reef",
    "sjf",
    "split",
]
