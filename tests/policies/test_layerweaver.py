"""Layerweaver's choice, worked by hand. 1 GB/s: 4e6 bytes are 4 ms of memory."""

from core_scene import order, scene

MODELS = {"compute": [4.0], "memory": [(1.0, 4e6)]}


def test_memory_bound_layers_go_beside_compute_bound_ones():
    # On an empty device a compute-bound layer leaves the memory idle for 4 ms, a memory-bound one its core
    # for 3: it goes first. Then a compute-bound one leaves nothing idle, and another memory-bound one 8 - 1
    # ms.
    requests = [("compute", 0, 99), ("compute", 0, 99), ("memory", 0, 99), ("memory", 0, 99)]
    assert order(scene("layerweaver", requests, MODELS, cores=2))[:2] == [2, 0]


def test_a_deadline_at_risk_comes_first_in_the_second_mode():
    # The third is due at 6 and takes 4 ms: slack 2 is below 4. Without that mode it is the memory-bound one's
    # turn.
    requests = [("memory", 0, 99), ("compute", 0, 99), ("compute", 0, 6)]
    assert order(scene("layerweaver:plus", requests, MODELS))[0] == 2
    assert order(scene("layerweaver", requests, MODELS))[0] == 0


def test_a_deadline_that_is_lost_is_not_at_risk():
    requests = [("memory", 0, 99), ("compute", 0, 3)]
    assert order(scene("layerweaver:plus", requests, MODELS))[0] == 0
