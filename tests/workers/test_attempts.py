"""The losses a group cannot report itself."""

from mulo_ray.workers.attempts import Attempts


def test_a_start_without_an_end_is_a_loss() -> None:
    attempts = Attempts()
    attempts.begin_block(4)
    attempts.begin_block(4)
    attempts.begin_block(5)
    assert (attempts.losses(4), attempts.losses(5), attempts.losses(6)) == (2, 1, 0)
    attempts.end_block(4)
    assert attempts.losses(4) == 0


def test_a_row_that_ended_may_run_again_and_one_that_was_lost_twice_may_not() -> None:
    attempts = Attempts()
    assert attempts.begin_row("a", 0)
    attempts.end_row("a", 0)
    assert attempts.begin_row("a", 0)
    assert attempts.begin_row("a", 0), "one loss may have been the machine's"
    assert not attempts.begin_row("a", 0)
    assert attempts.begin_row("a", 1)


def test_the_first_fatal_reason_is_kept() -> None:
    attempts = Attempts()
    attempts.report_fatal("CheckpointError", "first")
    attempts.report_fatal("WorkerLostError", "second")
    assert attempts.fatal() == ("CheckpointError", "first")
