"""Members of the classic protocol. Each version of a scenario has a group of its own; no group has more than two members."""

from collections.abc import Callable
from datetime import timedelta

from tests.compat.differential.scenario import ABSENT, Differs, Fields, Scenario, Step, World
from tests.compat.differential.systems import STUCK

JOIN, SYNC, HEARTBEAT, LEAVE = "join_group", "sync_group", "heartbeat", "leave_group"
DESCRIBE, DELETE, COMMIT = "describe_groups", "delete_groups", "offset_commit"
PREPARING, COMPLETING = "PreparingRebalance", "CompletingRebalance"

Ask = Callable[[World], Fields]
StepOf = Callable[[World], Step]


def group(world: World) -> str:
    return f"{world.topic} {world.version}"


def member_of(world: World, who: int | str) -> str:
    """A step by number, whose answer told a member id; or a member id."""
    return who if isinstance(who, str) else world.member_id(who)


def join(who: int | str = "", protocols: tuple[str, ...] = ("range",), metadata: bytes = b"s", **how: object) -> Ask:
    def ask(world: World) -> Fields:
        return {
            "group_id": group(world),
            "session_timeout": 30_000,
            "rebalance_timeout": 60_000,
            "member_id": member_of(world, who),
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": metadata} for name in protocols],
            **how,
        }

    return ask


def sync(who: int | str, generation: int, *assigned: int | str, **how: object) -> Ask:
    def ask(world: World) -> Fields:
        return {
            "group_id": group(world),
            "generation_id": generation,
            "member_id": member_of(world, who),
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [
                {"member_id": member_of(world, each), "assignment": b"part %d" % i} for i, each in enumerate(assigned)
            ],
            **how,
        }

    return ask


def beat(who: int | str, generation: int, **how: object) -> Ask:
    def ask(world: World) -> Fields:
        about = {"group_id": group(world), "generation_id": generation, "member_id": member_of(world, who)}
        return {**about, "group_instance_id": None, **how}

    return ask


def leave(*who: int | str | tuple[int | str, str | None], **how: object) -> Ask:
    """(member, instance id) from version 3 on; the first member alone before."""

    def ask(world: World) -> Fields:
        named = [each if isinstance(each, tuple) else (each, None) for each in who]
        members = [{"member_id": member_of(world, each), "group_instance_id": instance} for each, instance in named]
        one = members[0]["member_id"] if members else ""
        return {"group_id": group(world), "member_id": one, "members": members, **how}

    return ask


def describe(world: World) -> Fields:
    return {"groups": [group(world)]}


def commit(who: int | str, generation: int, **how: object) -> Ask:
    def ask(world: World) -> Fields:
        partition = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": "m"}
        return {
            "group_id": group(world),
            "generation_id_or_member_epoch": generation,
            "member_id": member_of(world, who),
            "group_instance_id": None,
            "retention_time": timedelta(milliseconds=-1),
            "topics": [{**world.names(), "partitions": [partition]}],
            **how,
        }

    return ask


# -- what was before --------------------------------------------------------------------------------------------------------


def steps(*asked: tuple[str, int, Ask] | tuple[str, int, Ask, dict[str, object]]) -> Callable[[World], list[Step]]:
    made = [Step(api, version, fields, **(more[0] if more else {})) for api, version, fields, *more in asked]  # type: ignore[arg-type]
    return lambda world: made


ALONE = (JOIN, 3, join())
ALONE_STATIC = (JOIN, 9, join(group_instance_id="i"))
SYNCED = (SYNC, 5, sync(0, 1, 0))
NAMED = (JOIN, 9, join())
"""It is given its id and has not joined."""
KNOWN = (DESCRIBE, 5, describe, {"until": lambda answer: answer["groups"][0]["group_state"] == "Empty"})
"""Kafka may answer the first question about a group that is in no log by "Dead"."""
A_SECOND_WAITS = (JOIN, 3, join(), {"parked_in": PREPARING, "left": True})

stable = steps(ALONE, SYNCED)
static = steps(ALONE_STATIC, SYNCED)
empty = steps(ALONE, SYNCED, (LEAVE, 3, leave(0)))
preparing = steps(ALONE, SYNCED, A_SECOND_WAITS)
replaced = steps(ALONE_STATIC, SYNCED, (JOIN, 9, join(group_instance_id="i")))
# The first of two is the answer to step 0, the second to step SECOND.
SECOND = 2
BOTH = (ALONE, SYNCED, NAMED, (JOIN, 9, join(SECOND), {"parked_in": PREPARING}), (JOIN, 9, join(0)))
full = steps(*BOTH, (SYNC, 5, sync(0, 2, 0, SECOND)), (SYNC, 5, sync(SECOND, 2)))


