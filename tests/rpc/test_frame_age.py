"""The time for which a frame waited, though the clocks of the two ends share no origin."""

from libs.rpc.server.frame_age import FrameAge


def test_the_quickest_frame_is_the_measure_of_the_others() -> None:
    age = FrameAge()
    assert age.age_ms(sent_at_ms=1_000_000, now_ms=50) == 0
    assert age.age_ms(sent_at_ms=1_000_010, now_ms=60) == 0
    assert age.age_ms(sent_at_ms=1_000_020, now_ms=5_070) == 5_000


def test_a_hello_that_waited_itself_is_corrected_by_the_first_quick_frame() -> None:
    age = FrameAge()
    age.age_ms(0, 3_000)  # waited 3 s
    assert age.age_ms(4_000, 4_000) == 0
    assert age.age_ms(4_000, 6_000) == 2_000


def test_a_long_sleep_is_seen_even_though_every_window_ended_in_it() -> None:
    age = FrameAge()
    age.age_ms(0, 0)
    assert age.age_ms(1_000, 700_000) == 699_000
    assert age.age_ms(1_000, 700_001) == 699_001


def test_clocks_that_drift_apart_do_not_make_every_frame_look_old() -> None:
    age = FrameAge()
    oldest = 0
    for second in range(86_400):
        drifted_ms = second * 1000 + second // 20  # 50 ppm
        oldest = max(oldest, age.age_ms(second * 1000, drifted_ms))
    assert oldest < 10
