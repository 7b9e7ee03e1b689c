"""Groups whose members are of several clients, or of both protocols."""

from tests.compat.clients.groups.background_writes import Writing, write
from tests.compat.clients.groups.client_kinds import KINDS, Kind
from tests.compat.clients.groups.group_members import GroupMembers
from tests.compat.clients.groups.offsets import GroupAdmin

# kafkajs brings no range assignor: its one is called RoundRobinAssigner, which nobody else knows.
OF_RANGE = [kind for kind in KINDS if kind.protocol == "classic" and kind.strategy == "range"]


def test_members_of_five_clients_share_one_group(
    group_members: GroupMembers, bootstrap: str, admin: GroupAdmin, topic: str
) -> None:
    admin.create(topic, 10)
    all_of_it = {(topic, number) for number in range(10)}
    with Writing(bootstrap, all_of_it) as writing:
        members = [group_members.join(kind, topic) for kind in OF_RANGE]
        assert len(members) == 5
        group_members.until_shared(members, all_of_it)
        while len(members) > 1:
            members.pop(0).leave()
            group_members.until_shared(members, all_of_it)
    write(bootstrap, writing.ends, each=1)  # a commit of each partition when all is calm again
    group_members.until_read(writing.ends)
    members.pop().leave()
    group_members.until_committed(writing.ends)
    group_members.assert_read_once(writing.ends)


def test_a_group_goes_from_the_classic_protocol_to_the_new_one_and_back_member_by_member(
    group_members: GroupMembers, bootstrap: str, admin: GroupAdmin, topic: str
) -> None:
    """KIP-848: a rolling restart with the other protocol; while it lasts, both kinds of members are in the group."""
    classic, new = Kind("librdkafka", strategy="cooperative-sticky"), Kind("librdkafka", protocol="consumer")
    java_classic, java_new = Kind("java", strategy="cooperative-sticky"), Kind("java", protocol="consumer")
    admin.create(topic, 6)
    all_of_it = {(topic, number) for number in range(6)}
    with Writing(bootstrap, all_of_it) as writing:
        members = [group_members.join(classic, topic), group_members.join(java_classic, topic)]
        group_members.until_shared(members, all_of_it)
        for successors in ((new, java_new), (classic, java_classic)):
            for successor in successors:
                members.pop(0).leave()
                members[0].until_owns(all_of_it)
                members.append(group_members.join(successor, topic))
                group_members.until_shared(members, all_of_it)
    write(bootstrap, writing.ends, each=1)
    group_members.until_read(writing.ends)
    for member in members:
        member.leave()
    group_members.until_committed(writing.ends)
    group_members.assert_read_once(writing.ends)
