"""The composition root: from a scenario to a wired engine, driver, policy and estimator."""

from headway.wiring.bound import Bounding
from headway.wiring.live import LiveRun, require_lanes, run
from headway.wiring.prepared import Answered, Prepared, prepare, price
from headway.wiring.shelf import Shelf
from headway.wiring.simulated import compare, known_policies, require_policies, simulate
from headway.wiring.twin import Twin, twin

__all__ = [
    "Answered",
    "Bounding",
    "LiveRun",
    "Prepared",
    "Shelf",
    "Twin",
    "compare",
    "known_policies",
    "prepare",
    "price",
    "require_lanes",
    "require_policies",
    "run",
    "simulate",
    "twin",
]
