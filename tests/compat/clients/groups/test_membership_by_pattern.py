"""Subscriptions by regular expression: topics that come later are read too, from their beginning."""

import pytest

from tests.compat.clients.groups.background_writes import write
from tests.compat.clients.groups.client_kinds import KINDS, Kind
from tests.compat.clients.groups.group_members import GroupMembers
from tests.compat.clients.groups.offsets import GroupAdmin

# VerifiableConsumer knows no patterns; kafkajs asks once, when it begins, which topics there are.
KNOWING_PATTERNS = [kind for kind in KINDS if kind.client not in ("java", "kafkajs")]


@pytest.mark.parametrize("kind", KNOWING_PATTERNS, ids=str)
def test_a_topic_that_appears_later_is_read_too_if_the_pattern_matches_it(
    kind: Kind, group_members: GroupMembers, bootstrap: str, admin: GroupAdmin, topic: str
) -> None:
    prefix = f"p{topic[-40:]}"
    names = [f"{prefix}.{word}" for word in ("red", "green", "blue")]
    for name in (*names[:2], f"{prefix}.grey"):
        admin.create(name, 2)
    pattern = rf"{prefix}\.(red|green|blue)"
    ends = {(name, number): 0 for name in names[:2] for number in (0, 1)}
    write(bootstrap, ends, each=5)
    members = [group_members.join(kind, pattern=pattern) for _ in range(2)]
    group_members.until_shared(members, set(ends))
    admin.create(names[2], 2)
    ends |= {(names[2], number): 0 for number in (0, 1)}
    write(bootstrap, ends, each=5)
    group_members.until_shared(members, set(ends))
    write(bootstrap, ends, each=1)  # a commit of each partition when all is calm again
    group_members.until_read(ends)
    for member in members:
        member.leave()
    group_members.until_committed(ends)
