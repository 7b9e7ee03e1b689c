"""A mute that goes on, since what is owed has not been paid when it should have ended."""

import asyncio
from collections.abc import Sequence
from typing import cast

from libs.cluster.client_quotas import PRODUCE, Entity
from services.gateway.exchange.quota_use import Throttle
from services.gateway.net.mute import LOOKS_APART_S, Mute
from services.gateway.requests.client_quotas import ClientQuotas
from tests.cluster.conftest import run_virtually

ENTITY = (PRODUCE, "alice", "")
LATE_S = 2.0


class LateGrants:
    """An entity that owes a millisecond until its grant comes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.asked = 0
        self.muted_s = 0.0

    def longer_s(self, _: Entity) -> float:
        self.asked += 1
        return 0.001 if self._loop.time() < LATE_S else 0.0

    def owes(self, entity: Entity) -> bool:
        return self.longer_s(entity) > 0

    def note_muted(self, _: Sequence[Entity], seconds: float) -> None:
        self.muted_s = seconds


def test_a_late_grant_wakes_a_muted_connection_now_and_then_and_it_reads_on_soon_after() -> None:
    async def story() -> None:
        quotas, ended = LateGrants(asyncio.get_running_loop()), asyncio.Event()
        mute = Mute(cast("ClientQuotas", quotas), ended.set)
        mute.begin(Throttle(0.001, (ENTITY,)))
        await ended.wait()
        assert mute.end()
        assert LATE_S <= quotas.muted_s <= LATE_S + LOOKS_APART_S
        assert quotas.asked <= LATE_S / LOOKS_APART_S + 3

    run_virtually(story())
