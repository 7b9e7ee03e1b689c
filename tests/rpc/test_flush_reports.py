"""What the owner of a stream hears of its flushes."""

import pytest

from libs.rpc.transport.socket_stream import EARLY_SEND_BUFFERS
from tests.rpc.stream_owner import Pair
from tests.support.polling import until


async def test_the_writer_hears_at_once_of_a_turn_all_of_which_left_early(pair: Pair) -> None:
    here, there = pair
    heard: list[int] = []
    there.stream.on_flushed = lambda: heard.append(there.stream.bytes_sent)

    def answer() -> None:
        for _ in range(EARLY_SEND_BUFFERS):
            there.stream.write(b"x")

    there.on_bytes = answer
    here.stream.write(b"go")
    await until(lambda: len(here.received) == EARLY_SEND_BUFFERS)
    assert heard == [EARLY_SEND_BUFFERS]
    assert there.stream.sends == 1


@pytest.mark.parametrize("size", [1, 20_000_000], ids=["all left", "the socket is full"])
async def test_an_owner_that_fails_when_it_hears_of_a_flush_loses_its_connection_only(
    pair: Pair, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    here, there = pair
    there.stream.pause_reading()

    def fail() -> None:
        raise ZeroDivisionError

    here.stream.on_flushed = fail
    here.stream.write(bytes(size))
    await until(lambda: bool(here.lost))
    assert isinstance(here.lost[0], ZeroDivisionError)
    assert "receiver failed" in caplog.text
    there.stream.resume_reading()
    await until(lambda: bool(there.lost))
