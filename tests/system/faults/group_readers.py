"""Groups of real clients that read everything and commit it, and somebody who asks all the time what is committed."""

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from libs.wire.api_keys import ApiKey
from libs.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from services.local.cluster_shape import PORTS_PER_GATEWAY
from tests.support.polling import eventually
from tests.system.storm.wire import Connection

WITHIN_S = 120.0
CLOSES_WITHIN_S = 60.0
COMING = {14, 15, 16}
"""A coordinator that is being found or loaded: all that may be answered to a question for offsets."""
RETRIABLE_ERRORS = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,  # it has not heard of its new epoch yet, and librdkafka lets the application say it again
    KafkaError.NETWORK_EXCEPTION,
}


class Group:
    """The records that a group's members read, by (partition, offset), and the commits that they know of."""

    def __init__(self, topic: str, name: str) -> None:
        self.topic, self.name = topic, f"{topic}-{name}"
        self.read: Counter[tuple[int, int]] = Counter()
        self.committed: dict[int, int] = {}
        self.errors: list[str] = []
        """That no client should see, whatever dies."""
        self._lock = threading.Lock()

    def has_read(self, offsets: Mapping[int, Sequence[int]]) -> None:
        with self._lock:
            for partition, found in offsets.items():
                self.read.update((partition, offset) for offset in found)

    def has_committed(self, offsets: Mapping[int, int]) -> None:
        with self._lock:
            for partition, offset in offsets.items():
                self.committed[partition] = max(self.committed.get(partition, 0), offset)

    def known(self) -> dict[int, int]:
        with self._lock:
            return dict(self.committed)

    @property
    def twice(self) -> list[tuple[int, int]]:
        with self._lock:
            return sorted(where for where, count in self.read.items() if count > 1)


class Member(Protocol):
    def start(self) -> None: ...

    def close(self) -> None: ...


class ConfluentMember:
    """librdkafka's, by either protocol, in a thread of its own."""

    def __init__(self, bootstrap: str, group: Group, protocol: str) -> None:
        self._group = group
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group.name,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
            "log_level": 2,
            "error_cb": self._heard,
        }
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"reads for {group.name}")
        self.start = self._thread.start

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _work(self) -> None:
        consumer = Consumer(self._settings)
        consumer.subscribe([self._group.topic])
        try:
            while not self._stopping.is_set():
                if messages := consumer.consume(200, timeout=0.1):
                    self._take(consumer, messages)
        finally:
            consumer.close()

    def _take(self, consumer: Consumer, messages: list[Message]) -> None:
        found: dict[int, list[int]] = {}
        for message in messages:
            if (error := message.error()) is not None:
                self._heard(error)
            else:
                found.setdefault(message.partition() or 0, []).append(message.offset() or 0)
        self._group.has_read(found)
        if not found:
            return
        try:
            done = consumer.commit(asynchronous=False)
        except KafkaException as error:
            self._heard(error.args[0])  # the next commit says it again
            return
        for partition in done or ():
            if partition.error is not None:
                self._heard(partition.error)
            elif partition.offset >= 0:  # else nothing has been read of it
                self._group.has_committed({partition.partition: partition.offset})

    def _heard(self, error: KafkaError) -> None:
        if error.code() not in RETRIABLE_ERRORS:
            self._group.errors.append(f"{error.name()}: {error.str()}")


class AioMember:
    """aiokafka's, on an event loop in a thread of its own."""

    def __init__(self, bootstrap: str, group: Group) -> None:
        self._bootstrap, self._group = bootstrap, group
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), name=f"reads for {group.name}")
        self._consumer: AIOKafkaConsumer | None = None
        self.start = self._thread.start

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()

    def ports(self) -> set[int]:
        """The ports of the brokers that the client knows."""
        return {broker.port for broker in self._consumer._client.cluster.brokers()} if self._consumer is not None else set()

    async def _live(self) -> None:
        """The consumer's life. While no broker answers it retries for ever, also to leave."""
        working = asyncio.create_task(self._work())
        await asyncio.to_thread(self._stopping.wait)
        _, left = await asyncio.wait([working], timeout=CLOSES_WITHIN_S)
        if left:
            working.cancel()
            await asyncio.wait([working])
            self._group.errors.append("it did not stop")
        elif (failure := working.exception()) is not None:
            self._group.errors.append(repr(failure))

    async def _work(self) -> None:
        consumer = AIOKafkaConsumer(
            self._group.topic,
            bootstrap_servers=self._bootstrap.split(","),
            group_id=self._group.name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=30_000,
            metadata_max_age_ms=500,  # it never goes back to where it began: it has to hear of the next gateway in time
        )
        self._consumer = consumer
        await consumer.start()
        try:
            while not self._stopping.is_set():
                batches = await consumer.getmany(timeout_ms=100, max_records=200)
                self._group.has_read({where.partition: [one.offset for one in found] for where, found in batches.items()})
                if not batches:
                    continue
                offsets = {where: found[-1].offset + 1 for where, found in batches.items()}
                try:
                    await consumer.commit(offsets)
                except AioError as error:
                    if not error.retriable:
                        self._group.errors.append(repr(error))
                else:
                    self._group.has_committed({where.partition: offset for where, offset in offsets.items()})
        finally:
            await consumer.stop()


