"""Policies: one file each, registered by name. Importing this package registers those that ship."""

from headway.policies import edf, fcfs, laxity, lucas, sjf
from headway.policies.base import Policy
from headway.policies.registry import describe, make, names, policy

__all__ = ["Policy", "describe", "edf", "fcfs", "laxity", "lucas", "make", "names", "policy", "sjf"]
