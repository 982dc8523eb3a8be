"""The common early-drop rule, worked by hand."""

import pytest
from core_scene import MS, outcomes, scene, table_of

from headway.core.errors import HeadwayError
from headway.core.protocols import Capability
from headway.policies import make, names
from headway.policies.dropping import Dropping, LeastWork
from headway.testing import toy_device, toy_request

MODELS = {"long": [2.0] * 3, "short": [1.0]}


def test_a_request_is_dropped_once_its_optimistic_work_ends_after_its_deadline():
    # 6 ms each. The second can start at 6 and is due at 11: at 6 it is dropped. The third is due at 12: just
    # in time.
    log = scene("fcfs:drop", [("long", 0, 99), ("long", 0, 11), ("long", 0, 12)], MODELS)
    assert outcomes(log) == {0: "done", 1: "dropped", 2: "done"}
    (dropped,) = [row for row in log.of("reply") if row.request == 1]
    assert dropped.time_s == pytest.approx(6 * MS)
    assert dropped.reason == "cannot meet its deadline any more"
    assert set(outcomes(scene("fcfs", [("long", 0, 99), ("long", 0, 11)], MODELS)).values()) == {"done"}


def test_the_policy_does_not_see_what_is_dropped():
    # The first is hopeless at once; the core goes to the second at the same moment.
    log = scene("edf:drop", [("long", 0, 5), ("short", 0, 50)], MODELS)
    assert outcomes(log) == {0: "dropped", 1: "done"}
    assert log.of("start")[0].time_s == 0.0


def test_what_runs_is_left_alone_and_what_was_stopped_counts_as_far_as_it_is_done():
    # Due at 7; stopped at 2 for the short one, at 3 it has 4 ms left: just in time. Due at 6.9 it is dropped
    # then.
    for due, outcome in ((7.0, "done"), (6.9, "dropped")):
        log = scene("kedf:drop", [("long", 0, due), ("short", 1, 2)], MODELS)
        assert outcomes(log)[0] == outcome
    # A layer stopped after two of its ten bands has 8 ms left, at 3: due at 11 it is kept.
    models = {"ten": ([10.0], {"steps": 10}), "one": [1.0]}
    for due, outcome in ((11.0, "done"), (10.9, "dropped")):
        log = scene("prema:checkpoint:drop", [("ten", 0, due), ("one", 1.5, 9)], models)
        assert outcomes(log)[0] == outcome


@pytest.mark.parametrize(
    ("needs", "least_ms"),
    [
        (set(), 8.0),  # twice 4 ms of memory
        ({Capability.FUSE}, 4.0),  # half of the bytes of both ends, 4e6 in all
        ({Capability.SPLIT}, 8.0),  # memory is not faster over several cores
    ],
)
def test_the_work_is_that_of_the_runs_that_the_policy_may_use(needs, least_ms):
    device = toy_device(2)
    tables = {"m": table_of(device, [(1.0, 4e6)] * 2)}
    request = toy_request(0, "m", tables, arrival_s=0.0, deadline_s=1.0)

    class View:
        def table(self, request):
            return tables["m"]

    view = View()
    view.device = device
    assert LeastWork(frozenset(needs)).remaining_s(request, view) == pytest.approx(least_ms * MS)


def test_a_split_halves_what_computes():
    device = toy_device(2)
    tables = {"m": table_of(device, [4.0, 4.0])}
    request = toy_request(0, "m", tables, arrival_s=0.0, deadline_s=1.0)

    class View:
        def table(self, request):
            return tables["m"]

    view = View()
    view.device = device
    assert LeastWork(frozenset({Capability.SPLIT})).remaining_s(request, view) == pytest.approx(4 * MS)
    assert LeastWork(frozenset()).remaining_s(request, view) == pytest.approx(8 * MS)


def test_every_policy_can_be_named_with_it():
    for name in names():
        made = make(f"{name}:drop")
        assert isinstance(made, Dropping)
        assert type(made.inner) is type(make(name))
        assert made.needs == made.inner.needs
        assert made.at_block_ends == made.inner.at_block_ends


def test_unknown_names_are_told_with_the_suffix():
    with pytest.raises(HeadwayError, match=r"found 'edg:drop'; accepted: .*':drop'.*did you mean 'edf:drop'"):
        make("edg:drop")
    with pytest.raises(HeadwayError, match="found ':drop'"):
        make(":drop")
