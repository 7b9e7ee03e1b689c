"""By which time things are deleted when the clock jumps."""

from services.storage.core.cleanup.believed_time import BELIEVED_AFTER_S, JUMP_MS_MIN, BelievedTime

DAY, YEAR = 86_400_000, 365 * 86_400_000
NOW = 20_000 * DAY


def test_time_that_passes_is_believed() -> None:
    time = BelievedTime(NOW, 0.0)
    for seconds in (1, 300, 4000, 10_000_000):
        assert time.at(NOW + seconds * 1000, float(seconds)) == NOW + seconds * 1000
        assert not time.doubts


def test_a_clock_that_is_adjusted_a_little_is_believed() -> None:
    assert BelievedTime(NOW, 0.0).at(NOW + JUMP_MS_MIN - 1, 0.0) == NOW + JUMP_MS_MIN - 1


def test_a_jump_back_is_believed_and_so_is_the_time_after_it() -> None:
    time = BelievedTime(NOW, 0.0)
    assert time.at(NOW - DAY, 300.0) == NOW - DAY
    assert time.at(NOW - DAY + 1000, 301.0) == NOW - DAY + 1000


def test_a_jump_ahead_is_not_believed_until_it_stayed() -> None:
    time = BelievedTime(NOW, 0.0)
    assert time.at(NOW + YEAR, 300.0) == NOW + 300_000
    assert time.doubts
    last = 300.0 + BELIEVED_AFTER_S
    assert time.at(NOW + YEAR, last - 1) == NOW + int(last - 1) * 1000
    assert time.at(NOW + YEAR, last) == NOW + YEAR
    assert not time.doubts
    assert time.at(NOW + YEAR + 1000, last + 1) == NOW + YEAR + 1000


def test_a_clock_that_came_to_its_senses_is_believed_at_once_and_doubted_anew() -> None:
    time = BelievedTime(NOW, 0.0)
    time.at(NOW + YEAR, 300.0)
    assert time.at(NOW + 600_000, 600.0) == NOW + 600_000
    assert not time.doubts
    assert time.at(NOW + YEAR, 601.0 + BELIEVED_AFTER_S) == NOW + 601_000 + int(BELIEVED_AFTER_S * 1000)
    assert time.doubts
