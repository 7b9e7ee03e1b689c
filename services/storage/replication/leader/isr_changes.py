"""Asks the elected controller for the ISRs that this node's partitions should have, many at a time, until each is settled.

What should change is decided in `services/storage/core/`; here are only the clock, the controller, and what its answers mean. A
request that brought no answer may have been applied: the partition counts both the old and the new ISR until a state tells, and
the same proposal is sent again, which the controller applies once. It handles what a node sends in order, and a deposed
controller's writes fail; so if it refuses and still has the state that the proposal was made on, nothing of it was or will be
applied, however often it was sent. Any other refusal leaves the proposal open.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from libs.cluster.records import STORAGE, InSync
from libs.rpc.contracts.controller import ALTER_PARTITIONS, AlteredPartition, AlterPartitions, AlterPartitionsReply, NewIsr
from libs.rpc.errors import ContractError, RpcFailure
from libs.rpc.schema import unpack
from libs.runtime.controllers import Controllers
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode
from services.storage.core.follower_progress import LagLimits
from services.storage.core.in_sync import Proposal
from services.storage.hosted import Hosted
from services.storage.meters import Meters
from services.storage.partitions import Partitions
from services.storage.timers import Timers
from services.storage.turns import Turns

log = logging.getLogger(__name__)

CHECK_S = 1.0
"""How often followers are looked at; who may join is not kept waiting for it."""
BATCH = 1000
RETRY_FIRST_S, RETRY_MAX_S = 0.1, 2.0
REFUSED_S = 1.0
"""A proposal that was refused is not made again before."""
NOT_CONTROLLER = int(ErrorCode.NOT_CONTROLLER)


class IsrChanges:
    """`consider` a partition whose ISR a follower may join; everything else is noticed once a second."""

    def __init__(
        self,
        node_id: int,
        incarnation: int,
        partitions: Partitions,
        controller: Controllers,
        meters: Meters,
        *,
        limits: Callable[[], LagLimits],
        on_committed: Callable[[Hosted], None],
    ) -> None:
        self._node_id = node_id
        self._incarnation = incarnation
        self._partitions = partitions
        self._controller = controller
        self._meters = meters
        self._limits = limits
        self._lag = limits()
        self._on_committed = on_committed
        self._loop = asyncio.get_running_loop()
        self._unsent: dict[Hosted, Proposal] = {}
        self._refused_until: dict[Hosted, float] = {}
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

    def consider(self, hosted: Hosted) -> None:
        now = self._loop.time()
        if hosted.offline or self._refused_until.get(hosted, 0.0) > now:
            return
        replica = hosted.replica
        committed = replica.high_watermark
        proposal = replica.decide(now, self._lag, self._is_eligible, hosted.log_start_offset)
        if replica.high_watermark > committed:
            self._on_committed(hosted)  # a member that restarted counts in its new life too, from the moment it is proposed
        if proposal is not None:
            self._unsent[hosted] = proposal
            self._proposed.set()

    def _is_eligible(self, node_id: int, incarnation: int) -> bool:
        member = self._partitions.image.members(STORAGE).get(node_id)
        return member is not None and member.incarnation == incarnation and not member.stopping

    async def _check(self) -> None:
        turns = Turns()
        while True:
            await asyncio.sleep(CHECK_S)
            now = self._loop.time()
            self._lag = self._limits()
            self._refused_until = {hosted: until for hosted, until in self._refused_until.items() if until > now}
            for hosted in list(self._partitions.by_key.values()):
                if hosted.replica.has_followers or hosted.replica.lax:
                    self.consider(hosted)
                    await turns.taken()

    async def _send(self) -> None:
        delay_s = RETRY_FIRST_S
        while True:
            await self._proposed.wait()
            self._proposed.clear()
            while batch := self._batch():
                try:
                    open_still = await self._ask(batch)
                except (RpcFailure, ContractError) as error:
                    log.info("ISR changes wait", extra=fields(reason=error, partitions=len(batch)))
                    await asyncio.sleep(delay_s)
                    delay_s = min(RETRY_MAX_S, 2 * delay_s)
                    self._ask_again(batch)
                    continue
                delay_s = RETRY_FIRST_S
                if open_still:
                    self._timers.later(RETRY_MAX_S, partial(self._ask_again, open_still))

    def _ask_again(self, batch: list[tuple[Hosted, Proposal]]) -> None:
        for hosted, proposal in batch:
            self._unsent.setdefault(hosted, proposal)
        self._proposed.set()

    def _batch(self) -> list[tuple[Hosted, Proposal]]:
        """Those that are still open: a state may have settled a proposal that waits here."""
        batch: list[tuple[Hosted, Proposal]] = []
        for hosted in list(self._unsent):
            if len(batch) == BATCH:
                break
            proposal = self._unsent.pop(hosted)
            if hosted.replica.isr.proposal is proposal:
                batch.append((hosted, proposal))
        return batch

    async def _ask(self, batch: list[tuple[Hosted, Proposal]]) -> list[tuple[Hosted, Proposal]]:
        """Those that must be asked again. Raises RpcFailure, ContractError: nobody knows what became of them."""
        wanted = tuple([_new_isr(hosted, proposal) for hosted, proposal in batch])
        response = await self._controller.call(ALTER_PARTITIONS, AlterPartitions(self._node_id, self._incarnation, wanted))
        answers = unpack(AlterPartitionsReply, response.body).partitions
        if len(answers) != len(batch):
            raise ContractError(f"{len(answers)} answers to {len(batch)} ISR changes")
        return [asked for asked, answer in zip(batch, answers, strict=True) if not self._settled(*asked, answer)]

    def _settled(self, hosted: Hosted, proposal: Proposal, answer: AlteredPartition) -> bool:
        """False: it is to be sent again."""
        replica = hosted.replica
        if replica.isr.proposal is not proposal:
            return True
        rose = False
        before = len(replica.isr.committed)
        is_ours = answer.leader == self._node_id and answer.leader_epoch == proposal.leader_epoch
        if is_ours:
            rose = replica.isr_shown(answer.partition_epoch, [InSync(*member) for member in answer.isr])
        if replica.isr.proposal is not proposal:
            self._tell(hosted, before)
        elif is_ours and answer.partition_epoch == proposal.partition_epoch and answer.error not in (0, NOT_CONTROLLER):
            log.info("ISR change refused", extra=fields(partition=hosted, error=answer.error, isr=proposal.isr))
            self._refused_until[hosted] = self._loop.time() + REFUSED_S
            rose = replica.isr_refused(proposal)
        elif is_ours and not answer.error and {InSync(*member) for member in answer.isr} == set(proposal.isr):
            rose = replica.isr_refused(proposal)  # it held already, and what was said with it is known
        else:
            # Of another epoch, perhaps one that began with what was proposed here: to take it back would let the high watermark
            # pass a replica that is in the ISR. The image will settle it.
            return False
        if rose:
            self._on_committed(hosted)
        return True

    def _tell(self, hosted: Hosted, before: int) -> None:
        isr = hosted.replica.isr.committed
        self._meters.isr_shrinks += len(isr) < before
        self._meters.isr_expands += len(isr) > before
        log.info("ISR changed", extra=fields(partition=hosted, isr=list(isr), was=before))


def _new_isr(hosted: Hosted, proposal: Proposal) -> NewIsr:
    topic_id, index = hosted.key
    isr = tuple([(member.node_id, member.incarnation) for member in proposal.isr])
    return NewIsr(topic_id, index, proposal.leader_epoch, proposal.partition_epoch, isr, hosted.replica.is_durable)