def joining(world: World) -> list[Step]:
    return [
        *stable(world),
        Step(*NAMED),
        Step(JOIN, world.version, join(SECOND, ("roundrobin", "range")), parked_in=PREPARING),
    ]


def restarted(world: World) -> list[Step]:
    return [Step(JOIN, world.version, join(group_instance_id="i")), Step(*SYNCED)]


def of_the_consumer_protocol(world: World) -> list[Step]:
    fields = {
        "group_id": group(world),
        "member_id": "m",
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": ["nowhere"],
        "topic_partitions": [],
    }
    return [Step("consumer_group_heartbeat", 1, fields)]


JOINS = (
    Scenario("of nobody", JOIN, join()),
    Scenario("with the id that it was given", JOIN, join(0), before=steps(NAMED)),
    Scenario(
        "with an id that it was given, and an instance",
        JOIN,
        join(0, group_instance_id="i"),
        before=steps(NAMED),
        differs=(
            Differs("join-named-and-static", "error_code", -1, 25, range(5, 10)),
            Differs("join-named-and-static", "member_id", "", versions=range(5, 10)),
        ),
    ),
    Scenario("of somebody else into no group", JOIN, join("somebody")),
    Scenario("of somebody else", JOIN, join("somebody"), before=stable),
    Scenario("no group id", JOIN, join(group_id="")),
    Scenario("too short a session", JOIN, join(session_timeout=5_999)),
    Scenario("too long a session", JOIN, join(session_timeout=1_800_001)),
    Scenario("a session of less than nothing", JOIN, join(session_timeout=-1)),
    Scenario("a rebalance of less than nothing", JOIN, join(0, rebalance_timeout=-1), before=steps(NAMED)),
    Scenario("no protocols", JOIN, join(protocols=())),
    Scenario("no type of protocol", JOIN, join(protocol_type="")),
    Scenario("no protocols, into a group", JOIN, join(0, protocols=()), before=stable),
    Scenario("no type of protocol, into a group", JOIN, join(0, protocol_type=""), before=stable),
    Scenario("another type of protocol", JOIN, join(protocol_type="connect"), before=stable),
    Scenario("no protocol of the group's", JOIN, join(protocols=("odd",)), before=stable),
    Scenario("another type of protocol, into an empty group", JOIN, join(protocol_type="connect"), before=empty),
    Scenario(
        "a protocol that is named twice",
        JOIN,
        join(0, ("range", "range")),
        (0, 9),
        before=steps(NAMED),
        differs=(
            Differs("join-repeated-protocol", "answer", STUCK, ABSENT),
            Differs("join-repeated-protocol", "*", kafka=ABSENT),
        ),
        timeout_s=2.0,
    ),
    Scenario(
        "a protocol without a name",
        JOIN,
        join(0, ("",)),
        before=steps(NAMED),
        differs=(Differs("join-nameless-protocol", "protocol_name", None, "", range(7, 10)),),
    ),
    Scenario("the leader again", JOIN, join(0), before=stable),
    Scenario("the leader again before it syncs", JOIN, join(0), before=steps(ALONE)),
    Scenario("the leader with something else", JOIN, join(0, metadata=b"other"), before=stable),
    Scenario("a follower again", JOIN, join(SECOND), before=full),
    Scenario("two members", JOIN, join(0, ("range", "odd")), before=joining),
    Scenario("a third member", JOIN, join(), before=full),
    Scenario("a static member", JOIN, join(group_instance_id="i"), range(5, 10)),
    Scenario("a static member again", JOIN, join(group_instance_id="i"), range(5, 10), before=static),
    Scenario(
        "a static member again before it syncs", JOIN, join(group_instance_id="i"), range(5, 10), before=steps(ALONE_STATIC)
    ),
    Scenario("a static member with its id", JOIN, join(0, group_instance_id="i"), range(5, 10), before=static),
    Scenario("a static member with something else", JOIN, join("", ("odd",), group_instance_id="i"), range(5, 10), before=static),
    Scenario("a static member that was replaced", JOIN, join(0, group_instance_id="i"), range(5, 10), before=replaced),
    Scenario("somebody else's instance", JOIN, join("somebody", group_instance_id="i"), range(5, 10), before=static),
    Scenario("an instance that nobody is", JOIN, join(0, group_instance_id="other"), range(5, 10), before=static),
    Scenario("a member that was not static", JOIN, join(0, group_instance_id="i"), range(5, 10), before=stable),
    Scenario("an instance without a name", JOIN, join(group_instance_id=""), range(5, 10)),
    Scenario("a group of the consumer protocol", JOIN, join(), before=of_the_consumer_protocol),
    Scenario("an empty group", JOIN, join(0), before=empty),
)

