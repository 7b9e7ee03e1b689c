"""Static members (KIP-345): who comes back under its instance id in time finds its place kept, and nobody else notices."""

import pytest

from tests.compat.clients.groups.background_writes import Writing
from tests.compat.clients.groups.client_kinds import KINDS, Kind
from tests.compat.clients.groups.group_members import GroupMembers
from tests.compat.clients.groups.offsets import GroupAdmin
from tests.compat.kafka.tools import run_tool

PARTITIONS = 4
PATIENT_MS = 60_000  # longer than any restart here
# kafkajs has none; franz-go 1.22 leaves a group of the new protocol without its instance id, and so for good.
WITHOUT = ("kafkajs, round robin", "franz-go, KIP-848")
KNOWING_INSTANCES = [kind for kind in KINDS if kind.strategy != "cooperative-sticky" and str(kind) not in WITHOUT]


@pytest.mark.parametrize("kind", KNOWING_INSTANCES, ids=str)
def test_a_static_member_is_restarted_without_a_rebalance(
    kind: Kind, group_members: GroupMembers, bootstrap: str, admin: GroupAdmin, topic: str
) -> None:
    admin.create(topic, PARTITIONS)
    all_of_it = {(topic, number) for number in range(PARTITIONS)}
    if kind.protocol == "consumer":
        of_it = ("--entity-type", "groups", "--entity-name", group_members.group)
        longer_session = ("--alter", "--add-config", f"consumer.session.timeout.ms={PATIENT_MS}")
        run_tool("kafka-configs", "--bootstrap-server", bootstrap, *of_it, *longer_session)
    with Writing(bootstrap, all_of_it) as writing:
        stays = group_members.join(kind, topic, instance="stays", session_ms=PATIENT_MS)
        stays.until_owns(all_of_it)
        restarted = group_members.join(kind, topic, instance="is-restarted", session_ms=PATIENT_MS)
        group_members.until_shared([stays, restarted], all_of_it)
        had, seen = set(restarted.owned), stays.rebalances
        restarted.until(lambda: had <= set(restarted.committed), "has committed")
        restarted.leave()
        back = group_members.join(kind, topic, instance="is-restarted", session_ms=PATIENT_MS)
        back.until_owns(had)
        back.until(lambda: had <= set(back.committed), "goes on")
    group_members.until_read(writing.ends)
    assert stays.rebalances == seen, stays.story()
    back.leave()
    stays.leave()
    group_members.until_committed(writing.ends)
    group_members.assert_read_once(writing.ends)
