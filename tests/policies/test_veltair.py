"""Veltair's core demands, worked by hand."""

from core_scene import scene, starts

# Layers with equal operations (ToyTable counts one per layer); split over n cores they take 1 / n.
MODELS = {"eight": [4.0, 4.0], "many": [1.0] * 40}


def test_a_block_gets_the_fewest_cores_that_keep_its_share_of_the_deadline():
    # 8 ms, due in 4: two cores. Due in 8: one. Due in 1: more than all four would do.
    for due, cores in ((4, "0+1"), (8, "0"), (1, "0+1+2+3")):
        assert starts(scene("veltair", [("eight", 0, due)], MODELS, cores=4)) == [(0, 0.0, cores, 0, 2)]


def test_cores_come_in_steps_of_an_eighth():
    # Sixteen cores: a step is 2. 8 ms in 3 need 2.7, so 4.
    assert starts(scene("veltair", [("eight", 0, 3)], MODELS, cores=16))[0][2] == "0+1+2+3"


def test_if_fewer_are_free_it_runs_on_those():
    log = scene("veltair", [("eight", 0, 4), ("eight", 0, 2)], MODELS, cores=4)
    assert starts(log)[1] == (1, 0.0, "2+3", 0, 2)


def test_models_run_in_blocks_of_twenty_layers():
    # On schedule: 20 ms of 40 on one core, 20 of 40 ms passed.
    log = scene("veltair", [("many", 0, 40)], MODELS, cores=4)
    assert [run[3:] for run in starts(log)] == [(0, 20), (20, 40)]


def test_who_is_behind_gets_a_step_more_and_who_is_ahead_one_less():
    # Due in 24, two cores: after the first block 10 of 12 ms passed, below 0.9 * 12: one core less.
    log = scene("veltair", [("many", 0, 24)], MODELS, cores=4)
    assert [run[2] for run in starts(log)] == ["0+1", "0"]
    # It takes half as long again: 15 of 12 passed, one core more.
    log = scene("veltair", [("many", 0, 24)], MODELS, cores=4, slowed={0: 1.5})
    assert [run[2] for run in starts(log)] == ["0+1", "0+1+2"]
