"""What a gateway asks of the process that owns a shard of `__consumer_offsets`, on behalf of a client.

Requests travel as their clients wrote them: the payload is the Kafka request's body, in `api_version`, and the payload of the
answer is the Kafka response's body, in the same version. The gateway looks no further than it has to for finding the shard. A
request that names several groups was split by it before: all groups in the payload belong to `shard`.
"""

from dataclasses import dataclass
from typing import Final

ASK = "groups.ask"

ELEMENTS_MAX: Final = 100_000
"""Of all arrays of one request about groups. Four times as many took the only thread of a gateway or a coordinator for seconds:
it was taken for dead, and so was the next one that was asked. More offsets than that fit into no batch."""

GROUPS_MAX: Final = 20_000
"""That one request asks about. A gateway takes 0.15 s to split so many; somebody who describes all of ten thousand groups asks
for them in one request."""


@dataclass(frozen=True, slots=True)
class Ask:
    """There is no deadline but the client's patience: joins wait for other members."""

    shard: int  # the partition of `__consumer_offsets`
    api_key: int
    api_version: int
    client_id: str  # "" where the client sent null
    client_host: str  # as Kafka writes an address: "/127.0.0.1"


@dataclass(frozen=True, slots=True)
class Asked:
    """`error` 0: the payload is the response's body. Else there is none, and the gateway says it in the words of the API: 14 (the
    shard is being loaded), 15 (there is no such topic yet), 16 (somebody else owns the shard), 7, -1: what an append came to;
    42: the payload is no such request, and the connection is to be closed."""

    error: int
