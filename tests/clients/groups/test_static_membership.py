"""Static members (KIP-345): who comes back under its instance id in time finds its place kept, and nobody else notices."""

import pytest

from tests.clients.groups.crew import Crew
from tests.clients.groups.kinds import KINDS, Kind
from tests.clients.groups.offsets import GroupAdmin
from tests.clients.groups.writing import Writing

PARTITIONS = 4
PATIENT_MS = 30_000  # longer than any restart here
KNOWING_INSTANCES = [kind for kind in KINDS if kind.client != "kafkajs"]


@pytest.mark.parametrize("kind", [kind for kind in KNOWING_INSTANCES if kind.strategy != "cooperative-sticky"], ids=str)
def test_a_static_member_is_restarted_without_a_rebalance(
    kind: Kind, crew: Crew, bootstrap: str, admin: GroupAdmin, topic: str
) -> None:
    admin.create(topic, PARTITIONS)
    all_of_it = {(topic, number) for number in range(PARTITIONS)}
    with Writing(bootstrap, all_of_it) as writing:
        stays = crew.join(kind, topic, instance="stays", session_ms=PATIENT_MS)
        stays.until_owns(all_of_it)
        restarted = crew.join(kind, topic, instance="is-restarted", session_ms=PATIENT_MS)
        crew.until_shared([stays, restarted], all_of_it)
        had, seen = set(restarted.owned), stays.rebalances
        restarted.until(lambda: had <= set(restarted.committed), "has committed")
        restarted.leave()
        back = crew.join(kind, topic, instance="is-restarted", session_ms=PATIENT_MS)
        back.until_owns(had)
        back.until(lambda: had <= set(back.committed), "goes on")
    crew.until_read(writing.ends)
    assert stays.rebalances == seen, stays.story()
    back.leave()
    stays.leave()
    crew.until_committed(writing.ends)
    crew.assert_read_once(writing.ends)