SYNCS = (
    Scenario("of nobody", SYNC, sync("somebody", 1)),
    Scenario("no group id", SYNC, sync("somebody", 1, group_id="")),
    Scenario("of somebody else", SYNC, sync("somebody", 1), before=stable),
    Scenario("the leader's", SYNC, sync(0, 1, 0), before=steps(ALONE)),
    Scenario("the leader's, of nobody there", SYNC, sync(0, 1, "somebody"), before=steps(ALONE)),
    Scenario("the leader's, of nobody", SYNC, sync(0, 1), before=steps(ALONE)),
    Scenario("an old generation", SYNC, sync(0, 0, 0), before=steps(ALONE)),
    Scenario("a generation to come", SYNC, sync(0, 2, 0), before=steps(ALONE)),
    Scenario("again", SYNC, sync(0, 1), before=stable),
    Scenario("again with another assignment", SYNC, sync(0, 1, "somebody", 0), before=stable),
    Scenario("while others join", SYNC, sync(0, 1), before=preparing),
    Scenario("of a group that is empty", SYNC, sync(0, 1), before=empty),
    Scenario("with an id that was given", SYNC, sync(0, 0), before=steps(NAMED)),
    Scenario("another type of protocol", SYNC, sync(0, 1, 0, protocol_type="connect"), before=steps(ALONE)),
    Scenario("another protocol", SYNC, sync(0, 1, 0, protocol_name="odd"), before=steps(ALONE)),
    Scenario("without its protocol", SYNC, sync(0, 1, 0, protocol_type=None, protocol_name=None), range(5), before=steps(ALONE)),
    Scenario("no protocol", SYNC, sync(0, 1, 0, protocol_type=None, protocol_name=None), (5,), before=steps(ALONE)),
    Scenario(
        "of two",
        SYNC,
        sync(SECOND, 2),
        before=steps(*BOTH, (SYNC, 5, sync(0, 2, SECOND, 0))),
    ),
    Scenario(
        "of two, the follower first",
        SYNC,
        sync(0, 2, SECOND, 0),
        before=steps(*BOTH, (SYNC, 5, sync(SECOND, 2), {"parked_in": COMPLETING})),
    ),
    Scenario("a static member's", SYNC, sync(0, 1, 0, group_instance_id="i"), range(3, 6), before=steps(ALONE_STATIC)),
    Scenario("a static member that was replaced", SYNC, sync(0, 1, group_instance_id="i"), range(3, 6), before=replaced),
    Scenario("an instance that nobody is", SYNC, sync(0, 1, group_instance_id="other"), range(3, 6), before=static),
    Scenario("a group of the consumer protocol", SYNC, sync("m", 1), before=of_the_consumer_protocol),
)

HEARTBEATS = (
    Scenario("of nobody", HEARTBEAT, beat("somebody", 1)),
    Scenario("no group id", HEARTBEAT, beat("somebody", 1, group_id="")),
    Scenario("of somebody else", HEARTBEAT, beat("somebody", 1), before=stable),
    Scenario("without a member id", HEARTBEAT, beat("", 1), before=stable),
    Scenario("of a member", HEARTBEAT, beat(0, 1), before=stable),
    Scenario("an old generation", HEARTBEAT, beat(0, 0), before=stable),
    Scenario("no generation", HEARTBEAT, beat(0, -1), before=stable),
    Scenario("while others join", HEARTBEAT, beat(0, 1), before=preparing),
    Scenario("before it syncs", HEARTBEAT, beat(0, 1), before=steps(ALONE)),
    Scenario("with an id that was given", HEARTBEAT, beat(0, 0), before=steps(NAMED)),
    Scenario("of a member that left", HEARTBEAT, beat(0, 1), before=empty),
    Scenario("a static member's", HEARTBEAT, beat(0, 1, group_instance_id="i"), range(3, 5), before=static),
    Scenario("a static member that was replaced", HEARTBEAT, beat(0, 1, group_instance_id="i"), range(3, 5), before=replaced),
    Scenario("somebody else's instance", HEARTBEAT, beat("somebody", 1, group_instance_id="i"), range(3, 5), before=static),
    Scenario("an instance that nobody is", HEARTBEAT, beat(0, 1, group_instance_id="other"), range(3, 5), before=static),
    Scenario("a group of the consumer protocol", HEARTBEAT, beat("m", 1), before=of_the_consumer_protocol),
)

