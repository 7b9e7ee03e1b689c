"""Where the time of a request went."""

from libs.telemetry.stages import Stage, StageClock


def test_durations_go_from_mark_to_mark_and_add_up() -> None:
    now = iter([10.0, 10.5, 11.0, 13.0])
    clock = StageClock(lambda: next(now))
    for stage in (Stage.PARSED, Stage.SENT, Stage.ANSWERED):
        clock.mark(stage)
    assert clock.durations() == {Stage.PARSED: 0.5, Stage.SENT: 0.5, Stage.ANSWERED: 2.0}
    assert clock.elapsed == 3.0
    assert (clock.at(Stage.SENT), clock.at(Stage.SYNCED)) == (11.0, None)


def test_a_stage_that_is_passed_twice_counts_both_times() -> None:
    now = iter([0.0, 1.0, 2.0, 5.0])
    clock = StageClock(lambda: next(now))
    for stage in (Stage.SENT, Stage.APPENDED, Stage.SENT):
        clock.mark(stage)
    assert clock.durations() == {Stage.SENT: 4.0, Stage.APPENDED: 1.0}


def test_stages_are_in_the_order_in_which_a_request_passes_them() -> None:
    assert [stage.name.lower() for stage in sorted(Stage)] == [
        "received", "parsed", "authorised", "throttled", "sent", "appended", "synced", "replicated", "answered",
    ]  # fmt: skip
