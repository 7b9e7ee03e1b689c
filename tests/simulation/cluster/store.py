"""The metadata store as one simulated process reaches it: with delays, lost answers, watches that stand still, and outages.

What was asked goes on by itself: the process may be dead when its write lands, and then nobody hears the answer.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextvars import Context
from random import Random
from typing import Any, TypeVar

from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.memory.memory_store import LostAnswer, MemoryStore
from libs.cluster.store import Compare, KeyValue, Operation, Outcome, RangeResult, StoreUnavailable, TxnResult, WatchBatch
from libs.cluster.transactions import check_transaction

T = TypeVar("T")

REQUEST_S_MAX = 3.0
LATE_S_MAX = 9.0


class Links:
    """The ways of all processes to the store. Each is one function, so that the network's partitions can be asked."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.down = False
        self.unknown_share = 0.0
        """So many writes are applied or not, and their answer is lost."""
        self.late_share = 0.0
        """So many writes arrive when whoever asked for them may have given up; what they compare is compared then."""
        self.applied: list[Callable[[str, Sequence[Compare], Sequence[Operation]], None]] = []
        """Told of every transaction that was applied, and from which host it came."""

    def delay(self) -> float:
        return 0.0003 + 0.003 * self.random.random() ** 3


class SimulatedStore(MemoryStore):
    """`reaches` and `hears` say whether requests arrive and answers come back, now."""

    def __init__(
        self,
        keyspace: Keyspace,
        links: Links,
        *,
        host: str = "",
        reaches: Callable[[], bool] = lambda: True,
        hears: Callable[[], bool] = lambda: True,
        request_s_max: float = REQUEST_S_MAX,
    ) -> None:
        super().__init__(keyspace)
        self._links, self._reaches, self._hears = links, reaches, hears
        self._host, self._request_s_max = host, request_s_max
        self._gone = False
        self._held_until = 0.0

    @property
    def unavailable(self) -> bool:
        """The error of watches, which stand still while the store cannot be reached."""
        held = asyncio.get_running_loop().time() < self._held_until
        return held or self._unavailable or self._links.down or not (self._reaches() and self._hears())

    @unavailable.setter
    def unavailable(self, value: bool) -> None:
        self._unavailable = value
        self.link_changed()

    def hold_watches(self, seconds: float) -> None:
        """Lets watches alone stand still for so long."""
        loop = asyncio.get_running_loop()
        self._held_until = loop.time() + seconds
        loop.call_at(self._held_until, self.link_changed)

    def link_changed(self) -> None:
        """Watches look again."""
        self._wake()

    async def get(self, key: str) -> KeyValue | None:
        return await self._read(lambda: self.keyspace.get(key))

    async def range(self, prefix: str) -> RangeResult:
        return await self._read(lambda: self.keyspace.range(prefix))

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        check_transaction(compares, operations)
        unknown = TxnResult(Outcome.UNKNOWN, 0)
        random = self._links.random

        async def there() -> TxnResult:
            lost = self.lost_answers.pop(0) if self.lost_answers else None
            if lost is None and random.random() < self._links.unknown_share:
                lost = random.choice((LostAnswer.APPLIED, LostAnswer.NOT_APPLIED))
            if lost is None and self._links.late_share and random.random() < self._links.late_share:
                await asyncio.sleep(random.uniform(0.0, LATE_S_MAX))
            if lost is LostAnswer.NOT_APPLIED:
                return unknown
            if not (self.keyspace.holds(compares) and self.keyspace.leases_live(operations)):
                result = TxnResult(Outcome.CONFLICT, self.keyspace.revision)
            else:
                result = TxnResult(Outcome.OK, self.keyspace.write(operations))
                for on_applied in self._links.applied:
                    on_applied(self._host, compares, operations)
            return unknown if lost is not None else result

        return await self._ask(there, lambda: unknown)

    async def watch(self, prefix: str, from_revision: int) -> AsyncIterator[WatchBatch]:
        self.watch_delay_s = self._links.delay() if self._links.random.random() < 0.9 else 0.05 * self._links.random.random()
        batches = super().watch(prefix, from_revision)
        try:
            async for batch in batches:
                yield batch
        finally:
            await batches.aclose()  # type: ignore[attr-defined]

    async def grant_lease(self, ttl_s: int) -> int:
        async def there() -> int:
            loop = asyncio.get_running_loop()
            lease = self.keyspace.grant(ttl_s, loop.time())
            loop.call_at(lease.expires_at, self._expire, lease.lease_id)
            return lease.lease_id

        return await self._ask(there, _unavailable)

    async def keep_alive(self, lease: int) -> int:
        def there() -> int:
            held = self.keyspace.leases.get(lease)
            if held is None:
                return 0
            held.expires_at = asyncio.get_running_loop().time() + held.ttl_s
            return held.ttl_s

        return await self._read(there)

    async def revoke_lease(self, lease: int) -> None:
        async def there() -> None:
            self.keyspace.revoke(lease)

        await self._ask(there, lambda: None)

    def gone(self) -> None:
        """Its process died, or came to its end."""
        if not self._gone:
            self._gone = True
            self._unlisten()

    async def close(self) -> None:
        self.gone()

    async def _read(self, work: Callable[[], T]) -> T:
        async def there() -> T:
            return work()

        return await self._ask(there, _unavailable)

    async def _ask(self, work: Callable[[], Coroutine[Any, Any, T]], otherwise: Callable[[], T]) -> T:
        """There and back. No answer in time: `otherwise`."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        async def journey() -> None:
            await asyncio.sleep(self._links.delay())
            if self._links.down or self._unavailable or not self._reaches():
                return
            result = await work()
            await asyncio.sleep(self._links.delay())
            if not (self._links.down or self._unavailable or answer.done()) and self._hears():
                answer.set_result(result)

        under_way = loop.create_task(journey(), context=Context())
        try:
            async with asyncio.timeout(self._request_s_max):
                return await answer
        except TimeoutError:
            return otherwise()
        finally:
            del under_way  # it goes on, and the loop holds it

    def _expire(self, lease_id: int) -> None:
        """A store that is down ends no lease, and gives all of them their time again when it is back."""
        lease = self.keyspace.leases.get(lease_id)
        if lease is not None and self._links.down:
            asyncio.get_running_loop().call_later(lease.ttl_s, self._expire, lease_id, context=Context())
            lease.expires_at = asyncio.get_running_loop().time() + lease.ttl_s
            return
        super()._expire(lease_id)


def _unavailable() -> Any:
    raise StoreUnavailable("no answer in time")
