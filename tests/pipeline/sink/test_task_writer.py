"""One task's transaction: written once, whatever attempts are repeated, overtaken or left behind. No Spark is needed."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from libs.wire.record_batches.records import Record
from services.pipeline.errors import SinkError
from services.pipeline.sink import steps
from services.pipeline.sink.handouts import prepare
from services.pipeline.sink.ledger import LedgerEntry
from services.pipeline.sink.options import SinkOptions, read_options
from services.pipeline.sink.task_identity import Handout, TaskIdentity
from services.pipeline.sink.task_writer import write_task
from tests.compat.kafka.tools import run_tool
from tests.pipeline.sink.arrow_rows import arrow_rows
from tests.pipeline.sink.topics import read_topic
from tests.pipeline.topics import make_topic
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

PARTITIONS = 3
WAIT_S = 60.0
NOW_MS = 1_795_000_000_000


def rows_of(epoch: int, task: int = 0, count: int = 60) -> list[Record]:
    return [
        Record(
            f"key-{n % 7}".encode() if n % 5 else None, f"{epoch}/{task}/{n}".encode(), NOW_MS + n, (("n", b"%d" % n),) * (n % 3)
        )
        for n in range(count)
    ]


@dataclass(frozen=True)
class Sink:
    options: SinkOptions
    task: TaskIdentity
    bootstrap: str
    topic: str

    def write(self, rows: Sequence[Record], **identity: object) -> LedgerEntry:
        """As an attempt of the task does, in batches of a few rows."""
        task = replace(self.task, **identity)  # type: ignore[arg-type]
        batches = (arrow_rows(rows[start : start + 25]) for start in range(0, len(rows), 25))
        return write_task(batches, task, self.options, self.handout(task))

    def handout(self, task: TaskIdentity) -> Handout:
        return prepare(self.options, task.sink_id, task.tasks)

    def values(self) -> list[bytes]:
        return sorted(record.value or b"" for record in read_topic(self.bootstrap, self.topic))


@pytest.fixture
def sink(cluster: LocalCluster, topic: str) -> Sink:
    make_topic(cluster.bootstrap, topic, PARTITIONS)
    options = read_options({"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic, "fenced.wait.ms": "20000"})
    return Sink(options, TaskIdentity(f"sink-{topic}", 0, 0, 1, "query"), cluster.bootstrap, topic)


@contextmanager
def held_at(step: str) -> Iterator[tuple[threading.Event, threading.Event]]:
    """The first thread that reaches the step stands still there: (it is there, let it go on)."""
    there, go_on = threading.Event(), threading.Event()

    def observer(reached: str) -> None:
        if reached == step and not there.is_set():
            there.set()
            assert go_on.wait(WAIT_S)

    steps.observe(observer)
    try:
        yield there, go_on
    finally:
        go_on.set()
        steps.forget(observer)


@contextmanager
def attempt_held_at(step: str, attempt: Callable[[], LedgerEntry]) -> Iterator[tuple[Future[LedgerEntry], threading.Event]]:
    with ThreadPoolExecutor(1) as pool, held_at(step) as (there, go_on):
        future = pool.submit(attempt)
        assert there.wait(WAIT_S)
        yield future, go_on


def test_rows_arrive_with_all_that_they_have_and_in_the_order_of_their_keys(sink: Sink) -> None:
    rows = rows_of(0)
    entry = sink.write(rows)
    assert entry.rows == len(rows)
    read = read_topic(sink.bootstrap, sink.topic)
    assert sorted((r.key or b"", r.value, r.timestamp, r.headers) for r in read) == sorted(
        (r.key or b"", r.value, r.timestamp, r.headers) for r in rows
    )
    for key in {row.key for row in rows} - {None}:
        assert [r.value for r in read if r.key == key] == [row.value for row in rows if row.key == key]
        assert len({r.partition for r in read if r.key == key}) == 1


def test_a_repeated_task_writes_nothing_and_counts_the_same(sink: Sink) -> None:
    first = sink.write(rows_of(0))
    assert sink.write(rows_of(0)[::-1]) == first
    assert sink.values() == sorted(row.value or b"" for row in rows_of(0))


@pytest.mark.parametrize(
    "step", ["before InitProducerId", "after InitProducerId", "after produce", "before commit", "after commit"]
)
def test_an_attempt_that_stands_still_is_overtaken_and_then_agrees(sink: Sink, step: str) -> None:
    with attempt_held_at(step, lambda: sink.write(rows_of(0))) as (slow, go_on):
        quick = sink.write(rows_of(0))
        go_on.set()
        assert slow.result(WAIT_S) == quick
    assert sink.values() == sorted(row.value or b"" for row in rows_of(0))


def test_an_open_transaction_of_another_task_does_not_hide_an_entry(sink: Sink) -> None:
    with attempt_held_at("before commit", lambda: sink.write(rows_of(0, 1), task=1)) as (other, go_on):
        first = sink.write(rows_of(0))
        assert sink.write(rows_of(0)) == first
        go_on.set()
        other.result(WAIT_S)
    assert len(sink.values()) == 2 * len(rows_of(0))


def test_epochs_follow_each_other_and_a_late_one_is_refused(sink: Sink) -> None:
    for epoch in range(3):
        sink.write(rows_of(epoch), epoch=epoch)
    with pytest.raises(SinkError, match=r"has committed epoch 2, so epoch 1 comes too late"):
        sink.write(rows_of(1), epoch=1)
    assert sink.values() == sorted(row.value or b"" for epoch in range(3) for row in rows_of(epoch))


def test_a_task_without_rows_leaves_no_entry(sink: Sink) -> None:
    assert sink.write([]).rows == 0
    assert not sink.handout(sink.task).view.entries


def test_a_task_without_rows_leaves_an_entry_where_the_epoch_may_be_given_again(sink: Sink) -> None:
    """Also beside another empty task of an earlier run: rows that are none are nobody's."""
    for run, task in (("first", 0), ("first", 0), ("second", 1)):
        sink.write([], task=task, tasks=None, run=run, enters_no_rows=True)
    with pytest.raises(SinkError, match=r"task 0: 0 rows \(0 bytes\) were committed, and the repeated task has 60"):
        sink.write(rows_of(0), tasks=None, run="third", enters_no_rows=True)
    assert sink.values() == []


