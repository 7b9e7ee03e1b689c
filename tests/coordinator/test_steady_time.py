"""Sessions do not end together because somebody set the clock."""

from libs.clock import SystemClock, WallMs
from libs.coordinator.shards.steady_time import SteadyTime


class Hand(SystemClock):
    def __init__(self) -> None:
        self.wall = 1_000_000
        self.seconds = 0.0

    def wall_ms(self) -> WallMs:
        return WallMs(self.wall)

    def passes(self, ms: int) -> None:
        self.wall += ms
        self.seconds += ms / 1000


def test_time_passes_as_the_clock_says() -> None:
    hand = Hand()
    time = SteadyTime(hand, lambda: hand.seconds)
    hand.passes(5000)
    assert time.now_ms() == 1_005_000


def test_a_clock_that_is_set_ahead_is_caught_up_with_little_by_little() -> None:
    hand = Hand()
    time = SteadyTime(hand, lambda: hand.seconds)
    hand.wall += 3_600_000
    assert time.now_ms() == 1_000_000
    hand.passes(10_000)
    assert time.now_ms() == 1_015_000
    for _ in range(1000):
        hand.passes(10_000)
        time.now_ms()
    assert time.now_ms() == hand.wall


def test_a_long_silence_is_no_reason_to_believe_a_clock_that_is_ahead() -> None:
    """An owner of no shards does not look for a day. Then it opens one, just after somebody set the clock."""
    hand = Hand()
    time = SteadyTime(hand, lambda: hand.seconds)
    hand.passes(86_400_000)
    hand.wall += 12 * 3_600_000
    assert time.now_ms() == 1_000_000 + 86_400_000 + 60_000


def test_time_does_not_go_back_with_the_clock() -> None:
    hand = Hand()
    time = SteadyTime(hand, lambda: hand.seconds)
    hand.wall -= 3_600_000
    hand.passes(10_000)
    assert time.now_ms() == 1_005_000
    for _ in range(1000):
        hand.passes(10_000)
        time.now_ms()
    assert time.now_ms() == hand.wall
