"""Tasks go on while processes of the cluster die: a storage node, a gateway, a coordinator of transactions."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from libs.wire.record_batches.records import Record
from services.pipeline.sink.handouts import prepare
from services.pipeline.sink.options import SinkOptions, read_options
from services.pipeline.sink.task_identity import TaskIdentity
from services.pipeline.sink.task_writer import write_task
from tests.pipeline.sink.arrow_rows import arrow_rows
from tests.pipeline.sink.topics import read_topic
from tests.pipeline.topics import make_topic
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

PARTITIONS = 6
TASKS = 2
ROWS = 400
NOW_MS = 1_795_000_000_000


@pytest.fixture(scope="module")
def broken_cluster() -> Iterator[LocalCluster]:
    with LocalCluster(storage=3, gateways=2, transaction_coordinators=2) as cluster:
        yield cluster


def rows_of(epoch: int, task: int) -> list[Record]:
    return [Record(b"key-%d" % (n % 40), b"%d/%d/%d" % (epoch, task, n), NOW_MS + n) for n in range(ROWS)]


class Epochs:
    """Two tasks that write epoch after epoch, as a stream does, until they are told to stop."""

    def __init__(self, options: SinkOptions, sink_id: str) -> None:
        self._options = options
        self._sink_id = sink_id
        self.stop = Event()
        self.done = 0

    def run(self) -> None:
        with ThreadPoolExecutor(TASKS) as pool:
            while not self.stop.is_set():
                list(pool.map(self._write, range(TASKS)))
                self.done += 1

    def _write(self, task: int) -> None:
        identity = TaskIdentity(self._sink_id, task, self.done, TASKS, "query")
        handout = prepare(self._options, self._sink_id, TASKS)
        rows = rows_of(self.done, task)
        write_task((arrow_rows(rows[start : start + 50]) for start in range(0, ROWS, 50)), identity, self._options, handout)


@pytest.mark.parametrize("victim", ["storage-2", "gateway-1", "transaction_coordinator-1"])
def test_epochs_go_on_exactly_while_a_process_is_killed(broken_cluster: LocalCluster, topic: str, victim: str) -> None:
    cluster = broken_cluster
    make_topic(cluster.bootstrap, topic, PARTITIONS)
    epochs = Epochs(read_options({"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic}), f"sink-{topic}")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(epochs.run)
        try:
            _let_pass(epochs, 2)
            cluster.kill(victim)
            _let_pass(epochs, 3)
            cluster.start(victim)
            cluster.wait_ready([victim])
            _let_pass(epochs, 2)
        finally:
            epochs.stop.set()
            running.result(240)
    read = [record.value for record in read_topic(cluster.bootstrap, topic)]
    assert sorted(read) == sorted(
        row.value for epoch in range(epochs.done) for task in range(TASKS) for row in rows_of(epoch, task)
    )


def _let_pass(epochs: Epochs, count: int) -> None:
    until = epochs.done + count
    eventually(lambda: epochs.done >= until, 120.0)
