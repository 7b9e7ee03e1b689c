"""ISR changes: the leader asks the elected controller for the ISRs that its partitions should have, until each request is
settled.

The decisions are in `services/storage/core/replication/leader/`. Here are only the clock, the controller, and the meaning of its
answers. A request without an answer may have been applied. So the partition counts both the old and the new ISR until a state
settles it. The same proposal is sent again, and the controller applies it once.

The controller handles a node's requests in order, and a deposed controller's writes fail. So a refusal with the very state that
the proposal was made on is final: the proposal was never applied, and never will be. Any other refusal leaves the proposal open.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

from libs.cluster.records import STORAGE, InSync
from libs.rpc.contracts.controller import ALTER_PARTITIONS, AlteredPartition, AlterPartitions, AlterPartitionsReply, NewIsr
from libs.rpc.messages.errors import ContractError, RpcFailure
from libs.rpc.messages.schema import unpack
from libs.runtime.controllers import Controllers
from libs.telemetry.log_burst import LogBurst
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode
from services.storage.core.replication.leader.follower_progress import LagLimits
from services.storage.core.replication.leader.in_sync import Proposal
from services.storage.partition.partition import Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.storage_meters import StorageMeters
from services.storage.threads.timers import Timers
from services.storage.threads.turns import Turns

log = logging.getLogger("replication")

CHECK_S = 1.0
"""The interval of checks. A follower that may join does not wait for it."""
BATCH = 1000
RETRY_FIRST_S, RETRY_MAX_S = 0.1, 2.0
REFUSED_S = 1.0
"""The time after which a refused proposal is made again."""
NOT_CONTROLLER = int(ErrorCode.NOT_CONTROLLER)


class IsrChanges:
    """The ISR changes of this node's partitions. `consider` is called when a follower may join; the rest is noticed once a
    second."""

    def __init__(
        self,
        partitions: PartitionTable,
        controller: Controllers,
        meters: StorageMeters,
        *,
        limits: Callable[[], LagLimits],
    ) -> None:
        self._node_id = partitions.node_id
        self._incarnation = partitions.incarnation
        self._partitions = partitions
        self._controller = controller
        self._meters = meters
        self._limits = limits
        self._lag = limits()
        self._loop = asyncio.get_running_loop()
        self._changed_lines = LogBurst(log, "ISR changed", self._loop)
        self._unsent: dict[Partition, Proposal] = {}
        self._refused_until: dict[Partition, float] = {}
        self._proposed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._timers = Timers()

    def start(self) -> None:
        self._tasks = [
            self._loop.create_task(self._check(), name="ISR checks"),
            self._loop.create_task(self._send(), name="ISR changes"),
        ]

    async def close(self) -> None:
        self._timers.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def consider(self, partition: Partition) -> None:
        now = self._loop.time()
        if partition.offline or self._refused_until.get(partition, 0.0) > now:
            return
        proposal = partition.replica.decide(now, self._lag, self._is_eligible, partition.log_start_offset)
        if proposal is not None:
            self._log_proposal(partition, proposal, now)
            self._unsent[partition] = proposal
            self._proposed.set()

    def _log_proposal(self, partition: Partition, proposal: Proposal, now: float) -> None:
        if not log.isEnabledFor(logging.DEBUG):
            return
        replica = partition.replica
        committed, wanted = replica.isr.committed, {member.node_id: member.incarnation for member in proposal.isr}
        shown = replica.followers_shown(now)
        reasons = [
            f"node {node} " + ("has caught up" if node not in committed else "has restarted, and caught up")
            for node, incarnation in wanted.items()
            if committed.get(node) != incarnation
        ]
        reasons += [f"node {node} {_lag_of(shown[str(node)])}" for node in committed if node not in wanted]
        log.debug(
            "ISR change proposed",
            extra=fields(
                partition=partition,
                why="; ".join(reasons) or "its records are durable before they are acknowledged",
                isr=list(wanted),
                was=list(committed),
                lag_s_max=self._lag.time_s,
            ),
        )

    def _is_eligible(self, node_id: int, incarnation: int) -> bool:
        member = self._partitions.image.members(STORAGE).get(node_id)
        return member is not None and member.incarnation == incarnation and not member.stopping

    async def _check(self) -> None:
        turns = Turns()
        while True:
            await asyncio.sleep(CHECK_S)
            now = self._loop.time()
            self._lag = self._limits()
            self._refused_until = {partition: until for partition, until in self._refused_until.items() if until > now}
            await self._consider_all(turns)

    async def _consider_all(self, turns: Turns) -> None:
        """A function of its own: the frame of `_check` would keep the last partition, and so the files of a deleted one."""
        for partition in list(self._partitions.by_key.values()):
            if partition.replica.has_followers or partition.replica.lax:
                self.consider(partition)
                await turns.taken()

    async def _send(self) -> None:
        delay_s = RETRY_FIRST_S
        while True:
            await self._proposed.wait()
            self._proposed.clear()
            while batch := self._batch():
                try:
                    await self._settle(batch)
                except (RpcFailure, ContractError) as error:
                    log.info("ISR changes wait", extra=fields(reason=error, partitions=len(batch)))
                    await asyncio.sleep(delay_s)
                    delay_s = min(RETRY_MAX_S, 2 * delay_s)
                    self._resend(batch)
                    continue
                delay_s = RETRY_FIRST_S

    async def _settle(self, batch: list[tuple[Partition, Proposal]]) -> None:
        if unsettled := await self._request(batch):
            self._timers.later(RETRY_MAX_S, partial(self._resend, unsettled))

    def _resend(self, batch: list[tuple[Partition, Proposal]]) -> None:
        for partition, proposal in batch:
            self._unsent.setdefault(partition, proposal)
        self._proposed.set()

    def _batch(self) -> list[tuple[Partition, Proposal]]:
        """The proposals that are still pending: a state may have settled one meanwhile."""
        batch: list[tuple[Partition, Proposal]] = []
        for partition in list(self._unsent):
            if len(batch) == BATCH:
                break
            proposal = self._unsent.pop(partition)
            if partition.replica.isr.proposal is proposal:
                batch.append((partition, proposal))
        return batch

    async def _request(self, batch: list[tuple[Partition, Proposal]]) -> list[tuple[Partition, Proposal]]:
        """Sends proposals. Returns those to send again. Raises RpcFailure, ContractError: their fate is unknown."""
        wanted = tuple([_new_isr(partition, proposal) for partition, proposal in batch])
        response = await self._controller.call(ALTER_PARTITIONS, AlterPartitions(self._node_id, self._incarnation, wanted))
        answers = unpack(AlterPartitionsReply, response.body).partitions
        if len(answers) != len(batch):
            raise ContractError(f"{len(answers)} answers to {len(batch)} ISR changes")
        return [
            (partition, proposal)
            for (partition, proposal), answer in zip(batch, answers, strict=True)
            if not self._settled(partition, proposal, answer)
        ]

    def _settled(self, partition: Partition, proposal: Proposal, answer: AlteredPartition) -> bool:
        """Takes an answer. False: the proposal must be sent again."""
        replica = partition.replica
        if replica.isr.proposal is not proposal:
            return True
        is_ours = answer.leader == self._node_id and answer.leader_epoch == proposal.leader_epoch
        if is_ours:
            replica.isr_shown(answer.partition_epoch, [InSync(*member) for member in answer.isr])
        if replica.isr.proposal is not proposal:
            return True
        if is_ours and answer.partition_epoch == proposal.partition_epoch and answer.error not in (0, NOT_CONTROLLER):
            log.info("ISR change refused", extra=fields(partition=partition, error=answer.error, isr=proposal.isr))
            self._refused_until[partition] = self._loop.time() + REFUSED_S
            replica.isr_refused(proposal)
        elif is_ours and not answer.error and {InSync(*member) for member in answer.isr} == set(proposal.isr):
            replica.isr_refused(proposal)  # the ISR was so already, and its durability is known now
        else:
            # The answer is of another epoch, which may have begun with this proposal. To take it back could let the high
            # watermark pass a replica in the ISR. The image will settle it.
            return False
        return True

    def report(self, partition: Partition) -> None:
        """Logs and counts a changed ISR, whether an answer of the controller or the image told of it."""
        replica = partition.replica
        before, isr = replica.reported_isr, replica.isr.committed
        if not replica.leading or before.keys() == isr.keys():
            return
        replica.reported_isr = isr
        self._meters.isr_shrinks += bool(before.keys() - isr.keys())
        self._meters.isr_expands += bool(isr.keys() - before.keys())
        self._changed_lines.write(partition=partition, isr=list(isr), was=list(before))


def _lag_of(follower: Mapping[str, object]) -> str:
    """Why a follower leaves, as the leader sees it."""
    if not follower["reported"]:
        return "has not reported in this epoch"
    lacks, lacks_durable = follower["lacks"], follower["lacks_durable"]
    return f"lacks {lacks} records ({lacks_durable} durable ones), and had all {follower['caught_up_ago_s']} s ago"


def _new_isr(partition: Partition, proposal: Proposal) -> NewIsr:
    topic_id, index = partition.key
    isr = tuple([(member.node_id, member.incarnation) for member in proposal.isr])
    return NewIsr(topic_id, index, proposal.leader_epoch, proposal.partition_epoch, isr, partition.replica.is_durable)
