"""Who follows whom: one link per leader node, and partitions that move between them when the image says so."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from itertools import count
from typing import Any

from libs.cluster.image import ClusterImage
from libs.cluster.reaching import address_of
from libs.cluster.records import STORAGE
from libs.rpc.client import RpcClient
from libs.telemetry.logs import fields
from libs.telemetry.metrics import Metrics
from services.storage.core.following import Event, Operation, State
from services.storage.core.leadership import Follow
from services.storage.disks import Disk
from services.storage.following.applying import Applying
from services.storage.following.followed import Followed
from services.storage.following.link import LeaderLink, Puller
from services.storage.following.meters import FollowerMeters
from services.storage.following.starts import LogStarts
from services.storage.following.surgery import Surgery
from services.storage.following.throttle import FollowerThrottle
from services.storage.hosted import Hosted

log = logging.getLogger(__name__)

NOBODY = -1


class Following:
    """`follow` and `let_go` as the image says; links pull from `begin` on. `connect`: (address, leader's node id) → client."""

    def __init__(
        self,
        node_id: int,
        incarnation: int,
        host_id: str,
        image: Callable[[], ClusterImage],
        connect: Callable[[str, int], RpcClient],
        surgery: Surgery,
        starts: LogStarts,
        on_committed: Callable[[Hosted], None],
        metrics: Metrics,
        static: Mapping[str, str],
    ) -> None:
        self._node_id = node_id
        self._host_id = host_id
        self._connect = connect
        self._surgery = surgery
        self._starts = starts
        self._loop = asyncio.get_running_loop()
        self._image = image
        self._begun = False
        self._followed: dict[Hosted, Followed] = {}
        self._links: dict[int, LeaderLink] = {}
        self._reached: dict[int, tuple[str, int]] = {}
        self._changed: dict[int, dict[Hosted, None]] = {}
        self._operations: dict[Hosted, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._meters = FollowerMeters(metrics, self._links.values)
        throttle = FollowerThrottle(node_id, image, static)
        applying = Applying(self._operate, starts, on_committed, self._meters.copied, throttle)
        self._puller = Puller(node_id, incarnation, count(1).__next__, applying, self._meters.pulled)

    # -- roles ------------------------------------------------------------------------------------------------------------

    def follow(self, hosted: Hosted, disk: Disk, role: Follow) -> None:
        """Nothing of an older epoch is taken from here on. Nobody cuts the log now, see `released`."""
        if self.follows(hosted, role):
            return
        self.let_go(hosted)
        hosted.replica.resign(role.leader_epoch)
        if role.leader in (NOBODY, self._node_id) or role.leader_epoch < hosted.leader_epoch:
            return
        if hosted.offline or hosted.sync.stalled:
            return
        hosted.log.epochs.truncate_end(hosted.log.log_end_offset)  # KAFKA-10706: an epoch of its own, and empty, might contradict
        followed = self._followed[hosted] = Followed(hosted, disk, role.leader, role.leader_epoch)
        followed.happened(Event.FOLLOWED)
        link = self._links.get(role.leader)
        if link is None:
            link = self._links[role.leader] = LeaderLink(role.leader, self._puller)
        link.add(followed)
        self._reach(link)
        what = {"leader": role.leader, "leader_epoch": role.leader_epoch, "log_end": hosted.log.log_end_offset}
        log.info("following", extra=fields(partition=hosted, **what))

    def follows(self, hosted: Hosted, role: Follow) -> bool:
        followed = self._followed.get(hosted)
        return followed is not None and (followed.leader, followed.leader_epoch) == (role.leader, role.leader_epoch)

    def let_go(self, hosted: Hosted) -> None:
        """Nothing is appended any more. A cut that is under way goes on: see `released`."""
        followed = self._followed.pop(hosted, None)
        if followed is None:
            return
        followed.happened(Event.LET_GO)
        link = self._links[followed.leader]
        link.remove(followed)
        if not link.followed:
            del self._links[followed.leader]
            self._reached.pop(followed.leader, None)
            self._close_soon(link.close())

    async def released(self, hosted: Hosted) -> None:
        """Returns when nobody cuts its log: whoever let go of it, or found it let go, may then touch it."""
        operation = self._operations.get(hosted)
        if operation is not None:
            await asyncio.wait((operation,))

    # -- leaders ----------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """This node is registered: leaders know its incarnation."""
        self._begun = True
        for link in self._links.values():
            self._reach(link)

    def follow_image(self, old: ClusterImage, new: ClusterImage) -> None:
        """Leaders may have come back, elsewhere perhaps."""
        if new.members(STORAGE) is not old.members(STORAGE):
            for link in self._links.values():
                self._reach(link)

    def _reach(self, link: LeaderLink) -> None:
        if not self._begun:
            return
        member = self._image().members(STORAGE).get(link.leader)
        address = address_of(member, self._host_id) if member is not None else ""
        if member is None or not address:
            if self._reached.pop(link.leader, None) is not None:
                self._swap_client(link, None)
        elif self._reached.get(link.leader) != (address, member.incarnation):
            self._reached[link.leader] = address, member.incarnation
            self._swap_client(link, self._connect(address, link.leader))

    def _swap_client(self, link: LeaderLink, client: RpcClient | None) -> None:
        before = link.reach(client)
        if before is not None:
            self._close_soon(before.close())

    # -- progress ---------------------------------------------------------------------------------------------------------

    def synced(self, hosted: Hosted) -> None:
        """Its durable offset rose; `round_ended` tells its leader."""
        followed = self._followed.get(hosted)
        if followed is not None:
            self._changed.setdefault(followed.leader, {})[hosted] = None

    def round_ended(self) -> None:
        changed, self._changed = self._changed, {}
        for leader, logs in changed.items():
            link = self._links.get(leader)
            if link is not None:
                link.tell_progress(logs)

    def starts_later(self, hosted: Hosted) -> None:
        """Its log start rose: whoever asked its leader to delete records may wait for that. Told once this turn is over."""
        self.synced(hosted)
        self._loop.call_soon(self.round_ended)

    # -- cutting ----------------------------------------------------------------------------------------------------------

    def _operate(self, followed: Followed, operation: Operation) -> None:
        task = self._loop.create_task(self._perform(followed, operation), name="cutting a follower's log")
        self._operations[followed.hosted] = task
        task.add_done_callback(partial(self._performed, followed))

    async def _perform(self, followed: Followed, operation: Operation) -> None:
        done = await self._surgery.perform(followed, operation)
        if followed.state is State.CUTTING:
            if done:
                self._meters.cuts += 1
                followed.happened(Event.CUT)
            else:
                followed.put_off(self._loop.time())
            self._links[followed.leader].go_on(followed)

    def _performed(self, followed: Followed, task: "asyncio.Task[None]") -> None:
        del self._operations[followed.hosted]
        if not task.cancelled() and (error := task.exception()) is not None:
            # What is in the log now, only the next opening knows.
            log.error("log not cut", exc_info=error, extra=fields(partition=followed.hosted))
            followed.hosted.offline = True
            if followed.state is State.CUTTING:
                followed.happened(Event.BROKEN)

    def debug(self) -> object:
        """By leader and partition."""
        return {
            leader: {
                str(one.hosted): {"state": one.state.value, "leader_epoch": one.leader_epoch, "at": one.position, "lag": one.lag}
                for one in link.followed.values()
            }
            for leader, link in self._links.items()
        }

    # -- ends -------------------------------------------------------------------------------------------------------------

    def _close_soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Nothing is followed any more, and no log is being cut."""
        self._begun = False
        for hosted in list(self._followed):
            self.let_go(hosted)
        await asyncio.gather(*self._operations.values(), *self._closing, return_exceptions=True)
        await self._starts.close()
