"""Asks storage nodes how far their replicas' logs go, before an election that may lose something."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from libs.cluster.image import ClusterImage
from libs.cluster.reaching import address_of
from libs.cluster.records import STORAGE, InSync
from libs.rpc.client import RpcClient
from libs.rpc.contracts.storage import LOG_ENDS, LogEnds, LogEndsReply
from libs.rpc.errors import RpcFailure
from libs.rpc.schema import pack, unpack
from services.controller.core.elections import Reach

log = logging.getLogger(__name__)

Key = tuple[bytes, int]
"""Topic id, partition."""

Reaches = Mapping[Key, Mapping[InSync, Reach]]
"""What was answered in time, by those that have the log."""

ANSWER_S: Final = 3.0
AT_ONCE: Final = 1_000
"""Partitions in one question."""


class Survey(Protocol):
    async def __call__(self, image: ClusterImage, candidates: Mapping[Key, Sequence[InSync]]) -> Reaches: ...


class LogSurvey:
    """A connection per question: they are rare."""

    def __init__(self, connect: Callable[[str, int], RpcClient], host_id: str) -> None:
        """`connect` takes an address and the id of the storage node that is expected there."""
        self._connect = connect
        self._host_id = host_id

    async def __call__(self, image: ClusterImage, candidates: Mapping[Key, Sequence[InSync]]) -> Reaches:
        by_node: dict[InSync, list[Key]] = {}
        for key, asked in candidates.items():
            for candidate in asked:
                by_node.setdefault(candidate, []).append(key)
        answers = await asyncio.gather(*(self._ask(image, candidate, keys) for candidate, keys in by_node.items()))
        found: dict[Key, dict[InSync, Reach]] = {key: {} for key in candidates}
        for candidate, reaches in zip(by_node, answers, strict=True):
            for key, reach in reaches:
                found[key][candidate] = reach
        return found

    async def _ask(self, image: ClusterImage, candidate: InSync, keys: Sequence[Key]) -> list[tuple[Key, Reach]]:
        member = image.members(STORAGE).get(candidate.node_id)
        address = address_of(member, self._host_id) if member is not None else ""
        if member is None or member.incarnation != candidate.incarnation or not address:
            return []
        client = self._connect(address, candidate.node_id)
        try:
            async with asyncio.timeout(ANSWER_S):
                await client.ready(ANSWER_S)
                return [answer for part in _parts(keys) for answer in await _answers(client, part)]
        except (RpcFailure, TimeoutError, OSError) as error:
            log.warning("log ends not learned", extra={"fields": {"node": candidate.node_id, "reason": str(error)}})
            return []
        finally:
            await client.close()


def _parts(keys: Sequence[Key]) -> Iterable[Sequence[Key]]:
    return (keys[start : start + AT_ONCE] for start in range(0, len(keys), AT_ONCE))


async def _answers(client: RpcClient, keys: Sequence[Key]) -> list[tuple[Key, Reach]]:
    response = await client.call(LOG_ENDS, pack(LogEnds(tuple(keys))), timeout_s=ANSWER_S)
    ends = unpack(LogEndsReply, response.body).partitions
    answered = zip(keys, ends, strict=False)
    return [(key, Reach(end.latest_epoch, end.end_offset)) for key, end in answered if not end.error]