@pytest.mark.parametrize("enters_no_rows", [False, True])
def test_no_rows_where_rows_were_committed_are_refused(sink: Sink, enters_no_rows: bool) -> None:
    sink.write(rows_of(0))
    eventually(lambda: sink.handout(sink.task).view.entries)  # a task that enters nothing sees what its driver has seen
    with pytest.raises(SinkError, match=r"60 rows \(\d+ bytes\) were committed, and the repeated task has 0"):
        sink.write([], enters_no_rows=enters_no_rows)
    fewer = replace(sink.handout(sink.task), rows_are_gone=True)
    assert write_task([], sink.task, sink.options, fewer).rows == 60


@pytest.mark.parametrize(
    ("identity", "complaint"),
    [
        ({"tasks": 2, "task": 1}, r"was begun with 1 tasks and is repeated with 2"),
        ({"writer": "another", "epoch": 1}, r"belongs to the query query, not to another: choose another sink\.id"),
    ],
)
def test_what_the_ledger_forbids_is_refused_before_anything_is_written(sink: Sink, identity: dict, complaint: str) -> None:
    sink.write(rows_of(0))
    with pytest.raises(SinkError, match=complaint):
        sink.write(rows_of(1), **identity)
    assert len(sink.values()) == len(rows_of(0))


def test_other_rows_than_those_that_were_committed_are_refused(sink: Sink) -> None:
    sink.write(rows_of(0))
    with pytest.raises(SinkError, match=r"60 rows \(\d+ bytes\) were committed, and the repeated task has 59"):
        sink.write(rows_of(0)[1:])


