"""A log that starts within a batch moves to another directory like any other."""

from libs.wire.errors import ErrorCode
from tests.storage.cluster import StorageCluster, batch
from tests.storage.two_directories import both, controller, home, move, other, stored
from tests.support.polling import until

__all__ = ["both", "controller"]


async def test_a_log_whose_start_lies_within_a_batch_moves(both: StorageCluster) -> None:
    topic = await both.topic("lines")
    await both.append(topic, batch(b"a", b"b", b"c", b"d"))
    await both.append(topic, batch(b"e", b"f"))
    assert (await both.delete_records(topic, 2)).error == 0
    there = other(both, topic)
    assert await move(both, topic, there.path) == ErrorCode.NONE
    await until(lambda: home(both, topic) is there)
    assert await stored(both, topic, 2) == [b"c", b"d", b"e", b"f"]
