"""The load of three clients while a cluster changes its version, their gaps, and the verdict on what each was told.

librdkafka, Java's client and aiokafka have an idempotent producer with acks=all each, and a consumer of a feed. Three groups read
the feed and commit. A transactional producer moves amounts, and a copier copies them in transactions with its group's offsets.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bench.client_gaps.log_comparison import compared, compared_with_feed, read_all
from tests.bench.client_gaps.run import probe
from tests.bench.client_gaps.streams import Stream
from tests.compat.clients.admin import Admin
from tests.support.polling import eventually
from tests.system.chaos.acknowledgement_gaps import longest_gap_ms
from tests.system.chaos.transactions.committed_reads import read_committed
from tests.system.chaos.transactions.copiers import Copier
from tests.system.chaos.transactions.run import committed_values, working
from tests.system.chaos.transactions.tellers import COMMITTED, PARTITIONS, TOPIC, Teller, Transfers
from tests.system.chaos.transactions.verdict import WRONG, verdict
from tests.system.faults.group_readers import Readers

CLIENTS = ("librdkafka", "java", "aiokafka")
FEED, COPY = "feed", "copies"
PER_SECOND = 15
"""Records of each producer. The CPU of the test grows with them, and each client has a request under way at any pace."""
TELLER_PAUSE_S = 0.05
STEADY_S = 1.0
WITHIN_S, STARTED_WITHIN_S = 120.0, 300.0
"""Java compiles its programs first, which takes a busy machine minutes."""
SESSION_MS = 45_000
"""Kafka's default. A loaded machine may keep a client from a processor for ten seconds."""
MEMORY = Path("/dev/shm")
"""Where the streams write their lines: on the cluster's disk, the file system would write them with each sync of a log."""
Figure = dict[str, object]


class Load:
    """Use as a context manager. Then `measured` as often as needed, and `finish` before its end."""

    def __init__(self, bootstrap: str, admin: Admin, directory: Path, seed: int) -> None:
        """`directory`: on the cluster's disk."""
        self._bootstrap = bootstrap
        self._admin = admin
        self._directory = directory
        self._stack, self._telling, self._copying = ExitStack(), ExitStack(), ExitStack()
        self._transfers = Transfers()
        self._teller = Teller(bootstrap, 0, seed, self._transfers, pause_s=TELLER_PAUSE_S)
        self._copier = Copier(bootstrap, "copier", TOPIC, COPY, session_ms=SESSION_MS)
        self._readers = Readers(bootstrap, FEED, 1)

    def __enter__(self) -> "Load":
        with ExitStack() as stack:
            self._admin.create(FEED, 1, replicas=3)
            for topic in map(_topic, CLIENTS):
                self._admin.create(topic, 1, replicas=3)
            for topic in (TOPIC, COPY):
                self._admin.create(topic, PARTITIONS, replicas=3)
            memory = MEMORY if MEMORY.is_dir() else None
            self._lines = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-upgrade-", dir=memory)))
            self._probes = [stack.enter_context(probe(mode, self._directory, self._lines)) for mode in ("processor", "disk")]
            self._feeder = self._stream(stack, "feeder", CLIENTS[0], "produce", FEED)
            self._producers = [self._stream(stack, f"{client}-out", client, "produce", _topic(client)) for client in CLIENTS]
            self._consumers = [self._stream(stack, f"{client}-in", client, "consume", FEED) for client in CLIENTS]
            stack.enter_context(self._readers)
            for ending, work in ((self._copying, self._copier.run), (self._telling, self._teller.run)):
                stack.enter_context(ending)
                ending.enter_context(working(work))
            eventually(lambda: all(stream.times_us for stream in self._read()), STARTED_WITHIN_S)
            self.advance()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def advance(self) -> None:
        """Returns when each client has gone on for a while."""
        streams = self._read()
        wanted = {stream: len(stream.times_us) + int(STEADY_S * PER_SECOND) for stream in streams}
        transfers, read = self._committed() + 5, [len(group.read) + PER_SECOND for group in self._readers.groups]
        eventually(lambda: all(len(stream.times_us) >= wanted[stream] for stream in self._read()), WITHIN_S)
        eventually(lambda: self._committed() >= transfers, WITHIN_S)
        eventually(
            lambda: all(len(group.read) >= least for group, least in zip(self._readers.groups, read, strict=True)), WITHIN_S
        )
        self._readers.check()

    @contextmanager
    def measured(self, phase: str, figures: list[Figure]) -> Iterator[None]:
        """Adds the longest gap of each client during the block, until all of them have gone on after it, and the machine's own:
        how long a small process waited for a processor, and for a disk."""
        failed = {stream: len(stream.failures) for stream in self._read()}
        begun_ns = time.time_ns()
        yield
        self.advance()
        ended_ns = time.time_ns()
        for stream in (*self._read(), *self._probes):
            stream.read()
            gap_ms = longest_gap_ms([at_us * 1000 for at_us in stream.times_us], begun_ns, ended_ns)
            told = {"client": stream.client, "side": stream.mode, "gap_ms": round(gap_ms, 1)}
            figures.append({"case": phase, **told, "failed": len(stream.failures) - failed.get(stream, 0)})

    def finish(self) -> Figure:
        """Ends all clients, and tells what was lost, doubled or wrong: empty lists and zeros, else something was."""
        for each in (*self._producers, self._feeder):
            each.end()
        self._telling.close()
        feed = read_all(self._bootstrap, FEED)
        eventually(lambda: all(consumer.has_received(max(feed)) for consumer in self._consumers), WITHIN_S)
        for consumer in self._consumers:
            consumer.end()
        self._readers.catch_up({0: max(feed) + 1})
        return {
            "producers": {p.client: compared(p, self._stored(p.client)) for p in self._producers},
            "consumers": {consumer.client: compared_with_feed(consumer, feed) for consumer in self._consumers},
            "read_twice": {group.name: len(group.twice) for group in self._readers.groups},
            "transactions": self._transactions(),
        }

    def _transactions(self) -> Figure:
        """Once the teller has ended: no transaction of its own is open."""
        transfers = read_committed(self._bootstrap, TOPIC, PARTITIONS)
        count = sum(map(len, transfers.records))
        eventually(lambda: len(committed_values(self._bootstrap, COPY)) >= count, WITHIN_S)
        self._copying.close()
        copies = {COPY: committed_values(self._bootstrap, COPY)}
        wrong = verdict(self._transfers.outcomes, transfers, copies, [transfers.as_read()])
        return {
            "committed": self._committed(),
            "aborted_copies": self._copier.aborts,
            "errors": [*self._transfers.errors, *self._copier.errors],
            **{name: wrong[name] for name in WRONG},
        }

    def _stored(self, client: str) -> dict[int, int]:
        return read_all(self._bootstrap, _topic(client))

    def _committed(self) -> int:
        return list(self._transfers.outcomes.values()).count(COMMITTED)

    def _read(self) -> list[Stream]:
        streams = [*self._producers, *self._consumers]
        for stream in streams:
            stream.read()
            stream.expect_running()
        return streams

    def _stream(self, stack: ExitStack, name: str, client: str, mode: str, topic: str) -> Stream:
        arguments = [self._bootstrap, topic, "0", "0", str(PER_SECOND)]
        return stack.enter_context(Stream(client, mode, arguments, self._lines / name))


def _topic(client: str) -> str:
    return f"of-{client}"
