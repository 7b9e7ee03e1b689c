"""The reasons of rebalances, in words: what the client says, and what the coordinator sees by itself."""

from libs.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    write_assignment,
    write_subscription,
)
from services.group_coordinator.core.model.topics_view import TopicsView, TopicView
from tests.group_coordinator.classic.stage import Stage
from tests.group_coordinator.one_shard import CoordinatorRequest

Owned = dict[str, list[int]]


def offers(*topics: str, owned: Owned | None = None, protocol: str = "range") -> tuple[tuple[str, bytes], ...]:
    return ((protocol, write_subscription(ConsumerProtocolSubscription(topics, owned_partitions=listed(owned or {})))),)


def listed(owned: Owned) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, tuple(numbers)) for topic, numbers in owned.items())


def assigned(owned: Owned) -> bytes:
    return write_assignment(ConsumerProtocolAssignment(listed(owned)))


class Reading(Stage):
    """A stage with topics, and members that read them."""

    def have(self, **partitions: int) -> None:
        known = [TopicView(name.encode() * 16, name, count) for name, count in partitions.items()]
        self.topics = TopicsView.of(self.topics.version + 1, known)

    def form(self, *assignments: Owned, topics: tuple[str, ...] = ("t",)) -> list[str]:
        """A stable group in which each member has its assignment; the leader first."""
        self.stopped = True
        ids = [self.join(protocols=offers(*topics)).reply.member_id for _ in assignments]
        joins = [self.join(member_id, protocols=offers(*topics)) for member_id in ids]
        self.stopped = False
        self.settle()
        return self.share(joins, assignments)

    def share(self, joins: list[CoordinatorRequest], assignments: tuple[Owned, ...]) -> list[str]:
        generation, leader = joins[0].reply.generation_id, joins[0].reply.leader
        ids = sorted((join.reply.member_id for join in joins), key=lambda member_id: member_id != leader)
        given = {member_id: assigned(owned) for member_id, owned in zip(ids, assignments, strict=True)}
        for member_id in ids:
            self.sync(member_id, generation, given if member_id == leader else None)
        assert self.state() == "Stable"
        return ids

    @property
    def reason(self) -> str:
        return self.group().facts.reason


def test_a_member_with_other_topics_changed_its_subscription() -> None:
    stage = Reading()
    stage.have(t=1, u=1, v=1)
    (only,) = stage.form({"t": [0], "u": [0]}, topics=("t", "u"))
    stage.join(only, protocols=offers("u", "v"), reason="topics changed")
    assert stage.reason == f"member {only} changed its subscription: added v and dropped t: topics changed"


def test_a_leader_that_joins_again_since_topics_gained_partitions_need_not_say_so() -> None:
    stage = Reading()
    stage.have(t=3)
    leader, _ = stage.form({"t": [0, 1]}, {"t": [2]})
    stage.have(t=5)
    assert stage.join(leader, protocols=offers("t")).waits
    assert stage.reason == f"leader {leader} joined again: topic t gained partitions: 3, now 5"


def test_a_topic_that_was_created_or_deleted_is_a_reason_too() -> None:
    stage = Reading()
    stage.have(t=1)
    (leader,) = stage.form({"t": [0]}, topics=("t", "later"))
    stage.have(later=1)
    stage.join(leader, protocols=offers("t", "later"), reason="cached metadata has changed")
    assert stage.reason == f"leader {leader} joined again: topic later is there, topic t is gone: cached metadata has changed"


def test_a_leader_that_joins_again_while_all_partitions_are_assigned_is_said_to_do_no_more() -> None:
    stage = Reading()
    stage.have(t=3)
    (leader,) = stage.form({"t": [0, 1, 2]})
    stage.join(leader, protocols=offers("t"))
    assert stage.reason == f"leader {leader} joined again"


def test_partitions_that_an_assignor_leaves_out_on_purpose_are_not_called_new() -> None:
    stage = Reading()
    stage.have(t=3)
    (leader,) = stage.form({"t": [0, 2]})
    stage.join(leader, protocols=offers("t"))
    assert stage.reason == f"leader {leader} joined again"


def test_a_cooperative_member_that_gave_up_partitions_joins_again_and_nothing_is_called_new() -> None:
    stage = Reading()
    stage.have(t=4)
    (first,) = stage.form({"t": [0, 1, 2, 3]})
    second, joined = stage.come(protocols=offers("t"))
    again = stage.join(first, protocols=offers("t", owned={"t": [0, 1, 2, 3]}))
    stage.share([again, joined], ({"t": [0, 1]}, {}))
    stage.join(first, protocols=offers("t", owned={"t": [0, 1]}))
    assert stage.reason == f"leader {first} joined again: it owns other partitions than before"
    assert stage.heartbeat(second, 2) == 27


def test_a_member_with_other_protocols_joins_again_for_them() -> None:
    stage = Reading()
    stage.have(t=1)
    (only,) = stage.form({"t": [0]})
    stage.join(only, protocols=(*offers("t", protocol="sticky"), *offers("t")))
    assert stage.reason == f"leader {only} joined again: it offers the protocols sticky, range"


def test_a_member_of_another_protocol_type_is_not_read() -> None:
    stage = Stage()
    ids, _ = stage.stable(1, kind="connect")
    stage.join(ids[0], kind="connect", protocols=(("range", b"\x00"),))
    assert stage.group().facts.reason == f"leader {ids[0]} joined again: its metadata changed"
    left = stage.leave(ids[0])
    assert left.members[0].error_code == 0


def test_why_a_new_member_joins_is_what_it_said_before_it_had_its_member_id() -> None:
    """Java says the second time that it joins again with the given member id, and no more what made it join."""
    stage = Stage()
    member_id = stage.join(reason="encountered UNKNOWN_MEMBER_ID from HEARTBEAT response").reply.member_id
    stage.join(member_id, reason=f"need to re-join with the given member-id: {member_id}")
    assert stage.group().facts.reason == f"member {member_id} joined: encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"


def test_a_consumer_that_leaves_without_a_word_leaves_the_causes_that_remain() -> None:
    stage = Stage()
    ids, _ = stage.stable(2)
    stage.leave(ids[0])
    assert stage.group().facts.reason == (
        f"member {ids[0]} left: it closed, unsubscribed or exceeded max.poll.interval.ms (60000), its client does not say which"
    )
