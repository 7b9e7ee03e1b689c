"""The clients of a stream's group: none is left when it is closed."""

from contextlib import suppress
from pathlib import Path

from services.pipeline.observing.group import StreamGroup
from services.pipeline.spark.cluster import ClusterSettings
from tests.support.polling import eventually


def librdkafka_threads() -> int:
    """Each client has a thread of this name. A thread that it begins has it too, until it gives itself another."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            names.append(task.joinpath("comm").read_text(encoding="utf-8").strip())
    return names.count("rdk:main")


def test_a_closed_group_has_no_threads_though_it_is_kept() -> None:
    before = librdkafka_threads()
    group = StreamGroup(ClusterSettings("127.0.0.1:1"), "group")
    eventually(lambda: librdkafka_threads() == before + 2)
    group.close()
    eventually(lambda: librdkafka_threads() == before)
    assert group.group == "group"
