"""Group membership with every client: members share partitions, and nothing is skipped whatever happens to them."""

import pytest

from tests.compat.clients.groups.background_writes import Writing, write
from tests.compat.clients.groups.client_kinds import KINDS, Kind
from tests.compat.clients.groups.group_members import GroupMembers
from tests.compat.clients.groups.member import Partition
from tests.compat.clients.groups.offsets import GroupAdmin

PARTITIONS = 6
of_each_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


def partitions_of(topic: str, count: int = PARTITIONS) -> set[Partition]:
    return {(topic, number) for number in range(count)}


@of_each_kind
def test_members_that_come_and_go_read_every_record_once(
    kind: Kind, group_members: GroupMembers, bootstrap: str, admin: GroupAdmin, topic: str
) -> None:
    admin.create(topic, PARTITIONS)
    all_of_it = partitions_of(topic)
    with Writing(bootstrap, all_of_it) as writing:
        first = group_members.join(kind, topic)
        first.until_owns(all_of_it)
        second = group_members.join(kind, topic)
        group_members.until_shared([first, second], all_of_it)
        second.until(lambda: second.committed, "commits")
        first.leave()
        second.until_owns(all_of_it)
    write(bootstrap, writing.ends, each=1)  # a commit of each partition when all is calm again
    group_members.until_read(writing.ends)
    second.leave()
    group_members.until_committed(writing.ends)
    write(bootstrap, writing.ends, each=20)
    third = group_members.join(kind, topic)
    group_members.until_read(writing.ends)
    third.leave()
    group_members.assert_read_once(writing.ends)
    assert group_members.committed() == writing.ends
    assert sum(third.read.values()) == 20 * PARTITIONS


@of_each_kind
def test_partitions_of_a_killed_member_go_to_the_others_from_its_last_commit_on(
    kind: Kind, group_members: GroupMembers, bootstrap: str, admin: GroupAdmin, topic: str
) -> None:
    admin.create(topic, PARTITIONS)
    all_of_it = partitions_of(topic)
    with Writing(bootstrap, all_of_it) as writing:
        killed = group_members.join(kind, topic)
        killed.until_owns(all_of_it)
        survivor = group_members.join(kind, topic)
        group_members.until_shared([killed, survivor], all_of_it)
        had = set(killed.owned)
        killed.until(lambda: had <= set(killed.committed), f"commits {sorted(had)}")
        killed.kill()
        survivor.until_owns(all_of_it)
    write(bootstrap, writing.ends, each=1)  # a commit of each partition when all is calm again
    group_members.until_read(writing.ends)
    group_members.until_committed(writing.ends)
    survivor.leave()
    for partition in had:
        first = min(offset for where, offset in survivor.read if where == partition)
        assert first >= killed.committed[partition], "what was committed is read again"
    assert {partition for partition, _ in group_members.read_again()} <= had, "nobody else was disturbed"
