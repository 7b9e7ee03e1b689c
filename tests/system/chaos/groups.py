"""Groups that read what is never lost, through whatever happens, and commit it; and somebody who asks what they have committed.

Commits and answers are in the history, so that the judge sees whether an offset fell back.
"""

import threading
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.history.model import Commit, Key, Offset, Position
from tests.system.chaos.consumers import RETRIABLE_ERRORS
from tests.system.chaos.recorder import Recorder, key_of

PROTOCOLS = ("classic", "consumer")
MEMBERS = 2
ASKED_EVERY_S = 0.2
COMING = {
    *RETRIABLE_ERRORS,
    KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
}
LATE = {
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.FENCED_MEMBER_EPOCH,
    KafkaError._ASSIGNMENT_LOST,
}
"""What a member is told that was silent for too long, by its commits."""


class GroupReaders:
    """One group for each protocol. `start`, then `short` until it is empty, then `close`."""

    def __init__(self, recorder: Recorder, bootstrap: str, topics: Mapping[str, int]) -> None:
        self._recorder, self._bootstrap, self._topics = recorder, bootstrap, topics
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._read: dict[str, dict[Key, set[Offset]]] = {f"group-{protocol}": {} for protocol in PROTOCOLS}
        self._observed: dict[str, dict[Key, Offset]] = {name: {} for name in self._read}
        self.complaints: list[str] = []
        """What was not to be, and is in no history."""
        self._threads = [
            *(self._thread(self._work, name, protocol) for name, protocol in self._named() for _ in range(MEMBERS)),
            *(self._thread(self._watch, name, protocol) for name, protocol in self._named()),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def short(self, ends: Mapping[Key, Offset]) -> list[str]:
        """The partitions that the groups have not read, or not committed, up to those offsets."""
        wanted = {key_of(topic, index): 0 for topic, count in self._topics.items() for index in range(count)}
        wanted |= {key: end + 1 for key, end in ends.items() if key in wanted}
        found = []
        with self._lock:
            for name, read in self._read.items():
                for key, end in wanted.items():
                    missing = set(range(end)) - read.get(key, set())
                    if missing:
                        found.append(f"{name} has not read {len(missing)} of {end} in {key}, e.g. {sorted(missing)[:3]}")
                    elif self._observed[name].get(key, 0) < end:
                        found.append(f"{name} is at {self._observed[name].get(key, 0)} of {end} in {key}")
        return found

    def _named(self) -> list[tuple[str, str]]:
        return list(zip(self._read, PROTOCOLS, strict=True))

    def _thread(self, work: object, *arguments: str) -> threading.Thread:
        return threading.Thread(target=work, args=arguments, name=f"{arguments[0]} of chaos")  # type: ignore[arg-type]

    def _consumer(self, name: str, protocol: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": name,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 2,
            }
        )

    def _work(self, name: str, protocol: str) -> None:
        consumer, process = self._consumer(name, protocol), self._recorder.process()
        consumer.subscribe(list(self._topics))
        try:
            while not self._stopping.is_set():
                self._take(consumer, process, name)
        finally:
            consumer.close()

    def _take(self, consumer: Consumer, process: int, name: str) -> None:
        offsets: dict[tuple[str, int], Offset] = {}
        for message in consumer.consume(1000, timeout=0.2):
            if (error := message.error()) is not None:
                self._heard(name, error)
                continue
            topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            offsets[topic, partition] = offset + 1
            self.has_read(name, key_of(topic, partition), offset)
        if not offsets:
            return
        commit = (Commit(name, {key_of(*where): offset for where, offset in offsets.items()}),)
        begun = self._recorder.begin(process, "offsets", commit)
        try:
            done = consumer.commit(
                offsets=[TopicPartition(*where, offset) for where, offset in offsets.items()], asynchronous=False
            )
        except KafkaException as error:
            self._heard(name, error.args[0])
            self._recorder.end(begun, "info", commit)
            return
        kept = {key_of(one.topic, one.partition): one.offset for one in done or () if one.error is None}
        for one in done or ():
            if one.error is not None:
                self._heard(name, one.error)
        self._recorder.end(begun, "ok" if kept else "info", (Commit(name, kept),) if kept else commit)

    def _watch(self, name: str, protocol: str) -> None:
        """Asks for committed offsets by a consumer that never joins."""
        consumer, process = self._consumer(name, protocol), self._recorder.process()
        asked = [TopicPartition(topic, index) for topic, count in self._topics.items() for index in range(count)]
        try:
            while not self._stopping.wait(ASKED_EVERY_S):
                begun = self._recorder.begin(process, "offsets")
                try:
                    found = consumer.committed(asked, timeout=5.0)
                except KafkaException as error:
                    self._heard(name, error.args[0])
                    self._recorder.end(begun, "info")
                    continue
                offsets = {key_of(one.topic, one.partition): max(one.offset, 0) for one in found if one.error is None}
                self._recorder.end(begun, "ok", (Position(name, offsets),))
                self.observe(name, offsets)
        finally:
            consumer.close()

    def has_read(self, name: str, key: Key, offset: Offset) -> None:
        with self._lock:
            self._read[name].setdefault(key, set()).add(offset)

    def observe(self, name: str, offsets: Mapping[Key, Offset]) -> None:
        """Notes the offsets that a group has committed, and complains if one went back."""
        with self._lock:
            for key, offset in offsets.items():
                if offset < self._observed[name].get(key, 0):
                    self.complaints.append(f"{name} was at {self._observed[name][key]} of {key}, and is at {offset}")
            self._observed[name] |= offsets

    def _heard(self, name: str, error: KafkaError) -> None:
        if error.code() not in COMING | LATE:
            self._recorder.surprise(f"process {name}: a member was told: {error.name()}")


def caught_up(readers: GroupReaders, ends: Mapping[Key, Offset], within_s: float) -> Sequence[str]:
    """Returns what is still short after that time, or what should not be."""
    deadline = time.monotonic() + within_s
    while (short := readers.short(ends)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return [*readers.complaints, *short]
