"""`controller_mutation_rate` (KIP-599): how many partitions clients may create and delete. Pure: it keeps the buckets only.

As in Kafka's controller (ControllerMutationQuotaManager, TokenBucket): a bucket for each entity holds up to `BURST_S` seconds of
the rate, and begins full. A topic costs the partitions that it is created with, gets, or is deleted with. It is charged when all
else is checked, also if the request only validates. While the bucket is not in debt, a topic is carried out, whatever it costs.

In debt, the newer versions of an API are strict: the topic is refused, and costs nothing. The older ones are permissive: it is
carried out, and the debt grows. Both tell the client to wait until the debt is paid. A controller begins without buckets, so with
full ones: what the cluster may see at a failover is one more burst for each entity.
"""

from collections.abc import Callable
from heapq import nsmallest
from math import inf
from typing import Final

from libs.cluster.client_quotas import CONTROLLER_MUTATION, Entity, Limit, client_limits, rate_of
from libs.cluster.image import ClusterImage
from libs.rpc.contracts.controller import MutatingClient
from libs.token_bucket import TokenBucket
from libs.wire.errors import ErrorCode
from services.controller.core.model.refusal import Refused

BURST_S: Final = 11.0
"""The depth of a bucket in seconds of its rate: Kafka's controller.quota.window.num windows of
controller.quota.window.size.seconds, at their defaults."""
ENTITIES_MAX: Final = 1_000
"""The buckets at a time, which are those that are not full. Beyond it, the entity that made no change for the longest time begins
with a full one again."""
THROTTLE_MS_MAX: Final = 2**31 - 1
"""What `throttle_time_ms` holds."""

EXCEEDED: Final = "The throttling quota has been exceeded."

Charge = Callable[[str, int], None]
"""Charges a topic, named in any way, with so many partitions. Raises Refused with THROTTLING_QUOTA_EXCEEDED."""


def uncharged(topic: str, partitions: int) -> None:
    """The charge of requests that no quota limits."""


class MutationQuotas:
    """The buckets of one controller."""

    def __init__(self) -> None:
        self._buckets: dict[Entity, TokenBucket] = {}  # the longest unused first
        self.exceeded = 0
        """Topics that met a bucket in debt, or brought it there in a permissive version."""

    def of(self, image: ClusterImage, client: MutatingClient | None) -> "MutationQuota":
        """The quota of one request. Client None: nobody's, so that nothing is charged."""
        limit = None if client is None else client_limits(image, client.user, client.client_id)[CONTROLLER_MUTATION]
        return MutationQuota(self, limit, strict=client is not None and client.strict)

    def bucket(self, limit: Limit, now: float) -> TokenBucket:
        """The bucket of who has that limit, filled up to now."""
        entity, rate = limit
        bucket = self._buckets.pop(entity, None)
        if bucket is None:
            self._make_room(now)
            bucket = TokenBucket(rate, rate * BURST_S, now, level=rate * BURST_S)
        elif bucket.rate != rate:
            # As in Kafka, a new rate counts from the last use on. So it pays a debt that an operator wants to see paid sooner.
            bucket.rate, bucket.depth = rate, rate * BURST_S
        bucket.fill(now)
        self._buckets[entity] = bucket
        return bucket

    def keep_limited(self, image: ClusterImage) -> None:
        """Forgets those who have no limit any more."""
        for entity in [each for each in self._buckets if rate_of(image, each) is None]:
            del self._buckets[entity]

    def in_use(self, now: float) -> int:
        """The entities whose bucket is not full."""
        self._forget_full(now)
        return len(self._buckets)

    def view(self, now: float) -> list[dict[str, object]]:
        """The buckets that are not full, in partitions and seconds. Those come first whose clients wait for the longest time."""
        self._forget_full(now)
        most = nsmallest(ENTITIES_MAX, self._buckets.items(), key=lambda item: item[1].level / item[1].rate)
        return [
            {
                "user": user,
                "client_id": client_id,
                "limit_per_s": bucket.rate,
                "tokens": bucket.level,
                "in_debt_for_s": min(bucket.debt_s, THROTTLE_MS_MAX / 1000),
            }
            for (_, user, client_id), bucket in most
        ]

    def _make_room(self, now: float) -> None:
        self._forget_full(now)
        while len(self._buckets) >= ENTITIES_MAX:
            del self._buckets[next(iter(self._buckets))]

    def _forget_full(self, now: float) -> None:
        """A full bucket is what an entity without one begins with."""
        for bucket in self._buckets.values():
            bucket.fill(now)
        self._buckets = {entity: bucket for entity, bucket in self._buckets.items() if bucket.level < bucket.depth}


class MutationQuota:
    """What one request may change (Kafka's ControllerMutationQuota). A request that is decided again charges each topic once."""

    def __init__(self, quotas: MutationQuotas, limit: Limit | None, *, strict: bool) -> None:
        self._quotas = quotas
        self._limit = limit
        self._strict = strict
        self._charged: set[str] = set()
        self._in_debt_until = -inf

    def at(self, now: float) -> Charge:
        """Charges the topics of a decision that is made now."""
        limit = self._limit
        return uncharged if limit is None else lambda topic, partitions: self._charge(limit, topic, partitions, now)

    def _charge(self, limit: Limit, topic: str, partitions: int, now: float) -> None:
        if topic in self._charged:
            return
        bucket = self._quotas.bucket(limit, now)
        is_refused = self._strict and bucket.level < 0
        if not is_refused:
            bucket.spend(partitions)
            self._charged.add(topic)
        if bucket.level < 0 and (is_refused or not self._strict):
            self._in_debt_until = now + bucket.debt_s
            self._quotas.exceeded += 1
        if is_refused:
            raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, EXCEEDED)

    def throttle_ms(self, now: float) -> int:
        """How long the client is told to wait, as of now: a millisecond at least while it owes. 0: not at all."""
        wait_ms = min((self._in_debt_until - now) * 1000, THROTTLE_MS_MAX)
        return max(1, round(wait_ms)) if wait_ms > 0 else 0
