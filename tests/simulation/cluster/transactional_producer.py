"""A transactional producer, as a client library runs one: it asks again what may be asked again, and knows when all is lost.

Clients before `transaction.version` 2 keep their epoch, so a request that is late can land in their next transaction. Where one
may be on its way, such a producer takes a new epoch before it begins another transaction.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from libs.wire.errors import ErrorCode
from libs.wire.messages.init_producer_id import InitProducerIdRequest
from libs.wire.record_batches.records import Record
from tests.history.model import Type
from tests.simulation.cluster import kafka_client, kafka_groups, kafka_transactions
from tests.simulation.cluster.clients import NOT_STORED, REQUEST_S, RETRIABLE, RETRY_S, Client, key_of
from tests.simulation.cluster.kafka_client import Disconnected, Link, Partition
from tests.simulation.cluster.kafka_transactions import Generation, Session

PATIENCE_S = 16.0
"""So long a producer asks again. It is longer than most transactions may take."""

ELSEWHERE = frozenset(
    map(int, (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
)
"""Ask again, and elsewhere. Nobody says whether the request was carried out."""
AGAIN = ELSEWHERE | RETRIABLE | {int(ErrorCode.CONCURRENT_TRANSACTIONS)}
ABORTABLE = frozenset((int(ErrorCode.TRANSACTION_ABORTABLE),))
OVER = frozenset(
    map(
        int,
        (
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ErrorCode.INVALID_TXN_STATE,
        ),
    )
)
"""The producer has lost its transactional id, or its transaction."""


class Abortable(Exception):
    """The transaction cannot be committed."""


class Fenced(Exception):
    """The producer is of no more use, and its transaction cannot be committed by it."""


class TransactionalProducer:
    """One producer of a transactional id. `superseded`: another one has taken the id, so nothing that begins then may succeed."""

    def __init__(self, client: Client, transactional_id: str, generation: Generation, timeout_ms: int) -> None:
        self._client, self._world, self.generation = client, client.world, generation
        self.transactional_id, self._timeout_ms = transactional_id, timeout_ms
        self._session: Session | None = None
        self._sequences: dict[Partition, int] = {}
        self._added: set[object] = set()
        self._coordinators: dict[int, Link] = {}
        """Links to the coordinators of the transactional id and of the group, by type of key."""
        self._late = False
        """Whether a request of this epoch may be on its way yet."""
        self.superseded = False
        self.is_lost = False

    @property
    def session(self) -> Session:
        assert self._session is not None
        return self._session

    async def open(self) -> bool:
        """Takes the transactional id. False: nobody answers."""
        request = InitProducerIdRequest(self.transactional_id, self._timeout_ms)
        try:
            answer = await self._ask(request, kafka_transactions.INIT_VERSION)
        except Abortable:
            return False
        if answer.error_code:
            self._unexpected("InitProducerId", answer.error_code)
            return False
        self._session = Session(self.transactional_id, answer.producer_id, answer.producer_epoch)
        self._forget()
        return True

    async def begin(self) -> bool:
        """Whether a transaction can begin."""
        self._added.clear()
        if self.is_lost or self._session is None:
            return False
        return await self.open() if self._late and self.generation.adds else True

    async def send(self, partition: Partition, records: Sequence[Record]) -> int:
        """Sends a batch. Returns its offset, -1 if nobody said where. Raises Abortable and Fenced."""
        if self.generation.adds and partition not in self._added:
            await self._join(partition, self.session.add(partition), kafka_transactions.ADD_PARTITIONS_VERSION)
        is_zombie = self.superseded
        sequence = self._sequences.get(partition, 0)
        batch = self.session.batch(records, sequence)
        deadline = self._now + PATIENCE_S
        while self._now < deadline:
            error, offset = await self._produce(partition, batch)
            if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._refused_to_be(is_zombie, f"its batch at {key_of(partition)}")
                self._sequences[partition] = sequence + len(records)
                return offset if error == ErrorCode.NONE else -1
            if error not in AGAIN:
                self._raise(f"Produce {self.generation.produce} to {key_of(partition)}", error)
            await asyncio.sleep(RETRY_S)
            await self._client.refresh()
        raise Abortable

    async def send_offsets(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Commits a group's offsets with the transaction. Raises Abortable and Fenced."""
        if self.generation.adds and group not in self._added:
            await self._join(group, self.session.add_offsets(group), kafka_transactions.ADD_OFFSETS_VERSION)
        is_zombie = self.superseded
        request = self.session.commit_offsets(group, offsets)
        answer = await self._ask(request, self.generation.commit_offsets, group=group)
        if error := kafka_transactions.error_of(answer):
            self._raise(f"TxnOffsetCommit {self.generation.commit_offsets}", error)
        self._refused_to_be(is_zombie, "its offsets")

    async def end(self, *, commit: bool) -> Type:
        """Ends the transaction. Returns its outcome: `info` if nobody knows. Afterwards the producer may be lost."""
        is_zombie, was_late = self.superseded, self._late
        self._late = False
        try:
            answer = await self._ask(self.session.end(commit=commit), self.generation.end)
        except Abortable:
            self.is_lost = True
            return "info" if commit else "fail"
        in_doubt, self._late = self._late, self._late or was_late
        if answer.error_code:
            self.is_lost = True
            if answer.error_code not in OVER | ABORTABLE:
                self._unexpected(f"EndTxn {self.generation.end}", answer.error_code)
            return "info" if commit and in_doubt else "fail"
        if commit:
            self._refused_to_be(is_zombie, "its commit")
        if not self.generation.adds:
            self._session = Session(self.transactional_id, answer.producer_id, answer.producer_epoch)
            self._forget()
        return "ok" if commit else "fail"

    def close(self) -> None:
        for link in self._coordinators.values():
            link.close()

    # --- requests

    async def _join(self, what: object, request: Any, version: int) -> None:
        is_zombie = self.superseded
        if error := kafka_transactions.error_of(await self._ask(request, version)):
            self._raise(type(request).__name__, error)
        self._refused_to_be(is_zombie, f"that {what} is added")
        self._added.add(what)

    async def _produce(self, partition: Partition, batch: bytes) -> tuple[int, int]:
        """(error, offset)"""
        try:
            link = await self._client.leader(partition)
            if link is None:
                return int(ErrorCode.LEADER_NOT_AVAILABLE), -1
            produced = await kafka_client.produce(
                *(link, partition, batch, -1, REQUEST_S),
                version=self.generation.produce,
                transactional_id=self.transactional_id,
            )
        except Disconnected as failure:
            self._late = self._late or failure.sent
            return int(ErrorCode.NETWORK_EXCEPTION), -1
        not_stored = NOT_STORED | {int(ErrorCode.CONCURRENT_TRANSACTIONS)}
        self._late = self._late or (produced.error in RETRIABLE and produced.error not in not_stored)
        return produced.error, produced.base_offset

    async def _ask(self, request: Any, version: int, *, group: str = "") -> Any:
        """The answer of a coordinator that can say. Raises Abortable: there is none in time."""
        deadline = self._now + PATIENCE_S
        while self._now < deadline:
            try:
                answer = await kafka_transactions.ask(await self._coordinator(group), request, version, REQUEST_S)
            except Disconnected as failure:
                self._late = self._late or failure.sent
                await asyncio.sleep(RETRY_S)
                continue
            error = kafka_transactions.error_of(answer)
            if error not in AGAIN:
                return answer
            if error != ErrorCode.CONCURRENT_TRANSACTIONS:
                self._late = True
                self._coordinators.pop(self._type_of(group)).close()
            await asyncio.sleep(RETRY_S)
        raise Abortable

    async def _coordinator(self, group: str) -> Link:
        """Raises Disconnected."""
        key_type = self._type_of(group)
        link = self._coordinators.get(key_type)
        if link is None or link.lost:
            key = group or self.transactional_id
            address = await kafka_groups.coordinator(await self._client.any_gateway(), key, REQUEST_S, key_type)
            link = self._coordinators[key_type] = await self._client.own_link(address)
        return link

    def _type_of(self, group: str) -> int:
        return kafka_groups.GROUP if group else kafka_groups.TRANSACTION

    @property
    def _now(self) -> float:
        return self._world.loop.time()

    # --- what answers mean

    def _forget(self) -> None:
        """A new epoch: nothing that is late belongs to it."""
        self._sequences.clear()
        self._late = False

    def _raise(self, what: str, error: int) -> None:
        if error in ABORTABLE:
            raise Abortable
        self.is_lost = True
        self._world.sometimes("a producer that was replaced was refused", self.superseded)
        if error not in OVER:
            self._unexpected(what, error)
        raise Fenced

    def _refused_to_be(self, is_zombie: bool, what: str) -> None:
        if is_zombie:
            self._world.violation(f"10: {self.transactional_id}: a producer that was replaced had {what} taken: {self._session}")

    def _unexpected(self, what: str, error: int) -> None:
        self._world.violation(f"10: {self.transactional_id}: {what} of {self._session} is answered {ErrorCode(error).name}")
