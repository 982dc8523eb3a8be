"""Points of the comparison of lane policies: the same arrivals for all, new models in their windows."""

from __future__ import annotations

import pytest

from headway.core.errors import HeadwayError
from headway.wiring.block_points import NEW_MODEL_EVERY_S, BlockPoint, PreparedPoint
from headway.wiring.block_world import DEVICES, block_tables

LIGHT = BlockPoint("streams", 3, 0.3, 10.0, 7, 150)


def figures(point: BlockPoint, policy: str) -> dict[str, float]:
    found = PreparedPoint(point).run(policy)
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize("device", DEVICES)
def test_devices_have_the_models_that_were_asked_for(device: str) -> None:
    count = 1 if device.startswith("gpu") else 3  # predicting a model of the zoo takes a while
    tables = block_tables(device, count, 5)
    assert len(tables) == count
    assert all(table.isolated_s > 0.0 and table.blocks >= 1 for table in tables.values())
    assert all(any(operators) for table in tables.values() for operators in table.operators)
    wide = {lanes for table in tables.values() for lanes in table.lanes_measured}
    assert wide == ({1, 2} if device == "lanes" else {1})
    again = block_tables(device, count, 5, later=1)
    assert [again[name].isolated_s for name in tables] == [each.isolated_s for each in tables.values()]
    assert len(again) == count + 1


@pytest.mark.parametrize(
    "policy", ["headway", "skadi", "abacus", "headway:no-fluid", "headway:oracle-overlap"]
)
def test_a_light_load_is_served(policy: str) -> None:
    found = figures(LIGHT, policy)
    assert found["requests"] == figures(LIGHT, "edf")["requests"]
    assert found["violations"] < 0.3
    causes = ("late", "dropped", "rejected", "unfinished")
    assert sum(found[cause] for cause in causes) == pytest.approx(found["violations"] * found["requests"])


def test_the_same_point_gives_the_same_figures() -> None:
    assert figures(LIGHT, "headway") == figures(LIGHT, "headway")


def test_more_load_and_tighter_deadlines_violate_more() -> None:
    crowded = BlockPoint("streams", 3, 1.3, 2.0, 7, 150)
    assert figures(crowded, "edf")["violations"] > figures(LIGHT, "edf")["violations"]


def test_a_new_model_comes_every_ten_seconds_and_is_asked_for() -> None:
    point = BlockPoint("streams", 2, 0.5, 8.0, 3, 2_500, newcomers=True)
    found = figures(point, "edf")
    assert found["new_models"] >= 2
    assert 0 < found["first_requests"] <= 100 * found["new_models"]
    assert 0.0 <= found["first_violations"] <= 1.0
    prepared = PreparedPoint(point)
    for arrive in prepared._source().first():
        at = int(arrive.request.tenant[1:])
        begin_s = max(0, at - 1) * NEW_MODEL_EVERY_S
        assert begin_s <= arrive.request.arrival_s < (at + 1) * NEW_MODEL_EVERY_S


def test_mistakes_are_named() -> None:
    with pytest.raises(HeadwayError, match="device 'phone'; accepted: lanes, streams, gpu, gpu-large"):
        block_tables("phone", 2, 1)
    with pytest.raises(HeadwayError, match="at least one model and request"):
        PreparedPoint(BlockPoint("lanes", 0, 0.5, 2.0, 1, 10))
    with pytest.raises(HeadwayError, match="policy: found 'nobody'"):
        PreparedPoint(LIGHT).run("nobody")
