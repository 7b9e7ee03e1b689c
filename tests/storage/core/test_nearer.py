"""Which replica a consumer had better read from."""

from services.storage.core.nearer import LEADER, Reader, nearer_reader

FOLLOWERS = [Reader(1, "b", 7), Reader(2, "c", 9), Reader(3, "b", 8), Reader(4, "b", 8)]


def test_the_follower_in_the_rack_that_has_come_furthest_is_named_and_the_lowest_id_among_equals() -> None:
    assert nearer_reader("b", "a", FOLLOWERS) == 3
    assert nearer_reader("b", "a", FOLLOWERS[::-1]) == 3
    assert nearer_reader("c", "", FOLLOWERS) == 2


def test_the_leader_is_read_from_where_it_is_near_or_nobody_is() -> None:
    assert nearer_reader("b", "b", FOLLOWERS) == LEADER
    assert nearer_reader("d", "a", FOLLOWERS) == LEADER
    assert nearer_reader("", "a", [Reader(1, "", 7)]) == LEADER