class Watcher:
    """Asks, as nobody in particular, for what all groups have committed, again and again, at whichever gateway is there.

    What was acknowledged before a question, or answered to an earlier one, is the least that it may be told.
    """

    def __init__(self, ports: tuple[int, ...], groups: Sequence[Group], partitions: int) -> None:
        self.complaints: list[str] = []
        self.answers = 0
        self.seen: dict[tuple[str, int], int] = {}
        self._ports, self._groups, self._partitions = ports, groups, partitions
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._work()), name="watches offsets")
        self.start = self._thread.start

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()

    async def _work(self) -> None:
        connection = Connection(self._ports, random.Random("watcher"), "watcher")
        try:
            while not self._stopping.is_set():
                try:
                    async with asyncio.timeout(5.0):  # else it would be held by a gateway that says nothing
                        await self._look(connection)
                except TimeoutError:
                    connection.cut()
                await asyncio.sleep(0.02)
        finally:
            connection.cut()

    async def _look(self, connection: Connection) -> None:
        least = {(group.name, partition): offset for group in self._groups for partition, offset in group.known().items()}
        request = OffsetFetchRequest()
        for group in self._groups:
            topic = OffsetFetchRequestTopics(name=group.topic, partition_indexes=list(range(self._partitions)))
            request.groups.append(OffsetFetchRequestGroup(group.name, None, -1, [topic]))
        answer = await connection.ask(ApiKey.OFFSET_FETCH, 8, request)
        for group in answer.groups:
            if group.error_code:
                if group.error_code not in COMING:
                    self.complaints.append(f"{group.group_id}: error {group.error_code}")
                continue
            self.answers += 1
            for found in group.topics[0].partitions:
                self.compare((group.group_id, found.partition_index), found.committed_offset, least)

    def compare(self, where: tuple[str, int], offset: int, least: Mapping[tuple[str, int], int]) -> None:
        for words, known in (("acknowledged", least.get(where, -1)), ("told before", self.seen.get(where, -1))):
            if offset < known:
                self.complaints.append(f"{where} went back to {offset}, and {known} was {words}")
        self.seen[where] = max(self.seen.get(where, -1), offset)


class Readers:
    """Three groups of one topic, by three clients, and the watcher. Use as a context manager."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        kinds: dict[str, list[Callable[[Group], Member]]] = {
            "classic": [lambda group: ConfluentMember(bootstrap, group, "classic")] * 2,
            "consumer": [lambda group: ConfluentMember(bootstrap, group, "consumer")] * 2,
            "aiokafka": [lambda group: AioMember(bootstrap, group)],
        }
        self.groups = [Group(topic, kind) for kind in kinds]
        made = zip(self.groups, kinds.values(), strict=True)
        self._members = [make(group) for group, makers in made for make in makers]
        ports = tuple(int(address.rpartition(":")[2]) for address in bootstrap.split(","))
        self.watcher = Watcher(ports, self.groups, partitions)

    def __enter__(self) -> "Readers":
        for one in (*self._members, self.watcher):
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in (*self._members, self.watcher):
            one.close()

    def advance(self, records: int = 100) -> None:
        """Returns when each group has read and committed that many more than now, and the watcher was told of some."""
        wanted = [(sum(group.known().values()) + records, group) for group in self.groups]
        answers = self.watcher.answers + len(self.groups)
        eventually(lambda: all(sum(group.known().values()) >= least for least, group in wanted), WITHIN_S)
        eventually(lambda: self.watcher.answers >= answers, WITHIN_S)
        self.check()

    def catch_up(self, ends: Mapping[int, int]) -> None:
        """Returns when all groups have read and committed all there is, and the watcher was told so."""
        everything = {(partition, offset) for partition, end in ends.items() for offset in range(end)}
        for group in self.groups:
            eventually(lambda group=group: group.known() == dict(ends), WITHIN_S)
            missing = everything - group.read.keys()
            assert not missing, f"{group.name} skipped {len(missing)} records, e.g. {sorted(missing)[:5]}"
            wanted = {(group.name, partition): end for partition, end in ends.items()}
            eventually(lambda wanted=wanted: wanted.items() <= self.watcher.seen.items(), WITHIN_S)
        self.check()

    def check(self) -> None:
        assert not self.watcher.complaints, self.watcher.complaints[:5]
        for group in self.groups:
            assert not group.errors, (group.name, group.errors[:5])

    def know_gateways(self, count: int) -> None:
        """Returns when all members know brokers behind so many gateways; those that go back to where they began need not."""
        known = [member.ports for member in self._members if isinstance(member, AioMember)]
        eventually(lambda: all(len({port // PORTS_PER_GATEWAY for port in ports()}) == count for ports in known), WITHIN_S)

    def idle_for(self, seconds: float) -> None:
        """Lets the members go on for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.advance(20)
