"""One run of a cluster under several clients while its processes die, hang and come back: the histories are judged at the end."""

import json
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.compat.clients.admin import REQUEST_S, Admin
from tests.history.judge import judge
from tests.history.model import write
from tests.history.report import format_verdict
from tests.support.cluster_harness import LocalCluster
from tests.system.chaos.acknowledgement_gaps import acknowledgements, longest_gap_ms, summary
from tests.system.chaos.consumers import AioReader, ConfluentReader, Reader, read_to
from tests.system.chaos.groups import GroupReaders, caught_up
from tests.system.chaos.process_faults import Faults
from tests.system.chaos.producers import PacedProducer
from tests.system.chaos.recorder import Recorder, key_of

ANY_TIMESTAMP = {"message.timestamp.after.max.ms": str(2**63 - 1)}  # a leader whose clock went back would refuse most
PROGRESS_WITHIN_S = 60.0
WHOLE_WITHIN_S = 60.0
READ_WITHIN_S = 90.0
Place = Callable[[Path, random.Random], AbstractContextManager[tuple[LocalCluster, Faults]]]


class Broken(Exception):
    """A promise was broken."""


@dataclass
class Outcome:
    """`missing`: records that were acknowledged and cannot be read. `gaps_ms`: the longest that one partition
    acknowledged nothing to an idempotent producer, by kind of fault."""

    seed: int
    factor: int
    faults: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    unknown: int = 0
    read: int = 0
    missing: int = 0
    findings: dict[str, int] = field(default_factory=dict)
    allowed: dict[str, int] = field(default_factory=dict)
    surprises: dict[str, int] = field(default_factory=dict)
    gaps_ms: dict[str, dict[str, float]] = field(default_factory=dict)
    seconds: float = 0.0

    def as_json(self) -> str:
        return json.dumps({**self.__dict__, "faults": dict(self.faults), "seconds": round(self.seconds, 1)})