LEAVES = (
    Scenario("of nobody", LEAVE, leave("somebody")),
    Scenario("no group id", LEAVE, leave("somebody", group_id="")),
    Scenario("of somebody else", LEAVE, leave("somebody"), before=stable),
    Scenario("of a member", LEAVE, leave(0), before=stable),
    Scenario("of a member that left", LEAVE, leave(0), before=empty),
    Scenario("with an id that was given", LEAVE, leave(0), before=steps(NAMED)),
    Scenario("before it syncs", LEAVE, leave(0), before=steps(ALONE)),
    Scenario(
        "of one that others wait for", LEAVE, leave(0), before=steps(ALONE, SYNCED, (JOIN, 3, join(), {"parked_in": PREPARING}))
    ),
    Scenario("of two", LEAVE, leave(0), before=full),
    Scenario("of all at once", LEAVE, leave(0, SECOND), range(3, 6), before=full),
    Scenario("of one twice, and another", LEAVE, leave(0, 0, "somebody"), range(3, 6), before=full),
    Scenario("of nobody at all", LEAVE, leave(), range(3, 6), before=stable),
    Scenario("of nobody at all, of no group", LEAVE, leave(), range(3, 6)),
    Scenario("by instance", LEAVE, leave(("", "i")), range(3, 6), before=static),
    Scenario("by instance and member", LEAVE, leave((0, "i"), ("", "other")), range(3, 6), before=static),
    Scenario("of a static member by its id", LEAVE, leave(0), before=static),
    Scenario("of a static member that was replaced", LEAVE, leave((0, "i")), range(3, 6), before=replaced),
    Scenario("of somebody else's instance", LEAVE, leave(("somebody", "i")), range(3, 6), before=static),
    Scenario("an instance that nobody is", LEAVE, leave((0, "other")), range(3, 6), before=static),
    Scenario("of an id that was given, and an instance", LEAVE, leave((0, "i")), range(3, 6), before=steps(NAMED)),
    Scenario("a group of the consumer protocol", LEAVE, leave("m"), before=of_the_consumer_protocol),
)

SEEN = (
    Scenario("a group with a member", DESCRIBE, describe, before=stable),
    Scenario("a group with a static member", DESCRIBE, describe, before=static),
    Scenario("a group that others join", DESCRIBE, describe, before=preparing),
    Scenario("a group that waits for its leader", DESCRIBE, describe, before=steps(ALONE)),
    Scenario("a group with two members", DESCRIBE, describe, before=full),
    Scenario("a group with two members that wait for their leader", DESCRIBE, describe, before=steps(*BOTH)),
    Scenario("a group whose members left", DESCRIBE, describe, before=empty),
    Scenario("a group that was named to somebody", DESCRIBE, describe, before=steps(NAMED, KNOWN)),
    Scenario("a group of the consumer protocol", DESCRIBE, describe, before=of_the_consumer_protocol),
    Scenario("a group with a member", DELETE, lambda world: {"groups_names": [group(world)]}, before=stable),
    Scenario(
        "a group that was named to somebody", DELETE, lambda world: {"groups_names": [group(world)]}, before=steps(NAMED, KNOWN)
    ),
    Scenario("a group whose members left", DELETE, lambda world: {"groups_names": [group(world)]}, before=empty),
    Scenario("of a member", COMMIT, commit(0, 1), partitions=1, before=stable),
    Scenario("of a member of another generation", COMMIT, commit(0, 2), partitions=1, before=stable),
    Scenario("of somebody else", COMMIT, commit("somebody", 1), partitions=1, before=stable),
    Scenario("of nobody, into a group", COMMIT, commit("", -1), partitions=1, before=stable),
    Scenario("of no generation", COMMIT, commit(0, -1), partitions=1, before=stable),
    Scenario("of a member that others join", COMMIT, commit(0, 1), partitions=1, before=preparing),
    Scenario("of a member that has not synced", COMMIT, commit(0, 1), partitions=1, before=steps(ALONE)),
    Scenario(
        "of a static member that was replaced",
        COMMIT,
        commit(0, 1, group_instance_id="i"),
        range(7, 11),
        partitions=1,
        before=replaced,
    ),
)

SCENARIOS = (*JOINS, *SYNCS, *HEARTBEATS, *LEAVES, *SEEN)
