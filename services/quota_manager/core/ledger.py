"""The ledger of the quota manager: a token bucket for each entity, dealt out to gateways in slices.

A gateway carries requests out first and pays for them afterwards (KIP-219), so it may be in debt. It asks for what it owes, and
for a slice in hand. What the ledger grants over a time T is at most rate x T + depth, whoever asks how often:

- A bucket begins empty, and a debt is never written into it. A manager that takes over mints no tokens, and the debts, which the
  gateways keep, outlive it.
- Buckets fill for `RegisteredGateways.filled_s` only: without the part of gateways that may spend it by themselves.
- Debts come first. What other gateways owe for an entity is spared from a slice, so a client that comes by another gateway still
  owes what it spent.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from heapq import nlargest
from typing import Final

from libs.rpc.contracts.quotas import Entity, Grant, Need
from libs.token_bucket import TokenBucket
from services.quota_manager.core.account import Account

BURST_S: Final = 0.5
"""The depth of a bucket, in seconds of its rate."""


class Ledger:
    """The accounts of one manager's term. `rate_of` gives an entity's limit in tokens a second; None: it has none.

    Two times go in: `now`, in seconds of a clock that never goes back, and `filled_s`, for which buckets have filled.
    """

    def __init__(self, rate_of: Callable[[Entity], float | None]) -> None:
        self._rate_of = rate_of
        self._accounts: OrderedDict[Entity, Account] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def grant(self, gateway: int, needs: Sequence[Need], now: float, filled_s: float) -> list[Grant]:
        """A grant for each need, in order."""
        return [self._grant(gateway, need, now, filled_s) for need in needs]

    def _grant(self, gateway: int, need: Need, now: float, filled_s: float) -> Grant:
        rate, account = self._rate_of(need.entity), self._accounts.get(need.entity)
        if rate is None:
            if account is not None:
                del self._accounts[need.entity]
            return Grant(0.0, limited=False)
        if account is None:
            account = self._accounts[need.entity] = Account(TokenBucket(rate, rate * BURST_S, filled_s), now)
        bucket = account.bucket
        if bucket.rate != rate:
            bucket.change(rate, rate * BURST_S, filled_s)
        bucket.fill(filled_s)
        bucket.give_back(need.returned)
        account.used_at = now
        share = account.share_of(gateway, now)
        share.note(need, now)
        owed = account.owed_elsewhere(gateway, now)
        tokens = bucket.take(need.debt)
        share.debt = need.debt - tokens
        if not share.debt:
            tokens += bucket.take(need.wanted, spared=owed)
        account.granted += tokens - need.returned
        return Grant(tokens, owed)

    def account(self, entity: Entity) -> Account | None:
        """The account of an entity that used its limit lately."""
        return self._accounts.get(entity)

    def view(self, now: float, filled_s: float, shown_max: int) -> list[dict[str, object]]:
        """The accounts of entities in use, those that owe most first, in tokens and seconds."""
        most = nlargest(shown_max, self._accounts.items(), key=lambda item: item[1].owed(now))
        for _, account in most:
            account.bucket.fill(filled_s)
        return [account.view(entity, now) for entity, account in most]

    def clear(self) -> None:
        """No entity has a limit any more."""
        self._accounts.clear()

    def forget_unused(self, now: float, looked_at_max: int) -> None:
        """Looks at so many accounts, the longest unlooked-at first, and drops those that nobody has used for `UNUSED_S`."""
        for _ in range(min(looked_at_max, len(self._accounts))):
            entity, account = self._accounts.popitem(last=False)
            if now - account.used_at < UNUSED_S:
                self._accounts[entity] = account


UNUSED_S: Final = 10.0
"""The time after which an account of an entity that nobody used may go. The next one begins with an empty bucket."""
