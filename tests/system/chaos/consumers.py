"""Consumers that read all partitions from their beginnings through whatever happens, and record each poll."""

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.history.model import Key, Offset, Op, Poll
from tests.system.chaos.recorder import Recorder, key_of, value_in

Records = dict[Key, list[tuple[Offset, int]]]
RETRIABLE_ERRORS = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TIMED_OUT)


class Reader(Protocol):
    def start(self) -> None: ...

    def close(self) -> None: ...

    def reached(self) -> Mapping[Key, Offset]:
        """The last offset that it read, by partition."""


class _Positions:
    """A reader's thread, and its positions."""

    def __init__(self, recorder: Recorder, keys: Sequence[Key]) -> None:
        self._recorder, self._keys = recorder, tuple(keys)
        self._process = recorder.process()
        self._reached: dict[Key, Offset] = {}

    def assigned(self) -> None:
        self._recorder.end(self._recorder.begin(self._process, "assign", keys=self._keys, sought=True), "ok")

    def begin(self) -> Op:
        return self._recorder.begin(self._process, "poll")

    def end(self, begun: Op, found: Records) -> None:
        value = (Poll({key: tuple(pairs) for key, pairs in found.items()}),) if found else ()
        self._recorder.end(begun, "ok", value)
        self._reached |= {key: pairs[-1][0] for key, pairs in found.items()}

    def failed(self, begun: Op, words: str) -> None:
        self._recorder.surprise(f"process {self._process}: a poll raised {words}")
        self._recorder.end(begun, "fail")

    def reached(self) -> Mapping[Key, Offset]:
        return dict(self._reached)


class ConfluentReader:
    """librdkafka's consumer, in a thread of its own."""

    def __init__(self, recorder: Recorder, bootstrap: str, topics: Mapping[str, int]) -> None:
        self._where = [(topic, index) for topic, count in topics.items() for index in range(count)]
        self._positions = _Positions(recorder, [key_of(*where) for where in self._where])
        self._bootstrap = bootstrap
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="reads by librdkafka")
        self.start, self.reached = self._thread.start, self._positions.reached

    def close(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        reader = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "log_level": 2,
            }
        )
        try:
            reader.assign([TopicPartition(*where, OFFSET_BEGINNING) for where in self._where])
            self._positions.assigned()
            while not self._stopping.is_set():
                self._poll(reader)
        finally:
            reader.close()

    def _poll(self, reader: Consumer) -> None:
        begun = self._positions.begin()
        found: Records = {}
        wrong = []
        for message in reader.consume(1000, timeout=0.2):
            if (error := message.error()) is not None:
                if error.code() not in RETRIABLE_ERRORS:
                    wrong.append(str(error))
                continue
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            found.setdefault(key_of(topic, partition), []).append((offset, value_in(message.value())))
        if wrong and not found:
            self._positions.failed(begun, wrong[0])
        else:
            self._positions.end(begun, found)


class AioReader:
    """aiokafka's consumer, on an event loop in a thread of its own."""

    def __init__(self, recorder: Recorder, bootstrap: str, topics: Mapping[str, int]) -> None:
        self._partitions = [AioPartition(topic, index) for topic, count in topics.items() for index in range(count)]
        self._positions = _Positions(recorder, [key_of(*where) for where in self._partitions])
        self._bootstrap = bootstrap
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._work()), name="reads by aiokafka")
        self.start, self.reached = self._thread.start, self._positions.reached

    def close(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    async def _work(self) -> None:
        while not self._stopping.is_set():
            reader = AIOKafkaConsumer(
                bootstrap_servers=self._bootstrap.split(","), enable_auto_commit=False, auto_offset_reset="none"
            )
            try:
                await reader.start()
            except AioError:  # nobody is there to bootstrap from
                await reader.stop()
                await asyncio.sleep(0.2)
                continue
            try:
                reader.assign(self._partitions)
                await self._go_to_beginning(reader)
                self._positions.assigned()
                while not self._stopping.is_set():
                    await self._poll(reader)
            finally:
                await reader.stop()

    async def _go_to_beginning(self, reader: AIOKafkaConsumer) -> None:
        for partition in self._partitions:
            reader.seek(partition, 0)

    async def _poll(self, reader: AIOKafkaConsumer) -> None:
        begun = self._positions.begin()
        try:
            batches = await reader.getmany(timeout_ms=200, max_records=1000)
        except AioError as error:
            self._positions.failed(begun, repr(error))
            await asyncio.sleep(0.1)
            return
        self._positions.end(
            begun,
            {
                key_of(where.topic, where.partition): [(record.offset, value_in(record.value)) for record in records]
                for where, records in batches.items()
                if records
            },
        )


def read_to(reader: Reader, ends: Mapping[Key, Offset], within_s: float) -> dict[Key, Offset]:
    """Returns the partitions in which it did not come to `ends` in time, and how far it came."""
    deadline = time.monotonic() + within_s
    while True:
        reached = reader.reached()
        short = {key: reached.get(key, -1) for key, end in ends.items() if reached.get(key, -1) < end}
        if not short or time.monotonic() > deadline:
            return short
        time.sleep(0.05)