class ClusterRun:
    """Use `play` once. The history is left in `directory`."""

    def __init__(self, place: Place, directory: Path, *, faults: int, seed: int, factor: int, say: Callable[[str], None]) -> None:
        self.outcome = Outcome(seed, factor)
        self._place = place
        self._directory, self._faults, self._factor, self._say = directory, faults, factor, say
        self._chance = random.Random(seed)
        self._recorder = Recorder()
        self._topics: Mapping[str, int] = {}
        self._windows: list[tuple[str, int, int]] = []

    def play(self) -> Outcome:
        """Raises Broken, and whatever else shows that something is wrong."""
        started = time.monotonic()
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it tells of every disconnect
        with self._place(self._directory, self._chance) as (cluster, faults):
            self._play(cluster, faults)
        self.outcome.seconds = time.monotonic() - started
        return self.outcome

    def _play(self, cluster: LocalCluster, faults: Faults) -> None:
        self._topics = faults.topics
        admin = Admin(cluster.bootstrap)
        for topic, partitions in self._topics.items():
            admin.create(topic, partitions, {"durability": topic.partition("-")[0], **ANY_TIMESTAMP}, self._factor)
        admin.close()
        with self._producing(cluster) as producers, self._reading(cluster) as groups:
            self._advance(producers, 20)
            for number, name in zip(range(self._faults), self._drawn(faults.names()), strict=False):
                self._wait_a_moment()
                self._strike(number, name, faults, producers)
            unanswered = sum(producer.finish() for producer in producers)
            self._await_whole(cluster)
            self._read_to_end(cluster)
            if wrong := caught_up(groups, self._recorder.ends(), READ_WITHIN_S):
                raise Broken("\n".join(wrong))
        self._judge(unanswered)

    def _drawn(self, names: list[str]) -> Iterator[str]:
        """Each once before any comes again."""
        while True:
            yield from self._chance.sample(names, len(names))

    @contextmanager
    def _producing(self, cluster: LocalCluster) -> Iterator[list[PacedProducer]]:
        producers = [
            PacedProducer(self._recorder, cluster.bootstrap, topic, count, per_second=pace, idempotent=idempotent)
            for topic, count in self._topics.items()
            for pace, idempotent in ((150, True), (50, False))
        ]
        for producer in producers:
            producer.start()
        try:
            yield producers
        finally:
            for producer in producers:
                producer.close()

    @contextmanager
    def _reading(self, cluster: LocalCluster) -> Iterator[GroupReaders]:
        readers: list[Reader] = [kind(self._recorder, cluster.bootstrap, self._topics) for kind in (ConfluentReader, AioReader)]
        never_lost = {topic: count for topic, count in self._topics.items() if topic.startswith("synced")}
        groups = GroupReaders(self._recorder, cluster.bootstrap, never_lost)
        for reader in (*readers, groups):
            reader.start()
        try:
            yield groups
        finally:
            for reader in (*readers, groups):
                reader.close()

    def _strike(self, number: int, name: str, faults: Faults, producers: list[PacedProducer]) -> None:
        begun = time.monotonic_ns()
        faults.play(name)
        ready = time.monotonic_ns()
        self._advance(producers, 5)
        self._windows.append((name, begun, time.monotonic_ns()))
        self.outcome.faults[name] += 1
        taken_s, back_s = (ready - begun) / 1e9, (time.monotonic_ns() - ready) / 1e9
        self._say(
            f"{number + 1:3} {name:36} {taken_s:5.1f} s until all is ready, {back_s:5.1f} s until all is acknowledged again"
        )

    def _advance(self, producers: list[PacedProducer], records: int) -> None:
        """Returns when each partition has acknowledged that many records more to every producer."""
        before = self._counts(producers)
        deadline = time.monotonic() + PROGRESS_WITHIN_S
        while True:
            now = self._counts(producers)
            behind = [
                f"{key} of process {process}"
                for process, key in now
                if now[process, key] < before.get((process, key), 0) + records
            ]
            if not behind:
                return
            if time.monotonic() > deadline:
                raise Broken(f"nothing is acknowledged for {PROGRESS_WITHIN_S:.0f} s: {', '.join(behind)}")
            time.sleep(0.02)

    def _counts(self, producers: list[PacedProducer]) -> Mapping[tuple[int, str], int]:
        acknowledged = self._recorder.acknowledged()
        return {
            (producer.process, key_of(producer.topic, index)): acknowledged.get(
                (producer.process, key_of(producer.topic, index)), 0
            )
            for producer in producers
            for index in range(producer.partitions)
        }

    def _wait_a_moment(self) -> None:
        time.sleep(self._chance.uniform(0.2, 1.5))

    def _await_whole(self, cluster: LocalCluster) -> None:
        """Returns when every replica of every partition is in sync again."""
        admin = Admin(cluster.bootstrap)
        deadline = time.monotonic() + WHOLE_WITHIN_S
        while True:
            found = admin.client.list_topics(timeout=REQUEST_S).topics
            missing = [
                f"{key_of(topic, index)}: {sorted(set(partition.replicas) - set(partition.isrs))}"
                for topic in self._topics
                for index, partition in found[topic].partitions.items()
                if len(partition.isrs) < self._factor
            ]
            if not missing:
                return
            if time.monotonic() > deadline:
                raise Broken(f"out of sync for {WHOLE_WITHIN_S:.0f} s after all is over: {', '.join(missing)}")
            time.sleep(0.1)

    def _read_to_end(self, cluster: LocalCluster) -> None:
        for kind in (ConfluentReader, AioReader):
            reader = kind(self._recorder, cluster.bootstrap, self._topics)
            reader.start()
            try:
                short = read_to(reader, self._recorder.ends(), READ_WITHIN_S)
            finally:
                reader.close()
            if short:
                raise Broken(f"{kind.__name__} reads no further than {short}, of {dict(self._recorder.ends())}")

    def _judge(self, unanswered: int) -> None:
        history = self._recorder.history(
            read_to_end=True,
            about={"seed": self.outcome.seed, "factor": self._factor, "faults": [name for name, _, _ in self._windows]},
        )
        file = self._directory / "history.jsonl"
        write(history, file)
        verdict = judge(history)
        outcome = self.outcome
        outcome.acknowledged, outcome.unknown, outcome.read = verdict.acknowledged, verdict.unknown, verdict.read
        outcome.findings, outcome.allowed = verdict.kinds(), verdict.allowed_kinds()
        outcome.missing = verdict.kinds().get("unseen", 0)
        outcome.surprises = dict(Counter(words.partition(": ")[2].rpartition(": ")[2] for words in self._recorder.surprises))
        outcome.gaps_ms = self._gaps(acknowledgements(history.ops), history.plain)
        if verdict.findings:
            raise Broken(f"{format_verdict(verdict)}\nthe history is in {file}; surprises: {self._recorder.surprises[:20]}")
        if unanswered:
            raise Broken(f"{unanswered} records never had an answer")

    def _gaps(self, times: dict[tuple[int, str], list[int]], plain: frozenset[int]) -> dict[str, dict[str, float]]:
        steady = [found for (process, _), found in times.items() if process not in plain]
        by_kind: dict[str, list[float]] = {}
        for name, begun, ended in self._windows:
            by_kind.setdefault(name, []).append(max(longest_gap_ms(found, begun, ended) for found in steady))
        return {name: summary(gaps) for name, gaps in sorted(by_kind.items())}
