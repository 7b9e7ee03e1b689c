"""The survey of log ends before an election that may lose records."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from libs.cluster.image import ClusterImage
from libs.cluster.member_addresses import address_of
from libs.cluster.records import STORAGE, InSync
from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.contracts.storage import LOG_ENDS, LogEnds, LogEndsReply
from libs.rpc.messages.errors import RpcFailure
from libs.rpc.messages.schema import pack, unpack
from services.controller.core.elections.leader_election import ReplicaLogEnd

log = logging.getLogger("elections")

Key = tuple[bytes, int]
"""Topic id, partition."""

LogEndsByPartition = Mapping[Key, Mapping[InSync, ReplicaLogEnd]]
"""The answers that came in time, of the nodes that have the log."""

ANSWER_TIMEOUT_S: Final = 3.0
PARTITIONS_PER_REQUEST: Final = 1_000
"""Partitions in one request."""


class Survey(Protocol):
    async def __call__(self, image: ClusterImage, candidates: Mapping[Key, Sequence[InSync]]) -> LogEndsByPartition: ...


class LogSurvey:
    """The survey over RPC, with a connection per request, since they are rare."""

    def __init__(self, connect: Callable[[str, int], RpcClient], host_id: str) -> None:
        """`connect` takes an address and the id of the storage node that is expected there."""
        self._connect = connect
        self._host_id = host_id

    async def __call__(self, image: ClusterImage, candidates: Mapping[Key, Sequence[InSync]]) -> LogEndsByPartition:
        by_node: dict[InSync, list[Key]] = {}
        for key, nodes in candidates.items():
            for candidate in nodes:
                by_node.setdefault(candidate, []).append(key)
        answers = await asyncio.gather(*(self._survey_node(image, candidate, keys) for candidate, keys in by_node.items()))
        by_partition: dict[Key, dict[InSync, ReplicaLogEnd]] = {key: {} for key in candidates}
        for candidate, log_ends in zip(by_node, answers, strict=True):
            for key, reach in log_ends:
                by_partition[key][candidate] = reach
        return by_partition

    async def _survey_node(self, image: ClusterImage, candidate: InSync, keys: Sequence[Key]) -> list[tuple[Key, ReplicaLogEnd]]:
        member = image.members(STORAGE).get(candidate.node_id)
        address = address_of(member, self._host_id) if member is not None else ""
        if member is None or member.incarnation != candidate.incarnation or not address:
            return []
        client = self._connect(address, candidate.node_id)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await client.ready(ANSWER_TIMEOUT_S)
                return [answer for part in _parts(keys) for answer in await _answers(client, image, part)]
        except (RpcFailure, TimeoutError, OSError) as error:
            log.warning("log ends not learned", extra={"fields": {"node": candidate.node_id, "reason": str(error)}})
            return []
        finally:
            await client.close()


def _parts(keys: Sequence[Key]) -> Iterable[Sequence[Key]]:
    return (keys[start : start + PARTITIONS_PER_REQUEST] for start in range(0, len(keys), PARTITIONS_PER_REQUEST))


async def _answers(client: RpcClient, image: ClusterImage, keys: Sequence[Key]) -> list[tuple[Key, ReplicaLogEnd]]:
    states = [image.partition(*key) for key in keys]
    epochs = tuple([state.leader_epoch if state is not None else -1 for state in states])
    response = await client.call(LOG_ENDS, pack(LogEnds(tuple(keys), epochs)), timeout_s=ANSWER_TIMEOUT_S)
    ends = unpack(LogEndsReply, response.body).partitions
    answered = zip(keys, ends, strict=False)
    return [(key, ReplicaLogEnd(end.latest_epoch, end.end_offset)) for key, end in answered if not end.error]
