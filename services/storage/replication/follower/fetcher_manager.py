"""The fetcher manager: one fetcher per leader node, and partitions that move between them when the image changes."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from itertools import count
from typing import Any

from libs.cluster.image import ClusterImage
from libs.cluster.member_addresses import address_of
from libs.cluster.records import STORAGE
from libs.rpc.client.rpc_client import RpcClient
from libs.runtime.process import Identity
from libs.telemetry.log_burst import LogBurst
from libs.telemetry.logs import fields
from libs.telemetry.metrics import Metrics
from services.storage.config import BrokerConfigs
from services.storage.core.replication.follower.following import Event, Operation, State
from services.storage.core.replication.leadership import Follow
from services.storage.disks.disks import Disk
from services.storage.partition.partition import Partition
from services.storage.replication.follower.applying import Applying
from services.storage.replication.follower.fetcher import Puller, ReplicaFetcher
from services.storage.replication.follower.followed_partition import FollowedPartition
from services.storage.replication.follower.follower_meters import FollowerMeters
from services.storage.replication.follower.log_starts import FollowedLogStarts
from services.storage.replication.follower.pull_limits import ConfiguredLimits
from services.storage.replication.follower.throttle import FollowerThrottle
from services.storage.replication.follower.truncation import Truncation

log = logging.getLogger("replication")

NOBODY = -1


class FetcherManager:
    """The fetchers. The reconciler calls `follow` and `stop_fetching`; pulls start with `begin`.

    `connect`: (address, the leader's node id) → client.
    """

    def __init__(
        self,
        identity: Identity,
        connect: Callable[[str, int], RpcClient],
        truncation: Truncation,
        starts: FollowedLogStarts,
        metrics: Metrics,
        broker_configs: BrokerConfigs,
    ) -> None:
        self._node_id = identity.node_id
        self._host_id = identity.host_id
        self._connect = connect
        self._truncation = truncation
        self._starts = starts
        self._loop = asyncio.get_running_loop()
        self._following_lines = LogBurst(log, "following", self._loop)
        self._image = broker_configs.image
        self._registered = False
        self._followed: dict[Partition, FollowedPartition] = {}
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._connected: dict[int, tuple[str, int]] = {}
        self._changed: dict[int, dict[Partition, None]] = {}
        self._operations: dict[Partition, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._meters = FollowerMeters(metrics, self._fetchers.values)
        throttle = FollowerThrottle(broker_configs)
        applying = Applying(self._operate, starts, self._meters.copied, throttle)
        limits = ConfiguredLimits(broker_configs).now
        self._puller = Puller(identity.node_id, identity.incarnation, count(1).__next__, applying, self._meters.pulled, limits)

    @property
    def followed(self) -> Mapping[Partition, FollowedPartition]:
        """Partitions that are fetched, or will be when their fetcher is connected."""
        return self._followed

    @property
    def fetchers(self) -> Mapping[int, ReplicaFetcher]:
        """One fetcher for each leader, by node id."""
        return self._fetchers

    def unreachable(self) -> list[int]:
        """The leaders that do not answer this node."""
        return [leader for leader, fetcher in self._fetchers.items() if fetcher.unreachable]

    # -- roles ------------------------------------------------------------------------------------------------------------

    def follow(self, partition: Partition, disk: Disk, role: Follow) -> None:
        """Follows a leader in its epoch; answers of older epochs are ignored from here on. No truncation runs, see `released`."""
        if self.follows(partition, role):
            return
        self.stop_fetching(partition)
        partition.replica.become_follower(role.leader_epoch)
        if role.leader in (NOBODY, self._node_id) or role.leader_epoch < partition.leader_epoch:
            return
        if partition.offline or partition.sync.suspended:
            return
        # KAFKA-10706: a local epoch without batches might contradict the leader's.
        partition.log.epochs.truncate_end(partition.log.log_end_offset)
        followed = self._followed[partition] = FollowedPartition(partition, disk, role.leader, role.leader_epoch)
        followed.happened(Event.BECAME_FOLLOWER)
        fetcher = self._fetchers.get(role.leader)
        if fetcher is None:
            fetcher = self._fetchers[role.leader] = ReplicaFetcher(role.leader, self._puller)
        fetcher.add(followed)
        self._connect_to_leader(fetcher)
        details = {"leader": role.leader, "leader_epoch": role.leader_epoch, "log_end": partition.log.log_end_offset}
        self._following_lines.write(partition=partition, **details)

    def follows(self, partition: Partition, role: Follow) -> bool:
        followed = self._followed.get(partition)
        return followed is not None and (followed.leader, followed.leader_epoch) == (role.leader, role.leader_epoch)

    def stop_fetching(self, partition: Partition) -> None:
        """Ends appends from the leader. A running truncation goes on: see `released`."""
        followed = self._followed.pop(partition, None)
        if followed is None:
            return
        followed.happened(Event.REVOKED)
        fetcher = self._fetchers[followed.leader]
        fetcher.remove(followed)
        if not fetcher.followed:
            del self._fetchers[followed.leader]
            self._connected.pop(followed.leader, None)
            self._close_soon(fetcher.close())

    async def released(self, partition: Partition) -> None:
        """Returns when no truncation touches the log, so that the caller may."""
        operation = self._operations.get(partition)
        if operation is not None:
            await asyncio.wait((operation,))

    # -- leaders ----------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begins to pull: this node is registered, and leaders know its incarnation."""
        self._registered = True
        for fetcher in self._fetchers.values():
            self._connect_to_leader(fetcher)

    def end(self) -> None:
        """Pulls no more: leaders must not take a node that stops back into their ISRs."""
        self._registered = False
        self._connected.clear()
        for fetcher in self._fetchers.values():
            self._swap_client(fetcher, None)

    def follow_image(self, old: ClusterImage, new: ClusterImage) -> None:
        """Takes new addresses and incarnations of leaders."""
        if new.members(STORAGE) is not old.members(STORAGE):
            for fetcher in self._fetchers.values():
                self._connect_to_leader(fetcher)

    def _connect_to_leader(self, fetcher: ReplicaFetcher) -> None:
        if not self._registered:
            return
        member = self._image().members(STORAGE).get(fetcher.leader)
        address = address_of(member, self._host_id) if member is not None else ""
        if member is None or not address:
            if self._connected.pop(fetcher.leader, None) is not None:
                self._swap_client(fetcher, None)
        elif self._connected.get(fetcher.leader) != (address, member.incarnation):
            self._connected[fetcher.leader] = address, member.incarnation
            self._swap_client(fetcher, self._connect(address, fetcher.leader))

    def _swap_client(self, fetcher: ReplicaFetcher, client: RpcClient | None) -> None:
        before = fetcher.use_client(client)
        if before is not None:
            self._close_soon(before.close())

    # -- progress ---------------------------------------------------------------------------------------------------------

    def synced(self, partition: Partition) -> None:
        """Notes that the durable offset rose. `round_ended` reports it to the leader."""
        followed = self._followed.get(partition)
        if followed is not None:
            self._changed.setdefault(followed.leader, {})[partition] = None

    def round_ended(self) -> None:
        changed, self._changed = self._changed, {}
        for leader, logs in changed.items():
            fetcher = self._fetchers.get(leader)
            if fetcher is not None:
                fetcher.report_progress(logs)

    def log_start_rose(self, partition: Partition) -> None:
        """Reports a new log start after this turn: a DeleteRecords at the leader may wait for it."""
        self.synced(partition)
        self._loop.call_soon(self.round_ended)

    # -- cutting ----------------------------------------------------------------------------------------------------------

    def _operate(self, followed: FollowedPartition, operation: Operation) -> None:
        task = self._loop.create_task(self._perform(followed, operation), name="cutting a follower's log")
        self._operations[followed.partition] = task
        task.add_done_callback(partial(self._performed, followed))

    async def _perform(self, followed: FollowedPartition, operation: Operation) -> None:
        done = await self._truncation.perform(followed, operation)
        if followed.state is State.TRUNCATING:
            if done:
                self._meters.cuts += 1
                followed.happened(Event.TRUNCATED)
            else:
                followed.back_off(self._loop.time())
            self._fetchers[followed.leader].resume(followed)

    def _performed(self, followed: FollowedPartition, task: "asyncio.Task[None]") -> None:
        del self._operations[followed.partition]
        if not task.cancelled() and (error := task.exception()) is not None:
            # Only the next opening finds out what is in the log now.
            log.error("truncation failed", exc_info=error, extra=fields(partition=followed.partition))
            followed.partition.offline = True
            if followed.state is State.TRUNCATING:
                followed.happened(Event.FAILED)

    def debug(self) -> object:
        """The followed partitions by leader."""
        return {
            leader: {
                str(followed.partition): {
                    "state": followed.state.value,
                    "leader_epoch": followed.leader_epoch,
                    "at": followed.position,
                    "lag": followed.lag,
                }
                for followed in fetcher.followed.values()
            }
            for leader, fetcher in self._fetchers.items()
        }

    # -- ends -------------------------------------------------------------------------------------------------------------

    def _close_soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Ends all following, and waits for truncations."""
        self._registered = False
        for partition in list(self._followed):
            self.stop_fetching(partition)
        await asyncio.gather(*self._operations.values(), *self._closing, return_exceptions=True)
        await self._starts.close()
