"""AuRORA's admission, release and acquisition, worked by hand."""

from core_scene import ends, order, scene, starts

from headway.policies.aurora import _changed, _Claim, _releases
from headway.testing import toy_device

MODELS = {"m": [4.0], "four": [4.0] * 4, "long": [8.0]}


class Holder:
    """A run as far as the cores it holds."""

    def __init__(self, *cores):
        self.cores = cores


def test_the_tighter_the_slack_the_more_cores():
    # 4 ms on one core, 2 on two, 1 on four. Slack 1.4 < 1.5 * 1: four. 2.9 < 1.5 * 2: two. 5.9 < 1.5 * 4: one
    # is wanted, and two are taken since they are idle. Slack 0.9: cannot be met, wants one.
    for due, cores in ((1.4, "0+1+2+3"), (2.9, "0+1"), (5.9, "0+1"), (0.9, "0+1")):
        assert starts(scene("aurora", [("m", 0, due)], MODELS, cores=4)) == [(0, 0.0, cores, 0, 1)]


def test_it_takes_what_is_idle_of_what_it_wants():
    # The first takes two of three cores, the second wants four and gets the one that is left.
    assert starts(scene("aurora", [("m", 0, 50), ("m", 0, 1.4)], MODELS, cores=3))[1][2] == "2"


def test_the_oldest_by_its_time_on_four_cores_first_and_the_hopeless_last():
    # At 8 one core is free. Ages over T_1: 7 / 4, 6 / 8, and the last one's deadline cannot be met any more.
    requests = [("long", 0, 99), ("long", 2, 90), ("m", 1, 90), ("m", 0.5, 2)]
    assert order(scene("aurora", requests, MODELS)) == [0, 2, 1, 3]


def test_it_acquires_idle_cores_between_layers():
    # Two cores at first, 2 ms per layer. When the second layer starts, cores are idle and nobody is needier:
    # from the third layer on it has four (of six: with at most one idle it would release them again).
    log = scene("aurora", [("four", 0, 99)], MODELS, cores=6)
    assert starts(log) == [(0, 0.0, "0+1", 0, 4), (0, 4.0, "0+1+2+3", 2, 4)]
    assert ends(log) == {0: 6.0}


def test_reasons_to_release():
    assert _releases(0.0, [], idle=3)
    assert not _releases(0.0, [], idle=4)
    assert _releases(401.0, [], idle=1)
    assert not _releases(401.0, [], idle=2)
    assert not _releases(399.0, [], idle=1)
    assert _releases(300.0, [_Claim(149.0, 2)], idle=4)
    assert not _releases(300.0, [_Claim(151.0, 2)], idle=4)
    assert not _releases(300.0, [_Claim(149.0, 4)], idle=4)
    # Another one has more slack and more than one core: that one should.
    assert not _releases(401.0, [_Claim(402.0, 2)], idle=1)
    assert _releases(401.0, [_Claim(402.0, 1)], idle=1)


def test_half_is_released_and_as_much_again_acquired():
    a, b, c, d = toy_device(4).cores
    assert _changed(Holder(a, b, c, d), 500.0, [], []) == (a, b)
    assert _changed(Holder(a), 500.0, [], []) is None
    assert _changed(Holder(a, b), 300.0, [], [c, d]) == (a, b, c, d)
    assert _changed(Holder(a, b), 300.0, [], [c]) is None
    assert _changed(Holder(a), 300.0, [_Claim(200.0, 2)], [b, c, d]) is None, (
        "a needier one has fewer than four"
    )
    assert _changed(Holder(a), 0.0, [], [b, c, d]) is None, "it cannot meet its deadline"
