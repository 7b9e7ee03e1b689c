"""The quota manager service. The elected process grants tokens to gateways, and the others stand by.

It decides nothing: the image says what the limits are, and `core/ledger.py` who is granted what. It keeps nothing on disk, since
a term begins with empty buckets.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable
from typing import Final

from libs.cluster.client_quotas import SHARED, has_limits, rate_of
from libs.cluster.election import Election, Leadership
from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import GATEWAY, ElectedQuotaManager, QuotaEntity
from libs.cluster.store import StoreUnavailable
from libs.rpc.contracts.quotas import Ask, Granted, Need
from libs.rpc.messages.errors import ContractError
from libs.rpc.server.call import Peer
from libs.wire.errors import ErrorCode
from services.quota_manager.core.account import Account
from services.quota_manager.core.ledger import Ledger
from services.quota_manager.core.registered_gateways import RegisteredGateways

NEEDS_MAX: Final = 1_000
"""The entities of one ask. A gateway with more in need asks for the others next time."""
LOOKED_AT_PER_ASK: Final = 100
"""Accounts that an ask looks at, whether anybody still uses them, beside two for each of its needs: new ones are no more."""

SHOWN_MAX: Final = 1_000
"""Entities that the view shows."""


class _Term:
    """What one elected manager knows. It begins with nothing."""

    def __init__(self, leadership: Leadership, ledger: Ledger, now: float) -> None:
        self.leadership = leadership
        self.ledger = ledger
        self.gateways = RegisteredGateways(now)


class QuotaManager:
    """One quota manager. `run` campaigns and serves terms until it is cancelled."""

    def __init__(self, follower: ImageFollower, election: Election, candidate: ElectedQuotaManager) -> None:
        self._follower = follower
        self._election = election
        self._candidate = candidate
        self._now = asyncio.get_running_loop().time
        self._term: _Term | None = None
        self.registered: Callable[[], bool] = lambda: False
        self.asks = 0

    @property
    def image(self) -> ClusterImage:
        return self._follower.image

    @property
    def elected(self) -> bool:
        """Whether this process grants, as far as it knows. Two that believe so give away no more than one would."""
        return self._term is not None and self._term.leadership.valid

    def ready(self) -> tuple[bool, str]:
        """Readiness for the admin port: it is elected, or another one is."""
        if not self._follower.verified:
            return False, "the metadata store has not been read"
        if self.elected:
            return True, "the active quota manager"
        incumbent = self.image.quota_manager
        if incumbent is None or incumbent.node_id == self._candidate.node_id:
            return False, "there is no active quota manager"
        return True, f"standby of quota manager {incumbent.node_id}"

    async def run(self) -> None:
        """Needs a started follower. When cancelled, it resigns, so that a successor need not wait for the lease to expire."""
        unsubscribe = self._follower.subscribe(self._image_changed)
        try:
            await self._election.delete_former()
            while True:
                leadership = await self._election.campaign()
                try:
                    now = self._now()
                    self._term = _Term(leadership, Ledger(lambda entity: rate_of(self.image, entity)), now)
                    self._register(self._term, now)
                    await leadership.lost.wait()
                finally:
                    self._term = None
                    with contextlib.suppress(StoreUnavailable):
                        await leadership.resign()
        finally:
            unsubscribe()

    def answer(self, peer: Peer, ask: Ask) -> Granted:
        """The answer to an ask. Raises ContractError for one that no gateway of ours sends."""
        if len(ask.needs) > NEEDS_MAX or not all(map(_is_sane, ask.needs)):
            raise ContractError(f"an ask of gateway {peer.node_id} is not sane")
        term, now = self._term, self._now()
        if term is None or not term.leadership.valid:
            return Granted(ErrorCode.NOT_CONTROLLER)
        if not term.gateways.asked(peer.node_id, peer.incarnation, ask.number, ask.confirmed, now):
            return Granted(ErrorCode.NOT_CONTROLLER)
        self.asks += 1
        grants = term.ledger.grant(peer.node_id, ask.needs, now, term.gateways.filled_s(now))
        term.ledger.forget_unused(now, LOOKED_AT_PER_ASK + 2 * len(ask.needs))
        return Granted(0, tuple(grants))

    def accounts(self) -> list[dict[str, object]]:
        """The view at `/debug/quotas`: the entities in use, the most indebted first."""
        term, now = self._term, self._now()
        return [] if term is None else term.ledger.view(now, term.gateways.filled_s(now), SHOWN_MAX)

    def account(self, kind: int, entity: QuotaEntity) -> Account | None:
        """The account of a user's or client's entity that used its limit of that kind lately."""
        return self._term.ledger.account((kind, entity.user or "", entity.client_id or "")) if self._term is not None else None

    @property
    def entities(self) -> int:
        """The entities that used a limited quota lately."""
        return len(self._term.ledger) if self._term is not None else 0

    def gateways(self) -> dict[str, int]:
        """How many gateways are registered, and how many of them have not confirmed an answer lately. None asks, and none is
        silent, while no client has a limit."""
        term = self._term
        if term is None:
            return {"registered": 0, "silent": 0}
        term.gateways.filled_s(self._now())
        silent = term.gateways.silent if has_limits(self.image, SHARED) else 0
        return {"registered": len(term.gateways), "silent": silent}

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        if self._term is not None and old.client_quotas is not new.client_quotas and not has_limits(new, SHARED):
            self._term.ledger.clear()  # nobody asks any more
        if self._term is not None and old.members(GATEWAY) is not new.members(GATEWAY):
            self._register(self._term, self._now())

    def _register(self, term: _Term, now: float) -> None:
        term.gateways.register({node_id: each.incarnation for node_id, each in self.image.members(GATEWAY).items()}, now)


def _is_sane(need: Need) -> bool:
    amounts = (need.wanted, need.debt, need.returned, need.used, need.throttled, need.throttle_s)
    return all(0.0 <= amount < math.inf for amount in amounts)
