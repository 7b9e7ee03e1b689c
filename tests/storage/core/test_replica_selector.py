"""The replica from which a consumer should read."""

from services.storage.core.fetch.replica_selector import LEADER, CaughtUpFollower, select_replica

FOLLOWERS = [CaughtUpFollower(1, "b", 7), CaughtUpFollower(2, "c", 9), CaughtUpFollower(3, "b", 8), CaughtUpFollower(4, "b", 8)]


def test_the_follower_in_the_rack_that_has_come_furthest_is_named_and_the_lowest_id_among_equals() -> None:
    assert select_replica("b", "a", FOLLOWERS) == 3
    assert select_replica("b", "a", FOLLOWERS[::-1]) == 3
    assert select_replica("c", "", FOLLOWERS) == 2


def test_the_leader_is_read_from_where_it_is_near_or_nobody_is() -> None:
    assert select_replica("b", "b", FOLLOWERS) == LEADER
    assert select_replica("d", "a", FOLLOWERS) == LEADER
    assert select_replica("", "a", [CaughtUpFollower(1, "", 7)]) == LEADER
