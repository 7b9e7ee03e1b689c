"""The member record of a process: registered under a lease, and registered again when it vanishes.

A put moves the key to the new lease. So the end of an older lease, our own or that of an earlier incarnation, cannot delete the
new registration.
"""

import asyncio
import logging
from collections.abc import Callable

from libs.cluster import keys
from libs.cluster.backoff import Backoff
from libs.cluster.codec import RecordError, decode, encode
from libs.cluster.image import ClusterImage
from libs.cluster.lease import HeldLease, grant
from libs.cluster.records import Member
from libs.cluster.store import CreateRevisionIs, KeyValue, MetadataStore, ModRevisionIs, Outcome, Put, StoreUnavailable

log = logging.getLogger("metadata")


class Superseded(Exception):
    """Another process runs with our role and id, and has registered after us."""

    def __init__(self, other: Member) -> None:
        super().__init__(f"another process runs as {other.role} {other.node_id}, with incarnation {other.incarnation}")


class Membership:
    """Registers this process, keeps it registered, and registers it again when its lease was lost.

    The first registration replaces any record at once: a restarted process does not wait until its former lease expires. A later
    registration gives way to a later incarnation: then two processes run with one id, and ours is the older one. `on_superseded`
    is called once in that case.

    A later registration replaces an earlier incarnation. When our key is gone, a write that was given up may still be applied: of
    our former incarnation, or our own.

    `follow` learns both cases from the image: a member that was replaced may still have its lease, and a controller may have
    deleted our key since it took us for dead. An outage of the store alone is not a death: the lease is kept for as long as it
    may live.
    """

    def __init__(
        self,
        store: MetadataStore,
        member: Member,
        ttl_s: int,
        *,
        on_superseded: Callable[[Member], None] | None = None,
    ) -> None:
        self._store = store
        self._member = member
        self._ttl_s = ttl_s
        self._key = keys.member(member.role, member.node_id)
        self._on_superseded = on_superseded
        self._lease: HeldLease | None = None
        self._revision = 0
        self._registered_before = False
        self._superseded = False
        self._missed = False
        self._closed = False
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    @property
    def registered(self) -> bool:
        return self._revision > 0 and self._lease is not None and self._lease.held

    @property
    def revision(self) -> int:
        """The revision of the last registration. An image at or past it shows us."""
        return self._revision

    async def start(self) -> None:
        """Returns once registered. Tries for as long as that takes: bound it with `asyncio.timeout`."""
        await self._register()
        self._task = asyncio.get_running_loop().create_task(self._stay(), name=f"membership {self._key}")

    async def update(self, member: Member) -> None:
        """Writes a changed record of this same process. Returns when it is written."""
        self._member = member
        await self._register()

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Subscribe this to the image."""
        if not self._registered_before or self._closed or new.revision < self._revision:
            return  # it may still show the member that we replaced
        shown = new.members(self._member.role).get(self._member.node_id)
        if shown is None:
            self._lost("taken for dead: its key was deleted")
        elif shown.incarnation > self._member.incarnation:
            self._give_way(shown)
        elif shown != self._member and not self._writing.locked():
            self._lost("a registration landed that was given up")

    async def close(self) -> None:
        """Unregisters at once, so that nobody waits until the lease expires."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.stop()
            await self._store.revoke_lease(lease.lease_id)

    async def _stay(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not await self._register():
                return

    async def _register(self) -> bool:
        """False when another incarnation has taken our place."""
        backoff = Backoff()
        async with self._writing:
            while True:
                try:
                    done = await self._attempt()
                except StoreUnavailable as error:
                    log.warning("registration waits for the metadata store", extra=self._fields(error))
                else:
                    if done is not None:
                        return done
                await asyncio.sleep(backoff.next_s())

    async def _attempt(self) -> bool | None:
        """None: try again."""
        record = await self._store.get(self._key)
        other = self._later_incarnation(record)
        if other is not None and self._registered_before:
            self._give_way(other)
            return False
        if self._lease is None or not self._lease.held:
            self._drop_lease()
            self._lease = await grant(self._store, self._ttl_s, self._lost)
        guard = ModRevisionIs(self._key, record.mod_revision) if record is not None else CreateRevisionIs(self._key, 0)
        value = encode(self._member)
        result = await self._store.txn([guard], [Put(self._key, value, self._lease.lease_id)])
        if result.outcome is Outcome.OK:
            self._revision = result.revision
        elif result.outcome is Outcome.UNKNOWN:
            record = await self._store.get(self._key)
            if record is None or record.value != value or record.lease != self._lease.lease_id:
                return None
            self._revision = record.mod_revision
        elif result.outcome is Outcome.DENIED:
            return None  # the lease is good, and the connection to etcd has said what the operator must do
        else:
            # Another process wrote in between, or our new lease is gone already.
            self._drop_lease()
            return None
        self._registered_before = True
        if self._missed:
            self._missed = False
            log.info("membership regained", extra={"fields": {"member": self._key, "incarnation": self._member.incarnation}})
        return True

    def _later_incarnation(self, record: KeyValue | None) -> Member | None:
        if record is None:
            return None
        try:
            member = decode(Member, record.value)
        except RecordError:
            return None  # not a member: replace it
        return member if member.incarnation > self._member.incarnation else None

    def _give_way(self, other: Member) -> None:
        if self._superseded:
            return
        self._superseded = True
        log.critical("another process has taken this member's place", extra=self._fields(f"incarnation {other.incarnation}"))
        self._drop_lease()
        if self._on_superseded is not None:
            self._on_superseded(other)

    def _drop_lease(self) -> None:
        if self._lease is not None:
            self._lease.stop()
            self._lease = None

    def _lost(self, reason: str) -> None:
        """Logs the loss once for each time that the key is missed. Until it is there again, all images lack it."""
        if not self._missed:
            self._missed = True
            log.warning("membership lost", extra=self._fields(reason))
        self._changed.set()

    def _fields(self, reason: object) -> dict[str, object]:
        return {"fields": {"member": self._key, "incarnation": self._member.incarnation, "reason": str(reason)}}
