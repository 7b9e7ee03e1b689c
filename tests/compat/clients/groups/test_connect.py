"""Kafka Connect in distributed mode: its workers are members of a group of a protocol of their own, "connect"."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compat.clients.groups.connect import Worker
from tests.compat.clients.groups.offsets import GroupAdmin
from tests.compat.clients.transactions.topic_reader import TopicReader
from tests.support.polling import eventually

WITHIN_S = 60.0


def committed_lines(bootstrap: str, topic: str) -> tuple[int, list[str]]:
    """The offset behind the last committed record of the topic, and all of them."""
    with TopicReader(bootstrap, topic, 1) as reader:
        (records,) = reader.read_to_end()
        return reader.behind[0], [line for _, line in records]


@pytest.fixture
def workers(bootstrap: str, group: str, tmp_path: Path) -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        made = [Worker(bootstrap, group, tmp_path / name) for name in ("first", "second")]
        for worker in made:
            stack.callback(worker.close)
        for worker in made:
            worker.start()
        for worker in made:
            worker.until_started()
        yield made


def test_lines_go_from_a_file_to_a_file_once_each_while_workers_are_killed_and_come_back(
    workers: list[Worker], admin: GroupAdmin, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """Records committed before a worker's death are neither read nor written again; later ones are not lost. The source commits
    its position with its records."""
    admin.create(topic)
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    written: list[str] = []

    def write(count: int) -> None:
        new = [f"line {number}" for number in range(len(written), len(written) + count)]
        written.extend(new)
        with open(source, "a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in new)

    def arrived(worker: Worker) -> bool:
        """All of it in the topic and in the sink's file, and committed as such."""
        lines = sink.read_text(encoding="utf-8").splitlines() if sink.exists() else []
        if (
            len(lines) < len(written)
            or admin.committed("connect-to-file").get((topic, 0)) != committed_lines(bootstrap, topic)[0]
        ):
            return False
        offsets = worker.get("/connectors/from-file/offsets")
        return bool(offsets) and [at["offset"]["position"] for at in offsets["offsets"]] == [source.stat().st_size]

    first, second = workers
    write(200)
    from_file = {"connector.class": "FileStreamSource", "file": str(source), "topic": topic, "tasks.max": "1"}
    first.put("from-file", {**from_file, "exactly.once.support": "required"})
    first.put("to-file", {"connector.class": "FileStreamSink", "file": str(sink), "topics": topic, "tasks.max": "1"})
    eventually(lambda: arrived(first), WITHIN_S)
    # Two connectors with a task each, which two workers share.
    places = {name: first.where(name) for name in ("from-file", "to-file")}
    assert all(set(parts) == {"connector", "task 0"} for parts in places.values()), places
    assert {worker for parts in places.values() for worker in parts.values()} == {first.id, second.id}

    first.kill()
    write(200)
    eventually(lambda: arrived(second), WITHIN_S)
    assert {worker for name in places for worker in second.where(name).values()} == {second.id}

    second.kill()
    write(200)
    first.start()
    first.until_started()
    eventually(lambda: arrived(first), WITHIN_S)
    assert sink.read_text(encoding="utf-8").splitlines() == written
    assert committed_lines(bootstrap, topic)[1] == written
