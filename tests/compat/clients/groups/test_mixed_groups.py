"""Groups whose members are of several clients, or of both protocols."""

from tests.clients.groups.crew import Crew
from tests.clients.groups.kinds import KINDS, Kind
from tests.clients.groups.offsets import GroupAdmin
from tests.clients.groups.writing import Writing, write

# kafkajs brings no range assignor: its one is called RoundRobinAssigner, which nobody else knows.
OF_RANGE = [kind for kind in KINDS if kind.protocol == "classic" and kind.strategy == "range"]


def test_members_of_five_clients_share_one_group(crew: Crew, bootstrap: str, admin: GroupAdmin, topic: str) -> None:
    admin.create(topic, 10)
    all_of_it = {(topic, number) for number in range(10)}
    with Writing(bootstrap, all_of_it) as writing:
        members = [crew.join(kind, topic) for kind in OF_RANGE]
        assert len(members) == 5
        crew.until_shared(members, all_of_it)
        while len(members) > 1:
            members.pop(0).leave()
            crew.until_shared(members, all_of_it)
    write(bootstrap, writing.ends, each=1)  # a commit of each partition when all is calm again
    crew.until_read(writing.ends)
    members.pop().leave()
    crew.until_committed(writing.ends)
    crew.assert_read_once(writing.ends)


def test_a_group_goes_from_the_classic_protocol_to_the_new_one_and_back_member_by_member(
    crew: Crew, bootstrap: str, admin: GroupAdmin, topic: str
) -> None:
    """KIP-848: a rolling restart with the other protocol; while it lasts, both kinds of members are in the group."""
    classic, new = Kind("librdkafka", strategy="cooperative-sticky"), Kind("librdkafka", protocol="consumer")
    java_classic, java_new = Kind("java", strategy="cooperative-sticky"), Kind("java", protocol="consumer")
    admin.create(topic, 6)
    all_of_it = {(topic, number) for number in range(6)}
    with Writing(bootstrap, all_of_it) as writing:
        members = [crew.join(classic, topic), crew.join(java_classic, topic)]
        crew.until_shared(members, all_of_it)
        for successors in ((new, java_new), (classic, java_classic)):
            for successor in successors:
                members.pop(0).leave()
                members[0].until_owns(all_of_it)
                members.append(crew.join(successor, topic))
                crew.until_shared(members, all_of_it)
    write(bootstrap, writing.ends, each=1)
    crew.until_read(writing.ends)
    for member in members:
        member.leave()
    crew.until_committed(writing.ends)
    crew.assert_read_once(writing.ends)