@pytest.mark.parametrize(
    "other",
    [
        {"value": b"x" * 24 + b"other" + b"x" * 24},
        {"key": b"yek"},
        {"headers": (("a", b"2"),)},
        {"timestamp": NOW_MS + 1},
        {"value": None, "key": b"key" + b"x" * 53},
    ],
    ids=str,
)
def test_as_many_rows_of_the_same_size_with_other_contents_are_refused(sink: Sink, other: dict[str, object]) -> None:
    row = Record(b"key", b"x" * 24 + b"these" + b"x" * 24, NOW_MS, (("a", b"1"),))
    sink.write([*rows_of(0), row])
    with pytest.raises(SinkError, match=r"61 rows \(\d+ bytes\) were committed, and the repeated task has 61 .* or others"):
        sink.write([*rows_of(0), row._replace(**other)])


def test_a_new_driver_that_numbers_the_tasks_anew_writes_no_row_twice(sink: Sink) -> None:
    """Task 0 had committed. Its rows are now those of task 1, and the rows of task 1 are now its own."""
    sink.write(rows_of(0, 0), tasks=None, run="dead driver")
    with pytest.raises(SinkError, match=r"60 rows \(\d+ bytes\) were committed, and the repeated task has 60 .* or others"):
        sink.write(rows_of(0, 1), tasks=None, run="new driver")
    with pytest.raises(SinkError, match=r"task 1: its 60 rows were committed as task 0; Spark has numbered the tasks"):
        sink.write(rows_of(0, 0), task=1, tasks=None, run="new driver")
    assert sink.values() == sorted(row.value or b"" for row in rows_of(0, 0))


def test_a_new_driver_that_keeps_the_tasks_numbers_writes_what_is_missing(sink: Sink) -> None:
    sink.write(rows_of(0, 0), tasks=None, run="dead driver")
    for task in (1, 0):
        sink.write(rows_of(0, task), task=task, tasks=None, run="new driver")
    assert sink.values() == sorted(row.value or b"" for task in (0, 1) for row in rows_of(0, task))


def test_another_topic_and_an_unknown_topic_are_refused(sink: Sink) -> None:
    sink.write(rows_of(0))
    make_topic(sink.bootstrap, f"{sink.topic}-2", 1)
    moved = replace(sink, options=replace(sink.options, topic=f"{sink.topic}-2"))
    with pytest.raises(SinkError, match=rf"writes to {sink.topic}, not to {sink.topic}-2"):
        moved.write(rows_of(1), epoch=1)
    lost = replace(sink, options=replace(sink.options, topic="not-there"))
    with pytest.raises(SinkError, match="there is no topic not-there: create it"):
        lost.write(rows_of(1), epoch=1)


def test_a_ledger_that_is_not_compacted_is_refused(sink: Sink) -> None:
    make_topic(sink.bootstrap, f"{sink.topic}-ledger", 1, {"cleanup.policy": "delete"})
    other = replace(sink, options=replace(sink.options, ledger_topic=f"{sink.topic}-ledger"))
    with pytest.raises(SinkError, match=r"has cleanup\.policy=delete, which would lose entries: it must be compact"):
        other.write(rows_of(0))


def test_a_record_that_is_too_large_leaves_nothing_behind(sink: Sink) -> None:
    with pytest.raises(SinkError, match="MESSAGE_TOO_LARGE"):
        sink.write([*rows_of(0), Record(b"key", b"x" * 2_000_000, NOW_MS)])
    assert sink.values() == []
    assert sink.write(rows_of(0)).rows == len(rows_of(0))


def test_a_transaction_that_takes_too_long_says_so(sink: Sink) -> None:
    hasty = replace(sink, options=replace(sink.options, transaction_timeout_ms=1_000, fenced_wait_ms=1_000))
    with attempt_held_at("after produce", lambda: hasty.write(rows_of(0))) as (slow, go_on):
        eventually(lambda: not _has_open_transaction(sink))
        go_on.set()
        with pytest.raises(SinkError, match=r"more than kafka\.transaction\.timeout\.ms=1000: raise that"):
            slow.result(WAIT_S)
    assert sink.values() == []


def _has_open_transaction(sink: Sink) -> bool:
    said = run_tool("kafka-transactions", "--bootstrap-server", sink.bootstrap, "list").text
    return any(sink.task.transactional_id in line and "Ongoing" in line for line in said.splitlines())
